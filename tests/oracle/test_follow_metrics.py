"""examples/follow_metrics.py: every step once, in order, while a run goes on, is cut short and resumed; stand-ins of the libraries get what theirs would."""
import json
import pathlib
import subprocess
import sys
import time

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "examples/follow_metrics.py"


def line(step, **more):
    return json.dumps(dict(step=step, loss=4.0 / step, grad_norm=None, tokens=step * 64, experts=[dict(layer=0)], **more)) + "\n"


def passed_on(folder, *options, env=None):
    done = subprocess.run([sys.executable, SCRIPT, folder, *options], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    return [json.loads(text) for text in done.stdout.splitlines()]


def test_once(tmp_path):
    (tmp_path / "metrics.jsonl").write_text(line(1) + line(2, validation_loss=3.5) + line(3)[:-9])
    assert passed_on(tmp_path, "--print", "--once") == [dict(step=1, loss=4.0, tokens=64), dict(step=2, loss=2.0, tokens=128, validation_loss=3.5)]


def test_while_it_goes_on(tmp_path):
    """Incomplete lines wait for their ends; lines that a resumed run removes and writes again are passed on once."""
    path = tmp_path / "metrics.jsonl"
    path.write_text(line(1) + line(2)[:10])
    process = subprocess.Popen([sys.executable, SCRIPT, tmp_path, "--print", "--every", "0.05"], stdout=subprocess.PIPE, text=True)
    assert json.loads(process.stdout.readline())["step"] == 1
    path.write_text(line(1) + line(2) + line(3))
    assert [json.loads(process.stdout.readline())["step"] for _ in range(2)] == [2, 3]
    path.write_text(line(1) + line(2))
    time.sleep(0.3)
    path.write_text(line(1) + line(2) + line(3) + line(4))
    assert json.loads(process.stdout.readline())["step"] == 4
    (tmp_path / "summary.json").write_text("{}")
    assert process.wait(timeout=60) == 0 and process.stdout.read() == ""


@pytest.mark.parametrize("sink", ["wandb", "mlflow"])
def test_libraries(tmp_path, sink):
    (tmp_path / "stand_ins").mkdir()
    (tmp_path / f"stand_ins/{sink}.py").write_text(
        "import json\nclass say:\n  def __init__(self, name): self.name = name\n"
        "  def __call__(self, *a, **k): print(json.dumps([self.name, a, k]))\n"
        "init, log, finish = say('init'), say('log'), say('finish')\n"
        "set_experiment, start_run, log_text, log_metrics, end_run = (say(n) for n in ('set_experiment', 'start_run', 'log_text', 'log_metrics', 'end_run'))\n")
    run = tmp_path / "first"
    run.mkdir()
    (run / "metrics.jsonl").write_text(line(1) + line(2))
    (run / "config.yaml").write_text("seed: 7\n")
    said = passed_on(run, f"--{sink}", "mine", "--once", env=dict(PYTHONPATH=str(tmp_path / "stand_ins"), PATH=""))
    if sink == "wandb":
        assert said[0] == ["init", [], dict(project="mine", name="first", config=dict(run="seed: 7\n"))]
        assert said[1:] == [["log", [dict(loss=4.0, step=1.0, tokens=64.0)], dict(step=1)], ["log", [dict(loss=2.0, step=2.0, tokens=128.0)], dict(step=2)],
                            ["finish", [], {}]]
    else:
        assert said[:3] == [["set_experiment", ["mine"], {}], ["start_run", [], dict(run_name="first")], ["log_text", ["seed: 7\n", "config.yaml"], {}]]
        assert [words[0] for words in said[3:]] == ["log_metrics", "log_metrics", "end_run"] and said[4][2] == dict(step=2)


def test_wrong(tmp_path):
    done = subprocess.run([sys.executable, SCRIPT, tmp_path / "nowhere", "--print"], capture_output=True, text=True)
    assert done.returncode != 0 and "is not a folder; name a run's output" in done.stderr

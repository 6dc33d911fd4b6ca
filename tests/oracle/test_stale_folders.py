"""Remains of killed exports, imports and merges: the next command that writes a folder of that name removes them, but no files of other
processes or of the user."""
import os
import shutil
import signal
import subprocess

import pytest
from parity import TRIREME, trireme, yaml_of

MODEL = dict(family="gpt2", num_layers=4, hidden_size=512, num_heads=2, vocab_size=257, max_sequence=32)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("left")
    (folder / "text.txt").write_text("pull the oars in time\n" * 500)
    trireme("prepare", "--tokenizer", "bytes", "--out", folder / "corpus", folder / "text.txt")
    (folder / "run.yaml").write_text(yaml_of(dict(model=MODEL, data=dict(train=str(folder / "corpus/train"), sequence=16), layout=dict(micro_batch=2),
                                                  optimizer=dict(global_batch=2, steps=1, lr=1e-3), output=str(folder / "run"))))
    trireme("train", folder / "run.yaml")
    trireme("export", folder / "run", folder / "exported")
    return folder


def words_of(command, run, to):
    return {"export": ["export", run / "run", to], "import": ["import", run / "exported", to],
            "merge": ["merge", "--out", to, run / "exported", run / "exported"]}[command]


def left_of(to):
    return sorted(path.name for path in to.parent.glob(to.name + ".tmp-*"))


def stopped_in(command, run, to):
    """The command, stopped while it writes."""
    for _ in range(50):
        process = subprocess.Popen([TRIREME, *map(str, words_of(command, run, to))], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        while process.poll() is None:
            if any((to.parent / name / "LOCK").exists() for name in left_of(to)):
                process.send_signal(signal.SIGSTOP)
                os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
                break
        if process.poll() is None and not to.exists():
            return process
        process.send_signal(signal.SIGCONT)
        process.communicate()
        shutil.rmtree(to)
    raise AssertionError("it is never caught at work")


@pytest.mark.parametrize("command", ["export", "import", "merge"])
def test_killed(tmp_path, run, command):
    to = tmp_path / "a folder"
    process = stopped_in(command, run, to)
    process.kill()
    process.communicate()
    (left,) = left_of(to)
    for name in ("a folder.tmp-x", "a folder.tmp-", "a folder.tmp-12", "another.tmp-12"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "mine").write_text("kept")
    shutil.copytree(tmp_path / left, tmp_path / "another.tmp-ab")
    os.symlink(run / "run", tmp_path / "a folder.tmp-34")
    done = trireme(*words_of(command, run, to))
    assert done.stderr.count(", which a killed process left behind") == 1, done.stderr
    assert left_of(to) == ["a folder.tmp-", "a folder.tmp-12", "a folder.tmp-34", "a folder.tmp-x"] and (run / "run").is_dir()
    assert (tmp_path / "another.tmp-12/mine").exists() and (tmp_path / "another.tmp-ab/LOCK").exists()
    assert not (to / "LOCK").exists()
    trireme("inspect", to)


def test_alive(tmp_path, run):
    """A stopped process is alive: its files are kept, and it fails at its end if the name is in use by then."""
    to = tmp_path / "out"
    process = stopped_in("export", run, to)
    before = left_of(to)
    done = trireme(*words_of("export", run, to))
    assert "left behind" not in done.stderr and left_of(to) == before
    process.send_signal(signal.SIGCONT)
    said = process.communicate()[1]
    assert process.returncode == 5 and "cannot rename" in said, said
    assert left_of(to) == [] and not (to / "LOCK").exists()
    trireme("inspect", to)

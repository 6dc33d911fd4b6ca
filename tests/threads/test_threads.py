"""Every place of the program where threads meet, for a build under ThreadSanitizer (scripts/tsan.sh): saves in the
background, the watchdog, the thread that waits for signals, snapshots, the recorder, OpenMP's loops in kernels and
checksums, `prepare`'s readers and encoders, trials side by side, a server. A report of the sanitizer's fails the test, whichever
process made it: each process leaves its reports in a file of its own, which no launcher can lose."""
import concurrent.futures
import http.client
import json
import os
import shutil
import signal
import subprocess
import time

import pytest

TRIREME = os.environ["TRIREME"]
MODEL = dict(family="gpt2", num_layers=2, hidden_size=32, num_heads=4, vocab_size=257, max_sequence=32, dropout=0.1)
needs_launcher = pytest.mark.skipif(shutil.which("mpiexec") is None, reason="SKIPPED: there is no mpiexec")


@pytest.fixture
def watched(tmp_path):
    """The environment of a watched process; at the end there is no report."""
    reports = tmp_path / "reports"
    reports.mkdir()
    options = f"{os.environ.get('TSAN_OPTIONS', '')}:log_path={reports}/of"
    yield {**os.environ, "TSAN_OPTIONS": options, "OMP_NUM_THREADS": "2"}
    said = "\n".join(path.read_text() for path in sorted(reports.iterdir()))
    assert said == "", said[:20000]


def trireme(watched, *arguments, status=0):
    done = subprocess.run([TRIREME, *map(str, arguments)], capture_output=True, text=True, errors="replace", env=watched, timeout=600)
    assert done.returncode == status, done.stderr
    return done


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "text.txt").write_text("".join(f"Line {i}: the rowers pull {i * 7919 % 1000} times.\n" for i in range(3000)))
    subprocess.run([TRIREME, "prepare", "--tokenizer", "bytes", "--out", folder / "data", folder / "text.txt"], check=True, capture_output=True)
    return folder / "data"


def write_run(folder, corpus, steps=6, layout=None, **checkpoint):
    run = dict(
        model=MODEL, data=dict(train=str(corpus / "train"), validation=str(corpus / "validation"), sequence=32),
        layout=dict(micro_batch=2, **(layout or {})), optimizer=dict(global_batch=8, steps=steps, lr=1e-3), threads=2, seed=5,
        evaluation=dict(every=3, batches=1), checkpoint={**dict(every=1, keep=2, shard_bytes=20000), **checkpoint}, output=str(folder / "run"))
    (folder / "run.yaml").write_text(json.dumps(run))
    return folder / "run.yaml"


def losses(folder):
    return [json.loads(line)["loss"] for line in open(folder / "run/metrics.jsonl")]


def test_one_rank(tmp_path, corpus, watched):
    """Saves in the background, a resumed run that verifies them, and those who read the checkpoint."""
    path = write_run(tmp_path, corpus, **{"async": True})
    trireme(watched, "train", path, "--timeline", tmp_path / "t.svg")
    again = trireme(watched, "train", path, "--set", "optimizer.steps=8")
    assert "resuming from" in again.stderr and len(losses(tmp_path)) == 8
    newest = tmp_path / "run/checkpoints/step-00000008"
    trireme(watched, "inspect", newest, "--verify")
    trireme(watched, "eval", newest, corpus / "validation", "--json")
    trireme(watched, "generate", newest, "--prompt", "Line", "--tokens", 4)


@pytest.mark.parametrize("precision,device", [("bf16", "cpu"), ("fp64", "reference")])
def test_kernels(tmp_path, corpus, watched, precision, device):
    trireme(watched, "train", write_run(tmp_path, corpus, steps=2), "--set", f"precision={precision}", "--set", f"device={device}")


@needs_launcher
@pytest.mark.parametrize("layout", [dict(data=2, zero=1), dict(data=2, zero=3), dict(pipeline=2), dict(tensor=2)],
                         ids=["data2-zero1", "data2-zero3", "pipeline2", "tensor2"])
def test_two_ranks(tmp_path, corpus, watched, layout):
    path = write_run(tmp_path, corpus, layout=layout, **{"async": True, "snapshot_every": 2})
    trireme(watched, "train", path, "-n", 2, "--timeline", tmp_path / "t.svg")
    trireme(watched, "train", path, "-n", 2, "--set", "optimizer.steps=8")
    assert len(losses(tmp_path)) == 8


def wait_for_step(folder, process, step):
    path = folder / "run/metrics.jsonl"
    while process.poll() is None and (not path.exists() or path.read_text().count("\n") < step):
        time.sleep(0.01)
    assert process.poll() is None, process.communicate()[1]


@pytest.mark.parametrize("ranks", [1, pytest.param(2, marks=needs_launcher)])
def test_interrupt(tmp_path, corpus, watched, ranks):
    path = write_run(tmp_path, corpus, steps=100000, **{"async": True})
    process = subprocess.Popen([TRIREME, "train", path, *(["-n", str(ranks)] if ranks > 1 else [])], stderr=subprocess.PIPE, text=True, env=watched)
    wait_for_step(tmp_path, process, 3)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 130 and "interrupted after step" in errors, errors


@needs_launcher
def test_stuck_rank(tmp_path, corpus, watched):
    """The watchdog's thread writes what it finds while the rank waits in a collective."""
    path = write_run(tmp_path, corpus, steps=100000, layout=dict(data=2))
    process = subprocess.Popen([TRIREME, "train", path, "-n", "2", "--set", "hang_timeout=3"], stderr=subprocess.PIPE, text=True, env=watched)
    wait_for_step(tmp_path, process, 3)
    ranks = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if is_rank(pid, path)]
    os.kill(ranks[1], signal.SIGSTOP)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 9 and "no progress for 3 s" in errors, errors


def is_rank(pid, path):
    try:
        words = open(f"/proc/{pid}/cmdline", "rb").read().split(b"\0")
        around = open(f"/proc/{pid}/environ", "rb").read().split(b"\0")
    except OSError:
        return False
    return str(path).encode() in words and any(word.startswith((b"OMPI_COMM_WORLD_RANK=", b"PMI_RANK=")) for word in around)


@pytest.mark.parametrize("tokenizer", ["bytes", "train:400"])
def test_prepare(tmp_path, watched, tokenizer):
    """Four encoders, a reader and a writer over some blocks of text and of documents."""
    (tmp_path / "a.txt").write_text("".join(f"Oar {i} of {i * 7919 % 1000}.\n" for i in range(150000)))
    (tmp_path / "b.jsonl").write_text("".join(json.dumps(dict(text=f"Bench {i}, row {i % 7}.")) + "\n" for i in range(20000)))
    made = []
    for threads in (1, 4):
        out = tmp_path / f"out-{threads}"
        trireme(watched, "prepare", "--tokenizer", tokenizer, "--threads", threads, "--out", out, tmp_path / "a.txt", tmp_path / "b.jsonl")
        made.append((out / "train.bin").read_bytes())
    assert made[0] == made[1]


def test_prepare_of_a_bad_line(tmp_path, watched):
    lines = [json.dumps(dict(text=f"Bench {i}, row {i % 7}.")) for i in range(60000)]
    lines[40000] = "{"
    (tmp_path / "b.jsonl").write_text("\n".join(lines))
    done = trireme(watched, "prepare", "--tokenizer", "bytes", "--threads", 4, "--out", tmp_path / "out", tmp_path / "b.jsonl", status=4)
    assert "40001" in done.stderr, done.stderr


def test_tune_and_plan(tmp_path, watched):
    study = dict(name="small", model="gpt2-124m", cluster="frontier", devices=16, global_batch=64, trials=8,
                 space=[dict(name="pipeline", values="1 2 4"), dict(name="tensor", values="1 2 4"), dict(name="micro_batch", low=1, high=4)])
    (tmp_path / "study.yaml").write_text(json.dumps(study))
    found = trireme(watched, "tune", tmp_path / "study.yaml", "--json")
    assert len(json.loads(found.stdout)["trials"]) == 8
    trireme(watched, "plan", "--model", "gpt2-124m", "--cluster", "frontier", "--devices", 16, "--global-batch", 64, "--json")


def test_serve(tmp_path, corpus, watched):
    """HTTP's threads and the engine's: streams and whole answers, clients that leave, and the end while requests run."""
    trireme(watched, "train", write_run(tmp_path, corpus, steps=1))
    words = [TRIREME, "serve", tmp_path / "run", "--port", "0", "--no-token", "--batch", "2", "--ping", "0.1"]
    with subprocess.Popen([*map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=watched) as process:
        said = process.stdout.readline()
        if "without libmicrohttpd" in (said or process.stderr.read()):
            pytest.skip("SKIPPED: this trireme was built without libmicrohttpd")
        port = int(said.strip().rstrip("/").rsplit(":", 1)[1])

        def ask(i):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
            connection.request("POST", "/v1/completions", json.dumps(dict(prompt="Line", max_tokens=20, n=1 + i % 3, stream=i % 2 == 0, logprobs=i % 2)),
                               {"Content-Type": "application/json"})
            if i % 3 > 0:
                assert connection.getresponse().read()
            connection.close()

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(ask, range(48)))
            last = [pool.submit(ask, 1) for _ in range(6)]
            time.sleep(0.1)
            process.send_signal(signal.SIGTERM)
            for answer in last:
                answer.exception()
        process.communicate(timeout=120)
        assert process.returncode == 130

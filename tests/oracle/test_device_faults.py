"""Error messages about a device that is absent, has too little memory, or fails during a run; and only the steps after the last checkpoint
are lost."""
import json
import pathlib
import re
import shutil
import subprocess
import time

import pytest
from parity import program_of, trireme

MODEL = dict(family="gpt2", num_layers=2, hidden_size=16, num_heads=2, vocab_size=257, max_sequence=16, dropout=0.1)
STEPS, EVERY = 12, 2
needs_mpi = pytest.mark.skipif(shutil.which("mpiexec") is None, reason="SKIPPED: there is no mpiexec")
RANKS = [1, pytest.param(2, marks=needs_mpi)]
LAYOUTS = {1: {}, 2: dict(data=2, zero=1)}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "text.txt").write_text("".join(f"Stroke {i} of {i * 7919 % 1000}.\n" for i in range(400)))
    trireme("prepare", "--tokenizer", "bytes", "--out", folder / "data", folder / "text.txt")
    return folder / "data"


def write_run(folder, corpus, ranks, device="guarded", **more):
    run = dict(model=MODEL, data=dict(train=str(corpus / "train"), validation=str(corpus / "validation"), sequence=16),
               layout=dict(micro_batch=1, **LAYOUTS[ranks]), optimizer=dict(global_batch=4, steps=STEPS, lr=1e-2),
               evaluation=dict(every=5, batches=1), checkpoint=dict(every=EVERY, keep=2), threads=1, seed=3, device=device,
               precision="fp64", output=str(folder / "run"))
    (folder / "run.yaml").write_text(json.dumps({**run, **more}))
    return folder / "run.yaml"


def train(path, ranks, *sets):
    words = [word for change in sets for word in ("--set", change)]
    return subprocess.run([program_of(path, *words), "train", path, *(["-n", str(ranks)] if ranks > 1 else []), *words], capture_output=True, text=True, timeout=300)


def last_words(done, status):
    """The one message of a failure."""
    assert done.returncode == status, (done.returncode, done.stderr)
    lines = [line for line in done.stderr.splitlines() if line.startswith("trireme: ")]
    assert len(lines) == 1, done.stderr
    assert "mpi" not in done.stderr.lower() and "still held" not in done.stderr, done.stderr
    return lines[0]


def processes_of(path):
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and str(path).encode() in (entry / "cmdline").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            pass
    return found


def expect_nothing_left(path):
    """The kernel takes a moment to bury who has ended."""
    end = time.monotonic() + 60
    while processes_of(path) and time.monotonic() < end:
        time.sleep(0.02)
    assert not processes_of(path)


def steps_of(folder):
    path = folder / "run/metrics.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def state_of(folder):
    newest = sorted((folder / "run/checkpoints").glob("step-*"))[-1]
    assert newest.name == f"step-{STEPS:08d}"
    lines = [(line["step"], line["loss"], line["grad_norm"]) for line in steps_of(folder)]
    assert [line[0] for line in lines] == list(range(1, STEPS + 1))
    return lines, [(newest / name).read_bytes() for name in ("model.safetensors", "optimizer.safetensors")]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, corpus):
    """What each number of ranks comes to on the reference device."""
    found = {}

    def state(ranks):
        if ranks not in found:
            folder = tmp_path_factory.mktemp("undisturbed")
            trireme("train", write_run(folder, corpus, ranks, device="reference"), *(["-n", ranks] if ranks > 1 else []))
            found[ranks] = state_of(folder)
        return found[ranks]

    return state


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("name", ["gpus", "guardedly", "Guarded", "reference2"])
def test_no_such_device(tmp_path, corpus, name, ranks):
    path = write_run(tmp_path, corpus, ranks, device=name)
    said = last_words(train(path, ranks), 3)
    assert f"`{name}` is not a device" in said and re.search("auto.*cpu.*reference.*gpu", said), said
    expect_nothing_left(path)
    assert not steps_of(tmp_path)


@pytest.mark.parametrize("reader", ["eval", "generate"])
def test_no_such_device_to_read_with(tmp_path, corpus, reader):
    trireme("train", write_run(tmp_path, corpus, 1, device="reference"), "--set", "optimizer.steps=1")
    words = [corpus / "train"] if reader == "eval" else ["--prompt", "a"]
    done = trireme(reader, tmp_path / "run", *words, "--device", "gpus", status=3)
    assert "`gpus` is not a device" in done.stderr and done.stdout == ""


@pytest.mark.parametrize("options, words", [
    ("fail_copy", "fail_copy"), ("fail_copy=0", "fail_copy"), ("fail_copy=x", "fail_copy"), ("fail=3", "fail"), ("seed=-1", "seed"),
    ("seed=1;fail_copy=2", "seed=1;fail_copy=2"), ("=", "=")])
def test_wrong_options(tmp_path, corpus, options, words):
    said = last_words(train(write_run(tmp_path, corpus, 1, device=f"guarded:{options}"), 1), 3)
    assert words in said and "device: guarded" in said, said


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("device", ["reference", "guarded"])
def test_memory_limit_below_the_plan(tmp_path, corpus, device, ranks):
    """Refused by part before anything is allocated: the device, told to fail its first allocation, is not asked for one."""
    options = ":fail_memory=1" if device == "guarded" else ""
    path = write_run(tmp_path, corpus, ranks, device=device + options, device_memory=40000)
    said = last_words(done := train(path, ranks), 6)
    assert "fail_memory" not in done.stderr and f"the device {device}" in said and "39.06 KiB" in said, said
    assert all(part in done.stderr for part in ("parameters", "gradients", "optimizer", "activations")), done.stderr
    expect_nothing_left(path)
    assert not steps_of(tmp_path)


def test_memory_limit_to_the_byte(tmp_path, corpus):
    """One byte less than the plan needs is refused; that is enough, though nothing is left to measure the peak with."""
    path = write_run(tmp_path, corpus, 1, device_memory=1)
    needed = int(re.search(r"needs (\d+) bytes", last_words(train(path, 1), 6))[1])
    said = last_words(train(path, 1, f"device_memory={needed - 1}"), 6)
    assert f"needs {needed} bytes" in said and f"has {needed - 1} " in said, said
    done = train(path, 1, f"device_memory={needed}")
    assert done.returncode == 0 and "no memory left to measure the peak with" in done.stderr, done.stderr
    assert [line["step"] for line in steps_of(tmp_path)] == list(range(1, STEPS + 1))


# fault: (option of the device, exit status, pattern of the message). Devices allocate their memory at the start, so an allocation fails
# before any step.
FAULTS = {"memory": ("fail_memory", 6, "allocation"), "copy": ("fail_copy", 11, "kernel `copy`"), "kernel": ("fail_kernel", 11, r"kernel `\w+` of ")}


def number_in_the_middle(folder, corpus, option, ranks):
    """Lets copy or kernel number N of the last rank fail, for increasing N, until a run does some of its steps and not all. Returns that run."""
    number = 16
    while number < 1 << 20:
        path = write_run(folder, corpus, ranks, device=f"guarded:{option}={number},rank={ranks - 1}")
        done = train(path, ranks)
        made = len(steps_of(folder))
        if EVERY < made < STEPS and done.returncode != 0:
            return done
        assert done.returncode != 0, f"{number} is beyond the run's, and a smaller one failed before step {EVERY}"
        shutil.rmtree(folder / "run", ignore_errors=True)
        number += number // 2
    raise AssertionError("no number lies in the middle")


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("fault", FAULTS)
def test_fails_in_the_middle(tmp_path, corpus, undisturbed, fault, ranks):
    """The device of the last rank fails. The other ranks end, too, and the run resumes from the last checkpoint with the same results."""
    option, status, words = FAULTS[fault]
    if fault == "memory":
        done = train(write_run(tmp_path, corpus, ranks, device=f"guarded:{option}=1,rank={ranks - 1}"), ranks)
        assert not steps_of(tmp_path)
    else:
        done = number_in_the_middle(tmp_path, corpus, option, ranks)
    said = last_words(done, status)
    assert re.search(words, said) and option in said, said
    path = tmp_path / "run.yaml"
    expect_nothing_left(path)
    saved = [path.parent.name for path in sorted((tmp_path / "run/checkpoints").glob("step-*/COMPLETE"))]
    done = train(path, ranks, "device=guarded:seed=5")
    assert done.returncode == 0, done.stderr
    if fault == "memory":
        assert not saved
    else:
        assert saved and f"{saved[-1]}, after step {int(saved[-1].removeprefix('step-'))}" in done.stderr, done.stderr
    assert state_of(tmp_path) == undisturbed(ranks)


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("fault", ["copy", "kernel"])
def test_fails_wherever_it_is(tmp_path, corpus, fault, ranks):
    """Early and late, in evaluation, saving and loading: one message, one status, no process left."""
    option, status, _ = FAULTS[fault]
    for number in (1, 3, 9, 40, 150, 700):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = write_run(folder, corpus, ranks, device=f"guarded:{option}={number}", evaluation=dict(every=1, batches=1),
                         checkpoint=dict(every=1), optimizer=dict(global_batch=4, steps=3, lr=1e-2))
        done = train(path, ranks)
        if done.returncode == 0:  # it had no work of so high a number
            assert number > 9, (number, done.stderr)
            continue
        said = last_words(done, status)
        assert option in said, said
        expect_nothing_left(path)


@pytest.mark.parametrize("device", ["reference", "guarded"])
@pytest.mark.parametrize("ranks", RANKS)
def test_waits_of_a_step(tmp_path, corpus, ranks, device):
    """At most two for results, whatever evaluations and saves wait for; staging only where ranks do not see the memory."""
    trireme("train", write_run(tmp_path, corpus, ranks, device=device, evaluation=dict(every=1, batches=2)), *(["-n", "2"] if ranks > 1 else []))
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    assert 0 < summary["result_waits_per_step"] <= 2, summary
    assert (summary["staging_waits_per_step"] > 0) == (ranks > 1 and device == "guarded"), summary


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__]))

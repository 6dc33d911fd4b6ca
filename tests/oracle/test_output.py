"""One run writes to an output, and resumes only from its own files: locks, names of runs, and the comparisons before weights, corpora and
snapshots are used."""
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

import numpy
import preference_runs
import pytest
from parity import TRIREME, Weights, program_of, trireme, yaml_of

GPT2 = dict(family="gpt2", num_layers=2, hidden_size=32, num_heads=2, vocab_size=257, max_sequence=32)
LLAMA = dict(family="llama", num_layers=2, hidden_size=32, num_heads=4, num_kv_heads=2, ffn_size=64, vocab_size=257,
             max_sequence=32)
BUSY = 10


def make_corpus(folder, factor):
    folder.mkdir(exist_ok=True)
    text = folder / "text.txt"
    text.write_text("".join(f"Line {i}: {i * factor % 1000} pulls.\n" for i in range(2000)))
    trireme("prepare", "--tokenizer", "bytes", "--force", "--out", folder / "data", text)
    return folder / "data"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return make_corpus(tmp_path_factory.mktemp("corpus"), 7919)


def write_run(folder, corpus, steps=6, model=GPT2, checkpoint=None, **more):
    run = dict(model=model, data=dict(train=str(corpus / "train"), sequence=32), layout=dict(micro_batch=2),
               optimizer=dict(global_batch=4, steps=steps, lr=1e-3), output=str(folder / "run"),
               checkpoint=checkpoint or dict(every=2), **more)
    path = folder / "run.yaml"
    path.write_text(yaml_of(run))
    return path


def steps_of(folder):
    return [json.loads(line)["step"] for line in open(folder / "run/metrics.jsonl")]


def lines_of(path):
    """A run that begins again replaces the file, so it may be missing at any time."""
    try:
        return len(path.read_text().splitlines())
    except FileNotFoundError:
        return 0


class Running:
    """A long run that has made that many steps; it is killed at the end."""

    def __init__(self, path, folder, *arguments, steps=3):
        self.process = subprocess.Popen([TRIREME, "train", path, "--set", "optimizer.steps=1000000", *arguments],
                                        stderr=subprocess.PIPE, text=True, start_new_session=True)
        metrics = folder / "run/metrics.jsonl"
        while lines_of(metrics) < steps:
            assert self.process.poll() is None, self.process.stderr.read()
            time.sleep(0.02)

    def __enter__(self):
        return self.process

    def __exit__(self, *_):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.communicate()


# ---- the lock --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ranks", [[], ["-n", "2"]])
def test_a_second_run_is_refused(tmp_path, corpus, ranks):
    path = write_run(tmp_path, corpus)
    with Running(path, tmp_path, *ranks):
        owner = re.search(r"^process (\d+)", (tmp_path / "run/LOCK").read_text(), re.M)[1]
        done = trireme("train", path, *ranks, status=BUSY)
        assert f"is in use by process {owner} on " in done.stderr and "nothing there was read or written" in done.stderr
        assert "wait for it to end, or choose another `output`" in done.stderr
    steps = [line.split(",")[0] for line in open(tmp_path / "run/metrics.jsonl") if line.endswith("\n")]
    assert steps == [f'{{"step": {i + 1}' for i in range(len(steps))]


def contents(folder):
    """Everything in a folder but its lock, which the owner touches, and the record of failures."""
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in sorted(folder.rglob("*")) if path.name not in ("LOCK", "failures.txt")}


@pytest.mark.parametrize("words", [[], ["--resume", "never"], ["--set", "data.preferences=other.jsonl"], ["-n", "2", "--set", "layout.micro_batch=1"]], ids=str)
def test_a_second_run_writes_nothing(tmp_path, words):
    """Also not pairs that it would prepare: an output is opened before anything is written there."""
    (tmp_path / "made").mkdir()
    made = preference_runs.write_all(tmp_path / "made")
    shutil.copy(made / "pairs.jsonl", tmp_path / "other.jsonl")
    path = preference_runs.write_run(tmp_path, made, preference_runs.OBJECTIVES["dpo"], data=dict(preferences=str(made / "pairs.jsonl")), optimizer=dict(steps=2))
    trireme("train", path)
    owner = subprocess.Popen([TRIREME, "train", path, "--set", "optimizer.steps=100000000", "--set", "evaluation.every=0"], stderr=subprocess.DEVNULL)
    while len((tmp_path / "run/metrics.jsonl").read_text().splitlines()) < 4:
        assert owner.poll() is None
        time.sleep(0.02)
    os.kill(owner.pid, signal.SIGSTOP)
    try:
        before = contents(tmp_path / "run")
        assert "is in use by process " in trireme("train", path, *words, status=BUSY, cwd=tmp_path).stderr
        assert contents(tmp_path / "run") == before
    finally:
        owner.kill()
        owner.wait()


@pytest.mark.parametrize("words, status", [(["--set", "layout.tensor=3"], 3), (["--set", "data.train=nowhere"], 4), (["--set", "data.sequence=33"], 3),
                                           (["--set", "optimizer.global_batch=5", "-n", "2"], 3),
                                           (["--resume", "nowhere"], 4), (["--resume", "nowhere", "-n", "2"], 4)], ids=str)
def test_a_refused_run_leaves_no_file(tmp_path, corpus, words, status):
    path = write_run(tmp_path, corpus)
    done = subprocess.run([TRIREME, "train", path, *words], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == status, done.stderr
    assert not (tmp_path / "run").exists()
    trireme("train", path)
    before = contents(tmp_path / "run")
    subprocess.run([TRIREME, "train", path, *words], capture_output=True, cwd=tmp_path)
    assert status == 4 or contents(tmp_path / "run") == before


def test_a_stopped_run_is_alive(tmp_path, corpus):
    path = write_run(tmp_path, corpus)
    with Running(path, tmp_path) as first:
        os.kill(first.pid, signal.SIGSTOP)
        before = (tmp_path / "run/metrics.jsonl").read_bytes()
        assert f"is in use by process {first.pid} on" in trireme("train", path, status=BUSY).stderr
        assert (tmp_path / "run/metrics.jsonl").read_bytes() == before
        os.kill(first.pid, signal.SIGCONT)


def test_a_killed_run_leaves_a_lock_that_is_taken_over(tmp_path, corpus):
    path = write_run(tmp_path, corpus)
    with Running(path, tmp_path):
        pass
    assert (tmp_path / "run/LOCK").exists()
    left = tmp_path / "run/LOCK.0123456789abcdef0123456789abcdef.clock"
    left.touch()
    os.utime(left, (time.time() - 1000, time.time() - 1000))
    done = trireme("train", path, "--set", "optimizer.steps=20000", "--set", "checkpoint.every=0", "--set",
                   "optimizer.max_bad_steps=7", "--dry-run")
    assert (tmp_path / "run/LOCK").exists()  # a dry run touches nothing
    reached = steps_of(tmp_path)[-1]
    done = trireme("train", path, "--set", f"optimizer.steps={reached + 20}")
    assert "which has ended: taking it over" in done.stderr
    assert not (tmp_path / "run/LOCK").exists() and steps_of(tmp_path) == list(range(1, reached + 21))
    assert not list((tmp_path / "run").glob("LOCK*"))


OTHER = """trireme lock
host node7
boot 11111111-2222-3333-4444-555555555555
processes 4026531836
process 12345 678
job slurm:99 {start}
mark 00112233445566778899aabbccddeeff
"""


def plant_lock(folder, age_s, start=0, text=OTHER):
    (folder / "run").mkdir(exist_ok=True)
    lock = folder / "run/LOCK"
    lock.write_text(text.format(start=start))
    now = time.time()
    os.utime(lock, (now - age_s, now - age_s))
    return lock


def test_an_owner_of_another_host_that_touches_its_lock(tmp_path, corpus):
    path = write_run(tmp_path, corpus)
    lock = plant_lock(tmp_path, 0)
    ended = threading.Event()

    def beat():
        while not ended.wait(0.5):
            os.utime(lock)

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        done = trireme("train", path, status=BUSY)
    finally:
        ended.set()
        thread.join()
    assert "is in use by process 12345 on node7, job slurm:99, which is alive" in done.stderr
    assert lock.read_text() == OTHER.format(start=0)


@pytest.mark.parametrize("text", [OTHER, "no lock\0\n" * 3000], ids=["a lock", "none"])
def test_an_owner_of_another_host_that_is_silent(tmp_path, corpus, text):
    path = write_run(tmp_path, corpus)
    plant_lock(tmp_path, 61, text=text)
    done = trireme("train", path)
    assert "which has ended: taking it over" in done.stderr and steps_of(tmp_path) == [1, 2, 3, 4, 5, 6]


def test_a_restart_of_the_same_job_inherits(tmp_path, corpus):
    path = write_run(tmp_path, corpus)
    plant_lock(tmp_path, 0, start=0)
    environment = dict(os.environ, SLURM_JOB_ID="99", SLURM_RESTART_COUNT="1")
    done = trireme("train", path, env=environment)
    assert steps_of(tmp_path) == [1, 2, 3, 4, 5, 6]


def saved(folder):
    return {path.name for path in (folder / "run/checkpoints").glob("step-*")}


def test_a_run_whose_lock_was_taken_ends(tmp_path, corpus):
    path = write_run(tmp_path, corpus, checkpoint=dict(every=5, keep=0))
    with Running(path, tmp_path) as first:
        os.kill(first.pid, signal.SIGSTOP)
        (tmp_path / "run/LOCK").write_text(OTHER.format(start=0))
        before = saved(tmp_path)
        os.kill(first.pid, signal.SIGCONT)
        _, errors = first.communicate(timeout=120)
        assert first.returncode == BUSY, errors
        assert "was taken over by process 12345 on node7" in errors and "so that two runs never write there" in errors
        assert (tmp_path / "run/LOCK").read_text() == OTHER.format(start=0)
        assert len(saved(tmp_path) - before) <= 1  # it may have been stopped in the middle of a save


def test_what_killed_saves_leave_is_cleared(tmp_path, corpus):
    """Also where the number of the process that left it is in use again, and where the next run saves nothing."""
    path = write_run(tmp_path, corpus)
    trireme("train", path)
    left = tmp_path / f"run/checkpoints/.tmp-step-00000099-{os.getpid()}"
    left.mkdir()
    (left / "model.safetensors").write_bytes(b"half")
    old = tmp_path / "run/checkpoints/.old-step-00000001-1"
    old.mkdir()
    trireme("train", path, "--set", "optimizer.steps=7", "--set", "checkpoint.at_end=false", "--set", "checkpoint.every=0")
    assert sorted(os.listdir(tmp_path / "run/checkpoints")) == ["step-00000002", "step-00000004", "step-00000006"]


# ---- the name --------------------------------------------------------------------------------------------------------


def test_a_snapshot_in_memory_is_of_one_run(tmp_path, corpus):
    """A run is killed, its output removed, its corpus another one at the same path: the memory of the nodes has nothing
    for the new run."""
    mine = make_corpus(tmp_path / "corpus", 7919)
    path = write_run(tmp_path, mine, checkpoint=dict(every=0, snapshot_every=1))
    with Running(path, tmp_path):
        pass
    shutil.rmtree(tmp_path / "run")
    make_corpus(tmp_path / "corpus", 104729)
    done = trireme("train", path, "--set", "optimizer.steps=1000000", "--set", "optimizer.steps=5")
    assert "resuming" not in done.stderr and steps_of(tmp_path) == [1, 2, 3, 4, 5]
    expected = tmp_path / "expected"
    expected.mkdir()
    trireme("train", write_run(expected, mine, steps=5, checkpoint=dict(every=0)))
    for name in ("model.safetensors", "optimizer.safetensors"):
        newest = "run/checkpoints/step-00000005"
        assert (tmp_path / newest / name).read_bytes() == (expected / newest / name).read_bytes()


def test_a_snapshot_after_a_stop_without_a_checkpoint(tmp_path, corpus):
    """With checkpoint.at_end false a run that is stopped writes no checkpoint, and the next one resumes from the snapshot."""
    path = write_run(tmp_path, corpus, steps=1000000, checkpoint=dict(every=0, snapshot_every=1, at_end=False))
    process = subprocess.Popen([TRIREME, "train", path], stderr=subprocess.PIPE, text=True)
    metrics = tmp_path / "run/metrics.jsonl"
    while not metrics.exists() or len(metrics.read_text().splitlines()) < 3:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert "continues from the newest snapshot or checkpoint" in process.communicate()[1]
    last = max(steps_of(tmp_path))
    done = trireme("train", path, "--stop-at", last + 2)
    assert "resuming from the memory of the nodes" in done.stderr and max(steps_of(tmp_path)) == last + 2


@pytest.mark.parametrize("how", ["never", "folder"])
@pytest.mark.parametrize("ranks", [[], ["-n", "2"]])
def test_snapshots_of_a_run_that_began_anew(tmp_path, corpus, how, ranks):
    """New snapshots are found, old ones are removed, and a killed run resumes from them."""
    path = write_run(tmp_path, corpus, checkpoint=dict(every=0, snapshot_every=1))
    trireme("train", path, *ranks)
    start = "never" if how == "never" else tmp_path / "run/checkpoints/step-00000006"
    with Running(path, tmp_path, *ranks, "--resume", start, steps=12):
        pass
    assert 1 <= len(list(memory_of(tmp_path).glob("*/node-*/step-*"))) <= 2  # one, and one in progress
    again = subprocess.Popen([TRIREME, "train", path, *ranks, "--set", "optimizer.steps=1000000"], stderr=subprocess.PIPE, text=True)
    said = ""
    while "tokens to train on" not in said:
        line = again.stderr.readline()
        assert line != "", said
        said += line
    again.send_signal(signal.SIGTERM)
    _, rest = again.communicate(timeout=120)
    assert "resuming from the memory of the nodes" in said, said
    assert again.returncode == 130, rest


def memory_of(folder):
    """Returns the folder of this run's snapshots in memory (recovery/snapshot.c); other runs on this machine have others."""
    raw, mask = str((folder / "run").resolve()).encode(), 2**64 - 1
    total = 0
    for i, byte in enumerate(raw):
        z = byte + (i + 1) * 0x9E3779B97F4A7C15 & mask
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & mask
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB & mask
        total += z ^ (z >> 31)
    return Path(f"/dev/shm/trireme-{os.getuid()}-{total & mask:016x}")


@pytest.fixture(autouse=True)
def memory_is_given_back(tmp_path):
    """Removes the snapshots of a killed run after the test."""
    yield
    shutil.rmtree(memory_of(tmp_path), ignore_errors=True)


@pytest.mark.parametrize("made", ["open", "of another user", "link"])
def test_a_snapshot_folder_that_somebody_else_made(tmp_path, corpus, made):
    """Other users can guess the name and make such a folder: nothing is written to it or read from it."""
    (tmp_path / "run").mkdir()
    memory, elsewhere = memory_of(tmp_path), tmp_path / "elsewhere"
    if made == "of another user" and os.getuid() != 0:
        pytest.skip("SKIPPED: only root gives a folder to another user")
    elsewhere.mkdir()
    (elsewhere / "file").write_text("mine")
    if made == "link":
        memory.symlink_to(elsewhere)
    else:
        memory.mkdir()
        memory.chmod(0o777)
        os.chown(memory, 65534 if made == "of another user" else os.getuid(), -1)
    try:
        done = trireme("train", write_run(tmp_path, corpus, checkpoint=dict(every=0, snapshot_every=1)), "-n", 2, status=5)
        what = "a link" if made == "link" else "a folder"
        assert done.stderr.count(f"{memory} is not a private folder of this user") == 1 and what in done.stderr, done.stderr
        assert (elsewhere / "file").read_text() == "mine" and os.listdir(elsewhere) == ["file"]
    finally:
        memory.unlink() if made == "link" else memory.rmdir()


@pytest.mark.parametrize("ranks", [[], ["-n", "2"]])
def test_snapshots_that_nobody_takes_up_any_more(tmp_path, corpus, ranks):
    """A killed run's, where the next start takes none; and those of a node that the job has not any more, at its end."""
    path = write_run(tmp_path, corpus, checkpoint=dict(every=0, snapshot_every=1))
    memory = memory_of(tmp_path)
    with Running(path, tmp_path, *ranks):
        pass
    assert list(memory.glob("*/node-0/step-*/rank-00000"))
    kept = tmp_path / "kept"
    shutil.copytree(memory, kept)
    trireme("train", path, *ranks, "--set", "checkpoint.snapshot_every=0")
    assert not memory.exists()
    for how in ("never", "auto"):  # which makes all steps, and finds them made
        run = json.loads((tmp_path / "run/run.json").read_text())["run"]
        for node in ("node-0", "node-1"):
            shutil.copytree(next(kept.glob("*/node-0")), memory / run / node)
        trireme("train", path, *ranks, "--resume", how)
        assert not memory.exists(), how


def test_the_summary_is_written_last(tmp_path, corpus):
    """If a summary exists, the run has ended, and all other files are written. In this test only the curve exceeds the limit on file sizes."""
    def limit_files():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    tiny = dict(GPT2, num_layers=1, hidden_size=8, num_heads=1)
    path = write_run(tmp_path, corpus, steps=2500, model=tiny, checkpoint=dict(every=0), threads=1, evaluation=dict(every=5, sequences=1))
    words = ["train", path, "--set", f"data.validation={corpus / 'train'}"]
    trireme(*words)
    curve, summary = tmp_path / "run/loss.svg", tmp_path / "run/summary.json"
    others = max(path.stat().st_size for path in (summary, tmp_path / "run/config.yaml"))
    drawn, size = curve.read_text(), (curve.stat().st_size + others) // 2
    assert others < size < curve.stat().st_size
    summary.unlink()
    curve.unlink()
    done = subprocess.run([TRIREME, *words], capture_output=True, text=True, preexec_fn=limit_files)
    assert done.returncode == 5 and "loss.svg" in done.stderr and not curve.exists() and not summary.exists(), done.stderr
    trireme(*words)
    assert curve.read_text() == drawn and json.loads(summary.read_text())["steps"] == 2500


def test_never_that_was_lost_at_once(tmp_path, corpus):
    """The run's name changes with its checkpoints: after a kill in between, the next start continues correctly."""
    path = write_run(tmp_path, corpus)
    trireme("train", path)
    trireme("train", path, "--resume", "never", "--set", "optimizer.steps=1", "--set", "checkpoint.at_end=false", "--set",
            "checkpoint.every=0")
    done = trireme("train", path)
    assert steps_of(tmp_path) == [1, 2, 3, 4, 5, 6]
    old = tmp_path / "run/checkpoints.old-1"
    assert (old / "step-00000006").is_dir() and len((old / "metrics.jsonl").read_text().splitlines()) == 6


def test_another_history_makes_room_for_a_branch(tmp_path, corpus):
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for folder, steps in ((ours, 6), (theirs, 6)):
        folder.mkdir()
        trireme("train", write_run(folder, corpus, steps=steps))
    done = trireme("train", ours / "run.yaml", "--resume", theirs / "run/checkpoints/step-00000004", "--set", "optimizer.steps=7")
    assert "the checkpoints of an earlier run are now in" in done.stderr
    assert saved(ours) == {"step-00000006", "step-00000007"} and steps_of(ours) == [5, 6, 7]
    # A branch from one of its own checkpoints: later ones are moved aside.
    trireme("train", ours / "run.yaml", "--resume", ours / "run/checkpoints/step-00000006", "--set", "optimizer.steps=8")
    assert saved(ours) == {"step-00000006", "step-00000008"} and steps_of(ours) == [5, 6, 7, 8]


def test_another_runs_checkpoint_in_the_output(tmp_path, corpus):
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for folder in (ours, theirs):
        folder.mkdir()
        trireme("train", write_run(folder, corpus))
    shutil.copytree(theirs / "run/checkpoints/step-00000006", ours / "run/checkpoints/step-00000008")
    names = [json.loads((folder / "run/run.json").read_text())["run"] for folder in (ours, theirs)]
    done = trireme("train", ours / "run.yaml", "--set", "optimizer.steps=9", status=3)
    assert f"is a checkpoint of another run ({names[1][:8]}) than the one in" in done.stderr
    assert f"({names[0][:8]}); move it away" in done.stderr and "allow_change=run" in done.stderr
    trireme("train", ours / "run.yaml", "--set", "optimizer.steps=9", "--set", "allow_change=run")
    # A lost run.json is not an obstacle.
    (theirs / "run/run.json").unlink()
    trireme("train", theirs / "run.yaml", "--set", "optimizer.steps=9")
    assert json.loads((theirs / "run/run.json").read_text())["run"] == names[1]
    (theirs / "run/run.json").write_text("{")
    done = trireme("train", theirs / "run.yaml", "--set", "optimizer.steps=9", status=4)
    assert "run.json does not contain the id of a run" in done.stderr


def test_a_branch_that_was_lost_before_it_saved_anything(tmp_path, corpus):
    """`--resume FOLDER`, a kill, and a start without options (such as the restart after a lost rank): the run resumes from FOLDER, not from an older
    checkpoint in the output."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for folder, steps in ((ours, 4), (theirs, 6)):
        folder.mkdir()
        trireme("train", write_run(folder, corpus, steps=steps))
    start = theirs / "run/checkpoints/step-00000006"
    with Running(ours / "run.yaml", ours, "--resume", start, "--set", "checkpoint.every=0", steps=8):
        pass
    done = trireme("train", ours / "run.yaml", "--set", "optimizer.steps=9")
    assert f"resuming from {start}, after step 6" in done.stderr
    done = trireme("train", ours / "run.yaml", "--set", "optimizer.steps=10")
    assert "run/checkpoints/step-00000009, after step 9" in done.stderr
    shutil.rmtree(theirs)
    trireme("train", ours / "run.yaml", "--set", "optimizer.steps=11")


# ---- comparisons -----------------------------------------------------------------------------------------------------


def config_of_llama(**changes):
    config = dict(architectures=["LlamaForCausalLM"], model_type="llama", hidden_size=32, intermediate_size=64,
                  num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=257,
                  max_position_embeddings=32, rms_norm_eps=1e-5, rope_theta=10000.0, tie_word_embeddings=False,
                  hidden_act="silu", attention_bias=False, torch_dtype="float32")
    config.update(changes)
    return config


@pytest.mark.parametrize("changes,key,there,here", [
    (dict(rope_theta=500000.0), "model.rope_theta", "500000.0", "10000.0"),
    (dict(rms_norm_eps=1e-6), "model.norm_eps", "1.0e-06", "1.0e-05"),
    (dict(num_attention_heads=2, num_key_value_heads=1), "model.num_heads", "2", "4"),
    (dict(rope_scaling=dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                            original_max_position_embeddings=16)), "model.rope_scaling.factor", "8.0", "1.0"),
    (dict(rope_scaling=dict(type="linear", factor=2.0)), "model.rope_scaling.type", "linear", "llama3"),
    (dict(rope_scaling=dict(rope_type="dynamic", factor=2.0)), "model.rope_scaling.original_max_sequence", "32", "8192"),
    (dict(rope_scaling=dict(rope_type="yarn", factor=2.0, attention_factor=1.25)), "model.rope_scaling.attention_factor", "1.25", "0.0"),
    (dict(rope_scaling=dict(rope_type="longrope", factor=2.0, short_factor=[1.0] * 4, long_factor=[1.0, 2.5, 3.0, 0.75],
                            original_max_position_embeddings=16)), "model.rope_scaling.long_factor", "[1.0, 2.5, 3.0, 0.75]", "[]"),
])
@pytest.mark.parametrize("by", ["--resume", "init"])
def test_weights_of_another_function(tmp_path, corpus, changes, key, there, here, by):
    weights = Weights(tmp_path, LLAMA)
    weights.save_hugging_face(tmp_path / "hf", config_of_llama(**changes))
    path = write_run(tmp_path, corpus, model=LLAMA)
    how = ["--resume", tmp_path / "hf"] if by == "--resume" else ["--set", f"init={tmp_path / 'hf'}"]
    done = trireme("train", path, *how, status=3)
    assert f"{key} is {there} there and {here} in this run" in done.stderr
    assert "allow it by name: --set allow_change=" in done.stderr
    keys = re.search(r"allow_change=(\S+)", done.stderr)[1]
    done = trireme("train", path, *how, "--set", f"allow_change={keys}")
    assert f"{key} changes from {there} to {here}, as `allow_change` allows" in done.stderr
    assert "beginning with the weights of" in done.stderr


def test_a_finished_run_keeps_its_settings(tmp_path, corpus):
    """More steps go on; another setting is refused with both commands, unless it is allowed by name, or concerns evaluations or files only."""
    path = write_run(tmp_path, corpus)
    trireme("train", path)
    before = {file: file.read_bytes() for file in (tmp_path / "run").rglob("*") if file.is_file() and file.name != "LOCK"}
    done = trireme("train", path, "--set", "optimizer.steps=8", "--set", "optimizer.lr=5e-3", "--set", "optimizer.decay=wsd", status=3)
    assert "has made all of its 6 steps" in done.stderr and "and 0.005 in this run; optimizer.decay is cosine there and wsd in this run; begin another run, with --set output=FOLDER, or go on with this one and the change: --set allow_change=optimizer.lr,optimizer.decay" in done.stderr
    trireme("train", path, "--set", "optimizer.lr=5e-3", status=3)
    assert {file: file.read_bytes() for file in before} == before
    trireme("train", path, "--set", "optimizer.steps=8", "--set", "checkpoint.keep=2", "--set", "layout.micro_batch=2")
    said = trireme("train", path, "--set", "optimizer.steps=9", "--set", "optimizer.lr=5e-3", "--set", "allow_change=optimizer.lr").stderr
    assert said.count("optimizer.lr was") == 1
    (tmp_path / "stopped").mkdir()
    stopped = write_run(tmp_path / "stopped", corpus)
    trireme("train", stopped, "--stop-at", 3)
    trireme("train", stopped, "--set", "optimizer.lr=5e-3")  # a run that is not finished
    assert "did you mean `optimizer.lr`?" in trireme("train", path, "--set", "allow_change=optimizer.lrr", status=3).stderr


def test_an_activation_is_compared(tmp_path, corpus):
    path = write_run(tmp_path, corpus)
    trireme("train", path)
    done = trireme("train", path, "--set", "optimizer.steps=8", "--set", "model.activation=gelu_erf", status=3)
    assert "model.activation is gelu_tanh there and gelu_erf in this run" in done.stderr
    # What changes no function is not compared.
    trireme("train", path, "--set", "optimizer.steps=8", "--set", "model.dropout=0.1", "--set", "model.name=other", "--set", "allow_change=model.dropout")


def test_init_takes_the_model_and_its_weights(tmp_path, corpus):
    """No key of the model is typed; the first loss is the one that eval finds; a resumed run does not begin again."""
    (tmp_path / "first").mkdir()
    trireme("train", write_run(tmp_path / "first", corpus, model=LLAMA, steps=4))
    path = write_run(tmp_path, corpus, steps=3, init=str(tmp_path / "first/run"))
    text = json.loads(path.read_text())
    del text["model"]
    path.write_text(yaml_of(text))
    done = trireme("train", path)
    newest = tmp_path / "first/run/checkpoints/step-00000004"
    assert f"beginning with the weights of {newest}" in done.stderr
    lines = [json.loads(line) for line in open(tmp_path / "run/metrics.jsonl")]
    first = [json.loads(line) for line in open(tmp_path / "first/run/metrics.jsonl")]
    assert lines[0]["step"] == 1 and lines[0]["loss"] != first[0]["loss"]
    (tmp_path / "again").mkdir()
    again = write_run(tmp_path / "again", corpus, steps=3, model=LLAMA)
    trireme("train", again, "--resume", newest, "--set", "optimizer.steps=5")
    resumed = [json.loads(line) for line in open(tmp_path / "again/run/metrics.jsonl")]
    assert resumed[0]["step"] == 5
    done = trireme("train", path, "--set", "optimizer.steps=5")
    assert "resuming from" in done.stderr and "beginning" not in done.stderr
    done = trireme("train", path, "--set", "init=nowhere", "--resume", "never", status=3)
    assert "`init` names no folder: nowhere" in done.stderr
    done = trireme("train", again, "--set", f"init={tmp_path}", "--resume", "never", status=4)
    assert "contains neither a model (config.json) nor a checkpoint" in done.stderr


def test_a_corpus_that_changed(tmp_path):
    mine = make_corpus(tmp_path / "corpus", 7919)
    path = write_run(tmp_path, mine)
    trireme("train", path)
    make_corpus(tmp_path / "corpus", 104729)
    done = trireme("train", path, "--set", "optimizer.steps=8", status=3)
    assert "data.train is " in done.stderr and str(mine / "train") in done.stderr and "allow_change=data.train" in done.stderr
    done = trireme("train", path, "--set", "optimizer.steps=8", "--set", "allow_change=data.train")
    assert "data.train changes from" in done.stderr and steps_of(tmp_path) == list(range(1, 9))


def test_a_corpus_of_another_tokenizer(tmp_path, corpus):
    other = tmp_path / "other"
    text = tmp_path / "text.txt"
    text.write_text("".join(f"Line {i}: {i * 7919 % 1000} pulls.\n" for i in range(2000)))
    trireme("prepare", "--tokenizer", "train:300", "--out", other, text)
    path = write_run(tmp_path, other, model=dict(GPT2, vocab_size=300))
    done = trireme("train", path, "--set", f"data.tokenizer={corpus / 'tokenizer.json'}", status=4)
    assert str(other / "train") in done.stderr and "tokenizer" in done.stderr
    trireme("train", path)
    done = trireme("train", path, "--set", f"data.train={corpus / 'train'}", "--set", "optimizer.steps=8", status=3)
    assert "data.tokenizer is " in done.stderr and "data.train is " in done.stderr


def test_keys_that_are_not_compared(tmp_path, corpus):
    path = write_run(tmp_path, corpus)
    done = trireme("train", path, "--set", "allow_change=model.rope_teta", status=3)
    assert "names `model.rope_teta`, which is not compared" in done.stderr and "did you mean `model.rope_theta`?" in done.stderr


def test_weights_that_are_not_finite(tmp_path, corpus):
    weights = Weights(tmp_path, LLAMA)
    table = {p["name"]: p for p in weights.table["parameters"]}
    place = table["model.layers.1.mlp.up_proj.weight"]
    weights.flat[place["offset"] + 5] = numpy.nan
    weights.save_hugging_face(tmp_path / "hf", config_of_llama())
    done = trireme("train", write_run(tmp_path, corpus, model=LLAMA), "--resume", tmp_path / "hf", status=4)
    assert "tensor `model.layers.1.mlp.up_proj.weight` has a value that is NaN or infinite" in done.stderr


WRITTEN = ["run.json", "config.yaml", "metrics.jsonl", "products.json", "summary.json", "loss.svg"]


@pytest.mark.parametrize("kind, make", [("folder", os.mkdir), ("pipe", os.mkfifo)])
def test_what_stands_in_the_way_is_said_before_the_run(tmp_path, corpus, kind, make):
    """And not after the last step, when the summary is written; a pipe would be waited for."""
    path = write_run(tmp_path, corpus, steps=2, device="emulated", precision="fp64")
    trireme("train", path, timeout=120)
    assert set(WRITTEN) <= set(os.listdir(tmp_path / "run"))
    for name in WRITTEN:
        file, kept = tmp_path / "run" / name, tmp_path / "kept"
        file.rename(kept)
        make(file)
        done = subprocess.run([program_of(path), "train", path, "--set", "optimizer.steps=3"], capture_output=True, text=True, timeout=120)
        assert done.returncode == 4
        assert done.stderr == f"trireme: {file} is a {kind}, and the run writes a file there; move it away or remove it\n"
        (os.rmdir if kind == "folder" else os.unlink)(file)
        kept.rename(file)
    # Nothing was touched: the run goes on.
    trireme("train", path, "--set", "optimizer.steps=3", timeout=120)
    assert steps_of(tmp_path) == [1, 2, 3]


@pytest.mark.parametrize("name", ["COMPLETE", "state.json", "model.safetensors", "optimizer.safetensors"])
def test_a_pipe_in_a_checkpoint_is_not_waited_for(tmp_path, corpus, name):
    path = write_run(tmp_path, corpus, steps=4)
    trireme("train", path, timeout=120)
    newest = tmp_path / "run/checkpoints/step-00000004"
    (newest / name).unlink()
    os.mkfifo(newest / name)
    done = subprocess.run([TRIREME, "train", path, "--set", "optimizer.steps=6"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0
    assert f"passing over the checkpoint {newest}: {newest / name} is a pipe, not a plain file" in done.stderr
    assert "resuming from" in done.stderr and "after step 2" in done.stderr


# ---- the base of an adapter ------------------------------------------------------------------------------------------


def change_one_number(folder):
    path = folder / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("ranks", [[], ["-n", "2"]], ids=["one rank", "two ranks"])
@pytest.mark.parametrize("init", ["kaiming", "pissa"])
def test_a_base_that_has_changed(tmp_path, corpus, init, ranks):
    """A plain folder has no checksums: they are computed when the run begins. A copy with the same numbers is the same base; if one number differs, it
    is refused."""
    (tmp_path / "whole").mkdir()
    trireme("train", write_run(tmp_path / "whole", corpus, steps=1, model=LLAMA))
    trireme("export", tmp_path / "whole/run", tmp_path / "base")
    path = write_run(tmp_path, corpus, steps=6, model=LLAMA, init=str(tmp_path / "base"), adapter=dict(rank=2, init=init, targets=["q_proj", "v_proj"]))
    first = trireme("train", path, "--stop-at", 2, *ranks).stderr
    assert "computing the checksums of" in first
    assert "computing the checksums of" not in trireme("train", path, "--stop-at", 4, *ranks).stderr, "its files are those of before"
    shutil.copytree(tmp_path / "base", tmp_path / "copy", copy_function=shutil.copyfile)
    shutil.rmtree(tmp_path / "base")
    shutil.move(tmp_path / "copy", tmp_path / "base")
    assert "computing the checksums of" in trireme("train", path, "--stop-at", 5, *ranks).stderr
    before = contents(tmp_path / "run")
    change_one_number(tmp_path / "base")
    said = trireme("train", path, *ranks, status=4).stderr
    assert "base has changed since the run in " in said and "--set allow_change=adapter" in said
    assert contents(tmp_path / "run") == before
    assert "is not the one that the run began with, as `allow_change` allows" in trireme("train", path, *ranks, "--set", "allow_change=adapter").stderr
    assert steps_of(tmp_path) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("change", [dict(rank=3), dict(targets=["q_proj"]), dict(magnitude=True), dict(rank_pattern={"v_proj": 4})], ids=str)
def test_factors_that_do_not_fit(tmp_path, corpus, change):
    """A change of the adapter's shapes is not to be allowed: the message names what to do instead. One of its scale is."""
    (tmp_path / "whole").mkdir()
    trireme("train", write_run(tmp_path / "whole", corpus, steps=1, model=LLAMA))
    adapter = dict(rank=2, targets=["q_proj", "v_proj"])
    trireme("train", write_run(tmp_path, corpus, steps=2, model=LLAMA, init=str(tmp_path / "whole/run"), adapter=adapter))
    path = write_run(tmp_path, corpus, steps=4, model=LLAMA, init=str(tmp_path / "whole/run"), adapter={**adapter, **change})
    for words in ([], ["--set", "allow_change=adapter"]):
        said = trireme("train", path, *words, status=3).stderr
        assert "its factors do not fit such an adapter; make the keys equal, start over with --resume never, or choose another `output`" in said and "allow_change" not in said
    path = write_run(tmp_path, corpus, steps=4, model=LLAMA, init=str(tmp_path / "whole/run"), adapter={**adapter, "alpha": 5})
    assert "--set allow_change=adapter" in trireme("train", path, status=3).stderr
    trireme("train", path, "--set", "allow_change=adapter")

"""`trireme train -n`: many ranks, as a user sees them: their output, how they stop, and how they fail."""
import concurrent.futures
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import time

import pytest
from drawn import drawn
from parity import DEVICE, TRIREME, trireme, yaml_of

pytestmark = pytest.mark.skipif(shutil.which("mpiexec") is None, reason="SKIPPED: there is no mpiexec")
MODEL = dict(family="gpt2", num_layers=4, hidden_size=32, num_heads=4, vocab_size=257, max_sequence=32, dropout=0.1)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    text = "".join(f"Line {i}: the rowers pull {i * 7919 % 1000} times.\n" for i in range(2000))
    (folder / "text.txt").write_text(text)
    trireme("prepare", "--tokenizer", "bytes", "--out", folder / "data", folder / "text.txt")
    return folder / "data"


def write_run(folder, corpus, steps=12, **layout):
    more = {key: layout.pop(key) for key in ("hang_timeout", "max_restarts") if key in layout}
    run = dict(
        **more, model=MODEL, data=dict(train=str(corpus / "train"), validation=str(corpus / "validation"), sequence=32),
        layout=dict(micro_batch=1, **layout), optimizer=dict(global_batch=8, steps=steps, lr=1e-3, warmup=4),
        evaluation=dict(every=6, batches=3), checkpoint=dict(every=4, keep=0), seed=5, output=str(folder / "run"))
    path = folder / "run.yaml"
    path.write_text(yaml_of(run))
    return path


def losses(folder):
    return [json.loads(line) for line in open(folder / "run/metrics.jsonl")]


def weights(folder, step):
    return (folder / f"run/checkpoints/step-{step:08d}/model.safetensors").read_bytes()


def ranks_of(folder):
    """Processes that work on this folder's run: the parent, the launcher and the ranks."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = open(f"/proc/{pid}/cmdline", "rb").read().split(b"\0")
        except OSError:
            continue
        if str(folder / "run.yaml").encode() in words:
            found.append(int(pid))
    return found


def pid_of_ranks(folder):
    """The ranks' own, in the order of ranks."""
    return [pid for rank, pid in sorted((rank_of_process(pid), pid) for pid in ranks_of(folder) if rank_of_process(pid) is not None)]


def launcher_of(folder, process):
    (found,) = set(ranks_of(folder)) - {process.pid, *pid_of_ranks(folder)}
    return found


def wait_for_step(folder, process, step=1):
    path = folder / "run/metrics.jsonl"
    while process.poll() is None and (not path.exists() or path.read_text().count("\n") < step):
        time.sleep(0.01)


def wait_until_gone(folder, seconds=60):
    end = time.monotonic() + seconds
    while ranks_of(folder) and time.monotonic() < end:
        time.sleep(0.05)
    assert not ranks_of(folder), "ranks are left running"


def close(mine, theirs):
    for key in ("loss", "grad_norm", "validation_loss"):
        assert key not in mine or abs(mine[key] / theirs[key] - 1) < 1e-5, (mine["step"], key)


def test_layouts_tell_the_same_story(tmp_path_factory, corpus):
    """Losses, validation losses and norms of whole runs; the same weights to the bit where only stages changed; and a
    checkpoint of each layout goes on under another. Of some, drawn."""
    one = tmp_path_factory.mktemp("one")
    trireme("train", write_run(one, corpus))
    layouts = [(2, dict(pipeline=2)), (4, dict(tensor=2, pipeline=2, sequence_parallel=True)),
                          (4, dict(tensor=2, zero=3)), (2, dict(pipeline=2, schedule="zero-bubble", recompute="full")),
                          (2, dict(pipeline=2, balance="layers", head_as_layers=9)),
                          (2, dict(pipeline=2, virtual_stages=3, schedule="interleaved", micro_batch_group=5)),
                          (3, dict(context=3, context_exchange="ring")), (4, dict(context=4, context_exchange="heads")),
                          (4, dict(context=2, tensor=2, sequence_parallel=True)), (4, dict(context=2, zero=3, context_exchange="ring"))]
    for ranks, layout in drawn(layouts, 3, "the same story"):
        folder = tmp_path_factory.mktemp("many")
        trireme("train", write_run(folder, corpus, **layout), "-n", ranks)
        for mine, theirs in zip(losses(one), losses(folder)):
            close(mine, theirs)
        if "tensor" not in layout and "context" not in layout:
            assert weights(folder, 12) == weights(one, 12), layout
        for step in (8, 12):
            shutil.rmtree(folder / f"run/checkpoints/step-{step:08d}")
        trireme("train", write_run(folder, corpus))  # the rest on one rank
        assert [line["step"] for line in losses(folder)] == list(range(1, 13))
        for mine, theirs in zip(losses(one), losses(folder)):
            close(mine, theirs)


def test_wrong_layouts(tmp_path, corpus):
    for changes, words in [
            (["layout.tensor=2"], "tensor 2 x pipeline 1 x context 1 = 2 does not divide the 3 ranks"),
            (["layout.tensor=3"], "layout.tensor 3 does not divide the model's 4 heads; 2 or 4 would"),
            (["layout.data=2"], "= 2 ranks, and this job has 3"),
            (["layout.pipeline=3", "layout.schedule=interleaved", "layout.virtual_stages=3"], "set layout.pipeline to 2 or less"),
            (["layout.pipeline=3", "layout.head_as_layers=1"], "leave them out or set layout.balance=layers"),
            (["layout.pipeline=3", "layout.schedule=interleaved", "layout.virtual_stages=2", "layout.micro_batch_group=2"], "use 4, or auto"),
            (["optimizer.global_batch=4"], "is not a multiple of layout.micro_batch 1 x layout.data 3")]:
        sets = [word for change in changes for word in ("--set", change)]
        done = trireme("train", write_run(tmp_path, corpus), "-n", 3, *sets, status=3)
        assert words in done.stderr and done.stderr.count("trireme: ") == 1, done.stderr
        assert "mpi" not in done.stderr.lower(), done.stderr
    assert not (tmp_path / "run").exists()


def test_interrupt(tmp_path, corpus):
    path = write_run(tmp_path, corpus, steps=100000)
    process = subprocess.Popen([TRIREME, "train", path, "-n", "2"], stderr=subprocess.PIPE, text=True)
    wait_for_step(tmp_path, process, 3)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert errors.count("interrupted after step") == 1 and "mpi" not in errors.lower()
    wait_until_gone(tmp_path)
    step = losses(tmp_path)[-1]["step"]
    assert weights(tmp_path, step)


@pytest.fixture(scope="module")
def undisturbed_pipeline(tmp_path_factory, corpus):
    folder = tmp_path_factory.mktemp("undisturbed")
    trireme("train", write_run(folder, corpus, pipeline=2), "-n", 2)
    return folder


@pytest.mark.parametrize("group", range(4))
def test_kill_a_rank(tmp_path, corpus, undisturbed_pipeline, group):
    """A rank is killed at a random moment: the job ends, no process is left, and the next start goes on. Ten times, or twenty; those of
    a group side by side, since most of their time is the launcher's waiting."""
    def kill_one(number):
        chance, folder = random.Random(1000 * group + number), tmp_path / str(number)
        folder.mkdir()
        path = write_run(folder, corpus, pipeline=2)
        process = subprocess.Popen([TRIREME, "train", path, "-n", "2"], stderr=subprocess.PIPE, text=True)
        wait_for_step(folder, process, chance.randrange(1, 6))
        time.sleep(chance.uniform(0, 0.05))  # any moment will do
        ranks = pid_of_ranks(folder)
        if process.poll() is None and len(ranks) == 2:
            try:
                os.kill(chance.choice(ranks), signal.SIGKILL)
            except ProcessLookupError:
                pass
        _, errors = process.communicate(timeout=120)
        assert process.returncode in (0, 9), errors
        if process.returncode == 9:
            assert errors.count("trireme: ") == 1, errors
            assert re.search(r"rank [01] \(pipeline [01]\) on \S+ was killed by signal 9 \(Killed\).* at step \d+", errors), errors
        wait_until_gone(folder)
        trireme("train", path, "-n", 2)
        theirs = losses(undisturbed_pipeline)
        assert [(a["loss"], a["grad_norm"]) for a in losses(folder)] == [(a["loss"], a["grad_norm"]) for a in theirs]
        assert weights(folder, 12) == weights(undisturbed_pipeline, 12)
        return process.returncode

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        ends = list(pool.map(kill_one, range(5)))
    assert 9 in ends, "all were through before they could be killed"


def test_kill_in_a_ring(tmp_path, corpus):
    """A rank is killed while the other passes it keys; the next start goes on to the bit."""
    ends = []
    for name, kills in (("alone", False), ("killed", True)):
        folder = tmp_path / name
        folder.mkdir()
        path = write_run(folder, corpus, steps=40, context=2, context_exchange="ring")
        process = subprocess.Popen([TRIREME, "train", path, "-n", "2"], stderr=subprocess.PIPE, text=True)
        if kills:
            wait_for_step(folder, process, 9)
            os.kill(pid_of_ranks(folder)[1], signal.SIGKILL)
        _, errors = process.communicate(timeout=120)
        assert process.returncode == (9 if kills else 0), errors
        if kills:
            assert re.search(r"rank 1 \(context(_inner)? 1\) on \S+ was killed by signal 9 \(Killed\).* at step \d+", errors), errors
            wait_until_gone(folder)
            trireme("train", path, "-n", 2)
        ends.append(([(line["step"], line["loss"], line["grad_norm"]) for line in losses(folder)], weights(folder, 40)))
    assert ends[0] == ends[1]


@pytest.mark.parametrize("before,after", [
    (dict(pipeline=2, balance="layers", embedding_as_layers=9), dict(pipeline=2, balance="layers", head_as_layers=9)),
    (dict(pipeline=2, virtual_stages=3, schedule="interleaved"), dict(pipeline=2, schedule="zero-bubble"))], ids=["other-end", "chunks"])
def test_kill_and_another_split(tmp_path, corpus, undisturbed_pipeline, before, after):
    """What stages without layers have saved before one is killed goes on in stages that are cut elsewhere, to the bit."""
    process = subprocess.Popen([TRIREME, "train", write_run(tmp_path, corpus, **before), "-n", "2"], stderr=subprocess.PIPE, text=True)
    wait_for_step(tmp_path, process, 5)
    for rank in pid_of_ranks(tmp_path)[:1]:
        try:
            os.kill(rank, signal.SIGKILL)
        except ProcessLookupError:
            pass
    _, errors = process.communicate(timeout=120)
    assert process.returncode in (0, 9), errors
    wait_until_gone(tmp_path)
    begin_again(tmp_path, 8)
    trireme("train", write_run(tmp_path, corpus, **after), "-n", 2)
    theirs = losses(undisturbed_pipeline)
    assert [(a["loss"], a["grad_norm"]) for a in losses(tmp_path)] == [(a["loss"], a["grad_norm"]) for a in theirs]
    assert weights(tmp_path, 12) == weights(undisturbed_pipeline, 12)


def test_kills_during_saves(tmp_path_factory, corpus):
    """All processes are killed at once, at random moments of saves in the background: the run always resumes from a good checkpoint, and the
    losses are those of a run that was not killed. TRIREME_KILLS=50 sets the number of kills."""
    keys = ["--set", "checkpoint.async=true", "--set", "checkpoint.every=1", "--set", "checkpoint.keep=2", "--set",
            "checkpoint.shard_bytes=20000", "--set", "optimizer.steps=4000", "--set", "evaluation.every=0", "--set",
            "optimizer.decay=constant"]
    folder = tmp_path_factory.mktemp("killed")
    path = write_run(folder, corpus, data=2, zero=1)
    chance = random.Random(8)
    reached = 0
    for _ in range(int(os.environ.get("TRIREME_KILLS", 12))):
        saved = list(folder.glob("run/checkpoints/step-*/COMPLETE"))
        process = subprocess.Popen([TRIREME, "train", path, "-n", "2", *keys], stderr=subprocess.PIPE, text=True)
        wait_for_step(folder, process, reached + chance.randrange(1, 4))
        time.sleep(chance.uniform(0, 0.03))
        for pid in reversed(sorted(ranks_of(folder))):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        _, errors = process.communicate(timeout=120)
        wait_until_gone(folder)
        assert "passing over" not in errors and ("resuming from" in errors) == bool(saved), errors
        reached = losses(folder)[-1]["step"] if (folder / "run/metrics.jsonl").exists() else 0
    undisturbed = tmp_path_factory.mktemp("undisturbed")
    trireme("train", write_run(undisturbed, corpus, data=2, zero=1), "-n", 2, *keys, "--set", f"optimizer.steps={reached}",
            "--set", "checkpoint.every=0")
    assert [a["loss"] for a in losses(folder)] == [a["loss"] for a in losses(undisturbed)] and reached > 10


def start_and_kill(folder, path, *arguments, step, rank, **options):
    """Kills a rank after a step. The run may be through before it comes to that: False, and nothing is left of it."""
    process = subprocess.Popen([TRIREME, "train", path, "-n", "2", *arguments], stderr=subprocess.PIPE, text=True, **options)
    wait_for_step(folder, process, step)
    ranks = pid_of_ranks(folder)
    if process.poll() is None and len(ranks) == 2:
        try:
            os.kill(ranks[rank], signal.SIGKILL)
        except ProcessLookupError:
            pass
    _, errors = process.communicate(timeout=120)
    if "was killed by signal 9" in errors:
        return process, errors
    assert process.returncode == 0, errors
    shutil.rmtree(folder / "run")
    return None, errors


def test_restart(tmp_path_factory, corpus):
    """max_restarts: the same command comes through, as if nothing had happened."""
    folder = tmp_path_factory.mktemp("restarted")
    for steps in (40, 400, 4000):
        path = write_run(folder, corpus, steps=steps, data=2, zero=1, max_restarts=1)
        process, errors = start_and_kill(folder, path, step=5, rank=1)
        if process is not None:
            break
    assert process.returncode == 0 and "restart 1 of 1" in errors, errors
    undisturbed = tmp_path_factory.mktemp("undisturbed")
    trireme("train", write_run(undisturbed, corpus, steps=steps, data=2, zero=1), "-n", 2)
    assert [a["loss"] for a in losses(folder)] == [a["loss"] for a in losses(undisturbed)]
    assert weights(folder, steps) == weights(undisturbed, steps)


def mix(z):
    """The finalizer of splitmix64."""
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


def snapshots(folder):
    """Returns the snapshots of this folder's run only, since other runs on this machine may have their own."""
    raw = str((folder / "run").resolve()).encode()
    run = sum(mix((byte + (i + 1) * 0x9E3779B97F4A7C15) % 2**64) for i, byte in enumerate(raw)) % 2**64
    return list(pathlib.Path("/dev/shm").glob(f"trireme-{os.getuid()}-{run:016x}*/*/node-*/step-*/rank-*"))


SNAPSHOT_KEYS = ["--set", "checkpoint.snapshot_every=2", "--set", "checkpoint.every=1000"]
SNAPSHOT_STEPS = 30 if DEVICE else 150  # the cpu device is fast, and the run is to be disturbed before its end


@pytest.mark.parametrize("every", [0, 1000])
def test_a_stop_before_the_end_keeps_the_only_state(tmp_path, corpus, every):
    """A run that --stop-at ends without a checkpoint goes on from its snapshots, also after a command that had nothing to do."""
    path = write_run(tmp_path, corpus, steps=12, data=2, zero=1)
    words = ["train", path, "-n", 2, "--set", "checkpoint.snapshot_every=2", "--set", f"checkpoint.every={every}", "--set", "checkpoint.at_end=false"]
    trireme(*words, "--stop-at", 6)
    assert snapshots(tmp_path)
    assert "has made its 4 steps already" in trireme(*words, "--stop-at", 3).stderr and snapshots(tmp_path)
    said = trireme(*words).stderr
    assert "after step 4" in said and [line["step"] for line in losses(tmp_path)] == list(range(1, 13)) and not snapshots(tmp_path)


@pytest.fixture(scope="module")
def undisturbed_snapshots(tmp_path_factory, corpus):
    folder = tmp_path_factory.mktemp("undisturbed")
    path = write_run(folder, corpus, steps=SNAPSHOT_STEPS, data=2, zero=1)
    done = subprocess.run([TRIREME, "train", path, "-n", "2", *SNAPSHOT_KEYS], env={**os.environ, "TRIREME_RANKS_PER_NODE": "1"}, capture_output=True)
    assert done.returncode == 0 and not snapshots(folder), done.stderr
    return folder


@pytest.mark.parametrize("lost", [None, "node", "byte", "byte of a rank"], ids=["whole", "a node is lost", "a byte is lost", "a byte of one rank is lost"])
def test_snapshots(tmp_path, corpus, undisturbed_snapshots, lost):
    """A lost rank costs steps: the state comes back from memory, also from another node's; but only if it is whole."""
    two_nodes = {**os.environ, "TRIREME_RANKS_PER_NODE": "1"}
    path = write_run(tmp_path, corpus, steps=SNAPSHOT_STEPS, data=2, zero=1)
    for _ in range(5):
        process, errors = start_and_kill(tmp_path, path, *SNAPSHOT_KEYS, step=11, rank=1, env=two_nodes)
        if process is not None:
            break
    assert process is not None and process.returncode == 9, errors
    assert len({part.parent.parent for part in snapshots(tmp_path)}) == 2, "both nodes keep something"
    reached = losses(tmp_path)[-1]["step"]
    if lost == "node":
        shutil.rmtree(snapshots(tmp_path)[0].parent.parent)
    if lost in ("byte", "byte of a rank"):  # the other rank must not begin with the snapshot's state either
        for part in snapshots(tmp_path):
            if lost != "byte" and not part.name.startswith("rank-00001"):
                continue
            raw = bytearray(part.read_bytes())
            raw[len(raw) // 2] ^= 1
            part.write_bytes(raw)
    again = subprocess.run([TRIREME, "train", path, "-n", "2", *SNAPSHOT_KEYS], env=two_nodes, capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    found = re.search(r"resuming from the memory of the nodes, after step (\d+)", again.stderr)
    if lost in ("byte", "byte of a rank"):
        assert found is None and "passing over the snapshot of step" in again.stderr and "is damaged" in again.stderr
    else:
        # The newest snapshot that is complete on both ranks: at most one before the one in progress when a rank died.
        assert found and reached - 4 <= int(found[1]) <= reached + 1 and int(found[1]) % 2 == 0, (reached, again.stderr)
    assert [a["loss"] for a in losses(tmp_path)] == [a["loss"] for a in losses(undisturbed_snapshots)]
    assert weights(tmp_path, SNAPSHOT_STEPS) == weights(undisturbed_snapshots, SNAPSHOT_STEPS)
    assert not snapshots(tmp_path), "nothing stays in memory after a good end"


def test_killed_behind_its_last_save(tmp_path, corpus):
    """Between the last checkpoint and the end of the run: started again, it finds the run complete, and finishes what was left."""
    two_nodes = {**os.environ, "TRIREME_RANKS_PER_NODE": "1"}
    path = write_run(tmp_path, corpus, steps=SNAPSHOT_STEPS, data=2, zero=1)
    process, errors = start_and_kill(tmp_path, path, *SNAPSHOT_KEYS, step=5, rank=1, env=two_nodes)
    left = {part: part.read_bytes() for part in snapshots(tmp_path)}
    assert process is not None and left, errors
    for what in ("through", "through already"):
        done = subprocess.run([TRIREME, "train", path, "-n", "2", *SNAPSHOT_KEYS], env=two_nodes, capture_output=True, text=True)
        assert done.returncode == 0 and ("steps already" in done.stderr) == (what == "through already"), done.stderr
        assert not snapshots(tmp_path), what
        assert json.loads((tmp_path / "run/summary.json").read_text())["steps"] == SNAPSHOT_STEPS, what
        (tmp_path / "run/summary.json").unlink()  # as the kill would have left it
        for part, raw in left.items():
            part.parent.mkdir(parents=True, exist_ok=True)
            part.write_bytes(raw)
    subprocess.run([TRIREME, "train", path, "-n", "2", *SNAPSHOT_KEYS], env=two_nodes, capture_output=True, check=True)


def test_elastic(tmp_path, corpus):
    """Other ranks than the layout asks for: the nearest layout takes over, the losses go on as if nothing had happened."""
    path = write_run(tmp_path, corpus, tensor=2, pipeline=2)
    trireme("train", path, "-n", 4)
    whole = losses(tmp_path)
    begin_again(tmp_path, 4)
    refused = subprocess.run([TRIREME, "train", path, "-n", "3"], capture_output=True, text=True)
    assert refused.returncode == 3 and "does not divide the 3 ranks" in refused.stderr, refused.stderr
    done = subprocess.run([TRIREME, "train", path, "-n", "3", "--set", "elastic=true"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert re.search(r"elastic: tensor 2 x pipeline 2 .* does not fit 3 ranks; the nearest that does is tensor 1 x pipeline 3 x context 1 x data 1", done.stderr), done.stderr
    for mine, theirs in zip(losses(tmp_path), whole):
        close(mine, theirs)
    assert len(losses(tmp_path)) == 12
    begin_again(tmp_path, 8)  # a checkpoint of three ranks is resumed with six
    done = subprocess.run([TRIREME, "train", path, "-n", "6", "--set", "elastic=true"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert re.search(r"elastic: .* does not fit 6 ranks; the nearest that does is tensor 2 x pipeline 3 x context 1 x data 1", done.stderr), done.stderr
    assert "after step 8" in done.stderr and len(losses(tmp_path)) == 12
    for mine, theirs in zip(losses(tmp_path), whole):
        close(mine, theirs)


def test_elastic_context(tmp_path, corpus):
    """Ranks that share sequences: fewer of them go on, and the message says how many, and that they cannot exchange heads."""
    path = write_run(tmp_path, corpus, context=4, context_exchange="heads")
    trireme("train", path, "-n", 4)
    whole = losses(tmp_path)
    begin_again(tmp_path, 8)
    done = subprocess.run([TRIREME, "train", path, "-n", "3", "--set", "elastic=true"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert ("elastic: tensor 1 x pipeline 1 x context 4 x data auto does not fit 3 ranks; the nearest that does is tensor 1 x pipeline 1 x context 3 "
            "x data 1 with micro-batches of 1, which gathers keys instead of exchanging heads") in done.stderr, done.stderr
    for mine, theirs in zip(losses(tmp_path), whole, strict=True):
        close(mine, theirs)


def begin_again(folder, step):
    for path in (folder / "run/checkpoints").glob("step-*"):
        if int(path.name[5:]) > step:
            shutil.rmtree(path)


def test_no_restart_of_wrong_keys(tmp_path, corpus):
    path = write_run(tmp_path, corpus, data=4, max_restarts=5)
    done = subprocess.run([TRIREME, "train", path, "-n", "2"], capture_output=True, text=True)
    assert done.returncode == 3 and "restart 1" not in done.stderr, done.stderr


@pytest.mark.parametrize("layout,wait", [(dict(pipeline=2), r"over (pipeline|world|tied)"),
                                         (dict(data=2), r"over (data|world)"), (dict(tensor=2), r"over (tensor|world)"),
                                         (dict(context=2, context_exchange="heads"), r"over (context_inner|replicas|world)"),
                                         (dict(context=2, context_exchange="ring"), r"over (context_outer|replicas|world)")],
                         ids=["pipeline", "data", "tensor", "heads", "ring"])
def test_stuck_rank(tmp_path, corpus, layout, wait):
    """A rank stops without dying: the report names it, and what others wait for; nothing is left running."""
    path = write_run(tmp_path, corpus, steps=100000, hang_timeout=3, **layout)
    process = subprocess.Popen([TRIREME, "train", path, "-n", "2"], stderr=subprocess.PIPE, text=True)
    wait_for_step(tmp_path, process, 3)
    os.kill(pid_of_ranks(tmp_path)[1], signal.SIGSTOP)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 9, errors
    assert errors.count("trireme: ") == 1 and "no progress for 3 s" in errors, errors
    found = re.search(r"rank (\d) \(\w+ \d\) is behind: it does not answer.*; rank (\d) \(\w+ \d\) waits for it in \w+.* " + wait, errors)
    assert found and found[1] != found[2], errors
    wait_until_gone(tmp_path)
    told = json.loads((tmp_path / f"run/flight/rank-0000{found[2]}.json").read_text())
    assert told["waits_for"]["rank"] == int(found[1]) and told["newest_first"][0]["has_ended"] is False
    assert not (tmp_path / f"run/flight/rank-0000{found[1]}.json").exists()


def test_stuck_rank_after_a_false_alarm(tmp_path, corpus):
    """A report that a rank wrote for an earlier request does not count: the rank may be stopped since then."""
    path = write_run(tmp_path, corpus, steps=100000, hang_timeout=3, data=2)
    process = subprocess.Popen([TRIREME, "train", path, "-n", "2"], stderr=subprocess.PIPE, text=True)
    wait_for_step(tmp_path, process, 3)
    flight = tmp_path / "run/flight"
    (flight / "asked").write_text("1-0.5")
    end = time.monotonic() + 60
    while time.monotonic() < end and not all((flight / f"rank-0000{r}.json").exists() for r in range(2)):
        time.sleep(0.1)
    (flight / "asked").unlink()
    os.kill(pid_of_ranks(tmp_path)[1], signal.SIGSTOP)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 9 and "no progress for 3 s" in errors, errors
    assert "is behind: it does not answer" in errors, errors
    wait_until_gone(tmp_path)


@pytest.mark.parametrize("who", ["parent", "launcher"])
def test_kill_those_above(tmp_path, corpus, who):
    path = write_run(tmp_path, corpus, steps=100000, data=2)
    process = subprocess.Popen([TRIREME, "train", path, "-n", "2"], stderr=subprocess.PIPE, text=True)
    wait_for_step(tmp_path, process, 2)
    os.kill(process.pid if who == "parent" else launcher_of(tmp_path, process), signal.SIGKILL)
    process.communicate(timeout=60)
    assert process.returncode != 0
    wait_until_gone(tmp_path)


def test_timeline(tmp_path, corpus):
    """What ranks did, drawn: every instruction of every step of every rank is there; the shares are of one whole."""
    path = write_run(tmp_path, corpus, pipeline=2, data=2, zero=1)
    refused = trireme("train", path, "-n", 4, "--timeline", tmp_path / "nowhere/t.svg", status=5)
    assert "cannot write to the folder" in refused.stderr and refused.stderr.count("trireme: ") == 1
    trireme("train", path, "-n", 4, "--timeline", tmp_path / "t.svg")
    events = json.loads((tmp_path / "t.json").read_text())
    events = events["traceEvents"] if isinstance(events, dict) else events
    work = [e for e in events if e["ph"] == "X" and e["name"] in ("forward", "backward")]
    seen = {(e["pid"], e["args"]["step"], e["args"]["micro_batch"], e["name"]) for e in work}
    ranks, steps = {e["pid"] for e in work}, {e["args"]["step"] for e in work}
    assert len(ranks) == 4 and steps == set(range(3, 11))
    assert {(r, s, m, n) for r in ranks for s in steps for m in range(4) for n in ("forward", "backward")} <= seen
    names = {e["name"] for e in events}
    assert {"receive", "send", "reduce_scatter", "all_gather", "update"} <= names
    assert "<svg" in (tmp_path / "t.svg").read_text()
    share = json.loads((tmp_path / "run/summary.json").read_text())["share"]
    parts = [share[k] for k in ("compute", "optimizer", "tensor", "context", "data", "pipeline", "all", "bubble")]
    assert all(part >= 0 for part in parts) and abs(sum(parts) - 1) < 1e-9 and share["steps"] == 8
    assert share["compute"] > 0.01 and share["bubble"] > 0.01 and share["tensor"] == 0


def run_differently(first, second):
    """Two ranks of one job with a command of their own each."""
    script = f'if [ "${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}}" = 1 ]; then exec {second}; else exec {first}; fi'
    launcher = ["mpiexec"]
    if "Open" in subprocess.run(["mpiexec", "--version"], capture_output=True, text=True).stdout:
        launcher += ["--allow-run-as-root", "--oversubscribe"]
    done = subprocess.run([*launcher, "-n", "2", "sh", "-c", script], capture_output=True, text=True)
    assert done.returncode != 0
    return done.stderr


def test_differing_ranks(tmp_path, corpus):
    """Ranks that were started with other files, data or programs: the first step never comes."""
    path = write_run(tmp_path, corpus)
    command = f"{TRIREME} train {path}"
    assert "rank 1 was started with another configuration than rank 0" in run_differently(command, f"{command} --set seed=6")
    program = tmp_path / "trireme"
    shutil.copy(TRIREME, program)
    with open(program, "ab") as file:
        file.write(b"another build")
    assert "rank 1 was started with another program than rank 0" in run_differently(command, f"{program} train {path}")
    for name in ("train", "validation"):
        shutil.copytree(corpus, tmp_path / name)
        file = tmp_path / name / f"{name}.bin"
        raw = bytearray(file.read_bytes())
        raw[len(raw) // 2 : len(raw) // 2 + 2000] = bytes(2000)
        file.write_bytes(raw)
        (tmp_path / name / f"{name}.corpus.json").unlink()  # which would tell on one rank already
        folder = tmp_path / "here"
        other = tmp_path / "there"
        for at, source in ((folder, corpus), (other, tmp_path / name)):
            shutil.rmtree(at, ignore_errors=True)
            (at / "data").parent.mkdir()
            (at / "data").symlink_to(source)
        keys = "--set data.train=data/train --set data.validation=data/validation"
        errors = run_differently(f"sh -c 'cd {folder}; {command} {keys}'", f"sh -c 'cd {other}; {command} {keys}'")
        assert f"rank 1 was started with another corpus (data.{name}) than rank 0" in errors, errors
    assert not (tmp_path / "run").exists()


def test_memory_of_the_node(tmp_path, corpus):
    """Each rank alone would fit; all of a node do not."""
    path = write_run(tmp_path, corpus, pipeline=2, data=2)
    need = 0.6 * available_bytes()
    hidden = int((need / (16 * 12 * 4)) ** 0.5) // 64 * 64  # 16 bytes a parameter, 12 h^2 a layer, 4 layers on 2 stages
    done = subprocess.run([TRIREME, "train", path, "-n", "4", "--set", f"model.hidden_size={hidden}"], capture_output=True, text=True)
    assert done.returncode == 6, done.stderr
    assert re.search(r"the 4 ranks on \S+ need [\d.]+ GiB, but it has [\d.]+ GiB available; raise layout.zero", done.stderr), done.stderr
    for rank in range(4):
        line = rf"rank {rank} \(data {rank % 2}, pipeline {rank // 2}\): parameters \S+ GiB gradients \S+ GiB optimizer \S+ GiB activations .* buffers .* = "
        assert re.search(line, done.stderr), done.stderr
    assert not (tmp_path / "run").exists()


def available_bytes():
    for line in open("/proc/meminfo"):
        if line.startswith("MemAvailable"):
            return int(line.split()[1]) * 1024


def resident_bytes(pid):
    for line in open(f"/proc/{pid}/status"):
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024


def rank_of_process(pid):
    words = open(f"/proc/{pid}/environ", "rb").read().split(b"\0")
    found = [w.split(b"=")[1] for w in words if w.startswith((b"OMPI_COMM_WORLD_RANK=", b"PMI_RANK="))]
    return int(found[0]) if found else None


@pytest.mark.parametrize("layout", [dict(data=2, zero=1), dict(pipeline=2, data=2, zero=3), dict(tensor=2, data=2)],
                         ids=["data2", "pipeline2-data2", "tensor2-data2"])
def test_resident_memory(tmp_path, corpus, layout):
    """Resident is what was planned, 5 % and 64 MiB: libraries, generated code, the staging of collectives."""
    path = write_run(tmp_path, corpus, steps=100000, **layout)
    ranks = 2 if len(layout) == 2 and "zero" in layout and "pipeline" not in layout else 4
    bigger = ["--set", "model.hidden_size=512", "--set", "model.num_heads=8", "--set", "checkpoint.every=0"]
    planned = []
    for rank in range(ranks):
        printed = trireme("train", path, "-n", ranks, "--dry-run", "--verbose", "--rank", rank, *bigger).stdout
        planned.append(int(re.search(r"\n  all +(\d+) bytes", printed)[1]))
    process = subprocess.Popen([TRIREME, "train", path, "-n", str(ranks), *bigger], stderr=subprocess.PIPE, text=True)
    try:
        wait_for_step(tmp_path, process, 5)
        seen = {rank_of_process(pid): resident_bytes(pid) for pid in ranks_of(tmp_path)}
        for rank in range(ranks):
            assert planned[rank] < seen[rank] <= 1.05 * planned[rank] + (64 << 20), (rank, planned[rank], seen[rank])
    finally:
        process.kill()
        process.communicate()
    wait_until_gone(tmp_path)

"""Checkpoints of several ranks in several files, damaged in every way: the resumed run begins from a good one, never from
a bad one, and says which it passed over and why."""
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import time

import pytest
from parity import TRIREME, trireme, yaml_of

pytestmark = pytest.mark.skipif(shutil.which("mpiexec") is None, reason="SKIPPED: there is no mpiexec")
MODEL = dict(family="llama", num_layers=2, hidden_size=32, num_heads=4, num_kv_heads=2, ffn_size=48, vocab_size=257, max_sequence=32)
SAVED_BY = dict(tensor=2, pipeline=2)
RESUMED_BY = {1: {}, 2: dict(data=2, zero=3)}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "text.txt").write_text("".join(f"Oar {i} of {i * 7919 % 1000}.\n" for i in range(3000)))
    trireme("prepare", "--tokenizer", "bytes", "--out", folder / "data", folder / "text.txt")
    return folder / "data"


def write_run(folder, corpus, layout, steps, model=MODEL, **checkpoint):
    run = dict(model=model, data=dict(train=str(corpus / "train"), sequence=32), layout=dict(micro_batch=1, **layout),
               optimizer=dict(global_batch=4, steps=steps, lr=1e-3), evaluation=dict(every=0),
               checkpoint={**dict(every=2, keep=0, shard_bytes=40000), **checkpoint}, seed=5, output=str(folder / "run"))
    (folder / "run.yaml").write_text(yaml_of(run))
    return folder / "run.yaml"


def train(run, ranks, *more):
    return subprocess.run([TRIREME, "train", str(run), "-n", str(ranks), *more], capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def saved(tmp_path_factory, corpus):
    """The output of a run of four ranks, with checkpoints of steps 2 and 4."""
    folder = tmp_path_factory.mktemp("saved")
    done = train(write_run(folder, corpus, SAVED_BY, 4), 4)
    assert done.returncode == 0, done.stderr
    files = sorted(path.name for path in (folder / "run/checkpoints/step-00000004").iterdir())
    assert len([name for name in files if name.endswith(".safetensors")]) >= 5, files
    return folder


def flip(path, chance):
    data = bytearray(path.read_bytes())
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    path.write_bytes(data)


def truncate(path, chance):
    os.truncate(path, chance.randrange(path.stat().st_size))


def delete(path, _):
    path.unlink()


def resumes_from(folder, corpus, ranks, step):
    """Resumes for one more step, checks that it resumes after `step`, and returns the log."""
    shutil.rmtree(folder / "run/flight", ignore_errors=True)
    done = train(write_run(folder, corpus, RESUMED_BY[ranks], step + 1, every=0), ranks, "--resume", "auto")
    assert done.returncode == 0, done.stderr
    assert re.search(rf"resuming from \S*step-{step:08d}(-1)?, after step {step}\n", done.stderr), done.stderr
    assert json.loads((folder / "run/metrics.jsonl").read_text().splitlines()[-1])["step"] == step + 1
    return done.stderr


@pytest.mark.parametrize("damage", [flip, truncate, delete])
def test_every_file(tmp_path, saved, corpus, damage):
    newest = "run/checkpoints/step-00000004"
    for number, name in enumerate(sorted(os.listdir(saved / newest))):
        chance = random.Random(f"{damage.__name__} {name}")
        folder = tmp_path / str(number)
        shutil.copytree(saved, folder)
        damage(folder / newest / name, chance)
        said = resumes_from(folder, corpus, 1 + number % 2, 2)
        passed = [line for line in said.splitlines() if "passing over the checkpoint" in line]
        assert len(passed) == 1 and "step-00000004" in passed[0], said
        assert name in passed[0] or name == "COMPLETE" or "tensor" in passed[0], passed
        shutil.rmtree(folder)


def test_a_named_checkpoint_is_verified_too(tmp_path, saved, corpus):
    shutil.copytree(saved, tmp_path / "all")
    folder = tmp_path / "all"
    path = folder / "run/checkpoints/step-00000004"
    shard = sorted(path.glob("optimizer-*.safetensors"))[0]
    data = bytearray(shard.read_bytes())
    data[-5] ^= 16
    shard.write_bytes(data)
    for ranks, layout in RESUMED_BY.items():
        done = train(write_run(folder, corpus, layout, 6), ranks, "--resume", str(path))
        assert done.returncode == 4, done.stderr
        assert re.search(r"optimizer-00001-of-\d+\.safetensors: tensor `\S+` is damaged: its checksum is", done.stderr), done.stderr
        assert done.stderr.count("is damaged") == 1, done.stderr


@pytest.mark.parametrize("left", ["before the rename", "between two renames", "old is half removed"])
def test_interrupted_rename(tmp_path, saved, corpus, left):
    folder = tmp_path / "all"
    shutil.copytree(saved, folder)
    root = folder / "run/checkpoints"
    newest = root / "step-00000004"
    if left == "before the rename":  # all is written, and has not its name
        newest.rename(root / ".tmp-step-00000004-1")
        said = resumes_from(folder, corpus, 2, 2)
    elif left == "between two renames":  # a save in place of one of the same step
        newest.rename(root / ".old-step-00000004-1")
        said = resumes_from(folder, corpus, 2, 4)
    else:
        shutil.copytree(newest, root / ".old-step-00000004-1")
        (root / ".old-step-00000004-1/COMPLETE").unlink()
        said = resumes_from(folder, corpus, 2, 4)
    assert "passing over" not in said


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("mount") is None, reason="SKIPPED: only root may mount a small tmpfs")
def test_full_disk(tmp_path, corpus):
    """A tmpfs that has room for one checkpoint and a part of the next."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", str(disk)], capture_output=True).returncode != 0:
        pytest.skip("SKIPPED: a tmpfs cannot be mounted here")
    try:
        run = write_run(disk, corpus, SAVED_BY, 4)
        done = train(run, 4)
        assert done.returncode == 5, done.stderr
        assert re.search(r"cannot write \S*step-00000004\S*: No space left on device", done.stderr), done.stderr
        assert "make room there, or choose another folder (of a run: a lower `checkpoint.keep`, or another `output`)" in done.stderr
        assert sorted(path.name for path in (disk / "run/checkpoints").iterdir()) == ["step-00000002"]
        subprocess.run(["mount", "-o", "remount,size=4m", str(disk)], check=True)
        resumes_from(disk, corpus, 2, 2)
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


@pytest.mark.parametrize("background", [False, True], ids=["at-once", "background"])
def test_one_rank_cannot_write(tmp_path, corpus, background):
    """The error message of the failing rank is printed. Only the second rank has a limit on file sizes below the offset of its part."""
    limit = tmp_path / "limit.sh"  # above the size of MPI's own files, 4 MiB
    limit.write_text('[ "$OMPI_COMM_WORLD_RANK$PMI_RANK" != 1 ] || { trap "" XFSZ; ulimit -f 12000; }\nexec "$@"\n')
    mpiexec = tmp_path / "bin/mpiexec"
    mpiexec.parent.mkdir()
    mpiexec.write_text(f"""#!/usr/bin/env python3
import os, sys
real = {shutil.which("mpiexec")!r}
at = next((i for i, word in enumerate(sys.argv) if os.path.basename(word) in ("trireme", "trireme-test")), len(sys.argv))
os.execv(real, [real, *sys.argv[1:at], *(["sh", {str(limit)!r}] if at < len(sys.argv) else []), *sys.argv[at:]])
""")
    mpiexec.chmod(0o755)
    model = dict(MODEL, hidden_size=256, ffn_size=768, num_layers=2)
    path = write_run(tmp_path, corpus, dict(data=2, zero=1), 4, model=model, shard_bytes=1 << 30, **{"async": background})
    done = subprocess.run([TRIREME, "train", path, "-n", "2"], env={**os.environ, "PATH": f"{mpiexec.parent}:{os.environ['PATH']}"},
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 5 and done.stderr.count("trireme: ") == 1, done.stderr
    assert re.search(r"rank 1 \(data 1\).*cannot write \S*step-00000002\S*: File too large", done.stderr), done.stderr
    assert list((tmp_path / "run/checkpoints").iterdir()) == []


def bytes_read(folder, corpus, ranks, layout, resume):
    """What each rank has read by the time it trains."""
    model = dict(MODEL, hidden_size=256, ffn_size=768, num_layers=4)
    run = write_run(folder, corpus, layout, 100000, model=model, every=0, shard_bytes=4000000)
    process = subprocess.Popen([TRIREME, "train", str(run), "-n", str(ranks), "--resume", resume], stderr=subprocess.PIPE, text=True)
    metrics = folder / "run/metrics.jsonl"
    begun = len(metrics.read_text().splitlines()) if resume == "auto" else 0
    read = {}
    deadline = time.monotonic() + 300
    while len(read) < ranks and time.monotonic() < deadline:
        time.sleep(0.02)
        if not metrics.exists() or len(metrics.read_text().splitlines()) <= begun:
            continue
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                words = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                rank = next((w.split(b"=")[1] for w in words if w.startswith((b"OMPI_COMM_WORLD_RANK=", b"PMI_RANK="))), None)
                if rank is not None and str(run).encode() in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
                    io = pathlib.Path(f"/proc/{pid}/io").read_text()
                    read[int(rank)] = int(re.search(r"rchar: (\d+)", io)[1])
            except OSError:
                pass
    process.terminate()
    _, said = process.communicate(timeout=60)
    assert len(read) == ranks, said
    return read


def test_ranks_read_what_they_need(tmp_path, corpus):
    """Compared with a new run, a resumed rank reads its own slices, headers and small files, and no more."""
    layout = dict(tensor=2, pipeline=2)
    fresh = bytes_read(tmp_path, corpus, 4, layout, "never")
    whole = sum(path.stat().st_size for path in (tmp_path / "run/checkpoints").glob("step-*/*.safetensors"))
    resumed = bytes_read(tmp_path, corpus, 4, layout, "auto")
    assert whole > 30 << 20
    for rank, count in resumed.items():
        assert count - fresh[rank] < 0.3 * whole + (1 << 20), (rank, fresh, resumed, whole)
    assert sum(resumed.values()) - sum(fresh.values()) < 1.05 * whole + (4 << 20)

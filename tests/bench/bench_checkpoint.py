"""Saving and loading GPT-2 124M with its optimizer (1.5 GB), beside dd with fsync and PyTorch on the same bytes and the same
disk, in turn: see docs/performance.md.

bench_checkpoint.py [--rounds N]"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import time
from pathlib import Path

import bench

BYTES = 12 * 124439808
FOLDER = bench.OUT / "checkpoint"
TORCH = """
import os, sys, time, torch
state = {str(i): torch.full((BYTES // 4 // 64,), 1.0) for i in range(64)}
begin = time.perf_counter()
copy = {name: tensor.clone() for name, tensor in state.items()}  # touches
again = time.perf_counter()
for name, tensor in state.items(): copy[name].copy_(tensor)
copied = time.perf_counter() - again
begin = time.perf_counter()
with open(sys.argv[1] + "/torch.pt", "wb") as file:
    torch.save(state, file)
    file.flush()
    os.fsync(file.fileno())
saved = time.perf_counter() - begin
begin = time.perf_counter()
try:
    import torch.distributed.checkpoint as dcp
    dcp.save(state, checkpoint_id=sys.argv[1] + "/dcp", no_dist=True)
    distributed = time.perf_counter() - begin
except Exception:
    distributed = float("nan")
print(copied, saved, distributed, flush=True)
sys.stdin.readline()  # the caller empties the page cache
begin = time.perf_counter()
torch.load(sys.argv[1] + "/torch.pt")
print(time.perf_counter() - begin)
""".replace("BYTES", str(BYTES))


def fresh():
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    os.sync()


def empty_page_cache():
    """So that what is loaded comes from the disk; only root may, and without that it comes from memory."""
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3")
    except OSError:
        bench.say("the page cache cannot be emptied: loads are from memory")


def dd():
    fresh()
    begin = time.perf_counter()
    subprocess.run(["dd", "if=/dev/zero", f"of={FOLDER}/dd", "bs=1M", f"count={BYTES >> 20}", "conv=fsync"], check=True, capture_output=True)
    return time.perf_counter() - begin


def trireme(ranks, background):
    """Seconds of a save, of what the steps waited for it, and of loading it with every checksum verified."""
    fresh()
    run = dict(model=str(bench.ROOT / "configs/models/gpt2-124m.yaml"), data=dict(train=str(bench.corpus() / "train"), sequence=32),
               layout=dict(micro_batch=1, zero=1), optimizer=dict(global_batch=2, steps=3, lr=1e-4), evaluation=dict(every=0),
               checkpoint={"every": 0, "async": background}, hang_timeout=0, output=str(FOLDER / "run"))
    (FOLDER / "run.yaml").write_text(json.dumps(run))
    command = [bench.TRIREME, "train", str(FOLDER / "run.yaml")] + (["-n", str(ranks)] if ranks > 1 else [])
    summaries = []
    for steps in (3, 4):
        empty_page_cache()
        subprocess.run([*command, "--set", f"optimizer.steps={steps}"], check=True, capture_output=True)
        summaries.append(json.loads((FOLDER / "run/summary.json").read_text()))
    return summaries[0]["checkpoint_s"], summaries[0]["checkpoint_pause_s"], summaries[1]["load_s"]


def pytorch(python):
    with subprocess.Popen([python, "-c", TORCH, FOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        saved = child.stdout.readline().split()
        empty_page_cache()
        loaded, _ = child.communicate("\n")
    return dict(zip(("copy", "torch.save", "dcp", "torch.load"), map(float, saved + loaded.split())))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    bench.OUT.mkdir(parents=True, exist_ok=True)
    python = bench.newest_python()
    rounds = []
    for number in range(options.rounds):
        measured = dict(dd=dd())
        for ranks in (1, 2):
            measured[f"save {ranks}"], _, measured[f"load {ranks}"] = trireme(ranks, False)
            _, measured[f"pause {ranks}"], _ = trireme(ranks, True)
        if python:
            fresh()
            measured.update(pytorch(python))
        measured["dd again"] = dd()
        rounds.append(measured)
        bench.say(f"round {number + 1}: " + ", ".join(f"{k} {v:.2f} s" for k, v in measured.items()))
    shutil.rmtree(FOLDER)
    (bench.OUT / "checkpoint.json").write_text(json.dumps(rounds, indent=2))
    print("| seconds for 1.5 GB | median | range |\n| --- | --- | --- |")
    for name in rounds[0]:
        values = sorted(r[name] for r in rounds)
        print(f"| {name} | {statistics.median(values):.2f} | {values[0]:.2f} to {values[-1]:.2f} |")


if __name__ == "__main__":
    main()

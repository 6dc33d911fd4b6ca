"""How ranks scale on one machine, GPT-2 124M in fp32, all sides interleaved in one run: see docs/performance.md.

bench_scaling.py [--rounds N] [--steps N] [--only GROUP]...

One rank on one core is the unit. Each side is restarted in each round, makes its steps and is stopped before it saves;
its first step, in which memory is touched for the first time, does not count. Ratios are of a round's medians; the table
has the median over the rounds and their range."""
import argparse
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import time

import bench

SEQUENCE, CORES = 256, sorted(os.sched_getaffinity(0))[:2]
MODEL = str(bench.ROOT / "configs/models/gpt2-124m.yaml")


class Run:
    """`trireme train` with a layout, on `ranks` ranks of one core each, or on given cores alone."""

    def __init__(self, name, ranks=1, cores=None, micro_batch=2, batch=2, **layout):
        self.name, self.ranks, self.cores, self.batch = name, ranks, cores, batch
        self.layout = dict(micro_batch=micro_batch, **layout)

    def start(self, folder):
        self.output = folder / self.name.replace(" ", "-")
        shutil.rmtree(self.output, ignore_errors=True)
        run = dict(model=MODEL, data=dict(train=str(bench.corpus() / "train"), sequence=SEQUENCE), layout=self.layout,
                   optimizer=dict(global_batch=self.batch, steps=100000, lr=1e-4), evaluation=dict(every=0),
                   checkpoint=dict(every=0), threads=len(self.cores or [0]), output=str(self.output))
        path = folder / (self.output.name + ".yaml")
        path.write_text(json.dumps(run))
        command = [bench.TRIREME, "train", str(path)] + (["-n", str(self.ranks)] if self.ranks > 1 else [])
        if self.cores:
            command = ["taskset", "-c", ",".join(map(str, self.cores)), *command]
        self.process = subprocess.Popen(command, stderr=open(bench.OUT / "trireme.log", "a"))

    def lines(self):
        path = self.output / "metrics.jsonl"
        return path.read_text().splitlines() if path.exists() else []

    def stop(self, steps):
        """Waits for the steps; answers tokens a second."""
        while len(self.lines()) < steps + 1:
            if self.process.poll() is not None:
                raise RuntimeError(f"{self.name}: trireme ended; see {bench.OUT}/trireme.log")
            time.sleep(0.02)
        self.process.send_signal(signal.SIGKILL)  # the ranks end with their parent
        self.process.wait()
        time.sleep(0.5)
        seconds = statistics.median(json.loads(line)["step_s"] for line in self.lines()[1 : steps + 1])
        return self.batch * SEQUENCE / seconds

    def measure(self, folder, steps):
        self.start(folder)
        return self.stop(steps)


class Both:
    """Two runs that know nothing of each other, at the same time: what two cores can do that share a memory."""

    def __init__(self, name):
        self.name = name
        self.runs = [Run(f"{name} {core}", cores=[core]) for core in CORES]

    def measure(self, folder, steps):
        for run in self.runs:
            run.start(folder)
        return sum(run.stop(steps) for run in self.runs)


class Torch:
    """DistributedDataParallel over gloo, a process a core."""

    def __init__(self, python, name, mode):
        self.python, self.name, self.mode = python, name, mode

    def measure(self, _, steps):
        environment = {**os.environ, **(bench.tuned_environment() or {}), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29511",
                       "TORCHINDUCTOR_CACHE_DIR": str(bench.OUT / "inductor")}
        shape = (12, 768, 12, 50257, 2, SEQUENCE)
        workers = [subprocess.Popen(
            [self.python, str(bench.ROOT / "tests/bench/torch_ddp_worker.py"), *map(str, shape), self.mode, str(rank), str(core),
             str(steps)], stdout=subprocess.PIPE, stderr=open(bench.OUT / "torch.log", "a"), text=True, env=environment)
            for rank, core in enumerate(CORES)]
        answer = workers[0].communicate()[0]
        workers[1].communicate()
        if workers[0].returncode != 0:
            raise RuntimeError(f"PyTorch's worker ended; see {bench.OUT}/torch.log")
        return 2 * 2 * SEQUENCE / statistics.median(json.loads(answer)["seconds"])


def sides(python):
    pipeline = dict(ranks=2, pipeline=2, micro_batch=1, batch=8)
    made = [Run("one core", cores=CORES[:1]), Both("two runs"), Run("one rank two threads", cores=CORES),
            Run("zero 0", ranks=2, data=2, batch=4), Run("zero 1", ranks=2, data=2, batch=4, zero=1),
            Run("zero 2", ranks=2, data=2, batch=4, zero=2), Run("zero 3", ranks=2, data=2, batch=4, zero=3),
            Run("bf16 sums", ranks=2, data=2, batch=4, zero=1, reduce_precision="bf16"),
            Run("tensor 2", ranks=2, tensor=2), Run("tensor 2 sequence", ranks=2, tensor=2, sequence_parallel=True),
            Run("one core accumulating", cores=CORES[:1], micro_batch=1, batch=8),
            Run("gpipe", schedule="gpipe", **pipeline), Run("1f1b", schedule="1f1b", **pipeline),
            Run("interleaved", schedule="interleaved", virtual_stages=2, **pipeline),
            Run("zero-bubble", schedule="zero-bubble", **pipeline)]
    if python:
        made += [Torch(python, f"ddp {mode}", mode) for mode in ("eager", "compiled")]
    return made


BOUND = 2 * 8 / (8 + 2 - 1)  # relative to one core: m / (m + p - 1) with p = 2 stages and m = 8 micro-batches

# (claim, numerator, denominator, least value; None: printed for comparison).
CLAIMS = [
    ("weak scaling, 1 to 2 ranks, ZeRO 1, of twice one core", "zero 1", lambda r: 2 * r["one core"], 0.95),
    ("the same, of two independent runs", "zero 1", lambda r: r["two runs"], None),
    ("two independent runs, of twice one core", "two runs", lambda r: 2 * r["one core"], None),
    ("tensor 2, of one rank with two threads", "tensor 2", lambda r: r["one rank two threads"], 0.90),
    ("tensor 2 with sequence_parallel, of the same", "tensor 2 sequence", lambda r: r["one rank two threads"], None),
    ("pipeline 2, 1f1b, 8 micro-batches, of its bound", "1f1b", lambda r: BOUND * r["one core accumulating"], 0.95),
    ("gpipe, of the same bound", "gpipe", lambda r: BOUND * r["one core accumulating"], None),
    ("interleaved (2 virtual stages), of the same bound", "interleaved", lambda r: BOUND * r["one core accumulating"], None),
    ("zero-bubble, of the same bound", "zero-bubble", lambda r: BOUND * r["one core accumulating"], None),
    ("zero-bubble, of 1f1b", "zero-bubble", lambda r: r["1f1b"], 1.0),
    ("ZeRO 1, of ZeRO 0", "zero 1", lambda r: r["zero 0"], None),
    ("ZeRO 2, of ZeRO 0", "zero 2", lambda r: r["zero 0"], None),
    ("ZeRO 3, of ZeRO 0", "zero 3", lambda r: r["zero 0"], 0.85),
    ("reduce_precision bf16, of fp32 (ZeRO 1)", "bf16 sums", lambda r: r["zero 1"], None),
    ("ZeRO 0, of PyTorch DDP with gloo, the better of eager and compiled", "zero 0",
     lambda r: max(r["ddp eager"], r["ddp compiled"]), 1.3),
]


def table(rounds):
    lines = ["| | ratio | range | target | |", "| --- | --- | --- | --- | --- |"]
    ratios = {}
    for words, side, base, least in CLAIMS:
        try:
            values = sorted(r[side] / base(r) for r in rounds)
        except KeyError:
            continue
        ratio = ratios[words] = statistics.median(values)
        target = "" if least is None else f"{least:.2f}"
        verdict = "" if least is None else bench.verdict(ratio >= least)
        lines.append(f"| {words} | {ratio:.3f} | {values[0]:.3f} to {values[-1]:.3f} | {target} | {verdict} |")
    return "\n".join(lines), ratios


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--only", action="append", help="sides whose names contain this")
    options = parser.parse_args()
    bench.OUT.mkdir(parents=True, exist_ok=True)
    folder = pathlib.Path(bench.OUT / "scaling")
    folder.mkdir(exist_ok=True)
    if len(CORES) < 2 or shutil.which("mpiexec") is None:
        bench.say("bench: SKIPPED: scaling takes two cores and an mpiexec")
        return
    made = sides(bench.newest_python())
    if options.only:
        made = [side for side in made if any(word in side.name for word in options.only)]
    rounds = []
    for number in range(options.rounds):
        measured = {}
        for side in made:
            measured[side.name] = side.measure(folder, options.steps)
            bench.say(f"round {number + 1}: {side.name}: {measured[side.name]:.0f} tokens/s")
        rounds.append(measured)
    text, ratios = table(rounds)
    (bench.OUT / "scaling.json").write_text(json.dumps(dict(rounds=rounds, ratios=ratios), indent=2))
    shutil.rmtree(folder)
    print(text)


if __name__ == "__main__":
    main()

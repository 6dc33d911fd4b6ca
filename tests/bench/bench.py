"""Trireme beside PyTorch and beside its own floor, in one run, interleaved: see docs/performance.md.

bench.py [--shape NAME]... [--precision fp32|bf16]... [--rounds N] [--steps N] [--only training|prepare]"""
import argparse
import glob
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRIREME = os.environ.get("TRIREME", str(ROOT / "build/trireme"))
TOOLS = pathlib.Path(os.environ.get("TRIREME_TOOLS", ROOT / "build/tools"))
SHARED = pathlib.Path(os.environ.get("TRIREME_SHARED", ROOT / "../shared"))
OUT = ROOT / "build/bench"
# name: layers, width, heads, vocabulary, batch, sequence
SHAPES = {"124m-B4xT256": (12, 768, 12, 50257, 4, 256), "124m-B1xT1024": (12, 768, 12, 50257, 1, 1024),
          "small-B32xT256": (6, 384, 6, 50257, 32, 256)}
# The least of best tuned, of eager as installed; and the most of the floor, at 124M.
TARGETS = {"fp32": (1.15, 1.5, 1.2), "bf16": (1.2, 1.8, 1.3)}


def say(*words):
    print(*words, file=sys.stderr, flush=True)


def tuned_environment():
    libraries = glob.glob("/usr/lib/*/libtcmalloc_minimal.so.4")
    if not libraries:
        return None
    return {"LD_PRELOAD": libraries[0], "ATEN_CPU_CAPABILITY": "avx512" if "avx512f" in open("/proc/cpuinfo").read() else "avx2"}


class Torch:
    """A worker process that makes steps when it is asked to."""

    def __init__(self, python, shape, precision, mode, extra):
        environment = {**os.environ, **(extra or {}), "TORCHINDUCTOR_CACHE_DIR": str(OUT / "inductor")}
        self.log = open(OUT / "torch.log", "a")
        self.process = subprocess.Popen(
            [python, str(ROOT / "tests/bench/torch_worker.py"), *map(str, shape), precision, mode],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True, env=environment)

    def steps(self, count):
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"PyTorch's worker ended; see {OUT}/torch.log")
        answer = json.loads(line)
        self.peak_bytes, self.version = answer["peak_bytes"], answer["torch"]
        return answer["seconds"]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Trireme:
    """The program itself, stopped between rounds."""

    def __init__(self, folder, shape, precision):
        layers, width, heads, vocab, batch, sequence = shape
        self.output = folder / "run"
        run = dict(
            model=dict(family="gpt2", num_layers=layers, hidden_size=width, num_heads=heads, vocab_size=vocab,
                       max_sequence=max(sequence, 1024)),
            data=dict(train=str(corpus() / "train"), sequence=sequence), layout=dict(micro_batch=batch),
            optimizer=dict(global_batch=batch, steps=100000, lr=1e-4, clip=1.0), precision=precision,
            evaluation=dict(every=0), checkpoint=dict(every=0), output=str(self.output))
        (folder / "run.yaml").write_text(json.dumps(run))
        self.process = subprocess.Popen([TRIREME, "train", str(folder / "run.yaml"), "--resume", "never"],
                                        stderr=open(OUT / "trireme.log", "a"))

    def lines(self):
        try:
            return open(self.output / "metrics.jsonl").read().splitlines()
        except FileNotFoundError:
            return []

    def steps(self, count):
        """Goes on for `count` whole steps; the one that was stopped in the middle does not count."""
        before = len(self.lines())
        self.process.send_signal(signal.SIGCONT)
        while len(self.lines()) < before + 1 + count:
            if self.process.poll() is not None:
                raise RuntimeError(f"trireme ended; see {OUT}/trireme.log")
            time.sleep(0.005)
        self.process.send_signal(signal.SIGSTOP)
        with open(f"/proc/{self.process.pid}/status") as status:
            self.peak_bytes = next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
        return [json.loads(line)["step_s"] for line in self.lines()[before + 1 : before + 1 + count]]

    def close(self):
        self.process.kill()
        self.process.wait()


class Floor:
    def __init__(self, shape, precision):
        layers, width, _, vocab, batch, sequence = shape
        self.command = [str(TOOLS / "floor_tool"), *map(str, (layers, width, 4 * width, vocab, batch, sequence)), precision]

    def steps(self, _):
        done = subprocess.run([*self.command, "0.15"], capture_output=True, text=True, check=True)
        return [json.loads(done.stdout)["floor_s"]]

    def close(self):
        pass


def corpus():
    """Real text where there is some, else words; GPT-2's size of vocabulary matters, not its tokens."""
    folder = OUT / "corpus"
    if not (folder / "train.idx").exists():
        text = OUT / "text.txt"
        shared = SHARED / "data/wikitext-2-test.txt"
        text.write_text(shared.read_text() if shared.exists() else "the oars of the trireme pull in time\n" * 40000)
        tokenizer = f"gpt2:{SHARED}/data/gpt2" if (SHARED / "data/gpt2").exists() else "bytes"
        subprocess.run([TRIREME, "prepare", "--tokenizer", tokenizer, "--out", folder, "--force", text], check=True,
                       stderr=subprocess.DEVNULL)
    return folder


def runners(python, folder, shape, precision):
    made = {"trireme": Trireme(folder, shape, precision), "floor": Floor(shape, precision)}
    if python is None:
        return made
    tuned = tuned_environment()
    for mode in ("eager", "compiled"):
        made[f"torch {mode}"] = Torch(python, shape, precision, mode, None)
        if tuned:
            made[f"torch {mode} tuned"] = Torch(python, shape, precision, mode, tuned)
        else:
            say("bench: SKIPPED: PyTorch tuned, for there is no tcmalloc (libgoogle-perftools-dev)")
    return made


def measure(python, name, precision, rounds, steps):
    """Median over rounds of each side's median step, and of each side's ratio to Trireme within a round."""
    shape = SHAPES[name]
    with tempfile.TemporaryDirectory(dir=OUT) as folder:
        sides = runners(python, pathlib.Path(folder), shape, precision)
        times, peaks = {side: [] for side in sides}, {}
        try:
            for side in list(sides):
                try:
                    sides[side].steps(2)  # compiles, touches memory
                except (RuntimeError, BrokenPipeError) as fault:
                    say(f"bench: SKIPPED: {side} at {name} {precision}: {fault}")
                    sides.pop(side).process.kill()
            for number in range(rounds):
                for side, runner in sides.items():
                    times[side].append(statistics.median(runner.steps(steps)))
                say(f"{name} {precision} round {number + 1}/{rounds}:",
                    ", ".join(f"{side} {times[side][-1]:.3f}s" for side in sides))
            peaks = {side: runner.peak_bytes for side, runner in sides.items() if hasattr(runner, "peak_bytes")}
        finally:
            for runner in sides.values():
                runner.close()
        tokens = shape[4] * shape[5]
        return {side: dict(step_s=statistics.median(times[side]), tokens_per_s=tokens / statistics.median(times[side]),
                           ratio=statistics.median(a / b for a, b in zip(times[side], times["trireme"])),
                           peak_bytes=peaks.get(side)) for side in sides}


def verdict(met):
    return "met" if met else "not met"


def training_table(results):
    lines = ["| shape | precision | side | tokens/s | trireme is | peak GiB | target |", "| --- | --- | --- | ---: | ---: | ---: | --- |"]
    for (name, precision), sides in results.items():
        tuned, installed, floor = TARGETS[precision]
        best = max((side for side in sides if side.endswith("tuned")), key=lambda s: sides[s]["tokens_per_s"], default=None)
        for side, r in sides.items():
            target, ratio = "", f"{r['ratio']:.2f}x as fast"
            if side == "floor":
                over = 1 / r["ratio"]
                ratio = f"{over:.2f}x its time"
                target = f"at most {floor}: {verdict(over <= floor)}" if name.startswith("124m") else ""
            elif side == best:
                target = f"at least {tuned}: {verdict(r['ratio'] >= tuned)}"
            elif side == "torch eager":
                target = f"at least {installed}: {verdict(r['ratio'] >= installed)}"
            elif side == "trireme":
                ratio = ""
            peak = "" if not r["peak_bytes"] else f"{r['peak_bytes'] / 2**30:.2f}"
            lines.append(f"| {name} | {precision} | {side} | {r['tokens_per_s']:.0f} | {ratio} | {peak} | {target} |")
    return "\n".join(lines)


def prepare_bench(python, rounds):
    """MB/s of one core, both sides in turn, on real text."""
    texts = sorted((SHARED / "data").glob("*.txt"))
    if python is None or not texts or not (SHARED / "data/gpt2").exists():
        say("bench: SKIPPED: prepare beside Hugging Face tokenizers needs the shared data and PyPI's tokenizers")
        return None
    text = "".join(t.read_text() for t in texts)
    source = OUT / "prepare.txt"
    source.write_text(text * max(1, 40_000_000 // len(text.encode())))
    worker = ("import sys, time\nfrom tokenizers import ByteLevelBPETokenizer\n"
              "t = ByteLevelBPETokenizer(sys.argv[1] + '/encoder.json', sys.argv[1] + '/vocab.bpe')\n"
              "lines = open(sys.argv[2]).read()[:4_000_000].splitlines(keepends=True)\n"
              "b = time.process_time(); t.encode_batch(lines); print(sum(len(l.encode()) for l in lines) / (time.process_time() - b) / 1e6)\n")
    ours, theirs = [], []
    for number in range(rounds):
        done = subprocess.run(["/usr/bin/env", "TOKENIZERS_PARALLELISM=false", "RAYON_NUM_THREADS=1", python, "-c", worker,
                               str(SHARED / "data/gpt2"), str(source)], capture_output=True, text=True, check=True)
        theirs.append(float(done.stdout))
        before = os.times()
        subprocess.run([TRIREME, "prepare", "--tokenizer", f"gpt2:{SHARED}/data/gpt2", "--threads", "1", "--out", OUT / "prepared",
                        "--force", source], check=True, stderr=subprocess.DEVNULL)
        after = os.times()
        cpu = after.children_user - before.children_user + after.children_system - before.children_system
        ours.append(source.stat().st_size / cpu / 1e6)
        say(f"prepare round {number + 1}/{rounds}: trireme {ours[-1]:.1f}, tokenizers {theirs[-1]:.1f} MB per second of processor time")
    return dict(trireme=statistics.median(ours), tokenizers=statistics.median(theirs),
                ratio=statistics.median(a / b for a, b in zip(ours, theirs)))


def newest_python():
    python = ROOT / "build/venv-full/bin/python3"
    if python.exists() and subprocess.run([python, "-c", "import torch"], capture_output=True).returncode == 0:
        return str(python)
    if subprocess.run(["/usr/bin/python3", "-c", "import torch"], capture_output=True).returncode == 0:
        say("bench: the newest PyTorch cannot be had here; Debian's takes its place, without torch.compile")
        return "/usr/bin/python3"
    say("bench: SKIPPED: everything beside PyTorch, for there is none")
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--shape", action="append", choices=SHAPES)
    parser.add_argument("--precision", action="append", choices=TARGETS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--only", choices=["training", "prepare"])
    options = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    python = newest_python()
    results = {}
    for name in (options.shape or SHAPES) if options.only != "prepare" else []:
        for precision in options.precision or TARGETS:
            results[name, precision] = measure(python, name, precision, options.rounds, options.steps)
    table = training_table(results) if results else ""
    prepared = prepare_bench(python, options.rounds) if options.only != "training" else None
    if prepared:
        table += (f"\n\nprepare, GPT-2's vocabulary, one thread: {prepared['ratio']:.1f}x the MB per second of processor time of "
                  f"Hugging Face tokenizers ({prepared['trireme']:.0f} : {prepared['tokenizers']:.1f}); "
                  f"target at least 3: {verdict(prepared['ratio'] >= 3)}")
    document = dict(results={f"{n} {p}": r for (n, p), r in results.items()}, prepare=prepared)
    (OUT / "result.json").write_text(json.dumps(document, indent=2))
    print(table)


if __name__ == "__main__":
    main()

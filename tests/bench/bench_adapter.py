"""A LoRA step of a Llama of SmolLM2 135M's shape beside PEFT's on PyTorch, in one run, interleaved: bench_adapter.py [--python PYTHON] [--rounds N]
[--steps N] [--precision fp32|bf16]. PYTHON has peft and torch; tcmalloc is preloaded for it if it is installed."""
import argparse
import glob
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRIREME = os.environ.get("TRIREME", str(ROOT / "build/trireme"))
BATCH, SEQUENCE, RANK = 4, 256, 16
MODEL = dict(family="llama", num_layers=30, hidden_size=576, num_heads=9, num_kv_heads=3, ffn_size=1536, vocab_size=49152, max_sequence=2048, tied=True)


class Peft:
    def __init__(self, python, precision, threads):
        allocators = glob.glob("/usr/lib/*/libtcmalloc_minimal.so.4")
        environment = {**os.environ, **({"LD_PRELOAD": allocators[0]} if allocators else {})}
        words = [python, str(ROOT / "tests/bench/peft_worker.py"), str(BATCH), str(SEQUENCE), precision, str(RANK), str(threads)]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)

    def steps(self, count):
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def end(self):
        self.process.kill()


def trireme(*words):
    done = subprocess.run([TRIREME, *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-1000:]


def make_base(folder):
    (folder / "text.txt").write_text("".join(f"line {i} of some text\n" for i in range(4000)))
    trireme("prepare", "--tokenizer", "bytes", "--validation", "0", "--out", folder / "text", folder / "text.txt")
    run = dict(model=MODEL, data=dict(train=str(folder / "text/train"), sequence=16), optimizer=dict(global_batch=1, steps=1, lr=0.0), output=str(folder / "base"))
    (folder / "base.yaml").write_text(json.dumps(run))
    trireme("train", folder / "base.yaml", "--resume", "never")


def ours(folder, precision, threads, steps):
    run = dict(init=str(folder / "base"), data=dict(train=str(folder / "text/train"), sequence=SEQUENCE), adapter=dict(rank=RANK, alpha=2 * RANK), layout=dict(micro_batch=BATCH),
               optimizer=dict(global_batch=BATCH, steps=steps + 1, lr=1e-4), precision=precision, threads=threads, evaluation=dict(every=0),
               checkpoint=dict(every=0, at_end=False), output=str(folder / "run"))
    (folder / "run.yaml").write_text(json.dumps(run))
    trireme("train", folder / "run.yaml", "--resume", "never")
    return [json.loads(line)["step_s"] for line in open(folder / "run/metrics.jsonl")][1:]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--precision", choices=["fp32", "bf16"], action="append")
    options = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp())
    make_base(folder)
    for precision in options.precision or ["fp32", "bf16"]:
        peft, theirs, own = Peft(options.python, precision, os.cpu_count()), [], []
        peft.steps(1)
        for _ in range(options.rounds):
            theirs.append(statistics.median(peft.steps(options.steps)))
            own.append(statistics.median(ours(folder, precision, os.cpu_count(), options.steps)))
        peft.end()
        ratios = sorted(a / b for a, b in zip(theirs, own, strict=True))
        print(f"{precision}: PEFT {statistics.median(theirs):.2f} s, trireme {statistics.median(own):.2f} s; ratio median {statistics.median(ratios):.2f} "
              f"({ratios[0]:.2f} to {ratios[-1]:.2f})", flush=True)


if __name__ == "__main__":
    main()

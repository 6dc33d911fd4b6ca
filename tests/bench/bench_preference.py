"""A DPO step of GPT-2 124M beside TRL's with precomputed reference log-probabilities, in one run, interleaved: bench_preference.py
[--python PYTHON] [--rounds N] [--steps N]. PYTHON has trl, peft and torch. Answers are of equal length, so that padding costs TRL nothing."""
import argparse
import glob
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRIREME = os.environ.get("TRIREME", str(ROOT / "build/trireme"))
PAIRS, PROMPT, ANSWER = 4, 64, 193  # bytes are tokens; an answer ends with the token that ends a text


class Trl:
    def __init__(self, python, precision, kind, threads, allocator):
        environment = {**os.environ, **({"LD_PRELOAD": allocator} if allocator else {})}
        self.log = open(tempfile.gettempdir() + "/trl.log", "a")
        self.process = subprocess.Popen([python, str(ROOT / "tests/bench/trl_worker.py"), str(PAIRS), str(PROMPT), str(ANSWER), precision, kind, str(threads)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True, env=environment)

    def steps(self, count):
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def end(self):
        self.process.kill()


def write_pairs(folder):
    chance, letters = random.Random(1), "abcdefghijklmnopqrstuvwxyz "
    with open(folder / "pairs.jsonl", "w") as out:
        for _ in range(4 * PAIRS):
            prompt, chosen, rejected = ("".join(chance.choices(letters, k=n)) for n in (PROMPT, ANSWER - 1, ANSWER - 1))
            print(json.dumps({"prompt": prompt, "chosen": chosen, "rejected": rejected}), file=out)
    subprocess.run([TRIREME, "prepare", "--preferences", "--tokenizer", "bytes", "--validation", "0", "--out", folder / "pairs", folder / "pairs.jsonl"],
                   check=True, capture_output=True)


def ours(folder, precision, kind, threads, micro_batch, steps):
    run = dict(model="gpt2-124m", data=dict(preferences=str(folder / "pairs/train"), sequence=2 * (PROMPT + ANSWER - 1)), objective=dict(name="dpo"),
               optimizer=dict(global_batch=PAIRS, steps=steps + 1, lr=1e-6), layout=dict(micro_batch=micro_batch), precision=precision, threads=threads,
               checkpoint=dict(every=0, at_end=False), output=str(folder / "run"))
    run["model"] = dict(json.loads(json.dumps({"family": "gpt2", "num_layers": 12, "hidden_size": 768, "num_heads": 12, "vocab_size": 50257,
                                               "max_sequence": 1024, "tied": True, "dropout": 0.0})))
    if kind == "lora":
        run["init"], run["adapter"] = str(folder / "base"), dict(rank=16, alpha=32)
        del run["model"]
    (folder / "run.yaml").write_text(json.dumps(run))
    done = subprocess.run([TRIREME, "train", folder / "run.yaml", "--resume", "never"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-1000:]
    lines = [json.loads(line) for line in open(folder / "run/metrics.jsonl")]
    return [line["step_s"] for line in lines][1:]


def make_base(folder):
    (folder / "text.txt").write_text("some text\n" * 400)
    subprocess.run([TRIREME, "prepare", "--tokenizer", "bytes", "--validation", "0", "--out", folder / "text", folder / "text.txt"], check=True, capture_output=True)
    run = dict(model={"family": "gpt2", "num_layers": 12, "hidden_size": 768, "num_heads": 12, "vocab_size": 50257, "max_sequence": 1024, "tied": True},
               data=dict(train=str(folder / "text/train"), sequence=16), optimizer=dict(global_batch=1, steps=1, lr=0.0), output=str(folder / "base"))
    (folder / "base.yaml").write_text(json.dumps(run))
    subprocess.run([TRIREME, "train", folder / "base.yaml", "--resume", "never"], check=True, capture_output=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    allocators = glob.glob("/usr/lib/*/libtcmalloc_minimal.so.4")
    folder = pathlib.Path(tempfile.mkdtemp())
    write_pairs(folder)
    make_base(folder)
    threads = os.cpu_count()
    for precision in ("fp32", "bf16"):
        for kind in ("full", "lora"):
            if options.only and options.only != f"{precision}-{kind}":
                continue
            trl = Trl(options.python, precision, kind, threads, allocators[0] if allocators else None)
            trl.steps(1)
            theirs, own = [], []
            for _ in range(options.rounds):
                theirs.append(statistics.median(trl.steps(options.steps)))
                own.append(statistics.median(ours(folder, precision, kind, threads, PAIRS, options.steps)))
            trl.end()
            ratios = sorted(a / b for a, b in zip(theirs, own))
            print(f"{precision} {kind}: TRL {min(theirs):.2f} s, trireme {min(own):.2f} s; ratio median {statistics.median(ratios):.2f} ({ratios[0]:.2f} to "
                  f"{ratios[-1]:.2f})", flush=True)


main()

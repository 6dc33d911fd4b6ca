#!/usr/bin/env python3
"""Generation beside transformers: GPT-2 124M's shape with random weights, greedy, with caches, on the same threads, in turns.

bench_generate.py [--rounds N] [--tokens N] [--threads N] [--cases fp32:1,bf16:1,...] [--python PYTHON] [--alone]

A case is a precision and how many sequences are generated side by side. Each round runs each case with build/bench_generate and then with
transformers (in PYTHON, which has torch and transformers; with --alone ours only). Medians over the rounds, and their span; `of read` is the
rate at which the weights of a step are read, as a share of plain reading's in the same minute."""
import argparse
import json
import os
import statistics
import subprocess
import sys

OURS = os.path.join(os.environ.get("TRIREME_BUILD", "build"), "bench_generate")
THEIRS = """
import sys, time, torch
from transformers import GPT2Config, GPT2LMHeadModel
torch.set_num_threads(int(sys.argv[4]))
kind, rows, tokens = dict(fp32=torch.float32, bf16=torch.bfloat16)[sys.argv[1]], int(sys.argv[2]), int(sys.argv[3])
torch.manual_seed(0)
model = GPT2LMHeadModel(GPT2Config()).to(kind).eval()
prompt = torch.randint(0, 50257, (rows, 8))
options = dict(do_sample=False, use_cache=True, pad_token_id=0, eos_token_id=None)
with torch.no_grad():
    model.generate(prompt, max_new_tokens=4, **options)
    begin = time.time()
    model.generate(prompt, max_new_tokens=tokens, min_new_tokens=tokens, **options)
    print(rows * tokens / (time.time() - begin))
"""


def ours(case, options):
    done = subprocess.run([OURS, *case, str(options.tokens), "cpu", str(options.threads)], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def theirs(case, options):
    words = [options.python, "-c", THEIRS, *case, str(options.tokens), str(options.threads)]
    return float(subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()[-1])


def span(values):
    return f"{statistics.median(values):8.1f} ({min(values):.1f}-{max(values):.1f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=300)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--cases", default="fp32:1,bf16:1,fp32:8,bf16:8")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--alone", action="store_true")
    options = parser.parse_args()
    cases = [tuple(case.split(":")) for case in options.cases.split(",")]
    mine, other = {case: [] for case in cases}, {case: [] for case in cases}
    for _ in range(options.rounds):
        for case in cases:
            mine[case].append(ours(case, options))
            if not options.alone:
                other[case].append(theirs(case, options))
    print(f"{options.tokens} tokens, {options.threads} threads, medians of {options.rounds} (least-most), tokens/s")
    for case in cases:
        found = [one["tokens_s"] for one in mine[case]]
        line = f"{case[0]} x {case[1]}: {span(found)}, of read {statistics.median(one['of_read'] for one in mine[case]):.2f}"
        line += f", reading {statistics.median(one['read_gb_s'] for one in mine[case]):.1f} GB/s"
        if other[case]:
            ratios = [a / b for a, b in zip(found, other[case])]
            line += f"; transformers {span(other[case])}; ratio of pairs {statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"
        print(line)


if __name__ == "__main__":
    main()

"""A step of GRPO beside TRL's GRPOTrainer as installed, in one run, interleaved: bench_reinforcement.py [--python PYTHON] [--shape addition|135m] [--rounds N]
[--steps N] [--threads 1,2]. PYTHON has trl and torch. A step samples, scores and updates; both sides have the same model, tokenizer, prompts, batch and reward."""
import argparse
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
SHAPES = {  # model, prompts of a batch, completions of each, tokens of a completion and of a prompt, sequence and micro-batch of ours
    "addition": (dict(vocab_size=16, hidden_size=128, intermediate_size=512, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=4), 32, 8, 4, 6, 64, 8),
    "135m": (dict(vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9, num_key_value_heads=3), 8, 4, 64, 200, 272, 4),
}


def write_prompts(folder, tokens):
    chance = random.Random(3)
    with open(folder / "prompts.jsonl", "w") as out:
        for _ in range(4096):
            a, b = chance.randrange(100), chance.randrange(100)
            text = "".join(chance.choices("0123456789", k=tokens - 6)) + f"{a:02d}+{b:02d}="
            print(json.dumps(dict(prompt=text, answer=f"{a + b:03d}")), file=out)


def trls(python, folder, shape, threads, steps):
    _, prompts, size, longest, *_ = SHAPES[shape]
    words = [python, str(ROOT / "tests/bench/grpo_worker.py"), "train", str(folder), str(prompts), str(size), str(longest), str(threads), str(steps)]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def ours(folder, shape, threads, steps):
    _, prompts, size, longest, _, sequence, micro_batch = SHAPES[shape]
    run = dict(init=str(folder / "model"), data=dict(prompts=str(folder / "prompts.jsonl"), sequence=sequence), objective=dict(name="grpo"), reward="exact",
               rollout=dict(prompts=prompts, num_generations=size, max_completion_length=longest, slots=min(256, prompts * size)),
               optimizer=dict(steps=steps + 1, lr=3e-4), layout=dict(micro_batch=micro_batch), precision="fp32", threads=threads, evaluation=dict(every=0),
               checkpoint=dict(every=0, at_end=False), output=str(folder / "run"))
    (folder / "run.yaml").write_text(json.dumps(run))
    done = subprocess.run([TRIREME, "train", folder / "run.yaml", "--resume", "never"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-1000:]
    lines = [json.loads(line) for line in open(folder / "run/metrics.jsonl")][1:]
    return [line["step_s"] for line in lines], statistics.median(line["rollout_s"] / line["step_s"] for line in lines)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--shape", choices=SHAPES, default="addition")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--threads", default="1,2")
    options = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp())
    write_prompts(folder, SHAPES[options.shape][4])
    subprocess.run([options.python, str(ROOT / "tests/bench/grpo_worker.py"), "model", str(folder), json.dumps(SHAPES[options.shape][0])], check=True, capture_output=True)
    for number in range(options.rounds):
        for threads in map(int, options.threads.split(",")):
            theirs = statistics.median(trls(options.python, folder, options.shape, threads, options.steps))
            mine, share = ours(folder, options.shape, threads, options.steps)
            mine = statistics.median(mine)
            print(f"round {number + 1}, {threads} threads: TRL {theirs:.3f} s, ours {mine:.4f} s ({100 * share:.0f} % of it sampling): {theirs / mine:.2f}", flush=True)


if __name__ == "__main__":
    main()

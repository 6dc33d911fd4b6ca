#!/usr/bin/env python3
"""Compares population-based training with random search that has the same total number of steps.

bench_population.py [--seeds N] TEXT: a small GPT of bytes; 8 members of 8 rounds of 100 steps, varied learning rate
and weight decay; random search draws as many pairs from the same ranges and trains each for 800 steps, with a constant
rate as members have, and also with a cosine. Prints the lowest validation loss of each."""
import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import tempfile

TRIREME = os.path.abspath(os.environ.get("TRIREME", "build/trireme"))
MEMBERS, ROUNDS, STEPS = 8, 8, 100
SPACE = dict(lr=(1e-4, 1e-1), weight_decay=(0.01, 1.0))


def population(folder, seed):
    study = dict(name="population", run=str(folder / "run.yaml"), method="pbt", parallel=os.cpu_count(), seed=seed,
                 population=dict(members=MEMBERS, rounds=ROUNDS, steps=STEPS, share=0.25, factor=1.5),
                 space=[dict(name=name, low=low, high=high) for name, (low, high) in SPACE.items()])
    path = folder / f"population-{seed}.yaml"
    path.write_text(json.dumps(study))
    done = subprocess.run([TRIREME, "tune", str(path), "--json"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["best"]["loss"]


def train(folder, name, values, decay, core):
    sets = dict(values, steps=ROUNDS * STEPS, decay=decay)
    command = ["taskset", "-c", str(core), TRIREME, "train", str(folder / "run.yaml"), "--resume", "never", "--set", f"output={folder / name}",
               "--set", f"evaluation.every={ROUNDS * STEPS}", "--set", "checkpoint.at_end=false", "--set", "checkpoint.every=0"]
    for key, value in sets.items():
        command += ["--set", f"optimizer.{key}={value}"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def loss_of(folder, name):
    lines = (folder / name / "metrics.jsonl").read_text().splitlines()
    losses = [json.loads(line).get("validation_loss") for line in lines]
    losses = [loss for loss in losses if isinstance(loss, float)]
    return losses[-1] if losses else float("inf")


def random_search(folder, seed, decay):
    draw, losses, cores = random.Random(seed), [], os.cpu_count()
    values = [{name: low * (high / low) ** draw.random() for name, (low, high) in SPACE.items()} for _ in range(MEMBERS)]
    for begin in range(0, MEMBERS, cores):
        running = [(f"random-{seed}-{decay}-{i}", train(folder, f"random-{seed}-{decay}-{i}", values[i], decay, i - begin))
                   for i in range(begin, min(begin + cores, MEMBERS))]
        for name, process in running:
            process.wait()
            losses.append(loss_of(folder, name))
    return min(losses)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("text")
    given = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        subprocess.run([TRIREME, "prepare", "--tokenizer", "bytes", "--out", str(folder / "data"), given.text], check=True, capture_output=True)
        model = dict(family="gpt2", num_layers=2, hidden_size=64, num_heads=2, vocab_size=257, max_sequence=64)
        run = dict(model=model, data=dict(train=str(folder / "data/train"), validation=str(folder / "data/validation"), sequence=64),
                   layout=dict(micro_batch=8), optimizer=dict(global_batch=8, steps=800, lr=1e-3, warmup=10), evaluation=dict(batches=64),
                   output=str(folder / "unused"))
        (folder / "run.yaml").write_text(json.dumps(run))
        print("| seed | population | random, constant rate | random, cosine |\n| --- | --- | --- | --- |", flush=True)
        for seed in range(1, given.seeds + 1):
            rows.append((population(folder, seed), random_search(folder, seed, "constant"), random_search(folder, seed, "cosine")))
            print(f"| {seed} | " + " | ".join(f"{loss:.4f}" for loss in rows[-1]) + " |", flush=True)
    print("| median | " + " | ".join(f"{statistics.median(row[i] for row in rows):.4f}" for i in range(3)) + " |")


if __name__ == "__main__":
    main()

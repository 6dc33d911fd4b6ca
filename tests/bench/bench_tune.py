#!/usr/bin/env python3
"""Measures the results of `trireme tune`, and the number of trials that it needs.

bench_tune.py frontier [--seeds N]    the shipped study of 175B on Frontier, simulated: the Gaussian process and random search
bench_tune.py machine [--trials N]    the shipped study of this machine, real: compared with an exhaustive sweep; the two best are measured again"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile

TRIREME = os.path.abspath(os.environ.get("TRIREME", "build/trireme"))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def tune(study, store, *more):
    done = subprocess.run([TRIREME, "tune", study, "--store", store, "--json", *map(str, more)], capture_output=True, text=True, cwd=ROOT)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)


def course(found):
    best, values = 0, []
    for trial in found["trials"]:
        best = max(best, trial.get("value", 0))
        values.append(best)
    return values


def frontier(given, folder):
    study = "configs/studies/frontier-175b.yaml"
    every = tune(study, f"{folder}/all.db", "--method", "exhaustive")
    top = every["best"]["value"]
    near = sum(t.get("value", 0) >= 0.98 * top for t in every["trials"])
    print(f"{len(every['trials'])} points, {every['done']} of them fit, {near} within 2 % of the best: {top:.2f} TFLOP/s, {every['best']['point']}")
    for method, trials in (("gaussian", 64), ("random", 192)):
        courses = [course(tune(study, f"{folder}/{method}-{seed}.db", "--method", method, "--seed", seed, "--trials", trials)) for seed in range(1, given.seeds + 1)]
        needed = [next((i + 1 for i, value in enumerate(values) if value >= 0.98 * top), None) for values in courses]
        shares = [values[-1] / top for values in courses]
        print(f"{method}: {given.seeds} seeds of {trials} trials: median {statistics.median(shares):.3f} of the best, least {min(shares):.3f}; "
              f"within 2 % in {sum(n is not None for n in needed)} seeds, after {sorted(n for n in needed if n)} trials", flush=True)
    for key, said in (("importance", "of those done"), ("with_failures", "failures counted as nothing")):
        shares = {}
        for seed in range(1, given.seeds + 1):
            importance = tune(study, f"{folder}/gaussian-{seed}.db")["importance"]
            for i in importance:
                shares.setdefault(i["parameter"], []).append(i[key] / sum(j[key] for j in importance))
        ranked = sorted(shares, key=lambda name: -statistics.fmean(shares[name]))
        print(f"what mattered, {said}, in the mean of the seeds:", ", ".join(f"{name} {100 * statistics.fmean(shares[name]):.0f} %" for name in ranked))
        firsts = [max(shares, key=lambda name: shares[name][i]) for i in range(given.seeds)]
        print("  first, by number of seeds:", {name: firsts.count(name) for name in ranked if name in firsts})


def machine(given, folder):
    study = "configs/studies/this-machine.yaml"
    every = tune(study, f"{folder}/all.db", "--method", "exhaustive", "-n", 4)
    values = {t["point"]: t.get("value", 0) for t in every["trials"]}
    top = max(values.values())
    print(f"{len(values)} points, all tried: best {top:.0f} tokens/s, {every['best']['point']}; median {statistics.median(values.values()):.0f}", flush=True)
    for seed in range(1, given.seeds + 1):
        some = tune(study, f"{folder}/some-{seed}.db", "--seed", seed, "--trials", given.trials or len(values) // 3, "-n", 4)
        first = some["trials"][0].get("value", 0)
        print(f"seed {seed}: {len(some['trials'])} trials; found {some['best']['point']}: {some['best']['value']:.0f} now, {values[some['best']['point']]:.0f} in the "
              f"sweep, {values[some['best']['point']] / top:.3f} of its best; the first trial {first / top:.3f}; {sum('early' in t['reason'] for t in some['trials'])} stopped early",
              flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["frontier", "machine"])
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--trials", type=int)
    given = parser.parse_args()
    given.seeds = given.seeds or (20 if given.what == "frontier" else 3)
    with tempfile.TemporaryDirectory() as folder:
        {"frontier": frontier, "machine": machine}[given.what](given, folder)


if __name__ == "__main__":
    main()

"""Predicts layouts of GPT-2 124M on this machine, runs them, and prints both: see docs/validation.md.

bench_predict.py [--steps N]"""
import argparse
import json
import shutil
import statistics
import subprocess

import bench

FOLDER = bench.OUT / "predict"
LAYOUTS = [
    (1, dict(micro_batch=2)), (1, dict(micro_batch=8)), (1, dict(micro_batch=4, recompute="full")),
    (2, dict(data=2, micro_batch=2)), (2, dict(data=2, micro_batch=4, zero=1)), (2, dict(data=2, micro_batch=2, zero=3)),
    (2, dict(tensor=2, micro_batch=2)), (2, dict(tensor=2, micro_batch=4, sequence_parallel=True)), (2, dict(pipeline=2, micro_batch=1)),
    (2, dict(pipeline=2, micro_batch=2, schedule="zero-bubble")), (4, dict(data=4, micro_batch=2)), (4, dict(tensor=2, pipeline=2, micro_batch=2)),
]


def signed(number):
    """With one decimal; what rounds to 0 has no sign of its own."""
    return f"{round(number, 1) + 0.0:+.1f}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=8)
    options = parser.parse_args()
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    for ranks in (1, 2, 4):
        subprocess.run([bench.TRIREME, "calibrate", str(FOLDER / f"ranks-{ranks}.yaml"), "-n", str(ranks)], check=True, capture_output=True)
    results = []
    print("| ranks | layout | predicted s | measured s | error | bubble, points | exposed communication, points | peak bytes |")
    print("| ---: | --- | ---: | ---: | ---: | ---: | ---: | --- |")
    for ranks, layout in LAYOUTS:
        run = dict(model="gpt2-124m", data=dict(train=str(bench.corpus() / "train"), sequence=128), layout=layout,
                   optimizer=dict(global_batch=8, steps=options.steps, lr=1e-4), evaluation=dict(every=0), checkpoint=dict(every=0),
                   hang_timeout=0, output=str(FOLDER / "run"))
        (FOLDER / "run.yaml").write_text(json.dumps(run))
        command = [bench.TRIREME, "train", str(FOLDER / "run.yaml"), "--resume", "never", "--timeline", str(FOLDER / "t")]
        subprocess.run(command + (["-n", str(ranks)] if ranks > 1 else []), check=True, capture_output=True)
        out = subprocess.run([bench.TRIREME, "simulate", "--against", str(FOLDER / "run"), "--cluster", str(FOLDER / f"ranks-{ranks}.yaml"),
                              "--timeline", str(FOLDER / "t.json"), "--json"], check=True, capture_output=True, text=True).stdout
        found = json.loads(out)
        share = {key: 100 * (value["predicted"] - value["measured"]) for key, value in found["share"].items()}
        error = found["step_s"]["predicted"] / found["step_s"]["measured"] - 1
        results.append({**found, "ranks": ranks, "error": error})
        text = ", ".join(f"{key} {value}" for key, value in layout.items())
        exact = "equal" if found["peak_bytes"]["predicted"] == found["peak_bytes"]["measured"] else f"{found['peak_bytes']}"
        print(f"| {ranks} | {text} | {found['step_s']['predicted']:.3f} | {found['step_s']['measured']:.3f} | {signed(100 * error)} % "
              f"| {signed(share['bubble'])} | {signed(share['tensor'] + share['data'] + share['pipeline'])} | {exact} |", flush=True)
    print(f"\nMedian error {100 * statistics.median(abs(r['error']) for r in results):.1f} %.")
    (bench.OUT / "predict.json").write_text(json.dumps(results, indent=2))
    shutil.rmtree(FOLDER)


if __name__ == "__main__":
    main()

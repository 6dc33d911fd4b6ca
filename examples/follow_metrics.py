#!/usr/bin/env python3
"""Passes a run's metrics on to Weights & Biases or MLflow, while it goes on or afterwards.

    follow_metrics.py runs/first --wandb PROJECT
    follow_metrics.py runs/first --mlflow EXPERIMENT
    follow_metrics.py runs/first --print

It reads OUTPUT/metrics.jsonl, a line a step, and ends when the run has written its summary.json (--once: with what is there). Steps that a
resumed run makes again are passed on once. The run itself needs none of these libraries; install the one that you name (pip install wandb, or mlflow).
"""
import argparse
import json
import math
import pathlib
import sys
import time


def numbers_of(line):
    """{name: number} of a step; null stands for what is not finite."""
    return {name: float(value) for name, value in line.items() if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)}


def to_wandb(run, project):
    import wandb
    wandb.init(project=project, name=run.name, config=settings_of(run))
    return lambda step, numbers: wandb.log(numbers, step=step), wandb.finish


def to_mlflow(run, experiment):
    import mlflow
    mlflow.set_experiment(experiment)
    mlflow.start_run(run_name=run.name)
    if settings_of(run):
        mlflow.log_text(settings_of(run)["run"], "config.yaml")
    return lambda step, numbers: mlflow.log_metrics(numbers, step=step), mlflow.end_run


def to_standard_output(run, _):
    return lambda step, numbers: print(json.dumps(dict(numbers, step=step)), flush=True), lambda: None


def settings_of(run):
    path = run / "config.yaml"
    return {"run": path.read_text()} if path.exists() else {}


def whole_lines(path, at):
    """Lines behind byte `at` that are whole, and where they end. A file that is shorter than before was cut: from its beginning."""
    if not path.exists():
        return [], 0
    if path.stat().st_size < at:
        at = 0
    with open(path, "rb") as file:
        file.seek(at)
        text = file.read()
    end = text.rfind(b"\n") + 1
    return text[:end].splitlines(), at + end


def follow(run, send, once, every_s):
    at, last = 0, 0
    while True:
        ended = once or (run / "summary.json").exists()  # looked for first: what was written before it is read then
        lines, at = whole_lines(run / "metrics.jsonl", at)
        for text in lines:
            line = json.loads(text)
            if line.get("step", 0) <= last:
                continue
            last = line["step"]
            send(last, numbers_of(line))
        if ended:
            return last
        time.sleep(every_s)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=pathlib.Path, help="the run's output folder")
    sinks = parser.add_mutually_exclusive_group(required=True)
    sinks.add_argument("--wandb", metavar="PROJECT")
    sinks.add_argument("--mlflow", metavar="EXPERIMENT")
    sinks.add_argument("--print", action="store_true", help="one JSON object a step, on standard output")
    parser.add_argument("--once", action="store_true", help="pass on what is there, and end")
    parser.add_argument("--every", type=float, default=5.0, metavar="SECONDS", help="between two looks")
    given = parser.parse_args()
    if not given.run.is_dir():
        sys.exit(f"{given.run} is not a folder; name a run's output")
    begin, name = (to_wandb, given.wandb) if given.wandb else (to_mlflow, given.mlflow) if given.mlflow else (to_standard_output, None)
    send, end = begin(given.run, name)
    follow(given.run, send, given.once, given.every)
    end()


if __name__ == "__main__":
    main()

"""Nothing is lost: a run that is interrupted or killed at any moment, and started again, ends with the same weights, to
the bit, as one that was left alone."""
import json
import os
import random
import signal
import subprocess
import time

import numpy
import pytest
from parity import TRIREME, trireme, yaml_of

MODEL = dict(family="gpt2", num_layers=2, hidden_size=64, num_heads=2, vocab_size=257, max_sequence=32, dropout=0.1)
STEPS = 24


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    text = "".join(f"Line {i}: the rowers pull {i * 7919 % 1000} times.\n" for i in range(2000))
    (folder / "text.txt").write_text(text)
    trireme("prepare", "--tokenizer", "bytes", "--out", folder / "data", folder / "text.txt")
    return folder / "data"


def write_run(folder, corpus, **changes):
    run = dict(
        model=MODEL, data=dict(train=str(corpus / "train"), validation=str(corpus / "validation"), sequence=32),
        layout=dict(micro_batch=2), optimizer=dict(global_batch=4, steps=STEPS, lr=1e-3, warmup=4),
        evaluation=dict(every=6, batches=1), checkpoint=dict(every=2, keep=3), seed=5, output=str(folder / "run"))
    run.update(changes)
    path = folder / "run.yaml"
    path.write_text(yaml_of(run))
    return path


def final_state(folder):
    """Every byte of what a resumed run would start from, and the course that led there."""
    newest = sorted((folder / "run/checkpoints").glob("step-*"))[-1]
    assert newest.name == f"step-{STEPS:08d}"
    weights = [(newest / name).read_bytes() for name in ("model.safetensors", "optimizer.safetensors")]
    lines = [json.loads(line) for line in open(folder / "run/metrics.jsonl")]
    assert [line["step"] for line in lines] == list(range(1, STEPS + 1))
    return weights, [(line["loss"], line["grad_norm"], line["lr"]) for line in lines]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, corpus):
    folder = tmp_path_factory.mktemp("undisturbed")
    trireme("train", write_run(folder, corpus))
    return final_state(folder)


def test_the_same_run_twice(tmp_path, corpus, undisturbed):
    trireme("train", write_run(tmp_path, corpus))
    assert final_state(tmp_path) == undisturbed


def test_interrupt_and_go_on(tmp_path, corpus, undisturbed):
    path = write_run(tmp_path, corpus)
    process = subprocess.Popen([TRIREME, "train", path], stderr=subprocess.PIPE, text=True)
    while not (tmp_path / "run/metrics.jsonl").exists() or not (tmp_path / "run/metrics.jsonl").read_text():
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    if process.returncode != 0:  # it may have been through already
        assert process.returncode == 130
        assert "interrupted after step" in errors and "continues from there" in errors
    trireme("train", path)
    assert final_state(tmp_path) == undisturbed


def test_interrupted_again_and_again(tmp_path, corpus, undisturbed):
    """A signal finds the program in the middle of a matrix product as often as not."""
    path = write_run(tmp_path, corpus)
    chance = random.Random(5)
    for _ in range(12):
        process = subprocess.Popen([TRIREME, "train", path], stderr=subprocess.PIPE, text=True)
        try:
            process.wait(timeout=chance.uniform(0.2, 0.6))
        except subprocess.TimeoutExpired:
            process.send_signal(chance.choice([signal.SIGTERM, signal.SIGINT, signal.SIGUSR1]))
        _, errors = process.communicate(timeout=60)
        assert process.returncode in (0, 130, -signal.SIGTERM, -signal.SIGINT, -signal.SIGUSR1), errors
    trireme("train", path)
    assert final_state(tmp_path) == undisturbed


@pytest.mark.parametrize("group", range(4))
def test_kill_at_random_moments(tmp_path, corpus, undisturbed, group):
    """Twenty runs, each killed without warning, once or more often, before it comes to its end; every second step saves."""
    chance = random.Random(11 + group)
    number = 0
    longest_s = 0.9
    while number < 5:
        folder = tmp_path / f"{number}-{longest_s:.3f}"
        folder.mkdir()
        path = write_run(folder, corpus)
        killed = 0
        for _ in range(6):
            process = subprocess.Popen([TRIREME, "train", path], stderr=subprocess.DEVNULL)
            try:
                process.wait(timeout=chance.uniform(0.02, longest_s))
                break
            except subprocess.TimeoutExpired:
                os.kill(process.pid, signal.SIGKILL)
                process.wait()
                killed += 1
        if killed == 0:  # a fast machine: it was through before its moment came
            longest_s *= 0.9
            continue
        trireme("train", path)
        assert final_state(folder) == undisturbed, number
        number += 1


def test_resume_passes_over_a_bad_checkpoint(tmp_path, corpus, undisturbed):
    path = write_run(tmp_path, corpus)
    trireme("train", path)
    newest = sorted((tmp_path / "run/checkpoints").glob("step-*"))[-1]
    spoiled = bytearray((newest / "optimizer.safetensors").read_bytes())
    spoiled[-7] ^= 1
    (newest / "optimizer.safetensors").write_bytes(spoiled)
    done = trireme("train", path)
    assert newest.name in done.stderr and "optimizer.safetensors" in done.stderr
    assert f"after step {STEPS - 2}" in done.stderr
    assert final_state(tmp_path) == undisturbed


def test_never_moves_old_checkpoints_aside(tmp_path, corpus, undisturbed):
    path = write_run(tmp_path, corpus)
    trireme("train", path)
    done = trireme("train", path, "--resume", "never")
    assert "checkpoints.old-1" in done.stderr
    assert final_state(tmp_path) == undisturbed
    assert sorted((tmp_path / "run/checkpoints.old-1").glob("step-*"))[-1].name == f"step-{STEPS:08d}"


def test_going_back_leaves_the_other_branch_aside(tmp_path, corpus, undisturbed):
    path = write_run(tmp_path, corpus)
    trireme("train", path)
    older = tmp_path / f"run/checkpoints/step-{STEPS - 4:08d}"
    done = trireme("train", path, "--resume", older)
    assert f"after step {STEPS - 4}" in done.stderr
    assert final_state(tmp_path) == undisturbed
    assert (tmp_path / f"run/checkpoints.old-1/step-{STEPS:08d}").is_dir()


def test_a_finished_run_says_so(tmp_path, corpus):
    path = write_run(tmp_path, corpus)
    trireme("train", path)
    done = trireme("train", path)
    assert f"has made its {STEPS} steps already" in done.stderr


def test_summary_predicts_memory(tmp_path, corpus):
    trireme("train", write_run(tmp_path, corpus))
    summary = json.load(open(tmp_path / "run/summary.json"))
    predicted, measured = summary["peak_bytes_predicted"], summary["peak_bytes_measured"]
    assert abs(measured - predicted) <= 0.01 * measured, (predicted, measured)


def test_bad_steps_are_skipped_and_then_end_the_run(tmp_path, corpus):
    path = write_run(tmp_path, corpus)
    done = trireme("train", path, "--set", "optimizer.lr=1e15", "--set", "optimizer.clip=0", "--set",
                   "optimizer.warmup=0", "--set", "optimizer.max_bad_steps=3", status=8)
    assert "is skipped: its loss is" in done.stderr
    assert "3 steps in a row" in done.stderr and "lower optimizer.lr" in done.stderr
    lines = [json.loads(line) for line in open(tmp_path / "run/metrics.jsonl")]
    assert lines[-1]["bad_steps"] == 3 and lines[-1]["loss"] is None


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, *os.sys.argv[1:]]))

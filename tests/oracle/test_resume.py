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
    assert "NaN or infinite in steps " in done.stderr and "try a lower optimizer.lr" in done.stderr
    lines = [json.loads(line) for line in open(tmp_path / "run/metrics.jsonl")]
    assert lines[-1]["bad_steps"] == 3 and lines[-1]["loss"] is None


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, *os.sys.argv[1:]]))


# ---- under another run file ------------------------------------------------------------------------------------------

TINY = dict(family="llama", num_layers=1, hidden_size=16, num_heads=2, ffn_size=32, vocab_size=257, max_sequence=64)
STILL = dict(lr=1e-30, weight_decay=0)  # weights stay as they are, so that a loss tells which samples were read


def tiny_run(folder, corpus, optimizer=(), data=(), **changes):
    folder.mkdir(exist_ok=True)
    run = dict(model=TINY, data=dict(dict(train=str(corpus / "train"), sequence=32), **dict(data)), layout=dict(micro_batch=2), threads=1,
               optimizer={**dict(global_batch=8, steps=6, **STILL), **dict(optimizer)}, output=str(folder / "run"))
    run.update(changes)
    (folder / "run.yaml").write_text(yaml_of(run))
    return folder / "run.yaml"


def losses_of(folder):
    return [json.loads(line)["loss"] for line in open(folder / "run/metrics.jsonl")]


@pytest.mark.parametrize("before, after", [(8, 4), (8, 16), (4, 12)])
def test_another_batch_goes_on_with_the_next_sample(tmp_path, corpus, before, after):
    """Samples are counted, not steps: each is read once, with any batch size. Single samples are identified by the losses of a run that reads
    one in each step."""
    single = tiny_run(tmp_path / "single", corpus, dict(global_batch=1, steps=6 * before + 4 * after), layout=dict(micro_batch=1))
    trireme("train", single)
    each = losses_of(tmp_path / "single")
    path = tiny_run(tmp_path / "run", corpus, dict(global_batch=before))
    trireme("train", path)
    said = trireme("train", path, "--set", f"optimizer.global_batch={after}", "--set", "optimizer.steps=8", "--set", "allow_change=optimizer.global_batch").stderr
    assert f"optimizer.global_batch was {before} and is {after} from here on" in said
    assert f"the next sample, number {6 * before + 1}" in said
    trireme("train", path, "--set", f"optimizer.global_batch={after}", "--set", "optimizer.steps=10")
    found, at = losses_of(tmp_path / "run"), 0
    for step, loss in enumerate(found):
        size = before if step < 6 else after
        assert abs(sum(each[at : at + size]) / size / loss - 1) < 1e-6, step
        at += size
    newest = sorted((tmp_path / "run/run/checkpoints").glob("step-*"))[-1]
    assert json.loads((newest / "state.json").read_text())["samples"] == at == 6 * before + 4 * after


OTHER_SAMPLES = {"data.sequence": ["data.sequence=16"], "data.packing": ["data.packing=documents"], "data.documents": ["data.documents=masked"], "seed": ["seed=6"],
                 "data.train": ["data.train=[{path: TRAIN, weight: 2}, {path: VALIDATION, weight: 1}]"]}


@pytest.fixture(scope="module")
def lines(tmp_path_factory, corpus):
    """The same text, a document a line."""
    folder = tmp_path_factory.mktemp("lines")
    trireme("prepare", "--tokenizer", "bytes", "--documents", "line", "--out", folder / "data", corpus.parent / "text.txt")
    return folder / "data"


@pytest.mark.parametrize("key", OTHER_SAMPLES)
def test_other_samples_are_refused_by_name(tmp_path, lines, key):
    corpus = lines
    path = tiny_run(tmp_path, corpus)
    trireme("train", path)
    options = [option.replace("TRAIN", str(corpus / "train")).replace("VALIDATION", str(corpus / "validation")) for option in OTHER_SAMPLES[key]]
    words = [word for option in [*options, "optimizer.steps=8"] for word in ("--set", option)]
    said = trireme("train", path, *words, status=3).stderr
    assert f"{key} is " in said and f"--set allow_change={key}" in said, said
    assert "up to 1536 tokens that the run has read are read again" in said and "as many others are skipped" in said, said
    assert len(losses_of(tmp_path)) == 6
    said = trireme("train", path, *words, "--set", f"allow_change={key}").stderr
    assert f"{key} changes from " in said and "up to 1536 tokens" in said, said
    newest = sorted((tmp_path / "run/checkpoints").glob("step-*"))[-1]
    samples = json.loads((newest / "state.json").read_text())["samples"]
    assert samples == (48 * 2 if key == "data.sequence" else 48) + 16, "behind as many tokens"


@pytest.mark.cpu  # bf16
def test_what_else_changes_is_said(tmp_path, corpus):
    """One line for each key of the optimizer, the data and the evaluation, and the rate before and now; nothing where nothing changed."""
    keys = dict(steps=20, lr=1e-2, min_lr=1e-3, decay="cosine")
    path = tiny_run(tmp_path, corpus, keys, checkpoint=dict(every=10))
    said = trireme("train", path).stderr
    assert "more steps: the same command with --set optimizer.steps=40; the learning rate then goes from 0.001 at step 20 to 0.00515 at step 21" in said
    said = trireme("train", path, "--set", "optimizer.steps=22", "--set", "optimizer.clip=0.5", "--set", "evaluation.sequences=3", "--set", "data.ignore_token=5",
                   "--set", "precision=bf16", "--set", "average.every=2", "--set", "checkpoint.keep=5", "--set", "allow_change=data.ignore_token,optimizer.clip,average.every,precision").stderr
    for line in ("optimizer.steps was 20 and is 22 from here on", "optimizer.clip was 1.0 and is 0.5 from here on", "evaluation.sequences was 64 and is 3 from here on",
                 "precision was fp32 and is bf16 from here on", "average.every was 0 and is 2 from here on",
                 "data.ignore_token was -1 and is 5 from here on", "the learning rate of step 21 is 0.00105, and would have been 0.001 before"):
        assert line in said, (line, said)
    assert "checkpoint.keep" not in said
    said = trireme("train", path, "--set", "optimizer.steps=22", "--resume", tmp_path / "run/checkpoints/step-00000020", "--set", "optimizer.clip=0.5").stderr
    assert "optimizer.lr" not in said
    trireme("train", tiny_run(tmp_path / "again", corpus, dict(keys, decay="constant")))
    said = trireme("train", tiny_run(tmp_path / "again", corpus, dict(keys, decay="constant")), "--set", "optimizer.steps=21").stderr
    assert "learning rate of step" not in said and "optimizer.steps=42\n" in said
    same = trireme("train", tiny_run(tmp_path / "again", corpus, dict(keys, steps=21, decay="constant")), "--resume", tmp_path / "again/run/checkpoints/step-00000020").stderr
    assert "from here on" not in same.replace("optimizer.steps was 20 and is 21 from here on", "")

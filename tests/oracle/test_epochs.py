"""optimizer.epochs and data.max_samples: the number of steps, under every layout and in a resumed run, and the log lines."""
import json
import math
import pathlib
import re

import pytest
from parity import trireme

MODEL = dict(family="llama", num_layers=2, hidden_size=16, num_heads=2, ffn_size=32, vocab_size=257, max_sequence=32)


@pytest.fixture
def corpus(tmp_path):
    """75 sequences of 32 tokens, packed: 150 documents of 15 tokens and an end each, two in a sequence."""
    (tmp_path / "text.jsonl").write_text("".join(json.dumps(dict(text=f"document {i:06d}")) + "\n" for i in range(150)))
    trireme("prepare", "--tokenizer", "bytes", "--out", tmp_path / "c", "--validation", 0, tmp_path / "text.jsonl")
    return tmp_path / "c/train"


def write(tmp_path, corpus, optimizer, data=None, name="run", **more):
    data = dict(train=str(corpus), documents="masked", packing="documents", **(data or {}))
    optimizer = dict(dict(global_batch=8, lr=1e-3), **optimizer)
    run = dict(model=MODEL, data=data, optimizer=optimizer, device="cpu", output=str(tmp_path / name), checkpoint=dict(every=5), **more)
    path = tmp_path / f"{name}.yaml"
    path.write_text(json.dumps(run))
    return path


def losses(tmp_path, name="run"):
    return [json.loads(line)["loss"] for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("epochs", [1, 0.5, 2.1])
def test_steps_are_rounded_up(tmp_path, corpus, epochs):
    said = trireme("train", write(tmp_path, corpus, dict(epochs=epochs))).stderr
    steps = math.ceil(epochs * 75 / 8)
    assert len(losses(tmp_path)) == steps
    assert f"\n{steps} steps = {steps * 8 / 75:.3g} epochs of 75 sequences\n" in said
    assert f"more epochs: the same command with --set optimizer.epochs={2 * epochs:g}" in said
    printed = (tmp_path / "run/config.yaml").read_text()
    assert f"\n  # steps: {steps} " in printed and f"\n  epochs: {float(epochs)} " in printed and "\n  steps:" not in printed


def test_the_same_steps_as_steps_and_in_layouts(tmp_path, corpus):
    trireme("train", write(tmp_path, corpus, dict(steps=19), name="steps"))
    assert "\n  steps: 19 " in (tmp_path / "steps/config.yaml").read_text() and "epochs:" not in (tmp_path / "steps/config.yaml").read_text()
    trireme("train", write(tmp_path, corpus, dict(epochs=2), name="epochs"))
    assert losses(tmp_path, "epochs") == losses(tmp_path, "steps")
    trireme("train", write(tmp_path, corpus, dict(epochs=2), name="two", layout=dict(data=2)), "-n", 2)
    assert len(losses(tmp_path, "two")) == 19 and losses(tmp_path, "two") == pytest.approx(losses(tmp_path, "steps"), rel=1e-5)


def test_an_option_takes_the_place_of_the_files_other(tmp_path, corpus):
    trireme("train", write(tmp_path, corpus, dict(epochs=2)), "--set", "optimizer.steps=3")
    assert len(losses(tmp_path)) == 3
    trireme("train", write(tmp_path, corpus, dict(steps=2), name="other"), "--set", "optimizer.epochs=0.4")
    assert len(losses(tmp_path, "other")) == 4
    said = trireme("train", write(tmp_path, corpus, dict(steps=2, epochs=1), name="both"), status=3).stderr
    assert "`optimizer.epochs` at line 1 of" in said and "and optimizer.steps both set the length of the run; keep one of them" in said
    said = trireme("train", write(tmp_path, corpus, {}, name="none"), status=3).stderr
    assert "`optimizer.steps` is missing" in said and "or `epochs:`, for example `epochs: 3`" in said


def test_a_warm_up_that_is_longer(tmp_path, corpus):
    said = trireme("train", write(tmp_path, corpus, dict(epochs=2, warmup=100))).stderr
    assert re.search(r"this run has \d+ steps, fewer than the warm-up of 100; warm-up is shortened to 1\n", said)


def test_going_on_with_more_epochs_and_other_samples(tmp_path, corpus):
    whole = write(tmp_path, corpus, dict(epochs=2, decay="constant"), name="whole")
    trireme("train", whole)
    part = write(tmp_path, corpus, dict(epochs=1, decay="constant"))
    trireme("train", part)
    said = trireme("train", part).stderr
    assert "has made its 10 steps already; raise optimizer.epochs to continue" in said
    said = trireme("train", part, "--set", "optimizer.epochs=2").stderr
    assert "optimizer.epochs was 1.0 and is 2.0 from here on" in said
    assert losses(tmp_path) == losses(tmp_path, "whole")
    (tmp_path / "more.jsonl").write_text("".join(json.dumps(dict(text=f"document {i:06d}")) + "\n" for i in range(200)))
    trireme("prepare", "--tokenizer", "bytes", "--out", tmp_path / "d", "--validation", 0, tmp_path / "more.jsonl")
    said = trireme("train", part, "--set", "optimizer.epochs=2", "--set", f"data.train={tmp_path}/d/train", "--set", "allow_change=data.train").stderr
    assert "2 epochs of data.train end after step 25 now (19 before), because the number of samples changed; 152 of 200 samples have been read" in said
    assert len(losses(tmp_path)) == 25


def test_the_first_samples(tmp_path, corpus):
    """More than there are: the run without the key, to the bit. Fewer: another run, the same in every layout; another number is refused."""
    trireme("train", write(tmp_path, corpus, dict(steps=12), name="all"))
    trireme("train", write(tmp_path, corpus, dict(steps=12), dict(max_samples=75), name="as_many"))
    assert losses(tmp_path, "as_many") == losses(tmp_path, "all")
    first = write(tmp_path, corpus, dict(epochs=3), dict(max_samples=16), name="first")
    said = trireme("train", first).stderr
    assert "6 steps = 3 epochs of 16 sequences (data.max_samples: the first of the corpus)" in said
    trireme("train", write(tmp_path, corpus, dict(epochs=3), dict(max_samples=16), name="two", layout=dict(data=2)), "-n", 2)
    assert losses(tmp_path, "two") == pytest.approx(losses(tmp_path, "first"), rel=1e-5)
    trireme("train", write(tmp_path, corpus, dict(steps=6), name="six"))
    assert losses(tmp_path, "first") != losses(tmp_path, "six")
    said = trireme("train", first, "--set", "data.max_samples=32", status=3).stderr
    assert "data.max_samples is 16 there and 32 in this run" in said and "allow_change=data.max_samples" in said
    said = trireme("train", first, "--set", "data.max_samples=32", "--set", "allow_change=data.max_samples").stderr
    assert "data.max_samples changes from 16 to 32, as `allow_change` allows" in said
    assert len(losses(tmp_path, "first")) == 12


def test_the_first_samples_are_learnt_and_no_others(tmp_path):
    """Only the last documents have another word, so a model trained on the first samples does not learn it."""
    texts = [f"{i % 10} is a number" for i in range(100)] + ["zzzzzzzzzzzzzz"] * 100
    (tmp_path / "text.jsonl").write_text("".join(json.dumps(dict(text=text)) + "\n" for text in texts))
    trireme("prepare", "--tokenizer", "bytes", "--out", tmp_path / "c", "--validation", 0, tmp_path / "text.jsonl")
    for name, data in (("some", dict(max_samples=40)), ("all", {})):
        run = json.loads(pathlib.Path(write(tmp_path, tmp_path / "c/train", dict(steps=60, lr=1e-2), data, name=name)).read_text())
        run["data"].update(documents="joined", packing="windows")
        (tmp_path / f"{name}.yaml").write_text(json.dumps(run))
        trireme("train", tmp_path / f"{name}.yaml")
    (tmp_path / "z.jsonl").write_text(json.dumps(dict(text="zzzzzzzzzzzzzz")) + "\n" + json.dumps(dict(text="zzzzzzzzzzzzzzzzzzzzzzzz")) + "\n")
    trireme("prepare", "--tokenizer", "bytes", "--out", tmp_path / "z", "--validation", 0, tmp_path / "z.jsonl")
    found = {name: json.loads(trireme("eval", tmp_path / name, tmp_path / "z/train", "--json").stdout)["loss"] for name in ("some", "all")}
    assert found["all"] < 1 and found["some"] > 4, found


@pytest.mark.parametrize("before, after, epochs", [(8, 16, 1), (16, 8, 1), (8, 24, 0.5), (8, 16, 2.1)])
def test_another_batch(tmp_path, corpus, before, after, epochs):
    """The steps left are those of the samples left: all of the epochs are read, and not a batch more."""
    run = write(tmp_path, corpus, dict(epochs=epochs, global_batch=before))
    trireme("train", run, "--stop-at", 2)
    said = trireme("train", run, "--set", f"optimizer.global_batch={after}").stderr
    seen = 2 * before
    steps = 2 + math.ceil((epochs * 75 - seen) / after)
    assert f"end{'s' if epochs == 1 else ''} after step {steps} now ({math.ceil(epochs * 75 / before)} before), because the batch changed; {seen} of {epochs * 75:.0f} samples have been read" in said
    count = f"{(seen + (steps - 2) * after) / 75:.3g}"
    assert f"\n{steps} steps = {count} epoch{'' if count == '1' else 's'} of 75 sequences" in said
    assert len(losses(tmp_path)) == steps and f"  # steps: {steps} " in (tmp_path / "run/config.yaml").read_text()
    state = json.loads((sorted((tmp_path / "run/checkpoints").glob("step-*"))[-1] / "state.json").read_text())
    assert state["samples"] == seen + (steps - 2) * after >= epochs * 75 > state["samples"] - after
    assert "has made its" in trireme("train", run, "--set", f"optimizer.global_batch={after}").stderr

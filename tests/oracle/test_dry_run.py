"""The facts that `trireme train --dry-run` prints are those of the run that follows."""
import json
import re

import pytest
from optimizer_runs import LLAMA, corpus_of, lines_of, ranks_words, write_run
from parity import trireme


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return corpus_of(tmp_path_factory.mktemp("corpus"))


def facts(path, *words):
    return json.loads(trireme("train", path, "--dry-run", "--json", *words).stdout)


@pytest.mark.parametrize("settings", [["steps=6", "warmup=2", "min_lr=1e-5"], ["steps=9", "warmup_ratio=0.3", "min_lr_ratio=0.25", "decay=linear"], ["epochs=0.5"]],
                         ids=["steps", "ratios", "epochs"])
@pytest.mark.parametrize("ranks", [1, 2])
def test_beside_the_run(tmp_path, corpus, settings, ranks):
    path = write_run(tmp_path, corpus, dict(steps=6), model=LLAMA, output=str(tmp_path / "run"), layout=dict(micro_batch=3))
    words = [*ranks_words(ranks), *(word for setting in settings for word in ("--set", f"optimizer.{setting}"))]
    found, printed = facts(path, *words), trireme("train", path, "--dry-run", *words).stdout
    assert not (tmp_path / "run").exists() and found["begins_with"] is None and found["done_steps"] == 0
    said = trireme("train", path, *words).stderr
    lines, summary = lines_of(tmp_path / "run"), json.loads((tmp_path / "run/summary.json").read_text())
    assert found["steps"] == len(lines) and found["tokens"] == lines[-1]["tokens"] and found["tokens_per_step"] == lines[0]["tokens"]
    assert found["last_lr"] == pytest.approx(lines[-1]["lr"]) and max(line["lr"] for line in lines) == pytest.approx(found["lr"], rel=0.2)
    assert found["warmup"] == 0 or lines[found["warmup"] - 1]["lr"] == pytest.approx(found["lr"])
    assert found["memory"]["bytes"] == summary["peak_bytes_predicted"] and found["memory"]["fits"] and found["ranks"] == ranks
    epochs = re.search(r"= ([\d.e+-]+) epochs? of (\d+) sequences", said)
    assert found["samples_per_epoch"] == int(epochs[2]) and re.search(rf"^length   {len(lines)} steps of \S+ tokens, \S+ in all: {re.escape(epochs[1])} epochs$", printed, re.M)
    assert re.search(r"^memory   fits: \S+ \S+ of ", printed, re.M) and "\nbegins   with initial weights\n" in printed
    again, printed = facts(path, *words), trireme("train", path, "--dry-run", *words).stdout
    newest = tmp_path / f"run/checkpoints/step-{len(lines):08d}"
    assert again["begins_with"] == str(newest) and again["done_steps"] == len(lines) and f"begins   after step {len(lines)}, from {newest}\n" in printed
    if not settings[0].startswith("epochs"):
        longer = facts(path, *words, "--set", f"optimizer.steps={3 * len(lines)}")
        assert longer["seconds_from"] == "steps" and longer["seconds"] == pytest.approx(2 * len(lines) * summary["step_s"])
    assert facts(path, "--resume", "never", *words)["begins_with"] is None


def test_without_data(tmp_path, corpus):
    path = write_run(tmp_path, corpus, dict(steps=5), data=dict(train=str(tmp_path / "later/train"), sequence=16), evaluation={}, checkpoint={})
    found, printed = facts(path), trireme("train", path, "--dry-run").stdout
    assert found["steps"] == 5 and found["samples_per_epoch"] is None and "later/train.idx" in found["data_problem"]
    assert re.search(r"^data     not read: cannot open \S+later/train.idx", printed, re.M) and "length   5 steps of " in printed


def test_too_large(tmp_path, corpus):
    model = dict(LLAMA, num_layers=400, hidden_size=8192, num_heads=64, ffn_size=65536)
    path = write_run(tmp_path, corpus, dict(steps=5), model=model)
    assert facts(path)["memory"]["fits"] is False and re.search(r"^memory   does not fit: \S+ TiB of ", trireme("train", path, "--dry-run").stdout, re.M)


@pytest.mark.parametrize("words, said", [(["--json"], "train: --json is for --dry-run"), (["--verbose"], "train: --verbose is for --dry-run"),
                                         (["--dry-run", "--json", "--verbose"], "train: --json has no details of --verbose; give one")])
def test_refused(tmp_path, corpus, words, said):
    assert said in trireme("train", write_run(tmp_path, corpus, dict(steps=5)), *words, status=2).stderr

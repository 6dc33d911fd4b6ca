"""`eval A B C DATA`: the loss of the mean of several models' probabilities, beside plain PyTorch's."""
import json

import models
import numpy as np
import pytest
import torch
from parity import trireme, yaml_of
from safetensors.torch import load_file

MODEL = dict(family="llama", num_layers=2, hidden_size=32, num_heads=4, num_kv_heads=2, ffn_size=48, vocab_size=257, max_sequence=32)
SEQUENCE = 16


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ensemble")
    (folder / "text.txt").write_text("".join(f"Stroke {i} of {i * 7919 % 1000}.\n" for i in range(60)))
    trireme("prepare", "--tokenizer", "bytes", "--out", folder / "data", folder / "text.txt")
    for seed in (1, 2, 3):
        run = dict(model=MODEL, data=dict(train=str(folder / "data/train"), sequence=SEQUENCE), seed=seed, precision="fp64", device="reference",
                   layout=dict(micro_batch=seed), optimizer=dict(global_batch=6, steps=8, lr=1e-2), evaluation=dict(every=0),
                   output=str(folder / f"run{seed}"))
        (folder / "run.yaml").write_text(yaml_of(run))
        trireme("train", folder / "run.yaml")
    return folder


def log_probabilities(folder, seed):
    """Returns the log probability of every label, computed in windows."""
    newest = sorted((folder / f"run{seed}/checkpoints").iterdir())[-1]
    weights = {name: value.double() for name, value in load_file(newest / "model.safetensors").items()}
    count = json.loads(trireme("inspect", folder / "data/train", "--json").stdout)["tokens"]
    tokens = torch.from_numpy(np.fromfile(folder / "data/train.bin", dtype=np.uint16)[-count:].astype(np.int64))
    scores = []
    for first in range(0, len(tokens) - 1, SEQUENCE):
        ids, labels = tokens[first : first + SEQUENCE], tokens[first + 1 : first + 1 + SEQUENCE]
        ids = ids[: len(labels)]
        logits = models.logits(models.complete(MODEL), weights, ids[None])
        scores.append(torch.log_softmax(logits.reshape(len(ids), -1), -1)[torch.arange(len(ids)), labels])
    return torch.cat(scores)


def evaluate(folder, *seeds, **options):
    words = [word for key, value in options.items() for word in (f"--{key}", value)]
    done = trireme("eval", *[folder / f"run{seed}" for seed in seeds], folder / "data/train", "--json", "--precision", "fp64", "--device",
                   "reference", *words)
    return json.loads(done.stdout)


def test_mean_of_probabilities(folder):
    each = [log_probabilities(folder, seed) for seed in (1, 2, 3)]
    expected = -(torch.logsumexp(torch.stack(each), 0) - np.log(3)).mean().item()
    got = evaluate(folder, 1, 2, 3)
    assert got["tokens"] == len(each[0])
    assert abs(got["loss"] - expected) < 1e-10
    for model, scores in zip(got["models"], each):
        assert abs(model["loss"] + scores.mean().item()) < 1e-10
    assert got["loss"] <= sum(model["loss"] for model in got["models"]) / 3  # Jensen's inequality


def test_one_and_the_same(folder):
    """A model that is named twice, or by a link to it, counts once."""
    alone = evaluate(folder, 2)
    twice = evaluate(folder, 2, 2)
    assert "models" not in alone and abs(twice["loss"] - alone["loss"]) < 1e-12
    assert abs(twice["bits_per_byte"] - alone["bits_per_byte"]) < 1e-12


def test_other_shapes(folder):
    whole = evaluate(folder, 1, 3, documents="masked", packing="documents")
    assert whole["packing"] == "documents" and whole["tokens"] > 0


def test_a_model_of_another_tokenizer(folder):
    other = folder / "other"
    trireme("prepare", "--tokenizer", "train:300", "--out", other, folder / "text.txt")
    run = dict(model=dict(MODEL, vocab_size=300), data=dict(train=str(other / "train"), sequence=SEQUENCE), output=str(folder / "run9"),
               layout=dict(micro_batch=2), optimizer=dict(global_batch=2, steps=1, lr=1e-3), evaluation=dict(every=0))
    (folder / "run9.yaml").write_text(yaml_of(run))
    trireme("train", folder / "run9.yaml")
    done = trireme("eval", folder / "run1", folder / "run9", folder / "data/train", status=4)
    assert "another tokenizer" in done.stderr

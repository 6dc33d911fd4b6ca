"""How much each label counts: losses and gradients of any weights beside plain PyTorch in double, the same under every layout, and
`label_weight` of a mixture's sources."""
import json
import os
import subprocess

import models
import numpy
import pytest
import torch
from optimizer_runs import MIXTRAL
from parity import Weights, device_for, relative, trireme, words_of, yaml_of
from test_layouts import BATCH, GPT2, LLAMA, SEQUENCE, compare, draw_tokens, launcher, needs_launcher, run_on

# device, precision, largest relative error of the loss and of any gradient; the emulated GPU runs the GPU's kernels
DEVICES = [("reference", "fp64", 1e-10), ("emulated", "fp64", 1e-10), ("emulated", "fp32", 2e-5), ("cpu", "fp32", 2e-5), ("cpu", "bf16", 3e-2)]
DEVICES = [(device_for(device, precision), precision, limit) for device, precision, limit in DEVICES]
PLAIN = {"dropout": 0.0}


def draw_weights(chance, shape):
    """Draws weights from 0, 0.5, 1, 3 and 0.1, which no float equals exactly; the last sequence has one weight for all labels."""
    weights = chance.choice(numpy.float32([0, 0.5, 1, 0.1, 3]), shape)
    weights[..., -1, :] = 0.5
    return weights


def expected_of(model, weights, ids, labels, label_weights):
    """Returns the weighted mean of the cross entropy, the losses of routers, and the gradients of their sum."""
    tensors = weights.tensors()
    logits, added = models.whole(model, tensors, torch.tensor(ids))
    counted = torch.tensor(labels >= 0)
    each = torch.nn.functional.cross_entropy(logits[counted], torch.tensor(labels)[counted].long(), reduction="none")
    w = torch.tensor(label_weights, dtype=torch.float64)[counted]
    loss = (w * each).sum() / w.sum()
    (loss + added).backward()
    return loss.item(), {name: t.grad.numpy() for name, t in tensors.items()}


@pytest.mark.parametrize("model", [{**GPT2, **PLAIN}, LLAMA, MIXTRAL], ids=["gpt2", "llama", "mixtral"])
def test_gradients(tmp_path, model):
    weights, chance = Weights(tmp_path, model), numpy.random.default_rng(5)
    shape = (4, model["max_sequence"])
    ids, labels = chance.integers(0, model["vocab_size"], (2, *shape))
    labels[chance.random(shape) < 0.2] = -1
    label_weights = draw_weights(chance, shape)
    positions = numpy.broadcast_to(numpy.arange(shape[1]), shape)
    loss, gradients = expected_of(model, weights, ids, labels, label_weights)
    whole = numpy.concatenate([g.reshape(-1) for g in gradients.values()])
    for device, precision, limit in DEVICES:
        got, found = weights.gradients(device, precision, ids, labels, 2, positions=positions, label_weights=label_weights)
        assert abs(got["loss"] - loss) <= limit * abs(loss), (device, precision, got["loss"], loss)
        if precision == "bf16" and "num_experts" in model:
            continue  # a router whose numbers are rounded may choose others
        for name, gradient in gradients.items():
            scale = max(numpy.linalg.norm(gradient), 1e-3 * numpy.linalg.norm(whole))
            assert numpy.linalg.norm(found[name] - gradient) <= limit * scale, (device, precision, name)
        assert relative(got["grad_norm"], numpy.linalg.norm(whole)) <= limit


LAYOUTS = [dict(), dict(tensor=2), dict(tensor=2, sequence_parallel=1), dict(pipeline=2, zero=1, data=2), dict(context=2), dict(context=2, exchange="ring"),
           dict(data=2, zero=3), dict(data=4, micro_batch=2), dict(pipeline=2, schedule="zero-bubble"), dict(micro_batch=4)]


@needs_launcher
@pytest.mark.parametrize("model", [GPT2, LLAMA], ids=["gpt2", "llama"])
def test_layouts(tmp_path, model):
    """The divisor is the sum of all weights of the global batch, added exactly: no layout changes a bit of it."""
    steps, chance = 5, numpy.random.default_rng(9)
    tokens = draw_tokens(model, steps, BATCH)
    positions = numpy.broadcast_to(numpy.arange(SEQUENCE, dtype=numpy.int32), (steps, 1, BATCH, SEQUENCE))
    label_weights = draw_weights(chance, (steps, 1, BATCH, SEQUENCE)).view(numpy.int32)
    tokens = numpy.concatenate([tokens, positions, label_weights], axis=1)
    compare(run_on(tmp_path, model, LAYOUTS, tokens), LAYOUTS, 1e-10, 1e-10, exact=True)


# ---- runs -----------------------------------------------------------------------------------------------------------------------

RUN_MODEL = dict(family="llama", num_layers=2, hidden_size=32, num_heads=4, num_kv_heads=2, ffn_size=48, vocab_size=257, max_sequence=16)


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpora")
    for name, text in (("a", "The rowers pull {} times.\n"), ("b", "{} geese flew over the weir.\n")):
        (folder / f"{name}.txt").write_text("".join(text.format(i * 7919 % 1000) for i in range(400)))
        trireme("prepare", "--tokenizer", "bytes", "--validation", "0", "--out", folder / name, folder / f"{name}.txt")
    return folder


def train(folder, corpora, label_weights, layout=None, steps=4, status=0, more=()):
    sources = [dict(path=str(corpora / name / "train"), weight=1, label_weight=w) for name, w in zip("ab", label_weights)]
    layout = dict(micro_batch=2, **(layout or {}))
    run = dict(model=RUN_MODEL, data=dict(train=sources, sequence=16), layout=layout, optimizer=dict(global_batch=8, steps=steps, lr=1e-2),
               precision="fp64", device="reference", checkpoint=dict(every=2), seed=5, output=str(folder / "run"))
    os.makedirs(folder, exist_ok=True)
    (folder / "run.yaml").write_text(yaml_of(run))
    ranks = layout.get("data", 1) * layout.get("pipeline", 1) * layout.get("tensor", 1)
    command = words_of("train", folder / "run.yaml", *more)
    done = subprocess.run([str(c) for c in ([*launcher(), "-n", ranks, *command] if ranks > 1 else command)], capture_output=True, text=True)
    assert done.returncode == status, done.stderr
    if status:
        return done.stderr
    lines = [json.loads(line) for line in open(folder / "run/metrics.jsonl")]
    return [(line["loss"], line["grad_norm"]) for line in lines]


def test_weights_of_sources(tmp_path, corpora):
    one = train(tmp_path / "one", corpora, [1, 1])
    assert train(tmp_path / "half", corpora, [0.5, 0.5]) == one  # only their ratio counts
    some = train(tmp_path / "some", corpora, [1, 0.5])
    assert all(abs(x[0] - y[0]) > 1e-6 for x, y in zip(some, one))
    # If one corpus has nearly no weight, the loss of the first step is that of the other.
    first = [train(tmp_path / f"only {k}", corpora, w)[0][0] for k, w in enumerate([[1, 1e-6], [1e-6, 1]])]
    share = (one[0][0] - first[1]) / (first[0] - first[1])
    mixed = (share * first[0] + 0.5 * (1 - share) * first[1]) / (share + 0.5 * (1 - share))
    assert abs(some[0][0] - mixed) < 1e-4


@needs_launcher
def test_sources_under_layouts(tmp_path, corpora):
    one = train(tmp_path / "one", corpora, [1, 0.3])
    assert train(tmp_path / "pipeline", corpora, [1, 0.3], dict(pipeline=2)) == one
    zero = [train(tmp_path / f"zero {z}", corpora, [1, 0.3], dict(data=2, zero=z)) for z in (0, 3)]
    assert zero[0] == zero[1] and numpy.abs(numpy.array(zero[0]) / numpy.array(one) - 1).max() < 1e-10


def test_resumed_with_others(tmp_path, corpora):
    train(tmp_path, corpora, [1, 0.5])
    said = train(tmp_path, corpora, [1, 0.25], steps=6, status=3)
    assert "label_weight 0.5 of" in said and "0.25 in this run" in said and "allow_change" in said
    train(tmp_path, corpora, [1, 0.25], steps=6, more=["--set", "allow_change=data.train"])

"""Context parallelism (layout.context) does not change results: promise 1 for each exchange, alone and combined with the other parts of a
layout. As in test_layouts.py: all gradients in fp64 within 1e-10 of one rank's, losses and norms of twenty steps, equal bits if the sums
have the same order, memory as planned. Also lengths that no number of ranks divides, masked documents, a comparison with a plain PyTorch
model, the bytes that each exchange moves, and one rank's bits if heads are exchanged.

TRIREME_LAYOUTS=all runs every layout with every model and length; without it each draws a part of them (drawn.py)."""
import collections
import json
import os

import models
import numpy
import pytest
import torch
from drawn import WHICH, drawn
from parity import tool, trireme, yaml_of
from test_layouts import (BATCH, GEMMA2, GPT2, GPT_NEOX, LLAMA, NO_LAYER_EITHER, NO_LAYER_FIRST, NO_LAYER_LAST, SEQUENCE, STEPS, compare, draw_tokens,
                          name_of, needs_launcher, run_on, run_tool)

pytestmark = needs_launcher

LAYOUTS = [
    # each exchange alone; then heads exchanged within groups, and keys between them
    *(dict(context=c, exchange=e) for c in (2, 3, 4) for e in ("gather", "ring")), dict(context=2, exchange="heads"),
    *(dict(context=4, exchange=e, inner=2) for e in ("gather", "ring")),
    *(dict(context=2, exchange=e, micro_batch=4) for e in ("gather", "heads", "ring")),
    # recomputed exchanges
    *(dict(context=2, exchange=e, recompute="full") for e in ("gather", "heads", "ring")),
    dict(context=3, exchange="ring", recompute="selective"), dict(context=4, inner=2, recompute="selective", micro_batch=2),
    # sharded over the ranks that share sequences, and over those that do not, too
    *(dict(context=2, exchange=e, zero=z) for e, z in (("gather", 1), ("heads", 2), ("ring", 3))),
    dict(context=3, exchange="ring", zero=3, micro_batch=4), dict(context=4, inner=2, zero=2, micro_batch=8, bucket=100),
    *(dict(context=2, data=2, exchange=e, zero=z) for e, z in (("gather", 0), ("heads", 1), ("ring", 2), ("gather", 3))),
    dict(context=2, data=4, exchange="ring", zero=3, micro_batch=2), dict(context=4, inner=2, exchange="ring", data=2, zero=1),
    dict(context=3, data=2, zero=2, micro_batch=4, bucket=200),
    # tensor ranks
    *(dict(tensor=2, context=2, exchange=e, sequence_parallel=s) for e in ("gather", "ring") for s in (0, 1)),
    dict(tensor=2, context=3, exchange="ring", sequence_parallel=1), dict(tensor=2, context=4, sequence_parallel=1),
    dict(tensor=2, context=2, data=2, zero=3, exchange="ring", sequence_parallel=1, recompute="selective"),
    # stages, and every schedule
    dict(pipeline=2, context=2, exchange="heads"), dict(pipeline=2, context=2, schedule="gpipe"),
    dict(pipeline=2, context=2, exchange="ring", schedule="zero-bubble"),
    dict(pipeline=2, context=2, exchange="heads", schedule="zero-bubble", recompute="full"),
    dict(pipeline=2, context=2, virtual=2, schedule="interleaved"),
    dict(pipeline=2, context=4, inner=2, exchange="ring", virtual=2, schedule="interleaved", group=4),
    dict(pipeline=3, context=2, exchange="ring"), dict(pipeline=2, context=3, zero=1),
    dict(pipeline=2, context=2, exchange="ring", **NO_LAYER_FIRST), dict(pipeline=2, context=2, schedule="gpipe", **NO_LAYER_LAST),
    dict(pipeline=4, context=2, exchange="heads", schedule="zero-bubble", **NO_LAYER_EITHER),
    # everything
    dict(tensor=2, pipeline=2, context=2, exchange="ring", sequence_parallel=1, schedule="zero-bubble", recompute="full"),
    dict(tensor=2, pipeline=2, context=2, zero=2, micro_batch=4),
    dict(pipeline=2, data=2, context=2, exchange="heads", zero=3, virtual=2, schedule="interleaved"),
]
# Six heads, and eight that share two of keys and values, which are copied where more ranks than that exchange them.
ONLY = {
    "gpt2": [dict(context=3, exchange="heads"), dict(context=6, exchange="heads", zero=3), dict(context=6, inner=3),
             dict(context=6, inner=2, exchange="ring"), dict(tensor=2, context=3, exchange="heads", sequence_parallel=1)],
    "llama": [dict(context=4, exchange="heads"), dict(context=8, exchange="heads", zero=3, micro_batch=8), dict(context=8, inner=4),
              dict(tensor=2, context=2, exchange="heads", sequence_parallel=1), dict(tensor=4, context=2, exchange="heads"),
              dict(tensor=2, context=4, inner=2, exchange="ring", recompute="full")],
}
ONLY["gpt_neox"], ONLY["gemma2"] = ONLY["gpt2"], ONLY["llama"]
MODELS = [GPT2, LLAMA]
NAMES = ["gpt2", "llama"]


def some(layouts, every, what, length, batch=BATCH):
    """One rank, and a sample of the layouts (or all) if it has a token for each rank, and as many sequences as it asks for."""
    mine = drawn(layouts, max(every, 20) if WHICH == "few" else every, what)
    fitting = [x for x in mine if x["context"] <= length and batch % (x.get("micro_batch", 1) * x.get("data", 1)) == 0]
    return [dict(), *fitting]


def layouts_of(model):
    return [*LAYOUTS, *ONLY[model["family"]]]


@pytest.mark.parametrize("model", [*MODELS, GPT_NEOX, GEMMA2], ids=[*NAMES, "gpt_neox", "gemma2"])
def test_matrix(tmp_path, model):
    layouts = some(layouts_of(model), 4 if model in MODELS else 8, f"matrix {model['family']}", SEQUENCE)
    compare(run_tool(tmp_path, model, layouts, steps=STEPS), layouts, 1e-10, 1e-10, exact=True)


# Lengths of the documents of each sequence: of one token, longer than any rank's share, ending where shares do.
DOCUMENTS = {
    4: [[4], [1, 1, 1, 1], [1, 3], [2, 2]],
    5: [[5], [1, 1, 1, 1, 1], [1, 4], [3, 2]],
    13: [[6, 7], [1] * 13, [1, 10, 1, 1], [13]],
    61: [[30, 1, 1, 25, 4], [1] * 61, [1, 59, 1], [7, 8, 8, 8, 7, 8, 8, 7]],
}


def masked_tokens(model, length, steps):
    """No label of one document counts, and none of one sequence."""
    tokens = numpy.concatenate([draw_tokens(model, steps, 4, sequence=length), numpy.zeros((steps, 1, 4, length), numpy.int32)], axis=1)
    tokens[:, 2] = [[at for document in row for at in range(document)] for row in DOCUMENTS[length]]
    tokens[:, 1, 0, : DOCUMENTS[length][0][0]] = -1
    tokens[:, 1, 2:, -1] = 1  # a counted label, since all others here were drawn as ignored
    return tokens


@pytest.mark.parametrize("length", DOCUMENTS)
@pytest.mark.parametrize("model", MODELS, ids=NAMES)
def test_masked_documents_of_any_length(tmp_path, model, length):
    model = {**model, "max_sequence": length}
    layouts = some(layouts_of(model), 8, f"masked {model['family']} {length}", length, 4)
    compare(run_on(tmp_path, model, layouts, masked_tokens(model, length, 2)), layouts, 1e-10, 1e-10, exact=True)


@pytest.mark.parametrize("length", [5, 61])
@pytest.mark.parametrize("model", MODELS, ids=NAMES)
def test_any_length(tmp_path, model, length):
    model = {**model, "max_sequence": length}
    layouts = some(layouts_of(model), 10, f"length {model['family']} {length}", length)
    compare(run_tool(tmp_path, model, layouts, steps=2, sequence=length), layouts, 1e-10, 1e-10, exact=True)


@pytest.mark.parametrize("precision,tolerance", [("fp32", 1e-5), ("bf16", 2e-2)])
@pytest.mark.parametrize("model", MODELS, ids=NAMES)
def test_cpu(tmp_path, model, precision, tolerance):
    model = {**model, "max_sequence": 61}
    layouts = some(layouts_of(model), 12, f"cpu {model['family']} {precision}", 13)
    compare(run_tool(tmp_path, model, layouts, "cpu", precision, steps=3, sequence=13), layouts, tolerance, tolerance, exact=True)
    layouts = some(layouts_of(model), 12, f"cpu masked {model['family']} {precision}", 61, 4)
    compare(run_on(tmp_path, model, layouts, masked_tokens(model, 61, 1), "cpu", precision), layouts, tolerance, tolerance, exact=True)


@pytest.mark.parametrize("masked", [False, True], ids=["joined", "masked"])
def test_long_sequences(tmp_path, masked):
    """What passes between ranks is read where it lies, or goes in pieces: small exchanges are copied."""
    model = {**LLAMA, "num_layers": 2, "hidden_size": 64, "max_sequence": 499}
    layouts = [dict(), *(dict(context=2, exchange=e) for e in ("gather", "heads", "ring")), dict(context=4, exchange="ring", inner=2, recompute="full"),
               dict(context=3, micro_batch=2, zero=3), dict(context=2, tensor=2, exchange="heads", sequence_parallel=1)]
    layouts = layouts[::2] if WHICH == "few" else layouts
    answers = run_tool(tmp_path, model, layouts, "cpu", "fp32", steps=2, batch=4, sequence=499, masked=masked)
    compare(answers, layouts, 1e-5, 1e-5, exact=True)


# ---- equal bits ------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("masked", [False, True], ids=["joined", "masked"])
@pytest.mark.parametrize("model, ranks", [(GPT2, (2, 3, 6)), (LLAMA, (2,)), ({**LLAMA, "num_kv_heads": 8}, (2, 4, 8))],
                         ids=["gpt2", "llama", "llama 8:8"])
def test_exchanged_heads_have_the_bits_of_one_rank(tmp_path, model, ranks, masked):
    """Each head is computed whole, so attention's output, dq, dk and dv are those of one rank to the bit; gradients of matrices
    and the loss are summed over the ranks, and are not. No token is there twice, so a token's gradient in the embedding is that of
    one row, which has been through every layer's attention forth and back."""
    length = 13
    model = {**model, "vocab_size": 4 * length, "max_sequence": length, "tied": False}
    tokens = masked_tokens(model, length, 1)
    tokens[0, 0] = numpy.random.default_rng(4).permutation(4 * length).reshape(4, length)
    layouts = [dict(), *(dict(context=c, exchange="heads") for c in ranks),
               *(dict(context=c, exchange="heads", recompute="full", zero=3) for c in ranks)]
    answers = run_on(tmp_path, model, layouts, tokens if masked else tokens[:, :2], train=False)
    compare(answers, layouts, 1e-10, 1e-10, exact=True)
    embedding = slice(0, model["vocab_size"] * model["hidden_size"])
    one = answers["one"]
    rows = one[0][embedding].reshape(model["vocab_size"], -1)
    assert (rows != 0).any(axis=1).sum() > 1.5 * length
    for layout in layouts[1:]:
        assert (answers[name_of(layout)][0][embedding] == one[0][embedding]).all(), layout


# ---- beside PyTorch --------------------------------------------------------------------------------------------------

def tensors_of(folder, flat):
    """By name, in the order of the tool's table."""
    found, at = {}, 0
    for p in tool("table", folder / "model.yaml")["parameters"]:
        size = int(numpy.prod(p["shape"]))
        found[p["name"]] = torch.tensor(flat[at : at + size].reshape(p["shape"]), requires_grad=True)
        at += size
    assert at == len(flat)
    return found


@pytest.mark.parametrize("model", [{**GPT2, "dropout": 0.0}, LLAMA], ids=NAMES)
def test_beside_pytorch(tmp_path, model):
    """Documents over four ranks: loss and gradients of a model that knows no ranks, with a mask written out."""
    model = {**model, "max_sequence": 61}
    tokens = masked_tokens(model, 61, 1)
    layouts = [dict(), dict(context=4), dict(context=4, exchange="ring"), dict(context=4, exchange="ring", inner=2),
               dict(context=2, exchange="heads", data=2, zero=3)]
    answers = run_on(tmp_path, model, layouts, tokens, train=False)
    weights = tensors_of(tmp_path, answers["one"][1])
    ids, labels, positions = torch.tensor(tokens[0].astype(numpy.int64))
    loss = models.loss(model, weights, ids, labels, positions)
    loss.backward()
    expected = numpy.concatenate([t.grad.numpy().reshape(-1) for t in weights.values()])
    for layout in layouts:
        gradients, _, steps, _ = answers[name_of(layout)]
        assert abs(steps[0, 0] / loss.item() - 1) <= 1e-10, layout
        assert numpy.linalg.norm(gradients - expected) <= 1e-10 * numpy.linalg.norm(expected), layout


# ---- the program -----------------------------------------------------------------------------------------------------

HEADS, KV_HEADS, HEAD_SIZE, LAYERS = 4, 2, 8, 3
RUN_MODEL = dict(family="llama", num_layers=LAYERS, hidden_size=HEADS * HEAD_SIZE, num_heads=HEADS, num_kv_heads=KV_HEADS, ffn_size=48,
                 vocab_size=257, max_sequence=64)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "text.txt").write_text("".join(f"Line {i}: the rowers pull {i * 7919 % 1000} times.\n" for i in range(400)))
    trireme("prepare", "--tokenizer", "bytes", "--out", folder / "data", folder / "text.txt")
    return folder / "data"


def train(folder, corpus, length, layout, *words, ranks=1, precision="fp32", **more):
    folder.mkdir(exist_ok=True)
    device = "reference" if precision == "fp64" else "cpu"
    run = dict(model=RUN_MODEL, data=dict(train=str(corpus / "train"), validation=str(corpus / "validation"), sequence=length), layout=layout,
               optimizer=dict(global_batch=4, steps=6, lr=1e-2), precision=precision, device=device, seed=3, threads=1, output=str(folder / "run"), **more)
    (folder / "run.yaml").write_text(yaml_of(run))
    trireme("train", folder / "run.yaml", *(["-n", ranks] if ranks > 1 else []), *words)
    return folder / "run"


# Ranks, those that exchange heads, how the others attend.
EXCHANGES = [(2, 1, "gather"), (3, 1, "gather"), (2, 2, "heads"), (4, 2, "gather"), (2, 1, "ring"), (3, 1, "ring"), (4, 2, "ring")]


@pytest.mark.cpu  # others stage what passes in messages
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("ranks, inner, exchange", EXCHANGES, ids=["-".join(map(str, e)) for e in EXCHANGES])
def test_bytes_moved(tmp_path, corpus, ranks, inner, exchange, precision):
    """The bytes that the ranks send in a step are the sum of each exchange's formula over layers and micro-batches, for any length."""
    length, micro_batch = 61, 2
    layout = dict(context=ranks, context_exchange=exchange, context_inner=inner, micro_batch=micro_batch)
    train(tmp_path, corpus, length, layout, "--timeline", tmp_path / "t.json", ranks=ranks, precision=precision, evaluation=dict(every=0))
    element, wide = (4, 4) if precision == "fp32" else (2, 4)
    outer = ranks // inner
    tokens = LAYERS * 4 * length  # tokens of all micro-batches, summed over the layers
    heads = tokens * (2 * HEADS + 2 * KV_HEADS) * HEAD_SIZE * (inner - 1) // inner
    keys = tokens * 2 * KV_HEADS * HEAD_SIZE  # to one other rank each, whatever heads of them a rank has
    wanted = {"all_to_all": 2 * heads * element}
    if exchange == "ring":  # keys in the forward; in the backward keys and their gradients, which end at their owner
        wanted["pass"] = 2 * (outer - 1) * keys * element + (outer if outer > 1 else 0) * keys * wide
    else:
        wanted["all_gather"] = 2 * (outer - 1) * keys * element
        wanted["reduce_scatter"] = (outer - 1) * keys * element
    found = collections.Counter()
    events = [e for e in json.loads((tmp_path / "t.json").read_text())["traceEvents"] if e["ph"] == "X"]
    for e in events:
        waits = e["name"] == "pass" and e["tid"] == 0  # a pass is in the background, on a line of its own
        if e["args"].get("axis") == "context" and e["name"] in wanted and not waits:
            found[e["args"]["step"], e["name"]] += e["args"]["bytes"]
    for step, name in found:  # an event has all of a rank's parts, but for a pass; it keeps its own
        size = inner if name == "all_to_all" else outer
        if name != "pass":
            assert found[step, name] % size == 0
            found[step, name] = found[step, name] * (size - 1) // size
    steps = {e["args"]["step"] for e in events}
    assert len(steps) >= 3
    assert found == {(step, name): total for step in steps for name, total in wanted.items() if total > 0}


def test_evaluation_and_generation(tmp_path, corpus):
    """The losses of a run and of its evaluations equal one rank's, and `eval` and `generate` read its checkpoint."""
    told = []
    for i, (ranks, layout) in enumerate([(1, {}), (3, dict(context=3, context_exchange="ring")), (4, dict(context=4, context_inner=2)),
                                         (4, dict(context=2, context_exchange="heads", data=2, zero=3))]):
        run = train(tmp_path / str(i), corpus, 13, dict(micro_batch=2, **layout), ranks=ranks, precision="fp64", evaluation=dict(every=3, batches=5))
        lines = [json.loads(line) for line in open(run / "metrics.jsonl")]
        numbers = [line[key] for key in ("loss", "grad_norm", "validation_loss") for line in lines if key in line]
        assert len(numbers) == 6 + 6 + 2
        said = trireme("eval", run, corpus / "validation", "--precision", "fp64", "--device", "reference", "--json").stdout
        text = trireme("generate", run, "--prompt", "Line", "--tokens", 20, "--temperature", 0, "--precision", "fp64", "--device", "reference").stdout
        told.append((numpy.array([*numbers, json.loads(said)["loss"]]), text))
    for numbers, text in told[1:]:
        assert numpy.abs(numbers / told[0][0] - 1).max() <= 1e-10
        assert text == told[0][1]


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, *os.sys.argv[1:]]))

"""Promise 1: the layout never changes the answer.

The same two models under many layouts of up to eight ranks, in fp64 on the reference device: every gradient of every
parameter, gathered to its global shape, within 1e-10 of one rank's, and twenty steps' losses and norms; weights equal to
the bit wherever only pipeline, schedule, recompute or ZeRO changed. The memory plan of every rank is what it allocates.
In fp32 and bf16 on the CPU device the same with their tolerances. Each test draws some of the layouts (drawn.py)."""
import json
import os
import random
import shutil
import subprocess

import numpy
import pytest
from drawn import WHICH, drawn
from parity import device_for

TOOL = os.path.join(os.environ["TRIREME_TOOLS"], "layout_tool")
LAUNCHER = os.environ.get("TRIREME_MPIEXEC", "mpiexec")
STEPS, BATCH, SEQUENCE = int(os.environ.get("TRIREME_LAYOUT_STEPS", 20)), 8, 7

# tied, dropout, a vocabulary and an MLP that three and five do not divide
GPT2 = dict(family="gpt2", num_layers=5, hidden_size=12, num_heads=6, ffn_size=26, vocab_size=59, max_sequence=16,
            dropout=0.1, tied=True, init_std=0.1)
# untied, grouped-query heads
LLAMA = dict(family="llama", num_layers=5, hidden_size=16, num_heads=8, num_kv_heads=2, ffn_size=21, vocab_size=43,
             max_sequence=16, tied=False, init_std=0.1)
# biases on all products of a layer
BIASED = {**LLAMA, "attention_bias": True, "output_bias": True, "mlp_bias": True}
# norms of the heads of q and k, whose width is their own, biases on all products of attention, positions by the list for long sequences
LONG = dict(type="longrope", factor=4.0, original_max_sequence=5, short_factor=[1.0, 1.1, 1.2], long_factor=[1.5, 3.0, 9.0])
QWEN3 = {**LLAMA, "family": "qwen3", "head_dim": 6, "norm_eps": 1e-6, "attention_bias": True, "rope_scaling": LONG}
# Branches side by side, whose sums over ranks are one, q, k and v head by head, positions that turn a part of each head.
GPT_NEOX = dict(family="gpt_neox", num_layers=5, hidden_size=48, num_heads=6, ffn_size=26, vocab_size=59, max_sequence=16, init_std=0.1)
# Windows in every other layer, norms after the branches, scores and logits that are capped, gates of GELU.
GEMMA2 = dict(family="gemma2", num_layers=5, hidden_size=16, num_heads=8, num_kv_heads=2, head_dim=6, ffn_size=21, vocab_size=43, max_sequence=16,
              window=4, window_layers="1 of 2", attention_scale=0.6, attention_soft_cap=0.5, logit_soft_cap=0.7, init_std=0.3)
# Norms behind the branches alone, so that nothing keeps what a layer was given.
OLMO2 = {**LLAMA, "family": "olmo2"}
# Keys of layouts that have shorter names here.
NAMES = dict(virtual="virtual_stages", every="recompute_every", bucket="bucket_bytes", reduce="reduce_precision", group="micro_batch_group",
             embedding="embedding_as_layers", head="head_as_layers", exchange="context_exchange", inner="context_inner",
             row_pairs="context_row_pairs", capacity="expert_capacity", drop="capacity_drop", regather="sequence_regather")
TRUTHS = ("sequence_parallel", "drop", "regather")
DEFAULT = dict(tensor=1, pipeline=1, data=1, virtual=1, schedule="1f1b", sequence_parallel=0, zero=0, recompute="none",
               every=1, micro_batch=1, bucket=1000, reduce="fp32", group=0, balance="work", embedding=0, head=0, context=1,
               exchange="gather", inner=0, row_pairs=100, expert=1, expert_tensor=1, capacity=1.5, drop=0, regather=0, stage_layers="[]")


def text_of(layout):
    """As for --layout."""
    def value(key, given):
        return str(bool(given)).lower() if key in TRUTHS else "auto" if key in ("group", "inner") and given == 0 else given

    return ",".join(f"{NAMES.get(key, key)}={value(key, given)}" for key, given in complete(layout).items())


# Both models have five layers: the first stage has the embedding alone, the last the head, or both.
NO_LAYER_FIRST, NO_LAYER_LAST = dict(balance="layers", embedding=9), dict(balance="layers", head=9)
NO_LAYER_EITHER = dict(balance="layers", embedding=9, head=9)

LAYOUTS = [
    dict(recompute="full"), dict(recompute="selective"), dict(recompute="full", every=2), dict(schedule="gpipe"),
    dict(schedule="zero-bubble"), dict(schedule="zero-bubble", recompute="full"),
    dict(pipeline=2), dict(pipeline=2, schedule="gpipe"), dict(pipeline=2, schedule="zero-bubble"),
    dict(pipeline=2, virtual=2, schedule="interleaved"), dict(pipeline=2, recompute="full", every=3),
    dict(pipeline=3), dict(pipeline=5, schedule="zero-bubble", recompute="selective"), dict(pipeline=4, schedule="gpipe"),
    dict(pipeline=5), dict(pipeline=2, virtual=2, schedule="interleaved", recompute="full"),
    # interleaved in groups that are not the stages: fewer micro-batches, larger groups, a last one that is larger
    dict(pipeline=2, virtual=2, schedule="interleaved", micro_batch=8), dict(pipeline=2, virtual=2, schedule="interleaved", group=3),
    dict(pipeline=2, virtual=2, schedule="interleaved", group=8, recompute="full"),
    dict(pipeline=2, data=2, virtual=2, schedule="interleaved", group=4, zero=3),
    dict(data=2), dict(data=2, zero=1), dict(data=2, zero=2), dict(data=2, zero=3), dict(data=4, zero=1, bucket=100),
    dict(data=4, zero=3, micro_batch=2), dict(data=8, zero=2), dict(data=4), dict(data=2, zero=3, recompute="full"),
    # one micro-batch a step: gradients sharded too
    dict(data=2, micro_batch=4), dict(data=2, zero=1, micro_batch=4), dict(data=2, zero=2, micro_batch=4, bucket=200),
    dict(data=2, zero=3, micro_batch=4), dict(data=2, zero=3, micro_batch=4, bucket=1 << 20, recompute="full"),
    dict(data=8, zero=3), dict(pipeline=2, data=2, zero=3, micro_batch=4), dict(pipeline=2, data=2, zero=2, micro_batch=4),
    dict(tensor=2, data=2, zero=3, micro_batch=4, sequence_parallel=1, schedule="zero-bubble"),
    dict(tensor=2), dict(tensor=2, sequence_parallel=1), dict(tensor=2, sequence_parallel=1, recompute="full"),
    dict(tensor=2, recompute="selective"), dict(tensor=2, sequence_parallel=1, recompute="selective"),
    dict(tensor=2, recompute="full"), dict(tensor=2, recompute="full", every=2),
    dict(tensor=2, data=2), dict(tensor=2, data=2, zero=1), dict(tensor=2, data=2, zero=3, sequence_parallel=1),
    dict(tensor=2, pipeline=2), dict(tensor=2, pipeline=2, sequence_parallel=1, schedule="zero-bubble"),
    dict(tensor=2, pipeline=2, virtual=2, schedule="interleaved", sequence_parallel=1),
    dict(pipeline=2, data=2), dict(pipeline=2, data=2, zero=1), dict(pipeline=2, data=2, zero=2, schedule="gpipe"),
    dict(pipeline=2, data=2, zero=3), dict(pipeline=2, data=2, zero=3, schedule="zero-bubble", recompute="full"),
    dict(pipeline=2, data=2, virtual=2, schedule="interleaved", zero=1), dict(pipeline=4, data=2, zero=1),
    dict(pipeline=2, data=4, zero=2), dict(tensor=2, pipeline=2, data=2), dict(tensor=2, pipeline=2, data=2, zero=1),
    dict(tensor=2, pipeline=2, data=2, zero=3, sequence_parallel=1, recompute="full", schedule="zero-bubble"),
    dict(tensor=2, pipeline=4, sequence_parallel=1), dict(tensor=2, data=4, zero=2, sequence_parallel=1),
    dict(pipeline=2, **NO_LAYER_FIRST), dict(pipeline=2, **NO_LAYER_LAST), dict(pipeline=2, schedule="zero-bubble", **NO_LAYER_FIRST),
    dict(pipeline=2, schedule="gpipe", recompute="full", **NO_LAYER_LAST), dict(pipeline=4, **NO_LAYER_EITHER),
    dict(pipeline=2, virtual=2, schedule="interleaved", **NO_LAYER_EITHER), dict(pipeline=6), dict(pipeline=7),
    dict(pipeline=2, virtual=3, schedule="interleaved"), dict(pipeline=3, virtual=2, schedule="interleaved", recompute="full"),
    dict(pipeline=4, schedule="zero-bubble", recompute="full", **NO_LAYER_EITHER), dict(pipeline=4, balance="layers", embedding=1, head=1),
    *(dict(pipeline=2, data=2, zero=zero, **NO_LAYER_FIRST) for zero in (1, 2, 3)),
    *(dict(pipeline=2, data=2, zero=zero, micro_batch=4, **NO_LAYER_LAST) for zero in (1, 2, 3)),
    *(dict(pipeline=2, virtual=2, schedule="interleaved", data=2, zero=zero, micro_batch=2, **NO_LAYER_EITHER) for zero in (1, 3)),
    dict(pipeline=4, data=2, zero=3, schedule="zero-bubble", **NO_LAYER_EITHER), dict(pipeline=4, data=2, zero=2, micro_batch=4, **NO_LAYER_EITHER),
    dict(tensor=2, pipeline=2, **NO_LAYER_FIRST), dict(tensor=2, pipeline=2, sequence_parallel=1, **NO_LAYER_LAST),
    dict(tensor=2, pipeline=2, virtual=2, schedule="interleaved", sequence_parallel=1, recompute="selective", **NO_LAYER_EITHER),
    dict(tensor=2, pipeline=2, data=2, zero=3, sequence_parallel=1, schedule="zero-bubble", **NO_LAYER_LAST),
    dict(tensor=2, pipeline=4, sequence_parallel=1, **NO_LAYER_EITHER),
    # gathered again in the backward: the same bits as kept
    *(dict(tensor=2, sequence_parallel=1, regather=1, **more) for more in (
        dict(), dict(recompute="selective"), dict(recompute="full"), dict(recompute="full", every=2), dict(schedule="gpipe"),
        dict(schedule="zero-bubble"), dict(micro_batch=4), dict(micro_batch=8), dict(data=2), dict(data=2, zero=1), dict(data=2, zero=2, micro_batch=4),
        dict(data=2, zero=3), dict(data=2, zero=3, recompute="selective"), dict(pipeline=2), dict(pipeline=2, schedule="zero-bubble"),
        dict(pipeline=2, virtual=2, schedule="interleaved"), dict(pipeline=2, schedule="gpipe", recompute="selective"), dict(pipeline=4),
        dict(pipeline=2, data=2, zero=3, schedule="zero-bubble"), dict(pipeline=3, recompute="full", every=3), dict(data=4))),
    # layers of each stage
    *(dict(pipeline=2, stage_layers=layers) for layers in ("[3,2]", "[1,4]", "[4,1]", "[0,5]", "[5,0]")),
    dict(pipeline=3, stage_layers="[0,5,0]"), dict(pipeline=4, stage_layers="[0,1,4,0]", schedule="zero-bubble"), dict(pipeline=5, stage_layers="[1,1,1,1,1]"),
    dict(pipeline=2, virtual=2, schedule="interleaved", stage_layers="[1,2,1,1]"), dict(pipeline=2, virtual=3, schedule="interleaved", stage_layers="[0,1,1,1,2,0]", recompute="full"),
    dict(pipeline=2, data=2, zero=3, stage_layers="[4,1]"), dict(tensor=2, pipeline=2, sequence_parallel=1, regather=1, stage_layers="[1,4]", zero=1, data=2),
    dict(pipeline=3, schedule="gpipe", stage_layers="[1,1,3]", recompute="full", every=2),
]
ONLY_GPT2 = [dict(tensor=3), dict(tensor=3, sequence_parallel=1), dict(tensor=6, sequence_parallel=1), dict(tensor=3, pipeline=2)]
ONLY_LLAMA = [dict(tensor=4), dict(tensor=8), dict(tensor=4, sequence_parallel=1), dict(tensor=4, data=2, zero=1),
              dict(tensor=4, pipeline=2, sequence_parallel=1, recompute="full")]


def complete(layout):
    return {**DEFAULT, **layout}


def name_of(layout):
    """By what is not as usual: also a file's name, which has an end."""
    return "-".join(f"{k}{v}" for k, v in layout.items() if v != DEFAULT[k]) or "one"


def ranks_of(layout):
    layout = complete(layout)
    return layout["tensor"] * layout["pipeline"] * layout["data"] * layout["context"]


def draw_positions(chance, shape):
    """Documents of any length, of one token too; a sequence of nothing else, and one that is one document."""
    begins = chance.random(shape) < 0.4
    begins[:, 0], begins[:, 2] = True, False
    begins[..., 0] = True
    at = numpy.arange(shape[-1])
    return at - numpy.maximum.accumulate(numpy.where(begins, at, 0), axis=-1)


def draw_tokens(model, steps, batch, sequence=SEQUENCE, ignored=0.2, seed=3, masked=False):
    """Ids, labels and, where documents are masked, positions of each step."""
    chance = numpy.random.default_rng(seed)
    tokens = chance.integers(0, model["vocab_size"], (steps, 3 if masked else 2, batch, sequence)).astype(numpy.int32)
    labels = tokens[:, 1]
    labels[chance.random(labels.shape) < ignored] = -1
    labels[:, 1] = -1  # a sequence without any label that counts
    if masked:
        tokens[:, 2] = draw_positions(chance, labels.shape)
    return tokens


def run_tool(folder, model, layouts, device="reference", precision="fp64", steps=STEPS, batch=BATCH, **drawn):
    """Runs all layouts on drawn tokens; answers as run_on does."""
    return run_on(folder, model, layouts, draw_tokens(model, steps, batch, **drawn), device, precision)


def run_on(folder, model, layouts, tokens, device="reference", precision="fp64", train=True, weights=None, objective=None, samples=None):
    """Runs all layouts, one job for each number of ranks; answers {name: (gradients, values, steps, bytes)}: of each step loss, norm
    and, where there are experts, what routers add to the loss. Without training the values are those that the gradients are
    of, and the only step is the first one. `weights` ({name: array}) to begin with; else they are drawn. The model is a description, or
    the text of a model file of one without experts. `objective`: of completions, as layout_tool has it.
    `samples`: the number of samples of each step, if it is smaller than the batch that the engine was made for."""
    (folder / "model.yaml").write_text(model if isinstance(model, str) else json.dumps(model))
    has_experts = isinstance(model, dict) and "num_experts" in model
    tokens.astype(numpy.int32).tofile(folder / "tokens")
    steps, _, batch, sequence = tokens.shape
    answers, given = {}, [""]
    if weights is not None:
        given = [folder / "weights"]
        numpy.concatenate([numpy.asarray(w, numpy.float64).reshape(-1) for w in weights.values()]).tofile(given[0])
    for ranks in sorted({ranks_of(layout) for layout in layouts}):
        mine = [layout for layout in layouts if ranks_of(layout) == ranks]
        lines = [f"{name_of(layout)} {text_of(layout)}" for layout in mine]
        (folder / "layouts").write_text("\n".join(lines) + "\n")
        command = [TOOL, folder / "model.yaml", device_for(device, precision), precision, f"{batch}/{samples or batch}", sequence,
                   steps if train else 0, folder / "tokens", folder / "layouts", folder, *given, *([objective] if objective else [])]
        if ranks > 1:
            command = [*launcher(), "-n", ranks, *command]
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=900)
        assert done.returncode == 0, (ranks, done.stdout[-300:], done.stderr[:1500])
        for line in done.stdout.splitlines():
            answer = json.loads(line)
            arrays = numpy.fromfile(folder / (answer["name"] + ".bin"))
            half = len(arrays) // 2
            losses = numpy.array(answer["steps"] if train else [answer["first"]])[:, : 3 if has_experts else 2]
            answers[answer["name"]] = (arrays[:half], arrays[half:], losses, answer["bytes"])
    return answers


def launcher():
    version = subprocess.run([LAUNCHER, "--version"], capture_output=True, text=True).stdout
    if "Open MPI" in version or "OpenRTE" in version:
        return [LAUNCHER, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
    return [LAUNCHER]


def same_sums(layout):
    """What decides the order of summation: layouts that agree on it must agree to the bit."""
    full = complete(layout)
    exchange = (full["context"], full["exchange"], full["inner"], full["row_pairs"]) if full["context"] > 1 else ()
    return (full["tensor"], full["sequence_parallel"] and full["tensor"] > 1, full["data"], full["micro_batch"], full["reduce"],
            *exchange)


def compare(answers, layouts, tolerance, loss_tolerance, exact):
    base = answers["one"]
    groups = {}
    for layout in layouts:
        gradients, values, steps, memory = answers[name_of(layout)]
        name = name_of(layout)
        error = numpy.linalg.norm(gradients - base[0]) / numpy.linalg.norm(base[0])
        assert error <= tolerance, (name, "gradients", error)
        assert numpy.abs(steps / base[2] - 1).max() <= loss_tolerance, (name, numpy.abs(steps / base[2] - 1).max(axis=0))
        assert all(predicted == measured for predicted, measured in memory), (name, memory)
        if exact:
            other = groups.setdefault(same_sums(layout), (name, values, gradients, steps))
            assert (other[1] == values).all(), (name, other[0], "weights differ in bits")
            assert (other[2] == gradients).all(), (name, other[0], "gradients differ in bits")
            assert (other[3] == steps).all(), (name, other[0], "losses or norms differ in bits")


# With more ranks than cores some MPIs take milliseconds a message: a second MPI is held to a part of the matrix.
if WHICH == "few":
    LAYOUTS, ONLY_GPT2, ONLY_LLAMA = drawn(LAYOUTS[7:52], 9, "few"), ONLY_GPT2[:1], ONLY_LLAMA[:1]

needs_launcher = pytest.mark.skipif(shutil.which(LAUNCHER) is None, reason="SKIPPED: there is no mpiexec")


@needs_launcher
@pytest.mark.parametrize("model", [GPT2, LLAMA, BIASED, QWEN3, GPT_NEOX, GEMMA2, OLMO2, {**GPT_NEOX, "dropout": 0.1}],
                         ids=["gpt2", "llama", "llama, biases", "qwen3", "gpt_neox", "gemma2", "olmo2", "gpt_neox, dropout"])
def test_matrix(tmp_path, model):
    some = LAYOUTS if WHICH == "few" else drawn(LAYOUTS, 3 if model in (GPT2, LLAMA) else 8, f"matrix {model['family']}")
    layouts = [dict(), *some, *(ONLY_GPT2 if model["num_heads"] == 6 else ONLY_LLAMA)]
    compare(run_tool(tmp_path, model, layouts), layouts, 1e-10, 1e-10, exact=True)


@needs_launcher
@pytest.mark.parametrize("model", [GPT2, LLAMA, GPT_NEOX, GEMMA2], ids=["gpt2", "llama", "gpt_neox", "gemma2"])
def test_masked_documents(tmp_path, model):
    """The same with documents that do not see each other; that they do not, test_documents.py shows of one rank."""
    every = 5 if model in (GPT2, LLAMA) else 12
    layouts = [dict(), *drawn(LAYOUTS, every, f"masked {model['family']}"), *(ONLY_GPT2 if model["num_heads"] == 6 else ONLY_LLAMA)]
    answers = run_tool(tmp_path, model, layouts, steps=3, masked=True)
    compare(answers, layouts, 1e-10, 1e-10, exact=True)
    joined = run_tool(tmp_path, model, layouts[:1], steps=3)
    assert (joined["one"][2] != answers["one"][2]).any()


WINDOWED = {**LLAMA, "max_sequence": 32, "window": 4, "window_layers": "1 of 2"}
# Stages with and without layers that have a window; a window over blocks of keys that lie apart, and within one.
WINDOW_LAYOUTS = [
    dict(), dict(recompute="full"), dict(pipeline=2), dict(pipeline=2, virtual=2, schedule="interleaved", **NO_LAYER_EITHER), dict(pipeline=7),
    dict(tensor=2, data=2, zero=3, sequence_parallel=1), dict(context=2), dict(context=3), dict(context=2, exchange="heads"),
    dict(context=2, exchange="ring"), dict(context=3, exchange="ring"), dict(context=4, exchange="ring"), dict(context=4, exchange="ring", inner=2),
    dict(context=4, inner=2), dict(context=2, exchange="ring", pipeline=2, tensor=2, recompute="full"), dict(context=2, data=2, zero=2)]


@needs_launcher
@pytest.mark.parametrize("window, masked", [(4, False), (4, True), (1, True), (11, False), (22, True)])
def test_windows(tmp_path, window, masked):
    """The same where some layers look back through a window; that they do, test_parity.py shows of one rank."""
    model = {**WINDOWED, "window": window}
    drawn = dict(steps=3, sequence=23, masked=masked, batch=4)
    layouts = [layout for layout in WINDOW_LAYOUTS if window == 4 or "context" in layout or not layout]
    answers = run_tool(tmp_path, model, layouts, **drawn)
    compare(answers, layouts, 1e-10, 1e-10, exact=True)
    everywhere = run_tool(tmp_path, {**model, "window": 0, "window_layers": "all"}, layouts[:1], **drawn)
    assert (everywhere["one"][2] != answers["one"][2]).any()


@needs_launcher
@pytest.mark.parametrize("precision,tolerance,loss_tolerance", [("fp32", 1e-5, 1e-5), ("bf16", 2e-2, 2e-2)])
def test_masked_documents_on_the_cpu(tmp_path, precision, tolerance, loss_tolerance):
    layouts = [dict(), *drawn(LAYOUTS, 12, f"masked {precision}")]
    compare(run_tool(tmp_path, LLAMA, layouts, "cpu", precision, steps=3, masked=True), layouts, tolerance, loss_tolerance, exact=True)


@needs_launcher
@pytest.mark.parametrize("precision,tolerance,loss_tolerance", [("fp32", 1e-5, 1e-5), ("bf16", 2e-2, 2e-2)])
@pytest.mark.parametrize("model", [GPT2, LLAMA], ids=["gpt2", "llama"])
def test_cpu(tmp_path, model, precision, tolerance, loss_tolerance):
    layouts = [dict(), *drawn(LAYOUTS, 10, f"cpu {model['family']} {precision}")]
    compare(run_tool(tmp_path, model, layouts, "cpu", precision), layouts, tolerance, loss_tolerance, exact=True)


@needs_launcher
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_reduce_precision(tmp_path, precision):
    """Gradients that travel as bf16 are rounded once a rank: close to the others, and equal under every ZeRO."""
    layouts = [dict(), dict(data=2, reduce="fp32", zero=1), *(dict(data=2, reduce="bf16", zero=zero) for zero in range(4)),
               *(dict(data=2, reduce="bf16", zero=zero, micro_batch=4, bucket=300) for zero in range(4)),
               dict(data=4, pipeline=2, reduce="bf16", zero=1, bucket=100)]
    answers = run_tool(tmp_path, LLAMA, layouts, "cpu", precision)
    compare(answers, layouts, 2e-2, 2e-2, exact=True)
    wide, narrow = answers[name_of(layouts[1])], answers[name_of(layouts[3])]
    assert (wide[0] != narrow[0]).any(), "nothing was rounded"


@needs_launcher
def test_twice(tmp_path):
    layouts = [dict(tensor=2, pipeline=2, data=2, zero=1)]
    first, second = run_tool(tmp_path, GPT2, layouts), run_tool(tmp_path, GPT2, layouts)
    for a, b in zip(first.values(), second.values()):
        assert (a[0] == b[0]).all() and (a[1] == b[1]).all() and (a[2] == b[2]).all()


def draw_model(chance, sequence):
    family = chance.choice(["gpt2", "llama"])
    heads, head_dim = chance.choice([1, 2, 3, 4, 6]), 2 * chance.randint(1, 3)
    kv_heads = chance.choice([k for k in range(1, heads + 1) if heads % k == 0]) if family == "llama" else heads
    model = dict(family=family, num_layers=chance.randint(1, 5), hidden_size=heads * head_dim, num_heads=heads,
                 ffn_size=chance.randint(9, 40), vocab_size=chance.randint(9, 90), max_sequence=sequence,
                 tied=chance.random() < 0.5, init_std=0.1)
    return {**model, "dropout": chance.choice([0.0, 0.2])} if family == "gpt2" else {**model, "num_kv_heads": kv_heads}


def exchanges_heads(layout, heads, kv_heads):
    """Whether the context ranks that exchange heads divide a tensor rank's, and copy key/value heads evenly if at all."""
    ranks = layout["context"] if layout["exchange"] == "heads" else max(layout["inner"], 1)
    return layout["context"] % ranks == 0 and heads % ranks == 0 and (kv_heads % ranks == 0 or ranks % kv_heads == 0)


def draw_layout(chance, model, batch, sequence):
    """Any legal layout of up to eight ranks."""
    while True:
        layout = complete(dict(
            tensor=chance.choice([1, 1, 2, 3, 4, 6]), pipeline=chance.choice([1, 1, 2, 3, 4]), data=chance.choice([1, 1, 2, 4]),
            virtual=chance.choice([1, 1, 2]), schedule=chance.choice(["gpipe", "1f1b", "interleaved", "zero-bubble"]),
            sequence_parallel=chance.randint(0, 1), zero=chance.randint(0, 3),
            recompute=chance.choice(["none", "selective", "full"]), every=chance.randint(1, 3),
            micro_batch=chance.choice([1, 2, 4]), bucket=chance.choice([1, 500, 3000, 1 << 20]),
            balance=chance.choice(["work", "layers"]), embedding=chance.randint(0, 3), head=chance.randint(0, 3),
            context=chance.choice([1, 1, 2, 3, 4]), exchange=chance.choice(["gather", "heads", "ring"]), row_pairs=chance.choice([0, 1, 100, 1 << 20])))
        if layout["exchange"] != "heads":
            layout["inner"] = chance.choice([0, 1, layout["context"], 2])
        if layout["balance"] == "work":
            layout.update(embedding=0, head=0)
        t, kv = layout["tensor"], model.get("num_kv_heads", model["num_heads"])
        interleaved = layout["schedule"] == "interleaved"
        per_rank = layout["micro_batch"] * layout["data"]
        if (ranks_of(layout) <= 8 and model["num_heads"] % t == 0 and (kv % t == 0 or t % kv == 0) and batch % per_rank == 0
                and layout["pipeline"] * layout["virtual"] <= model["num_layers"] + 2 and layout["context"] <= sequence
                and exchanges_heads(layout, model["num_heads"] // t, max(kv // t, 1))
                and (layout["virtual"] > 1) == interleaved and (layout["pipeline"] > 1 or not interleaved)):
            return layout


@needs_launcher
def test_random_layouts(tmp_path):
    """TRIREME_FUZZ_LAYOUTS=1000 draws 1000; another TRIREME_FUZZ_SEED draws others."""
    chance = random.Random(int(os.environ.get("TRIREME_FUZZ_SEED", 1)))
    for number in range(int(os.environ.get("TRIREME_FUZZ_LAYOUTS", 8))):
        folder = tmp_path / str(number)
        folder.mkdir()
        batch, sequence = chance.choice([4, 8]), chance.choice([4, 7, 13])
        model = draw_model(chance, sequence)
        layouts = [dict(), *(draw_layout(chance, model, batch, sequence) for _ in range(3))]
        print(number, model, sequence, layouts[1:])
        answers = run_tool(folder, model, layouts, steps=6, batch=batch, seed=number, sequence=sequence, masked=number % 2 == 1)
        compare(answers, layouts, 1e-10, 1e-10, exact=True)

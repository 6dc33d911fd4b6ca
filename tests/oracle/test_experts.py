"""Layers of experts under every layout: promise 1 for tokens that are sent to the ranks of their experts. As in test_layouts.py: all gradients
in fp64 within 1e-10 of one rank's, losses, router losses and norms of several steps, equal bits if the sums have the same order, memory as
planned. Experts that no number of ranks divides, split experts (expert_tensor, also if each rank has all of them), stages without experts,
experts without tokens, one expert with all tokens; and silent errors of other trainers, each in a test named after it.

TRIREME_LAYOUTS=all runs every layout with every model; without it each draws a part of them (drawn.py)."""
import os
import random

import expert_cases
import numpy
import pytest
from drawn import WHICH, drawn
from expert_cases import DOTS1, MIXTRAL, MODELS, OLMOE, QUOTA, QWEN3
from test_layouts import DEFAULT, complete, draw_layout, draw_tokens, name_of, needs_launcher, ranks_of, run_on, run_tool

BATCH, SEQUENCE, STEPS = 12, 7, int(os.environ.get("TRIREME_LAYOUT_STEPS", 4))
pytestmark = needs_launcher

# Layouts whose first stage has only the embedding, or whose last stage has only the head.
NO_LAYER_FIRST, NO_LAYER_LAST = dict(balance="layers", embedding=9), dict(balance="layers", head=9)

LAYOUTS = [
    # one rank
    dict(recompute="full"), dict(recompute="selective"), dict(recompute="experts"), dict(schedule="zero-bubble"), dict(schedule="gpipe", micro_batch=3), dict(micro_batch=4),
    # ranks that have sequences of their own hold experts of each other's
    dict(data=2), *(dict(data=e, expert=e) for e in (2, 3, 4)), dict(data=4, expert=2), dict(data=6, expert=3), dict(data=6, expert=2),
    dict(data=2, expert=2, micro_batch=3), dict(data=3, expert=3, recompute="full"), dict(data=2, expert=2, recompute="selective"),
    # split experts, with attention that is not split
    dict(data=2, expert_tensor=2), dict(data=4, expert_tensor=2, expert=2), dict(data=4, expert_tensor=2), dict(data=6, expert_tensor=2, expert=3),
    # tensor ranks: each holds the experts whole, or a part of each, or some of them
    *(dict(tensor=2, sequence_parallel=s, expert_tensor=t, expert=e) for s in (0, 1) for t, e in ((1, 1), (2, 1), (1, 2))),
    dict(tensor=4, expert=4), dict(tensor=4, sequence_parallel=1, expert_tensor=2, expert=2), dict(tensor=4, expert=2),
    dict(tensor=4, sequence_parallel=1, expert_tensor=2), dict(tensor=2, sequence_parallel=1, expert=2, recompute="full"),
    # both, folded: experts lie over ranks that attention divides otherwise
    *(dict(tensor=2, data=2, sequence_parallel=s, expert_tensor=t, expert=e) for s, t, e in ((0, 1, 4), (1, 2, 2), (0, 1, 2), (1, 1, 4), (1, 2, 1))),
    dict(tensor=2, data=3, expert=3), dict(tensor=2, data=3, expert_tensor=2, expert=3, sequence_parallel=1), dict(tensor=2, data=4, expert=4, micro_batch=3),
    # ranks that share sequences, of lengths that no degree divides
    *(dict(context=c, expert=c, exchange=x) for c, x in ((2, "gather"), (3, "ring"), (2, "heads"), (4, "ring"))), dict(context=2),
    dict(context=2, expert_tensor=2), dict(context=2, data=2, expert=4), dict(context=2, data=2, expert=2, exchange="ring"),
    dict(context=3, data=2, expert=3, exchange="ring", recompute="full"), dict(tensor=2, context=2, expert=4, sequence_parallel=1),
    dict(tensor=2, context=2, expert=2, expert_tensor=2), dict(tensor=2, context=2, data=2, expert=4, expert_tensor=2, sequence_parallel=1),
    # sharded over each one's own replicas
    *(dict(data=4, expert=2, zero=z, bucket=b) for z, b in ((1, 300), (2, 1000), (3, 100))), *(dict(data=2, expert=2, zero=z) for z in (1, 2, 3)),
    *(dict(data=4, expert=2, zero=z, micro_batch=3, bucket=400) for z in (1, 2, 3)), dict(data=4, zero=3, expert_tensor=2, expert=1),
    dict(tensor=2, data=2, zero=3, expert=2, sequence_parallel=1), dict(tensor=2, data=2, zero=2, expert_tensor=2),
    dict(context=2, data=2, zero=3, expert=2, recompute="full"), dict(data=6, expert=3, zero=1),
    # only the experts' rows are recomputed; also with sharded weights
    dict(data=2, expert=2, recompute="experts"), dict(data=4, expert=2, zero=3, recompute="experts"), dict(tensor=2, expert=2, recompute="experts", capacity=1.0),
    dict(pipeline=2, data=2, expert=2, schedule="zero-bubble", recompute="experts"), dict(context=2, data=2, expert=2, zero=2, recompute="experts", every=2),
    # stages, with and without experts, and every schedule
    dict(pipeline=2), dict(pipeline=2, data=2, expert=2), dict(pipeline=2, tensor=2, expert=2, sequence_parallel=1),
    dict(pipeline=3, data=2, expert=2, schedule="gpipe"), dict(pipeline=2, data=2, expert=2, schedule="zero-bubble"),
    dict(pipeline=2, data=2, expert_tensor=2, schedule="zero-bubble", recompute="full"),
    dict(pipeline=2, virtual=2, schedule="interleaved", data=2, expert=2), dict(pipeline=2, data=2, expert=2, **NO_LAYER_FIRST),
    dict(pipeline=2, virtual=2, schedule="interleaved", data=3, expert=3, zero=2), dict(pipeline=2, data=2, expert=2, zero=3, **NO_LAYER_LAST),
    dict(pipeline=2, context=2, expert=2, zero=1, schedule="zero-bubble"), dict(pipeline=2, data=4, expert=2, zero=3, recompute="selective"),
    dict(pipeline=2, tensor=2, data=2, expert=4, sequence_parallel=1, schedule="zero-bubble", zero=1), dict(pipeline=5, expert=1),
    # capacity: exactly enough for balanced loads, and more than any load needs
    *(dict(capacity=c) for c in (1.0, 8.0)), *(dict(data=2, expert=2, capacity=c) for c in (1.0, 8.0)), dict(data=4, expert=4, capacity=1.0),
    dict(tensor=2, expert=2, sequence_parallel=1, capacity=1.0), dict(tensor=2, data=2, expert_tensor=2, expert=2, capacity=1.0, recompute="full"),
    dict(context=3, expert=3, capacity=1.0, exchange="ring"), dict(pipeline=2, data=2, expert=2, capacity=1.0, schedule="zero-bubble"),
]


def experts_of(layout):
    full = complete(layout)
    return full["expert"], full["expert_tensor"]


def fits(layout, model, batch=BATCH):
    """Returns whether the model has enough heads, experts, layers and sequences for the layout."""
    full = complete(layout)
    stages = full["pipeline"] * full["virtual"]
    return (model["num_heads"] % full["tensor"] == 0 and full["expert"] <= model["num_experts"] and stages <= model["num_layers"] + 2
            and model["expert_ffn_size"] % full["expert_tensor"] == 0 and batch % (full["data"] * full["micro_batch"]) == 0
            and (full["exchange"] != "heads" or model["num_heads"] // full["tensor"] % full["context"] == 0))


def some(layouts, model, every, what, batch=BATCH):
    """One rank, and a sample of the layouts (or all) if the model can have it."""
    mine = drawn(layouts, max(every, 24) if WHICH == "few" else every, what)
    return [dict(), *(layout for layout in mine if fits(layout, model, batch))]


def same_sums(layout):
    """What decides the order of summation: layouts that agree on it must agree to the bit."""
    full = complete(layout)
    exchange = (full["context"], full["exchange"], full["inner"], full["row_pairs"]) if full["context"] > 1 else ()
    experts = (full["expert"], full["expert_tensor"], full["capacity"]) if full["expert"] * full["expert_tensor"] > 1 else ()
    return (full["tensor"], full["sequence_parallel"] and full["tensor"] > 1, full["data"], full["micro_batch"], full["reduce"], *experts, *exchange)


def compare(answers, layouts, tolerance=1e-10, exact=True):
    base, groups = answers["one"], {}
    for layout in layouts:
        name = name_of(layout)
        gradients, values, steps, memory = answers[name]
        error = numpy.linalg.norm(gradients - base[0]) / numpy.linalg.norm(base[0])
        assert error <= tolerance, (name, "gradients", error)
        assert numpy.abs(steps - base[2]).max() <= tolerance * numpy.abs(base[2]).max(), (name, numpy.abs(steps - base[2]).max(axis=0))
        assert all(predicted == measured for predicted, measured in memory), (name, memory)
        if exact:
            other = groups.setdefault(same_sums(layout), (name, values, gradients, steps))
            assert (other[2] == gradients).all(), (name, other[0], "gradients differ in bits")
            assert (other[3] == steps).all(), (name, other[0], "losses or norms differ in bits")
            assert (other[1] == values).all(), (name, other[0], "weights differ in bits")


def compare_every_tensor(folder, model, answers, layouts, tolerance=1e-10):
    """A router's gradient is small beside the rest: each tensor by itself, held to a thousandth of all where it is all rounding."""
    table = expert_cases.parameters_of(folder, model)
    expected = expert_cases.by_name(table, answers["one"][0])
    whole = numpy.linalg.norm(answers["one"][0])
    for layout in layouts:
        for name, gradient in expert_cases.by_name(table, answers[name_of(layout)][0]).items():
            error = numpy.linalg.norm(gradient - expected[name]) / max(numpy.linalg.norm(expected[name]), 1e-3 * whole)
            assert error <= tolerance, (name_of(layout), name, error)


@pytest.mark.parametrize("name", MODELS)
def test_matrix(tmp_path, name):
    model = MODELS[name]
    layouts = some(LAYOUTS, model, 8, f"matrix {name}")
    answers = run_tool(tmp_path, model, layouts, steps=STEPS, batch=BATCH)
    compare(answers, layouts)
    compare_every_tensor(tmp_path, model, answers, layouts)
    assert (answers["one"][2][:, 2] > 0).all() or model["balance"] == "bias"  # what routers add


def test_the_matrix_is_whole():
    """The matrix of layouts contains each kind of layout often enough."""
    def all_of(**wanted):
        return [x for x in LAYOUTS if all(complete(x)[k] == v for k, v in wanted.items())]
    assert len(LAYOUTS) >= 60 and len({name_of(x) for x in LAYOUTS}) == len(LAYOUTS)
    for wanted in (dict(expert=2), dict(expert=3), dict(expert=4), dict(expert_tensor=2), dict(expert_tensor=2, expert=1), dict(expert_tensor=2, expert=2)):
        assert len(all_of(**wanted)) >= 4, wanted
    for key, value in dict(tensor=2, sequence_parallel=1, context=2, pipeline=2, schedule="zero-bubble", recompute="full", capacity=1.0).items():
        assert len([x for x in all_of(**{key: value}) if max(experts_of(x)) > 1]) >= 3, key
    for zero in (1, 2, 3):
        assert len([x for x in all_of(zero=zero) if max(experts_of(x)) > 1]) >= 3
    for layout in LAYOUTS:
        assert ranks_of(layout) <= 8 and any(fits(layout, model) for model in MODELS.values()), layout


@pytest.mark.parametrize("name", ["mixtral", "dots1"])
def test_twenty_steps(tmp_path, name):
    """Routers' biases follow loads, routers' weights their losses: twenty steps on, what they chose is still the same."""
    model = MODELS[name]
    layouts = [x for x in (dict(), dict(data=2, expert=2), dict(data=3, expert=3, zero=2), dict(tensor=2, expert_tensor=2, sequence_parallel=1),
                           dict(context=2, data=2, expert=4, pipeline=2), dict(data=4, expert=2, zero=3, capacity=1.0)) if fits(x, model)]
    answers = run_tool(tmp_path, model, layouts, steps=20, batch=BATCH)
    compare(answers, layouts)
    table = expert_cases.parameters_of(tmp_path, model)
    base = answers["one"][1]
    for layout in layouts:
        assert numpy.linalg.norm(answers[name_of(layout)][1] - base) <= 1e-9 * numpy.linalg.norm(base), layout
    if model["balance"] == "bias":
        for layout in layouts:
            after = expert_cases.by_name(table, answers[name_of(layout)][1])
            for bias in (n for n in after if n.endswith("e_score_correction_bias")):
                steps = after[bias] / model["balance_rate"]
                assert numpy.abs(steps - numpy.round(steps)).max() < 1e-9 and numpy.abs(steps).max() >= 1
                assert numpy.abs(after[bias] - expert_cases.by_name(table, base)[bias]).max() < 1e-12, (name_of(layout), bias)


@pytest.mark.parametrize("name", ["qwen3_moe", "dots1"])
def test_masked_documents(tmp_path, name):
    model = MODELS[name]
    layouts = some(LAYOUTS, model, 10, f"masked {name}")
    answers = run_tool(tmp_path, model, layouts, steps=2, batch=BATCH, masked=True)
    compare(answers, layouts)
    compare_every_tensor(tmp_path, model, answers, layouts)


@pytest.mark.parametrize("length", [1, 2, 13])
def test_any_length(tmp_path, length):
    """Shares of sequences and slices of rows that are not equally long, or empty."""
    layouts = [x for x in some(LAYOUTS, QWEN3, 10, f"length {length}") if complete(x)["context"] <= length]
    layouts += [dict(tensor=4, micro_batch=1, expert=4), dict(tensor=4, sequence_parallel=1, expert=2, expert_tensor=2)]
    answers = run_tool(tmp_path, QWEN3, layouts, steps=2, batch=BATCH, sequence=length)
    compare(answers, layouts)
    compare_every_tensor(tmp_path, QWEN3, answers, layouts)


def draw_model(chance, sequence):
    """Of any family, with any router."""
    heads = chance.choice([1, 2, 4, 6])
    groups, size = chance.choice([(1, chance.randint(1, 9)), (2, chance.randint(1, 4)), (3, chance.randint(1, 3))])
    kept = chance.randint(1, groups)
    quota = chance.random() < 0.3
    per_token = kept * chance.randint(1, size) if quota else chance.randint(1, kept * size)
    model = dict(family=chance.choice(["mixtral", "qwen3_moe", "olmoe", "dots1"]), num_layers=chance.randint(1, 4), hidden_size=2 * heads * chance.randint(1, 3),
                 num_heads=heads, num_kv_heads=chance.choice([k for k in range(1, heads + 1) if heads % k == 0]), vocab_size=chance.randint(9, 60),
                 max_sequence=sequence, tied=chance.random() < 0.3, init_std=0.1, num_experts=groups * size, experts_per_token=per_token,
                 expert_ffn_size=chance.choice([2, 6, 12]), router_groups=groups, router_kept_groups=kept, router_quota=quota, z_loss=chance.choice([0.0, 0.1]),
                 router_scoring=chance.choice(["softmax", "sigmoid"]), router_normalised=chance.random() < 0.5, router_scale=chance.choice([1.0, 2.5]))
    model.update(chance.choice([{}, dict(balance="sequence", balance_rate=0.5)]))
    if model["family"] in ("qwen3_moe", "dots1"):
        model.update(ffn_size=chance.randint(3, 20), dense_layers=chance.randint(0, model["num_layers"]))
    if model["family"] == "dots1":
        model.update(shared_experts=chance.randint(0, 2), **chance.choice([{}, dict(balance="bias", balance_rate=0.05)]))
    return model


def draw_folded(chance, model, sequence):
    """Any layout of up to eight ranks, folded in any way."""
    while True:
        layout = draw_layout(chance, model, BATCH, sequence)
        layout.update(expert=chance.choice([1, 2, 2, 3, 4, 6, 8]), expert_tensor=chance.choice([1, 1, 2, 3, 4]), capacity=chance.choice([0.5, 1.0, 1.5, 8.0]),
                      recompute=chance.choice([layout["recompute"], "experts"]))
        ranks = layout["tensor"] * layout["context"] * layout["data"]
        if fits(layout, model) and ranks % (layout["expert"] * layout["expert_tensor"]) == 0:
            return {key: value for key, value in layout.items() if value != DEFAULT[key]}


def test_random_layouts(tmp_path):
    """TRIREME_FUZZ_LAYOUTS=1000 draws 1000; another TRIREME_FUZZ_SEED draws others."""
    chance = random.Random(int(os.environ.get("TRIREME_FUZZ_SEED", 1)))
    for number in range(int(os.environ.get("TRIREME_FUZZ_LAYOUTS", 8))):
        folder = tmp_path / str(number)
        folder.mkdir()
        sequence = chance.choice([4, 7, 13])
        model = draw_model(chance, sequence)
        layouts = [dict(), *(draw_folded(chance, model, sequence) for _ in range(3))]
        print(number, model, sequence, layouts[1:])
        answers = run_tool(folder, model, layouts, steps=3, batch=BATCH, seed=number, sequence=sequence, masked=number % 2 == 1)
        compare(answers, layouts)
        compare_every_tensor(folder, model, answers, layouts)


@pytest.mark.parametrize("precision, tolerance", [("fp32", 1e-4), ("bf16", 4e-2)])
def test_cpu(tmp_path, precision, tolerance):
    """In bf16 all experts take part: a choice that rounding turns over is another function."""
    model = MIXTRAL if precision == "fp32" else {**MIXTRAL, "experts_per_token": MIXTRAL["num_experts"]}
    layouts = some(LAYOUTS, model, 10, f"cpu {precision}")
    compare(run_tool(tmp_path, model, layouts, "cpu", precision, steps=2, batch=BATCH), layouts, tolerance)


# ---- loads -----------------------------------------------------------------------------------------------------------

def tokens_for(model, classes, steps=2, batch=BATCH, sequence=SEQUENCE):
    """Tokens whose numbers modulo the experts are of these classes: with steered weights their first experts."""
    tokens = draw_tokens(model, steps, batch, sequence=sequence)
    chance, experts = numpy.random.default_rng(9), model["num_experts"]
    chosen = chance.choice(classes, tokens[:, 0].shape) + experts * chance.integers(0, model["vocab_size"] // experts, tokens[:, 0].shape)
    tokens[:, 0] = chosen
    return tokens


LOADS = {"all for one": [0], "all for the last": [-1], "two": [0, 1], "every second": [0, 2], "all": None}
UNEVEN = [dict(), dict(data=2, expert=2), dict(data=3, expert=3), dict(data=4, expert=4, capacity=1.0), dict(data=2, expert=2, capacity=8.0),
          dict(data=2, expert_tensor=2, capacity=1.0), dict(tensor=2, expert=2, capacity=1.0), dict(tensor=2, expert_tensor=2, sequence_parallel=1),
          dict(tensor=2, data=2, expert=4, sequence_parallel=1, capacity=1.0, recompute="full"), dict(context=2, data=2, expert=2, zero=3, capacity=1.0),
          dict(pipeline=2, data=2, expert=2, schedule="zero-bubble", capacity=1.0), dict(context=3, expert=3, capacity=1.0, exchange="ring"),
          dict(data=4, expert=4, zero=1, micro_batch=3, capacity=1.1), dict(tensor=2, data=2, expert=2, expert_tensor=2, capacity=1.0)]


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("name", ["olmoe", "mixtral", "quota"])
def test_uneven_loads(tmp_path, name, load):
    """One expert has all tokens and others none: exact all the same, with any room."""
    model = MODELS[name]
    classes = [c % model["num_experts"] for c in LOADS[load] or range(model["num_experts"])]
    tokens = tokens_for(model, classes)
    weights = expert_cases.steered(expert_cases.parameters_of(tmp_path, model), model)
    layouts = [x for x in UNEVEN if fits(x, model)]
    layouts = layouts[:1] + layouts[1 + list(LOADS).index(load) % 2 :: 2] if WHICH != "all" else layouts
    answers = run_on(tmp_path, model, layouts, tokens, weights=weights)
    compare(answers, layouts)
    compare_every_tensor(tmp_path, model, answers, layouts)
    if load == "all for one" and name == "olmoe":
        found = expert_cases.by_name(expert_cases.parameters_of(tmp_path, model), answers["one"][0])
        busy = [n for n, g in found.items() if ".experts." in n and (g != 0).any()]
        assert busy and all(".experts.0." in n for n in busy)


def test_room_that_is_never_needed_changes_no_bit(tmp_path):
    """Rounds make an expert's gradients sums of sums. If all rows have room, bits do not depend on how much; rows that came in
    rounds have their own bits: nothing but the experts' weights differs."""
    tokens = tokens_for(OLMOE, [0])[:1]
    table = expert_cases.parameters_of(tmp_path, OLMOE)
    layouts = [dict(), *(dict(data=4, expert=4, capacity=c) for c in (1.0, 1.3, 2.0, 4.0, 8.0))]
    answers = run_on(tmp_path, OLMOE, layouts, tokens, weights=expert_cases.steered(table, OLMOE), train=False)
    compare(answers, layouts)
    plenty = expert_cases.by_name(table, answers[name_of(layouts[-1])][0])
    for layout in layouts[1:]:
        differ = [n for n, g in expert_cases.by_name(table, answers[name_of(layout)][0]).items() if (g != plenty[n]).any()]
        assert all(".experts.0." in name for name in differ) and (layout["capacity"] < 4 or not differ), (layout, differ)


# ---- equal bits ------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("name, ranks", [(n, r) for n in ("mixtral", "qwen3_moe", "dots1") for r in (2, 3, 4)])
def test_who_holds_an_expert_changes_no_bit(tmp_path, name, ranks):
    """Sequences of one rank's micro-batch, or one each of several ranks that hold experts for each other: an expert has the same
    rows in the same order, so its gradients have the same bits, whichever ranks hold it and however many."""
    model = MODELS[name]
    room = dict(data=ranks, expert=ranks, capacity=8.0)
    layouts = [dict(), dict(micro_batch=ranks), room, {**room, "zero": 3, "recompute": "full"}]
    answers = run_on(tmp_path, model, layouts, draw_tokens(model, 1, BATCH), train=False)
    compare(answers, layouts)
    table = expert_cases.parameters_of(tmp_path, model)
    one = expert_cases.by_name(table, answers[name_of(layouts[1])][0])
    for layout in layouts[2:]:
        for tensor, gradient in expert_cases.by_name(table, answers[name_of(layout)][0]).items():
            if ".experts." in tensor:
                assert (gradient == one[tensor]).all(), (layout, tensor)
    assert sum((gradient != 0).any() for tensor, gradient in one.items() if ".experts." in tensor) > model["num_experts"]


# ---- what others do wrong in silence ---------------------------------------------------------------------------------

def routers_alone(folder, model, layouts, **more):
    """{layout: {name: gradient}} where no label of most sequences counts, and what routers add is most of the loss."""
    model = {**model, "balance_rate": 50.0, "z_loss": 5.0}
    answers = run_tool(folder, model, layouts, steps=1, batch=BATCH, ignored=0.95, **more)
    compare(answers, layouts)
    compare_every_tensor(folder, model, answers, layouts)
    table = expert_cases.parameters_of(folder, model)
    return {name_of(x): expert_cases.by_name(table, answers[name_of(x)][0]) for x in layouts}


def routers_of(gradients):
    return {n: g for n, g in gradients.items() if n.endswith("gate.weight") and "experts" not in n}


@pytest.mark.parametrize("sequence_parallel", [0, 1])
def test_auxiliary_gradients_are_not_doubled_by_tensor_parallelism(tmp_path, sequence_parallel):
    layouts = [dict(), *(dict(tensor=t, sequence_parallel=sequence_parallel, expert=e, expert_tensor=x)
                         for t, e, x in ((2, 1, 1), (2, 2, 1), (2, 1, 2), (4, 1, 1), (4, 2, 2), (4, 4, 1)))]
    routers_alone(tmp_path, MIXTRAL, layouts, masked=True)


def test_auxiliary_gradients_flow(tmp_path):
    """The gradients of the router's losses reach the router, and through it all weights before it. Compares two runs that differ only in these
    losses."""
    layouts = [dict(), dict(data=2, expert=2), dict(tensor=2, expert=2)]
    with_losses = routers_alone(tmp_path, MIXTRAL, layouts)
    plain = expert_cases.without_losses(MIXTRAL)
    answers = run_tool(tmp_path, plain, layouts, steps=1, batch=BATCH, ignored=0.95)
    table = expert_cases.parameters_of(tmp_path, plain)
    for layout in layouts:
        without = expert_cases.by_name(table, answers[name_of(layout)][0])
        for name, gradient in with_losses[name_of(layout)].items():
            last = f"model.layers.{MIXTRAL['num_layers'] - 1}."
            behind = name in ("model.norm.weight", "lm_head.weight") or (name.startswith(last) and ".experts." in name)
            assert behind == bool(numpy.allclose(gradient, without[name], rtol=1e-12, atol=1e-14)), (name_of(layout), name)


def test_auxiliary_losses_do_not_depend_on_micro_batches_or_ranks(tmp_path):
    """One number, whatever a rank sees of the batch."""
    layouts = [dict(), *(dict(micro_batch=m) for m in (2, 3, 4, 6, 12)), dict(data=4), dict(data=2, micro_batch=6), dict(context=3), dict(context=2, data=3),
               dict(tensor=2, context=2), dict(tensor=4, sequence_parallel=1)]
    answers = run_tool(tmp_path, MIXTRAL, layouts, steps=2, batch=BATCH)
    compare(answers, layouts)
    for layout in layouts:
        routers = answers[name_of(layout)][2][:, 2]
        assert numpy.abs(routers / answers["one"][2][:, 2] - 1).max() <= 1e-12, layout


@pytest.mark.parametrize("layout", [dict(data=2, expert=2), dict(data=4, expert=4), dict(tensor=2, expert=2), dict(context=2, expert=2),
                                    dict(data=2, expert_tensor=2)], ids=name_of)
def test_routers_gradient_is_not_lost_under_expert_parallelism(tmp_path, layout):
    """It comes through the weights that rows have taken with them: without any loss of its own."""
    model = expert_cases.without_losses(MIXTRAL)
    layouts = [dict(), layout]
    answers = run_tool(tmp_path, model, layouts, steps=1, batch=BATCH)
    compare_every_tensor(tmp_path, model, answers, layouts)
    table = expert_cases.parameters_of(tmp_path, model)
    expected, found = (routers_of(expert_cases.by_name(table, answers[name_of(x)][0])) for x in layouts)
    assert len(found) == model["num_layers"]
    for name, gradient in found.items():  # by itself, and not beside the larger ones
        assert numpy.linalg.norm(gradient) > 0
        assert numpy.linalg.norm(gradient - expected[name]) <= 1e-9 * numpy.linalg.norm(expected[name]), name


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
def test_split_experts_without_expert_parallelism_are_not_tagged_dense(tmp_path, zero):
    """expert_tensor 2 and expert 1: an expert's gradients are added over its own replicas, and not over those of attention."""
    layouts = [dict(), dict(tensor=2, data=2, expert_tensor=2, zero=zero), dict(data=4, expert_tensor=2, zero=zero),
               dict(tensor=2, data=2, expert_tensor=1, zero=zero), dict(data=2, expert_tensor=2, zero=zero), dict(tensor=4, expert_tensor=2, zero=zero)]
    answers = run_tool(tmp_path, MIXTRAL, layouts, steps=3, batch=BATCH)
    compare(answers, layouts)
    compare_every_tensor(tmp_path, MIXTRAL, answers, layouts)


@pytest.mark.parametrize("layout", [dict(context=2), dict(context=4, exchange="ring"), dict(tensor=4), dict(context=2, expert=2, data=2), dict(tensor=2, context=3)], ids=name_of)
def test_padding_is_not_counted_by_the_router(tmp_path, layout):
    """Buffers of ranks have more rows than tokens. The rows after the tokens go to no expert, and count in no load and no loss; biases change by
    whole steps, according to the experts that the tokens chose."""
    for model in ({**MIXTRAL, "balance_rate": 50.0, "z_loss": 5.0}, {**DOTS1, "balance_rate": 0.25}):
        layouts = [dict(), layout]
        answers = run_tool(tmp_path, model, layouts, steps=3, batch=4, sequence=5)
        compare(answers, layouts)
        values = [expert_cases.by_name(expert_cases.parameters_of(tmp_path, model), answers[name_of(x)][1]) for x in layouts]
        for name in values[0]:
            if name.endswith("e_score_correction_bias"):
                assert (values[0][name] == values[1][name]).all() and (values[0][name] != 0).any()


FILLED = [dict(), dict(micro_batch=3), dict(data=2, expert=2), dict(data=2, expert=2, capacity=0.25), dict(data=4, expert=4, zero=3, capacity=0.5),
          dict(context=2, expert=2), dict(context=3, expert=3, exchange="ring", capacity=0.4), dict(context=2, data=2, expert=4, recompute="experts"),
          dict(tensor=2, expert=2, sequence_parallel=1), dict(tensor=2, expert=2, capacity=0.25), dict(tensor=2, expert_tensor=2, sequence_parallel=1),
          dict(tensor=2, data=2, expert=4, sequence_parallel=1, capacity=0.5, recompute="full"), dict(pipeline=2, data=2, expert=2, schedule="zero-bubble", capacity=0.5)]


def filled_tokens(model, steps, ids):
    """Returns documents followed by padding (label -2) with the tokens `ids`; some sequences have no padding."""
    tokens = draw_tokens(model, steps, BATCH, sequence=SEQUENCE, masked=True)
    chance = numpy.random.default_rng(17)
    for step in range(steps):
        for row in range(BATCH):
            length = (SEQUENCE, 1)[row] if row < 2 else chance.integers(1, SEQUENCE + 1)
            rest = SEQUENCE - length
            tokens[step, :, row, length:] = numpy.array([ids[:rest], [-2] * rest, list(range(rest))])
    return tokens


@pytest.mark.parametrize("name", ["mixtral", "dots1"])
def test_padding_of_packed_sequences(tmp_path, name):
    """What packed sequences are filled up with goes to no expert, takes no room, is in no load and in no loss: whatever it says changes
    no bit under any layout. (That the rest is right says test_expert_models.py.) Tokens whose labels do not count are tokens."""
    model = {"mixtral": {**MIXTRAL, "balance_rate": 50.0, "z_loss": 5.0}, "dots1": {**DOTS1, "z_loss": 0.5}}[name]
    layouts = [x for x in FILLED if fits(x, model)]
    answers = [run_on(tmp_path, model, layouts, filled_tokens(model, 2, ids)) for ids in ([0] * SEQUENCE, list(range(40, 40 - SEQUENCE, -1)))]
    compare(answers[0], layouts)
    compare_every_tensor(tmp_path, model, answers[0], layouts)
    for layout in layouts:
        for one, other in zip(answers[0][name_of(layout)], answers[1][name_of(layout)]):
            assert numpy.array_equal(one, other), layout
    counted = filled_tokens(model, 2, [0] * SEQUENCE)
    counted[:, 1][counted[:, 1] == -2] = -1
    other = run_on(tmp_path, model, [dict()], counted)["one"]
    assert (numpy.abs(other[2][:, 2] / answers[0]["one"][2][:, 2] - 1) > 1e-4).all()
    table = expert_cases.parameters_of(tmp_path, model)
    biases = [numpy.concatenate([v for n, v in expert_cases.by_name(table, at[1]).items() if n.endswith("e_score_correction_bias")] or [[]])
              for at in (answers[0]["one"], other)]
    assert name != "dots1" or (biases[0] != biases[1]).any()


def test_the_norm_counts_each_expert_once(tmp_path):
    """And divides by no number of ranks: the norm that clips is that of the gradients, whichever ranks hold them."""
    layouts = [dict(), dict(data=2, expert=2), dict(data=4, expert=2, zero=1), dict(data=4, expert_tensor=2), dict(tensor=2, expert=2), dict(tensor=2),
               dict(tensor=2, expert_tensor=2, sequence_parallel=1), dict(pipeline=2, data=2, expert=2), dict(context=2, expert=2)]
    answers = run_tool(tmp_path, QWEN3, layouts, steps=1, batch=BATCH)
    for layout in layouts:
        gradients, _, steps, _ = answers[name_of(layout)]
        assert abs(steps[0, 1] / numpy.linalg.norm(gradients) - 1) <= 1e-12, layout


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, *os.sys.argv[1:]]))

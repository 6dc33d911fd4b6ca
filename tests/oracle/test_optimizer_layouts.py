"""Promise 1 of every optimizer: the layout never changes the answer. A few steps of small models in fp64 under many layouts of up to
eight ranks: each weight and each state that a checkpoint holds within 1e-10 of one rank's, and equal bits wherever only pipeline,
schedule, recompute or ZeRO changed. Muon and what else works on whole matrices is where others go wrong: matrices that
ZeRO cuts, that tensor ranks split or hold copies of, that lie side by side in one tensor, that are an expert's.

Each case draws a share of the layouts (drawn.py); TRIREME_LAYOUTS=all takes all."""
import json
import os
import subprocess

import numpy
import optimizers
import pytest
import torch
from drawn import WHICH, drawn_count
from expert_cases import DOTS1, MIXTRAL
from optimizer_runs import check_weights, skip_without, states_of, weights_of
from parity import yaml_of
from test_layouts import launcher, needs_launcher

TOOL = os.path.join(os.environ["TRIREME_TOOLS"], "checkpoint_tool")
STEPS, SEQUENCE = 5, 7
pytestmark = needs_launcher

SMALL = dict(num_layers=4, max_sequence=16, init_std=0.1)
MODELS = {
    # six heads; a vocabulary and an MLP that few numbers divide; q, k and v in one tensor, the other way round
    "gpt2": dict(family="gpt2", **SMALL, hidden_size=12, num_heads=6, ffn_size=26, vocab_size=59, tied=True),
    # two heads of keys for eight: copies where tensor is above 2
    "llama": dict(family="llama", **SMALL, hidden_size=16, num_heads=8, num_kv_heads=2, ffn_size=21, vocab_size=43, tied=False),
    # odd numbers of heads, with biases
    "odd": dict(family="llama", **SMALL, hidden_size=12, num_heads=6, num_kv_heads=3, ffn_size=25, vocab_size=47, tied=True, attention_bias=True,
                output_bias=True, mlp_bias=True),
    # norms of heads, whose width is their own
    "qwen3": dict(family="qwen3", **SMALL, hidden_size=16, num_heads=8, num_kv_heads=2, head_dim=6, ffn_size=21, vocab_size=43, tied=False),
    "mixtral": MIXTRAL,
    "dots1": DOTS1,
    # q, k and v in one tensor, one behind the other, with copies where tensor is above 2; gate and up in one
    "phi3": dict(family="phi3", **SMALL, hidden_size=16, num_heads=8, num_kv_heads=2, ffn_size=21, vocab_size=43, tied=False),
    # head by head, with biases
    "gpt_neox": dict(family="gpt_neox", **SMALL, hidden_size=24, num_heads=6, ffn_size=26, vocab_size=47, tied=False, rotary_fraction=0.5),
    # groups of heads, more of them than one rank has
    "falcon": dict(family="falcon", **SMALL, hidden_size=24, num_heads=12, num_kv_heads=2, ffn_size=26, vocab_size=47, tied=True),
}
DENSE = [
    dict(micro_batch=2), dict(micro_batch=4, recompute="full"), dict(schedule="zero-bubble"),
    # tensor ranks: whole heads, more ranks than heads of keys, rows that they do not divide
    *(dict(tensor=t) for t in (2, 3, 4, 6, 8)), *(dict(tensor=t, sequence_parallel="true") for t in (2, 3, 4)),
    # stages; those without a layer
    dict(pipeline=2), dict(pipeline=2, schedule="zero-bubble"), dict(pipeline=4, schedule="gpipe"), dict(pipeline=6),
    dict(pipeline=2, virtual_stages=2, schedule="interleaved", recompute="full"), dict(pipeline=2, balance="layers", embedding_as_layers=9),
    # replicas, whose optimizer, gradients and parameters are shared out, in buckets of less than a tensor and of many
    dict(data=2), dict(data=4), *(dict(data=2, zero=z) for z in (1, 2, 3)), *(dict(data=2, zero=z, micro_batch=4, bucket_bytes=3000) for z in (0, 1, 2, 3)),
    *(dict(data=4, zero=z, bucket_bytes=800) for z in (1, 2, 3)), dict(data=8, zero=1, bucket_bytes=1), dict(data=8, zero=3),
    # both
    *(dict(tensor=2, data=2, zero=z, sequence_parallel=s) for z, s in ((0, "true"), (1, "false"), (2, "true"), (3, "false"))),
    dict(tensor=4, data=2, zero=1), dict(tensor=3, data=2, zero=2, bucket_bytes=2000), dict(tensor=2, data=4, zero=3, sequence_parallel="true"),
    dict(tensor=2, pipeline=2), dict(tensor=3, pipeline=2, sequence_parallel="true", schedule="zero-bubble"), dict(tensor=4, pipeline=2),
    *(dict(pipeline=2, data=2, zero=z) for z in (0, 1, 2, 3)), dict(pipeline=4, data=2, zero=1, bucket_bytes=2000), dict(pipeline=2, data=4, zero=2),
    dict(pipeline=2, virtual_stages=2, schedule="interleaved", data=2, zero=3), dict(pipeline=2, data=2, zero=1, balance="layers", head_as_layers=9),
    dict(tensor=2, pipeline=2, data=2, zero=1), dict(tensor=2, pipeline=2, data=2, zero=3, sequence_parallel="true", recompute="full", schedule="zero-bubble"),
    # shared sequences
    dict(context=2), dict(context=3, context_exchange="ring"), dict(context=2, context_exchange="heads", zero=1), dict(context=2, data=2, zero=2),
    dict(context=2, data=2, zero=3, context_exchange="ring", bucket_bytes=3000), dict(tensor=2, context=2, sequence_parallel="true", zero=1),
    dict(tensor=2, context=2, data=2, zero=1), dict(context=2, pipeline=2, data=2, zero=1),
]
EXPERTS = [
    *(dict(data=e, expert=e) for e in (2, 3, 4)), dict(data=4, expert=2), *(dict(data=4, expert=2, zero=z, bucket_bytes=2000) for z in (1, 2, 3)),
    *(dict(data=2, expert=2, zero=z) for z in (1, 3)), dict(data=2, expert_tensor=2), dict(data=4, expert_tensor=2, zero=1), dict(data=4, expert_tensor=2, expert=2, zero=2),
    *(dict(tensor=2, sequence_parallel=s, expert_tensor=t, expert=e) for s in ("false", "true") for t, e in ((1, 1), (2, 1), (1, 2))),
    dict(tensor=4, expert=2, expert_tensor=2, sequence_parallel="true"), dict(tensor=2, data=2, expert=4, zero=1), dict(tensor=2, data=2, expert=2, zero=3, sequence_parallel="true"),
    dict(tensor=2, data=2, expert_tensor=2, expert=2), dict(tensor=2, data=2, expert_tensor=2, zero=1), dict(context=2, expert=2), dict(context=3, expert=3, context_exchange="ring", zero=1),
    dict(context=2, data=2, expert=2, zero=2), dict(pipeline=2, data=2, expert=2), dict(pipeline=2, data=2, expert=2, zero=1, schedule="zero-bubble"),
    dict(pipeline=2, data=4, expert=2, zero=3), dict(pipeline=2, tensor=2, expert=2, sequence_parallel="true"), dict(pipeline=2, data=2, expert_tensor=2, zero=1),
    dict(data=6, expert=3, zero=1), dict(data=2, expert=2, recompute="experts", expert_capacity=1.0),
]
# Always among the drawn layouts, since a comparison of bits needs two layouts.
KERNEL = [dict(data=2), dict(data=2, zero=1), dict(pipeline=2, data=2, zero=2), dict(data=2, zero=3), dict(tensor=2), dict(tensor=2, pipeline=2)]


def ranks_of(layout):
    product = 1
    for axis in ("tensor", "pipeline", "data", "context"):
        product *= layout.get(axis, 1)
    return product


def name_of(layout):
    return "-".join(f"{key}{value}" for key, value in layout.items()) or "one"


def fits(layout, model):
    """Returns whether the model has enough heads, layers, experts and sequences for the layout."""
    tensor, heads, kv_heads = layout.get("tensor", 1), model["num_heads"], model.get("num_kv_heads", model["num_heads"])
    stages = layout.get("pipeline", 1) * layout.get("virtual_stages", 1)
    per_rank = layout.get("micro_batch", 1) * layout.get("data", 1)
    has_experts = "num_experts" in model
    return (heads % tensor == 0 and (kv_heads % tensor == 0 or tensor % kv_heads == 0) and stages <= model["num_layers"] + 2
            and batch_of(model) % per_rank == 0 and exchanges_heads(layout, heads // tensor, max(kv_heads // tensor, 1))
            and (has_experts or "expert" not in layout and "expert_tensor" not in layout)
            and (not has_experts or layout.get("expert", 1) <= model["num_experts"] and model["expert_ffn_size"] % layout.get("expert_tensor", 1) == 0))


def exchanges_heads(layout, heads, kv_heads):
    """Returns whether context ranks that exchange heads divide the heads of a tensor rank, and copy heads of keys evenly, if at all."""
    ranks = layout.get("context", 1) if layout.get("context_exchange") == "heads" else 1
    return heads % ranks == 0 and (kv_heads % ranks == 0 or ranks % kv_heads == 0)


def batch_of(model):
    return 12 if "num_experts" in model else 8


def layouts_for(model, count):
    """One rank, and some of those that the model can have (or all)."""
    all_of = [layout for layout in ([*EXPERTS, *DENSE[::4]] if "num_experts" in model else DENSE) if fits(layout, model)]
    drawn = drawn_count(all_of, 4 if WHICH == "few" else count, f"layouts {model['family']} {count}")
    kernel = [layout for layout in KERNEL if fits(layout, model)]
    return [dict(), *kernel, *(layout for layout in drawn if layout not in kernel)]


def models_for(names, test):
    """One of them, drawn for this test, or all."""
    return drawn_count(names, 1, f"model of {test}")


def same_sums(layout):
    """What decides the order of summation: layouts that agree on it must agree to the bit."""
    def of(key, usual=1):
        return layout.get(key, usual)
    context = (of("context"), of("context_exchange", "gather")) if of("context") > 1 else ()
    experts = (of("expert"), of("expert_tensor"), of("expert_capacity", 1.5)) if of("expert") * of("expert_tensor") > 1 else ()
    return (of("tensor"), of("tensor") > 1 and of("sequence_parallel", "false") == "true", of("data"), of("micro_batch"), *context, *experts)


def run_of(folder, model, keys, precision="fp64"):
    optimizer = dict(global_batch=batch_of(model), steps=100, lr=1e-2, clip=0.5)
    return dict(model=model, data=dict(train="none", sequence=SEQUENCE), layout=dict(micro_batch=1), optimizer={**optimizer, **keys}, precision=precision,
                device="reference" if precision == "fp64" else "cpu", checkpoint=dict(keep=0), seed=3, output=str(folder))


def run_tool(folder, run, layouts, mode="save", steps=STEPS, saved=()):
    """Saves under each of the layouts, or resumes under each from checkpoints of `saved`. Returns {(layout, saved or None): losses}."""
    answers = {}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.yaml").write_text(yaml_of(run))
    for ranks in sorted({ranks_of(layout) for layout in layouts}):
        lines = [" ".join([name_of(layout), *(f"layout.{key}={value}" for key, value in layout.items())]) for layout in layouts if ranks_of(layout) == ranks]
        (folder / "layouts").write_text("\n".join(lines) + "\n")
        command = [TOOL, folder / "run.yaml", folder / "layouts", mode, folder / "saved", steps, *(name_of(layout) for layout in saved)]
        command = [*launcher(), "-n", ranks, *command] if ranks > 1 else command
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=900)
        assert done.returncode == 0, (ranks, lines, done.stderr[:1500])
        for line in done.stdout.splitlines():
            answer = json.loads(line)
            answers[answer["layout"], answer["from"]] = numpy.array(answer["losses"])
    return answers


def compare(folder, answers, layouts, tolerance=1e-10):
    """Losses, weights and states: near one rank's, and the same bits where sums are the same."""
    one = folder / "saved/one"
    weights, states, groups = weights_of(one), states_of(one), {}
    assert any((values != 0).any() for values in states.values()) or not states
    for layout in layouts:
        name = name_of(layout)
        mine, mine_states = weights_of(folder / "saved" / name), states_of(folder / "saved" / name)
        losses = answers[name, None]
        assert numpy.abs(losses / answers["one", None] - 1).max() <= tolerance, (name, "losses")
        other = groups.setdefault(same_sums(layout), (name, mine, mine_states, losses))
        for kind, found, expected in (("weights", mine, other[1]), ("states", mine_states, other[2])):
            different = [tensor for tensor in expected if not numpy.array_equal(found[tensor], expected[tensor])]
            assert found.keys() == expected.keys() and not different, (name, other[0], f"{kind} differ in bits", different)
        assert (losses == other[3]).all(), (name, other[0], "losses differ in bits")
        if tolerance < 1:
            try:
                check_weights(mine, weights, tolerance)
            except AssertionError as error:
                raise AssertionError(f"{name}: {error}") from None
            for tensor, values in states.items():  # a state that is only rounding has an absolute tolerance
                error = numpy.linalg.norm(mine_states[tensor] - values)
                assert error <= max(tolerance * numpy.linalg.norm(values), 1e-14), (name, tensor, error)


# ---- Muon ------------------------------------------------------------------------------------------------------------

MUON = dict(name="muon", muon=dict(scale="keller"))


@pytest.mark.parametrize("name", MODELS)
def test_muon(tmp_path, name):
    model = MODELS[name]
    layouts = layouts_for(model, 6)
    compare(tmp_path, run_tool(tmp_path, run_of(tmp_path, model, MUON), layouts), layouts)


@pytest.mark.parametrize("precision, loss_tolerance", [("fp32", 1e-4), ("bf16", 2e-2)])
@pytest.mark.parametrize("name", ["llama", "mixtral"])
def test_muon_on_the_cpu(tmp_path, name, precision, loss_tolerance):
    """Its products are in the run's precision; the same bits still where sums are the same."""
    layouts = layouts_for(MODELS[name], 4)
    answers = run_tool(tmp_path, run_of(tmp_path, MODELS[name], MUON, precision), layouts)
    compare(tmp_path, answers, layouts, tolerance=1)
    for layout in layouts:
        assert numpy.abs(answers[name_of(layout), None] / answers["one", None] - 1).max() <= loss_tolerance, layout


def test_the_matrix_is_whole():
    """The matrix of layouts contains each kind of layout, before some are drawn."""
    assert len({name_of(layout) for layout in DENSE}) == len(DENSE) >= 40 and len(EXPERTS) >= 25
    for layouts in (DENSE, EXPERTS):
        for layout in layouts:
            assert ranks_of(layout) <= 8 and any(fits(layout, model) for model in MODELS.values()), layout
    for zero in (1, 2, 3):
        for key in ("tensor", "pipeline", "context"):
            assert any(layout.get(key, 1) > 1 and layout.get("zero") == zero for layout in DENSE), (key, zero)
        assert any(layout.get("expert", 1) > 1 and layout.get("zero") == zero for layout in EXPERTS), zero
    assert sum(layout.get("tensor", 1) > 2 and fits(layout, MODELS["llama"]) for layout in DENSE) >= 4  # copies of heads of keys
    assert sum(layout.get("tensor", 1) > 1 and fits(layout, MODELS["odd"]) for layout in DENSE) >= 4
    for layout in KERNEL:
        assert all(fits(layout, model) for name, model in MODELS.items() if name != "odd")
    groups = [same_sums(layout) for layout in KERNEL]
    assert len(groups) - len(set(groups)) >= 4


def test_matrices_that_are_split_matter(tmp_path):
    """What would be wrong by a little: each rank's part by itself is another iteration than the whole matrix."""
    run_tool(tmp_path, run_of(tmp_path, MODELS["llama"], MUON), [dict()], steps=1)
    momentum = states_of(tmp_path / "saved/one")["model.layers.0.self_attn.q_proj.weight.momentum_buffer"]
    u = torch.tensor(momentum)
    parts = torch.cat([optimizers.orthogonal(part, 5) for part in u.chunk(2)])
    assert float((parts - optimizers.orthogonal(u, 5)).norm() / parts.norm()) > 0.1


JOINED = ["phi3", "gpt_neox", "falcon"]

# ---- the others ------------------------------------------------------------------------------------------------------

OTHERS = {
    "muon, no nesterov": dict(name="muon", muon=dict(nesterov=False, scale="moonlight", iterations=3)),
    "lion": dict(name="lion", betas=[0.9, 0.99]), "sgd": dict(name="sgd", sgd=dict(nesterov=True)), "schedule_free": dict(name="schedule_free"),
    "adafactor": dict(name="adafactor", adafactor=dict(eps=[1e-6, 1e-3])),
    "groups": dict(name="adamw", matrices=dict(name="muon", lr_scale=2.0), embeddings=dict(name="lion", lr_scale=0.1), vectors=dict(name="sgd", weight_decay_scale=2.0)),
    "adamw, slow embeddings": dict(embeddings=dict(lr_scale=0.1), routers=dict(weight_decay_scale=0.0)),
    "galore": dict(name="galore", galore=dict(rank=3, every=2)), "fira": dict(name="fira", fira=dict(rank=3, every=100)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_others(tmp_path, name):
    skip_without(OTHERS[name])
    for model in models_for(["gpt2", "llama", "mixtral"], name) + (models_for(JOINED, name) if name in ("adafactor", "muon, no nesterov") else []):
        layouts, folder = layouts_for(MODELS[model], 4), tmp_path / model
        compare(folder, run_tool(folder, run_of(folder, MODELS[model], OTHERS[name]), layouts), layouts)


@pytest.mark.parametrize("state", ["bf16", "int8"])
@pytest.mark.parametrize("name", ["adamw", "lion", "muon", "schedule_free"])
def test_narrow_states(tmp_path, name, state):
    """Blocks that share a scale do not depend on the rank: equal bits under any pipeline and ZeRO. If tensors are split, the blocks differ, and the
    results are near."""
    layouts = [dict(), *KERNEL, dict(data=4, zero=1, bucket_bytes=800), dict(data=4, zero=3), dict(data=4), dict(pipeline=2, data=4, zero=2)]
    run = run_of(tmp_path, MODELS["gpt2"], dict(name=name, state=state), "fp32")
    answers = run_tool(tmp_path, run, layouts)
    compare(tmp_path, answers, layouts, tolerance=1)
    for layout in layouts:
        assert numpy.abs(answers[name_of(layout), None] / answers["one", None] - 1).max() <= 2e-2, layout


# ---- resuming under another layout -----------------------------------------------------------------------------------

UNIVERSAL = {"llama": [dict(), dict(data=2, zero=1, bucket_bytes=2000), dict(tensor=4, sequence_parallel="true"), dict(pipeline=2, data=2, zero=3), dict(context=2, data=2, zero=2)],
             "phi3": [dict(), dict(data=2, zero=1, bucket_bytes=800), dict(tensor=4, sequence_parallel="true"), dict(pipeline=2, data=2, zero=3)],
             "mixtral": [dict(), dict(data=4, expert=2, zero=1), dict(tensor=2, expert_tensor=2), dict(pipeline=2, data=2, expert=2, zero=3)]}


def check_pairs(folder, run, layouts, tolerance):
    """Saves under each layout and resumes under each: the losses are those of a run that was not stopped, to the bit if the layout is the same."""
    through = run_tool(folder / "through", run, layouts, steps=6)
    run_tool(folder / "pairs", run, layouts, steps=3)
    answers = run_tool(folder / "pairs", run, layouts, "resume", 3, layouts)
    assert len(answers) == len(layouts) ** 2
    for (layout, saved), losses in answers.items():
        assert numpy.abs(losses / through["one", None][3:] - 1).max() <= tolerance, (layout, saved)
        if layout == saved:
            assert (losses == through[layout, None][3:]).all(), (layout, "differs in bits from the run that was not stopped")


@pytest.mark.parametrize("name", ["muon", "lion", "sgd", "schedule_free", "adafactor", "groups", "galore", "fira"])
def test_every_pair_of_layouts(tmp_path, name):
    keys = {**OTHERS, "muon": MUON}[name]
    skip_without(keys)
    for model in models_for([*UNIVERSAL, *(["phi3"] if name == "adafactor" else [])], name):
        folder = tmp_path / model
        check_pairs(folder, run_of(folder, MODELS[model], keys), UNIVERSAL[model], 1e-10)


@pytest.mark.parametrize("state", ["bf16", "int8"])
def test_narrow_states_are_saved_as_they_are(tmp_path, state):
    layouts = [dict(), dict(data=2, zero=1, bucket_bytes=800), dict(pipeline=2, data=2, zero=3)]
    check_pairs(tmp_path, run_of(tmp_path, MODELS["gpt2"], dict(name="adamw", state=state), "fp32"), layouts, 1e-2)


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, *os.sys.argv[1:]]))

"""Every optimizer against plain PyTorch (optimizers.py) in double: twenty steps of the program, from given weights, on the same
samples: losses, norms before clipping, and the weights that a checkpoint holds, each tensor to 1e-10. tests/full holds the plain
optimizers beside their authors' programs."""
import json
import math
import os

import models
import numpy
import optimizers
import pytest
import torch
from optimizer_runs import (MODELS, STEPS, batches_of, check_weights, close, corpus_of, lines_of, skip_without, start_from, states_of, weights_of, windows_of,
                            write_run)
from parity import trireme

# Keys under `optimizer`, in addition to the batch, steps, and a clip that has an effect.
CASES = {
    "adamw": dict(),
    "adamw by name, cosine, no clip": dict(name="adamw", decay="cosine", warmup=5, min_lr=1e-4, clip=0, betas=[0.8, 0.99], eps=1e-6),
    "adamw, groups": dict(embeddings=dict(lr_scale=0.1), vectors=dict(weight_decay_scale=0.5, lr_scale=2.0), matrices=dict(weight_decay_scale=3.0),
                          routers=dict(lr_scale=0.5, weight_decay_scale=0.0)),
    "muon": dict(name="muon", lr=5e-3, warmup=3),
    "muon, keller": dict(name="muon", lr=2e-2, muon=dict(scale="keller", nesterov=False, momentum=0.8, iterations=3)),
    "muon, keller, nesterov": dict(name="muon", lr=1e-2, weight_decay=0.5, decay="cosine", muon=dict(scale="keller")),
    "muon, groups": dict(name="muon", lr=5e-3, embeddings=dict(name="sgd", lr_scale=20.0), vectors=dict(name="lion", lr_scale=0.1),
                         matrices=dict(lr_scale=2.0, weight_decay_scale=0.0)),
    "adamw, muon for matrices": dict(name="adamw", matrices=dict(name="muon", lr_scale=3.0, weight_decay_scale=0.1), routers=dict(name="sgd")),
    "lion": dict(name="lion", betas=[0.9, 0.99], lr=1e-3, weight_decay=0.5),
    "lion, groups": dict(name="lion", embeddings=dict(lr_scale=0.1), vectors=dict(name="adamw", weight_decay_scale=0.4)),
    "sgd": dict(name="sgd", lr=0.1),
    "sgd, nesterov": dict(name="sgd", lr=0.1, warmup=4, sgd=dict(nesterov=True, momentum=0.8)),
    "sgd without momentum": dict(name="sgd", lr=0.3, weight_decay=0.01, sgd=dict(momentum=0.0), vectors=dict(lr_scale=0.1, weight_decay_scale=30.0)),
    "schedule_free": dict(name="schedule_free", warmup=5),
    "schedule_free, weights that grow": dict(name="schedule_free", betas=[0.95, 0.99], schedule_free=dict(r=1.0, weight_lr_power=1.0), decay="cosine"),
    "schedule_free, groups": dict(name="schedule_free", embeddings=dict(lr_scale=0.1), vectors=dict(name="sgd"), matrices=dict(weight_decay_scale=7.0)),
    "adamw, schedule_free for matrices": dict(matrices=dict(name="schedule_free", lr_scale=0.5)),
    "adafactor": dict(name="adafactor", lr=2e-2),
    "adafactor, eps": dict(name="adafactor", lr=0.3, warmup=2, weight_decay=0.2, matrices=dict(lr_scale=0.1), embeddings=dict(lr_scale=0.2, weight_decay_scale=0.0),
                           adafactor=dict(eps=[1e-6, 1e-2], d=1.5, beta2_decay=-0.5)),
    "galore": dict(name="galore", lr=1e-2, galore=dict(rank=4, every=100, scale=0.25)),
    "galore, four spaces": dict(name="galore", lr=1e-2, weight_decay=0.3, galore=dict(rank=6, every=6, scale=0.5)),
    "fira": dict(name="fira", lr=5e-3, fira=dict(rank=4, every=100, scale=0.25)),
}
# With the eps of the type, GPT-2's bias of k, whose gradient is only rounding, influences the size of a step.
NOT_OF_GPT2 = ("adafactor",)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return corpus_of(tmp_path_factory.mktemp("corpus"))


# ---- the oracle by itself --------------------------------------------------------------------------------------------

def drawn(*shape, seed=0):
    return torch.tensor(numpy.random.default_rng(seed).normal(0, 1, shape))


@pytest.mark.parametrize("shape", [(5, 9), (9, 5), (7, 7), (1, 6)], ids=str)
@pytest.mark.parametrize("iterations", [1, 5, 8])
def test_newton_schulz_is_a_polynomial_of_singular_values(shape, iterations):
    matrix = drawn(*shape)
    u, s, vh = torch.linalg.svd(matrix, full_matrices=False)
    s = s / (s.norm() + 1e-7)
    for _ in range(iterations):
        s = 3.4445 * s - 4.7750 * s**3 + 2.0315 * s**5
    found = optimizers.orthogonal(matrix, iterations)
    assert float((found - u @ torch.diag(s) @ vh).norm()) < 1e-10
    assert iterations < 5 or ((0.6 < s) & (s < 1.3)).all()


def test_schedule_free_without_x():
    """As its authors write it, x never computed: y moves towards z, then along the step."""
    keys = optimizers.complete(dict(name="schedule_free", betas=[0.9, 0.95], schedule_free=dict(r=0.5)))
    rule = optimizers.ScheduleFree("norm.weight", drawn(30), keys, 0.2)
    y, z, v, weights, highest = rule.p.clone(), rule.p.clone(), torch.zeros(30), 0.0, 0.0
    for k in range(1, 21):
        g, lr = torch.sin(rule.p * k), 1e-2 * min(1, k / 5) * (1 if k < 12 else 0.5)
        rule.step(g, lr)
        highest = max(highest, lr)
        weights += k**0.5 * highest**2
        c = k**0.5 * highest**2 / weights
        v = 0.95 * v + 0.05 * g * g
        n = g / ((v / (1 - 0.95**k)).sqrt() + 1e-8) + 0.2 * y
        y = torch.lerp(y, z, c) + n * lr * (0.9 * (1 - c) - 1)
        z = z - lr * n
        assert float((y - rule.p).norm()) < 1e-12
        assert float((torch.lerp(y, z, 1 - 1 / 0.9) - rule.evaluated()).norm()) < 1e-12


def test_adafactor_of_squares_of_rank_one():
    """The factors represent squares of rank one exactly, so the first step has the same size for all elements."""
    keys = optimizers.complete(dict(name="adafactor"))
    matrix = drawn(6, 4)
    rule = optimizers.Adafactor("m.weight", matrix.clone(), keys, 0.0)
    g = drawn(6, 1, seed=1) * drawn(1, 4, seed=2)
    rule.step(g, 1e-2)
    expected = matrix - 1e-2 * float(matrix.norm()) / math.sqrt(24) * torch.sign(g)
    assert float((rule.p - expected).norm()) < 1e-12


@pytest.mark.parametrize("name", ["Adafactor", "Muon"])
def test_newer_torch(name):
    if not hasattr(torch.optim, name):
        pytest.skip(f"SKIPPED: this PyTorch has no optimizer {name}; make test-full has")
    mine, theirs, lr = drawn(8, 5), drawn(8, 5), 1e-2
    rule = optimizers.rule_of("m.weight", mine, optimizers.complete(dict(name=name.lower(), weight_decay=0.1, muon=dict(scale="keller"))))
    other = optimizers.FromTorch(getattr(torch.optim, name), theirs, weight_decay=0.1)
    for k in range(10):
        g = torch.sin(theirs * (k + 1))
        rule.step(g, lr)
        other.step(g, lr)
    assert float((mine - theirs).norm()) < (1e-11 if name == "Adafactor" else 1e-2)


def test_groups():
    """Which parameter is in which."""
    expected = {"transformer.wte.weight": "embeddings", "transformer.wpe.weight": "embeddings", "lm_head.weight": "embeddings",
                "model.embed_tokens.weight": "embeddings", "transformer.h.0.attn.c_attn.weight": "matrices",
                "model.layers.1.block_sparse_moe.gate.weight": "routers", "model.layers.1.mlp.gate.weight": "routers",
                "model.layers.1.mlp.gate_proj.weight": "matrices", "model.layers.1.block_sparse_moe.experts.3.w1.weight": "matrices",
                "model.layers.1.mlp.experts.3.gate_proj.weight": "matrices"}
    assert {name: optimizers.group_of(name, torch.zeros(2, 2)) for name in expected} == expected
    for name in ("model.norm.weight", "transformer.h.0.attn.c_attn.bias"):
        assert optimizers.group_of(name, torch.zeros(2)) == "vectors"


# ---- the program -----------------------------------------------------------------------------------------------------

def pairs():
    return [(model, case) for case in CASES for model in MODELS if not (model == "gpt2" and case in NOT_OF_GPT2)]


def check_course(folder, expected, clip):
    lines = lines_of(folder)
    assert len(lines) == STEPS
    close([line["loss"] for line in lines], expected["loss"])
    close([line["grad_norm"] for line in lines], expected["norm"])
    if max(expected["router_loss"]) > 0:
        close([line["router_loss"] for line in lines], expected["router_loss"])
    assert clip == 0 or max(expected["norm"]) > clip, "the clip was never met"
    check_weights(weights_of(folder), expected["weights"])


@pytest.mark.parametrize("name, case", pairs(), ids=[f"{case}, {model}" for model, case in pairs()])
def test_twenty_steps(tmp_path, corpus, name, case):
    model = MODELS[name]
    skip_without(CASES[case])
    keys = {key: value for key, value in CASES[case].items() if key != "routers" or "num_experts" in model}
    start, weights = start_from(tmp_path, model)
    path = write_run(tmp_path, corpus, keys, model=model, precision="fp64", init=str(start))
    trireme("train", path)
    optimizer = json.loads(path.read_text())["optimizer"]
    expected = optimizers.train(model, weights.tensors(), batches_of(tmp_path, corpus, model), optimizer)
    check_course(tmp_path / "run", expected, optimizer["clip"])


def test_what_is_evaluated(tmp_path, corpus):
    """Schedule-free gradients are those at y; the loss on held-out text, the weights on disk and what `eval` says of them are x's."""
    model, keys = MODELS["llama"], CASES["schedule_free"]
    start, weights = start_from(tmp_path, model)
    path = write_run(tmp_path, corpus, keys, model=model, precision="fp64", init=str(start), evaluation=dict(every=STEPS, batches=1000))
    trireme("train", path)
    optimizer = json.loads(path.read_text())["optimizer"]
    expected = optimizers.train(model, weights.tensors(), batches_of(tmp_path, corpus, model), optimizer)
    with torch.no_grad():
        at_x = float(models.loss(model, expected["weights"], *windows_of(corpus / "validation")))
    assert abs(lines_of(tmp_path / "run")[-1]["validation_loss"] / at_x - 1) < 1e-10
    said = trireme("eval", tmp_path / "run", corpus / "validation", "--precision", "fp64", "--device", "reference", "--json").stdout
    assert abs(json.loads(said)["loss"] / at_x - 1) < 1e-10
    check_course(tmp_path / "run", expected, optimizer["clip"])
    states = states_of(tmp_path / "run")
    for name, x in expected["weights"].items():
        y, z = states[name + ".y"], states[name + ".z"]
        close(y + (1 - 1 / 0.9) * (z - y), x.numpy(), 1e-9)
    assert any(numpy.abs(states[name + ".y"] - x.numpy()).max() > 1e-5 for name, x in expected["weights"].items())


# The states of each optimizer in a checkpoint, for a parameter of each group.
STATES = {"adamw": (".exp_avg", ".exp_avg_sq"), "lion": (".exp_avg",), "sgd": (".momentum_buffer",), "muon": (".momentum_buffer",),
          "schedule_free": (".z", ".exp_avg_sq", ".y")}


@pytest.mark.parametrize("name", STATES)
def test_states_on_disk(tmp_path, corpus, name):
    """By the name of the parameter, in its shape: also where groups have optimizers of their own."""
    trireme("train", write_run(tmp_path, corpus, dict(name=name, steps=2), model=MODELS["mixtral"], precision="fp64"))
    weights, states = weights_of(tmp_path / "run"), states_of(tmp_path / "run")
    keys = optimizers.complete(dict(name=name))
    expected = {parameter + suffix: values.shape for parameter, values in weights.items()
                for suffix in STATES[keys[optimizers.group_of(parameter, torch.tensor(values))]["name"]]}
    assert {state: values.shape for state, values in states.items()} == expected
    assert all(numpy.isfinite(values).all() and (values != 0).any() for state, values in states.items() if "norm.weight" in state)


def shapes_of_own(name, parameter, shape, rank=4):
    """Returns the shapes of a parameter's states: Adafactor's means; the projection, the moments in it, and Fira's norm, for each matrix."""
    if name == "adafactor":
        return {".variance": shape} if len(shape) == 1 else {".row_var": (shape[0], 1), ".col_var": (1, shape[1])}
    matrices = 3 if ".c_attn." in parameter else 1
    rows, columns = shape[0], shape[1] // matrices
    stack = (3,) if matrices > 1 else ()
    turned = rows < columns or rows == columns and parameter.startswith("transformer.h.")
    moment = (*stack, rank, columns) if turned else (*stack, rows, rank)
    shapes = {".projection": (*stack, rank, min(rows, columns)), ".exp_avg": moment, ".exp_avg_sq": moment}
    return {**shapes, ".rest_norm": (matrices,)} if name == "fira" else shapes


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", ["adafactor", "galore", "fira"])
def test_states_of_shapes_of_their_own(tmp_path, corpus, name, model):
    keys = dict(name=name, **({} if name == "adafactor" else {name: dict(rank=4)}))
    skip_without(keys)
    trireme("train", write_run(tmp_path, corpus, dict(**keys, steps=2), model=MODELS[model], precision="fp64"))
    expected, groups = {}, optimizers.complete(keys)
    for parameter, values in weights_of(tmp_path / "run").items():
        own = groups[optimizers.group_of(parameter, torch.tensor(values))]["name"] == name
        shapes = shapes_of_own(name, parameter, values.shape) if own else dict.fromkeys(STATES["adamw"], values.shape)
        expected.update({parameter + suffix: shape for suffix, shape in shapes.items()})
    states = states_of(tmp_path / "run")
    assert {state: values.shape for state, values in states.items()} == expected
    for state, values in states.items():
        if state.endswith(".projection"):
            rows = values.reshape(-1, *values.shape[-2:])
            assert numpy.abs(rows @ rows.swapaxes(1, 2) - numpy.eye(rows.shape[1])).max() < 1e-12


@pytest.mark.parametrize("state", ["fp32", "bf16", "int8"])
@pytest.mark.parametrize("name", ["adamw", "lion", "sgd", "muon", "schedule_free", "adafactor", "galore", "fira"])
def test_memory(tmp_path, corpus, name, state):
    """The allocated memory is as predicted, and lower if states are narrower."""
    skip_without(dict(name=name))
    own = {name: dict(rank=4)} if name in ("galore", "fira") else {}
    peaks = {}
    for kept in {"fp32", state}:
        folder = tmp_path / kept
        trireme("train", write_run(folder, corpus, dict(name=name, state=kept, steps=2, **own), model=MODELS["mixtral"]))
        summary = json.load(open(folder / "run/summary.json"))
        assert abs(summary["peak_bytes_predicted"] - summary["peak_bytes_measured"]) <= 0.01 * summary["peak_bytes_measured"]
        peaks[kept] = summary["peak_bytes_predicted"]
    assert state == "fp32" or name == "adafactor" or peaks[state] < peaks["fp32"]


@pytest.mark.parametrize("name, state, limit", [("adamw", "bf16", 2e-3), ("adamw", "int8", 2e-2), ("lion", "int8", 2e-2), ("muon", "bf16", 2e-3),
                                                ("muon", "int8", 2e-2), ("sgd", "int8", 2e-3), ("schedule_free", "bf16", 2e-2)])
def test_narrow_states(tmp_path, corpus, name, state, limit):
    """Losses stay near those of whole states, and are not the same; the type of a step is not that of a state."""
    start, _ = start_from(tmp_path, MODELS["llama"])
    courses = {}
    for kept in ("fp32", state):
        folder = tmp_path / kept
        trireme("train", write_run(folder, corpus, dict(name=name, state=kept), model=MODELS["llama"], precision="fp64", init=str(start)))
        courses[kept] = numpy.array([line["loss"] for line in lines_of(folder / "run")])
    difference = numpy.abs(courses[state] / courses["fp32"] - 1).max()
    assert 0 < difference <= limit, difference
    assert courses[state][0] == courses["fp32"][0]


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, *os.sys.argv[1:]]))

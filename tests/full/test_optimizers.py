"""Compares the plain optimizers of tests/oracle/optimizers.py, which all tests of optimizers use, with the programs of their authors and
the newest torch.optim: 20 updates in double, by gradients that depend on the parameters. The limits are wider for those that round
inside: torch.optim.Muon multiplies in bf16, GaLore and Fira decompose in fp32.

Then our own states of 8 bits are compared with those of bitsandbytes."""
import os
import sys

import numpy
import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "oracle"))

import optimizers  # noqa: E402
from optimizer_runs import corpus_of, states_of, write_run  # noqa: E402
from parity import trireme  # noqa: E402

STEPS = 20
# As of a layer: wide, high, square; a vector.
SHAPES = {"model.layers.0.mlp.down_proj.weight": (12, 30), "model.layers.0.mlp.up_proj.weight": (30, 12),
          "model.layers.0.self_attn.q_proj.weight": (16, 16), "model.norm.weight": (16,)}
MATRICES = {name: shape for name, shape in SHAPES.items() if len(shape) == 2}


def start(shapes, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randn(shape, generator=generator, dtype=torch.float64) for name, shape in shapes.items()}


def gradients_at(parameters, targets):
    """The gradients of a loss that is not quadratic and whose curvature differs between elements."""
    return {name: torch.sin(p - targets[name]) * torch.linspace(0.1, 2, p.numel(), dtype=p.dtype).view(p.shape) for name, p in parameters.items()}


def rates(lr, warmup=4):
    return [lr * min(1, step / warmup) for step in range(1, STEPS + 1)]


def ours(shapes, keys, lr):
    """Parameters after each step, and those that are evaluated in the end."""
    parameters, targets, seen = start(shapes), start(shapes, 1), []
    optimizer = optimizers.Optimizer(parameters, {**keys, "lr": lr, "clip": 0, "vectors": {"weight_decay_scale": 1.0}})
    for rate in rates(lr):
        optimizer.step(gradients_at(parameters, targets), rate)
        seen.append({name: p.clone() for name, p in parameters.items()})
    return seen, {name: p.clone() for name, p in optimizer.evaluated().items()}


def theirs(shapes, make, lr):
    """The same with an optimizer that `make`(list of parameters) makes."""
    parameters, targets, seen = start(shapes), start(shapes, 1), []
    optimizer = make(list(parameters.values()))
    if hasattr(optimizer, "train"):
        optimizer.train()
    for rate in rates(lr):
        for name, gradient in gradients_at(parameters, targets).items():
            parameters[name].grad = gradient
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        seen.append({name: p.clone() for name, p in parameters.items()})
    if hasattr(optimizer, "eval"):
        optimizer.eval()
    return seen, parameters


def compare(a, b, tolerance):
    assert len(a[0]) == len(b[0]) == STEPS
    for step, (x, y) in enumerate([*zip(a[0], b[0]), (a[1], b[1])]):
        for name in y:
            error = float((x[name] - y[name]).norm() / y[name].norm())
            assert error <= tolerance, (step, name, error)
    moved = {name: float((a[0][-1][name] - a[0][0][name]).norm()) for name in a[0][0]}
    assert all(distance > 1e-3 for distance in moved.values()), moved


def test_lion():
    lion = pytest.importorskip("lion_pytorch")
    keys = dict(name="lion", betas=[0.9, 0.99], weight_decay=0.3)
    compare(ours(SHAPES, keys, 1e-2), theirs(SHAPES, lambda p: lion.Lion(p, lr=1e-2, betas=(0.9, 0.99), weight_decay=0.3), 1e-2), 1e-12)


@pytest.mark.parametrize("r, power", [(0.0, 2.0), (1.0, 0.5)])
@pytest.mark.parametrize("betas", [(0.9, 0.95), (0.98, 0.99)])
def test_schedule_free(r, power, betas):
    schedulefree = pytest.importorskip("schedulefree")

    def make(parameters):
        return schedulefree.AdamWScheduleFree(parameters, lr=2e-2, betas=betas, eps=1e-6, weight_decay=0.2, r=r, weight_lr_power=power)
    keys = dict(name="schedule_free", betas=list(betas), eps=1e-6, weight_decay=0.2, schedule_free=dict(r=r, weight_lr_power=power))
    compare(ours(SHAPES, keys, 2e-2), theirs(SHAPES, make, 2e-2), 1e-11)


@pytest.mark.parametrize("options", [dict(), dict(eps=(1e-3, 1e-2), d=1.5, beta2_decay=-0.5, weight_decay=0.4), dict(d=2.0)], ids=str)
def test_adafactor(options):
    if not hasattr(torch.optim, "Adafactor"):
        pytest.skip("SKIPPED: torch.optim has no Adafactor before 2.5")
    own = {key: list(value) if key == "eps" else value for key, value in options.items() if key != "weight_decay"}
    keys = dict(name="adafactor", adafactor=own, weight_decay=options.get("weight_decay", 0.0))
    for lr in (5e-2, 0.5):  # below and above 1 / sqrt(step)
        compare(ours(SHAPES, keys, lr), theirs(SHAPES, lambda p: torch.optim.Adafactor(p, lr=lr, **options), lr), 1e-11)


@pytest.mark.parametrize("nesterov", [True, False])
@pytest.mark.parametrize("scale, theirs_scale", [("keller", "original"), ("moonlight", "match_rms_adamw")])
def test_muon(scale, theirs_scale, nesterov):
    """Theirs multiplies in bf16, 2^-9 a rounding, and what is small in a gradient grows in five iterations."""
    if not hasattr(torch.optim, "Muon"):
        pytest.skip("SKIPPED: torch.optim has no Muon before 2.9")

    def make(parameters):
        return torch.optim.Muon(parameters, lr=2e-2, weight_decay=0.2, momentum=0.9, nesterov=nesterov, adjust_lr_fn=theirs_scale)
    keys = dict(name="muon", muon=dict(momentum=0.9, nesterov=nesterov, scale=scale), weight_decay=0.2)
    compare(ours(MATRICES, keys, 2e-2), theirs(MATRICES, make, 2e-2), 2e-2)


@pytest.mark.parametrize("iterations", [1, 5])
def test_muon_without_rounding(monkeypatch, iterations):
    """Theirs with its one rounding taken out of it: to 1e-6 beside the norm to which ours adds 1e-7."""
    if not hasattr(torch.optim, "Muon"):
        pytest.skip("SKIPPED: torch.optim has no Muon before 2.9")
    monkeypatch.setattr(torch, "bfloat16", torch.float64)

    def make(parameters):
        return torch.optim.Muon(parameters, lr=2e-2, weight_decay=0.2, momentum=0.9, ns_steps=iterations, adjust_lr_fn="original")
    keys = dict(name="muon", muon=dict(momentum=0.9, scale="keller", iterations=iterations), weight_decay=0.2)
    compare(ours(MATRICES, keys, 2e-2), theirs(MATRICES, make, 2e-2), 1e-6)


@pytest.mark.parametrize("name, package, module", [("galore", "galore_torch", "galore_torch.adamw"), ("fira", "fira", "fira.fira_adamw")])
@pytest.mark.parametrize("rank, every", [(4, 5), (12, 200)])
def test_low_rank(monkeypatch, name, package, module, rank, every):
    """Theirs decomposes in fp32, and takes singular vectors with whatever signs they come: here with ours."""
    pytest.importorskip(package)
    authors = pytest.importorskip(module)
    decompose = torch.linalg.svd

    def svd(matrix, full_matrices):
        u, s, vh = decompose(matrix, full_matrices=full_matrices)
        return optimizers.with_signs(u.T).T, s, optimizers.with_signs(vh)
    monkeypatch.setattr(torch.linalg, "svd", svd)

    def make(parameters):
        scale = dict(scale=0.25) if name == "galore" else dict(alpha=0.25)
        groups = [dict(params=parameters, rank=rank, update_proj_gap=every, proj_type="std", **scale)]
        return authors.AdamW(groups, lr=2e-2, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.2, no_deprecation_warning=True)
    keys = dict(name=name, weight_decay=0.2, eps=1e-8, **{name: dict(rank=rank, every=every, scale=0.25)})
    compare(ours(MATRICES, keys, 2e-2), theirs(MATRICES, make, 2e-2), 1e-4)


# ---- states of 8 bits ------------------------------------------------------------------------------------------------

def test_states_of_8_bits(tmp_path):
    """Compares the states of a checkpoint after one step with the states that another run of the same step keeps in fp32. In each
    block of 256, ours are the nearest values in the map of bitsandbytes. They are nowhere further away than those of
    bitsandbytes, whose search on a CPU is sometimes off by one code (also for 0)."""
    functional = pytest.importorskip("bitsandbytes.functional")
    corpus, states = corpus_of(tmp_path), {}
    for state in ("fp32", "int8"):
        trireme("train", write_run(tmp_path / state, corpus, dict(state=state, steps=1)))
        states[state] = states_of(tmp_path / state / "run")
    assert states["fp32"].keys() == states["int8"].keys() and states["fp32"]
    for name, whole in states["fp32"].items():
        code = functional.create_dynamic_map(signed=not name.endswith("_sq"))
        flat = whole.reshape(-1).astype(numpy.float32)
        theirs = functional.dequantize_blockwise(*functional.quantize_blockwise(torch.tensor(flat), code=code, blocksize=256)).numpy()
        found = states["int8"][name].reshape(-1)
        for first in range(0, len(flat), 256):
            block = slice(first, first + 256)
            scale = numpy.abs(flat[block]).max()
            nearest = numpy.abs(flat[block, None].astype(numpy.float64) - scale * code.numpy().astype(numpy.float64)).min(axis=1)
            distance = numpy.abs(found[block].astype(numpy.float64) - flat[block])
            assert (distance <= nearest + 1e-6 * scale).all(), (name, first)
            assert (distance <= numpy.abs(theirs[block] - flat[block]) + 1e-6 * scale).all(), (name, first)
    assert any((states["fp32"][name] != states["int8"][name]).any() for name in states["fp32"])


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, *sys.argv[1:]]))

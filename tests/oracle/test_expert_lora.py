"""Factors of experts against plain PyTorch (expert_lora.py) in double: gradients, twenty steps, files as PEFT 0.21 has them, what is
merged, and every layout."""
import json
import shutil
import subprocess

import expert_cases
import expert_lora
import lora
import models
import numpy
import pytest
import torch
from optimizer_runs import SMALL, STEPS, batches_of, check_weights, close, corpus_of, lines_of, newest_of, ranks_words, start_from, tensors_of, windows_of, write_run
from parity import trireme, words_of
from safetensors.numpy import load_file, save_file
from test_lora import arrays_of, as_tensors, check_layouts, first_factors, of_run

SIZES = dict(vocab_size=257, max_sequence=24)
MODELS = {name: {**expert_cases.MODELS[name], **SIZES} for name in ("mixtral", "qwen3_moe", "olmoe", "dots1")}
BOTH = ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]
ADAPTERS = {"both": dict(rank=3, alpha=4, targets=BOTH), "down": dict(rank=2, alpha=5, targets=["experts.down_proj"]),
            "gate and up": dict(rank=4, alpha=3, targets=["gate_up_proj"]),
            "patterns with rslora": dict(rank=2, alpha=3, scaling="rslora", targets=BOTH, rank_pattern={r"layers\.2\.mlp\.experts\.down_proj": 5, "gate_up_proj": 3},
                                         alpha_pattern={"experts.down_proj": 1.5})}
needs_ranks = pytest.mark.skipif(shutil.which("mpiexec") is None, reason="SKIPPED: there is no mpiexec")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return corpus_of(tmp_path_factory.mktemp("corpus"))


def factors_of(folder):
    return lora.read_factors(newest_of(folder / "run"))[0]


def one_step(folder, corpus, model, adapter, given):
    """A step of plain descent at a rate of 1, after which a factor has changed by its gradient."""
    keys = dict(name="sgd", lr=1.0, steps=1, clip=0, weight_decay=0.0, sgd=dict(momentum=0.0))
    start = folder / "start"
    trireme("train", write_run(folder, corpus, keys, model=model, precision="fp64", init=str(start), adapter={**adapter, "from": str(given)}))
    return factors_of(folder)


@pytest.mark.parametrize("case", ADAPTERS)
@pytest.mark.parametrize("name", MODELS)
def test_gradients(tmp_path, corpus, name, case):
    """Of a folder of PEFT's, of which no factor is zero."""
    model, adapter = MODELS[name], ADAPTERS[case]
    weights = arrays_of(start_from(tmp_path, model)[1])
    factors = expert_lora.drawn_factors(weights, adapter)
    found = one_step(tmp_path, corpus, model, adapter, write_folder(tmp_path / "given", model, adapter, factors))
    ids, labels = batches_of(tmp_path, corpus, model, 1)[0]
    own = {key: torch.tensor(values, requires_grad=True) for key, values in factors.items()}
    loss, router_loss = models.losses(model, expert_lora.whole(as_tensors(weights), own, adapter), ids, labels)
    expected = dict(zip(own, torch.autograd.grad(loss + router_loss, list(own.values()))))
    assert abs(lines_of(tmp_path / "run")[0]["loss"] / float(loss.detach()) - 1) < 1e-12
    assert found.keys() == expected.keys() and len(found) >= 2
    for key, gradient in expected.items():
        error = numpy.linalg.norm(factors[key] - found[key] - gradient.numpy())
        assert error <= 1e-10 * numpy.linalg.norm(gradient.numpy()) + 1e-14, (key, error)


def write_folder(folder, model, adapter, factors, **more):
    modules = [target for target in adapter["targets"] if "experts" not in target and target != "gate_up_proj"]
    parameters = [target for target in adapter["targets"] if target not in modules]
    return lora.write_peft(folder, model, adapter, factors, target_modules=modules, target_parameters=parameters, **more)


@pytest.mark.parametrize("targets", [BOTH, ["experts.down_proj", "q_proj", "o_proj"], ["gate_up_proj", "k_proj", "v_proj", "q_proj"]], ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_twenty_steps(tmp_path, corpus, name, targets):
    model, adapter = MODELS[name], dict(rank=3, alpha=5, targets=targets)
    start, weights = start_from(tmp_path, model)
    base = arrays_of(weights)
    factors = first_factors(tmp_path / "first", corpus, model, start, adapter, precision="fp64")
    path = write_run(tmp_path, corpus, {}, model=model, precision="fp64", init=str(start), adapter=adapter)
    trireme("train", path)
    expected = expert_lora.train(model, base, factors, adapter, batches_of(tmp_path, corpus, model), json.loads(path.read_text())["optimizer"])
    lines = lines_of(tmp_path / "run")
    close([line["loss"] for line in lines], expected["loss"])
    close([line["grad_norm"] for line in lines], expected["norm"])
    check_weights(factors_of(tmp_path), expected["factors"])


LAYOUTS = [(2, dict(data=2, expert=2, expert_capacity=0.5)), (4, dict(data=4, expert=2, zero=3)), (4, dict(tensor=2, data=2, expert=2, zero=1)), (2, dict(data=2, zero=2)),
           (4, dict(pipeline=2, data=2, expert=2, schedule="zero-bubble", recompute="experts")), (2, dict(tensor=2)), (1, dict(recompute="full")),
           (4, dict(tensor=4, sequence_parallel=True)), (2, dict(pipeline=2, recompute="selective")), (2, dict(context=2))]


@needs_ranks
@pytest.mark.parametrize("case", ["both", "patterns with rslora", "down"])
@pytest.mark.parametrize("name", ["mixtral", "dots1"])
def test_layouts(tmp_path, corpus, name, case):
    model = dict(MODELS[name])
    start, _ = start_from(tmp_path, model)
    common = dict(model=model, precision="fp64", init=str(start), adapter=ADAPTERS[case])
    runs = {}
    for ranks, layout in [(1, {}), *LAYOUTS]:
        folder = tmp_path / str(len(runs))
        trireme("train", write_run(folder, corpus, dict(steps=4, lr=1e-2, global_batch=8), layout={"micro_batch": 1, **layout}, **common), *ranks_words(ranks), timeout=300)
        runs[str(layout)] = of_run(folder)
        summary = json.load(open(folder / "run/summary.json"))
        assert summary["peak_bytes_predicted"] == summary["peak_bytes_measured"], layout
    (expected, course), *others = runs.values()
    for (tensors, losses), layout in zip(others, LAYOUTS):
        close(losses, course)
        assert tensors.keys() == expected.keys()
        for tensor, values in expected.items():
            assert numpy.linalg.norm(tensors[tensor] - values) <= max(1e-10 * numpy.linalg.norm(values), 1e-13), (layout, tensor)

"""Factors of experts against plain PyTorch (expert_lora.py) in double: gradients, twenty steps, files as PEFT 0.21 has them, what is
merged, and every layout."""
import json
import os
import shutil
import subprocess

import expert_cases
import expert_lora
import lora
import models
import numpy
import pytest
import torch
from drawn import drawn_count
from optimizer_runs import SMALL, STEPS, batches_of, check_weights, close, corpus_of, lines_of, newest_of, ranks_words, skip_without, start_from, tensors_of, windows_of, write_run
from parity import trireme, words_of
from safetensors.numpy import load_file
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


with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "expert_lora.json")) as stored:
    PEFTS = json.load(stored)


def same_few(found, expected):
    found = expert_lora.few_of(found)
    assert abs(found["norm"] / expected["norm"] - 1) < 1e-10
    assert numpy.abs(numpy.subtract(found["some"], expected["some"])).max() <= 1e-10 * max(1e-3, numpy.abs(expected["some"]).max())


@pytest.mark.parametrize("name", expert_lora.BESIDE)
def test_as_peft_has_them(name):
    """The plain ones of expert_lora.py, on which these tests stand, beside PEFT's own numbers."""
    model = expert_lora.BESIDE[name]
    weights, (ids, labels) = expert_lora.plain(model), expert_lora.tokens_of(model)
    for case, adapter in expert_lora.CASES.items():
        factors, expected = expert_lora.all_factors(weights, adapter), PEFTS[name]["stacked"][case]
        loss, gradients = expert_lora.gradients(model, weights, factors, adapter, ids, labels)
        assert abs(loss / expected["loss"] - 1) < 1e-12 and gradients.keys() == expected["gradients"].keys()
        for key, values in gradients.items():
            same_few(values, expected["gradients"][key])
        same_few(models.logits(model, as_tensors(expert_lora.whole(weights, factors, adapter)), ids), expected["logits"])
    for case, adapter in expert_lora.SINGLES.items():
        merged = expert_lora.merged_singles(weights, expert_lora.drawn_singles(weights, adapter["rank"]), adapter)
        same_few(models.logits(model, as_tensors(merged), ids), PEFTS[name]["singles"][case]["logits"])


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
    """Gradients of the factors in a PEFT folder, none of them zero."""
    model, adapter = MODELS[name], ADAPTERS[case]
    weights = arrays_of(start_from(tmp_path, model)[1])
    factors = expert_lora.drawn_factors(weights, adapter)
    found = one_step(tmp_path, corpus, model, adapter, expert_lora.write_folder(tmp_path / "given", model, adapter, factors))
    ids, labels = batches_of(tmp_path, corpus, model, 1)[0]
    own = {key: torch.tensor(values, requires_grad=True) for key, values in factors.items()}
    loss, router_loss = models.losses(model, expert_lora.whole(as_tensors(weights), own, adapter), ids, labels)
    expected = dict(zip(own, torch.autograd.grad(loss + router_loss, list(own.values()))))
    assert abs(lines_of(tmp_path / "run")[0]["loss"] / float(loss.detach()) - 1) < 1e-12
    assert found.keys() == expected.keys() and len(found) >= 2
    for key, gradient in expected.items():
        error = numpy.linalg.norm(factors[key] - found[key] - gradient.numpy())
        assert error <= 1e-10 * numpy.linalg.norm(gradient.numpy()) + 1e-14, (key, error)


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
# Meshes whose experts are split over ranks of other axes than the tensor axis.
FOLDED = [(2, dict(data=2, expert_tensor=2)), (2, dict(context=2, expert_tensor=2)), (4, dict(data=4, expert_tensor=2)), (4, dict(data=4, expert_tensor=2, expert=2, zero=1)),
          (4, dict(data=2, context=2, expert_tensor=2)), (4, dict(data=2, context=2, expert_tensor=2, expert=2, zero=2)), (4, dict(data=4, expert_tensor=2, zero=3)),
          (4, dict(tensor=2, data=2, expert_tensor=2)), (4, dict(tensor=2, context=2, expert_tensor=2, sequence_parallel=True)), (2, dict(tensor=2, expert_tensor=1, expert=2)),
          (4, dict(pipeline=2, data=2, expert_tensor=2, schedule="zero-bubble")), (4, dict(tensor=2, data=2, expert_tensor=2, expert=2, zero=3, sequence_parallel=True)),
          (2, dict(data=2, expert_tensor=2, recompute="full")), (2, dict(context=2, context_exchange="ring", expert_tensor=2, expert_capacity=0.5))]
EVERYWHERE = {"everywhere": dict(rank=2, alpha=3, targets=[*BOTH, "q_proj", "v_proj", "o_proj", "embed_tokens", "lm_head"])}


@needs_ranks
@pytest.mark.parametrize("case", ["both", "patterns with rslora", "down", "everywhere"])
@pytest.mark.parametrize("name", ["mixtral", "dots1"])
def test_layouts(tmp_path, corpus, name, case):
    model = dict(MODELS[name])
    start, _ = start_from(tmp_path, model)
    common = dict(model=model, precision="fp64", init=str(start), adapter={**ADAPTERS, **EVERYWHERE}[case])
    layouts = drawn_count(LAYOUTS, 5, f"plain {name} {case}") + drawn_count(FOLDED, 5, f"folded {name} {case}")
    runs = {}
    for ranks, layout in [(1, {}), *layouts]:
        folder = tmp_path / str(len(runs))
        trireme("train", write_run(folder, corpus, dict(steps=4, lr=1e-2, global_batch=8), layout={"micro_batch": 1, **layout}, **common), *ranks_words(ranks), timeout=300)
        runs[str(layout)] = of_run(folder)
        summary = json.load(open(folder / "run/summary.json"))
        assert summary["peak_bytes_predicted"] == summary["peak_bytes_measured"], layout
    (expected, course), *others = runs.values()
    for (tensors, losses), layout in zip(others, layouts, strict=True):
        close(losses, course)
        assert tensors.keys() == expected.keys()
        for tensor, values in expected.items():
            assert numpy.linalg.norm(tensors[tensor] - values) <= max(1e-10 * numpy.linalg.norm(values), 1e-13), (layout, tensor)


OF_ITS_OWN = {"galore": dict(galore=dict(rank=2))}


@needs_ranks
@pytest.mark.parametrize("name", ["adafactor", "muon", "galore", "lion"])
def test_layouts_of_optimizers(tmp_path, corpus, name):
    """Each expert's factor is a matrix by itself to an optimizer, and what it keeps is one tensor for each."""
    skip_without(dict(name=name))
    start, _ = start_from(tmp_path, MODELS["qwen3_moe"])
    common = dict(model=MODELS["qwen3_moe"], precision="fp64", init=str(start), adapter=ADAPTERS["both"])
    runs = []
    for ranks, layout in [(1, {}), (2, dict(data=2, expert=2)), (4, dict(data=4, expert=2, zero=3)), (2, dict(tensor=2))]:
        folder = tmp_path / str(len(runs))
        trireme("train", write_run(folder, corpus, dict(name=name, steps=4, lr=1e-3, global_batch=8, **OF_ITS_OWN.get(name, {})), layout={"micro_batch": 1, **layout}, **common), *ranks_words(ranks), timeout=300)
        runs.append(of_run(folder))
    for tensors, losses in runs[1:]:
        close(losses, runs[0][1])
        assert tensors.keys() == runs[0][0].keys() and any(".experts.3.up_proj.lora_B.weight." in tensor for tensor in tensors)
        for tensor, values in runs[0][0].items():
            assert numpy.linalg.norm(tensors[tensor] - values) <= max(1e-9 * numpy.linalg.norm(values), 1e-13), tensor


@pytest.mark.parametrize("device, precision, tolerance", [("guarded", "fp32", 1e-4), ("emulated", "fp32", 1e-4), ("emulated", "bf16", 3e-2), ("cpu", "fp32", 1e-4), ("cpu", "bf16", 3e-2)])
@pytest.mark.parametrize("name", ["mixtral", "dots1"])
def test_devices(tmp_path, corpus, name, device, precision, tolerance):
    """And the memory that was predicted; several ranks, with rows that come again."""
    start, _ = start_from(tmp_path, MODELS[name])
    common = dict(model=MODELS[name], init=str(start), adapter=dict(ADAPTERS["both"], rank=4))
    found = []
    for which, (on, as_) in dict(reference=("reference", "fp64"), device=(device, precision)).items():
        trireme("train", write_run(tmp_path / which, corpus, dict(steps=4, lr=1e-2), precision=as_, device=on, **common))
        found.append([line["loss"] for line in lines_of(tmp_path / which / "run")])
    close(found[1], found[0], tolerance)
    if shutil.which("mpiexec") is not None:
        layout = dict(micro_batch=1, data=2, expert=2, expert_capacity=0.5)
        trireme("train", write_run(tmp_path / "two", corpus, dict(steps=4, lr=1e-2), precision=precision, device=device, layout=layout, **common), *ranks_words(2))
        close([line["loss"] for line in lines_of(tmp_path / "two/run")], found[0], tolerance)
    for folder in tmp_path.glob("*/run/summary.json"):
        summary = json.load(open(folder))
        assert summary["peak_bytes_predicted"] == summary["peak_bytes_measured"], folder


def test_average_and_samples(tmp_path, corpus):
    """An average over the run is of the same tensors; texts are written with factors."""
    model, adapter = MODELS["mixtral"], ADAPTERS["both"]
    start, weights = start_from(tmp_path, model)
    trireme("train", write_run(tmp_path, corpus, dict(steps=4, lr=1e-2), model=model, precision="fp64", init=str(start), adapter=adapter, average=dict(every=1)))
    trireme("export", tmp_path / "run", tmp_path / "averaged", "--average")
    averaged, last = lora.read_peft(tmp_path / "averaged")[0], factors_of(tmp_path)
    assert averaged.keys() == last.keys() and all(averaged[key].shape == last[key].shape and (averaged[key] != last[key]).any() for key in last)
    expected = expert_lora.merged(in_double(arrays_of(weights)), averaged, adapter)
    assert abs(evaluated(tmp_path / "run", corpus, "--average") / loss_of(model, expected, corpus) - 1) < 1e-6


# ---- files -----------------------------------------------------------------------------------------------------------

def given_folder(folder, model, adapter, seed=0):
    """A base, and a folder of PEFT's for it."""
    start, weights = start_from(folder, model)
    base = arrays_of(weights)
    factors = expert_lora.drawn_factors(base, adapter, seed)
    return start, base, factors, expert_lora.write_folder(folder / "given", model, adapter, factors, base_model_name_or_path=str(start))


def merged_by_us(folder, given):
    trireme("export", "--merge", given, folder / "merged")
    return {name: values for path in (folder / "merged").glob("model*.safetensors") for name, values in load_file(path).items()}


def same_in_single(found, expected):
    """Sums in double, rounded once."""
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        assert (numpy.abs(found[name].astype(numpy.float64) - values) <= 2.0**-24 * numpy.abs(values) + 1e-15).all(), name


def evaluated(folder, corpus, *words):
    return json.loads(trireme("eval", folder, corpus / "validation", *words, "--sequence", 20, "--precision", "fp64", "--device", "reference", "--json").stdout)["loss"]


def loss_of(model, weights, corpus):
    with torch.no_grad():
        return float(models.loss(model, as_tensors(weights), *windows_of(corpus / "validation")))


def in_double(weights):
    """As they are in a file in single."""
    return {name: numpy.float32(w).astype(numpy.float64) for name, w in weights.items()}


@pytest.mark.parametrize("case", ADAPTERS)
@pytest.mark.parametrize("name", MODELS)
def test_merged(tmp_path, corpus, name, case):
    """A folder of PEFT's, and what it means: merged, evaluated, and taken as it is."""
    model, adapter = MODELS[name], ADAPTERS[case]
    start, base, factors, given = given_folder(tmp_path, model, adapter)
    expected = expert_lora.merged(in_double(base), factors, adapter)
    same_in_single(merged_by_us(tmp_path, given), expected)
    assert abs(evaluated(given, corpus) / loss_of(model, expected, corpus) - 1) < 1e-12
    assert abs(loss_of(model, base, corpus) / loss_of(model, expected, corpus) - 1) > 1e-5, "this test sees nothing"
    trireme("export", given, tmp_path / "again")
    again, _, config = lora.read_peft(tmp_path / "again")
    assert all((again[key] == values).all() for key, values in factors.items()) and again.keys() == factors.keys()
    assert config["target_parameters"] == adapter["targets"] and config["target_modules"] == []


def test_all_linear_beside_experts(tmp_path, corpus):
    """`all-linear` means all matrices but those of experts, as in PEFT; experts are named in addition. A checkpoint has PEFT's keys."""
    model, adapter = MODELS["dots1"], dict(rank=2, alpha=3, targets=["all-linear", *BOTH])
    start, weights = start_from(tmp_path, model)
    trireme("train", write_run(tmp_path, corpus, dict(steps=2, lr=1e-2), model=model, precision="fp64", init=str(start), adapter=adapter))
    factors, _, config = lora.read_peft(newest_of(tmp_path / "run"))
    base = arrays_of(weights)
    layers = [layer for layer, parameter in expert_lora.stacks_of(base) if parameter == "down_proj"]
    assert config["target_parameters"][:2] == BOTH and len([name for name in factors if ".experts." in name]) == 4 * len(layers)
    dense = {name: w.shape for name, w in base.items() if not expert_lora.MATRIX.fullmatch(name) and "mlp.gate." not in name}
    by_weight = [name.removesuffix(".weight") for name in config["target_parameters"][2:]]  # dense matrices whose names are the experts' too
    assert sorted([*config["target_modules"], *by_weight]) == sorted(lora.modules_of(dense, "all-linear"))
    found = merged_by_us(tmp_path, tmp_path / "run")
    expected = expert_lora.whole(in_double(base), factors, adapter)
    assert all(numpy.abs(found[name] - values).max() <= 1e-7 for name, values in expected.items())
    assert abs(evaluated(tmp_path / "run", corpus) / loss_of(model, expected, corpus) - 1) < 1e-12


@pytest.mark.parametrize("quantise", ["none", "nf4"])
def test_goes_on(tmp_path, corpus, quantise):
    """A run that is stopped and goes on is one that was not; with a base in four bits too."""
    model, adapter = MODELS["qwen3_moe"], dict(rank=2, alpha=3, targets=BOTH, quantise=quantise)
    start, _ = start_from(tmp_path, model)
    common = dict(model=model, precision="fp64", init=str(start), adapter=adapter)
    trireme("train", write_run(tmp_path / "one", corpus, dict(steps=4, lr=1e-2), **common))
    trireme("train", write_run(tmp_path / "two", corpus, dict(steps=2, lr=1e-2), **common))
    trireme("train", write_run(tmp_path / "two", corpus, dict(steps=4, lr=1e-2), **common))
    (one, _), (two, _) = of_run(tmp_path / "one"), of_run(tmp_path / "two")
    assert one.keys() == two.keys() and all((one[name] == two[name]).all() for name in one)


# ---- folders of before transformers 5 ----------------------------------------------------------------------------------

@pytest.mark.parametrize("scaling", ["lora", "rslora"])
@pytest.mark.parametrize("name", MODELS)
def test_factors_of_single_experts(tmp_path, corpus, name, scaling):
    """As PEFT makes stacks of them: gate and up get one pair of twice the rank and twice alpha."""
    model, adapter = MODELS[name], dict(rank=2, alpha=3, scaling=scaling)
    start, weights = start_from(tmp_path, model)
    base = in_double(arrays_of(weights))
    singles = expert_lora.drawn_singles(base, adapter["rank"])
    endings = sorted({module.split(".")[-1] for module in expert_lora.single_modules(base)})
    given = lora.write_peft(tmp_path / "given", model, dict(adapter, targets=endings), singles, base_model_name_or_path=str(start))
    expected = expert_lora.merged_singles(base, singles, adapter)
    same_in_single(merged_by_us(tmp_path, given), expected)
    assert abs(evaluated(given, corpus) / loss_of(model, expected, corpus) - 1) < 1e-12


@pytest.mark.parametrize("ranks, layout", [(1, {}), pytest.param(4, dict(tensor=2, data=2, expert=2, zero=1), marks=needs_ranks), pytest.param(2, dict(data=2, zero=3), marks=needs_ranks)], ids=str)
@pytest.mark.parametrize("scaling", ["lora", "rslora"])
@pytest.mark.parametrize("name", ["mixtral", "dots1"])
def test_runs_from_single_experts(tmp_path, corpus, name, scaling, ranks, layout):
    """A run begins with what PEFT makes of them."""
    model, given = MODELS[name], dict(rank=2, alpha=3, scaling=scaling)
    start, weights = start_from(tmp_path, model)
    base = in_double(arrays_of(weights))
    singles = expert_lora.drawn_singles(base, 2)
    endings = sorted({module.split(".")[-1] for module in expert_lora.single_modules(base)})
    folder = lora.write_peft(tmp_path / "given", model, dict(given, targets=endings), singles, base_model_name_or_path=str(start))
    adapter = dict(given, targets=BOTH, rank_pattern={r".*\.gate_up_proj": 4}, alpha_pattern={r".*\.gate_up_proj": 6})
    path = write_run(tmp_path, corpus, dict(name="sgd", lr=0.0, steps=1), model=model, precision="fp64", init=str(start), adapter={**adapter, "from": str(folder)},
                     layout={"micro_batch": 1, **layout})
    trireme("train", path, *ranks_words(ranks))
    whole = expert_lora.merged(base, factors_of(tmp_path), adapter)
    expected = expert_lora.merged_singles(base, singles, given)
    assert all(numpy.abs(whole[key] - values).max() <= 1e-14 for key, values in expected.items())
    ids, labels = batches_of(tmp_path, corpus, model, 1)[0]
    assert abs(lines_of(tmp_path / "run")[0]["loss"] / float(models.loss(model, as_tensors(expected), ids, labels)) - 1) < 1e-12


# ---- refusals ----------------------------------------------------------------------------------------------------------

def refused(*arguments):
    ended = subprocess.run(words_of(*arguments), capture_output=True, text=True)
    assert ended.returncode != 0, ended.stdout
    return ended.stderr


@pytest.mark.parametrize("changes, words", [
    (dict(dropout=0.1), ["`adapter.dropout` 0.1", "mlp.experts", "leave it out"]),
    (dict(init="pissa"), ["`adapter.init`", "experts", "kaiming"]),
    (dict(targets=["experts.gate_proj"]), ["experts.gate_proj", "mlp.experts.gate_up_proj", "mlp.experts.down_proj"]),
    (dict(targets=["all-linear", "q_proj", *BOTH]), ["all-linear stands for all but experts"]),
    (dict(rank=11), ["`adapter.rank` 11", "at most 10"]),
    (dict(rank_pattern={"experts.down_proj": 12}), ["`adapter.rank_pattern`", "at most 10"]),
    (dict(rank_pattern={"q_proj": 2}), ["`adapter.rank_pattern`", "q_proj", "mlp.experts"]),
], ids=str)
def test_bad_adapters(tmp_path, corpus, changes, words):
    adapter = {**dict(rank=2, alpha=3, targets=BOTH), **changes}
    message = refused("train", write_run(tmp_path, corpus, {}, model=MODELS["mixtral"], adapter=adapter))
    assert all(word in message for word in words), message


def test_bad_folders(tmp_path, corpus):
    model, adapter = MODELS["mixtral"], ADAPTERS["both"]
    start, base, factors, given = given_folder(tmp_path, model, adapter)
    a = next(name for name in factors if ".base_layer" not in name and name.endswith(lora.ENDS[0]))

    def answer(changed, **more):
        shutil.rmtree(given)
        expert_lora.write_folder(given, model, adapter, changed, base_model_name_or_path=str(start), **more)
        return refused("export", given, tmp_path / "never", "--merge")

    assert a.removeprefix(lora.PREFIX) in answer({name: w for name, w in factors.items() if name != a})
    assert "[15, 10]" in answer({**factors, a: factors[a][:-1]})
    assert "rank 2" in answer(factors, r=2)
    assert "target_modules" in answer(factors, target_parameters=None)
    half = {name: w for name, w in expert_lora.drawn_singles(base, adapter["rank"]).items() if ".w3." not in name}
    assert "one of" in answer(half, target_modules=["w1", "w2"], target_parameters=None)
    single = lora.write_peft(tmp_path / "single", model, dict(rank=3, alpha=4, targets=["w1", "w2", "w3"]), expert_lora.drawn_singles(base, 3))
    run = write_run(tmp_path / "from", corpus, {}, model=model, init=str(start), adapter={**adapter, "from": str(single)})
    message = refused("train", run)
    assert "`adapter.from`" in message and "single experts" in message and '{".*\\\\.gate_up_proj": 6}' in message, message

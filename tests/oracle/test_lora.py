"""Adapters and frozen weights, compared with plain PyTorch (lora.py) in double: losses, norms and factors of twenty steps to 1e-10; merged
models give the results of unmerged ones; frozen tensors keep their bits; all layouts give the same factors; memory depends on the trained
parameters; a killed run resumes with the same bits; and error messages name the key and a fix. tests/full compares lora.py with PEFT."""
import fnmatch
import functools
import itertools
import json
import os
import re
import shutil
import signal
import subprocess

import expert_cases
import lora
import models
import numpy
import pytest
import torch
from drawn import drawn, drawn_count
from optimizer_runs import (GPT2, LLAMA, SMALL, STEPS, batches_of, check_weights, close, corpus_of, lines_of, newest_of, ranks_words, start_from, states_of,
                            tensors_of, weights_of, windows_of, write_run)
from parity import TRIREME, tool, trireme, words_of
from safetensors.numpy import load_file, save_file
from test_optimizer_layouts import same_sums
from test_ranks import wait_for_step

QWEN3 = dict(family="qwen3", **SMALL, hidden_size=24, num_heads=4, num_kv_heads=2, head_dim=10, ffn_size=42, tied=True)
MODELS = {"gpt2": GPT2, "llama": LLAMA, "qwen3": QWEN3}
USUAL = dict(rank=4, alpha=8, targets=["q_proj", "v_proj"])
IN_DOUBLE = ("--precision", "fp64", "--device", "reference")


@functools.lru_cache
def keys_there_are():
    return {line.split()[0] for line in trireme("train", "--keys").stdout.splitlines() if line.split()}


def skip_without(*keys):
    for key in keys:
        if key not in keys_there_are():
            pytest.skip(f"SKIPPED: this trireme has no key {key}")


def needs(key):
    return pytest.mark.skipif(key not in keys_there_are(), reason=f"SKIPPED: this trireme has no key {key}")


adapters, freezing, imports, trains, quantises = map(needs, ("adapter.rank", "freeze", "adapter.from", "adapter.train", "adapter.quantise"))
files = pytest.mark.skipif("--merge" not in trireme("export", "--help").stdout, reason="SKIPPED: this trireme has no export --merge")
needs_ranks = pytest.mark.skipif(shutil.which("mpiexec") is None, reason="SKIPPED: there is no mpiexec")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return corpus_of(tmp_path_factory.mktemp("corpus"))


def arrays_of(weights):
    return {name: values.detach().numpy() for name, values in weights.tensors().items()}


def first_factors(folder, corpus, model, start, adapter, **more):
    """Those that a run begins with: a step at a rate of 0."""
    trireme("train", write_run(folder, corpus, dict(steps=1, lr=0.0), model=model, init=str(start), adapter=adapter, **more))
    return lora.read_factors(newest_of(folder / "run"))[0]


def as_tensors(arrays):
    return {name: torch.tensor(numpy.asarray(values)) for name, values in arrays.items()}


def loss_of(model, arrays, prefix):
    with torch.no_grad():
        return float(models.loss(model, as_tensors(arrays), *windows_of(prefix)))


def evaluated(folder, corpus):
    return json.loads(trireme("eval", folder, corpus / "validation", "--sequence", 20, *IN_DOUBLE, "--json").stdout)["loss"]


# ---- the oracle by itself --------------------------------------------------------------------------------------------

def plain(model, seed=3):
    """Weights under Hugging Face names without the program's help."""
    m, chance = models.complete(model), numpy.random.default_rng(seed)
    width, inner, vocab = m["hidden_size"], m["ffn_size"], m["vocab_size"]
    shapes = {}
    for layer in range(m["num_layers"]):
        if m["family"] == "gpt2":
            p = f"transformer.h.{layer}."
            matrices = {"attn.c_attn": (width, 3 * width), "attn.c_proj": (width, width), "mlp.c_fc": (width, inner), "mlp.c_proj": (inner, width)}
            shapes.update({p + name + ".weight": shape for name, shape in matrices.items()}, **{p + name + ".bias": shape[1:] for name, shape in matrices.items()})
            shapes.update({p + f"ln_{i}.{kind}": (width,) for i in (1, 2) for kind in ("weight", "bias")})
        else:
            p, q, kv = f"model.layers.{layer}.", m["num_heads"] * m["head_dim"], m["num_kv_heads"] * m["head_dim"]
            matrices = {"self_attn.q_proj": (q, width), "self_attn.k_proj": (kv, width), "self_attn.v_proj": (kv, width), "self_attn.o_proj": (width, q),
                        "mlp.gate_proj": (inner, width), "mlp.up_proj": (inner, width), "mlp.down_proj": (width, inner)}
            shapes.update({p + name + ".weight": shape for name, shape in matrices.items()})
            shapes.update({p + name + ".weight": (width,) for name in ("input_layernorm", "post_attention_layernorm")})
            shapes.update({p + f"self_attn.{name}_norm.weight": (m["head_dim"],) for name in "qk"})
    if m["family"] == "gpt2":
        shapes.update({"transformer.wte.weight": (vocab, width), "transformer.wpe.weight": (m["max_sequence"], width), "transformer.ln_f.weight": (width,),
                       "transformer.ln_f.bias": (width,)})
    else:
        shapes.update({"model.embed_tokens.weight": (vocab, width), "model.norm.weight": (width,), "lm_head.weight": (vocab, width)})
    return {name: chance.normal(0, 0.1, shape) + (len(shape) == 1 and name.endswith("weight")) for name, shape in shapes.items()}


def some_tokens(model, seed=5):
    return torch.tensor(numpy.random.default_rng(seed).integers(0, model["vocab_size"], (2, 3, 11)))


@pytest.mark.parametrize("name", MODELS)
def test_gradients_of_factors_are_products(name):
    """With the gradient G of a weight: dA = scale B^T G, dB = scale G A^T."""
    model, adapter = MODELS[name], dict(rank=3, alpha=7, targets="all-linear")
    weights = plain(model)
    factors = lora.drawn_factors(weights, adapter)
    assert len(factors) == 2 * 2 * (4 if name == "gpt2" else 7)
    ids, labels = some_tokens(model)
    loss, found = lora.gradients(model, weights, factors, 7 / 3, ids, labels)
    whole = {key: w.requires_grad_() for key, w in lora.merged(as_tensors(weights), as_tensors(factors), 7 / 3).items()}
    expected = models.loss(model, whole, ids, labels)
    expected.backward()
    assert abs(loss - float(expected)) < 1e-14
    for key, gradient in found.items():
        module, end = key[len(lora.PREFIX) : -len(lora.ENDS[0])], key[-len(lora.ENDS[0]) :]
        g = whole[module + ".weight"].grad.numpy()
        g = g.T if lora.is_conv(module) else g
        a, b = (factors[lora.PREFIX + module + which] for which in lora.ENDS)
        product = b.T @ g if end == lora.ENDS[0] else g @ a.T
        assert numpy.linalg.norm(gradient - 7 / 3 * product) <= 1e-12 * numpy.linalg.norm(product) + 1e-16, key


def test_factors_apply_to_rows_of_inputs():
    """x (W + scale B A)^T equals y = x W^T + scale (x A^T) B^T, for weights of both orders."""
    chance = numpy.random.default_rng(0)
    x, a, b = chance.normal(size=(5, 6)), chance.normal(size=(2, 6)), chance.normal(size=(4, 2))
    for module, w in (("model.layers.0.mlp.up_proj", chance.normal(size=(4, 6))), ("transformer.h.0.mlp.c_fc", chance.normal(size=(6, 4)))):
        together = lora.merged({module + ".weight": w}, {lora.PREFIX + module + end: f for end, f in zip(lora.ENDS, (a, b))}, 0.5)[module + ".weight"]
        apart = x @ (w if lora.is_conv(module) else w.T) + 0.5 * (x @ a.T) @ b.T
        assert numpy.abs(x @ (together if lora.is_conv(module) else together.T) - apart).max() < 1e-14


def test_plain_training_learns_and_leaves_the_rest():
    model, adapter = LLAMA, USUAL
    weights = plain(model)
    factors = {name: values * name.endswith(lora.ENDS[0]) for name, values in lora.drawn_factors(weights, adapter).items()}
    ids, labels = some_tokens(model)
    norm = "model.norm.weight"
    found = lora.train(model, weights, factors, 2.0, [(ids, labels)] * 30, dict(lr=1e-2, steps=30, decay="constant"), trained=(norm,))
    assert found["loss"][0] == pytest.approx(loss_at(model, weights, ids, labels), abs=1e-13) and found["loss"][-1] < found["loss"][0] - 0.1
    changed = {name for name in weights if (found["weights"][name] != weights[name]).any()}
    assert changed == {norm} and all((found["factors"][name] != factors[name]).any() for name in factors)


def loss_at(model, weights, ids, labels):
    return float(models.loss(model, as_tensors(weights), ids, labels))


def test_names():
    gpt2, llama = ({name: w.shape for name, w in plain(MODELS[family]).items()} for family in ("gpt2", "llama"))
    assert len(lora.modules_of(gpt2, "all-linear")) == 8 and len(lora.modules_of(llama, "all-linear")) == 14
    assert lora.modules_of(gpt2, ["c_proj"]) == [f"transformer.h.{i}.{part}.c_proj" for i in (0, 1) for part in ("attn", "mlp")]
    assert lora.modules_of(llama, ["proj", "tokens", "head", "norm"]) == [] and lora.modules_of(gpt2, ["wpe"]) == []
    assert lora.modules_of(llama, ["model.embed_tokens", "lm_head"]) == ["model.embed_tokens", "lm_head"]
    shapes = lora.factor_shapes(plain(GPT2), dict(rank=5, targets=["c_attn"]))
    assert shapes["base_model.model.transformer.h.0.attn.c_attn.lora_A.weight"] == (5, 24)
    assert shapes["base_model.model.transformer.h.0.attn.c_attn.lora_B.weight"] == (72, 5)


def test_four_bits():
    """Numbers of the code book do not change if the scales of the blocks are equal; others change by at most half a gap; zeros remain zeros. The map
    of scales has 256 numbers."""
    numbers = lora.dynamic_map()
    assert len(set(numbers)) == 256 and numbers[-1] == 1 and 0 in numbers and -0.9929688 < numbers[0] < -0.9929687
    assert numpy.allclose(lora.through_nf4(numpy.tile(lora.NF4, 40).reshape(20, 32) * 0.25), numpy.tile(lora.NF4, 40).reshape(20, 32) * 0.25, atol=1e-15)
    assert (lora.through_nf4(numpy.zeros((3, 50))) == 0).all()
    values = numpy.random.default_rng(0).normal(0, 0.1, (70, 90))
    flat, found = lora.in_blocks(values, 64), lora.in_blocks(lora.through_nf4(values), 64)
    largest = numpy.abs(flat).max(1, keepdims=True)
    assert (numpy.abs(flat - found) <= (numpy.diff(lora.NF4).max() / 2 + 0.03) * largest).all()
    assert 0.05 < numpy.linalg.norm(flat - found) / numpy.linalg.norm(flat) < 0.12


# ---- twenty steps ----------------------------------------------------------------------------------------------------

# case: (`optimizer`, targets of each family, `adapter`) of a run file.
CASES = {
    "q and v": ({}, dict(gpt2=["c_attn"], llama=["q_proj", "v_proj"]), dict(rank=8, alpha=16)),
    "all": ({}, dict(gpt2="all-linear", llama="all-linear"), dict(rank=3, alpha=3)),
    "all, each by its name": ({}, dict(gpt2=["c_proj", "c_attn", "c_fc"], llama=["down_proj", "up_proj", "gate_proj", "o_proj", "v_proj", "k_proj", "q_proj"]),
                              dict(rank=2, alpha=5)),
    "k and out": (dict(clip=0, weight_decay=0.0, decay="cosine", warmup=4), dict(gpt2=["c_proj"], llama=["k_proj", "o_proj", "down_proj"]), dict(rank=5, alpha=1.5)),
    "patterns": ({}, dict(gpt2="all-linear", llama="all-linear"), dict(rank=3, alpha=4, rank_pattern={r"1\..*(attn|up_proj|c_fc)": 5, "c_attn": 1, "k_proj": 2, r".*\.v_proj": 4},
                                                                       alpha_pattern={"h.0.attn.c_attn": 7, r"layers\.1\.self_attn\.[qv]_proj": 7.5, "down_proj|c_fc": 1})),
    "patterns with rslora": ({}, dict(gpt2=["c_attn", "c_proj"], llama=["k_proj", "v_proj", "gate_proj", "up_proj"]),
                             dict(rank=2, scaling="rslora", rank_pattern={"c_attn": 5, "v_proj": 5, "gate_proj": 1}, alpha_pattern={"1.attn.c_attn|1.mlp.gate_proj": 0.5})),
    "rslora": ({}, dict(gpt2=["c_proj", "c_attn"], llama=["q_proj", "k_proj", "down_proj"]), dict(rank=5, alpha=3, scaling="rslora")),
    "magnitudes": ({}, dict(gpt2="all-linear", llama="all-linear"), dict(rank=3, alpha=4, magnitude=True)),
    "magnitudes of some": ({}, dict(gpt2=["c_attn", "c_proj"], llama=["k_proj", "gate_proj", "down_proj"]), dict(rank=2, alpha=5, scaling="rslora", magnitude=True)),
    "rank 1": (dict(matrices=dict(lr_scale=3.0, weight_decay_scale=2.0)), dict(gpt2=["c_fc"], llama=["gate_proj"]), dict(rank=1, alpha=0.25)),
}
OTHERS = {"lion": dict(name="lion", lr=1e-3), "sgd": dict(name="sgd", lr=0.3), "muon": dict(name="muon", lr=5e-3),
          "schedule_free": dict(name="schedule_free", warmup=5)}


def family_of(model):
    return "gpt2" if model["family"] == "gpt2" else "llama"


def adapter_for(case, model):
    keys, targets, adapter = CASES[case]
    return dict(keys), of_targets(model, dict(adapter, targets=targets[family_of(model)]))


def of_targets(model, adapter):
    """The adapter without patterns that are of other families' modules, which are refused."""
    modules = lora.modules_of({name: w.shape for name, w in plain(model).items()}, adapter["targets"])
    kept = {key: {pattern: value for pattern, value in adapter[key].items() if any(lora.pattern_of({pattern: True}, module, False) for module in modules)}
            for key in ("rank_pattern", "alpha_pattern") if key in adapter}
    return {**adapter, **kept}


def check_files(folder, model, adapter, weights, trained):
    """Checks that a checkpoint of an adapter has PEFT's two files and the optimizer states of the trained parameters, and not the base."""
    newest = newest_of(folder / "run")
    assert (newest / "state.json").exists() and not list(newest.glob("model*.safetensors"))
    factors, others, config = lora.read_peft(newest)
    assert {name: values.shape for name, values in factors.items()} == lora.factor_shapes(weights, adapter) and set(others) == set(trained)
    check_config(config, model, adapter, weights)
    states = states_of(folder / "run")
    frozen = [name for name in states if any(name.startswith(weight + ".") for weight in weights if weight not in trained)]
    assert not frozen and len(states) >= len(factors), frozen


def check_config(config, model, adapter, weights):
    plain_config = lora.peft_config(model, adapter)
    for key in ("peft_type", "task_type", "r", "lora_alpha", "fan_in_fan_out", "bias"):
        assert config[key] == plain_config[key], (key, config[key])
    assert config["lora_dropout"] == adapter.get("dropout", 0.0) and isinstance(config["base_model_name_or_path"], str)
    for key in ("use_rslora", "use_dora", "init_lora_weights", "rank_pattern", "alpha_pattern"):
        assert config[key] == plain_config[key], (key, config[key])
    assert list(config["rank_pattern"]) == list(plain_config["rank_pattern"]) and list(config["alpha_pattern"]) == list(plain_config["alpha_pattern"])
    assert not config.get("layers_to_transform")
    shapes = {name: w.shape for name, w in weights.items()}
    assert lora.modules_of(shapes, config["target_modules"]) == lora.modules_of(shapes, adapter["targets"])


def check_twenty(tmp_path, corpus, model, keys, adapter, trained=(), factors=None, tolerance=1e-10):
    """The program's steps, from the factors that it draws unless there are some, beside ours."""
    start, weights = start_from(tmp_path, model)
    base = arrays_of(weights)
    if factors is None:
        factors = first_factors(tmp_path / "first", corpus, model, start, adapter, precision="fp64")
    path = write_run(tmp_path, corpus, keys, model=model, precision="fp64", init=str(start), adapter=adapter, evaluation=dict(every=STEPS, batches=1000))
    trireme("train", path)
    optimizer = json.loads(path.read_text())["optimizer"]
    expected = lora.train(model, base, factors, lora.scale_of(adapter), batches_of(tmp_path, corpus, model), optimizer, trained)
    lines = lines_of(tmp_path / "run")
    close([line["loss"] for line in lines], expected["loss"], tolerance)
    close([line["grad_norm"] for line in lines], expected["norm"], tolerance)
    found, others = lora.read_factors(newest_of(tmp_path / "run"))
    check_weights(found, expected["factors"], tolerance)
    assert set(trained) <= set(others) <= set(base)
    for name, values in others.items():
        if name in trained:
            assert numpy.linalg.norm(values - expected["weights"][name]) <= tolerance * numpy.linalg.norm(values), name
        else:
            assert (values == base[name]).all(), f"{name} is not trained and has changed"
    at_end = lora.merged(expected["weights"], expected["factors"], lora.scale_of(adapter))
    assert abs(lines[-1]["validation_loss"] / loss_of(model, at_end, corpus / "validation") - 1) < tolerance
    if "--merge" in trireme("export", "--help").stdout:
        check_files(tmp_path, model, adapter, base, trained)
    return expected, base


@adapters
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", MODELS)
def test_twenty_steps(tmp_path, corpus, name, case):
    keys, adapter = adapter_for(case, MODELS[name])
    expected, _ = check_twenty(tmp_path, corpus, MODELS[name], keys, adapter)
    assert expected["loss"][-1] < expected["loss"][0]


@adapters
@pytest.mark.parametrize("magnitude", [False, True], ids=["lora", "dora"])
@pytest.mark.parametrize("other", OTHERS)
def test_other_optimizers(tmp_path, corpus, other, magnitude):
    """A factor is a matrix like any other, and magnitudes are a vector like any other."""
    check_twenty(tmp_path, corpus, LLAMA, OTHERS[other], dict(rank=3, alpha=6, targets=["q_proj", "down_proj"], **dict(magnitude=True) if magnitude else {}))


TRAINED = {"gpt2": [["transformer.ln_f.*"], ["*.c_proj.bias", "transformer.wte.*"]], "llama": [["*norm.weight"], ["model.embed_tokens.*", "lm_head.*"], ["*.k_proj.weight", "*.1.mlp.up_proj.weight"]],
           "qwen3": [["*.[qk]_norm.weight", "model.embed_tokens.weight"]]}


def matched(names, patterns):
    found = [name for name in names if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)]
    assert all(any(fnmatch.fnmatchcase(name, pattern) for name in names) for pattern in patterns), patterns
    return found


@adapters
@trains
@pytest.mark.parametrize("name, patterns", [(name, patterns) for name in MODELS for patterns in TRAINED[name]], ids=str)
def test_weights_that_are_trained_beside(tmp_path, corpus, name, patterns):
    model = MODELS[name]
    trained = matched(arrays_of(start_from(tmp_path, model)[1]), patterns)
    keys, adapter = adapter_for("q and v", model)
    check_twenty(tmp_path, corpus, model, keys, dict(adapter, train=patterns), trained)


@adapters
@files
@imports
@pytest.mark.parametrize("name", MODELS)
def test_factors_of_others(tmp_path, corpus, name):
    """A folder that PEFT would have written: training begins with its factors, neither of them zero."""
    model = MODELS[name]
    keys, adapter = adapter_for("all", model)
    base = arrays_of(start_from(tmp_path, model)[1])
    factors = lora.drawn_factors(base, adapter)
    written = dict(adapter, targets=sorted({module.split(".")[-1] for module in lora.modules_of({n: w.shape for n, w in base.items()}, "all-linear")}))
    given = lora.write_peft(tmp_path / "given", model, written, factors)
    check_twenty(tmp_path, corpus, model, keys, {**adapter, "from": str(given)}, factors=factors)


@adapters
@pytest.mark.parametrize("name", MODELS)
def test_what_training_begins_with(tmp_path, corpus, name):
    """B is nothing, A is drawn: each its own, small, and another with another seed; so the first loss is the base's."""
    model = MODELS[name]
    _, adapter = adapter_for("all", model)
    start, weights = start_from(tmp_path, model)
    factors = first_factors(tmp_path / "a", corpus, model, start, adapter, precision="fp64")
    again = first_factors(tmp_path / "b", corpus, model, start, adapter, precision="fp64", seed=8)
    assert all((values == 0).all() == key.endswith(lora.ENDS[1]) for key, values in factors.items())
    drawn_ones = {key: values for key, values in factors.items() if key.endswith(lora.ENDS[0])}
    for key, values in drawn_ones.items():
        inside = values.shape[1]
        spread = values.std() * numpy.sqrt(3 * inside)  # 1 where they are drawn as torch.nn.Linear draws
        assert abs(values.mean()) < 4 * values.std() / numpy.sqrt(values.size) and values.std() > 0 and spread < 10, (key, spread)
        assert (values != again[key]).mean() > 0.99, key
    for one, other in itertools.combinations(drawn_ones, 2):
        if drawn_ones[one].shape == drawn_ones[other].shape:
            assert (drawn_ones[one] != drawn_ones[other]).mean() > 0.99, (one, other)
    gaussian = first_factors(tmp_path / "c", corpus, model, start, dict(adapter, rank=8, init="gaussian"), precision="fp64")
    scaled = numpy.concatenate([8 * values.ravel() for key, values in gaussian.items() if key.endswith(lora.ENDS[0])])
    assert all((values == 0).all() == key.endswith(lora.ENDS[1]) for key, values in gaussian.items())
    assert abs(scaled.mean()) < 4 / numpy.sqrt(scaled.size) and abs(scaled.std() - 1) < 4 / numpy.sqrt(2 * scaled.size)
    assert abs((scaled**4).mean() - 3) < 4 * numpy.sqrt(96 / scaled.size) and numpy.abs(scaled).max() > 3  # normal, not uniform
    assert lora.read_peft(newest_of(tmp_path / "c/run"))[2]["init_lora_weights"] == "gaussian"
    (ids, labels), *_ = batches_of(tmp_path, corpus, model, 1)
    assert abs(lines_of(tmp_path / "a/run")[0]["loss"] / loss_at(model, arrays_of(weights), ids, labels) - 1) < 1e-12


# ---- dropout ---------------------------------------------------------------------------------------------------------

@adapters
@pytest.mark.parametrize("magnitude", [False, True])
def test_dropout(tmp_path, corpus, magnitude):
    """For a single token x, the gradient of B is scale dy (A drop(x))^T. With a known, square A, drop(x) can be computed: each element is that of x
    times 0 or 1 / (1 - p). Magnitudes, which begin as norms, use the matrix's product with the same x, as in PEFT."""
    model, p = {**LLAMA, "num_layers": 1}, 0.25
    start, weights = start_from(tmp_path, model)
    adapter = dict(rank=32, alpha=16, dropout=p, targets=["o_proj"], magnitude=magnitude)
    factors = first_factors(tmp_path / "first", corpus, model, start, adapter, precision="fp64")
    keys = dict(name="sgd", lr=1.0, steps=1, clip=0, weight_decay=0.0, global_batch=1, sgd=dict(momentum=0.0))
    data = dict(train=str(corpus / "train"), sequence=1)
    path = write_run(tmp_path, corpus, keys, model=model, precision="fp64", init=str(start), adapter=adapter, layout=dict(micro_batch=1), data=data)
    trireme("train", path)
    found = lora.read_factors(newest_of(tmp_path / "run"))[0]
    name_a, name_b = (lora.PREFIX + "model.layers.0.self_attn.o_proj" + end for end in lora.ENDS)
    mine = -found[name_b] / 0.5 @ numpy.linalg.inv(factors[name_a]).T  # dy drop(x)^T
    ids, labels = one_token(tmp_path, corpus, model)
    tensors = weights.tensors()
    models.loss(model, tensors, ids, labels).backward()
    ratio = mine / tensors["model.layers.0.self_attn.o_proj.weight"].grad.numpy()
    kept = numpy.round(ratio * (1 - p))
    assert numpy.abs(ratio * (1 - p) - kept).max() < 1e-6 and set(kept.reshape(-1)) == {0, 1}
    assert (kept == kept[0]).all(), "rows differ"
    assert 1 <= 32 - kept[0].sum() <= 20
    if magnitude:
        w, gradient = (numpy.asarray(t.detach()) for t in (tensors["model.layers.0.self_attn.o_proj.weight"], tensors["model.layers.0.self_attn.o_proj.weight"].grad))
        norms = numpy.sqrt((w**2).sum(1))
        name = lora.PREFIX + "model.layers.0.self_attn.o_proj" + lora.MAGNITUDE
        assert numpy.abs(factors[name] - norms).max() < 1e-12
        expected = norms - (gradient * (kept[0] / (1 - p)) * w).sum(1) / norms
        assert numpy.abs(found[name] - expected).max() < 1e-9


def one_token(folder, corpus, model):
    out = folder / "one.bin"
    tool("samples", corpus / "train", 1, model["vocab_size"], 7, 1, out, "joined", "windows", -1)
    ids, labels, _ = torch.tensor(numpy.fromfile(out, numpy.int32).astype(numpy.int64)).reshape(3, 1, 1)
    return ids, labels


@adapters
@pytest.mark.parametrize("name", MODELS)
def test_dropout_is_of_training_alone(tmp_path, corpus, name):
    """It changes the course, not what is evaluated."""
    model, courses = MODELS[name], []
    _, adapter = adapter_for("all", model)
    start, weights = start_from(tmp_path, model)
    for dropout in (0.0, 0.4):
        folder, one = tmp_path / str(dropout), dict(adapter, dropout=dropout)
        trireme("train", write_run(folder, corpus, {}, model=model, precision="fp64", init=str(start), adapter=one, evaluation=dict(every=STEPS, batches=1000)))
        lines, newest = lines_of(folder / "run"), newest_of(folder / "run")
        factors = lora.read_factors(newest)[0]
        expected = loss_of(model, lora.merged(arrays_of(weights), factors, 1.0), corpus / "validation")
        assert abs(lines[-1]["validation_loss"] / expected - 1) < 1e-10
        if "--merge" in trireme("export", "--help").stdout:
            assert lora.read_peft(newest)[2]["lora_dropout"] == dropout and abs(evaluated(folder / "run", corpus) / expected - 1) < 1e-10
        courses.append([line["loss"] for line in lines])
    assert abs(courses[0][0] / courses[1][0] - 1) < 1e-12, "nothing is dropped where B is 0"
    assert abs(courses[0][-1] / courses[1][-1] - 1) > 1e-6


# ---- merged, and what other commands make of it ----------------------------------------------------------------------

def trained_run(folder, corpus, model, adapter, steps=6, **more):
    start, weights = start_from(folder, model)
    trireme("train", write_run(folder, corpus, dict(steps=steps, lr=1e-2), model=model, precision="fp64", init=str(start), adapter=adapter, **more))
    factors, _, _ = lora.read_peft(newest_of(folder / "run"))
    return lora.merged(arrays_of(weights), factors, lora.scale_of(adapter)), factors, start


@adapters
@files
@pytest.mark.parametrize("name", MODELS)
def test_merged(tmp_path, corpus, name):
    """W + scale B A, in the numbers that a folder has; its loss is that of the run, which both are PyTorch's."""
    model = MODELS[name]
    _, adapter = adapter_for("all", model)
    expected, _, start = trained_run(tmp_path, corpus, model, dict(adapter, alpha=7.5))
    trireme("export", "--merge", tmp_path / "run", tmp_path / "merged")
    files = {path.name for path in (tmp_path / "merged").iterdir()}
    assert not any(name.startswith("adapter") for name in files) and "config.json" in files
    theirs = json.loads((start / "config.json").read_text())
    config = json.loads((tmp_path / "merged/config.json").read_text())
    assert config["model_type"] == theirs["model_type"] and config["vocab_size"] == theirs["vocab_size"]
    found = tensors_of((tmp_path / "merged").glob("model*.safetensors"))
    assert set(found) == set(expected)
    wide = all(values.dtype == numpy.float64 for values in found.values())
    for key, values in expected.items():
        difference = numpy.abs(found[key] - values)
        assert (difference <= (1e-15 if wide else 2.0**-24) * numpy.abs(values) + 1e-15).all(), (key, difference.max())
    at_file, at_run = loss_of(model, {key: values.astype(float) for key, values in found.items()}, corpus / "validation"), loss_of(model, expected, corpus / "validation")
    assert abs(evaluated(tmp_path / "merged", corpus) / at_file - 1) < 1e-12
    assert abs(evaluated(tmp_path / "run", corpus) / at_run - 1) < 1e-12
    assert abs(at_file / at_run - 1) < (1e-12 if wide else 1e-6)
    trireme("export", "--merge", newest_of(tmp_path / "run"), tmp_path / "again", "--precision", "bf16")
    halves = tensors_of((tmp_path / "again").glob("model*.safetensors"))
    assert all(numpy.abs(halves[key] - expected[key]).max() <= 2.0**-8 * numpy.abs(expected[key]).max() for key in expected)


@adapters
@files
@pytest.mark.parametrize("name", MODELS)
def test_exported_factors(tmp_path, corpus, name):
    """A folder as PEFT has it: the factors and the configuration, nothing of the base; it begins another run, the same."""
    model = MODELS[name]
    _, adapter = adapter_for("q and v", model)
    _, factors, start = trained_run(tmp_path, corpus, model, adapter)
    trireme("export", tmp_path / "run", tmp_path / "peft")
    files = {path.name for path in (tmp_path / "peft").iterdir()}
    assert {"adapter_config.json", "adapter_model.safetensors"} <= files and not any(file.startswith(("model", "optimizer", "state")) for file in files), files
    found, others, config = lora.read_peft(tmp_path / "peft")
    check_config(config, model, adapter, lora_base(start))
    assert not others and set(found) == set(factors)
    for key in factors:
        assert (numpy.abs(found[key] - factors[key]) <= 2.0**-23 * numpy.abs(factors[key])).all(), key
    if "adapter.from" in keys_there_are():
        again = first_factors(tmp_path / "again", corpus, model, start, {**adapter, "from": str(tmp_path / "peft")}, precision="fp64")
        check_weights(again, found, 1e-15)


def lora_base(start):
    return {name: values.astype(float) for name, values in tensors_of(start.glob("model*.safetensors")).items()}


def greedy(model, arrays, prompt, count):
    tensors, ids = as_tensors(arrays), list(prompt)
    with torch.no_grad():
        for _ in range(count):
            ids.append(int(models.logits(model, tensors, torch.tensor([ids]))[0, -1].argmax()))
    return ids[len(prompt) :]


@adapters
@files
@pytest.mark.parametrize("name", MODELS)
def test_generated(tmp_path, corpus, name):
    """The run's text is the merged folder's, and that of PyTorch's likeliest tokens."""
    model = MODELS[name]
    _, adapter = adapter_for("all", model)
    expected, _, start = trained_run(tmp_path, corpus, model, dict(adapter, rank=8, alpha=32), steps=STEPS)
    trireme("export", "--merge", tmp_path / "run", tmp_path / "merged")
    prompt, words = "The 3 oars", ("--temperature", 0, "--tokens", 8, *IN_DOUBLE)
    tokenizer = ["--tokenizer", next(corpus.glob("*tokenizer*.json"), newest_of(tmp_path / "run") / "tokenizer.json")]
    texts = [trireme("generate", folder, "--prompt", prompt, *words, *tokenizer, errors="replace").stdout for folder in (tmp_path / "run", newest_of(tmp_path / "run"), tmp_path / "merged")]
    assert texts[0] == texts[1] == texts[2]
    ids = greedy(model, expected, prompt.encode(), 8)
    if all(32 <= token < 127 for token in ids):
        assert texts[0].rstrip("\n") == (prompt + bytes(ids).decode()).rstrip("\n")


# ---- frozen ----------------------------------------------------------------------------------------------------------

FROZEN = {
    "gpt2": [["transformer.wte.*", "transformer.wpe.*"], ["*.bias"], ["transformer.h.0.*"], ["transformer.h.[1-9].*", "transformer.ln_f.*"], ["*.c_attn.*"]],
    "llama": [["model.embed_tokens.*"], ["*norm.weight", "lm_head.weight"], ["model.embed_tokens.weight", "model.layers.0.*"], ["*.self_attn.?_proj.weight"],
              ["model.layers.*"], ["*.q_proj.weight", "*.0.mlp.gate_proj.weight"], ["*.k_proj.weight"]],
    "qwen3": [["*.v_proj.weight", "*.up_proj.weight"], ["*.[qk]_norm.weight"], ["*mlp*"], ["model.embed_tokens.weight", "model.layers.0.self_attn.*"]],
}
FREEZES = [(name, patterns) for name in MODELS for patterns in FROZEN[name]]


def train_frozen(model, weights, frozen, samples, keys):
    """As optimizers.train, with requires_grad taken from those that are frozen: they decay no more than they learn."""
    tensors = {name: torch.tensor(values, requires_grad=name not in frozen) for name, values in weights.items()}
    return lora.train(model, {name: p.detach().numpy() for name, p in tensors.items()}, {}, 1.0, samples, keys, [n for n in weights if n not in frozen])


def check_frozen(folder, base, frozen, expected, tolerance=1e-10):
    found = weights_of(folder)
    for name in frozen:
        assert found[name].astype(float).tobytes() == base[name].tobytes(), f"{name} is frozen and has changed"
    check_weights(found, expected["weights"], tolerance)
    states = states_of(folder)
    assert not [name for name in states if any(name.startswith(weight + ".") for weight in frozen)]
    assert all(any(name.startswith(weight + ".") for name in states) for weight in base if weight not in frozen)


@freezing
@pytest.mark.parametrize("name, patterns", FREEZES, ids=str)
def test_frozen(tmp_path, corpus, name, patterns):
    model = MODELS[name]
    start, weights = start_from(tmp_path, model)
    base = arrays_of(weights)
    frozen = matched(base, patterns)
    path = write_run(tmp_path, corpus, {}, model=model, precision="fp64", init=str(start), freeze=patterns)
    trireme("train", path)
    expected = train_frozen(model, base, frozen, batches_of(tmp_path, corpus, model), json.loads(path.read_text())["optimizer"])
    lines = lines_of(tmp_path / "run")
    close([line["loss"] for line in lines], expected["loss"])
    close([line["grad_norm"] for line in lines], expected["norm"])
    check_frozen(tmp_path / "run", base, frozen, expected)


@freezing
@pytest.mark.parametrize("other", OTHERS)
def test_frozen_with_other_optimizers(tmp_path, corpus, other):
    """Among them such as work on whole matrices, and such as keep another point than the weights."""
    start, weights = start_from(tmp_path, LLAMA)
    base, patterns = arrays_of(weights), ["model.layers.0.*", "lm_head.weight"]
    path = write_run(tmp_path, corpus, OTHERS[other], model=LLAMA, precision="fp64", init=str(start), freeze=patterns)
    trireme("train", path)
    frozen = matched(base, patterns)
    expected = train_frozen(LLAMA, base, frozen, batches_of(tmp_path, corpus, LLAMA), json.loads(path.read_text())["optimizer"])
    close([line["loss"] for line in lines_of(tmp_path / "run")], expected["loss"])
    check_frozen(tmp_path / "run", base, frozen, expected)


@freezing
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_frozen_in_other_types(tmp_path, corpus, precision):
    """A checkpoint has the bits of the folder's fp32 weights if the type in which the run stores them can represent them."""
    start, weights = start_from(tmp_path, LLAMA)
    trireme("train", write_run(tmp_path, corpus, dict(steps=4), model=LLAMA, precision=precision, init=str(start), freeze=["model.layers.*"]))
    found, base = weights_of(tmp_path / "run"), arrays_of(weights)
    for name in matched(base, ["model.layers.*"]):
        near = numpy.abs(found[name] - base[name]) <= (0 if precision == "fp32" else 2.0**-8 * numpy.abs(base[name]))
        assert near.all(), name
    assert all((found[name] != base[name]).any() for name in ("model.embed_tokens.weight", "lm_head.weight"))


# ---- layouts ---------------------------------------------------------------------------------------------------------

LAYOUTS = [
    (1, dict(recompute="full")), (1, dict(recompute="selective")), (1, dict(schedule="zero-bubble")), (1, dict(micro_batch=4)),
    (2, dict(tensor=2)), (2, dict(tensor=2, sequence_parallel=True)), (4, dict(tensor=4)), (2, dict(tensor=2, sequence_parallel=True, recompute="full")),
    (2, dict(tensor=2, recompute="selective")),
    (2, dict(pipeline=2)), (2, dict(pipeline=2, recompute="full")), (2, dict(pipeline=2, schedule="zero-bubble")), (3, dict(pipeline=3, schedule="gpipe")),
    (2, dict(data=2)), (2, dict(data=2, zero=1)), (2, dict(data=2, zero=2)), (2, dict(data=2, zero=3)), (2, dict(data=2, zero=1, bucket_bytes=600)),
    (2, dict(data=2, zero=3, bucket_bytes=600, recompute="full")), (4, dict(data=4, zero=2, bucket_bytes=1)),
    (2, dict(context=2)), (2, dict(context=2, context_exchange="ring", zero=1)), (2, dict(context=2, context_exchange="heads")), (4, dict(context=2, data=2, zero=3)),
    (4, dict(tensor=2, pipeline=2)), (4, dict(tensor=2, pipeline=2, sequence_parallel=True, schedule="zero-bubble")),
    (4, dict(pipeline=2, data=2, zero=1)), (4, dict(pipeline=2, data=2, zero=2)), (4, dict(pipeline=2, data=2, zero=3)),
    (4, dict(tensor=2, data=2, zero=1)), (4, dict(tensor=2, data=2, zero=3, sequence_parallel=True, recompute="full")), (4, dict(tensor=2, context=2, zero=1)),
]
# Always among those that are drawn, so that each kind of layout is looked at, and some that are to have equal bits.
KERNEL = [(2, dict(tensor=2)), (2, dict(data=2, zero=3)), (1, dict(recompute="selective")), (2, dict(pipeline=2)), (2, dict(data=2)), (2, dict(data=2, zero=1)),
          (1, dict(recompute="full")), (2, dict(context=2)), (4, dict(tensor=2, pipeline=2)), (2, dict(tensor=2, sequence_parallel=True))]


def words_of_layout(layout):
    return {key: str(value).lower() if isinstance(value, bool) else value for key, value in layout.items()}


def fits(model, layout):
    tensor, kv = layout.get("tensor", 1), model.get("num_kv_heads", model["num_heads"])
    context = layout.get("context", 1) if layout.get("context_exchange") == "heads" else 1
    return model["num_heads"] % tensor == 0 and model["num_heads"] // tensor % context == 0 and max(kv, tensor) % min(kv, tensor) == 0 and (
        kv % context == 0 or context % kv == 0)


def layouts_for(model, what, every=8, kernel=4):
    """The first ones of the kernel, and a sample of the others."""
    always = KERNEL[:kernel]
    some = drawn([pair for pair in LAYOUTS if fits(model, pair[1]) and pair not in always], every, what)
    return [*[pair for pair in always if fits(model, pair[1])], *some]


def shared_by(layout):
    """What decides bits, as same_sums of the tests of optimizers has it."""
    return same_sums(words_of_layout({"micro_batch": 1, **layout}))


def of_run(folder):
    """All tensors that a checkpoint has, and the course."""
    newest = newest_of(folder / "run")
    tensors = tensors_of(sorted(newest.glob("*.safetensors")))
    return tensors, [[line[key] for line in lines_of(folder / "run") for key in ("loss", "grad_norm", "validation_loss") if key in line]]


def exported_start(folder, corpus, model):
    """The same as start_from for any family: the program's own first weights."""
    trireme("train", write_run(folder / "drawn", corpus, dict(steps=1, lr=0.0), model=model))
    trireme("export", folder / "drawn/run", folder / "start")
    return folder / "start"


def check_layouts(folder, corpus, model, layouts, keys, tolerance=1e-10, start=None, **more):
    """Runs of the program from the user's side: everything that a checkpoint holds, and what was predicted of every rank's memory."""
    start = start or start_from(folder, model)[0]
    common = dict(model=model, precision="fp64", init=str(start), evaluation=dict(every=2, batches=1000), **more)
    keys = {**dict(steps=4, lr=1e-2, global_batch=8), **keys}
    groups, one = {}, None
    for ranks, layout in [(1, {}), *layouts]:
        name = "-".join(map(str, [ranks, *itertools.chain(*layout.items())]))
        trireme("train", write_run(folder / name, corpus, keys, layout={"micro_batch": 1, **layout}, **common), *ranks_words(ranks), timeout=300)
        tensors, course = of_run(folder / name)
        one = one or (tensors, course)
        assert tensors.keys() == one[0].keys(), name
        close(course, one[1], tolerance)
        for tensor, values in one[0].items():
            error = numpy.linalg.norm(tensors[tensor] - values)
            assert error <= max(tolerance * numpy.linalg.norm(values), 1e-14), (name, tensor, error / max(numpy.linalg.norm(values), 1e-30))
        other = groups.setdefault(shared_by(layout), (name, tensors, course))
        different = [tensor for tensor, values in tensors.items() if not numpy.array_equal(values, other[1][tensor])]
        assert not different, (name, other[0], "differ in bits", different)
        assert course[0][: keys["steps"] * 2] == other[2][0][: keys["steps"] * 2], (name, other[0], "losses or norms differ in bits")
        summary = json.load(open(folder / name / "run/summary.json"))
        assert summary["peak_bytes_predicted"] == summary["peak_bytes_measured"], (name, summary["peak_bytes_predicted"], summary["peak_bytes_measured"])
    return start, one


# Eight heads, two of keys: copies where four ranks split them. Nothing is a multiple of anything.
WIDE = {"gpt2": dict(GPT2, num_heads=6, ffn_size=26), "llama": dict(LLAMA, num_heads=8), "qwen3": QWEN3}


@adapters
@needs_ranks
@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("name", WIDE)
def test_layouts(tmp_path, corpus, name, dropout):
    """All targets at once. Dropout depends on the position in the batch, so it is the same under all layouts."""
    adapter = dict(rank=3, alpha=6, dropout=dropout, targets="all-linear")
    layouts = layouts_for(WIDE[name], f"{name} {dropout}", 8, len(KERNEL) if dropout == 0 else 4)
    _, (tensors, _) = check_layouts(tmp_path, corpus, WIDE[name], layouts, {}, adapter=adapter)
    assert sum(name.endswith(lora.ENDS) for name in tensors) == 2 * 2 * (4 if name == "gpt2" else 7)


@adapters
@needs_ranks
@pytest.mark.parametrize("scaling", ["lora", "rslora"])
@pytest.mark.parametrize("name", WIDE)
def test_layouts_of_patterns(tmp_path, corpus, name, scaling):
    """Factors with different ranks and scales, also for matrices that share a product."""
    adapter = dict(rank=3, alpha=6, dropout=0.2 if scaling == "lora" else 0.0, targets="all-linear", scaling=scaling, init="gaussian",
                   rank_pattern={"1.self_attn.k_proj": 1, "k_proj|v_proj|c_fc": 5, r"h\.\d\.attn\.c_attn": 2},
                   alpha_pattern={"q_proj|c_attn": 1.5, r"layers\.1\..*(gate|down)_proj": 11})
    adapter = of_targets(WIDE[name], adapter)
    check_layouts(tmp_path, corpus, WIDE[name], layouts_for(WIDE[name], f"patterns {name} {scaling}", 8, 6), {}, adapter=adapter)


@adapters
@needs_ranks
@pytest.mark.parametrize("kind, magnitude", [("none", False), ("nf4", True)])
def test_layouts_of_parts_of_products(tmp_path, corpus, kind, magnitude):
    """Parts of one product differ: q has factors, k is trained, v is neither; gate has factors, up is trained."""
    model = dict(WIDE["llama"], attention_bias=True)
    adapter = dict(rank=3, alpha=6, targets=["q_proj", "gate_proj"], train=["*.k_proj.weight", "*.k_proj.bias", "*.v_proj.bias", "*.up_proj.weight"], quantise=kind, magnitude=magnitude)
    check_layouts(tmp_path, corpus, model, layouts_for(model, f"parts {kind}", 8, 4), {}, start=exported_start(tmp_path, corpus, model), adapter=adapter)


@adapters
@needs_ranks
@pytest.mark.parametrize("kind, dropout", [("none", 0.0), ("none", 0.3), ("nf4", 0.0)])
@pytest.mark.parametrize("name", WIDE)
def test_layouts_of_magnitudes(tmp_path, corpus, name, kind, dropout):
    """If inputs are split, the norms of outputs are sums over ranks; under ZeRO 3 they are computed in each forward."""
    adapter = dict(rank=3, alpha=6, dropout=dropout, targets="all-linear", magnitude=True, quantise=kind, train=["*.bias"] if name == "gpt2" else [])
    check_layouts(tmp_path, corpus, WIDE[name], layouts_for(WIDE[name], f"magnitudes {name} {kind} {dropout}", 8, 4), {}, adapter=adapter)


@adapters
@needs_ranks
@pytest.mark.parametrize("targets", [["q_proj"], ["k_proj", "down_proj"], ["o_proj", "up_proj"]], ids=str)
def test_layouts_of_some_targets(tmp_path, corpus, targets):
    """Only some of the matrices of a product have an adapter; and only the last stage has trained parameters."""
    check_layouts(tmp_path, corpus, WIDE["llama"], layouts_for(WIDE["llama"], str(targets)), dict(name="muon") if len(targets) == 1 else {},
                  adapter=dict(rank=2, alpha=1, targets=targets))


@adapters
@needs_ranks
def test_layouts_without_norms_before_layers(tmp_path, corpus):
    """The input of a layer is read by the matrix and by the dropout of its factors, and the residual sum lies over it unless both run again."""
    model = dict(LLAMA, family="olmo2")
    layouts = [(1, dict(recompute="full")), (1, dict(recompute="selective")), (2, dict(pipeline=2, recompute="full", schedule="zero-bubble"))]
    check_layouts(tmp_path, corpus, model, layouts, {}, adapter=dict(rank=2, alpha=4, dropout=0.3))


# The gradients of some weights depend on values of parameters: those of A on B, those of magnitudes on a bias.
GATHERED = [(2, dict(data=2, zero=3)), (2, dict(data=2, zero=3, bucket_bytes=1)), (2, dict(data=2, zero=3, bucket_bytes=1, schedule="zero-bubble")),
            (2, dict(data=2, zero=3, bucket_bytes=1, schedule="zero-bubble", recompute="selective"))]
GATHER_CASES = {"linear": ("llama", dict(targets="all-linear")), "biases": ("gpt2", dict(targets="all-linear", magnitude=True, train=["*.bias"])),
                "embeddings": ("llama", dict(targets=["embed_tokens", "lm_head", "1.mlp.up_proj"])), "head": ("llama", dict(targets=["lm_head"]))}


@adapters
@needs_ranks
@pytest.mark.parametrize("case", GATHER_CASES)
def test_layouts_that_gather_for_gradients_of_weights(tmp_path, corpus, case):
    """Zero-bubble computes the gradients of weights in passes of their own, after those of all layers' inputs."""
    name, adapter = GATHER_CASES[case]
    check_layouts(tmp_path, corpus, dict(WIDE[name], num_layers=5), GATHERED, {}, adapter=dict(rank=3, alpha=6, **adapter))


@adapters
@trains
@needs_ranks
def test_layouts_of_weights_trained_beside(tmp_path, corpus):
    """Tied embeddings on the first and the last stage, norms that all tensor ranks have."""
    check_layouts(tmp_path, corpus, QWEN3, layouts_for(QWEN3, "beside"), {}, adapter=dict(rank=2, alpha=1, targets=["v_proj"], train=["*norm.weight", "model.embed_tokens.*"]))


@freezing
@needs_ranks
@pytest.mark.parametrize("name, patterns", [("gpt2", ["transformer.wte.*", "*.bias"]), ("llama", ["model.layers.0.*", "model.embed_tokens.*"]),
                                            ("llama", ["model.layers.*"]), ("llama", ["*.k_proj.weight", "*.0.mlp.gate_proj.weight"]), ("qwen3", ["*.[qk]_norm.weight", "*.mlp.*"])], ids=str)
def test_layouts_of_frozen(tmp_path, corpus, name, patterns):
    """Buckets with frozen parts, and stages without trained parameters."""
    start, (tensors, _) = check_layouts(tmp_path, corpus, WIDE[name], layouts_for(WIDE[name], str(patterns)), {}, freeze=patterns)
    base = lora_base(start)
    for weight in matched(base, patterns):
        assert (tensors[weight] == base[weight]).all(), weight


BELOW = [(2, dict(pipeline=2)), (2, dict(pipeline=2, virtual_stages=2, schedule="interleaved", micro_batch_group=2)), (2, dict(pipeline=2, schedule="zero-bubble", recompute="full")),
         (4, dict(pipeline=4, schedule="gpipe")), (4, dict(pipeline=2, tensor=2, sequence_parallel=True, recompute="selective")), (4, dict(pipeline=2, data=2, zero=3)),
         (2, dict(pipeline=2, virtual_stages=3, schedule="interleaved")), (2, dict(context=2, recompute="full"))]


@freezing
@needs_ranks
@pytest.mark.parametrize("lowest", [1, 3, 5])
def test_gradients_end_at_the_lowest_trained_layer(tmp_path, corpus, lowest):
    """Stages below that layer, or partly above it, under each schedule; memory is as planned."""
    model = dict(WIDE["llama"], num_layers=6)
    patterns = ["model.embed_tokens.*"] + [f"model.layers.{layer}.*" for layer in range(lowest)]
    check_layouts(tmp_path, corpus, model, drawn_count(BELOW, 3, f"below {lowest}"), {}, freeze=patterns)


@adapters
@needs_ranks
def test_factors_in_upper_layers(tmp_path, corpus):
    check_layouts(tmp_path, corpus, dict(WIDE["llama"], num_layers=6), drawn_count(BELOW, 3, "factors"), {}, adapter=dict(rank=2, alpha=4, targets=["layers.3.self_attn.v_proj", "layers.4.mlp.down_proj"]))


@freezing
def test_frozen_layers_keep_no_activations(tmp_path, corpus):
    """And their products backward have no price."""
    model = dict(LLAMA, num_layers=8)
    start, _ = start_from(tmp_path, model)
    kept = []
    for frozen in (0, 4, 7):
        path = write_run(tmp_path, corpus, dict(steps=1), model=model, init=str(start), freeze=["model.embed_tokens.*"] + [f"model.layers.{layer}.*" for layer in range(frozen)])
        plan = trireme("train", "--dry-run", "--verbose", path).stdout
        kept.append(int(re.search(r"activations kept +(\d+) bytes", plan)[1]))
    assert kept[0] > 1.7 * kept[1] and kept[1] > 2 * kept[2], kept


# Of experts: rounds beyond the first, shared ones whose input others read too, ranks that hold some of them alone.
EXPERT_LAYOUTS = [(2, dict(data=2, expert=2, expert_capacity=0.5)), (4, dict(data=4, expert=2, zero=3)), (4, dict(tensor=2, data=2, expert=2, zero=1)),
                  (4, dict(pipeline=2, data=2, expert=2, schedule="zero-bubble", recompute="experts")),
                  (4, dict(data=4, expert=2, expert_capacity=0.5, zero=3, bucket_bytes=1, schedule="zero-bubble"))]
EXPERT_CASES = {"frozen experts": ("mixtral", dict(freeze=["*.experts.*"])), "frozen routers": ("mixtral", dict(freeze=["*.gate.weight"])),
                "adapters": ("mixtral", dict(adapter=dict(rank=2, alpha=3, dropout=0.2))),
                "adapters of shared experts": ("dots1", dict(adapter=dict(rank=2, alpha=3, dropout=0.2, train=["*.experts.*_proj.weight"])))}


@adapters
@freezing
@needs_ranks
@pytest.mark.parametrize("case", EXPERT_CASES)
def test_layouts_of_experts(tmp_path, corpus, case):
    family, keys = EXPERT_CASES[case]
    model = {**expert_cases.MODELS[family], "vocab_size": 257, "max_sequence": 24}
    start, _ = start_from(tmp_path, model)
    common = dict(model=model, precision="fp64", init=str(start), **keys)
    runs = {}
    for ranks, layout in [(1, {}), *EXPERT_LAYOUTS]:
        folder = tmp_path / str(len(runs))
        trireme("train", write_run(folder, corpus, dict(steps=4, lr=1e-2, global_batch=8), layout={"micro_batch": 1, **layout}, **common), *ranks_words(ranks))
        runs[str(layout)] = of_run(folder)
    (expected, course), *others = runs.values()
    for (tensors, losses), layout in zip(others, EXPERT_LAYOUTS):
        close(losses, course)
        for name, values in expected.items():
            assert numpy.linalg.norm(tensors[name] - values) <= max(1e-9 * numpy.linalg.norm(values), 1e-13), (layout, name)


@adapters
@needs_ranks
@pytest.mark.parametrize("quantise, magnitude", [("none", False), ("nf4", False), ("none", True)])
def test_taken_up_under_another_layout(tmp_path, corpus, quantise, magnitude):
    """A checkpoint of any layout goes on under any other; the losses of all, and what is held in the end, are one rank's."""
    start, _ = start_from(tmp_path, LLAMA)
    adapter = dict(rank=3, alpha=6, dropout=0.1, targets="all-linear", quantise=quantise, magnitude=magnitude)
    layouts = [(1, {}), (2, dict(tensor=2)), (4, dict(pipeline=2, data=2, zero=3)), (2, dict(context=2, zero=1)), (2, dict(data=2, zero=2))]
    common = dict(model=LLAMA, precision="fp64", init=str(start), adapter=adapter)
    keys = dict(lr=1e-2, global_batch=8)
    trireme("train", write_run(tmp_path / "one", corpus, {**keys, "steps": 6}, layout=dict(micro_batch=1), **common))
    expected = of_run(tmp_path / "one")
    for (ranks, before), (others, after) in zip(layouts, layouts[1:] + layouts[:1]):
        folder = tmp_path / f"{before}-{after}".translate({ord(c): None for c in "{}' :,"})
        trireme("train", write_run(folder, corpus, {**keys, "steps": 3}, layout={"micro_batch": 1, **before}, **common), *ranks_words(ranks))
        trireme("train", write_run(folder, corpus, {**keys, "steps": 6}, layout={"micro_batch": 1, **after}, **common), *ranks_words(others))
        tensors, course = of_run(folder)
        close(course, expected[1])
        for tensor, values in expected[0].items():
            error = numpy.linalg.norm(tensors[tensor] - values)
            assert error <= max(1e-10 * numpy.linalg.norm(values), 1e-14), (before, after, tensor)


# ---- memory ----------------------------------------------------------------------------------------------------------

HEAVY = dict(family="llama", num_layers=3, vocab_size=257, max_sequence=24, init_std=0.1, hidden_size=192, num_heads=4, num_kv_heads=4, ffn_size=512)


def memory_of(folder, corpus, keys, precision="fp32", **more):
    trireme("train", write_run(folder, corpus, {**keys, "global_batch": 1, "steps": 1}, model=HEAVY, precision=precision, layout=dict(micro_batch=1), **more))
    summary = json.load(open(folder / "run/summary.json"))
    assert abs(summary["peak_bytes_predicted"] - summary["peak_bytes_measured"]) <= 0.01 * summary["peak_bytes_measured"]
    return summary["peak_bytes_predicted"]


@adapters
@pytest.mark.parametrize("name, states", [("adamw", 2), ("lion", 1)])
def test_memory_of_adapters(tmp_path, corpus, name, states):
    """In fp32 a trained element has its weight, its gradient and its states; a frozen one its weight alone."""
    start, weights = start_from(tmp_path, HEAVY)
    base, adapter = arrays_of(weights), dict(rank=4, alpha=8, targets=["q_proj", "v_proj"])
    elements = sum(values.size for values in base.values())
    own = sum(numpy.prod(shape) for shape in lora.factor_shapes(base, adapter).values())
    whole = memory_of(tmp_path / "whole", corpus, dict(name=name), init=str(start))
    adapted = memory_of(tmp_path / "adapted", corpus, dict(name=name), init=str(start), adapter=adapter)
    expected = 4 * (1 + states) * elements - 4 * (2 + states) * own
    assert abs((whole - adapted) / expected - 1) <= 0.05, (whole, adapted, whole - adapted, expected)
    assert adapted < 0.6 * whole


@adapters
def test_memory_of_frozen_weights_in_half(tmp_path, corpus):
    """In bf16 a trained element also has a weight and states in fp32; a frozen one needs only 2 bytes (embeddings may have more). The memory of a
    product in bf16 while it is computed depends on the machine."""
    start, weights = start_from(tmp_path, HEAVY)
    elements = sum(values.size for values in arrays_of(weights).values())
    parameters = {}
    for precision in ("bf16", "fp32"):
        memory_of(tmp_path / precision, corpus, {}, precision, init=str(start), adapter=dict(rank=4, alpha=8, targets="all-linear"))
        planned = trireme("train", tmp_path / precision / "run/config.yaml", "--dry-run", "--verbose").stdout
        parameters[precision] = int(re.search(r"^  parameters +(\d+) bytes", planned, re.MULTILINE)[1])
    assert 1.7 * elements < parameters["fp32"] - parameters["bf16"] <= 2 * elements, (parameters, elements)


@freezing
def test_memory_of_frozen(tmp_path, corpus):
    start, weights = start_from(tmp_path, HEAVY)
    base = arrays_of(weights)
    frozen = matched(base, ["model.layers.*.mlp.*"])
    elements = sum(base[name].size for name in frozen)
    whole = memory_of(tmp_path / "whole", corpus, {}, init=str(start))
    less = memory_of(tmp_path / "less", corpus, {}, init=str(start), freeze=["model.layers.*.mlp.*"])
    assert abs((whole - less) / (12 * elements) - 1) <= 0.05, (whole, less, whole - less, 12 * elements)


# ---- killed ----------------------------------------------------------------------------------------------------------

LONG = 240


def long_run(folder, corpus, start, **more):
    return write_run(folder, corpus, dict(steps=LONG), model=LLAMA, init=str(start), evaluation=dict(every=4, batches=1), checkpoint=dict(every=3, keep=0), **more)


def ended(folder):
    newest = newest_of(folder / "run")
    assert newest.name == f"step-{LONG:08d}"
    lines = lines_of(folder / "run")
    assert [line["step"] for line in lines] == list(range(1, LONG + 1))
    files = {path.name: path.read_bytes() for path in sorted(newest.glob("*.safetensors"))}
    return [(line["loss"], line["grad_norm"], line.get("validation_loss")) for line in lines], files


def kill_after(folder, path, step):
    """Whether it came to that: a run may be through before."""
    process = subprocess.Popen([TRIREME, "train", path], stderr=subprocess.DEVNULL)
    wait_for_step(folder, process, step)
    process.send_signal(signal.SIGKILL)
    return process.wait() == -signal.SIGKILL


KILLED = {"adapter": dict(adapter=dict(rank=4, alpha=8, dropout=0.2, targets="all-linear")),
          "adapter, trained beside": dict(adapter=dict(rank=4, alpha=8, targets=["v_proj"], train=["*norm.weight"])),
          "four bits": dict(adapter=dict(rank=4, alpha=8, targets=["v_proj", "down_proj"], train=["model.layers.1.*_proj.weight"], quantise="nf4")),
          "singular vectors": dict(adapter=dict(rank=4, alpha=8, dropout=0.2, init="pissa", targets=["v_proj", "down_proj"], train=["*norm.weight"])),
          "magnitudes": dict(adapter=dict(rank=4, alpha=8, dropout=0.2, magnitude=True, targets=["v_proj", "down_proj"], train=["*norm.weight"])),
          "frozen": dict(freeze=["model.embed_tokens.*", "model.layers.0.*"])}


@pytest.mark.parametrize("name", KILLED)
def test_killed_and_gone_on(tmp_path, corpus, name):
    more = KILLED[name]
    skip_without("freeze" if "freeze" in more else "adapter.rank", *(["adapter.train"] if "train" in more.get("adapter", {}) else []))
    start, _ = start_from(tmp_path, LLAMA)
    alone = tmp_path / "alone"
    trireme("train", long_run(alone, corpus, start, **more))
    for attempt in range(20):
        folder = tmp_path / f"killed-{attempt}"
        path = long_run(folder, corpus, start, **more)
        kills = [kill_after(folder, path, 8), kill_after(folder, path, 20)]
        trireme("train", path)
        assert ended(folder) == ended(alone)
        if all(kills):
            return
    raise AssertionError("no run was ever killed in time")


# ---- four bits -------------------------------------------------------------------------------------------------------

# Rows of whole blocks: 64 elements, and 256 blocks in the layers' larger matrices.
FOUR = dict(family="llama", **SMALL, hidden_size=128, num_heads=4, num_kv_heads=2, ffn_size=192)
QUANTISED = dict(rank=4, alpha=8, targets="all-linear", quantise="nf4")


@adapters
@quantises
def test_four_bits_under_an_adapter(tmp_path, corpus):
    """As plain training over what NF4 makes of the layers' matrices. Scales are in single on the way, so it is not to 1e-10."""
    start, weights = start_from(tmp_path, FOUR)
    adapter = dict(rank=4, alpha=8, targets="all-linear", quantise="nf4")
    factors = first_factors(tmp_path / "first", corpus, FOUR, start, adapter, precision="fp64")
    path = write_run(tmp_path, corpus, dict(name="sgd", lr=0.3, steps=6), model=FOUR, precision="fp64", init=str(start), adapter=adapter)
    trireme("train", path)
    base, samples, optimizer = arrays_of(weights), batches_of(tmp_path, corpus, FOUR, 6), json.loads(path.read_text())["optimizer"]
    expected = lora.train(FOUR, lora.quantised(base), factors, 2.0, samples, optimizer)
    whole = lora.train(FOUR, base, factors, 2.0, samples, optimizer)
    close([line["loss"] for line in lines_of(tmp_path / "run")], expected["loss"], 1e-6)
    check_weights(lora.read_factors(newest_of(tmp_path / "run"))[0], expected["factors"], 1e-5)
    assert abs(expected["loss"][0] / whole["loss"][0] - 1) > 1e-4, "this test sees nothing"
    at_end = lora.merged(lora.quantised(base), expected["factors"], 2.0)
    assert "--merge" not in trireme("export", "--help").stdout or abs(evaluated(tmp_path / "run", corpus) / loss_of(FOUR, at_end, corpus / "validation") - 1) < 1e-6


@adapters
@quantises
@needs_ranks
def test_layouts_of_four_bits(tmp_path, corpus):
    """Every rank has whole matrices, or parts of them, with the codes that one rank has."""
    layouts = [(2, dict(pipeline=2)), (2, dict(data=2, zero=3)), (2, dict(data=2)), (2, dict(context=2)), (1, dict(recompute="full")),
               (4, dict(pipeline=2, data=2, zero=1, recompute="selective")), (2, dict(tensor=2)), (4, dict(tensor=4)), (4, dict(tensor=2, pipeline=2))]
    check_layouts(tmp_path, corpus, FOUR, layouts, dict(name="sgd", lr=0.3), adapter=dict(QUANTISED, train=["*norm.weight"]))


# Twelve heads, which 2, 3 and 4 divide. No part of a matrix ends where a block of 64 does; one of keys is on every rank.
TWELVE = dict(SMALL, hidden_size=24, num_heads=12, ffn_size=62)
CUT = {"gpt2": dict(family="gpt2", **TWELVE), "llama": dict(family="llama", **TWELVE, num_kv_heads=12), "qwen3": dict(QWEN3, **TWELVE, num_kv_heads=1),
       "gpt_neox": dict(family="gpt_neox", **TWELVE, rotary_fraction=1.0), "phi3": dict(family="phi3", **TWELVE, num_kv_heads=12),
       "falcon": dict(family="falcon", **TWELVE, num_kv_heads=12), "falcon, groups": dict(family="falcon", **TWELVE, num_kv_heads=4),
       "falcon, parts of groups": dict(family="falcon", **TWELVE, num_kv_heads=2)}
TENSOR_LAYOUTS = [(2, dict(tensor=2)), (3, dict(tensor=3)), (4, dict(tensor=4, sequence_parallel=True)), (4, dict(tensor=2, data=2, zero=3))]


@adapters
@quantises
@needs_ranks
@pytest.mark.parametrize("name", CUT)
def test_parts_of_four_bits(tmp_path, corpus, name):
    """Cuts through blocks: the factors, losses and norms of one rank, and the memory that was predicted of each."""
    model = CUT[name]
    keys = model.get("num_kv_heads", 12)
    layouts = [(ranks, layout) for ranks, layout in TENSOR_LAYOUTS if keys % layout["tensor"] == 0 or layout["tensor"] % keys == 0]
    check_layouts(tmp_path, corpus, model, layouts, dict(steps=3), start=exported_start(tmp_path, corpus, model), adapter=dict(rank=3, alpha=6, targets="all-linear", quantise="nf4"))


@adapters
@quantises
@needs_ranks
@pytest.mark.parametrize("device, precision, tolerance", [("guarded", "fp32", 1e-5), ("emulated", "bf16", 2e-2), ("cpu", "fp32", 1e-5), ("cpu", "bf16", 2e-2)], ids=str)
@pytest.mark.parametrize("name, magnitude", [("llama", False), ("phi3", False), ("phi3", True), ("gpt2", True)])
def test_parts_of_four_bits_on_devices(tmp_path, corpus, name, magnitude, device, precision, tolerance):
    """One rank begins to train, three go on, and their losses are those of one."""
    start = exported_start(tmp_path, corpus, CUT[name])
    common = dict(model=CUT[name], precision=precision, device=device, init=str(start), adapter=dict(rank=3, alpha=6, targets="all-linear", quantise="nf4", magnitude=magnitude))
    trireme("train", write_run(tmp_path / "one", corpus, dict(steps=6, lr=1e-2), **common))
    trireme("train", write_run(tmp_path / "more", corpus, dict(steps=3, lr=1e-2), **common))
    trireme("train", write_run(tmp_path / "more", corpus, dict(steps=6, lr=1e-2), layout=dict(tensor=3), **common), *ranks_words(3))
    one, more = ([line["loss"] for line in lines_of(tmp_path / name / "run")] for name in ("one", "more"))
    close(more, one, tolerance)
    assert more[:3] == one[:3] and more[3:] != one[3:]
    summary = json.load(open(tmp_path / "more/run/summary.json"))
    assert summary["peak_bytes_predicted"] == summary["peak_bytes_measured"]


def base_through_four_bits(start, folder, model):
    """The same folder with every matrix of a product rounded to what NF4 makes of it, experts' too."""
    shutil.copytree(start, folder)
    for path in folder.glob("model*.safetensors"):
        tensors = {name: values.astype(numpy.float64) for name, values in load_file(path).items()}
        rounds = {name for name, values in tensors.items() if lora.is_linear(name, values.shape) and not re.search(r"\.gate\.|embed_in|embed_out|word_embeddings", name)}
        assert len(rounds) >= 4 * model["num_layers"], rounds
        save_file({name: (lora.through_nf4(values) if name in rounds else values).astype(numpy.float32) for name, values in tensors.items()}, path)
    return folder


EXPERTS = {**expert_cases.MODELS["mixtral"], "vocab_size": 257, "max_sequence": 24}


@adapters
@quantises
@files
@pytest.mark.parametrize("device, precision, tolerance", [("reference", "fp64", 1e-6), ("guarded", "fp32", 1e-4), ("emulated", "fp32", 1e-4), ("cpu", "fp32", 1e-4), ("cpu", "bf16", 2e-2)],
                         ids=lambda value: str(value))
@pytest.mark.parametrize("name", ["gpt2", "qwen3", "experts", "gpt_neox", "phi3", "falcon, groups"])
def test_four_bits_are_another_base(tmp_path, corpus, name, device, precision, tolerance):
    """A run is that over a base whose matrices were rounded beforehand, whatever their sizes, on every device; so are what is evaluated
    of it and what is merged."""
    model = EXPERTS if name == "experts" else {**CUT, **MODELS}[name]
    start = exported_start(tmp_path, corpus, model) if name not in MODELS and name != "experts" else start_from(tmp_path, model)[0]
    rounded = base_through_four_bits(start, tmp_path / "rounded", model)
    adapter, found = dict(rank=3, alpha=6, targets="all-linear"), {}
    for kind, base, more in (("bits", start, dict(quantise="nf4")), ("rounded", rounded, {}), ("whole", start, {})):
        folder = tmp_path / kind
        trireme("train", write_run(folder, corpus, dict(name="sgd", lr=0.3, steps=4), model=model, precision=precision, device=device, init=str(base), adapter={**adapter, **more}))
        summary = json.load(open(folder / "run/summary.json"))
        assert summary["peak_bytes_predicted"] == summary["peak_bytes_measured"]
        found[kind] = [line["loss"] for line in lines_of(folder / "run")], evaluated(folder / "run", corpus)
    (losses, at_end), (expected, at_its_end), (others, _) = found["bits"], found["rounded"], found["whole"]
    close(losses, expected, tolerance)
    assert abs(at_end / at_its_end - 1) < tolerance
    assert precision == "bf16" or max(abs(a / b - 1) for a, b in zip(expected, others)) > 4 * tolerance, "this test sees nothing"


@adapters
@quantises
@files
def test_merged_four_bits(tmp_path, corpus):
    """The merged model is the one that was trained. `inspect` names the bits; a folder of factors alone still says that its base is in nf4."""
    expected, factors, start = trained_run(tmp_path, corpus, FOUR, QUANTISED)
    base = {name: values.astype(float) for name, values in tensors_of(start.glob("model*.safetensors")).items()}
    expected = lora.merged(lora.quantised(base), factors, 2.0)
    trireme("export", "--merge", tmp_path / "run", tmp_path / "merged")
    found = tensors_of((tmp_path / "merged").glob("model*.safetensors"))
    assert set(found) == set(expected)
    for name, values in expected.items():
        assert numpy.linalg.norm(found[name] - values) <= 2e-7 * numpy.linalg.norm(values), name
    assert abs(evaluated(tmp_path / "merged", corpus) / evaluated(tmp_path / "run", corpus) - 1) < 1e-6
    trireme("export", tmp_path / "run", tmp_path / "peft")
    for folder in (tmp_path / "run", tmp_path / "peft"):
        assert "over a base in nf4" in trireme("inspect", folder).stdout
        assert json.loads(trireme("inspect", folder, "--json").stdout)["adapter"]["quantise"] == "nf4"
    assert abs(json.loads(trireme("eval", tmp_path / "peft", corpus / "validation", "--base", start, "--sequence", 20, *IN_DOUBLE, "--json").stdout)["loss"] / loss_of(FOUR, expected, corpus / "validation") - 1) < 1e-6


@adapters
@quantises
@needs_ranks
def test_experts_in_four_bits(tmp_path, corpus):
    """Ranks that hold some of the experts, or a part of each; rounds beyond the first."""
    layouts = [(2, dict(data=2, expert=2, expert_capacity=0.5)), (2, dict(data=2, zero=3)), (4, dict(pipeline=2, data=2, expert=2, schedule="zero-bubble", recompute="experts")),
               (2, dict(data=2, expert_tensor=2)), (4, dict(tensor=2, data=2, expert=2)), (4, dict(data=4, expert=2, expert_tensor=2))]
    start, _ = start_from(tmp_path, EXPERTS)
    common = dict(model=EXPERTS, precision="fp64", init=str(start), adapter=QUANTISED)
    runs = []
    for ranks, layout in [(1, {}), *layouts]:
        folder = tmp_path / str(len(runs))
        trireme("train", write_run(folder, corpus, dict(steps=4, lr=1e-2, global_batch=8), layout={"micro_batch": 1, **layout}, **common), *ranks_words(ranks))
        runs.append(of_run(folder))
    (expected, course), *others = runs
    for (tensors, losses), layout in zip(others, layouts):
        close(losses, course)
        for name, values in expected.items():
            assert numpy.linalg.norm(tensors[name] - values) <= max(1e-9 * numpy.linalg.norm(values), 1e-13), (layout, name)


@adapters
@quantises
@pytest.mark.parametrize("what", ["nan", "inf", "-inf"])
def test_no_number_in_four_bits(tmp_path, corpus, start, what):
    """Codes have none: it is refused before it is lost."""
    shutil.copytree(start, tmp_path / "bad")
    tensors = dict(load_file(start / "model.safetensors"))
    name = "model.layers.1.mlp.up_proj.weight"
    tensors[name] = tensors[name].copy()
    tensors[name][3, 5] = float(what)
    save_file(tensors, tmp_path / "bad/model.safetensors")
    refused("train", write_run(tmp_path, corpus, dict(steps=1), init=str(tmp_path / "bad"), adapter=dict(USUAL, quantise="nf4")), said=[re.escape(name), "NaN or infinite"])


@adapters
@quantises
def test_memory_of_four_bits(tmp_path, corpus):
    """Half a byte and 1/64 + 4/64/256 of one an element, beside 4."""
    start, weights = start_from(tmp_path, HEAVY)
    base = arrays_of(weights)
    elements = sum(values.size for name, values in base.items() if lora.is_linear(name, values.shape))
    peaks = [memory_of(tmp_path / kind, corpus, {}, init=str(start), adapter=dict(rank=4, alpha=8, targets="all-linear", quantise=kind)) for kind in ("none", "nf4")]
    largest = max(values.size for name, values in base.items() if lora.is_linear(name, values.shape))
    saved = (4 - 0.5 - 1 / 64 - 4 / 64 / 256) * elements
    assert saved - 3 * 4 * largest <= peaks[0] - peaks[1] <= 1.02 * saved, (peaks, saved)  # one or two matrices are made wide at a time


@adapters
@quantises
@needs_ranks
@pytest.mark.parametrize("kind, element", [("none", 2), ("nf4", 0.5 + 1 / 64 + 4 / 64 / 256)])
def test_frozen_weights_under_zero_3(tmp_path, corpus, kind, element):
    """Each of four replicas has a quarter of the frozen weights, in the type in which they are stored, and two layers' that are gathered."""
    model = dict(HEAVY, num_layers=12)
    start, weights = start_from(tmp_path, model)
    held = {}
    for zero in (2, 3):
        folder = tmp_path / str(zero)
        trireme("train", write_run(folder, corpus, dict(global_batch=4, steps=1), model=model, precision="bf16", init=str(start),
                                   layout=dict(micro_batch=1, data=4, zero=zero, bucket_bytes=1), adapter=dict(rank=2, targets=["q_proj"], quantise=kind)), *ranks_words(4))
        summary = json.load(open(folder / "run/summary.json"))
        assert summary["peak_bytes_predicted"] == summary["peak_bytes_measured"]
        planned = trireme("train", folder / "run/config.yaml", "--dry-run", "--verbose", *ranks_words(4)).stdout
        held[zero] = int(re.search(r"^  parameters +(\d+) bytes", planned, re.MULTILINE)[1])
    layers = sum(values.size for name, values in arrays_of(weights).items() if lora.is_linear(name, values.shape)) * element
    saved = layers * (3 / 4 - 2 / 12)
    assert saved * 0.97 <= held[2] - held[3] <= saved * 1.03 + 257 * 192 * 2 * 2, (held, saved)


# ---- mistakes --------------------------------------------------------------------------------------------------------

def refused(*arguments, said=()):
    """Checks for one error message with all of these texts, and an exit status of a fault that was found."""
    done = subprocess.run(words_of(*arguments), capture_output=True, text=True, timeout=120)
    assert 0 < done.returncode < 100, (done.returncode, done.stderr)
    lines = [line for line in done.stderr.splitlines() if line.startswith("trireme: ")]
    assert len(lines) == 1, done.stderr
    for text in said:
        assert re.search(text, lines[0], re.IGNORECASE), (text, lines[0])
    return lines[0]


LEAVE = object()
WRONG = {
    "a target that is not there": (dict(targets=["q_porj"]), ["targets", "q_porj", "q_proj"]),
    "one of several": (dict(targets=["q_proj", "gate_porj"]), ["targets", "gate_porj", "gate_proj"]),
    "another family's": (dict(targets=["c_attn"]), ["targets", "c_attn", "q_proj"]),
    "a norm": (dict(targets=["input_layernorm"]), ["targets", "input_layernorm", "embed_tokens, q_proj", "lm_head"]),
    "singular vectors of the output projection": (dict(targets=["q_proj", "lm_head"], init="pissa"), ["init", "pissa", r"targets", r"lm_head\.weight"]),
    "singular vectors of an embedding": (dict(targets=["embed_tokens"], init="pissa"), ["init", "pissa", r"targets", r"embed_tokens\.weight"]),
    "a tie that there is not": (dict(targets=["lm_head"], ensure_weight_tying=True), ["ensure_weight_tying", "not tied", "leave it out"]),
    "a tie of no adapter": (dict(rank=0, ensure_weight_tying=True, alpha=LEAVE, targets=LEAVE), ["rank", r"\b0\b"]),
    "no target": (dict(targets=[]), ["targets"]),
    "a rank above all": (dict(rank=33, targets=["q_proj"]), ["rank", "33", "32"]),
    "a rank above one side": (dict(rank=17), ["rank", "17", "16"]),
    "a rank of 0": (dict(rank=0), ["rank", r"\b0\b"]),
    "a rank below": (dict(rank=-4), ["rank", "-4"]),
    "a rank is not said": (dict(rank=LEAVE), ["rank"]),
    "no alpha": (dict(alpha=0), ["alpha", r"\b0"]),
    "alpha is a word": (dict(alpha="much"), ["alpha", "much"]),
    "all is dropped": (dict(dropout=1.0), ["dropout", "1"]),
    "dropped below": (dict(dropout=-0.1), ["dropout", "-0.1"]),
    "a pattern for nothing": (dict(rank_pattern={"q_proj": 2, "k_proj": 2}), ["rank_pattern", "k_proj matches no target", "q_proj"]),
    "an alpha for nothing": (dict(alpha_pattern={r"layers\.2\..*": 2}), ["alpha_pattern", r"layers\\\.2", "matches no target"]),
    "a pattern without its end": (dict(rank_pattern={"(q_proj": 2}), ["rank_pattern", r"\(q_proj", "regular expression"]),
    "a pattern of a shell": (dict(alpha_pattern={"*q_proj": 2}), ["alpha_pattern", r"\*q_proj", "regular expression"]),
    "a rank of 0 by pattern": (dict(rank_pattern={"q_proj": 0}), ["rank_pattern", "q_proj", r"\b0\b", "1"]),
    "a rank above by pattern": (dict(rank_pattern={"[vq]_proj": 17}), ["rank_pattern", r"17 of \[vq\]_proj", "16 x 32", "at most 16"]),
    "an alpha of 0 by pattern": (dict(alpha_pattern={"q_proj": 0}), ["alpha_pattern", "q_proj", r"\b0\b"]),
    "a word as a rank": (dict(rank_pattern={"q_proj": "much"}), ["rank_pattern", "q_proj", "much", "whole number"]),
    "patterns as a list": (dict(rank_pattern=["q_proj"]), ["rank_pattern", "a mapping", "not a list"]),
    "patterns as a text": (dict(rank_pattern="q_proj"), ["rank_pattern", "a mapping"]),
    "too many patterns": (dict(rank_pattern={"q_pro" + "j" * (i + 1): 2 for i in range(65)}), ["rank_pattern", "more than 64 entries"]),
    "patterns of no adapter": (dict(rank=0, rank_pattern={"q_proj": 2}, alpha=LEAVE, targets=LEAVE), ["rank", r"\b0\b"]),
    "a beginning": (dict(init="normal"), ["init", "normal", "kaiming, gaussian"]),
    "a beginning of no adapter": (dict(rank=0, init="gaussian", alpha=LEAVE, targets=LEAVE), ["rank", r"\b0\b"]),
    "a scaling": (dict(scaling="sqrt"), ["scaling", "sqrt", "lora, rslora"]),
    "a scaling of no adapter": (dict(rank=0, scaling="rslora", alpha=LEAVE, targets=LEAVE), ["rank", r"\b0\b"]),
    "PEFT's r": (dict(r=4), ["`r`", "`rank`"]),
    "PEFT's alpha": (dict(lora_alpha=4), ["lora_alpha", "`alpha`"]),
    "PEFT's dropout": (dict(lora_dropout=0.5), ["lora_dropout", "`dropout`"]),
    "PEFT's targets": (dict(target_modules=["q_proj"]), ["target_modules", "`targets`"]),
    "PEFT's beginning": (dict(init_lora_weights="gaussian"), ["init_lora_weights", r"adapter\.init", "gaussian"]),
    "PEFT's modules": (dict(modules_to_save=["lm_head"]), ["modules_to_save", r"adapter\.train"]),
    "PEFT's DoRA": (dict(use_dora=True), ["use_dora", r"adapter\.magnitude: true"]),
    "PEFT's bias": (dict(lora_bias=True), ["lora_bias", "no biases", r"adapter\.train"]),
    "PEFT's experts": (dict(target_parameters=["x"]), ["target_parameters", r"adapter\.targets"]),
    "PEFT's layers": (dict(layers_to_transform=[0]), ["layers_to_transform", r"adapter\.targets"]),
    "PEFT's key": (dict(use_rslora=True), ["use_rslora", r"adapter\.scaling: rslora"]),
    "a kind of bits": (dict(quantise="nf5"), ["quantise", "nf5", "nf4"]),
    "bits of no adapter": (dict(rank=0, quantise="nf4", alpha=LEAVE, targets=LEAVE), ["rank", r"\b0\b"]),
    "trained beside": (dict(train=["no.such.*"]), ["train", r"no\.such\.\*", "match|no tensor"]),
    "a folder that is not there": ({"from": "nowhere/at/all"}, ["nowhere/at/all"]),
    "a key": (dict(rnak=4), ["rnak", "rank"]),
}


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    return start_from(tmp_path_factory.mktemp("start"), LLAMA)[0]


@adapters
@pytest.mark.parametrize("what", WRONG)
def test_wrong_keys(tmp_path, corpus, start, what):
    changes, said = WRONG[what]
    skip_without(*(f"adapter.{key}" for key in changes if key in ("quantise", "train", "from")))
    adapter = {key: value for key, value in {**USUAL, **changes}.items() if value is not LEAVE}
    line = refused("train", write_run(tmp_path, corpus, dict(steps=1), init=str(start), adapter=adapter), said=said)
    assert "is not a key" not in line or what == "a key" or what.startswith("PEFT's"), line
    assert not list((tmp_path / "run").glob("checkpoints/*"))


@adapters
def test_no_base(tmp_path, corpus):
    refused("train", write_run(tmp_path, corpus, dict(steps=1), adapter=USUAL), said=["adapter", "init"])


@freezing
@pytest.mark.parametrize("patterns, said", [(["model.embed_token.*"], ["freeze", r"model\.embed_token\.\*", "match|no tensor"]),
                                            (["model.norm.weight", "*.biass"], ["freeze", r"\*\.biass", "match|no tensor"]), (["*"], ["freeze"])])
def test_wrong_patterns(tmp_path, corpus, start, patterns, said):
    refused("train", write_run(tmp_path, corpus, dict(steps=1), init=str(start), freeze=patterns), said=said)


def drop_one(factors):
    return dict(list(factors.items())[:-1])


def only_q(factors):
    return {name: values for name, values in factors.items() if "q_proj" in name}


def reshape_one(factors):
    name = next(iter(factors))
    return {**factors, name: factors[name][:, :-1]}


def rename_one(factors):
    return {name.replace("layers.1.self_attn.v_proj", "layers.1.self_attn.k_proj"): values for name, values in factors.items()}


FOLDERS = {
    "another kind": (dict(peft_type="IA3"), None, ["peft_type", "IA3"]),
    "another rank": (dict(r=8), None, ["rank|`r`", "8", "4"]),
    "rslora": (dict(use_rslora=True), None, ["rslora", r"adapter\.scaling", "lora"]),
    "dora": (dict(use_dora=True), None, ["dora"]),
    "ranks by pattern": (dict(rank_pattern={"q_proj": 2}), None, ["rank_pattern", r"adapter\.rank_pattern", "same patterns"]),
    "alphas by pattern": (dict(alpha_pattern={"q_proj": 2}), None, ["alpha_pattern", r"adapter\.alpha_pattern", "same patterns"]),
    "a pattern that looks ahead": (dict(rank_pattern={"(?!q)_proj": 2}), None, ["rank_pattern", r"\(\?!q\)_proj", "regular expression"]),
    "biases": (dict(bias="all"), None, ["bias"]),
    "other targets": (dict(target_modules=["q_proj"]), only_q, ["target|v_proj"]),
    "a factor is missing": ({}, drop_one, ["lora_B|v_proj"]),
    "a factor of another shape": ({}, reshape_one, ["q_proj", "31", "32"]),
    "a factor of another module": ({}, rename_one, ["[kv]_proj"]),
}


@adapters
@files
@imports
@pytest.mark.parametrize("what", FOLDERS)
def test_wrong_folders(tmp_path, corpus, start, what):
    """What PEFT can write and is not computed here is not passed over."""
    changes, change, said = FOLDERS[what]
    factors = lora.drawn_factors(lora_base(start), USUAL)
    given = lora.write_peft(tmp_path / "given", LLAMA, USUAL, change(factors) if change else factors, **changes)
    refused("train", write_run(tmp_path, corpus, dict(steps=1), init=str(start), adapter={**USUAL, "from": str(given)}), said=["given", *said])


def spoil_magnitudes(factors):
    name = next(key for key in factors if key.endswith(lora.MAGNITUDE))
    return {**factors, name: numpy.where(numpy.arange(len(factors[name])) == 3, numpy.nan, factors[name])}


MAGNITUDES = {
    "none": (lambda factors: {name: values for name, values in factors.items() if not name.endswith(lora.MAGNITUDE)}, {}, ["no magnitudes of .*_proj", "use_dora", "true"]),
    "none of one": (lambda factors: {name: values for name, values in factors.items() if not name.endswith("layers.1.self_attn.v_proj" + lora.MAGNITUDE)}, {}, [r"no magnitudes of .*1\.self_attn\.v_proj"]),
    "not said": (None, dict(use_dora=False), ["has magnitudes of .*_proj", "use_dora", "false"]),
    "not a number": (spoil_magnitudes, {}, ["element 3 of the tensor .*" + lora.MAGNITUDE, "NaN"]),
}


@adapters
@files
@pytest.mark.parametrize("what", MAGNITUDES)
def test_wrong_magnitudes(tmp_path, corpus, start, what):
    """PEFT warns, and computes another model."""
    change, changes, said = MAGNITUDES[what]
    adapter = dict(USUAL, magnitude=True)
    factors = lora.drawn_factors(lora_base(start), adapter)
    given = lora.write_peft(tmp_path / "given", LLAMA, adapter, change(factors) if change else factors, **changes)
    refused("eval", given, corpus / "validation", "--base", start, said=["given", *said])
    refused("export", "--merge", given, tmp_path / "merged", "--base", start, said=["given", *said])


@adapters
@files
@imports
@pytest.mark.parametrize("gone", ["adapter_config.json", "adapter_model.safetensors"])
def test_folders_that_lack_a_file(tmp_path, corpus, start, gone):
    given = lora.write_peft(tmp_path / "given", LLAMA, USUAL, lora.drawn_factors(lora_base(start), USUAL))
    (given / gone).unlink()
    refused("train", write_run(tmp_path, corpus, dict(steps=1), init=str(start), adapter={**USUAL, "from": str(given)}), said=["given", gone.replace(".", r"\.")])
    (given / gone).write_text("{")
    refused("train", write_run(tmp_path, corpus, dict(steps=1), init=str(start), adapter={**USUAL, "from": str(given)}), said=["given", gone.replace(".", r"\.")])


OTHER = {**LLAMA, "ffn_size": 40}


@adapters
@files
def test_another_base(tmp_path, corpus):
    """A base of other shapes: a run that resumes with it, `eval` and `export` if it has replaced the base; and a base that is gone."""
    start, _ = start_from(tmp_path, LLAMA)
    (tmp_path / "other").mkdir()
    other, _ = start_from(tmp_path / "other", OTHER)
    trireme("train", write_run(tmp_path, corpus, dict(steps=2), init=str(start), adapter=USUAL))
    refused("train", write_run(tmp_path, corpus, dict(steps=4), model=OTHER, init=str(other), adapter=USUAL), said=["base|ffn_size|adapter"])
    start.rename(tmp_path / "elsewhere")
    for words in (("eval", tmp_path / "run", corpus / "validation"), ("export", "--merge", tmp_path / "run", tmp_path / "out")):
        refused(*words, said=[re.escape(str(start))])
    shutil.copytree(other, start)
    for words in (("eval", tmp_path / "run", corpus / "validation"), ("export", "--merge", tmp_path / "run", tmp_path / "out")):
        refused(*words, said=["base|adapter"])
    assert not (tmp_path / "out/model.safetensors").exists()


@adapters
@files
@imports
def test_factors_of_another_base(tmp_path, corpus, start):
    """Exported beside one model, given to another."""
    (tmp_path / "other").mkdir()
    other, _ = start_from(tmp_path / "other", OTHER)
    adapter = dict(USUAL, targets=["down_proj"])
    trireme("train", write_run(tmp_path / "a", corpus, dict(steps=1), model=OTHER, init=str(other), adapter=adapter))
    trireme("export", tmp_path / "a/run", tmp_path / "peft")
    refused("train", write_run(tmp_path / "b", corpus, dict(steps=1), init=str(start), adapter={**adapter, "from": str(tmp_path / "peft")}), said=["peft", "base|40|shape"])


@pytest.mark.parametrize("before, after, said", [
    (dict(adapter=USUAL), dict(adapter=dict(USUAL, rank=3)), ["rank"]),
    (dict(adapter=USUAL), dict(adapter=dict(USUAL, alpha=9)), ["alpha|scale"]),
    (dict(adapter=USUAL), dict(adapter=dict(USUAL, targets=["q_proj"])), ["targets"]),
    (dict(adapter=USUAL), dict(adapter=dict(USUAL, scaling="rslora")), ["adapter", "rslora"]),
    (dict(adapter=USUAL), dict(adapter=dict(USUAL, rank_pattern={"q_proj": 2})), ["adapter", "rank_pattern {q_proj: 2}"]),
    (dict(adapter=dict(USUAL, alpha_pattern={"q_proj": 2.5})), dict(adapter=dict(USUAL, alpha_pattern={"q_proj": 2})), ["adapter", r"alpha_pattern \{q_proj: 2\.5\}"]),
    (dict(adapter=USUAL), dict(adapter=dict(USUAL, quantise="nf4")), ["adapter", "nf4"]), (dict(adapter=dict(USUAL, quantise="nf4")), dict(adapter=USUAL), ["adapter", "nf4"]),
    (dict(adapter=USUAL), {}, ["adapter"]), ({}, dict(adapter=USUAL), ["adapter"]),
    (dict(freeze=["model.norm.*"]), dict(freeze=["lm_head.*"]), ["freeze"]), (dict(freeze=["model.norm.*"]), {}, ["freeze"]), ({}, dict(freeze=["model.norm.*"]), ["freeze"]),
], ids=str)
def test_gone_on_otherwise(tmp_path, corpus, start, before, after, said):
    """A resumed run does not silently change the trained parameters or their scale."""
    skip_without("adapter.rank" if "adapter" in {**before, **after} else "freeze")
    trireme("train", write_run(tmp_path, corpus, dict(steps=2), init=str(start), **before))
    refused("train", write_run(tmp_path, corpus, dict(steps=4), init=str(start), **after), said=said)
    assert newest_of(tmp_path / "run").name == "step-00000002"


@adapters
def test_the_keys_are_told():
    """`train --keys` lists the keys."""
    keys = trireme("train", "--keys").stdout
    for key in ("freeze", "adapter.rank", "adapter.alpha", "adapter.dropout", "adapter.targets"):
        assert re.search(rf"^\s*{re.escape(key)}\s", keys, re.MULTILINE), key


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, *os.sys.argv[1:]]))

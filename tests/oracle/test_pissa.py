"""Factors that begin as the first singular vectors of their matrices (PiSSA, Meng et al. 2024), against numpy's decomposition, plain
PyTorch (lora.py) over the residual, and PEFT: its numbers in pissa.json, and itself where it can be imported."""
import json
import os
import re
import subprocess

import lora
import numpy
import peft_ties
import pytest
from optimizer_runs import LLAMA, STEPS, batches_of, check_weights, close, corpus_of, lines_of, newest_of, ranks_words, start_from, states_of, tensors_of, write_run
from parity import trireme, words_of, yaml_of
from safetensors.numpy import save_file
from test_lora import MODELS, WIDE, arrays_of, check_layouts, evaluated, exported_start, first_factors, layouts_for, loss_at, loss_of, needs_ranks, of_run

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "pissa.json")) as stored:
    THEIRS = json.load(stored)
USUAL = dict(rank=3, alpha=7, targets="all-linear", init="pissa")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return corpus_of(tmp_path_factory.mktemp("corpus"))


def scale_at(adapter, module):
    scale = lora.scale_of(adapter)
    return scale(module) if callable(scale) else scale


def subtracted(weights, factors, adapter):
    """The base less what factors began as."""
    return lora.merged(weights, factors, lambda module: -scale_at(adapter, module))


def refused(*arguments):
    ended = subprocess.run(words_of(*arguments), capture_output=True, text=True)
    assert ended.returncode != 0, ended.stdout
    return ended.stderr


ADAPTERS = {"lora": USUAL, "rslora": dict(USUAL, scaling="rslora", alpha=2),
            "patterns": dict(USUAL, rank_pattern={"v_proj|c_fc": 5, "q_proj|c_attn": 1}, alpha_pattern={"o_proj|c_proj": 11})}


@pytest.mark.parametrize("case", ADAPTERS)
@pytest.mark.parametrize("name", MODELS)
def test_what_training_begins_with(tmp_path, corpus, name, case):
    """scale B A is the best matrix of that rank, of vectors whose signs are fixed; the first loss is the base's."""
    model, adapter = MODELS[name], ADAPTERS[case]
    start, weights = start_from(tmp_path, model)
    base = arrays_of(weights)
    factors = first_factors(tmp_path / "first", corpus, model, start, adapter, precision="fp64")
    assert {key: value.shape for key, value in factors.items()} == lora.factor_shapes(base, adapter)
    for key, a in factors.items():
        if not key.endswith(lora.ENDS[0]):
            continue
        module = key[len(lora.PREFIX) : -len(lora.ENDS[0])]
        b, w = factors[lora.PREFIX + module + lora.ENDS[1]], base[module + ".weight"]
        u, s, vt = numpy.linalg.svd(w.T if lora.is_conv(module) else w, full_matrices=False)
        rank, scale = len(a), scale_at(adapter, module)
        best = u[:, :rank] * s[:rank] @ vt[:rank]
        assert numpy.linalg.norm(scale * b @ a - best) < 1e-6 * numpy.linalg.norm(best), module
        assert numpy.allclose((b**2).sum(0), s[:rank] / scale, rtol=1e-5) and numpy.allclose((a**2).sum(1), s[:rank] / scale, rtol=1e-5)
        shorter = b.T if b.shape[0] <= a.shape[1] else a
        assert (shorter[range(rank), numpy.abs(shorter).argmax(1)] > 0).all(), "signs"
    (ids, labels), *_ = batches_of(tmp_path, corpus, model, 1)
    assert abs(lines_of(tmp_path / "first/run")[0]["loss"] / loss_at(model, base, ids, labels) - 1) < 1e-12


@pytest.mark.parametrize("name", MODELS)
def test_twenty_steps(tmp_path, corpus, name):
    """Of LoRA over the residual; W stays as it is, so files, evaluation and what is merged agree."""
    model, adapter = MODELS[name], ADAPTERS["patterns"]
    start, weights = start_from(tmp_path, model)
    base = arrays_of(weights)
    begun = first_factors(tmp_path / "first", corpus, model, start, adapter, precision="fp64")
    path = write_run(tmp_path, corpus, {}, model=model, precision="fp64", init=str(start), adapter=adapter, evaluation=dict(every=STEPS, batches=1000))
    trireme("train", path)
    residual = subtracted(base, begun, adapter)
    expected = lora.train(model, residual, begun, lora.scale_of(adapter), batches_of(tmp_path, corpus, model), json.loads(path.read_text())["optimizer"])
    lines = lines_of(tmp_path / "run")
    close([line["loss"] for line in lines], expected["loss"], 1e-10)
    close([line["grad_norm"] for line in lines], expected["norm"], 1e-10)
    found, _, config = lora.read_peft(newest_of(tmp_path / "run"))
    check_weights(found, expected["factors"], 1e-10)
    assert config["init_lora_weights"] == "pissa" and config["r"] == adapter["rank"]
    at_end = lora.merged(residual, found, lora.scale_of(adapter))
    loss = loss_of(model, at_end, corpus / "validation")
    assert abs(lines[-1]["validation_loss"] / loss - 1) < 1e-10 and abs(evaluated(tmp_path / "run", corpus) / loss - 1) < 1e-10
    check_exported(tmp_path, corpus, model, adapter, base, at_end, loss)


@pytest.mark.parametrize("adapter", [USUAL, dict(rank=3, magnitude=True, targets=["q_proj", "down_proj"]), dict(rank=3, targets=["v_proj"])], ids=["pissa", "dora", "lora"])
@pytest.mark.parametrize("keys", [dict(name="schedule_free"), dict(weight_decay=0.0)], ids=["schedule_free", "average"])
def test_copies_of_weights_begin_last(tmp_path, corpus, keys, adapter):
    """At a rate of nearly 0 no step changes the loss, and the second point of schedule_free and an average of weights are the weights, resumed or not."""
    start, _ = start_from(tmp_path, LLAMA)
    common = dict(model=LLAMA, precision="fp64", init=str(start), adapter=adapter, average=dict(every=0 if "name" in keys else 1))
    path = write_run(tmp_path, corpus, dict(lr=1e-12, warmup=0, decay="constant", steps=4, **keys), **common)
    trireme("train", path, "--stop-at", 2)
    trireme("train", path)
    losses = [line["loss"] for line in lines_of(tmp_path / "run")]
    plain = write_run(tmp_path / "plain", corpus, dict(lr=1e-12, warmup=0, decay="constant", steps=4), **{**common, "average": dict(every=0)})
    trireme("train", plain)
    close(losses, [line["loss"] for line in lines_of(tmp_path / "plain/run")], 1e-8)
    points = {key.rsplit(".", 1)[0]: values for key, values in states_of(tmp_path / "run").items() if key.endswith((".z", ".average"))}
    weights = {key.removeprefix(lora.PREFIX): values for key, values in tensors_of(newest_of(tmp_path / "run").glob("adapter_model.safetensors")).items()}
    assert len(points) >= 2 and points.keys() <= weights.keys()
    for name, values in points.items():
        assert numpy.abs(values - weights[name]).max() < 1e-8, name


def check_exported(folder, corpus, model, adapter, base, at_end, loss):
    """Merged, and as plain LoRA of twice the rank over the base."""
    trireme("export", "--merge", folder / "run", folder / "merged")
    for key, values in tensors_of((folder / "merged").glob("model*.safetensors")).items():
        assert numpy.abs(values - at_end[key]).max() <= 2.0**-23 * numpy.abs(at_end[key]).max(), key
    trireme("export", folder / "run", folder / "plain")
    factors, _, config = lora.read_peft(folder / "plain")
    patterns = {key: {pattern: 2 * rank for pattern, rank in adapter.get(key, {}).items()} for key in ("rank_pattern",)}
    assert config["init_lora_weights"] is True and config["r"] == 2 * adapter["rank"] and config["rank_pattern"] == patterns["rank_pattern"]
    plain = dict(rank=config["r"], alpha=config["lora_alpha"], rank_pattern=config["rank_pattern"], alpha_pattern=config["alpha_pattern"],
                 scaling=adapter.get("scaling", "lora"), targets=adapter["targets"])
    assert {key: value.shape for key, value in factors.items()} == lora.factor_shapes(base, plain)
    for key, values in lora.merged(base, factors, lora.scale_of(plain)).items():
        assert numpy.abs(values - at_end[key]).max() <= 1e-6 * numpy.abs(at_end[key]).max(), key
    assert abs(evaluated(folder / "plain", corpus) / loss - 1) < 1e-6


def test_exported_with_rslora(tmp_path, corpus):
    start, weights = start_from(tmp_path, LLAMA)
    adapter, base = ADAPTERS["rslora"], arrays_of(weights)
    begun = first_factors(tmp_path / "first", corpus, LLAMA, start, adapter, precision="fp64")
    trireme("train", write_run(tmp_path, corpus, dict(steps=4, lr=1e-2), model=LLAMA, precision="fp64", init=str(start), adapter=adapter))
    at_end = lora.merged(subtracted(base, begun, adapter), lora.read_peft(newest_of(tmp_path / "run"))[0], lora.scale_of(adapter))
    check_exported(tmp_path, corpus, LLAMA, adapter, base, at_end, loss_of(LLAMA, at_end, corpus / "validation"))


@needs_ranks
@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("name", [*WIDE, "phi3"])
def test_layouts(tmp_path, corpus, name, dropout):
    """The same numbers, and where sums are the same the same bits; memory is what was planned."""
    model = WIDE.get(name, dict(WIDE["llama"], family="phi3"))
    start = None if name in WIDE else exported_start(tmp_path, corpus, model)
    layouts = layouts_for(model, f"pissa {name} {dropout}", 8, 10 if dropout == 0 else 4)
    check_layouts(tmp_path, corpus, model, layouts, {}, start=start, adapter=dict(USUAL, dropout=dropout))


@needs_ranks
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_goes_on_under_another_layout(tmp_path, corpus, precision):
    """The initial factors are recomputed when a run resumes: shards and replicas give the bits of a run that was not interrupted."""
    start, _ = start_from(tmp_path, LLAMA)
    common = dict(model=LLAMA, precision=precision, init=str(start), adapter=dict(USUAL, dropout=0.2))
    layouts = [dict(data=2), dict(data=2, zero=3), dict(data=2, zero=1)]
    ended = []
    for name, parts in (("alone", [(6, layouts[0])]), ("parts", [(2, layouts[1]), (4, layouts[2]), (6, layouts[0])])):
        for stop, layout in parts:
            path = write_run(tmp_path / name, corpus, dict(steps=6, global_batch=8), layout={"micro_batch": 1, **layout}, **common)
            trireme("train", path, "--stop-at", stop, "--resume", "auto", *ranks_words(2), timeout=300)
        ended.append(of_run(tmp_path / name))
    (tensors, course), (other, other_course) = ended
    assert course[0] == other_course[0]
    assert all(numpy.array_equal(values, other[name]) for name, values in tensors.items())


@pytest.mark.parametrize("precision, near", [("fp32", 1e-5), ("bf16", 2e-2)])
def test_narrow(tmp_path, corpus, precision, near):
    """The first loss is the base's but for rounding."""
    start, _ = start_from(tmp_path, LLAMA)
    losses = []
    for name, more in (("base", {}), ("pissa", dict(init="pissa"))):
        trireme("train", write_run(tmp_path / name, corpus, dict(steps=2), model=LLAMA, precision=precision, init=str(start), adapter=dict(rank=3, alpha=7, **more)))
        losses.append(lines_of(tmp_path / name / "run")[0]["loss"])
    assert abs(losses[0] - losses[1]) < near, losses


def test_refused(tmp_path, corpus):
    start, _ = start_from(tmp_path, LLAMA)
    common = dict(model=LLAMA, init=str(start))
    assert re.search(r"adapter\.init.*four bits.*adapter\.quantise", refused("train", write_run(tmp_path / "4", corpus, {}, adapter=dict(USUAL, quantise="nf4"), **common)))
    trireme("train", write_run(tmp_path, corpus, dict(steps=2), adapter=USUAL, **common))
    plain = {**USUAL, "init": "kaiming", "from": str(tmp_path / "run")}
    assert re.search(r"adapter\.from.*adapter\.init.*pissa", refused("train", write_run(tmp_path / "from", corpus, {}, adapter=plain, **common)))
    other = write_run(tmp_path, corpus, dict(steps=4), adapter=dict(USUAL, init="kaiming"), **common)
    assert "pissa" in refused("train", other)
    config = json.loads((newest_of(tmp_path / "run") / "adapter_config.json").read_text())
    drawn = lora.write_peft(tmp_path / "drawn", LLAMA, dict(USUAL, targets=config["target_modules"]), lora.read_peft(newest_of(tmp_path / "run"))[0],
                            init_lora_weights="pissa_niter_4", base_model_name_or_path=str(start))
    assert re.search(r"pissa_niter_4.*random", refused("eval", drawn, corpus / "validation"))


# ---- beside PEFT's numbers -------------------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    peft_ties.write_base(folder / "base")
    peft_ties.write_window(folder / "window")
    return folder


def their_loss(made, folder):
    return json.loads(trireme("eval", folder, made / "window", "--sequence", peft_ties.LENGTH, "--json").stdout)["loss"]


@pytest.mark.parametrize("scaling, stored", [("lora", "products"), ("rslora", "rslora")])
def test_products_of_peft(made, tmp_path, scaling, stored):
    """In fp32, as PEFT's are: vectors may have the other sign there, products have not."""
    adapter = dict(rank=3, alpha=7, init="pissa", scaling=scaling)
    (tmp_path / "run.yaml").write_text(yaml_of(dict(
        model=str(made / "base"), init=str(made / "base"), adapter=adapter, threads=1, precision="fp32", data=dict(train=str(made / "window"), sequence=peft_ties.LENGTH),
        optimizer=dict(global_batch=1, steps=1, lr=0.0), output=str(tmp_path / "run"))))
    trireme("train", tmp_path / "run.yaml")
    factors = lora.read_peft(newest_of(tmp_path / "run"))[0]
    assert len(factors) == 2 * len(THEIRS[stored])
    for module, theirs in THEIRS[stored].items():
        a, b = (factors[lora.PREFIX + module + end] for end in lora.ENDS)
        product = lora.scale_of(adapter) * b @ a
        corner = numpy.array(theirs["corner"])
        assert abs(numpy.linalg.norm(product) / theirs["norm"] - 1) < 1e-5, module
        assert numpy.abs(product[: len(corner), : len(corner)] - corner).max() < 1e-5 * numpy.abs(product).max(), module


def test_a_folder_of_peft(made, tmp_path):
    """Read as PEFT reads it: its factors over the base less what they began as; and what is made of it."""
    adapter = peft_ties.write_adapter(tmp_path / "adapter", made / "base", "neither", init_lora_weights="pissa")
    assert abs(THEIRS["loss"] / THEIRS["as_plain"] - 1) > 1e-3
    assert abs(their_loss(made, adapter) / THEIRS["loss"] - 1) < 1e-6
    trireme("export", "--merge", adapter, tmp_path / "merged")
    trireme("export", adapter, tmp_path / "plain")
    trireme("export", adapter, tmp_path / "moved", "--base", made / "base")
    for folder in ("merged", "plain", "moved"):
        assert abs(their_loss(made, tmp_path / folder) / THEIRS["loss"] - 1) < 1e-6, folder


def test_magnitudes(made, tmp_path):
    """A folder of PEFT's may have both: factors of twice the rank have the same norms, so that magnitudes stay as they are."""
    adapter = peft_ties.write_adapter(tmp_path / "adapter", made / "base", "neither", init_lora_weights="pissa", use_dora=True)
    factors, others, config = lora.read_peft(adapter)
    drawn = numpy.random.default_rng(3)
    for name in [name for name in factors if name.endswith(".lora_B.weight")]:
        factors[name.replace(".lora_B.weight", lora.MAGNITUDE)] = drawn.normal(1, 0.1, len(factors[name]))
    save_file({name: values.astype(numpy.float32) for name, values in {**factors, **others}.items()}, adapter / "adapter_model.safetensors")
    trireme("export", "--merge", adapter, tmp_path / "merged")
    trireme("export", adapter, tmp_path / "plain")
    losses = [their_loss(made, folder) for folder in (adapter, tmp_path / "merged", tmp_path / "plain")]
    assert max(losses) - min(losses) < 1e-6 * losses[0] and abs(losses[0] / THEIRS["loss"] - 1) > 1e-4

"""Factors beside the embedding and the output projection, tied or not, and magnitudes (DoRA) are one model in PEFT and here: beside PEFT's losses and gradients
in double (peft_everywhere.json, which make_peft_everywhere.py wrote)."""
import json
import os

import lora
import numpy
import peft_everywhere
import peft_ties
import pytest
from optimizer_runs import newest_of, tensors_of
from parity import trireme, yaml_of
from peft_everywhere import CASES
from peft_ties import HEAD, LENGTH

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "peft_everywhere.json")) as stored:
    STORED = json.load(stored)
FOUND = STORED["cases"]
IN_DOUBLE = ("--precision", "fp64", "--device", "reference")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    for tied in (False, True):
        peft_everywhere.write_base(folder / f"base-{tied}", tied)
    peft_ties.write_window(folder / "window")
    return folder


def adapter_of(made, folder, name, **changes):
    return peft_everywhere.write_adapter(folder, made / f"base-{CASES[name][0]}", name, **changes)


def loss(made, folder, *words):
    return json.loads(trireme("eval", folder, made / "window", "--sequence", LENGTH, "--json", *words).stdout)["loss"]


def run_of(made, path, name, start, rate=1.0, **adapter):
    tied, targets, _, ensure, settings = CASES[name]
    base = str(made / f"base-{tied}")
    adapter = dict(rank=peft_everywhere.RANK, alpha=peft_everywhere.ALPHA, targets=targets, ensure_weight_tying=ensure, scaling="rslora" if settings.get("use_rslora") else "lora", magnitude=settings.get("use_dora", False),
                   **{key: settings[key] for key in ("rank_pattern", "alpha_pattern") if key in settings}, **{"from": str(start)}) | adapter
    path.mkdir(exist_ok=True)
    (path / "run.yaml").write_text(yaml_of(dict(
        model=base, init=base, adapter=adapter, threads=1, precision="fp64", device="reference", data=dict(train=str(made / "window"), sequence=LENGTH),
        optimizer=dict(name="sgd", global_batch=1, steps=1, lr=rate, weight_decay=0.0, clip=0.0, decay="constant"), output=str(path / "run"))))
    return path / "run.yaml"


@pytest.mark.parametrize("name", CASES)
def test_gradients(made, tmp_path, name):
    """A step of a rate of 1 takes the gradient away."""
    adapter = adapter_of(made, tmp_path / "adapter", name)
    said = trireme("train", run_of(made, tmp_path, name, adapter)).stderr
    assert "`adapter.from` takes the factors alone" not in said
    after = {key.removeprefix(lora.PREFIX): values for key, values in lora.read_factors(newest_of(tmp_path / "run"))[0].items()}
    before, expected = peft_everywhere.factors_of(name), FOUND[name]["gradients"]
    assert set(after) == set(expected)
    for key, probes in expected.items():
        ours = numpy.array(peft_everywhere.probes(before[key].astype(numpy.float64) - after[key]))
        assert (numpy.abs(ours - probes) <= 1e-10 * probes[0]).all(), (key, ours - probes)


@pytest.mark.parametrize("name", ["each by itself", "both as one"])
def test_other_ties(made, tmp_path, name):
    """A run begins with factors that are tied as its own are."""
    adapter = adapter_of(made, tmp_path / "adapter", name)
    said = trireme("train", run_of(made, tmp_path, name, adapter, ensure_weight_tying=not CASES[name][3], targets=["embed_tokens", "lm_head"]), status=3).stderr
    assert "`adapter.from`: the factors of the embedding and the output projection are" in said and "`adapter.ensure_weight_tying`" in said


@pytest.mark.parametrize("name", CASES)
def test_adapters_of_peft(made, tmp_path, name):
    adapter, expected = adapter_of(made, tmp_path / "adapter", name), FOUND[name]["loss"]
    tied, _, modules, ensure, _ = CASES[name]
    parted = tied and not ensure and not {"model.embed_tokens", "lm_head"}.isdisjoint(modules)
    assert abs(loss(made, adapter, *IN_DOUBLE) / expected - 1) < 1e-12
    said = trireme("export", "--merge", adapter, tmp_path / "merged").stderr
    assert abs(loss(made, tmp_path / "merged", *IN_DOUBLE) / expected - 1) < 1e-6
    assert ("and no `ensure_weight_tying`" in said) == parted
    assert json.loads((tmp_path / "merged/config.json").read_text())["tie_word_embeddings"] == (tied and not parted)
    assert (HEAD in tensors_of((tmp_path / "merged").glob("model*.safetensors"))) == (not tied or parted)


@pytest.mark.parametrize("name", CASES)
def test_our_own(made, tmp_path, name):
    """A run's folder, and what it exports, are the same model; PEFT's keys say which (tests/full loads them there)."""
    tied, _, modules, ensure, _ = CASES[name]
    trireme("train", run_of(made, tmp_path, name, adapter_of(made, tmp_path / "adapter", name), rate=0.1))
    trireme("export", tmp_path / "run", tmp_path / "exported")
    trireme("export", "--merge", tmp_path / "run", tmp_path / "merged")
    config = json.loads((tmp_path / "exported/adapter_config.json").read_text())
    assert config["ensure_weight_tying"] == ensure and config["modules_to_save"] is None
    losses = [loss(made, tmp_path / folder, *IN_DOUBLE) for folder in ("run", "exported", "merged")]
    assert max(losses) - min(losses) < 1e-6 * losses[0] and losses[0] != FOUND[name]["loss"]


PATTERNS = {"*_proj": 14, "q_pro?": 2, "*.0.self_attn.q_proj": 1, "layers.[1-9].self_attn.[qv]_proj": 2}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns(made, tmp_path, pattern):
    """A target with *, ? or a set matches ends of modules' names; PEFT's lists have no patterns, so that whole names are written."""
    config, factors = exported_of(made, tmp_path, targets=[pattern])
    assert len(config["target_modules"]) == PATTERNS[pattern] and {f"{module}.lora_A.weight" for module in config["target_modules"]} == {name for name in factors if ".lora_A" in name}


def test_long_lists(made, tmp_path):
    names = [f"model.layers.{layer}.{part}" for layer in (0, 1) for part in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.up_proj", "mlp.gate_proj", "mlp.down_proj")]
    config, _ = exported_of(made, tmp_path, targets=names + [f"{layer}.self_attn.{part}_proj" for layer in (0, 1) for part in "qkvo"])
    assert set(names) <= set(config["target_modules"])


def exported_of(made, tmp_path, status=0, base="base-False", **adapter):
    run = dict(model=str(made / base), init=str(made / base), adapter=dict(rank=2, **adapter), threads=1, data=dict(train=str(made / "window"), sequence=LENGTH),
               optimizer=dict(global_batch=1, steps=1, lr=1e-2), output=str(tmp_path / "run"))
    (tmp_path / "run.yaml").write_text(yaml_of(run))
    done = trireme("train", tmp_path / "run.yaml", status=status)
    if status != 0:
        return done.stderr
    trireme("export", tmp_path / "run", tmp_path / "exported")
    return (json.loads((tmp_path / "exported/adapter_config.json").read_text()),
            {name.removeprefix(lora.PREFIX) for name in tensors_of([tmp_path / "exported/adapter_model.safetensors"])})


def test_a_tied_output_projection_is_not_trained_by_itself(made, tmp_path):
    said = exported_of(made, tmp_path, status=3, base="base-True", train=["lm_head.*"])
    assert "`adapter.train` matches lm_head.weight, which is tied to model.embed_tokens.weight; name the latter" in said


# ---- every family ----------------------------------------------------------------------------------------------------

def write_tokens(prefix):
    """Tokens that all models have, as make_peft_everywhere.py takes them."""
    prefix.with_suffix(".bin").write_bytes((peft_ties.tokens() % 53).astype("<i4").tobytes())
    peft_ties.write_window(prefix.with_name("other"))
    prefix.with_suffix(".idx").write_bytes(prefix.with_name("other.idx").read_bytes())


def family_loss(folder, *words):
    return json.loads(trireme("eval", folder, folder.parent / "tokens", "--sequence", LENGTH, "--json", *IN_DOUBLE, *words).stdout)["loss"]


def train_family(tmp_path, base, **adapter):
    (tmp_path / "run.yaml").write_text(yaml_of(dict(
        model=str(base), init=str(base), adapter=dict(rank=2, alpha=peft_everywhere.ALPHA, **adapter), threads=1, precision="fp64", device="reference",
        data=dict(train=str(tmp_path / "tokens"), sequence=LENGTH), optimizer=dict(global_batch=1, steps=1, lr=1e-2), output=str(tmp_path / "run"))))
    trireme("train", tmp_path / "run.yaml")
    return tmp_path / "run"


@pytest.mark.parametrize("kind", peft_everywhere.KINDS)
@pytest.mark.parametrize("family", peft_everywhere.FAMILIES)
def test_families(tmp_path, family, kind):
    """PEFT's adapters are the same model here, and ours have PEFT's names of modules: in PEFT another name is a tensor that is passed over."""
    found = STORED["families"][family]
    base = peft_everywhere.write_family(tmp_path / "base", family, found)
    adapter = peft_everywhere.write_kind(tmp_path / "adapter", base, family, kind, found)
    write_tokens(tmp_path / "tokens")
    config, tensors = found[kind]["config"], found[kind]["tensors"]
    assert abs(family_loss(adapter) - found[kind]["loss"]) < 2e-5
    targets = config["target_modules"] + [name.removesuffix(".weight") for name in config.get("target_parameters", [])]
    tied = {HEAD, "embed_out.weight"}.isdisjoint(found["base"])
    saved = [name for name in tensors if ".lora_" not in name and not (tied and name == HEAD)]
    run = train_family(tmp_path, base, targets=targets, train=saved)
    trireme("export", run, tmp_path / "exported")
    written = json.loads((tmp_path / "exported/adapter_config.json").read_text())
    names = {name.removeprefix(lora.PREFIX) for name in tensors_of([tmp_path / "exported/adapter_model.safetensors"])}
    assert names == {name for name in tensors if ".lora_" in name or name in saved}
    modules = {name.rsplit(".", 1)[0] for name in saved}
    assert set(written["modules_to_save"] or []) == modules
    assert set(written.get("target_parameters", [])) == set(config.get("target_parameters", []))
    assert set(written["target_modules"]) == set(config["target_modules"]) or all(any(f".{name}".endswith(f".{own}") for name in written["target_modules"]) for own in config["target_modules"])
    assert abs(family_loss(tmp_path / "exported") - family_loss(run)) < 1e-6

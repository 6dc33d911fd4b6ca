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
    FOUND = json.load(stored)
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

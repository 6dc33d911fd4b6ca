"""An adapter that trains one of two tied tensors is one model in PEFT and here: beside PEFT's losses (peft_ties.json, which
make_peft_ties.py wrote)."""
import json
import os
import struct

import peft_ties
import pytest
from parity import trireme, yaml_of
from peft_ties import CASES, EMBEDDING, HEAD, LENGTH

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "peft_ties.json")) as stored:
    LOSSES = json.load(stored)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    peft_ties.write_base(folder / "base")
    peft_ties.write_window(folder / "window")
    return folder


def loss(made, folder, *words):
    return json.loads(trireme("eval", folder, made / "window", "--sequence", LENGTH, "--json", *words).stdout)["loss"]


def names_in(path):
    raw = path.read_bytes()
    return {name for name in json.loads(raw[8:8 + struct.unpack("<Q", raw[:8])[0]])}


@pytest.mark.parametrize("name", CASES)
def test_adapters_of_peft(made, tmp_path, name):
    adapter = peft_ties.write_adapter(tmp_path / "adapter", made / "base", name)
    assert abs(loss(made, adapter) / LOSSES[name] - 1) < 1e-6
    said = trireme("export", "--merge", adapter, tmp_path / "merged").stderr
    assert abs(loss(made, tmp_path / "merged") / LOSSES[name] - 1) < 1e-6
    untied = name in peft_ties.UNTIED
    assert ("and no `ensure_weight_tying`: `lm_head.weight` and `model.embed_tokens.weight` are not tied in its model" in said) == untied
    assert json.loads((tmp_path / "merged/config.json").read_text())["tie_word_embeddings"] == (not untied)
    assert (HEAD in names_in(tmp_path / "merged/model.safetensors")) == untied


@pytest.mark.parametrize("name", peft_ties.LEAVES_OUT)
def test_what_is_left_out(made, tmp_path, name):
    """Factors in the file that adapter_config.json leaves out: PEFT passes over them, so that its loss is another one, and here they are refused."""
    settings, key = peft_ties.LEAVES_OUT[name]
    adapter = peft_ties.write_adapter(tmp_path / "adapter", made / "base", "neither", **settings)
    assert (LOSSES[name] == LOSSES["neither"]) == (key is None)
    if key is None:
        assert abs(loss(made, adapter) / LOSSES[name] - 1) < 1e-6
        return
    (tmp_path / "run.yaml").write_text(yaml_of(dict(
        model=str(made / "base"), init=str(made / "base"), adapter={"rank": 2, "alpha": 4, "targets": ["q_proj"], "from": str(adapter)}, threads=1,
        data=dict(train=str(made / "window"), sequence=LENGTH), optimizer=dict(global_batch=1, steps=1, lr=1e-2), output=str(tmp_path / "run"))))
    for command in (["eval", adapter, made / "window"], ["export", "--merge", adapter, tmp_path / "merged"], ["train", tmp_path / "run.yaml"]):
        said = trireme(*command, status=4).stderr
        assert "PEFT ignores the tensor `base_model.model.model.layers." in said and f"because `{key}` of adapter_config.json does not include its module" in said


def test_names_without_a_prefix(made, tmp_path):
    """PEFT finds none of them, and says so; here they are refused."""
    adapter = peft_ties.write_adapter(tmp_path / "adapter", made / "base", "neither")
    file, prefix = adapter / "adapter_model.safetensors", b"base_model.model."
    raw = file.read_bytes()
    length = struct.unpack("<Q", raw[:8])[0]
    header = raw[8:8 + length].replace(prefix, b"").ljust(length)
    file.write_bytes(raw[:8] + header + raw[8 + length:])
    said = trireme("eval", adapter, made / "window", status=4).stderr
    assert "PEFT ignores the tensor `model.layers.0.self_attn.q_proj.lora_A.weight`, because its name must be `base_model.model.model.layers.0" in said


@pytest.mark.parametrize("train", ["*embed_tokens*", "*input_layernorm*"])
def test_our_own(made, tmp_path, train):
    """A run trains two tied tensors as one, which is recorded in its adapter. PEFT then needs both tensors (test-full loads them there)."""
    (tmp_path / "run.yaml").write_text(yaml_of(dict(
        model=str(made / "base"), init=str(made / "base"), adapter=dict(rank=2, alpha=4, targets=["q_proj"], train=[train]), threads=1,
        data=dict(train=str(made / "window"), sequence=LENGTH), optimizer=dict(global_batch=1, steps=3, lr=1e-2), output=str(tmp_path / "run"))))
    trireme("train", tmp_path / "run.yaml")
    trireme("export", tmp_path / "run", tmp_path / "adapter")
    config, names = json.loads((tmp_path / "adapter/adapter_config.json").read_text()), names_in(tmp_path / "adapter/adapter_model.safetensors")
    tied = "embed" in train
    assert config["ensure_weight_tying"] == tied
    assert {f"base_model.model.{name}" for name in (HEAD, EMBEDDING)} <= names if tied else not any("embed" in name or "head" in name for name in names)
    trireme("export", "--merge", tmp_path / "run", tmp_path / "merged")
    losses = [loss(made, tmp_path / name) for name in ("run", "adapter", "merged")]
    assert max(losses) - min(losses) < 1e-6 * losses[0]
    assert HEAD not in names_in(tmp_path / "merged/model.safetensors")


@pytest.mark.parametrize("name, train", [("neither", ["*layernorm*"]), ("the embedding", ["*embed_tokens*"]), ("both as one", [])])
def test_factors_alone(made, tmp_path, name, train):
    """`adapter.from` takes the factors, whatever else its folder and the run train: the first loss is that of the base with them."""
    adapter = peft_ties.write_adapter(tmp_path / "adapter", made / "base", name)
    (tmp_path / "run.yaml").write_text(yaml_of(dict(
        model=str(made / "base"), init=str(made / "base"), adapter={"rank": 2, "alpha": 4, "targets": ["q_proj"], "train": train, "from": str(adapter)}, threads=1,
        data=dict(train=str(made / "window"), sequence=LENGTH), optimizer=dict(global_batch=1, steps=1, lr=1e-2), output=str(tmp_path / "run"))))
    said = trireme("train", tmp_path / "run.yaml").stderr
    assert abs(json.loads((tmp_path / "run/metrics.jsonl").read_text().splitlines()[0])["loss"] / LOSSES["neither"] - 1) < 1e-6
    others = len(CASES[name][2])
    assert ("`adapter.from` takes the factors alone" in said) == (others > 0)
    assert f"alone: {others} other tensor" in said or others == 0

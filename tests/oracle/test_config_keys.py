"""Puts every key of any model_type's config.json into those of all other model_types, and compares with transformers (config_keys.json, written
by make_config_keys.py): a key that transformers reads is read or refused by name, and one that it ignores is ignored, with a log line."""
import glob
import json
import os
import re
import subprocess

import config_keys
import families
import pytest
from families import BATCH, LENGTH, FamilyWeights
from parity import TOOLS

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "config_keys.json")) as stored:
    STORED = json.load(stored)
CHANGES = config_keys.changes()
# Keys that are treated differently from transformers, with the reason.
OTHERWISE = [
    ("gpt2", {"add_cross_attention": True}),  # they make modules that they do not use then
    ("falcon", {"head_dim": 8}),  # a property there that nothing may set; it is what follows from the other keys
]
# Keys without effect in these models: repetitions of other keys, keys whose switch is off, the original length of positions that are not
# scaled.
UNSAID = [(None, "rope_theta", 10000.0), (None, "rotary_emb_base", 10000), (None, "partial_rotary_factor", 0.5), ("gemma3_text", "rope_local_base_freq", 100.0),
          *[(model_type, "sliding_window", 4) for model_type in ("qwen2", "qwen3", "qwen3_moe", "smollm3", "dots1")],
          (None, "max_window_layers", 2),
          *[("phi3", "original_max_position_embeddings", length) for length in (24, 64)],
          ]


def is_otherwise(model_type, change, theirs):
    """A null that they fail at is a key that is not there."""
    return (model_type, change) in OTHERWISE or (isinstance(theirs, str) and None in change.values())



class Tensors:
    """Weights by the formula, whatever their names are; the shapes are those that our table asks for."""

    def __init__(self, model_type):
        self.model_type, self.names = model_type, {}

    def __getitem__(self, name):
        return families.tensor_of(self.model_type, name, tuple(self.names[name]))


class AnyWeights(FamilyWeights):
    def replace(self, tensors):
        tensors.names = self.names()
        super().replace(tensors)


def describe(folder, config):
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    return subprocess.run([os.path.join(TOOLS, "parity_tool"), "describe", str(folder)], capture_output=True, text=True)


def close(a, b):
    return isinstance(a, float) and isinstance(b, float) and abs(a - b) <= 1e-10 * abs(b)


def faults_of(tmp_path, model_type):
    stored, losses, faults = STORED[model_type], {}, []
    plain = describe(tmp_path / "plain", config_keys.config_of(model_type, {}))
    assert plain.returncode == 0 and plain.stderr == "", plain.stderr

    def ours(config, described):
        if described not in losses:
            tensors = Tensors(model_type)
            weights = AnyWeights(tmp_path / f"{len(losses)}", {**config, **{key: 0.0 for key in config_keys.DROPOUT if key in config}}, tensors)
            ids, labels = families.tokens_of(min(config.get("vocab_size", 61), 61), BATCH, LENGTH)
            losses[described] = weights.gradients("reference", "fp64", ids, labels, 1)[0]["loss"]
        return losses[described]

    read, unsaid = set(), []
    for change in [{}, *CHANGES]:
        theirs = stored["differs"].get(json.dumps(change), stored["loss"])
        config = config_keys.config_of(model_type, change)
        done = describe(tmp_path / "other", config)
        if len(change) == 1:
            [(key, value)] = change.items()
            if done.returncode != 0 or done.stdout.replace("name: other", "name: plain") != plain.stdout:
                read.add(key)
            elif value not in (None, False, 0, 1, []) and f" `{key}` " not in done.stderr:
                unsaid.append((key, value))
        ignored = close(theirs, stored["loss"])
        if is_otherwise(model_type, change, theirs):
            continue
        if done.returncode != 0:
            if ignored:
                faults.append(f"{change}: refused, and ignored by transformers: {done.stderr.strip()}")
        elif isinstance(theirs, str):
            faults.append(f"{change}: taken, and refused by transformers: {theirs}")
        else:
            mine = ours(config, done.stdout)
            if not close(mine, theirs):
                faults.append(f"{change}: the loss is {mine} instead of {theirs} ({stored['loss']} without); {done.stderr.strip()}")
    faults += [f"{key}: {value} is ignored without a line" for key, value in unsaid
               if key not in read and (model_type, key, value) not in UNSAID and (None, key, value) not in UNSAID]
    return faults


@pytest.mark.parametrize("model_type", STORED)
def test_keys(tmp_path, model_type):
    faults = faults_of(tmp_path, model_type)
    assert not faults, "\n".join(faults)


def test_lines(tmp_path):
    """Log lines about ignored keys, about two keys with one meaning, and about dropout, which is not supported."""
    def said(model_type, **change):
        done = describe(tmp_path / "other", config_keys.config_of(model_type, change))
        assert done.returncode == 0, done.stderr
        return done.stderr.replace(f"{tmp_path}/other/config.json: ", "").splitlines()

    assert said("llama", attn_logit_softcapping=50.0, sliding_window=8, embedding_multiplier=1.0) == [
        "ignored: `attn_logit_softcapping` (50.0), `sliding_window` (8); transformers does not read them for model_type llama either"]
    assert said("gpt2", hidden_size=24) == ["`n_embd` (32) and `hidden_size` (24) have the same meaning here, but differ; `hidden_size` is used"]
    assert said("mixtral", num_experts=6) == ["`num_local_experts` (4) and `num_experts` (6) have the same meaning here, but differ; `num_experts` is used"]
    assert said("llama", rope_theta=5e5) == [
        "`rope_theta` (500000.0) and `rope_parameters.rope_theta` (10000.0) have the same meaning here, but differ; `rope_parameters.rope_theta` is used"]
    assert said("gpt_neox", rope_parameters=None, rope_theta=50.0, partial_rotary_factor=1.0) == [
        "ignored: `rope_theta` (50.0); transformers reads `rotary_emb_base` in its place for model_type gpt_neox",
        "ignored: `partial_rotary_factor` (1.0); transformers reads `rotary_pct` in its place for model_type gpt_neox"]
    assert said("gpt_neox", rope_parameters=None, rope_theta=50.0, rotary_emb_base=50) == []
    scaling = dict(rope_type="linear", factor=2.0)
    assert said("llama", rope_scaling=scaling)[0].endswith("have the same meaning here, but differ; `rope_scaling` is used")
    assert said("gpt2", attn_pdrop=0.1, embd_pdrop=0.1, resid_pdrop=0.2) == [
        "`attn_pdrop` is 0.1, but this dropout is not supported, so training does not apply it",
        "`embd_pdrop` (0.1) and `resid_pdrop` (0.2) have the same meaning here, but differ; `resid_pdrop` is used"]
    done = describe(tmp_path / "other", config_keys.config_of("qwen2", dict(layer_types=config_keys.SLIDING)))
    assert done.returncode != 0
    assert "`layer_types` has sliding_attention, and `use_sliding_window` is false or missing; correct one of them" in done.stderr
    done = describe(tmp_path / "other", config_keys.config_of("gemma3_text", dict(rope_scaling=scaling)))
    assert "has both `rope_scaling` and `rope_parameters`, which transformers refuses for this model_type; remove one of them" in done.stderr
    text = json.dumps(config_keys.config_of("llama", {}))
    (tmp_path / "other/config.json").write_text('{"hidden_size": 64, ' + text[1:])
    done = subprocess.run([os.path.join(TOOLS, "parity_tool"), "describe", str(tmp_path / "other")], capture_output=True, text=True)
    assert "hidden_size: 32" in done.stdout and "duplicate object key" in done.stderr and "the last one counts, as in Python" in done.stderr


REFUSED = {  # keys of all model_types in transformers 5.24
    "is_causal": (dict(is_causal=False), "`is_causal` is false: attention to later tokens is not supported"),
    "per_layer_config": (dict(per_layer_config={"1": dict(rms_norm_eps=0.5)}), '`per_layer_config` is {"1":{"rms_norm_eps":0.5}}: a layer with settings of its own is not supported'),
    "transformers_weights": (dict(transformers_weights="pruned.safetensors"), "`transformers_weights` is `pruned.safetensors`: a file of weights by another name is not supported"),
}


@pytest.mark.parametrize("key", REFUSED)
@pytest.mark.parametrize("model_type", ["gpt2", "llama", "gemma3_text"])
def test_keys_of_every_type(tmp_path, model_type, key):
    change, words = REFUSED[key]
    done = describe(tmp_path / "other", config_keys.config_of(model_type, change))
    assert done.returncode != 0 and words in done.stderr, done.stderr
    for nothing in ({key: None}, dict(is_causal=True), dict(per_layer_config={}), dict(transformers_weights="model.safetensors")):
        assert describe(tmp_path / "other", config_keys.config_of(model_type, nothing)).stderr == ""


def test_all_keys_are_tried():
    """Every key that one of our tables has a row for."""
    keys = set()
    for path in glob.glob(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../src/model/*.c")):
        with open(path) as file:
            text = file.read()
        keys |= set(re.findall(r'(?:FIELD|ALSO|ONLY|READS)\("([a-z_]+)"', text)) | set(re.findall(r'\.(?:key|theta|fraction|local) = "([a-z_]+)"', text))
    assert keys - set(config_keys.VALUES) == set()

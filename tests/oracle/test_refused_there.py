"""Models for which transformers has no class are refused at the start of a run, with the key; models that another of its classes supports are
written as that class. The comment after each case is the error of transformers 5.24."""
import json
import os
import subprocess

import pytest
from parity import TRIREME, trireme, yaml_of

SMALL = dict(num_layers=2, hidden_size=26, num_heads=4, head_dim=6, ffn_size=20, vocab_size=40, max_sequence=16)
YARN = dict(type="yarn", factor=2.0, original_max_sequence=8)
LONG = dict(type="longrope", factor=2.0, original_max_sequence=8, short_factor=[1.0, 1.5, 2.0], long_factor=[2.0, 3.0, 4.0])
DOTS1 = dict(SMALL, family="dots1", num_experts=4, experts_per_token=2, expert_ffn_size=10)
BIASES = dict(attention_bias=True, output_bias=True)

REFUSED = {
    # "The hidden size (26) is not a multiple of the number of attention heads (4)": Llama's, Gemma 2's and Gemma 3's configurations look
    "llama": (dict(SMALL, family="llama", **BIASES), "hidden_size"),
    "llama, mlp": (dict(SMALL, family="llama", mlp_bias=True), "hidden_size"),
    "gemma2": (dict(SMALL, family="gemma2"), "hidden_size"),
    "gemma3": (dict(SMALL, family="gemma3"), "hidden_size"),
    # "Field 'initializer_range' ... smaller or equal to 1.0"
    "llama, init_std": (dict(SMALL, hidden_size=24, family="llama", init_std=1.5, **BIASES), "init_std"),
    # _compute_yarn_parameters reads it beside the objects of the kinds of layers
    "gemma3, truncate": (dict(SMALL, hidden_size=24, family="gemma3", rope_scaling=dict(YARN, truncate=False)), "rope_scaling.truncate"),
    # sliding_attention is of type default, whatever rope_scaling says
    "gemma3, a window and stretched positions": (dict(SMALL, hidden_size=24, family="gemma3", window=4, window_layers="1 of 2", rope_scaling=YARN), "local_rope_theta"),
    # "short_factor field must have length 4, got 3"
    "phi3, longrope": (dict(SMALL, hidden_size=32, family="phi3", rope_scaling=LONG), "head_dim"),
    # ZeroDivisionError: the base is raised to dim / (dim - 2), of the components that rotate
    "gpt_neox, dynamic, two components": (dict(SMALL, hidden_size=32, head_dim=8, family="gpt_neox", rotary_fraction=0.25, rope_scaling=dict(
        type="dynamic", factor=2.0, original_max_sequence=8)), "rope_scaling.type"),
    # "selected index k out of range"
    "dots1, groups of one": (dict(DOTS1, router_groups=4, router_kept_groups=2), "router_groups"),
}
# case: (model, the model_type that is written).
TAKEN = {
    "llama": (dict(SMALL, family="llama"), "mistral"),
    "llama, init_std": (dict(SMALL, hidden_size=24, family="llama", init_std=1.5), "mistral"),
    "llama, by its name": (dict(SMALL, family="llama", model_type="llama"), "mistral"),
    "llama, heads that divide": (dict(SMALL, hidden_size=24, family="llama"), "llama"),
    "llama, biases of q, k and v": (dict(SMALL, family="llama", attention_bias=True), "qwen2"),
    "gemma3, truncate": (dict(SMALL, hidden_size=24, family="gemma3", rope_scaling=YARN), "gemma3_text"),
    "gemma3, a base of layers with a window": (dict(SMALL, hidden_size=24, family="gemma3", window=4, window_layers="1 of 2", local_rope_theta=100.0,
                                                    rope_scaling=YARN), "gemma3_text"),
    "phi3, longrope": (dict(SMALL, hidden_size=24, family="phi3", rope_scaling=LONG), "phi3"),
    "dots1, groups of two": (dict(DOTS1, router_groups=2, router_kept_groups=1), "dots1"),
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "text.txt").write_text("abc " * 40)
    trireme("prepare", "--tokenizer", "char", "--out", folder / "data", folder / "text.txt")
    return folder / "data/train"


def run_file(tmp_path, corpus, model):
    run = dict(model=model, data=dict(train=str(corpus), sequence=8), device="reference", layout=dict(micro_batch=1),
               optimizer=dict(global_batch=1, steps=1, lr=1e-2), output=str(tmp_path / "run"))
    (tmp_path / "run.yaml").write_text(yaml_of(run))
    return tmp_path / "run.yaml"


@pytest.mark.parametrize("name", REFUSED)
def test_refused(tmp_path, corpus, name):
    model, key = REFUSED[name]
    done = subprocess.run([TRIREME, "train", str(run_file(tmp_path, corpus, model))], capture_output=True, text=True)
    assert done.returncode != 0 and f"`{key}" in done.stderr, done.stderr
    assert not os.path.exists(tmp_path / "run/checkpoints")


@pytest.mark.parametrize("name", TAKEN)
def test_written_as(tmp_path, corpus, name):
    model, model_type = TAKEN[name]
    trireme("train", run_file(tmp_path, corpus, model))
    trireme("export", tmp_path / "run", tmp_path / "out")
    assert json.loads((tmp_path / "out/config.json").read_text())["model_type"] == model_type

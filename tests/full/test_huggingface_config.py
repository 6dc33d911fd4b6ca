"""config.json as transformers writes and reads it: theirs through our reader and writer must mean the same to them."""

import json
import os
import subprocess
import sys

import pytest

transformers = pytest.importorskip("transformers")
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "oracle"))

import config_keys  # noqa: E402
import make_config_keys  # noqa: E402

TOOL = os.path.join(os.environ["TRIREME_TOOLS"], "huggingface_tool")

LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 64}
YARN = {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 64, "beta_fast": 24.0, "beta_slow": 1.5,
        "truncate": False}
LONG = {"rope_type": "longrope", "factor": 2.0, "original_max_position_embeddings": 64, "short_factor": [1.0 + 0.25 * i for i in range(8)],
        "long_factor": [1.5 + i * i for i in range(8)]}
SMALL = {"hidden_size": 64, "intermediate_size": 112, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "vocab_size": 311, "max_position_embeddings": 128}


def with_rope(make, theta, scaling=None, **arguments):
    """From version 5 on both live in rope_parameters."""
    if int(transformers.__version__.split(".")[0]) >= 5:
        return make(rope_parameters={**(scaling or {"rope_type": "default"}), "rope_theta": theta}, **arguments)
    return make(rope_theta=theta, rope_scaling=scaling, **arguments)


CONFIGS = {
    "gpt2": lambda: transformers.GPT2Config(n_embd=48, n_head=3, n_layer=2, n_positions=64, vocab_size=311),
    "gpt2 untied, erf": lambda: transformers.GPT2Config(
        n_embd=48, n_head=3, n_layer=2, n_inner=100, n_positions=64, vocab_size=311, activation_function="gelu",
        tie_word_embeddings=False, layer_norm_epsilon=1e-6, initializer_range=0.013, resid_pdrop=0.0),
    "llama": lambda: with_rope(transformers.LlamaConfig, 1e4, **SMALL),
    "llama 3": lambda: with_rope(transformers.LlamaConfig, 5e5, LLAMA3, tie_word_embeddings=True, **SMALL),
    "linear": lambda: with_rope(transformers.LlamaConfig, 1e4, {"rope_type": "linear", "factor": 2.5}, **SMALL),
    "dynamic": lambda: with_rope(transformers.LlamaConfig, 1e4, {"rope_type": "dynamic", "factor": 4.0}, **SMALL),
    "yarn": lambda: with_rope(transformers.LlamaConfig, 1e6, YARN, **SMALL),
    "yarn, mscale": lambda: with_rope(transformers.LlamaConfig, 1e4, {**YARN, "mscale": 0.707, "mscale_all_dim": 1.5}, **SMALL),
    "yarn, given": lambda: with_rope(transformers.LlamaConfig, 1e4, {**YARN, "attention_factor": 1.25}, **SMALL),
    "longrope": lambda: with_rope(transformers.LlamaConfig, 1e4, LONG, **SMALL),
    "llama, head_dim": lambda: with_rope(transformers.LlamaConfig, 5e5, head_dim=32, rms_norm_eps=3e-5, **SMALL),
    "mistral": lambda: with_rope(transformers.MistralConfig, 1e6, sliding_window=None, **SMALL),
    "qwen2": lambda: with_rope(transformers.Qwen2Config, 1e6, tie_word_embeddings=True, **SMALL),
    "qwen3": lambda: with_rope(transformers.Qwen3Config, 1e6, head_dim=24, tie_word_embeddings=True, **SMALL),
    "mixtral": lambda: with_rope(transformers.MixtralConfig, 1e6, num_local_experts=6, num_experts_per_tok=3, **SMALL),
    "mixtral, window": lambda: with_rope(transformers.MixtralConfig, 1e6, sliding_window=9, **SMALL),
    "qwen3_moe": lambda: with_rope(transformers.Qwen3MoeConfig, 1e6, head_dim=24, num_experts=6, num_experts_per_tok=3,
                                   moe_intermediate_size=40, norm_topk_prob=True, mlp_only_layers=[0], **SMALL),
    "olmoe": lambda: with_rope(transformers.OlmoeConfig, 1e4, num_experts=6, num_experts_per_tok=3, norm_topk_prob=True, **SMALL),
    "dots1": lambda: with_rope(transformers.Dots1Config, 1e4, n_routed_experts=12, num_experts_per_tok=3, n_shared_experts=2,
                               moe_intermediate_size=40, first_k_dense_replace=1, n_group=4, topk_group=2, norm_topk_prob=True,
                               routed_scaling_factor=2.5, **SMALL),
}
EXPERTS = {
    "mixtral": ["num_local_experts", "num_experts_per_tok", "sliding_window"],
    "qwen3_moe": ["num_experts", "num_experts_per_tok", "moe_intermediate_size", "norm_topk_prob", "mlp_only_layers",
                  "decoder_sparse_step"],
    "olmoe": ["num_experts", "num_experts_per_tok", "norm_topk_prob", "clip_qkv"],
    "dots1": ["n_routed_experts", "num_experts_per_tok", "n_shared_experts", "moe_intermediate_size", "first_k_dense_replace",
              "n_group", "topk_group", "norm_topk_prob", "routed_scaling_factor"],
}
# What decides the function that the model computes, and its training.
KEYS = {
    "gpt2": ["vocab_size", "n_positions", "n_embd", "n_layer", "n_head", "activation_function", "resid_pdrop",
             "layer_norm_epsilon", "initializer_range", "tie_word_embeddings", "scale_attn_weights",
             "scale_attn_by_inverse_layer_idx"],
    "llama": ["vocab_size", "max_position_embeddings", "hidden_size", "intermediate_size", "num_hidden_layers",
              "num_attention_heads", "num_key_value_heads", "hidden_act", "rms_norm_eps", "initializer_range",
              "tie_word_embeddings"],
}


def rope(config):
    """(theta, scaling) whatever the version."""
    parameters = dict(getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {})
    theta = parameters.pop("rope_theta", getattr(config, "rope_theta", None))
    return theta, {} if parameters.get("rope_type", "default") == "default" else parameters


TYPES = ["sliding_attention", "full_attention", "full_attention", "sliding_attention"]
WINDOWS = {
    "mistral": ("MistralConfig", dict(sliding_window=9), ["sliding_attention"] * 4),
    "qwen2, from a layer on": ("Qwen2Config", dict(use_sliding_window=True, sliding_window=9, max_window_layers=3),
                               ["full_attention"] * 3 + ["sliding_attention"]),
    "qwen2, in no layer": ("Qwen2Config", dict(use_sliding_window=True, sliding_window=9, max_window_layers=4), ["full_attention"] * 4),
    "ministral": ("MinistralConfig", dict(sliding_window=9, layer_types=TYPES), TYPES),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_windows_round_trip(tmp_path, name):
    """Through us and back to them each layer has the window that it had."""
    kind, window, types = WINDOWS[name]
    if not hasattr(transformers, kind):
        pytest.skip(f"SKIPPED: this transformers has no {kind}")
    getattr(transformers, kind)(**{**SMALL, "num_hidden_layers": 4}, **window).save_pretrained(tmp_path)
    result = subprocess.run([TOOL, tmp_path], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    (tmp_path / "back").mkdir()
    (tmp_path / "back/config.json").write_text(result.stdout)
    again = transformers.AutoConfig.from_pretrained(tmp_path / "back")
    assert type(again) is getattr(transformers, kind)
    some = "sliding_attention" in types
    assert again.sliding_window == (9 if some else None) or not getattr(again, "use_sliding_window", True)
    assert getattr(again, "use_sliding_window", some) == some
    if hasattr(again, "layer_types"):
        assert again.layer_types == types


@pytest.mark.parametrize("name", CONFIGS)
def test_round_trip(tmp_path, name):
    config = CONFIGS[name]()
    config.save_pretrained(tmp_path)
    result = subprocess.run([TOOL, tmp_path], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    back = tmp_path / "back"
    back.mkdir()
    (back / "config.json").write_text(result.stdout)
    again = transformers.AutoConfig.from_pretrained(back)
    kind = "gpt2" if config.model_type == "gpt2" else "llama"
    for key in KEYS[kind] + EXPERTS.get(config.model_type, []):
        assert getattr(again, key) == getattr(config, key), key
    assert again.eos_token_id == 5
    architecture = {"gpt2": "GPT2LMHeadModel"}
    assert again.architectures == [architecture.get(config.model_type, type(config).__name__.replace("Config", "ForCausalLM"))]
    if kind == "gpt2":
        assert again.n_inner == (config.n_inner or 4 * config.n_embd)
        assert again.attn_pdrop == 0.0 and again.embd_pdrop == config.resid_pdrop
    else:
        assert rope(again) == rope(config)
        heads = config.num_attention_heads
        assert again.head_dim == (getattr(config, "head_dim", None) or config.hidden_size // heads)
        assert not getattr(again, "attention_bias", False)
    # Reading our config.json and writing it again gives the same content.
    second = subprocess.run([TOOL, back], capture_output=True, text=True)
    first_json, second_json = json.loads(result.stdout), json.loads(second.stdout)
    first_json.pop("_name_or_path"), second_json.pop("_name_or_path")
    assert first_json == second_json


@pytest.mark.parametrize("model_type", config_keys.BASES)
def test_keys_of_others(model_type):
    """What config_keys.json has is what transformers finds: the losses with each key of any model_type in this one's file."""
    with open(os.path.join(os.path.dirname(config_keys.__file__), "config_keys.json")) as stored:
        expected = json.load(stored)[model_type]
    found = make_config_keys.losses_of(model_type)
    assert found["loss"] == pytest.approx(expected["loss"], rel=1e-10) and set(found["differs"]) == set(expected["differs"])
    for change, loss in expected["differs"].items():
        assert isinstance(found["differs"][change], str) if isinstance(loss, str) else found["differs"][change] == pytest.approx(loss, rel=1e-10), change

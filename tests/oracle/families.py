"""Tiny models of the families, as config.json of transformers, two or more of each, with odd sizes that no block size divides; weights
and tokens computed by a formula, without a random number generator; and functions that run our tools on them. tests/full runs
transformers on them, make_family_cases.py stores its results, and test_families.py compares ours with these."""
import json
import math
import os
import subprocess
import zlib

import numpy
from parity import TOOLS, Weights, tool

# The stored cases: sequences and tokens of a batch, positions whose logits are stored, steps of AdamW.
BATCH, LENGTH, KEPT, STEPS = 3, 23, (3, 11, 22), 20
# Steps of Adafactor on one window of tokens, for families whose tensors on disk are several of our matrices.
# The eps keeps k's bias still, whose gradient is all rounding.
ADAFACTOR, ADAFACTOR_STEPS, ADAFACTOR_LR, ADAFACTOR_EPS = ("phi3", "gpt_neox", "falcon, 7B", "falcon, 40B"), 5, 2e-2, (1e-6, 1e-3)
PROMPT = "Line 7: the"
# Generation after several prompts: a vocabulary of bytes and the end of a text, the number of tokens, the prompts' lengths and letters.
BYTES, WRITTEN, LENGTHS, SENTENCE = 257, 16, (4, 1, 17, 9), "Line 7: the rowers pull, rest and pull again until the night"

# Keys that all configurations have.
PLAIN = dict(pad_token_id=None, bos_token_id=None, eos_token_id=None, attention_dropout=0.0)
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16)


def sizes(layers, hidden, heads, ffn, vocab, kv=None, longest=40, **others):
    """By the names of Llama's and most others'."""
    return dict(num_hidden_layers=layers, hidden_size=hidden, num_attention_heads=heads, num_key_value_heads=heads if kv is None else kv,
                intermediate_size=ffn, vocab_size=vocab, max_position_embeddings=longest, **others)


def rope(theta=10000.0, **others):
    return dict(rope_parameters=dict(rope_type="default", rope_theta=theta) | others)


def longrope(pairs):
    return dict(rope_type="longrope", short_factor=[1 + 0.125 * i for i in range(pairs)], long_factor=[1.25 + 1.5 * i * i for i in range(pairs)])


GEMMA3_ROPE = dict(sliding_attention=dict(rope_type="default", rope_theta=100.0), full_attention=dict(rope_type="default", rope_theta=3000.0))
GEMMA3_STRETCHED = dict(GEMMA3_ROPE, full_attention=dict(rope_type="linear", factor=8.0, rope_theta=3000.0))
FALCON = dict(num_hidden_layers=2, vocab_size=89, max_position_embeddings=40, alibi=False, bias=False, hidden_dropout=0.0)

# model_type, then the keys of its configuration.
MODELS = {
    "gemma": ("gemma", dict(**sizes(2, 24, 4, 37, 61, kv=1), head_dim=10, **rope())),
    "gemma, untied": ("gemma", dict(**sizes(3, 30, 3, 41, 97), head_dim=8, tie_word_embeddings=False, rms_norm_eps=1e-4, **rope(500.0))),
    "gemma2": ("gemma2", dict(**sizes(4, 28, 4, 33, 83, kv=2), head_dim=10, query_pre_attn_scalar=7, sliding_window=5, attn_logit_softcapping=1.5,
                              final_logit_softcapping=2.0, **rope())),
    "gemma2, no caps, odd layers": ("gemma2", dict(**sizes(5, 18, 3, 29, 67, kv=3), head_dim=6, query_pre_attn_scalar=6, sliding_window=3,
                                                   attn_logit_softcapping=None, final_logit_softcapping=None, tie_word_embeddings=False,
                                                   layer_types=["full_attention"] + ["sliding_attention"] * 3 + ["full_attention"], **rope())),
    "gemma3": ("gemma3_text", dict(**sizes(7, 20, 4, 27, 71, kv=2), head_dim=8, query_pre_attn_scalar=11, sliding_window=4, rope_parameters=GEMMA3_ROPE)),
    "gemma3, stretched": ("gemma3_text", dict(**sizes(3, 24, 2, 31, 59, kv=1), head_dim=14, query_pre_attn_scalar=14, sliding_window=6,
                                              layer_types=["sliding_attention", "full_attention", "sliding_attention"],
                                              tie_word_embeddings=False, rope_parameters=GEMMA3_STRETCHED)),
    "phi": ("phi", dict(**sizes(3, 32, 4, 45, 79), resid_pdrop=0.0, embd_pdrop=0.0, **rope(partial_rotary_factor=0.5))),
    "phi, grouped, tied": ("phi", dict(**sizes(2, 40, 4, 35, 53, kv=2), resid_pdrop=0.0, embd_pdrop=0.0, tie_word_embeddings=True, hidden_act="gelu",
                                       layer_norm_eps=1e-4, **rope(300.0, partial_rotary_factor=0.4))),
    "phi3": ("phi3", dict(**sizes(3, 24, 4, 37, 73, kv=2), resid_pdrop=0.0, embd_pdrop=0.0, sliding_window=5, **rope())),
    "phi3, partial, tied": ("phi3", dict(**sizes(2, 40, 4, 33, 61, kv=1), resid_pdrop=0.0, embd_pdrop=0.0, sliding_window=None, tie_word_embeddings=True,
                                         **rope(700.0, partial_rotary_factor=0.6))),
    "phi3, longrope": ("phi3", dict(**sizes(2, 24, 2, 29, 53, kv=1, longest=640), resid_pdrop=0.0, embd_pdrop=0.0, sliding_window=None,
                                    original_max_position_embeddings=40, **rope(500.0, **longrope(6)))),
    "phi3, longrope, partial, long": ("phi3", dict(**sizes(3, 40, 4, 33, 61, kv=2, longest=128), resid_pdrop=0.0, embd_pdrop=0.0, sliding_window=None,
                                                   tie_word_embeddings=True, original_max_position_embeddings=16,
                                                   **rope(partial_rotary_factor=0.6, **longrope(3)))),
    "gpt_neox": ("gpt_neox", dict(num_hidden_layers=3, hidden_size=48, num_attention_heads=6, intermediate_size=70, vocab_size=77,
                                  max_position_embeddings=40, hidden_dropout=0.0, **rope(partial_rotary_factor=0.25))),
    "gpt_neox, sequential, tied": ("gpt_neox", dict(num_hidden_layers=2, hidden_size=30, num_attention_heads=3, intermediate_size=53, vocab_size=63,
                                                    max_position_embeddings=40, hidden_dropout=0.0, use_parallel_residual=False, hidden_act="gelu_new",
                                                    tie_word_embeddings=True, layer_norm_eps=1e-4, **rope(200.0, partial_rotary_factor=1.0))),
    "olmo2": ("olmo2", dict(**sizes(3, 24, 4, 37, 73, kv=2), **rope())),
    "olmo2, stretched, tied": ("olmo2", dict(**sizes(2, 30, 3, 29, 61), tie_word_embeddings=True, rms_norm_eps=1e-4,
                                             rope_parameters=dict(LLAMA3, rope_theta=5000.0))),
    "smollm3": ("smollm3", dict(**sizes(5, 24, 4, 37, 73, kv=2), **rope())),
    "smollm3, windows": ("smollm3", dict(**sizes(3, 20, 2, 31, 57, kv=1), no_rope_layers=[0, 1, 0], use_sliding_window=True, sliding_window=5,
                                         layer_types=["sliding_attention", "full_attention", "sliding_attention"],
                                         tie_word_embeddings=False, rope_parameters=dict(rope_type="yarn", factor=4.0, rope_theta=3000.0,
                                                                                         original_max_position_embeddings=10))),
    "falcon, 7B": ("falcon", dict(**FALCON, hidden_size=36, num_attention_heads=6, multi_query=True, parallel_attn=True, **rope())),
    "falcon, 40B": ("falcon", dict(**FALCON, hidden_size=48, num_attention_heads=6, num_kv_heads=2, ffn_hidden_size=75, new_decoder_architecture=True,
                                   **rope(400.0))),
    "falcon, 11B": ("falcon", dict(**FALCON, hidden_size=40, num_attention_heads=4, num_kv_heads=2, new_decoder_architecture=True,
                                   num_ln_in_parallel_attn=1, tie_word_embeddings=False, **rope())),
    "falcon, old": ("falcon", dict(**FALCON, hidden_size=24, num_attention_heads=3, multi_query=False, parallel_attn=False, layer_norm_epsilon=1e-4,
                                   **rope())),
    "falcon, old, one head of keys": ("falcon", dict(**FALCON, hidden_size=24, num_attention_heads=3, multi_query=True, parallel_attn=False, **rope())),
    "falcon, 7B, biases": ("falcon", dict(FALCON, bias=True, hidden_size=36, num_attention_heads=6, multi_query=True, parallel_attn=True, **rope())),
    "falcon, 40B, biases": ("falcon", dict(FALCON, bias=True, hidden_size=48, num_attention_heads=6, num_kv_heads=2, new_decoder_architecture=True,
                                           **rope(400.0))),
    "gpt_neox, no biases of attention": ("gpt_neox", dict(num_hidden_layers=2, hidden_size=24, num_attention_heads=3, intermediate_size=37, vocab_size=61,
                                                          max_position_embeddings=40, hidden_dropout=0.0, attention_bias=False,
                                                          **rope(partial_rotary_factor=0.5))),
    "starcoder2, no biases": ("starcoder2", dict(**sizes(2, 30, 3, 41, 59, kv=1), residual_dropout=0.0, embedding_dropout=0.0, sliding_window=None,
                                                 use_bias=False, **rope(700.0))),
    "opt, no biases": ("opt", dict(num_hidden_layers=2, hidden_size=30, num_attention_heads=3, ffn_dim=37, vocab_size=53, max_position_embeddings=33,
                                   word_embed_proj_dim=30, dropout=0.0, activation_function="relu", enable_bias=False)),
    "stablelm": ("stablelm", dict(**sizes(3, 32, 4, 45, 79, kv=2), use_qkv_bias=True, **rope(partial_rotary_factor=0.25))),
    "stablelm, parallel": ("stablelm", dict(**sizes(2, 36, 3, 41, 59), use_parallel_residual=True, tie_word_embeddings=True, layer_norm_eps=1e-4,
                                            **rope(900.0, partial_rotary_factor=0.5))),
    "starcoder2": ("starcoder2", dict(**sizes(3, 24, 4, 37, 73, kv=2), residual_dropout=0.0, embedding_dropout=0.0, sliding_window=5, **rope())),
    "starcoder2, untied": ("starcoder2", dict(**sizes(2, 30, 3, 41, 59, kv=1), residual_dropout=0.0, embedding_dropout=0.0, sliding_window=None,
                                              tie_word_embeddings=False, norm_epsilon=1e-4, hidden_act="gelu", **rope(700.0))),
    "granite": ("granite", dict(**sizes(3, 24, 4, 37, 73, kv=2), embedding_multiplier=3.5, residual_multiplier=0.3, attention_multiplier=0.21,
                                logits_scaling=1.7, **rope())),
    "granite, tied": ("granite", dict(**sizes(2, 30, 3, 29, 61), embedding_multiplier=0.7, residual_multiplier=1.4, attention_multiplier=0.9,
                                      logits_scaling=0.6, tie_word_embeddings=True, rope_parameters=dict(LLAMA3, rope_theta=5000.0))),
    "opt": ("opt", dict(num_hidden_layers=3, hidden_size=28, num_attention_heads=4, ffn_dim=45, vocab_size=79, max_position_embeddings=40,
                        word_embed_proj_dim=28, dropout=0.0, activation_function="relu")),
    "opt, untied": ("opt", dict(num_hidden_layers=2, hidden_size=30, num_attention_heads=3, ffn_dim=37, vocab_size=53, max_position_embeddings=33,
                                word_embed_proj_dim=30, dropout=0.0, activation_function="gelu", tie_word_embeddings=False)),
    "qwen3": ("qwen3", dict(**sizes(3, 24, 4, 37, 73, kv=2), head_dim=10, **rope())),
    "qwen3, windows, tied": ("qwen3", dict(**sizes(4, 28, 4, 33, 61, kv=1), head_dim=8, use_sliding_window=True, sliding_window=5, max_window_layers=2,
                                           tie_word_embeddings=True, **rope(800.0))),
    "qwen3, biases": ("qwen3", dict(**sizes(2, 24, 4, 29, 53, kv=2), head_dim=8, attention_bias=True, **rope())),
    "granite, biases": ("granite", dict(**sizes(2, 24, 3, 29, 53), attention_bias=True, embedding_multiplier=1.5, residual_multiplier=0.6,
                                        attention_multiplier=0.3, logits_scaling=1.2, **rope())),
    "olmo2, biases": ("olmo2", dict(**sizes(2, 24, 4, 33, 61, kv=1), attention_bias=True, **rope())),
    "gemma2, biases": ("gemma2", dict(**sizes(2, 28, 4, 33, 61, kv=2), head_dim=8, attention_bias=True, query_pre_attn_scalar=7, sliding_window=5, **rope())),
    "llama, biases": ("llama", dict(**sizes(3, 24, 4, 37, 73, kv=2), attention_bias=True, **rope())),
    "llama, all biases": ("llama", dict(**sizes(3, 24, 4, 37, 73, kv=2), attention_bias=True, mlp_bias=True, **rope())),
    "granite, mlp biases": ("granite", dict(**sizes(2, 30, 3, 29, 61), mlp_bias=True, embedding_multiplier=0.7, residual_multiplier=1.4,
                                            attention_multiplier=0.9, logits_scaling=0.6, tie_word_embeddings=True, **rope())),
    "smollm3, mlp biases": ("smollm3", dict(**sizes(3, 20, 2, 31, 57, kv=1), no_rope_layers=[0, 1, 1], mlp_bias=True, hidden_act="gelu", **rope())),
    "qwen3, longrope": ("qwen3", dict(**sizes(2, 24, 3, 31, 57), head_dim=8,
                                      **rope(factor=3.0, attention_factor=1.3, original_max_position_embeddings=22, **longrope(4)))),
}

# Families whose losses and gradients other tests compare with others': here only what they write is.
EXPERTS = dict(**sizes(2, 24, 4, 37, BYTES, kv=2), moe_intermediate_size=19, num_experts_per_tok=2, norm_topk_prob=True, **rope())
WRITERS = {
    "gpt2": ("gpt2", dict(n_layer=2, n_embd=24, n_head=3, n_positions=40, vocab_size=BYTES, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)),
    "llama": ("llama", dict(**sizes(3, 24, 4, 37, BYTES, kv=2), rope_parameters=dict(LLAMA3, rope_theta=5000.0))),
    "mistral": ("mistral", dict(**sizes(3, 24, 4, 37, BYTES, kv=2), sliding_window=5, head_dim=6, **rope())),
    "qwen2": ("qwen2", dict(**sizes(4, 24, 4, 37, BYTES, kv=2), use_sliding_window=True, sliding_window=5, max_window_layers=2, **rope())),
    "mixtral": ("mixtral", dict(**sizes(2, 24, 4, 37, BYTES, kv=2), num_local_experts=5, num_experts_per_tok=2, sliding_window=None, **rope())),
    "qwen3_moe": ("qwen3_moe", dict(EXPERTS, num_experts=5, head_dim=10, decoder_sparse_step=1, mlp_only_layers=[0])),
    "olmoe": ("olmoe", dict(**sizes(2, 24, 4, 19, BYTES, kv=2), num_experts=5, num_experts_per_tok=3, norm_topk_prob=False, **rope())),
    "dots1": ("dots1", dict(EXPERTS, n_routed_experts=6, n_shared_experts=1, n_group=3, topk_group=2, routed_scaling_factor=1.5, first_k_dense_replace=1,
                            head_dim=8, sliding_window=None, max_window_layers=2)),
}


# Configurations that leave keys out, or have keys of other families: they must be read as transformers reads them.
FACTORS = [1 + 0.1 * i for i in range(3)], [1.5 + 0.7 * i for i in range(3)]
SMOLLM3 = dict(**sizes(4, 24, 4, 37, 61, kv=2), use_sliding_window=True, sliding_window=5, **rope())
GEMMA3 = dict(**sizes(4, 24, 4, 37, 61, kv=2), head_dim=8, sliding_window=5, query_pre_attn_scalar=8, final_logit_softcapping=2.0)
GEMMA3_MIXED = dict(GEMMA3, layer_types=["sliding_attention", "full_attention", "full_attention", "sliding_attention"], rope_theta=300.0)
GEMMA3_YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=10, beta_fast=4.0, beta_slow=0.5)
GPT_NEOX = dict(num_hidden_layers=2, hidden_size=48, num_attention_heads=3, intermediate_size=37, vocab_size=61, max_position_embeddings=40, hidden_dropout=0.0)
PHI3 = dict(**sizes(2, 24, 4, 37, 61, kv=2, longest=64), resid_pdrop=0.0, embd_pdrop=0.0)
READINGS = {
    "smollm3, windows by the layers that do not turn": ("smollm3", SMOLLM3),
    "smollm3, by an interval": ("smollm3", dict(SMOLLM3, no_rope_layer_interval=2)),
    "smollm3, switched off": ("smollm3", {key: value for key, value in SMOLLM3.items() if key != "use_sliding_window"}),
    "gemma3, a cap of scores that nobody reads": ("gemma3_text", dict(GEMMA3, attn_logit_softcapping=1.5)),
    "gemma3, the usual pattern": ("gemma3_text", {key: value for key, value in GEMMA3.items() if key != "sliding_window"}),
    "gemma3, a kind by its former name": ("gemma3_text", dict(GEMMA3_MIXED, rope_scaling=dict(type="linear", factor=3.0))),
    "gemma3, parameters of no kind of layer": ("gemma3_text", dict(GEMMA3_MIXED, rope_parameters=dict(rope_type="linear", factor=3.0, rope_theta=700.0))),
    "gemma3, parameters of one kind of layer": ("gemma3_text", dict(GEMMA3_MIXED, rope_parameters=dict(full_attention=dict(type="linear", factor=3.0)))),
    "gemma3, kinds of layers in the former key": ("gemma3_text", dict(GEMMA3_MIXED, rope_scaling=dict(
        rope_type="linear", factor=3.0, full_attention=dict(rope_type="linear", factor=5.0)))),
    "gemma3, the original length at the top": ("gemma3_text", dict(GEMMA3_MIXED, original_max_position_embeddings=6, rope_scaling=GEMMA3_YARN)),
    "gemma3, a range that is truncated all the same": ("gemma3_text", dict(GEMMA3_MIXED, rope_scaling=dict(GEMMA3_YARN, truncate=False))),
    "gemma2, nothing said": ("gemma2", dict(**sizes(3, 24, 4, 37, 61, kv=2), head_dim=8)),
    "gpt_neox, keys of others": ("gpt_neox", dict(GPT_NEOX, rope_theta=50.0, partial_rotary_factor=1.0)),
    "gpt_neox, keys of its own": ("gpt_neox", dict(GPT_NEOX, rotary_emb_base=50, rotary_pct=1.0, rope_theta=700.0, partial_rotary_factor=0.5)),
    "phi3, the original length inside alone": ("phi3", dict(PHI3, **rope(rope_type="longrope", short_factor=FACTORS[0], long_factor=FACTORS[1],
                                                                       original_max_position_embeddings=16))),
    "phi3, the original length twice": ("phi3", dict(PHI3, original_max_position_embeddings=20, **rope(
        rope_type="longrope", short_factor=FACTORS[0], long_factor=FACTORS[1], original_max_position_embeddings=16))),
    "phi3, as in version 4": ("phi3", dict(PHI3, original_max_position_embeddings=16, rope_theta=500.0,
                                           rope_scaling=dict(type="longrope", short_factor=FACTORS[0], long_factor=FACTORS[1]))),
    "mistral, a switch that it has not": ("mistral", dict(**sizes(2, 24, 4, 37, 61, kv=2), sliding_window=5, use_sliding_window=False, **rope())),
    "mistral, heads that do not divide the width": ("mistral", dict(**sizes(2, 26, 4, 37, 61, kv=2), sliding_window=None, head_dim=6, **rope())),
    "mistral, layer by layer": ("mistral", dict(**sizes(3, 24, 4, 37, 61, kv=2), sliding_window=5, head_dim=6, **rope(),
                                                layer_types=["full_attention", "sliding_attention", "full_attention"])),
    "qwen2, by the first layers": ("qwen2", dict(**sizes(4, 24, 4, 37, 61, kv=2), use_sliding_window=True, sliding_window=5, max_window_layers=2, **rope())),
    "llama3, without its length": ("llama", dict(**sizes(2, 24, 4, 37, 61, kv=2, longest=24), **rope(**{key: value for key, value in LLAMA3.items() if key[:4] != "orig"}))),
    "llama, a part that turns": ("llama", dict(**sizes(2, 24, 4, 37, 61, kv=2), partial_rotary_factor=0.5, **rope(partial_rotary_factor=0.5))),
    **{f"gpt_neox, {kind}, a half that turns": ("gpt_neox", dict(num_hidden_layers=2, hidden_size=24, num_attention_heads=3, intermediate_size=37, vocab_size=61,
                                                                 max_position_embeddings=40, hidden_dropout=0.0,
                                                                 **rope(rope_type=kind, partial_rotary_factor=0.5, **more)))
       for kind, more in (("linear", dict(factor=3.0)), ("dynamic", dict(factor=2.0)), ("yarn", dict(factor=4.0, original_max_position_embeddings=8)),
                          ("llama3", {key: value for key, value in LLAMA3.items() if key != "rope_type"}))},
}


def config_of(name):
    """{key: value} of a configuration, with its model_type."""
    model_type, keys = (MODELS | WRITERS)[name]
    return dict(PLAIN, model_type=model_type, **keys)


# ---- numbers from a formula ------------------------------------------------------------------------------------------

def mixed(name, count):
    """Pseudo-random numbers in [-1, 1), from a name: SplitMix64 (Steele et al. 2014) of its CRC-32 and their places."""
    x = numpy.arange(count, dtype=numpy.uint64) + (numpy.uint64(zlib.crc32(name.encode())) << numpy.uint64(32))
    with numpy.errstate(over="ignore"):
        x = x * numpy.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
    x = x ^ (x >> numpy.uint64(31))
    return (x >> numpy.uint64(11)).astype(numpy.float64) * 2.0**-52 - 1


def tensor_of(model_type, name, shape):
    """A weight: of matrices around 0, of norms around what leaves their input as it is; as single can say it."""
    values = mixed(name, math.prod(shape)).reshape(shape)
    if len(shape) > 1:
        values = 0.4 * values
    elif name.endswith(".weight"):
        values = 0.4 * values + (0 if model_type.startswith("gemma") else 1)
    else:
        values = 0.2 * values
    return values.astype(numpy.float32).astype(numpy.float64)


def writing_tensor_of(model_type, seed, name, shape):
    """Returns a weight of a model for generation, from a seed. If the layers begin with a norm, embeddings are small compared with the outputs of
    the layers: otherwise a model with tied embeddings would repeat the last token."""
    embedding = model_type != "olmo2" and any(part in name for part in ("embed_tokens", "wte", "embed_in", "word_embeddings"))
    return tensor_of(model_type, seed + name, shape) * (0.125 if embedding else 1)


def tokens_of(vocab, batch, length, seed=0):
    """Returns ids and labels [batch, length]; a fifth of the labels is ignored (-1)."""
    ids = ((mixed(f"ids {seed}", batch * length) + 1) / 2 * vocab).astype(numpy.int64).reshape(batch, length)
    labels = ((mixed(f"labels {seed}", batch * length) + 1) / 2 * vocab).astype(numpy.int64).reshape(batch, length)
    labels[mixed(f"ignored {seed}", batch * length).reshape(batch, length) < -0.6] = -1
    labels[0, 0] = 1
    return ids, labels


def window_of(vocab):
    """Ids and labels [1, LENGTH] of LENGTH + 1 tokens that follow each other."""
    tokens = tokens_of(vocab, 1, LENGTH + 1)[0]
    return tokens[:, :-1], tokens[:, 1:]


def prompts_of(config):
    """Returns prompts of LENGTHS, and the number of tokens to generate after each. If rotary angles change at a length (longrope), transformers
    changes them in the middle of a text, so all texts are longer than that length, or all are shorter."""
    rope = config.get("rope_parameters") or {}
    begin, count, longest = 0, WRITTEN, max(LENGTHS)
    if rope.get("rope_type") == "longrope":
        change = config.get("original_max_position_embeddings") or rope["original_max_position_embeddings"]
        if change < longest + count and change + longest + count <= config["max_position_embeddings"]:
            begin = change
        else:
            count = min(count, change - longest)
    return [SENTENCE[3 * i : 3 * i + begin + length] for i, length in enumerate(LENGTHS)], count


def probe_of(name, count):
    """Returns the array whose product with a gradient is stored: a number that depends on all of its elements."""
    return mixed("probe " + name, count)


# ---- in our tools' files ---------------------------------------------------------------------------------------------

def describe(folder):
    """The model of a folder as text of a model file."""
    done = subprocess.run([os.path.join(TOOLS, "parity_tool"), "describe", str(folder)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def rows_of(parameter):
    """Which rows of the tensor on disk a parameter is."""
    rows, first, block, stride = parameter["within"]
    return numpy.array([at + i for at in range(first, rows, stride) for i in range(block)])[: parameter["shape"][0]]


class FamilyWeights(Weights):
    """A model from a config.json and its tensors, under their names on disk. A tensor may contain several parameters."""

    def __init__(self, folder, config, tensors):
        self.folder = str(folder)
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(self.folder, "config.json"), "w") as f:
            json.dump(config, f)
        self.model_file = os.path.join(self.folder, "model.yaml")
        with open(self.model_file, "w") as f:
            f.write(describe(folder))
        self.table = tool("table", self.model_file)
        self.flat = numpy.zeros(self.table["num_elements"])
        self.file = os.path.join(self.folder, "weights.bin")
        self.replace(tensors)

    def replace(self, tensors):
        for p in self.table["parameters"]:
            tensor = tensors[p["name"]]
            assert len(tensor) == (p["within"][0] if "within" in p else p["shape"][0]), p
            self.put(self.flat, p, numpy.asarray(tensor[rows_of(p)] if "within" in p else tensor, numpy.float64))
        self.flat.tofile(self.file)

    def names(self):
        """{name on disk: shape there}."""
        return {p["name"]: [p["within"][0] if "within" in p else p["shape"][0], *p["shape"][1:]] for p in self.table["parameters"]}

    def on_disk(self, flat):
        """{name: tensor} of a flat array."""
        out = {name: numpy.full(shape, numpy.nan) for name, shape in self.names().items()}
        for p in self.table["parameters"]:
            out[p["name"]][rows_of(p) if "within" in p else slice(None)] = self.get(flat, p)
        assert not any(numpy.isnan(t).any() for t in out.values())
        return out

    def gradients(self, *words, **options):
        result, _ = super().gradients(*words, **options)
        return result, self.on_disk(numpy.fromfile(os.path.join(self.folder, "gradients.bin")))

    def logits(self, device, precision, piece, ids):
        """Returns the logits after each piece of `piece` tokens of one sequence, computed with the cache."""
        tokens, out = os.path.join(self.folder, "ids.bin"), os.path.join(self.folder, "logits.bin")
        numpy.asarray(ids).astype(numpy.int32).tofile(tokens)
        tool("logits", self.model_file, device, precision, piece, len(ids), self.file, tokens, out)
        return numpy.fromfile(out).reshape(-(-len(ids) // piece), -1)

    def in_order(self):
        """{number: tensor}: what layout_tool begins with."""
        return {i: self.get(self.flat, p) for i, p in enumerate(self.table["parameters"])}

    def of_layouts(self, flat):
        """{name on disk: tensor} of what layout_tool wrote."""
        placed, at = numpy.zeros_like(self.flat), 0
        for p in self.table["parameters"]:
            size = math.prod(p["shape"])
            self.put(placed, p, flat[at : at + size])
            at += size
        assert at == len(flat)
        return self.on_disk(placed)

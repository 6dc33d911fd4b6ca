"""One tiny model of each model_type, and values for every key that any of our tables reads: each key is added to each model's
config.json. make_config_keys.py stores what transformers makes of them, and test_config_keys.py compares what we make of them."""
from families import PLAIN, rope, sizes

LAYERS, HIDDEN, HEADS, VOCAB = 3, 32, 4, 61
USUAL = sizes(LAYERS, HIDDEN, HEADS, 37, VOCAB, kv=2, **rope())
EXPERTS = dict(USUAL, num_experts_per_tok=2)
OTHERS = dict(num_hidden_layers=LAYERS, hidden_size=HIDDEN, num_attention_heads=HEADS, vocab_size=VOCAB, max_position_embeddings=40)

# model_type: the keys of its config.json
BASES = {
    "dots1": dict(EXPERTS, moe_intermediate_size=20, n_routed_experts=4, n_shared_experts=1, first_k_dense_replace=1, n_group=2, topk_group=1,
                  norm_topk_prob=True, routed_scaling_factor=1.5),
    "falcon": dict(OTHERS, alibi=False, bias=False, hidden_dropout=0.0, num_kv_heads=2, new_decoder_architecture=True, **rope()),
    "gemma": dict(USUAL, head_dim=8),
    "gemma2": dict(USUAL, head_dim=8, query_pre_attn_scalar=8, sliding_window=5),
    "gemma3_text": dict(USUAL, head_dim=8, query_pre_attn_scalar=8, sliding_window=5, sliding_window_pattern=2, rope_parameters=dict(
        sliding_attention=dict(rope_type="default", rope_theta=100.0), full_attention=dict(rope_type="default", rope_theta=3000.0))),
    "gpt2": dict(n_layer=LAYERS, n_embd=HIDDEN, n_head=HEADS, vocab_size=VOCAB, n_positions=40, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0),
    "gpt_neox": dict(OTHERS, intermediate_size=37, hidden_dropout=0.0, **rope(partial_rotary_factor=0.5)),
    "granite": dict(USUAL, embedding_multiplier=1.5, residual_multiplier=0.6, attention_multiplier=0.3, logits_scaling=1.2),
    "llama": USUAL,
    "mistral": dict(USUAL, head_dim=8, sliding_window=5),
    "ministral": dict(USUAL, head_dim=8, sliding_window=5, layer_types=["sliding_attention", "full_attention", "sliding_attention"]),
    "mixtral": dict(EXPERTS, head_dim=8, num_local_experts=4, sliding_window=None),
    "olmo2": USUAL,
    "olmoe": dict(EXPERTS, num_experts=4),
    "opt": dict(OTHERS, ffn_dim=37, word_embed_proj_dim=HIDDEN, dropout=0.0, activation_function="relu"),
    "phi": dict(USUAL, resid_pdrop=0.0, embd_pdrop=0.0, **rope(partial_rotary_factor=0.5)),
    "phi3": dict(USUAL, resid_pdrop=0.0, embd_pdrop=0.0, sliding_window=5),
    "qwen2": USUAL,
    "qwen3": dict(USUAL, head_dim=8),
    "qwen3_moe": dict(EXPERTS, head_dim=8, num_experts=4, moe_intermediate_size=20, norm_topk_prob=True, mlp_only_layers=[0]),
    "smollm3": USUAL,
    "stablelm": dict(USUAL, **rope(partial_rotary_factor=0.5)),
    "starcoder2": dict(USUAL, residual_dropout=0.0, embedding_dropout=0.0, sliding_window=5),
}

BOTH, ACTIVATIONS = (True, False), ("silu", "gelu")
SLIDING = ["sliding_attention", "full_attention", "full_attention"]
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=10)
DROPOUT = "attention_dropout", "attn_pdrop", "dropout", "embd_pdrop", "embedding_dropout", "hidden_dropout", "resid_pdrop", "residual_dropout"
# key: values, at least one of them not the default
VALUES = {
    **{key: BOTH for key in (
        "_remove_final_layer_norm", "add_cross_attention", "alibi", "attention_bias", "bias", "do_layer_norm_before", "enable_bias", "is_causal",
        "layer_norm_elementwise_affine", "mlp_bias", "multi_query", "new_decoder_architecture", "norm_topk_prob", "parallel_attn", "qk_layernorm",
        "scale_attn_by_inverse_layer_idx", "scale_attn_weights", "tie_word_embeddings", "use_bias", "use_bidirectional_attention",
        "use_parallel_residual", "use_qkv_bias", "use_sliding_window")},
    **{key: ACTIVATIONS for key in ("activation", "activation_function", "hidden_act", "hidden_activation")},
    **{key: (0.0, 0.25) for key in (*DROPOUT, "init_std", "initializer_range")},
    **{key: (1e-2,) for key in ("layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "rms_norm_eps")},
    **{key: (1.0, 1.7) for key in ("attention_multiplier", "embedding_multiplier", "logits_scaling", "residual_multiplier", "routed_scaling_factor")},
    **{key: (None, 0.3) for key in ("attn_logit_softcapping", "clip_qkv", "final_logit_softcapping")},
    **{key: (32, 24) for key in ("hidden_size", "n_embd", "n_embed", "word_embed_proj_dim", "ffn_dim", "ffn_hidden_size", "intermediate_size",
                                 "moe_intermediate_size", "n_inner")},
    **{key: (24, 64) for key in ("max_position_embeddings", "n_positions", "original_max_position_embeddings")},
    **{key: (2, 3) for key in ("n_layer", "num_hidden_layers")},
    **{key: (1, 2, 4) for key in ("n_head", "num_attention_heads", "num_key_value_heads", "num_kv_heads")},
    **{key: (2, 4, 6) for key in ("n_routed_experts", "num_experts", "num_local_experts")},
    **{key: (1, 2) for key in ("decoder_sparse_step", "first_k_dense_replace", "n_group", "n_shared_experts", "num_experts_per_tok",
                               "num_ln_in_parallel_attn", "topk_group", "no_rope_layer_interval")},
    "head_dim": (None, 8, 10),
    "layer_types": (["full_attention"] * LAYERS, SLIDING),
    "max_window_layers": (0, 2),
    "mlp_only_layers": ([], [0], [1]),
    "no_rope_layers": ([1] * LAYERS, [0, 1, 1]),
    "partial_rotary_factor": (1.0, 0.5),
    "query_pre_attn_scalar": (8, 11),
    "rope_local_base_freq": (100.0, 50.0),
    "rope_theta": (10000.0, 50.0),
    "rotary_emb_base": (10000, 50),
    "rotary_pct": (1.0, 0.25),
    "sliding_window": (None, 4),
    "sliding_window_pattern": (1, 2),
    "vocab_size": (61, 70),
}
# Several keys at once; some of them have the same meaning.
TOGETHER = [
    dict(rope_theta=50.0, rope_parameters=dict(rope_type="default", rope_theta=700.0)),
    dict(rope_theta=50.0, rope_parameters=dict(rope_type="default")),
    dict(rope_theta=50.0, rope_parameters=None, rope_scaling=None),
    dict(rope_scaling=YARN, rope_parameters=dict(rope_type="default", rope_theta=700.0)),
    dict(rope_scaling=YARN, rope_parameters=None, rope_theta=700.0),
    dict(rope_scaling=dict(type="linear", factor=3.0), rope_parameters=None, rope_theta=700.0),
    dict(rope_scaling=dict(type="linear", rope_type="yarn", factor=3.0), rope_parameters=None, rope_theta=700.0),
    dict(rope_scaling=dict(type="linear", factor=3.0), rope_parameters=dict(YARN, rope_theta=700.0)),
    dict(rope_scaling=dict(type="linear", factor=3.0, rope_theta=50.0), rope_parameters=None, rope_theta=700.0),
    dict(partial_rotary_factor=0.5, rope_parameters=dict(rope_type="default", rope_theta=700.0, partial_rotary_factor=1.0)),
    dict(partial_rotary_factor=1.0, rope_parameters=dict(rope_type="default", rope_theta=700.0, partial_rotary_factor=0.5)),
    dict(rotary_pct=0.25, partial_rotary_factor=0.5, rope_parameters=None),
    dict(use_sliding_window=True, sliding_window=4, max_window_layers=2, layer_types=SLIDING),
    dict(use_sliding_window=True, sliding_window=4, max_window_layers=1),
    dict(use_sliding_window=False, sliding_window=4, layer_types=SLIDING),
    dict(use_sliding_window=True, sliding_window=None, layer_types=SLIDING),
    dict(sliding_window=4, sliding_window_pattern=2, layer_types=None),
    dict(sliding_window=4, sliding_window_pattern=2, layer_types=SLIDING),
    dict(sliding_window=None, layer_types=SLIDING),
    dict(num_local_experts=6, num_experts=4),
    dict(num_experts=6, num_local_experts=4),
    dict(num_experts=6, n_routed_experts=4),
    dict(hidden_size=24, n_embd=32),
    dict(num_hidden_layers=2, n_layer=3),
    dict(num_attention_heads=2, n_head=4),
    dict(num_kv_heads=4, num_key_value_heads=2),
    dict(max_position_embeddings=40, n_positions=64),
    dict(hidden_act="silu", hidden_activation="gelu"),
    dict(hidden_act="relu", activation_function="gelu"),
    dict(head_dim=8, hidden_size=24),
    dict(no_rope_layers=[0, 1, 1], no_rope_layer_interval=2),
    dict(no_rope_layers=None, no_rope_layer_interval=2),
    dict(decoder_sparse_step=2, mlp_only_layers=[0]),
    dict(decoder_sparse_step=2, mlp_only_layers=[]),
    dict(rms_norm_eps=1e-2, layer_norm_eps=1e-3),
    dict(layer_norm_epsilon=1e-2, layer_norm_eps=1e-3),
    dict(norm_epsilon=1e-2, layer_norm_epsilon=1e-3),
    # Keys that every model_type of transformers has, layers of another kind, and rotary positions of each kind of layer.
    dict(per_layer_config={}),
    dict(per_layer_config={"1": dict(rms_norm_eps=1e-2, layer_norm_eps=1e-2, layer_norm_epsilon=1e-2, norm_epsilon=1e-2)}),
    dict(layer_types=["full_attention", "chunked_attention", "full_attention"]),
    dict(rope_parameters=dict(full_attention=dict(rope_type="default", rope_theta=50.0))),
]


def config_of(model_type, changed):
    return dict(PLAIN, model_type=model_type, **BASES[model_type]) | changed


def changes():
    """All that is laid over each model's config.json."""
    return [{key: value} for key, values in sorted(VALUES.items()) for value in values] + TOGETHER

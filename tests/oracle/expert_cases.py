"""Models with experts for the tests of layouts, and weights that send tokens to chosen experts.

Steered weights: a token's number modulo the number of experts is its first expert in every layer; the next experts follow in order.
So the tokens of a test determine the loads: if all are of one residue class, one expert gets all of them, and others get none."""
import json

import models
import numpy
from parity import tool

COMMON = dict(num_layers=3, hidden_size=16, num_heads=4, num_kv_heads=2, vocab_size=48, max_sequence=32, init_std=0.1)
# The router's losses are as large as the cross-entropy, so that an error in them is not hidden by a rate of 1e-4.
LOSSES = dict(balance="sequence", balance_rate=0.5, z_loss=0.05)
MIXTRAL = dict(family="mixtral", **COMMON, num_experts=5, experts_per_token=2, expert_ffn_size=10, **LOSSES)
QWEN3 = dict(family="qwen3_moe", **COMMON, num_experts=7, experts_per_token=3, expert_ffn_size=8, ffn_size=18, head_dim=6, router_normalised=False,
             dense_layers=1, **LOSSES)
OLMOE = dict(family="olmoe", **COMMON, num_experts=4, experts_per_token=1, expert_ffn_size=12, router_normalised=False, z_loss=0.1)
DOTS1 = dict(family="dots1", **{**COMMON, "num_layers": 4}, num_experts=6, experts_per_token=2, expert_ffn_size=6, shared_experts=2, ffn_size=20,
             dense_layers=2, router_groups=3, router_kept_groups=2, router_scale=2.5, balance="bias", balance_rate=0.02)
QUOTA = {**QWEN3, "num_experts": 8, "experts_per_token": 4, "router_groups": 4, "router_quota": True, "dense_layers": 0}
MODELS = {"mixtral": MIXTRAL, "qwen3_moe": QWEN3, "olmoe": OLMOE, "dots1": DOTS1, "quota": QUOTA}


def without_losses(model):
    return {key: value for key, value in model.items() if key not in ("balance", "balance_rate", "z_loss")}


def parameters_of(folder, model):
    (folder / "model.yaml").write_text(json.dumps(model))
    return tool("table", folder / "model.yaml")["parameters"]


def slices_of(table):
    """Returns {name: (its slice of an array of all tensors, its shape, whether it decays)}, in the order of the table."""
    found, at = {}, 0
    for p in table:
        size = int(numpy.prod(p["shape"]))
        found[p["name"]] = (slice(at, at + size), tuple(p["shape"]), p["decay"])
        at += size
    return found


def by_name(table, flat):
    slices = slices_of(table)
    assert len(flat) == max(s.stop for s, _, _ in slices.values())
    return {name: flat[where].reshape(shape) for name, (where, shape, _) in slices.items()}


def drawn(table, seed=0, std=0.1):
    """As parity.Weights draws them: norms about 1."""
    chance = numpy.random.default_rng(seed)
    return {p["name"]: chance.normal(0, std, p["shape"]) + (p["name"].endswith("norm.weight")) for p in table}


def steered(table, model, seed=0, std=0.04):
    """Drawn weights that route by a token's number: its embedding has a large number in the channel of its residue class, nothing
    that layers add is as large, and each expert of a router looks at a channel of its own, and less at those before it."""
    weights, experts = drawn(table, seed, std), model["num_experts"]
    assert experts <= model["hidden_size"]
    embedding = weights["model.embed_tokens.weight"]
    embedding[:, :experts] = 0
    embedding[numpy.arange(len(embedding)), numpy.arange(len(embedding)) % experts] = 3
    for name, w in weights.items():
        if name.endswith("gate.weight"):
            for channel in range(experts):
                w[(channel + numpy.arange(experts)) % experts, channel] = numpy.linspace(1, -1, experts)
        if name.endswith("layernorm.weight"):
            w[:] = 1
    return weights


def hugging_face_config(model):
    """What transformers would write into config.json."""
    m = models.complete(model)
    architecture = {"mixtral": "Mixtral", "qwen3": "Qwen3", "qwen3_moe": "Qwen3Moe", "olmoe": "Olmoe", "dots1": "Dots1"}[m["family"]]
    config = dict(model_type=m["family"], architectures=[architecture + "ForCausalLM"], num_hidden_layers=m["num_layers"], hidden_size=m["hidden_size"],
                  num_attention_heads=m["num_heads"], num_key_value_heads=m["num_kv_heads"], max_position_embeddings=m["max_sequence"],
                  vocab_size=m["vocab_size"], rms_norm_eps=m["norm_eps"], rope_theta=m["rope_theta"], tie_word_embeddings=m["tied"],
                  intermediate_size=m["ffn_size"], hidden_act="silu", initializer_range=0.02)
    if m["family"] != "olmoe":
        config["head_dim"] = m["head_dim"]
    if m["family"] == "qwen3":
        return config
    config["num_experts_per_tok"] = m["experts_per_token"]
    if m["family"] == "mixtral":
        return {**config, "num_local_experts": m["num_experts"], "intermediate_size": m["expert_ffn_size"], "sliding_window": None}
    if m["family"] == "dots1":
        return {**config, "n_routed_experts": m["num_experts"], "moe_intermediate_size": m["expert_ffn_size"], "n_shared_experts": m["shared_experts"] or None,
                "n_group": m["router_groups"], "topk_group": m["router_kept_groups"], "norm_topk_prob": m["router_normalised"],
                "routed_scaling_factor": m["router_scale"], "first_k_dense_replace": m["dense_layers"], "sliding_window": None}
    config.update(num_experts=m["num_experts"], norm_topk_prob=m["router_normalised"])
    if m["family"] == "olmoe":
        return {**config, "intermediate_size": m["expert_ffn_size"], "clip_qkv": None}
    return {**config, "moe_intermediate_size": m["expert_ffn_size"], "decoder_sparse_step": 1, "mlp_only_layers": list(range(m["dense_layers"]))}

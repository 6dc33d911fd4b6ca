"""Models of transformers from the descriptions of run files, in double from end to end: for comparisons to 1e-10."""
import contextlib
import os
import sys

import safetensors.torch  # before in_double: it has tables of types
import torch
import transformers

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "oracle"))
import models  # noqa: E402

CLASSES = {"mixtral": "Mixtral", "qwen3": "Qwen3", "qwen3_moe": "Qwen3Moe", "olmoe": "Olmoe", "dots1": "Dots1"}


@contextlib.contextmanager
def in_double():
    """Their models compute norms, softmax, routers and angles in single whatever the weights are; here in double."""
    before = torch.float, torch.float32, torch.Tensor.float, torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    torch.float = torch.float32 = torch.float64
    torch.Tensor.float = torch.Tensor.double
    try:
        yield
    finally:
        torch.float, torch.float32, torch.Tensor.float = before[:3]
        torch.set_default_dtype(before[3])


def config_of(model):
    """Their configuration of a model of ours."""
    m = models.complete(model)
    keys = dict(vocab_size=m["vocab_size"], hidden_size=m["hidden_size"], num_hidden_layers=m["num_layers"], num_attention_heads=m["num_heads"],
                num_key_value_heads=m["num_kv_heads"], max_position_embeddings=m["max_sequence"], rms_norm_eps=m["norm_eps"],
                tie_word_embeddings=m["tied"], rope_parameters=dict(rope_type="default", rope_theta=m["rope_theta"]), sliding_window=None,
                pad_token_id=None, bos_token_id=None, eos_token_id=None)
    family = m["family"]
    if family != "olmoe":
        keys["head_dim"] = m["head_dim"]
    if family == "qwen3":
        keys.update(intermediate_size=m["ffn_size"])
    elif family == "mixtral":
        keys.update(intermediate_size=m["expert_ffn_size"], num_local_experts=m["num_experts"], num_experts_per_tok=m["experts_per_token"])
    elif family == "qwen3_moe":
        keys.update(intermediate_size=m["ffn_size"], moe_intermediate_size=m["expert_ffn_size"], num_experts=m["num_experts"],
                    num_experts_per_tok=m["experts_per_token"], norm_topk_prob=m["router_normalised"], decoder_sparse_step=1,
                    mlp_only_layers=list(range(m["dense_layers"])))
    elif family == "olmoe":
        keys.update(intermediate_size=m["expert_ffn_size"], num_experts=m["num_experts"], num_experts_per_tok=m["experts_per_token"],
                    norm_topk_prob=m["router_normalised"], clip_qkv=None)
    else:
        keys.update(intermediate_size=m["ffn_size"], moe_intermediate_size=m["expert_ffn_size"], n_routed_experts=m["num_experts"],
                    n_shared_experts=m["shared_experts"] or None, num_experts_per_tok=m["experts_per_token"], n_group=m["router_groups"],
                    topk_group=m["router_kept_groups"], norm_topk_prob=m["router_normalised"], routed_scaling_factor=m["router_scale"],
                    first_k_dense_replace=m["dense_layers"], max_window_layers=m["num_layers"])
    return getattr(transformers, CLASSES[family] + "Config")(attn_implementation="eager", experts_implementation="eager", **keys)


def build(model):
    """Their model of ours; to be called, and used, in_double."""
    return getattr(transformers, CLASSES[model["family"]] + "ForCausalLM")(config_of(model)).double().eval()


def names_on_disk(theirs, arrays=None):
    """{name on disk: tensor} of their state, or of arrays like it ({name in memory: tensor}): in memory the experts of a layer
    are one tensor of each kind, gate and up one behind the other."""
    found = {}
    family = theirs.config.model_type
    place, kinds = ("block_sparse_moe", ("w1", "w3", "w2")) if family == "mixtral" else ("mlp", ("gate_proj", "up_proj", "down_proj"))
    for name, tensor in (theirs.state_dict() if arrays is None else arrays).items():
        prefix, _, kind = name.partition(".mlp.experts.")
        if kind == "gate_up_proj":
            for e, both in enumerate(tensor):
                for part, word in zip(both.chunk(2), kinds[:2]):
                    found[f"{prefix}.{place}.experts.{e}.{word}.weight"] = part
        elif kind == "down_proj":
            for e, down in enumerate(tensor):
                found[f"{prefix}.{place}.experts.{e}.{kinds[2]}.weight"] = down
        else:
            found[name.replace(".mlp.gate.", f".{place}.gate.")] = tensor
    return found


def gradients_of(theirs):
    return names_on_disk(theirs, {name: p.grad for name, p in theirs.named_parameters()})


def spread(theirs, chance, std=0.08):
    """Random weights, as parity.Weights draws them: norms about 1, logits of routers that lie apart."""
    with torch.no_grad():
        for name, tensor in theirs.state_dict().items():
            tensor.copy_(torch.tensor(chance.normal(0, std, tuple(tensor.shape))).float() + (1 if name.endswith("norm.weight") else 0))

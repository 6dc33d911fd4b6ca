"""GPT-2, Llama and what has Llama's attention in plain PyTorch: the oracle of the parity tests. Written from the papers for clarity, in whatever
precision the weights have, with no fused anything. Parameters are a dictionary under Hugging Face names."""
import math

import expert_models
import torch

DEFAULTS = dict(num_kv_heads=None, head_dim=None, ffn_size=None, tied=None, activation="gelu_tanh", norm_eps=1e-5,
                rope_theta=10000.0, rope_scaling=None, attention_bias=False, token_by_token=False, window=0,
                window_layers="all", output_bias=False, mlp_bias=False)


def complete(model):
    m = {**DEFAULTS, **(expert_models.complete(model) if model["family"] in expert_models.FAMILIES else model)}
    m["num_kv_heads"] = m["num_kv_heads"] or m["num_heads"]
    m["head_dim"] = m["head_dim"] or m["hidden_size"] // m["num_heads"]
    m["ffn_size"] = m["ffn_size"] or 4 * m["hidden_size"]
    m["tied"] = m["family"] == "gpt2" if m["tied"] is None else m["tied"]
    return m


def window_of(model, layer):
    """How many tokens a query of the layer sees at most, its own among them; None: all before it."""
    if not model["window"]:
        return None
    some, _, each = model["window_layers"].partition(" of ")
    if each:
        return model["window"] if layer % int(each) < int(some) else None
    if model["window_layers"] == "all":
        return model["window"]
    for run in model["window_layers"].split(","):
        first, dash, last = run.partition("-")
        if int(first) <= layer <= int(last or (model["num_layers"] if dash else first)):
            return model["window"]
    return None


def hidden_of(positions, window):
    """Which keys a query does not see [B, 1, T, T]: later ones, those of other documents, those before its window. A
    document begins where a position is 0."""
    document = (positions == 0).cumsum(1)
    length = positions.shape[1]
    later = torch.triu(torch.ones(length, length, dtype=torch.bool), 1)
    if window is not None:
        later = later | torch.tril(torch.ones(length, length, dtype=torch.bool), -window)
    return (later | (document[:, :, None] != document[:, None, :]))[:, None]


def causal_attention(q, k, v, positions, window=None):
    """q [B, H, T, D]; k and v [B, G, T, D], each shared by H / G query heads."""
    repeats = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(repeats, 1), v.repeat_interleave(repeats, 1)
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    return torch.softmax(scores.masked_fill(hidden_of(positions, window), -math.inf), -1) @ v


def heads_of(x, count):
    batch, length, width = x.shape
    return x.view(batch, length, count, width // count).transpose(1, 2)


def joined(x):
    batch, count, length, size = x.shape
    return x.transpose(1, 2).reshape(batch, length, count * size)


def layer_norm(x, w, name, eps):
    mean = x.mean(-1, keepdim=True)
    variance = ((x - mean) ** 2).mean(-1, keepdim=True)
    return (x - mean) / torch.sqrt(variance + eps) * w[name + ".weight"] + w[name + ".bias"]


def rms_norm(x, w, name, eps):
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps) * w[name + ".weight"]


ACTIVATIONS = dict(gelu_tanh=lambda x: torch.nn.functional.gelu(x, approximate="tanh"), gelu_erf=torch.nn.functional.gelu,
                   silu=torch.nn.functional.silu, relu=torch.nn.functional.relu, quick_gelu=lambda x: x * torch.sigmoid(1.702 * x),
                   relu2=lambda x: torch.relu(x) ** 2, mish=torch.nn.functional.mish, tanh=torch.tanh)


def gpt2_hidden(m, w, ids, positions):
    x = w["transformer.wte.weight"][ids] + w["transformer.wpe.weight"][positions]
    for layer in range(m["num_layers"]):
        p = f"transformer.h.{layer}."
        y = layer_norm(x, w, p + "ln_1", m["norm_eps"])
        qkv = y @ w[p + "attn.c_attn.weight"] + w[p + "attn.c_attn.bias"]
        q, k, v = (heads_of(part, m["num_heads"]) for part in qkv.chunk(3, -1))
        x = x + joined(causal_attention(q, k, v, positions)) @ w[p + "attn.c_proj.weight"] + w[p + "attn.c_proj.bias"]
        y = layer_norm(x, w, p + "ln_2", m["norm_eps"])
        y = ACTIVATIONS[m["activation"]](y @ w[p + "mlp.c_fc.weight"] + w[p + "mlp.c_fc.bias"])
        x = x + y @ w[p + "mlp.c_proj.weight"] + w[p + "mlp.c_proj.bias"]
    x = layer_norm(x, w, "transformer.ln_f", m["norm_eps"])
    return x, w["transformer.wte.weight"] if m["tied"] else w["lm_head.weight"]


def llama3_frequencies(m, s, plain):
    out = []
    for f in plain:
        wavelength = 2 * math.pi / f
        low = s["original_max_sequence"] / s["low_freq_factor"]
        high = s["original_max_sequence"] / s["high_freq_factor"]
        if wavelength < high:
            out.append(f)
        elif wavelength > low:
            out.append(f / s["factor"])
        else:
            smooth = s["original_max_sequence"] / wavelength - s["low_freq_factor"]
            smooth /= s["high_freq_factor"] - s["low_freq_factor"]
            out.append((1 - smooth) * f / s["factor"] + smooth * f)
    return out


def yarn_frequencies(m, s, plain):
    """Peng et al. 2023, with the ramp over the numbers of pairs as in their code and transformers'."""
    width = m["head_dim"]

    def pair(turns):
        return width * math.log(s["original_max_sequence"] / (2 * math.pi * turns)) / (2 * math.log(m["rope_theta"]))

    low, high = pair(s.get("beta_fast", 32)), pair(s.get("beta_slow", 1))
    if s.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, width - 1)
    high += 0.001 * (low == high)
    ramp = [min(max((i - low) / (high - low), 0), 1) for i in range(len(plain))]
    return [(1 - r) * f + r * f / s["factor"] for r, f in zip(ramp, plain)]


def rope_frequencies(m, length):
    """Returns the frequencies for a sequence of `length` tokens, and the factor of cosines and sines."""
    half = m["head_dim"] // 2

    def of_base(theta):
        return [theta ** (-i / half) for i in range(half)]

    plain, s = of_base(m["rope_theta"]), m["rope_scaling"]
    kind = s.get("type", "llama3") if s else None
    if kind is None:
        return plain, 1
    if kind == "llama3":
        return llama3_frequencies(m, s, plain), 1
    if kind == "linear":
        return [f / s["factor"] for f in plain], 1
    if kind == "dynamic":
        longer = s["factor"] * max(length, s["original_max_sequence"]) / s["original_max_sequence"] - (s["factor"] - 1)
        return of_base(m["rope_theta"] * longer ** (half / (half - 1))), 1
    if kind == "longrope":  # Ding et al. 2024, as Phi-3 has it
        original = s["original_max_sequence"]
        factors = s["long_factor"] if length > original else s["short_factor"]
        usual = math.sqrt(1 + math.log(s["factor"]) / math.log(original)) if s["factor"] > 1 else 1
        return [f / factor for f, factor in zip(plain, factors, strict=True)], s.get("attention_factor") or usual
    assert kind == "yarn"

    def scale(mscale):
        return 1 if s["factor"] <= 1 else 0.1 * mscale * math.log(s["factor"]) + 1

    given = s.get("mscale") and s.get("mscale_all_dim")
    attention = scale(s["mscale"]) / scale(s["mscale_all_dim"]) if given else scale(1)
    return yarn_frequencies(m, s, plain), s.get("attention_factor") or attention


def rotate(x, frequencies, factor, positions):
    """frequencies [D / 2], or [T, D / 2] where each position has its own."""
    angles = positions.to(torch.float64)[:, None, :, None] * torch.tensor(frequencies, dtype=torch.float64)
    cos, sin = (factor * angles.cos()).to(x.dtype), (factor * angles.sin()).to(x.dtype)
    low, high = x.chunk(2, -1)
    return torch.cat([low * cos - high * sin, high * cos + low * sin], -1)


def heads_with_norm(m, w, name, x, count):
    """[B, count, T, D] of a projection: Qwen 3 and dots1 have a norm of each head, OLMoE one of all of its width."""
    if m["family"] == "olmoe":
        x = rms_norm(x, w, name, m["norm_eps"])
    heads = heads_of(x, count)
    return rms_norm(heads, w, name, m["norm_eps"]) if m["family"] in ("qwen3", "qwen3_moe", "dots1") else heads


def llama_hidden(m, w, ids, positions, watch=None, capacity=None):
    """The last hidden states, and the sum of what routers add to the loss."""
    frequencies, factor = rope_frequencies(m, ids.shape[1])
    by_all = m["rope_scaling"] and m["rope_scaling"].get("type") == "longrope"  # one list of factors for the whole context
    if m["token_by_token"] and not by_all:  # generated one behind the other: each is turned as in a sequence that ends with it
        frequencies = [rope_frequencies(m, t + 1)[0] for t in range(ids.shape[1])]
    x, added = w["model.embed_tokens.weight"][ids], 0
    for layer in range(m["num_layers"]):
        p = f"model.layers.{layer}."
        y = rms_norm(x, w, p + "input_layernorm", m["norm_eps"])

        def project(name, y=y, bias=m["attention_bias"]):
            out = y @ w[p + f"self_attn.{name}_proj.weight"].T
            return out + w[p + f"self_attn.{name}_proj.bias"] if bias else out

        q = heads_with_norm(m, w, p + "self_attn.q_norm", project("q"), m["num_heads"])
        k = heads_with_norm(m, w, p + "self_attn.k_norm", project("k"), m["num_kv_heads"])
        q, k = rotate(q, frequencies, factor, positions), rotate(k, frequencies, factor, positions)
        v = heads_of(project("v"), m["num_kv_heads"])
        x = x + project("o", joined(causal_attention(q, k, v, positions, window_of(m, layer))), m["output_bias"])
        y = rms_norm(x, w, p + "post_attention_layernorm", m["norm_eps"])
        if expert_models.has_experts(m, layer):
            y, router_loss = expert_models.expert_part(m, w, p, y, watch, capacity)
            x, added = x + y, added + router_loss
        else:
            x = x + expert_models.dense_part(w, p + "mlp.", y)
    return rms_norm(x, w, "model.norm", m["norm_eps"]), added


def whole(model, w, ids, positions=None, watch=None, capacity=None):
    """Logits, and what routers add to the loss. Each row is one document, unless positions [B, T] say otherwise."""
    m = complete(model)
    if positions is None:
        positions = torch.arange(ids.shape[1]).expand(ids.shape)
    if m["family"] == "gpt2":
        x, head = gpt2_hidden(m, w, ids, positions)
        return x @ head.T, 0
    x, added = llama_hidden(m, w, ids, positions, watch, capacity)
    return x @ (w["model.embed_tokens.weight"] if m["tied"] else w["lm_head.weight"]).T, added


def logits(model, w, ids, positions=None):
    return whole(model, w, ids, positions)[0]


def losses(model, w, ids, labels, positions=None, watch=None, capacity=None):
    """Cross entropy, the mean over the labels that count (those not negative), and what routers add to it."""
    x, added = whole(model, w, ids, positions, watch, capacity)
    return torch.nn.functional.cross_entropy(x.reshape(-1, x.shape[-1]), labels.reshape(-1).long(), ignore_index=-1), added


def loss(model, w, ids, labels, positions=None):
    return losses(model, w, ids, labels, positions)[0]

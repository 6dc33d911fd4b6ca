"""GPT-2 and Llama in plain PyTorch: the oracle of the parity tests. Written from the papers for clarity, in whatever
precision the weights have, with no fused anything. Parameters are a dictionary under Hugging Face names."""
import math

import torch

DEFAULTS = dict(num_kv_heads=None, head_dim=None, ffn_size=None, tied=None, activation="gelu_tanh", norm_eps=1e-5,
                rope_theta=10000.0, rope_scaling=None, attention_bias=False)


def complete(model):
    m = {**DEFAULTS, **model}
    m["num_kv_heads"] = m["num_kv_heads"] or m["num_heads"]
    m["head_dim"] = m["head_dim"] or m["hidden_size"] // m["num_heads"]
    m["ffn_size"] = m["ffn_size"] or 4 * m["hidden_size"]
    m["tied"] = m["family"] == "gpt2" if m["tied"] is None else m["tied"]
    return m


def hidden_of(positions):
    """Which keys a query does not see [B, 1, T, T]: later ones, and those of other documents. A document begins where a
    position is 0."""
    document = (positions == 0).cumsum(1)
    length = positions.shape[1]
    later = torch.triu(torch.ones(length, length, dtype=torch.bool), 1)
    return (later | (document[:, :, None] != document[:, None, :]))[:, None]


def causal_attention(q, k, v, positions):
    """q [B, H, T, D]; k and v [B, G, T, D], each shared by H / G query heads."""
    repeats = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(repeats, 1), v.repeat_interleave(repeats, 1)
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    return torch.softmax(scores.masked_fill(hidden_of(positions), -math.inf), -1) @ v


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


def gelu(x, kind):
    if kind == "gelu_erf":
        return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def gpt2_hidden(m, w, ids, positions):
    x = w["transformer.wte.weight"][ids] + w["transformer.wpe.weight"][positions]
    for layer in range(m["num_layers"]):
        p = f"transformer.h.{layer}."
        y = layer_norm(x, w, p + "ln_1", m["norm_eps"])
        qkv = y @ w[p + "attn.c_attn.weight"] + w[p + "attn.c_attn.bias"]
        q, k, v = (heads_of(part, m["num_heads"]) for part in qkv.chunk(3, -1))
        x = x + joined(causal_attention(q, k, v, positions)) @ w[p + "attn.c_proj.weight"] + w[p + "attn.c_proj.bias"]
        y = layer_norm(x, w, p + "ln_2", m["norm_eps"])
        y = gelu(y @ w[p + "mlp.c_fc.weight"] + w[p + "mlp.c_fc.bias"], m["activation"])
        x = x + y @ w[p + "mlp.c_proj.weight"] + w[p + "mlp.c_proj.bias"]
    x = layer_norm(x, w, "transformer.ln_f", m["norm_eps"])
    return x, w["transformer.wte.weight"] if m["tied"] else w["lm_head.weight"]


def rope_frequencies(m):
    half = m["head_dim"] // 2
    plain = [m["rope_theta"] ** (-i / half) for i in range(half)]
    s = m["rope_scaling"]
    if not s:
        return plain
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


def rotate(x, frequencies, positions):
    angles = positions.to(torch.float64)[:, None, :, None] * torch.tensor(frequencies, dtype=torch.float64)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    low, high = x.chunk(2, -1)
    return torch.cat([low * cos - high * sin, high * cos + low * sin], -1)


def llama_hidden(m, w, ids, positions):
    frequencies = rope_frequencies(m)
    x = w["model.embed_tokens.weight"][ids]
    for layer in range(m["num_layers"]):
        p = f"model.layers.{layer}."
        y = rms_norm(x, w, p + "input_layernorm", m["norm_eps"])

        def project(name):
            out = y @ w[p + f"self_attn.{name}_proj.weight"].T
            return out + w[p + f"self_attn.{name}_proj.bias"] if m["attention_bias"] else out

        q = rotate(heads_of(project("q"), m["num_heads"]), frequencies, positions)
        k = rotate(heads_of(project("k"), m["num_kv_heads"]), frequencies, positions)
        v = heads_of(project("v"), m["num_kv_heads"])
        x = x + joined(causal_attention(q, k, v, positions)) @ w[p + "self_attn.o_proj.weight"].T
        y = rms_norm(x, w, p + "post_attention_layernorm", m["norm_eps"])
        gate, up = y @ w[p + "mlp.gate_proj.weight"].T, y @ w[p + "mlp.up_proj.weight"].T
        x = x + (gate * torch.sigmoid(gate) * up) @ w[p + "mlp.down_proj.weight"].T
    x = rms_norm(x, w, "model.norm", m["norm_eps"])
    return x, w["model.embed_tokens.weight"] if m["tied"] else w["lm_head.weight"]


def logits(model, w, ids, positions=None):
    """Each row is one document, unless positions [B, T] say otherwise."""
    m = complete(model)
    if positions is None:
        positions = torch.arange(ids.shape[1]).expand(ids.shape)
    hidden, head = (gpt2_hidden if m["family"] == "gpt2" else llama_hidden)(m, w, ids, positions)
    return hidden @ head.T


def loss(model, w, ids, labels, positions=None):
    """Mean over the labels that count (those not negative)."""
    x = logits(model, w, ids, positions)
    return torch.nn.functional.cross_entropy(x.reshape(-1, x.shape[-1]), labels.reshape(-1).long(), ignore_index=-1)

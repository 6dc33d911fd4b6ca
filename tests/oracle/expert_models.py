"""Layers of experts in plain PyTorch: the oracle of the tests of routers and experts. Written from the papers and from
src/base/router.h for clarity: every expert is asked about every token that chose it, one expert after the other, and
nothing is grouped, sorted or exchanged. In whatever precision the weights have.

A model is the dictionary of a run file, its parameters a dictionary under Hugging Face names."""
import math

import torch

# A family's defaults for keys that a run file leaves out; all models here have the same attention (models.py).
FAMILIES = ("mixtral", "qwen3", "qwen3_moe", "olmoe", "dots1")
DEFAULTS = dict(num_experts=0, experts_per_token=0, expert_ffn_size=0, shared_experts=0, dense_layers=0, router_scoring="softmax",
                router_groups=1, router_kept_groups=None, router_quota=False, router_normalised=True, router_scale=1.0,
                router_bias=False, balance="none", balance_rate=1e-4, z_loss=0.0)
BY_FAMILY = {"olmoe": dict(router_normalised=False), "dots1": dict(router_scoring="sigmoid", router_bias=True)}
# Names on disk, of the feed-forward part and of an expert's gate, up and down.
PLACES = {"mixtral": ("block_sparse_moe.", ("w1", "w3", "w2"))}
USUAL_PLACE = ("mlp.", ("gate_proj", "up_proj", "down_proj"))


def complete(model):
    m = {**DEFAULTS, **BY_FAMILY.get(model["family"], {}), **model}
    m["router_kept_groups"] = m["router_kept_groups"] or m["router_groups"]
    m["best_of_group"] = 2 if m["router_scoring"] == "sigmoid" else 1
    return m


def has_experts(m, layer):
    return m.get("num_experts", 0) > 0 and layer >= m["dense_layers"]


def linear(w, module, x):
    return torch.nn.functional.linear(x, w[module + ".weight"], w.get(module + ".bias"))


def swiglu(w, gate, up, down, x):
    g = linear(w, gate, x)
    return linear(w, down, g * torch.sigmoid(g) * linear(w, up, x))


def dense_part(w, p, x):
    return swiglu(w, p + "gate_proj", p + "up_proj", p + "down_proj", x)


# ---- routers ---------------------------------------------------------------------------------------------------------

def scores_of(m, logits):
    return torch.sigmoid(logits) if m["router_scoring"] == "sigmoid" else torch.softmax(logits, -1)


def best(choice, count):
    """Numbers of the `count` largest in each row, in falling order; of equals the one with the lower number first."""
    return torch.sort(choice, dim=-1, descending=True, stable=True).indices[:, :count]


def chosen_experts(m, scores, bias):
    """[R, K]: which experts each row goes to; nothing here has a gradient."""
    choice = scores.detach() + (0 if bias is None else bias.detach())
    rows, experts = choice.shape
    groups, kept = m["router_groups"], m["router_kept_groups"]
    if groups == 1 and not m["router_quota"]:
        return best(choice, m["experts_per_token"])
    size = experts // groups
    by_group = choice.view(rows, groups, size)
    score = torch.sort(by_group, dim=-1, descending=True).values[..., : m["best_of_group"]].sum(-1)
    kept_groups = best(score, kept)
    allowed = torch.zeros(rows, groups, dtype=torch.bool).scatter(1, kept_groups, True)
    if m["router_quota"]:  # the same number from each kept group
        ranks = torch.sort(torch.sort(by_group, dim=-1, descending=True, stable=True).indices, dim=-1).indices
        open_to = allowed[..., None] & (ranks < m["experts_per_token"] // kept)
    else:
        open_to = allowed[..., None].expand(rows, groups, size)
    return best(choice.masked_fill(~open_to.reshape(rows, experts), -math.inf), m["experts_per_token"])


def route(m, logits, bias):
    """Experts and weights [R, K] of each row, and all scores [R, E]."""
    scores = scores_of(m, logits)
    experts = chosen_experts(m, scores, bias)
    weights = scores.gather(1, experts)
    if m["router_normalised"]:
        weights = weights / (weights.sum(-1, keepdim=True) + (1e-20 if m["router_scoring"] == "sigmoid" else 0))
    return experts, weights * m["router_scale"], scores


def counts_of(m, experts):
    """How many of these rows chose each expert."""
    return torch.bincount(experts.reshape(-1), minlength=m["num_experts"])


def router_loss(m, logits, experts, scores, batch):
    """Returns the losses of a layer's router. The balance loss of a sequence is E / (K T) * the sum over experts of the number
    of tokens that chose it times the mean of its normalised scores (DeepSeek-V3), averaged over the sequences of the batch.
    The z-loss is the mean over all tokens of the square of log(sum of exp(logits)) (ST-MoE)."""
    total = m["z_loss"] * (torch.logsumexp(logits, -1) ** 2).mean()
    if m["balance"] == "sequence":
        experts, scores = experts.view(batch, -1, experts.shape[-1]), scores.view(batch, -1, scores.shape[-1])
        for one, score in zip(experts, scores):
            f = counts_of(m, one).to(score.dtype) * m["num_experts"] / (m["experts_per_token"] * len(one))
            total = total + m["balance_rate"] * (f * (score / score.sum(-1, keepdim=True)).mean(0)).sum() / batch
    return total


# ---- the layer -------------------------------------------------------------------------------------------------------

def kept_by_capacity(m, experts, domain_rows, factor):
    """Which pairs (row, k) an expert takes where each takes `factor` times its even share of every `domain_rows` rows, in their
    order, and drops what comes behind: one by one."""
    keep = torch.ones_like(experts, dtype=torch.bool)
    most = math.ceil(factor * domain_rows * m["experts_per_token"] / m["num_experts"])
    for first in range(0, len(experts), domain_rows):
        taken = [0] * m["num_experts"]
        for row in range(first, first + domain_rows):
            for k, expert in enumerate(experts[row].tolist()):
                taken[expert] += 1
                keep[row, k] = taken[expert] <= most
    return keep


def expert_part(m, w, layer_prefix, x, watch=None, capacity=None):
    """x [B, T, h] behind the norm; answers what is added to it and what its router adds to the loss. `watch` collects what each
    router did; `capacity` (rows of a domain, factor) drops."""
    part, (gate, up, down) = PLACES.get(m["family"], USUAL_PLACE)
    p = layer_prefix + part
    batch, length, width = x.shape
    rows = x.reshape(-1, width)
    logits = rows @ w[p + "gate.weight"].T
    bias = w.get(p + "gate.e_score_correction_bias")
    experts, weights, scores = route(m, logits, bias)
    if watch is not None:
        watch.append(dict(prefix=p, logits=logits.detach(), experts=experts, weights=weights.detach(), scores=scores.detach()))
    keep = torch.ones_like(experts, dtype=torch.bool) if capacity is None else kept_by_capacity(m, experts, *capacity)
    out = torch.zeros_like(rows)
    for expert in range(m["num_experts"]):
        row, k = torch.nonzero((experts == expert) & keep, as_tuple=True)
        e = f"{p}experts.{expert}."
        answer = swiglu(w, e + gate, e + up, e + down, rows[row]) * weights[row, k, None]
        out = out.index_add(0, row, answer)
    if m["shared_experts"] > 0:
        out = out + dense_part(w, p + "shared_experts.", rows)
    return out.view(batch, length, width), router_loss(m, logits, experts, scores, batch)


def follow_load(m, w, watch):
    """Once a step, over the global batch: a router's bias goes towards experts that had less than the mean."""
    for seen in watch:
        load = counts_of(m, seen["experts"]).double()
        w[seen["prefix"] + "gate.e_score_correction_bias"].data += m["balance_rate"] * torch.sign(load.mean() - load)


def is_trained(name):
    """A router's bias has no gradient."""
    return not name.endswith("e_score_correction_bias")

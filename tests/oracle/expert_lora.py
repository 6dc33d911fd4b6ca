"""Factors of experts in plain PyTorch: of every expert its own pair, gate and up as one matrix. The names and forms are those of PEFT
0.21's files, whose `target_parameters` are `mlp.experts.gate_up_proj` [experts, 2 * ffn, width] and `mlp.experts.down_proj` [experts,
width, ffn]: A [experts * rank, in], expert after expert, and B [out, rank * experts], whose column r * experts + e is expert e's
(ParamWrapper.get_delta_weight). PEFT wraps `experts` for each parameter, so that those of gate and up are of `experts.base_layer`
where down has some too. tests/oracle/make_expert_lora.py holds it beside PEFT."""
import re

import lora
import models
import numpy
import optimizers
import torch

PREFIX, ENDS = lora.PREFIX, lora.ENDS
PARAMETERS = ("gate_up_proj", "down_proj")
MATRIX = re.compile(r"model\.layers\.(\d+)\.(?:mlp|block_sparse_moe)\.experts\.(\d+)\.(\w+)\.weight")
KINDS = {"w1": "gate_up_proj", "w3": "gate_up_proj", "w2": "down_proj", "gate_proj": "gate_up_proj", "up_proj": "gate_up_proj", "down_proj": "down_proj"}
ORDER = ("w1", "gate_proj", "w3", "up_proj")


def stacks_of(names):
    """{(layer, parameter): names of its matrices, one list for each expert, gate before up}."""
    found = {}
    for name in names:
        at = MATRIX.fullmatch(name)
        if at:
            found.setdefault((int(at[1]), KINDS[at[3]]), {}).setdefault(int(at[2]), []).append(name)
    order = lambda name: ORDER.index(MATRIX.fullmatch(name)[3]) if MATRIX.fullmatch(name)[3] in ORDER else 0
    return {key: [sorted(members[e], key=order) for e in sorted(members)] for key, members in found.items()}


def is_target(targets, layer, parameter):
    whole = f"model.layers.{layer}.mlp.experts.{parameter}"
    return any(whole == target or whole.endswith("." + target) for target in targets)


def module_of(layer, parameter, targets):
    """Of the names in a file."""
    inner = parameter == "gate_up_proj" and is_target(targets, layer, "down_proj")
    return f"model.layers.{layer}.mlp.experts" + (".base_layer" if inner else "")


def targets_of(weights, targets):
    """[(layer, parameter, its matrices' names, module in a file)]."""
    return [(layer, parameter, names, module_of(layer, parameter, targets)) for (layer, parameter), names in sorted(stacks_of(weights).items())
            if is_target(targets, layer, parameter)]


def pair_of(adapter, layer, parameter):
    """Rank and scale."""
    module = f"model.layers.{layer}.mlp.experts.{parameter}"
    rank = lora.pattern_of(adapter.get("rank_pattern"), module, adapter["rank"])
    alpha = lora.pattern_of(adapter.get("alpha_pattern"), module, adapter.get("alpha", 2 * adapter["rank"]))
    return rank, alpha / (rank**0.5 if adapter.get("scaling") == "rslora" else rank)


def factor_shapes(weights, adapter):
    found = {}
    for layer, parameter, names, module in targets_of(weights, adapter["targets"]):
        (rows, columns), (rank, _) = weights[names[0][0]].shape, pair_of(adapter, layer, parameter)
        found[PREFIX + module + ENDS[0]] = (len(names) * rank, columns)
        found[PREFIX + module + ENDS[1]] = (len(names[0]) * rows, rank * len(names))
    return found


def drawn_factors(weights, adapter, seed=0, std=0.1):
    chance = numpy.random.default_rng(seed)
    return {name: chance.normal(0, std, shape).astype(numpy.float32).astype(numpy.float64) for name, shape in factor_shapes(weights, adapter).items()}


def merged(weights, factors, adapter):
    """All weights, those of experts with their factors' products."""
    out = dict(weights)
    for layer, parameter, names, module in targets_of(weights, adapter["targets"]):
        (rank, scale), experts = pair_of(adapter, layer, parameter), len(names)
        a = factors[PREFIX + module + ENDS[0]].reshape(experts, rank, -1)
        b = factors[PREFIX + module + ENDS[1]].reshape(-1, rank, experts)
        for e, matrices in enumerate(names):
            change = scale * (b[:, :, e] @ a[e])
            rows = len(change) // len(matrices)
            for kind, name in enumerate(matrices):
                out[name] = weights[name] + change[kind * rows : (kind + 1) * rows]
    return out


def train(model, weights, factors, adapter, samples, keys):
    """Steps as lora.train makes them, of the factors."""
    base = {name: torch.tensor(numpy.asarray(w)) for name, w in weights.items()}
    own = {name: torch.tensor(numpy.asarray(w), requires_grad=True) for name, w in factors.items()}
    optimizer, course = optimizers.Optimizer(own, keys), dict(loss=[], norm=[])
    for step, (ids, labels) in enumerate(samples):
        loss, router_loss = models.losses(model, whole(base, own, adapter), ids, labels)
        gradients = dict(zip(own, torch.autograd.grad(loss + router_loss, list(own.values()))))
        with torch.no_grad():
            norm = optimizer.step(gradients, optimizers.rate_of(optimizer.keys, step + 1))
        course["loss"].append(float(loss.detach()))
        course["norm"].append(norm)
    return {**course, "factors": {name: p.detach().numpy() for name, p in optimizer.evaluated().items()}}


def whole(weights, factors, adapter):
    """With the factors of other modules, too, which lora.py has."""
    of_experts = {name for name in factors if re.search(r"\.mlp\.experts(\.base_layer)?\.lora_", name)}
    others = {name: w for name, w in factors.items() if name not in of_experts}
    return lora.merged(merged(weights, factors, adapter), others, lora.scale_of(adapter))

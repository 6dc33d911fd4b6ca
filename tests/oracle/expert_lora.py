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
    """Returns the module's name in a file."""
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


# ---- folders of before transformers 5 --------------------------------------------------------------------------------

def single_modules(names):
    """Modules of single matrices of experts, and the parameter that each is a part of."""
    return {PREFIX + name.removesuffix(".weight"): parameter for (_, parameter), members in stacks_of(names).items() for member in members for name in member}


def drawn_singles(weights, rank, seed=3):
    """A pair for each expert's matrix, under its own name."""
    chance, found = numpy.random.default_rng(seed), {}
    for module in single_modules(weights):
        out, inside = weights[module.removeprefix(PREFIX) + ".weight"].shape
        found[module + ENDS[0]] = chance.normal(0, 0.1, (rank, inside)).astype(numpy.float32).astype(numpy.float64)
        found[module + ENDS[1]] = chance.normal(0, 0.1, (out, rank)).astype(numpy.float32).astype(numpy.float64)
    return found


def merged_singles(weights, factors, adapter):
    """As PEFT converts them: gate and up get one pair of twice the rank and twice alpha."""
    out = dict(weights)
    for module, parameter in single_modules(weights).items():
        times, name = 2 if parameter == "gate_up_proj" else 1, module.removeprefix(PREFIX) + ".weight"
        rank, alpha = times * adapter["rank"], times * adapter["alpha"]
        scale = alpha / (rank**0.5 if adapter.get("scaling") == "rslora" else rank)
        out[name] = weights[name] + scale * factors[module + ENDS[1]] @ factors[module + ENDS[0]]
    return out


def write_folder(folder, model, adapter, factors, **more):
    """As PEFT has it: experts among target_parameters."""
    targets = adapter["targets"]
    parameters = [target for target in targets if "experts" in target or target == "gate_up_proj"]
    keys = dict(target_modules=[target for target in targets if target not in parameters], target_parameters=parameters or None)
    return lora.write_peft(folder, model, adapter, factors, **{**keys, **more})


# ---- beside PEFT: expert_lora.json ------------------------------------------------------------------------------------

SMALL = dict(num_layers=2, hidden_size=16, num_heads=4, num_kv_heads=2, vocab_size=48, max_sequence=32)
BESIDE = {"mixtral": dict(family="mixtral", **SMALL, num_experts=5, experts_per_token=2, expert_ffn_size=10),
          "qwen3_moe": dict(family="qwen3_moe", **SMALL, num_experts=4, experts_per_token=2, expert_ffn_size=8, ffn_size=18, head_dim=6, router_normalised=False)}
BOTH = ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]
CASES = {"both": dict(rank=3, alpha=4, targets=BOTH), "down": dict(rank=2, alpha=5, targets=["experts.down_proj"]), "gate and up": dict(rank=4, alpha=3, targets=["gate_up_proj", "q_proj"]),
         "patterns with rslora": dict(rank=2, alpha=3, scaling="rslora", targets=BOTH, rank_pattern={r"layers\.1\.mlp\.experts\.down_proj": 5, "gate_up_proj": 3},
                                      alpha_pattern={"experts.down_proj": 1.5})}
SINGLES = {"lora": dict(rank=2, alpha=3), "rslora": dict(rank=2, alpha=3, scaling="rslora")}


def plain(model, seed=0):
    """Drawn weights under the names of a folder, in single."""
    m, chance, shapes = models.complete(model), numpy.random.default_rng(seed), {}
    width, q, kv = m["hidden_size"], m["num_heads"] * m["head_dim"], m["num_kv_heads"] * m["head_dim"]
    mixtral = m["family"] == "mixtral"
    gate, up, down = ("w1", "w3", "w2") if mixtral else ("gate_proj", "up_proj", "down_proj")
    for layer in range(m["num_layers"]):
        p = f"model.layers.{layer}."
        shapes.update({p + f"self_attn.{name}_proj.weight": shape for name, shape in dict(q=(q, width), k=(kv, width), v=(kv, width), o=(width, q)).items()})
        shapes.update({p + f"self_attn.{name}_norm.weight": (m["head_dim"],) for name in "qk" if not mixtral})
        shapes.update({p + name + "_layernorm.weight": (width,) for name in ("input", "post_attention")})
        p += "block_sparse_moe." if mixtral else "mlp."
        shapes[p + "gate.weight"] = (m["num_experts"], width)
        for e in range(m["num_experts"]):
            shapes.update({p + f"experts.{e}.{name}.weight": (m["expert_ffn_size"], width) for name in (gate, up)})
            shapes[p + f"experts.{e}.{down}.weight"] = (width, m["expert_ffn_size"])
    shapes.update({"model.embed_tokens.weight": (m["vocab_size"], width), "model.norm.weight": (width,), "lm_head.weight": (m["vocab_size"], width)})
    return {name: (chance.normal(0, 0.1, shape) + (len(shape) == 1)).astype(numpy.float32).astype(numpy.float64) for name, shape in shapes.items()}


def tokens_of(model, seed=5):
    return torch.tensor(numpy.random.default_rng(seed).integers(0, model["vocab_size"], (2, 3, 11)))


def few_of(values):
    """Returns the stored numbers of an array: its norm, and six of its elements at most, evenly spaced."""
    values = numpy.asarray(values, numpy.float64)
    return dict(norm=float(numpy.linalg.norm(values)), some=values.reshape(-1)[:: max(1, values.size // 6)][:6].tolist())


def gradients(model, weights, factors, adapter, ids, labels):
    own = {name: torch.tensor(numpy.asarray(w), requires_grad=True) for name, w in factors.items()}
    base = {name: torch.tensor(numpy.asarray(w)) for name, w in weights.items()}
    loss = models.loss(model, whole(base, own, adapter), ids, labels)
    return float(loss.detach()), dict(zip(own, (g.numpy() for g in torch.autograd.grad(loss, list(own.values())))))


def all_factors(weights, adapter, seed=0):
    """Those of modules too."""
    modules = [target for target in adapter["targets"] if "experts" not in target and target != "gate_up_proj"]
    dense = {name: w for name, w in weights.items() if not MATRIX.fullmatch(name)}
    return {**drawn_factors(weights, adapter, seed), **lora.drawn_factors(dense, dict(adapter, targets=modules), seed + 1)}

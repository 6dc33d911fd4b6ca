"""Low-rank adapters (Hu et al. 2021) in plain PyTorch, in closed form: a module's weight is W + scale B A, and A and B are trained, each a
parameter like any other (optimizers.py). Also PEFT's names and files, and weights in NF4 (Dettmers et al. 2023), which tests/full
compares with PEFT and bitsandbytes.

Weights are a dictionary under Hugging Face names; factors another, under the names that PEFT writes: {PREFIX + module + ".lora_A.weight":
A [rank, in], ... ".lora_B.weight": B [out, rank]}."""
import functools
import json
import re

import models
import numpy
import optimizers
import torch
from safetensors.numpy import load_file, save_file

PREFIX, ENDS, EMBEDDING_ENDS = "base_model.model.", (".lora_A.weight", ".lora_B.weight"), (".lora_embedding_A", ".lora_embedding_B")


MAGNITUDE = ".lora_magnitude_vector"


def is_conv(name):
    """Modules of GPT-2 have their weights the other way round, [in, out]."""
    return name.startswith("transformer.h.")


def is_embedding(module):
    return module.split(".")[-1] in ("wte", "embed_tokens", "embed_in")


def ends_of(module):
    return EMBEDDING_ENDS if is_embedding(module) else ENDS


def is_transposed(module):
    """Returns whether the weight is [in, out]. An embedding is: it multiplies one-hot rows."""
    return is_conv(module) or is_embedding(module)


def is_linear(name, shape):
    """Returns whether "all-linear" adapts the weight: all matrices but embeddings and the output layer."""
    parts = name.split(".")
    return len(shape) == 2 and parts[-1] == "weight" and parts[-2] not in ("wte", "wpe", "embed_tokens", "lm_head")


def modules_of(shapes, targets):
    """Names of the modules that are adapted, of {name of a weight: its shape}."""
    linear = [name[: -len(".weight")] for name, shape in shapes.items() if is_linear(name, shape)]
    others = [name[: -len(".weight")] for name, shape in shapes.items() if len(shape) == 2 and name[: -len(".weight")].split(".")[-1] != "wpe"]
    return linear if targets == "all-linear" else [name for name in others if any(f".{name}".endswith(f".{target}") for target in targets)]


def sides_of(module, weights):
    """Out and in."""
    shape = tuple(weights[module + ".weight"].shape)
    return shape[::-1] if is_transposed(module) else shape


def pattern_of(patterns, module, otherwise):
    """PEFT's: the first regular expression that matches the end of a module's name counts."""
    return next((value for key, value in (patterns or {}).items() if re.match(rf"(.*\.)?({key})$", module)), otherwise)


def rank_of(adapter, module):
    return pattern_of(adapter.get("rank_pattern"), module, adapter["rank"])


def factor_shapes(weights, adapter):
    found = {}
    for module in modules_of({name: w.shape for name, w in weights.items()}, adapter["targets"]):
        out, inside = sides_of(module, weights)
        a, b = ends_of(module)
        found[PREFIX + module + a] = (rank_of(adapter, module), inside)
        found[PREFIX + module + b] = (out, rank_of(adapter, module))
        if adapter.get("magnitude"):
            found[PREFIX + module + MAGNITUDE] = (out,)
    return found


def drawn_factors(weights, adapter, seed=0, std=0.1):
    """Both not zero, in single, whatever they are kept in."""
    chance = numpy.random.default_rng(seed)
    return {name: chance.normal(1 if len(shape) == 1 else 0, std, shape).astype(numpy.float32).astype(numpy.float64) for name, shape in factor_shapes(weights, adapter).items()}


def scale_of(adapter):
    """A number, or with patterns a function of a module's name."""
    def of(rank, alpha):
        return alpha / (rank**0.5 if adapter.get("scaling") == "rslora" else rank)

    rank, alpha = adapter["rank"], adapter.get("alpha", 2 * adapter["rank"])
    if not (adapter.get("rank_pattern") or adapter.get("alpha_pattern")):
        return of(rank, alpha)
    return lambda module: of(rank_of(adapter, module), pattern_of(adapter.get("alpha_pattern"), module, alpha))


def merged(weights, factors, scale):
    """All weights, those of adapted modules with their adapters in them."""
    out = dict(weights)
    for name, a in factors.items():
        if name.endswith((ENDS[0], EMBEDDING_ENDS[0])):
            module = name[len(PREFIX) :].split(".lora_")[0]
            change = (scale(module) if callable(scale) else scale) * (factors[PREFIX + module + ends_of(module)[1]] @ a)
            whole = weights[module + ".weight"] + (change.T if is_transposed(module) else change)
            if PREFIX + module + MAGNITUDE in factors:  # DoRA: the norm is a constant to the gradient
                side = 0 if is_transposed(module) else 1
                norm = (whole.detach() ** 2).sum(side) ** 0.5 if hasattr(whole, "detach") else (whole**2).sum(side) ** 0.5
                length = factors[PREFIX + module + MAGNITUDE] / norm
                whole = whole * (length[None, :] if is_transposed(module) else length[:, None])
            out[module + ".weight"] = whole
    return out


def train(model, weights, factors, scale, samples, keys, trained=()):
    """Steps as optimizers.train makes them, of the factors and of those weights that are named. {loss, norm: of each step; factors,
    weights: in the end, as they are evaluated}."""
    base = {name: torch.tensor(numpy.asarray(w), requires_grad=name in trained) for name, w in weights.items()}
    own = {name: torch.tensor(numpy.asarray(w), requires_grad=True) for name, w in factors.items()}
    parameters = {**own, **{name: base[name] for name in base if name in trained}}
    optimizer, course = optimizers.Optimizer(parameters, keys), dict(loss=[], norm=[])
    for step, (ids, labels) in enumerate(samples):
        loss = models.loss(model, merged(base, own, scale), ids, labels)
        gradients = dict(zip(parameters, torch.autograd.grad(loss, list(parameters.values()))))
        with torch.no_grad():
            norm = optimizer.step(gradients, optimizers.rate_of(optimizer.keys, step + 1))
        course["loss"].append(float(loss.detach()))
        course["norm"].append(norm)
    ended = {name: p.detach().numpy() for name, p in optimizer.evaluated().items()}
    return {**course, "factors": {name: ended[name] for name in own}, "weights": {name: ended.get(name, w.detach().numpy()) for name, w in base.items()}}


def gradients(model, weights, factors, scale, ids, labels):
    """The loss, and its gradients by the factors."""
    own = {name: torch.tensor(values, requires_grad=True) for name, values in factors.items()}
    base = {name: torch.tensor(numpy.asarray(w)) for name, w in weights.items()}
    loss = models.loss(model, merged(base, own, scale), ids, labels)
    return float(loss.detach()), {name: g.numpy() for name, g in zip(own, torch.autograd.grad(loss, list(own.values())))}


# ---- PEFT's files ----------------------------------------------------------------------------------------------------

def peft_config(model, adapter, **changes):
    """adapter_config.json as PEFT writes it, the keys that change what is computed or loaded."""
    return dict(dict(peft_type="LORA", task_type="CAUSAL_LM", base_model_name_or_path=None, inference_mode=True, r=adapter["rank"],
                     lora_alpha=adapter.get("alpha", 2 * adapter["rank"]), lora_dropout=adapter.get("dropout", 0.0), target_modules=adapter["targets"],
                     fan_in_fan_out=model["family"] == "gpt2", bias="none", use_rslora=adapter.get("scaling") == "rslora", use_dora=bool(adapter.get("magnitude")), modules_to_save=None,
                     rank_pattern=adapter.get("rank_pattern", {}), alpha_pattern=adapter.get("alpha_pattern", {}), layers_to_transform=None, layers_pattern=None, init_lora_weights="gaussian" if adapter.get("init") == "gaussian" else True), **changes)


def write_peft(folder, model, adapter, factors, **changes):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "adapter_config.json").write_text(json.dumps(peft_config(model, adapter, **changes)))
    save_file({name: numpy.ascontiguousarray(w, numpy.float32) for name, w in factors.items()}, folder / "adapter_model.safetensors", metadata=dict(format="pt"))
    return folder


def read_peft(folder):
    """Factors, other tensors (by the names of the weights that they replace), and the configuration."""
    tensors = {name: values.astype(numpy.float64) for name, values in load_file(folder / "adapter_model.safetensors").items()}
    factors = {name: values for name, values in tensors.items() if name.endswith((*ENDS, *EMBEDDING_ENDS, MAGNITUDE))}
    others = {name.removeprefix(PREFIX): values for name, values in tensors.items() if name not in factors}
    return factors, others, json.loads((folder / "adapter_config.json").read_text())


def read_factors(folder):
    """Returns the factors of a checkpoint, and the other weights that are trained: from PEFT's file, or from the files of a checkpoint that
    also has the base model."""
    if (folder / "adapter_model.safetensors").exists():
        return read_peft(folder)[:2]
    tensors = {name: values for path in folder.glob("model*.safetensors") for name, values in load_file(path).items()}
    return {PREFIX + name: values for name, values in tensors.items() if name.endswith((*ENDS, MAGNITUDE))}, {name: values for name, values in tensors.items() if not name.endswith((*ENDS, MAGNITUDE))}


# ---- four bits -------------------------------------------------------------------------------------------------------

# Quantiles of a normal distribution, scaled to -1 .. 1 (appendix E of the paper).
NF4 = numpy.array([-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
                   -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224, 0.44070982933044434,
                   0.5626170039176941, 0.7229568362236023, 1.0])


@functools.lru_cache
def dynamic_map():
    """256 numbers from -1 to 1 (Dettmers et al. 2022): of each of seven powers of ten the middles of 1, 2, 4 .. 64 equal parts of its
    [0.1, 1], both ways; 0 and 1."""
    numbers = [0.0, 1.0]
    for i in range(7):
        ends = numpy.linspace(0.1, 1, 2**i + 1)
        middles = (ends[:-1] + ends[1:]) / 2 * 10.0 ** (i - 6)
        numbers += [*middles, *-middles]
    return numpy.sort(numbers)


def nearest(values, numbers):
    """The nearest of numbers in rising order."""
    middles = (numbers[:-1] + numbers[1:]) / 2
    return numbers[numpy.searchsorted(middles, values)]


def in_blocks(values, size):
    flat = numpy.asarray(values, numpy.float64).reshape(-1)
    return numpy.pad(flat, (0, -len(flat) % size)).reshape(-1, size)


def through_8_bits(values):
    """Numbers with a scale for each 256 of them, less their mean."""
    mean = values.mean()
    blocks = in_blocks(values - mean, 256)
    scales = numpy.abs(blocks).max(1, keepdims=True)
    return (nearest(blocks / numpy.where(scales == 0, 1, scales), dynamic_map()) * scales).reshape(-1)[: len(values)] + mean


def through_nf4(values):
    """What becomes of a matrix, as it lies on disk: blocks of 64 with their largest, which are themselves kept in 8 bits."""
    blocks = in_blocks(values, 64)
    largest = numpy.abs(blocks).max(1)
    codes = nearest(blocks / numpy.where(largest == 0, 1, largest)[:, None], NF4)
    return (codes * through_8_bits(largest)[:, None]).reshape(-1)[: numpy.size(values)].reshape(numpy.shape(values))


def quantised(weights):
    """Every matrix of the layers; embeddings, the output projection and vectors stay as they are."""
    return {name: through_nf4(w) if is_linear(name, numpy.shape(w)) else numpy.asarray(w) for name, w in weights.items()}

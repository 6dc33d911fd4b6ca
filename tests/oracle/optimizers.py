"""Optimizers in plain PyTorch: the oracle of the tests of optimizers. Those that torch.optim has had for long are called there; the
others are written from their papers and their authors' programs for clarity, and tests/full holds them beside these. All in whatever
precision the parameters have; one parameter after the other; nothing is fused, sharded or rounded.

`keys` are those of a run file's `optimizer`, parameters a dictionary under Hugging Face names."""
import copy
import math

import models
import torch
from expert_models import is_trained

DEFAULTS = dict(
    name="adamw", betas=[0.9, 0.95], eps=1e-8, weight_decay=0.1, warmup=0, decay="cosine", min_lr=0.0, clip=1.0, state="fp32",
    muon=dict(momentum=0.95, nesterov=True, scale="moonlight", iterations=5), sgd=dict(momentum=0.9, nesterov=False),
    schedule_free=dict(r=0.0, weight_lr_power=2.0), adafactor=dict(beta2_decay=-0.8, eps=[None, 1e-3], d=1.0),
    galore=dict(every=200, scale=0.25), fira=dict(every=200, scale=0.25))
GROUPS = ("matrices", "embeddings", "routers", "vectors")
MATRICES_ALONE = ("muon", "galore", "fira")


def complete(keys):
    out = copy.deepcopy(DEFAULTS)
    for key, value in keys.items():
        out[key] = {**out[key], **value} if isinstance(out.get(key), dict) else value
    for group in GROUPS:
        auto = "adamw" if group != "matrices" and out["name"] in MATRICES_ALONE else out["name"]
        given = keys.get(group, {})
        out[group] = dict(name=auto, lr_scale=1.0, weight_decay_scale=0.0 if group == "vectors" else 1.0)
        out[group].update({key: value for key, value in given.items() if value != "auto"})
        out[group]["weight_decay"] = out["weight_decay"] * out[group]["weight_decay_scale"]
    return out


def group_of(name, parameter):
    if parameter.dim() == 1:
        return "vectors"
    if any(part in name for part in ("wte.", "wpe.", "embed_tokens.", "lm_head.")):
        return "embeddings"
    return "routers" if name.endswith((".mlp.gate.weight", ".block_sparse_moe.gate.weight")) else "matrices"


def linear_weights(name, parameter):
    """The matrices of a parameter as torch.nn.Linear would hold them, [out, in], as views: GPT-2 has them the other way round, and those
    of q, k and v side by side."""
    if not name.startswith("transformer.h."):
        return [parameter]
    return [part.T for part in parameter.chunk(3 if ".c_attn." in name else 1, dim=1)]


def rate_of(keys, step):
    """Of step 1, 2, ..."""
    if step <= keys["warmup"]:
        return keys["lr"] * step / keys["warmup"]
    if keys["decay"] == "constant":
        return keys["lr"]
    assert keys["decay"] == "cosine"
    passed = (step - keys["warmup"]) / (keys["steps"] - keys["warmup"])
    return keys["min_lr"] + (keys["lr"] - keys["min_lr"]) * 0.5 * (1 + math.cos(math.pi * passed))


# ---- rules of one parameter: how it changes by a gradient ------------------------------------------------------------

class FromTorch:
    """torch.optim's own."""

    def __init__(self, optimizer, parameter, **options):
        self.p = parameter
        self.optimizer = optimizer([parameter], lr=1.0, **options)

    def step(self, gradient, lr):
        self.p.grad = gradient.clone()
        self.optimizer.param_groups[0]["lr"] = lr
        self.optimizer.step()
        self.p.grad = None

    def evaluated(self):
        return self.p


class Rule:
    def __init__(self, name, parameter, keys, weight_decay):
        self.name, self.p, self.keys, self.weight_decay, self.update = name, parameter, keys, weight_decay, 0

    def step(self, gradient, lr):
        self.update += 1
        self.change(gradient, lr)

    def evaluated(self):
        """Returns the weights that a checkpoint contains and that are evaluated."""
        return self.p


class Lion(Rule):
    """Chen et al. 2023, program 1, the decay first as in the authors' program."""

    def __init__(self, *given):
        super().__init__(*given)
        self.m = torch.zeros_like(self.p)

    def change(self, g, lr):
        beta1, beta2 = self.keys["betas"]
        self.p *= 1 - lr * self.weight_decay
        self.p -= lr * torch.sign(beta1 * self.m + (1 - beta1) * g)
        self.m = beta2 * self.m + (1 - beta2) * g


class ScheduleFree(Rule):
    """Defazio et al. 2024 with AdamW inside. `p` is y, at which gradients are taken; x, the average, follows from y and z."""

    def __init__(self, *given):
        super().__init__(*given)
        self.z, self.v = self.p.clone(), torch.zeros_like(self.p)
        self.weights, self.highest = 0.0, 0.0

    def change(self, g, lr):
        beta1, beta2 = self.keys["betas"]
        own = self.keys["schedule_free"]
        self.highest = max(self.highest, lr)
        weight = self.update ** own["r"] * self.highest ** own["weight_lr_power"]
        self.weights += weight
        c = weight / self.weights if self.weights > 0 else 0.0
        self.v = beta2 * self.v + (1 - beta2) * g * g
        n = g / ((self.v / (1 - beta2**self.update)).sqrt() + self.keys["eps"]) + self.weight_decay * self.p
        x = (self.p - (1 - beta1) * self.z) / beta1  # y = beta1 x + (1 - beta1) z
        self.z = self.z - lr * n
        x = (1 - c) * x + c * self.z
        self.p.copy_(beta1 * x + (1 - beta1) * self.z)

    def evaluated(self):
        beta1 = self.keys["betas"][0]
        return (self.p - (1 - beta1) * self.z) / beta1


def orthogonal(u, iterations):
    """Newton-Schulz towards the nearest matrix with orthonormal rows or columns, with Jordan's coefficients."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = u / (u.norm() + 1e-7)
    x = x.T if u.shape[0] > u.shape[1] else x
    for _ in range(iterations):
        s = x @ x.T
        x = a * x + (b * s + c * s @ s) @ x
    return x.T if u.shape[0] > u.shape[1] else x


class Muon(Rule):
    """Jordan et al. 2024, of each matrix by itself; its scale theirs (`keller`) or that of Liu et al. 2025 (`moonlight`)."""

    def __init__(self, *given):
        super().__init__(*given)
        self.m = torch.zeros_like(self.p)

    def change(self, g, lr):
        own = self.keys["muon"]
        beta = own["momentum"]
        self.m = beta * self.m + (1 - beta) * g
        step = (1 - beta) * g + beta * self.m if own["nesterov"] else self.m
        self.p *= 1 - lr * self.weight_decay
        for w, u in zip(linear_weights(self.name, self.p), linear_weights(self.name, step)):
            rows, columns = w.shape
            scale = math.sqrt(max(1, rows / columns)) if own["scale"] == "keller" else 0.2 * math.sqrt(max(rows, columns))
            w -= lr * scale * orthogonal(u, own["iterations"])


class Adafactor(Rule):
    """Shazeer and Stern 2018 as torch.optim.Adafactor (2.5) has it: no momentum, the rate relative to the parameter's own size. The
    tensor is as it is stored: factors of columns and of rows change places with them."""

    def __init__(self, *given):
        super().__init__(*given)
        shape = self.p.shape
        self.v = [torch.zeros_like(self.p)] if len(shape) == 1 else [self.p.new_zeros(shape[0], 1), self.p.new_zeros(1, shape[1])]

    def change(self, g, lr):
        own = self.keys["adafactor"]
        eps1, eps2 = own["eps"]
        eps1 = torch.finfo(self.p.dtype).eps if eps1 is None else eps1
        new = self.update ** own["beta2_decay"]
        rate = max(eps2, rms(self.p)) * min(lr, 1 / math.sqrt(self.update))
        self.p *= 1 - lr * self.weight_decay
        means = [g * g] if g.dim() == 1 else [(g * g).mean(1, keepdim=True), (g * g).mean(0, keepdim=True)]
        self.v = [(1 - new) * v + new * mean for v, mean in zip(self.v, means)]
        v = self.v[0] if g.dim() == 1 else self.v[0] @ self.v[1] / self.v[0].mean().clamp(min=eps1)
        u = g / v.clamp(min=eps1**2).sqrt()
        self.p -= rate / max(1.0, rms(u) / own["d"]) * u


def rms(x):
    return float(x.norm()) / math.sqrt(x.numel())


def with_signs(vectors):
    """Rows are singular vectors up to their signs, which moments that stay would see: the largest element of each becomes positive."""
    largest = vectors.gather(1, vectors.abs().argmax(1, keepdim=True))
    return vectors * torch.sign(largest)


class LowRank(Rule):
    """GaLore (Zhao et al. 2024) and Fira (Chen et al. 2024), as in their authors' programs: Adam on the gradient in the space of its own
    first singular vectors (those of rows or of columns, whichever are shorter), computed again every `every` updates; the
    moments stay. Decay comes last. Fira adds what lies outside of the space, scaled row by row as Adam scales what
    lies within, and lets its norm grow by one percent an update at most."""

    def __init__(self, *given, whole):
        super().__init__(*given)
        self.own = self.keys["fira" if whole else "galore"]
        self.whole, self.state = whole, [{} for _ in linear_weights(self.name, self.p)]

    def change(self, g, lr):
        for w, gradient, state in zip(linear_weights(self.name, self.p), linear_weights(self.name, g), self.state):
            if w.shape[0] < w.shape[1]:  # the shorter side is projected
                w, gradient = w.T, gradient.T
            w -= lr * self.found(gradient, state)
            w *= 1 - lr * self.weight_decay

    def found(self, g, state):
        beta1, beta2 = self.keys["betas"]
        if (self.update - 1) % self.own["every"] == 0:
            state["p"] = with_signs(torch.linalg.svd(g, full_matrices=False)[2][: self.own["rank"]])
        p = state["p"]
        r = g @ p.T
        state["m"] = beta1 * state.get("m", 0) + (1 - beta1) * r
        state["v"] = beta2 * state.get("v", 0) + (1 - beta2) * r * r
        corrected = math.sqrt(1 - beta2**self.update) / (1 - beta1**self.update)
        n = state["m"] / (state["v"].sqrt() + self.keys["eps"])
        scale = self.own["scale"]
        if not self.whole:
            return corrected * scale * n @ p
        rest = (g - scale * r @ p) * (n.norm(dim=1) / (r.norm(dim=1) + 1e-8))[:, None]
        norm = float(rest.norm())
        limit = max(norm / (state["norm"] + 1e-8), 1.01) / 1.01 if "norm" in state else 1.0
        state["norm"] = norm / limit
        return corrected * (scale * n @ p + rest / limit)


def rule_of(name, parameter, keys):
    group = keys[group_of(name, parameter)]
    which, decay = group["name"], group["weight_decay"]
    if which == "adamw":
        return FromTorch(torch.optim.AdamW, parameter, betas=tuple(keys["betas"]), eps=keys["eps"], weight_decay=decay)
    if which == "sgd":
        return FromTorch(torch.optim.SGD, parameter, momentum=keys["sgd"]["momentum"], nesterov=keys["sgd"]["nesterov"], weight_decay=decay)
    given = (name, parameter, keys, decay)
    if which in ("galore", "fira"):
        return LowRank(*given, whole=which == "fira")
    return {"lion": Lion, "schedule_free": ScheduleFree, "muon": Muon, "adafactor": Adafactor}[which](*given)


# ---- all parameters --------------------------------------------------------------------------------------------------

class Optimizer:
    """The rules of {name: parameter}, which it changes in place."""

    def __init__(self, parameters, keys):
        self.keys = complete(keys)
        self.parameters = {name: p for name, p in parameters.items() if is_trained(name)}
        self.rules = {name: rule_of(name, p.data, self.keys) for name, p in self.parameters.items()}
        self.scales = {name: self.keys[group_of(name, p)]["lr_scale"] for name, p in self.parameters.items()}

    def step(self, gradients, lr):
        """Clips, changes, and answers the norm before it."""
        norm = math.sqrt(sum(float((g.double() ** 2).sum()) for g in gradients.values()))
        clip = self.keys["clip"]
        factor = clip / norm if 0 < clip < norm else 1.0
        for name, rule in self.rules.items():
            rule.step(gradients[name] * factor, lr * self.scales[name])
        return norm

    def evaluated(self):
        return {name: rule.evaluated() for name, rule in self.rules.items()}


def train(model, parameters, samples, keys, first=0):
    """Runs steps on samples [steps, 2, batch, sequence] (ids and labels) with a new optimizer; `first`: number of steps before the first one.
    Returns {loss, router_loss, norm: of each step; weights: evaluated weights after the last step}."""
    optimizer = Optimizer(parameters, keys)
    course = dict(loss=[], router_loss=[], norm=[])
    for step, (ids, labels) in enumerate(samples):
        for p in parameters.values():
            p.grad = None
        loss, added = models.losses(model, parameters, ids, labels)
        (loss + added).backward()
        gradients = {name: torch.zeros_like(p) if p.grad is None else p.grad for name, p in optimizer.parameters.items()}
        with torch.no_grad():
            norm = optimizer.step(gradients, rate_of(optimizer.keys, first + step + 1))
        for key, value in (("loss", loss), ("router_loss", added), ("norm", norm)):
            course[key].append(float(value))
    weights = {name: p.detach() for name, p in parameters.items()}
    return {**course, "weights": {**weights, **optimizer.evaluated()}}

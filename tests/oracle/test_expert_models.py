"""Every kind of router beside plain PyTorch models (models.py, expert_models.py), which tests/full holds to transformers': losses,
what routers add to them, every gradient, twenty steps, rows that are dropped. In fp64 to 1e-10; in single where nothing hangs
on which of two equally good experts is taken."""
import expert_cases
import expert_models
import models
import numpy
import pytest
import torch
from parity import Weights, device_for, relative, tool
from test_layouts import draw_tokens, name_of, needs_launcher, run_on

SMALL = dict(num_layers=2, hidden_size=24, num_heads=4, num_kv_heads=2, vocab_size=97, max_sequence=80)
EXPERTS = dict(num_experts=6, experts_per_token=2, expert_ffn_size=14)
LOSSES = dict(balance="sequence", balance_rate=0.3, z_loss=0.02)
MIXTRAL, OLMOE = dict(family="mixtral", **SMALL, **EXPERTS), dict(family="olmoe", **SMALL, **EXPERTS)
QWEN3_MOE = dict(family="qwen3_moe", **SMALL, **EXPERTS, ffn_size=30)
DOTS1 = dict(family="dots1", **SMALL, **EXPERTS, ffn_size=30, shared_experts=1)

# model, batch, sequence, micro_batch
CASES = {
    "qwen3": (dict(family="qwen3", **SMALL, ffn_size=30), 4, 33, 2),
    "qwen3, head size apart, tied": (dict(family="qwen3", **SMALL, ffn_size=30, head_dim=10, tied=True), 2, 17, 1),
    "mixtral": (MIXTRAL, 4, 33, 2),
    "mixtral, losses": ({**MIXTRAL, **LOSSES}, 6, 17, 3),
    "mixtral, window": ({**MIXTRAL, "window": 7}, 2, 33, 2),
    "mixtral, one expert a token": ({**MIXTRAL, **LOSSES, "num_experts": 3, "experts_per_token": 1}, 3, 9, 1),
    "mixtral, all experts": ({**MIXTRAL, **LOSSES, "experts_per_token": 6}, 2, 17, 2),
    "mixtral, one expert": ({**MIXTRAL, **LOSSES, "num_experts": 1, "experts_per_token": 1}, 2, 17, 1),
    "mixtral, one position": ({**MIXTRAL, **LOSSES}, 5, 1, 5),
    "mixtral, tied, more experts than tokens": ({**MIXTRAL, "tied": True, "num_experts": 40, "experts_per_token": 3}, 2, 5, 1),
    "qwen3_moe": (QWEN3_MOE, 4, 33, 2),
    "qwen3_moe, not normalised, losses": ({**QWEN3_MOE, **LOSSES, "experts_per_token": 3, "router_normalised": False}, 4, 21, 2),
    "qwen3_moe, first dense, head size apart": ({**QWEN3_MOE, **LOSSES, "num_layers": 3, "dense_layers": 2, "head_dim": 10}, 2, 33, 1),
    "qwen3_moe, z-loss": ({**QWEN3_MOE, "z_loss": 0.1}, 4, 9, 4),
    "olmoe": (OLMOE, 4, 33, 2),
    "olmoe, normalised, losses": ({**OLMOE, **LOSSES, "router_normalised": True, "num_kv_heads": 4}, 2, 17, 1),
    "dots1": (DOTS1, 4, 33, 2),
    "dots1, scaled, two shared": ({**DOTS1, "num_layers": 3, "dense_layers": 1, "shared_experts": 2, "router_scale": 2.5}, 2, 33, 1),
    "dots1, groups": ({**DOTS1, "num_experts": 12, "experts_per_token": 4, "router_groups": 4, "router_kept_groups": 2}, 2, 33, 2),
    "dots1, groups, not normalised, losses": ({**DOTS1, **LOSSES, "router_groups": 3, "router_kept_groups": 2, "router_normalised": False}, 4, 17, 2),
    "dots1, nothing shared": ({**DOTS1, **LOSSES, "shared_experts": 0}, 2, 17, 1),
    "quota of one": ({**QWEN3_MOE, **LOSSES, "num_experts": 8, "experts_per_token": 4, "router_groups": 4, "router_quota": True}, 2, 33, 1),
    "quota of two, not normalised": ({**QWEN3_MOE, **LOSSES, "num_experts": 9, "experts_per_token": 6, "router_groups": 3, "router_quota": True,
                                      "router_normalised": False}, 2, 17, 2),
    "quota, sigmoid and bias": ({**DOTS1, "num_experts": 8, "experts_per_token": 2, "router_groups": 2, "router_quota": True}, 2, 17, 1),
}
DEVICES = [("reference", "fp64", 1e-10), ("reference", "fp32", 2e-5), ("cpu", "fp32", 2e-5)]
DEVICES = [(device_for(device, precision), precision, limit) for device, precision, limit in DEVICES]


def tokens_of(model, batch, sequence):
    generator = numpy.random.default_rng(1)
    ids, labels = generator.integers(0, model["vocab_size"], (2, batch, sequence))
    labels[generator.random((batch, sequence)) < 0.2] = -1  # do not count
    labels[0, 0] = 1
    return ids, labels


def expected_of(model, tensors, ids, labels, positions=None, capacity=None, watch=None):
    """Loss, what routers add, and the gradients of their sum; zeros for what nothing goes through, such as a router's bias."""
    for t in tensors.values():
        t.grad = None
    loss, added = models.losses(model, tensors, torch.tensor(ids), torch.tensor(labels), None if positions is None else torch.tensor(positions),
                                watch, capacity)
    (loss + added).backward()
    return loss.item(), float(added), {name: numpy.zeros(t.shape) if t.grad is None else t.grad.numpy() for name, t in tensors.items()}


def whole_norm(gradients):
    return numpy.linalg.norm(numpy.concatenate([g.reshape(-1) for g in gradients.values()]))


def check_gradients(folder, model, batch, sequence, micro_batch):
    """Beside PyTorch on all devices; answers what routers did there."""
    weights = Weights(folder, model)
    ids, labels = tokens_of(model, batch, sequence)
    seen = []
    loss, added, gradients = expected_of(model, weights.tensors(), ids, labels, watch=seen)
    norm = whole_norm(gradients)
    for device, precision, limit in DEVICES:
        got, found = weights.gradients(device, precision, ids, labels, micro_batch)
        assert abs(got["loss"] - loss) <= limit * abs(loss), (device, precision)
        assert abs(got["router_loss"] - added) <= limit * abs(added), (device, precision, got["router_loss"], added)
        for parameter, gradient in gradients.items():
            scale = max(numpy.linalg.norm(gradient), 1e-3 * norm)
            error = numpy.linalg.norm(found[parameter] - gradient) / scale
            assert error <= limit, f"{device} {precision}: {parameter} is off by {error:.3g}"
        assert abs(got["grad_norm"] - norm) <= limit * norm
    return seen


@pytest.mark.parametrize("name", CASES)
def test_gradients(tmp_path, name):
    model = CASES[name][0]
    seen = check_gradients(tmp_path, *CASES[name])
    assert model["family"] == "qwen3" or all(one["experts"].unique().numel() > 1 or model["num_experts"] == 1 for one in seen)
    if "more experts than tokens" in name:
        assert all(one["experts"].unique().numel() < model["num_experts"] for one in seen)


@pytest.mark.parametrize("activation", ["gelu_tanh", "gelu_erf", "relu", "quick_gelu", "relu2", "mish", "tanh"])
def test_other_gates(tmp_path, monkeypatch, activation):
    """Experts with another function than SiLU in their gates."""
    def gated(w, gate, up, down, x):
        return expert_models.linear(w, down, models.ACTIVATIONS[activation](expert_models.linear(w, gate, x)) * expert_models.linear(w, up, x))

    monkeypatch.setattr(expert_models, "swiglu", gated)
    check_gradients(tmp_path, {**MIXTRAL, "activation": activation}, 2, 9, 1)


@pytest.mark.parametrize("schedule", ["gpipe", "zero-bubble"])
@pytest.mark.parametrize("name", ["mixtral, losses", "dots1, scaled, two shared"])
def test_schedules_give_the_same_bits(tmp_path, name, schedule):
    model, batch, sequence, _ = CASES[name]
    weights = Weights(tmp_path, model)
    ids, labels = tokens_of(model, batch, sequence)
    for device, precision in [("reference", "fp64"), ("cpu", "fp32"), ("cpu", "bf16")]:
        one, first = weights.gradients(device, precision, ids, labels, 1)
        two, second = weights.gradients(device, precision, ids, labels, 1, schedule)
        assert one == two
        for parameter in first:
            assert numpy.array_equal(first[parameter], second[parameter]), (device, precision, parameter)


@pytest.mark.parametrize("name", ["mixtral", "qwen3_moe, first dense, head size apart", "olmoe", "dots1, groups", "quota of one"])
def test_logits_through_the_cache(tmp_path, name):
    """What `generate` and `eval` do: no losses of routers, no biases that move."""
    model, _, sequence, _ = CASES[name]
    weights = Weights(tmp_path, model)
    ids, _ = tokens_of(model, 1, sequence)
    tokens, out = tmp_path / "ids.bin", tmp_path / "logits.bin"
    ids.astype(numpy.int32).tofile(tokens)
    with torch.no_grad():
        expected = models.logits(model, weights.tensors(), torch.tensor(ids))[0].numpy()
    for device, precision, limit in DEVICES:
        for piece in (1, 5, sequence) if precision != "fp64" else (5,):
            tool("logits", weights.model_file, device, precision, piece, sequence, weights.file, tokens, out)
            last = [min(first + piece, sequence) - 1 for first in range(0, sequence, piece)]
            assert relative(numpy.fromfile(out).reshape(-1, model["vocab_size"]), expected[last]) <= limit, (device, precision, piece)


def test_groups_whose_choices_are_negative(tmp_path):
    """An expert of a group that was dropped is not better than a negative one of a group that was kept (as it is where dropped ones
    count as 0)."""
    model, batch, sequence, micro_batch = CASES["dots1, groups"]
    weights = Weights(tmp_path, model)
    weights.replace({p["name"]: weights.get(weights.flat, p) - 2 * p["name"].endswith("e_score_correction_bias") for p in weights.table["parameters"]})
    ids, labels = tokens_of(model, batch, sequence)
    loss, _, gradients = expected_of(model, weights.tensors(), ids, labels)
    got, found = weights.gradients("reference", "fp64", ids, labels, micro_batch)
    assert abs(got["loss"] - loss) <= 1e-10 * loss
    for parameter, gradient in gradients.items():
        assert numpy.linalg.norm(found[parameter] - gradient) <= 1e-10 * max(numpy.linalg.norm(gradient), 1e-3 * whole_norm(gradients)), parameter


# ---- through the layouts' tool: any weights, any layout --------------------------------------------------------------

def tensors_of(table, weights):
    return {p["name"]: torch.tensor(weights[p["name"]], requires_grad=expert_models.is_trained(p["name"])) for p in table}


def adamw(table, tensors, lr):
    """As layout_tool has it."""
    slices = expert_cases.slices_of(table)
    trained = {n: t for n, t in tensors.items() if t.requires_grad}
    return torch.optim.AdamW([dict(params=[t for n, t in trained.items() if slices[n][2] == decays], weight_decay=0.1 * decays) for decays in (True, False)],
                             lr=lr, betas=(0.9, 0.95), eps=1e-8)


@needs_launcher
@pytest.mark.parametrize("name", ["mixtral", "qwen3_moe", "dots1", "quota"])
def test_twenty_steps(tmp_path, name):
    """Losses, what routers add, norms and the weights at the end, on one rank and on several, beside torch.optim.AdamW."""
    model = expert_cases.MODELS[name]
    layouts = [dict(), dict(data=2, expert=2, micro_batch=2), dict(tensor=2, data=2, expert=4, zero=1, sequence_parallel=1)]
    table = expert_cases.parameters_of(tmp_path, model)
    given, tokens = expert_cases.drawn(table, 3), draw_tokens(model, 20, 12)
    answers = run_on(tmp_path, model, layouts, tokens, weights=given)
    tensors = tensors_of(table, given)
    optimizer = adamw(table, tensors, 1e-3)
    for step, (ids, labels) in enumerate(tokens.astype(numpy.int64)):
        seen = []
        loss, added, gradients = expected_of(model, tensors, ids, labels, watch=seen)
        norm = whole_norm(gradients)
        for layout in layouts:
            got = answers[name_of(layout)][2][step]
            for mine, theirs in zip(got, (loss, norm, added)):
                assert abs(mine - theirs) <= 1e-10 * abs(theirs), (step, layout, got, (loss, norm, added))
        for t in tensors.values():  # clipping by the norm itself: clip_grad_norm_ adds 1e-6 to it
            if t.requires_grad and norm > 1:
                t.grad /= norm
        optimizer.step()
        if model["balance"] == "bias":
            expert_models.follow_load(expert_models.complete(model), tensors, seen)
    for layout in layouts:
        for parameter, values in expert_cases.by_name(table, answers[name_of(layout)][1]).items():
            expected = tensors[parameter].detach().numpy()
            assert numpy.abs(values - expected).max() <= 1e-8 * max(1.0, numpy.abs(expected).max()), (layout, parameter)


@needs_launcher
@pytest.mark.parametrize("capacity", [0.5, 1.0, 1.5])
@pytest.mark.parametrize("name", ["mixtral", "dots1"])
def test_capacity_drop(tmp_path, name, capacity):
    """Rows beyond an expert's share of those that its ranks exchange go nowhere, in their order; weights stay as they were."""
    model = expert_cases.MODELS[name]
    batch, sequence = 8, 6
    # tokens of the ranks that exchange rows in one go
    layouts = {name_of(x): (x, rows) for x, rows in (
        (dict(capacity=capacity, drop=1, micro_batch=2), 12), (dict(capacity=capacity, drop=1, data=2, expert=2), 12),
        (dict(capacity=capacity, drop=1, data=4, expert=2, zero=3), 12), (dict(capacity=capacity, drop=1, tensor=2, expert=2, micro_batch=2), 12),
        (dict(capacity=capacity, drop=1, tensor=2, data=2, expert_tensor=2, expert=2, sequence_parallel=1, recompute="full"), 12),
        (dict(capacity=capacity, drop=1, tensor=2, sequence_parallel=1), 3), (dict(capacity=capacity, drop=1), 6),
        (dict(capacity=capacity, drop=1, pipeline=2, data=2, expert=2, schedule="zero-bubble"), 12))}
    table = expert_cases.parameters_of(tmp_path, model)
    given = expert_cases.drawn(table, 5, std=0.3)
    tokens = draw_tokens(model, 1, batch, sequence=sequence)
    ids, labels = tokens[0].astype(numpy.int64)
    answers = run_on(tmp_path, model, [dict(), *(x for x, _ in layouts.values())], tokens, weights=given, train=False)
    tensors = tensors_of(table, given)
    nothing_dropped = expected_of(model, tensors, ids, labels)[0]
    for layout, rows in layouts.values():
        loss, added, gradients = expected_of(model, tensors, ids, labels, capacity=(rows, capacity))
        got = answers[name_of(layout)]
        assert abs(loss / nothing_dropped - 1) > 1e-6, "nothing was dropped"
        assert abs(got[2][0, 0] / loss - 1) <= 1e-10 and abs(got[2][0, 2] - added) <= 1e-10, (layout, got[2], loss, added)
        found = expert_cases.by_name(table, got[0])
        for parameter, gradient in gradients.items():
            assert numpy.linalg.norm(found[parameter] - gradient) <= 1e-10 * max(numpy.linalg.norm(gradient), 1e-3 * whole_norm(gradients)), (layout, parameter)
        assert all(predicted == measured for predicted, measured in got[3])


@needs_launcher
@pytest.mark.parametrize("name", ["mixtral", "dots1"])
def test_documents_and_ranks_beside_pytorch(tmp_path, name):
    """Documents that do not see each other, over ranks that share them: loads are still those of whole sequences."""
    model = expert_cases.MODELS[name]
    layouts = [dict(), dict(context=3, expert=3, exchange="ring"), dict(context=2, data=2, expert=4, zero=3), dict(tensor=2, context=2, expert_tensor=2, expert=2)]
    table = expert_cases.parameters_of(tmp_path, model)
    given, tokens = expert_cases.drawn(table, 7), draw_tokens(model, 1, 4, sequence=11, masked=True)
    answers = run_on(tmp_path, model, layouts, tokens, weights=given, train=False)
    ids, labels, positions = tokens[0].astype(numpy.int64)
    loss, added, gradients = expected_of(model, tensors_of(table, given), ids, labels, positions)
    for layout in layouts:
        got = answers[name_of(layout)]
        assert abs(got[2][0, 0] / loss - 1) <= 1e-10 and abs(got[2][0, 2] - added) <= 1e-10 * max(abs(added), 1e-30), layout
        found = expert_cases.by_name(table, got[0])
        for parameter, gradient in gradients.items():
            assert numpy.linalg.norm(found[parameter] - gradient) <= 1e-10 * max(numpy.linalg.norm(gradient), 1e-3 * whole_norm(gradients)), (layout, parameter)


# ---- sequences that are filled up ------------------------------------------------------------------------------------

def filled(model, batch, sequence, masked, seed=11):
    """Ids, labels and positions [3, B, T] of documents that sequences are filled up with (label -2), as `packing: documents` does it; one
    sequence is full, one has one token, one none."""
    tokens = draw_tokens(model, 1, batch, sequence=sequence, masked=True, seed=seed)[0].astype(numpy.int64)
    chance = numpy.random.default_rng(seed)
    lengths = numpy.concatenate([[sequence, 1, 0], chance.integers(1, sequence + 1, batch - 3)])
    for row, length in enumerate(lengths):
        tokens[1, row, length:] = -2
        tokens[2, row, length:] = numpy.arange(sequence - length) % 64
        if not masked:
            tokens[2, row] = numpy.arange(sequence)
    assert (tokens[1] == -1).any() and (tokens[1] >= 0).any() and (tokens[1] == -2).sum() > sequence
    return tokens, lengths


def expected_of_tokens(model, tensors, tokens, lengths, watch=None):
    """Returns loss, router loss and gradients of a model that reads no padding: each sequence runs alone, with its own length. The z-loss is
    averaged over all tokens, the balance loss over the sequences of the batch."""
    for t in tensors.values():
        t.grad = None
    total, loss, added = sum(lengths), 0, 0
    counted = (tokens[1] >= 0).sum()
    for (ids, labels, positions), length in zip(tokens.transpose(1, 0, 2), lengths):
        if length == 0:
            continue
        ids, labels, positions = (torch.tensor(x[None, :length]) for x in (ids, labels, positions))
        logits, z = models.whole({**model, "balance": "none"}, tensors, ids, positions, watch)
        balance = models.whole({**model, "z_loss": 0.0}, tensors, ids, positions)[1]
        added = added + z * float(length) / float(total) + balance / len(lengths)
        loss = loss + torch.nn.functional.cross_entropy(logits[0], labels[0], ignore_index=-1, reduction="sum") / float(counted)
    (loss + added).backward()
    return loss.item(), float(added), {name: numpy.zeros(t.shape) if t.grad is None else t.grad.numpy() for name, t in tensors.items()}


FILLED = {
    "mixtral": {**MIXTRAL, **LOSSES}, "qwen3_moe": {**QWEN3_MOE, **LOSSES, "router_normalised": False, "experts_per_token": 3}, "dots1": {**DOTS1, **LOSSES},
    "quota": CASES["quota of one"][0], "no losses": OLMOE,
}


@pytest.mark.parametrize("masked", [True, False], ids=["masked", "joined"])
@pytest.mark.parametrize("name", FILLED)
def test_padding_is_as_if_it_were_not_there(tmp_path, name, masked):
    """Loss, what routers add, and every gradient are those of the tokens alone."""
    model = FILLED[name]
    weights = Weights(tmp_path, model)
    tokens, lengths = filled(model, 6, 21, masked)
    loss, added, gradients = expected_of_tokens(model, weights.tensors(), tokens, lengths)
    norm = whole_norm(gradients)
    for device, precision, limit in DEVICES:
        for micro_batch in (1, 3):
            got, found = weights.gradients(device, precision, tokens[0], tokens[1], micro_batch, positions=tokens[2] if masked else None)
            assert abs(got["loss"] - loss) <= limit * abs(loss), (device, precision)
            assert abs(got["router_loss"] - added) <= limit * abs(added), (device, precision, got["router_loss"], added)
            for parameter, gradient in gradients.items():
                scale = max(numpy.linalg.norm(gradient), 1e-3 * norm)
                error = numpy.linalg.norm(found[parameter] - gradient) / scale
                assert error <= limit, f"{device} {precision}: {parameter} is off by {error:.3g}"
    if model.get("z_loss"):  # if padding counted, they would differ
        counted = numpy.where(tokens[1] == -2, -1, tokens[1])
        other = weights.gradients("reference", "fp64", tokens[0], counted, 1, positions=tokens[2] if masked else None)[0]
        assert abs(other["loss"] - loss) <= 1e-10 * loss and abs(other["router_loss"] / added - 1) > 1e-4


@needs_launcher
@pytest.mark.parametrize("name", ["mixtral", "dots1"])
def test_padding_over_ranks_beside_pytorch(tmp_path, name):
    """Padding next to other tokens of its sequence, or as a rank's only rows; with rounds, and with rows that are dropped although there is
    capacity."""
    model = {**expert_cases.MODELS[name], "z_loss": 0.05}
    layouts = [dict(), dict(data=2, expert=2), dict(data=2, expert=2, capacity=0.3), dict(context=2, expert=2, exchange="ring"), dict(context=2, expert=2, capacity=0.4),
               dict(tensor=2, expert=2, sequence_parallel=1), dict(tensor=2, expert=2, capacity=0.3), dict(tensor=2, expert_tensor=2, sequence_parallel=1),
               dict(tensor=2, context=2, expert=4, sequence_parallel=1, capacity=0.5, recompute="experts"), dict(pipeline=2, expert=2, data=2, schedule="zero-bubble"),
               dict(capacity=8.0, drop=1), dict(data=2, expert=2, capacity=8.0, drop=1)]
    table = expert_cases.parameters_of(tmp_path, model)
    given = expert_cases.drawn(table, 7)
    tokens, lengths = filled(model, 6, 11, True)
    answers = run_on(tmp_path, model, layouts, tokens[None], weights=given, train=False)
    loss, added, gradients = expected_of_tokens(model, tensors_of(table, given), tokens, lengths)
    norm = whole_norm(gradients)
    for layout in layouts:
        found, _, steps, memory = answers[name_of(layout)]
        for mine, theirs in zip(steps[0], (loss, norm, added)):
            assert abs(mine - theirs) <= 1e-10 * abs(theirs), (layout, steps[0], (loss, norm, added))
        for parameter, gradient in expert_cases.by_name(table, found).items():
            error = numpy.linalg.norm(gradient - gradients[parameter])
            assert error <= 1e-10 * max(numpy.linalg.norm(gradients[parameter]), 1e-3 * norm), (layout, parameter, error)
        assert all(predicted == measured for predicted, measured in memory), (layout, memory)


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__]))

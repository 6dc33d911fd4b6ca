"""Training on preferences beside TRL 1.16: the engine's loss, metrics and gradients of the stored cases (preference_cases.json), and runs of the
program (preference_training.json, which make_preference_training.py wrote)."""
import json
import pathlib

import expert_cases
import numpy
import preference_models as pm
import preference_runs as runs
import pytest
import test_preference_losses as stored
from optimizer_runs import ranks_words
from test_layouts import run_on
from test_preference_layouts import LOSSES

# The tiny Llama, with the keys of model.yaml.
MODEL = dict(family="llama", num_layers=2, hidden_size=16, num_heads=2, num_kv_heads=1, ffn_size=24, vocab_size=23, max_sequence=64, norm_eps=1e-6, tied=False)
BATCH, SEQUENCE = 8, 26
# Rows of a batch and the units that each has: texts of two pairs, and of three answers, fill a sequence nearly; one row each.
PACKED = dict(pairs={0: (1, 0), 5: (2, 3)}, completions={2: (4, 0, 1), 3: (2, 5, 3)})
ALONE = dict(pairs={row: (row - 1,) for row in range(1, 5)}, completions={row: (row,) for row in range(6)})
ENDS = dict(micro=dict(micro_batch=1), whole=dict(micro_batch=8))
OF_LOSS, OF_GRADIENT, OF_PACKING = 1e-10, 1e-10, 1e-12


# ---- the engine beside TRL -------------------------------------------------------------------------------------------

def kind_of(case):
    return "pairs" if stored.is_paired(case) else "completions"


def texts_of_unit(case, unit):
    """[(prompt, completion, side)]"""
    if stored.is_paired(case):
        prompt, chosen, rejected = stored.STORED["pairs"][unit]
        return [(prompt, chosen, 0), (prompt, rejected, 1)]
    return [(*stored.STORED["completions"][unit], int(not case["desirable"][unit]))]


def places_of(case, placing):
    """[(row of the batch, first row of its sequence, prompt, completion, side, number of the segment)] in the order of stored.texts(case)."""
    found = {}
    for row, units in placing.items():
        at = 0
        for number, unit in enumerate(units):
            for prompt, completion, side in texts_of_unit(case, unit):
                found[(side if stored.is_paired(case) else 0, unit)] = (row, at, prompt, completion, side, 2 * number + side)
                at += len(prompt) + len(completion) - 1
        assert at <= SEQUENCE
    return [found[key] for key in sorted(found)]


def columns_of(case, placing, reference=None):
    """[1, 7, batch, sequence] as layout_tool has them; `reference`: log-probabilities of labels [batch, sequence]."""
    out = numpy.zeros((7, BATCH, SEQUENCE), numpy.int32)
    ids, labels, positions, weights, segments = out[:5]
    labels[:], segments[:], positions[:], weighs = -2, -1, numpy.arange(SEQUENCE), numpy.zeros((BATCH, SEQUENCE), numpy.float32)
    given = numpy.zeros((BATCH, SEQUENCE))
    what = (case["cross_entropy"] or [0, None])[1]
    for row, at, prompt, completion, side, segment in sorted(places_of(case, placing), key=lambda place: place[:2]):
        text, rows = numpy.array(prompt + completion), slice(at, at + len(prompt + completion) - 1)
        answer = numpy.arange(1, len(text)) >= len(prompt)
        counts = answer if what == "answers" else numpy.full(len(answer), what == "texts")
        ids[row, rows], positions[row, rows], segments[row, rows] = text[:-1], numpy.arange(len(text) - 1), numpy.where(answer, segment, -1)
        weighs[row, rows] = counts & (side == 0)
        labels[row, rows] = numpy.where(answer | (weighs[row, rows] > 0), text[1:], -1)
        given[row, rows] = 0 if reference is None else numpy.where(answer, reference[row, rows], 0)
        positions[row, rows.stop:] = numpy.arange(SEQUENCE - rows.stop)
    weights[:] = weighs.view(numpy.int32)
    out[5:] = numpy.frombuffer(given.tobytes(), numpy.int32).reshape(2, BATCH, SEQUENCE)
    if case["loss"] is None:  # the cross entropy alone
        out[1] = numpy.where(weighs > 0, labels, numpy.minimum(labels, -1))
        out = out[:4]
    return out[None]


def objective_of(case):
    if case["loss"] is None:
        return None
    beta, smoothing, gamma, desirable, undesirable, kl, tau = map(float, stored.settings_of(case))
    return f"{LOSSES.index(case['loss'])} {beta!r} {smoothing!r} {gamma!r} {tau!r} {desirable!r} {undesirable!r} {kl!r} {float((case['cross_entropy'] or [0])[0])!r}"


class Engine:
    """Runs the cases in the engine. Computes the reference's log-probabilities once for each model and each packing."""

    def __init__(self, folder):
        self.folder, self.known, self.number = folder, {}, 0
        self.table = expert_cases.parameters_of(folder, MODEL)
        assert {p["name"]: tuple(p["shape"]) for p in self.table} == dict(pm.shapes())

    def run(self, model, columns, objective, layouts):
        """{name of a layout: (loss, {name: gradient}, log-probabilities [batch, sequence])}"""
        folder = self.folder / str(self.number)
        folder.mkdir()
        self.number += 1
        tensors = pm.tensors_of(model)
        weights = {p["name"]: tensors[p["name"]] for p in self.table}
        answers = run_on(folder, MODEL, layouts, columns, train=False, weights=weights, objective=objective)
        found = {}
        for name, (gradients, _, steps, _) in answers.items():
            log_probs = numpy.fromfile(folder / f"{name}.log-probs").reshape(BATCH, SEQUENCE) if objective else None
            found[name] = (steps[0][0], expert_cases.by_name(self.table, gradients), log_probs)
        return found

    def reference(self, case, placing):
        if not case["reference"] or case["loss"] is None:
            return None
        key = (stored.reference_of(case), kind_of(case), repr(case.get("desirable")), repr(placing))
        if key not in self.known:
            model = key[0]
            self.known[key] = self.run(model, columns_of(dict(case, cross_entropy=None), placing), objective_of(case), [dict()])["one"][2]
        return self.known[key]

    def case(self, case, placing, layouts=(dict(),)):
        columns = columns_of(case, placing, self.reference(case, placing))
        return self.run(case["policy"], columns, objective_of(case), list(layouts))


def check_gradients(case, gradients):
    mine = numpy.array([[(gradients[name] * pm.probe_of(n, name, shape)).sum() for n in range(pm.PROBES)] for name, shape in pm.shapes()])
    theirs, squares = numpy.array(case["gradients"])[:, 1:], numpy.array(case["gradients"])[:, 0]
    worst = abs(mine - theirs).max(axis=1) / numpy.maximum(abs(theirs).max(axis=1), 1e-3 * abs(theirs).max())
    assert worst.max() <= OF_GRADIENT, (stored.name_of(case), pm.names()[int(worst.argmax())], worst.max())
    own = numpy.array([(gradients[name] ** 2).sum() for name in pm.names()])
    assert (abs(own - squares) <= 2 * OF_GRADIENT * numpy.maximum(squares, 1e-6 * squares.max())).all(), stored.name_of(case)


def check_metrics(case, placing, log_probs, reference):
    """Compares rewards and log-probabilities, computed from the engine's log-probability of each label."""
    if case["loss"] is None or (case["trainer"], case["loss"]) == ("CPO", "ipo"):  # which has rewards of means, unlike DPOTrainer's
        return
    sums = []
    for row, at, prompt, completion, *_ in places_of(case, placing):
        rows = slice(at + len(prompt) - 1, at + len(prompt + completion) - 1)
        sums.append([log_probs[row, rows].sum(), 0 if reference is None else reference[row, rows].sum(), len(completion)])
    assert abs(numpy.array(sums)[:, 0] - stored.sums(case, case["policy"])[:, 0]).max() <= 1e-10
    head, half = [case["loss"], *stored.settings_of(case)], len(sums) // 2
    if stored.is_paired(case):
        out = numpy.array(stored.computed([[*head, *sums[i], *sums[half + i]] for i in range(half)]))
        chosen, rejected = out[:, 3:5], out[:, 5:7]
    else:
        desirable = numpy.array(case["desirable"])
        out = numpy.array(stored.computed([[*head, *row, str(int(d))] for row, d in zip(sums, desirable)]))
        chosen, rejected = out[desirable, 3:5], out[~desirable, 3:5]
    wanted = {f"{what}/{side}": rows[:, column].mean() for side, rows in (("chosen", chosen), ("rejected", rejected)) if len(rows)
              for column, what in enumerate(("rewards", "logps"))}
    if stored.is_paired(case):
        wanted |= {"rewards/margins": (chosen - rejected)[:, 0].mean(), "rewards/accuracies": (chosen > rejected)[:, 0].mean()}
    for key, value in wanted.items():
        assert abs(case["metrics"][key] - value) <= OF_LOSS * max(1, abs(value)), (stored.name_of(case), key)


def close_in(one, other, tolerance):
    """Losses and gradients of the same."""
    assert abs(one[0] - other[0]) <= tolerance * max(1, abs(other[0]))
    most = max(abs(g).max() for g in other[1].values())
    for name, gradient in other[1].items():
        assert abs(one[1][name] - gradient).max() <= tolerance * max(abs(gradient).max(), 1e-3 * most), name


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    return Engine(tmp_path_factory.mktemp("engine"))


@pytest.mark.parametrize("loss", [*LOSSES, "cross_entropy"])
def test_the_engine(engine, loss):
    """Loss, metrics and every parameter's gradient; micro-batches of 1 and of 8; packed and each by itself."""
    cases = [case for case in stored.STORED["cases"] if (case["loss"] or "cross_entropy") == loss]
    assert cases
    for case in cases:
        packed, alone = PACKED[kind_of(case)], ALONE[kind_of(case)]
        found = engine.case(case, packed, ENDS.values())
        small, whole = found["one"], found["micro_batch8"]
        for loss_found, gradients, log_probs in (small, whole):
            assert abs(loss_found - case["value"]) <= OF_LOSS * max(1, abs(case["value"])), stored.name_of(case)
            check_gradients(case, gradients)
            if log_probs is not None:
                check_metrics(case, packed, log_probs, engine.reference(case, packed))
        close_in(small, whole, OF_PACKING)
        close_in(engine.case(case, alone)["one"], small, OF_PACKING)


# ---- ten steps beside TRL and AdamW ----------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return runs.write_all(tmp_path_factory.mktemp("made"))


def check_steps(lines, theirs, of_loss, of_metrics, of_norm):
    """Accuracies are equal but for pairs whose margin is below 1e-4."""
    assert len(lines) == len(theirs) == runs.STEPS
    for number, (mine, their) in enumerate(zip(lines, theirs)):
        assert abs(mine["loss"] - their["loss"]) <= of_loss * max(1, abs(their["loss"])), (number, mine["loss"], their["loss"])
        assert abs(mine["grad_norm"] / their["grad_norm"] - 1) <= of_norm, (number, mine["grad_norm"], their["grad_norm"])
        assert abs(mine["lr"] - runs.rate_of(number)) <= 1e-15
        assert ("kl" in mine) == ("kl" in their["metrics"])
        for key, value in their["metrics"].items():
            # DPOTrainer has ipo's log-probabilities as sums, too.
            allowed = of_metrics * max(1, abs(value))
            if key == "rewards/accuracies":
                allowed = 1e-12 + sum(abs(margin) < 1e-4 for margin in their["margins"]) / runs.BATCH
            assert abs(mine[key] - value) <= allowed, (number, key, mine[key], value)


STEPS_OF_TRL = {one["loss"]: one for one in json.loads(pathlib.Path(__file__).with_name("preference_training.json").read_text())["losses"]}
PRECISIONS = {"fp64": (1e-9, 1e-9, 1e-9), "fp32": (1e-4, 1e-3, 1e-2)}


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("loss", runs.OBJECTIVES)
def test_ten_steps(tmp_path, made, loss, precision):
    objective, theirs = runs.OBJECTIVES[loss], STEPS_OF_TRL[loss]
    lines = runs.train(tmp_path, made, objective, precision=precision)
    assert runs.order_of(tmp_path, objective) == theirs["order"], "samples come in another order: make_preference_training.py stores their numbers again"
    check_steps(lines, theirs["steps"], *PRECISIONS[precision])


FIRST = {"fp64": dict(), "fp32": dict(precision="fp32"), "bf16": dict(precision="bf16"), "data=2": dict(ranks=2), "tensor=2": dict(ranks=2, layout=dict(tensor=2)),
         "tensor=2, fp32": dict(ranks=2, layout=dict(tensor=2), precision="fp32"), "pipeline=2, bf16": dict(ranks=2, layout=dict(pipeline=2, micro_batch=2), precision="bf16"),
         "packed": dict(data=dict(sequence=64)), "packed, fp32, micro-batches": dict(data=dict(sequence=64), layout=dict(micro_batch=4), precision="fp32"),
         "recompute": dict(layout=dict(recompute="full", micro_batch=2), precision="fp32"), "context=2": dict(ranks=2, layout=dict(context=2)),
         "zero=3": dict(ranks=2, layout=dict(zero=3), precision="fp32")}


@pytest.mark.parametrize("loss", ["dpo", "kto"])
@pytest.mark.parametrize("how", FIRST)
def test_first_rewards_are_zero(tmp_path, made, how, loss):
    """The stored numbers have the bits of training's own."""
    more = {key: value for key, value in FIRST[how].items() if key != "ranks"}
    line, = runs.train(tmp_path, made, runs.OBJECTIVES[loss], ranks_words(FIRST[how].get("ranks", 1)), **{**more, "optimizer": dict(steps=1, warmup=0)})
    for key in ("rewards/chosen", "rewards/rejected", "rewards/margins", "rewards/accuracies", "kl"):
        assert line.get(key, 0) == 0, (key, line)
    assert {"rewards/chosen", "rewards/rejected"} <= line.keys()
    assert line["loss"] == pytest.approx(numpy.log(2) if loss == "dpo" else 0.5, rel=0.2), line

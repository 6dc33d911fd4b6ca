"""Losses of preferences (device/preference.h) beside TRL 1.16: its losses and its metrics from stored sums of log probabilities, and its
gradients from our derivatives and the model's own, which are those of a Llama in numpy (preference_models.py)."""
import functools
import json
import os
import pathlib
import subprocess

import numpy
import preference_models as pm
import pytest

TOOL = pathlib.Path(os.environ["TRIREME_TOOLS"]) / "preference_tool"
STORED = json.loads(pathlib.Path(__file__).with_name("preference_cases.json").read_text())
DEFAULTS = dict(beta=0.1, label_smoothing=0.0, simpo_gamma=0.5, desirable_weight=1.0, undesirable_weight=1.0, kl=0.0, discopop_tau=0.05)

# Relative to the largest of what is compared.
OF_LOSS, OF_GRADIENT, OF_SUMS = 1e-12, 1e-10, 1e-12


def computed(lines):
    """Returns the numbers that the tool prints for each line."""
    text = "\n".join(" ".join(word if isinstance(word, str) else repr(float(word)) for word in line) for line in lines)
    out = subprocess.run([TOOL], input=text, capture_output=True, text=True, check=True).stdout
    return [[float(word) for word in line.split()] for line in out.splitlines()]


@functools.cache
def rules():
    """Returns {loss: the settings that it uses}."""
    out = subprocess.run([TOOL, "rules"], capture_output=True, text=True, check=True).stdout
    return {line.split()[0]: set(line.split()[1:]) for line in out.splitlines()}


def is_paired(case):
    return "desirable" not in case


def texts(case):
    """(prompt, completion) of all: chosen ones and then rejected ones, or one a line."""
    if is_paired(case):
        return [(p, c) for p, c, _ in STORED["pairs"]] + [(p, r) for p, _, r in STORED["pairs"]]
    return [(p, c) for p, c in STORED["completions"]]


def sums(case, model):
    """[of the answer, of all but the first token] of each text."""
    found = STORED["sums"][model]
    return numpy.array(found["chosen"] + found["rejected"] if is_paired(case) else found["completions"])


def reference_of(case):
    return pm.MODELS[1 - pm.MODELS.index(case["policy"])]


def kl(case):
    """Of completions behind others' prompts: their mean, and none below 0."""
    answer = [numpy.array(STORED["sums"][model]["mismatched"])[:, 0] for model in (case["policy"], reference_of(case))]
    return max(0.0, float((answer[0] - answer[1]).mean()))


def settings_of(case):
    given = {**DEFAULTS, **{key: value for key, value in case["arguments"].items() if key in DEFAULTS}}
    if case["loss"] == "kto":
        given["kl"] = kl(case)
    return [given[key] for key in DEFAULTS]


def lines_of(case):
    """For the tool: a line for each pair, or for each completion."""
    mine, labels = sums(case, case["policy"])[:, 0], [len(c) for _, c in texts(case)]
    theirs = sums(case, reference_of(case))[:, 0] if case["reference"] else 0 * mine
    each = [list(row) for row in zip(mine, theirs, labels)]
    head = [case["loss"], *settings_of(case)]
    if not is_paired(case):
        return [[*head, *row, "1" if desirable else "0"] for row, desirable in zip(each, case["desirable"])]
    half = len(each) // 2
    return [[*head, *each[i], *each[half + i]] for i in range(half)]


def cross_entropy_of(case):
    """Its value, and d of it / d each text's sums [text, 2]: it is a mean over all of the counted labels of the chosen."""
    slope = numpy.zeros((len(texts(case)), 2))
    if case["cross_entropy"] is None or case["cross_entropy"][0] == 0:
        return 0.0, slope
    weight, what = case["cross_entropy"]
    half, which = len(slope) // 2, ("answers", "texts").index(what)
    count = sum(len(c) if what == "answers" else len(p) + len(c) - 1 for p, c in texts(case)[:half])
    slope[:half, which] = -weight / count
    return float((slope * sums(case, case["policy"])).sum()), slope


def loss_of(case, out):
    """Returns our loss of a case, and its derivatives with respect to the sums [text, 2], from the tool's output."""
    loss, slope = cross_entropy_of(case)
    if case["loss"] is not None:
        out = numpy.array(out)
        loss += float(out[:, 0].mean())
        slope[:, 0] += numpy.concatenate([out[:, 1], out[:, 2]] if is_paired(case) else [out[:, 1]]) / len(out)
    return loss, slope


@functools.cache
def all_outputs():
    """Returns the outputs for all cases, from one run of the tool."""
    lines = [lines_of(case) if case["loss"] is not None else [] for case in STORED["cases"]]
    out = iter(computed([line for some in lines for line in some]))
    return [[next(out) for _ in some] for some in lines]


def name_of(case):
    said = [f"{key}={'+'.join(value) if key == 'loss_type' and isinstance(value, list) else value}" for key, value in case["arguments"].items()]
    return " ".join([case["trainer"], *said, case["policy"]])


# ---- beside TRL ------------------------------------------------------------------------------------------------------

def test_every_loss_is_stored():
    assert {case["loss"] for case in STORED["cases"]} - {None} == set(rules())


def test_losses():
    for case, out in zip(STORED["cases"], all_outputs()):
        assert abs(loss_of(case, out)[0] - case["value"]) <= OF_LOSS * max(1, abs(case["value"])), name_of(case)


def test_numpy_and_transformers_find_the_same_sums():
    for model in pm.MODELS:
        tensors, stored = pm.tensors_of(model), STORED["sums"][model]
        pairs = pm.texts_of("pairs")
        for kind, some in (("chosen", [(p, c) for p, c, _ in pairs]), ("rejected", [(p, r) for p, _, r in pairs]), ("completions", pm.texts_of("completions"))):
            mine = numpy.array([pm.sums_of(tensors, *text) for text in some])
            assert abs(mine - stored[kind]).max() <= OF_SUMS * abs(mine).max()


@pytest.mark.parametrize("policy", pm.MODELS)
def test_gradients(policy):
    """Gradients of every parameter, along three directions."""
    paired = [(p, c) for p, c, _ in STORED["pairs"]] + [(p, r) for p, _, r in STORED["pairs"]]
    of_pairs, of_lines = (pm.derivatives_of(policy, some) for some in (paired, [(p, c) for p, c in STORED["completions"]]))
    for case, out in zip(STORED["cases"], all_outputs()):
        if case["policy"] != policy:
            continue
        mine = numpy.einsum("ts,tpns->pn", loss_of(case, out)[1], of_pairs if is_paired(case) else of_lines)
        theirs = numpy.array(case["gradients"])[:, 1:]
        worst = abs(mine - theirs).max(axis=1) / numpy.maximum(abs(theirs).max(axis=1), 1e-3 * abs(theirs).max())
        assert worst.max() <= OF_GRADIENT, (name_of(case), pm.names()[int(worst.argmax())], worst.max())


# ---- metrics ---------------------------------------------------------------------------------------------------------

def test_metrics():
    """rewards/ and logps/: beta times S - R whatever the loss is, of means where TRL's trainer takes means from the start."""
    for case, out in zip(STORED["cases"], all_outputs()):
        if case["loss"] is None or (case["trainer"], case["loss"]) == ("CPO", "ipo"):  # which has rewards of means, unlike DPOTrainer's
            continue
        out, theirs = numpy.array(out), case["metrics"]
        if is_paired(case):
            chosen, rejected = out[:, 3:5], out[:, 5:7]
            wanted = {"rewards/margins": (chosen - rejected)[:, 0].mean(), "rewards/accuracies": (chosen > rejected)[:, 0].mean()}
        else:
            desirable = numpy.array(case["desirable"])
            chosen, rejected, wanted = out[desirable, 3:5], out[~desirable, 3:5], {"kl": kl(case) if case["loss"] == "kto" else 0.0}
        for word, rows in (("chosen", chosen), ("rejected", rejected)):
            if len(rows) > 0:
                wanted |= {f"rewards/{word}": rows[:, 0].mean(), f"logps/{word}": rows[:, 1].mean()}
            else:
                assert f"rewards/{word}" not in theirs
        for key, value in wanted.items():
            assert abs(theirs[key] - value) <= 1e-12 * max(1, abs(value)), (name_of(case), key)


def test_rules():
    """The settings that change a loss are those in its rules; the same for the reference, and for lengths."""
    said, changes = rules(), dict(nothing={}, label_smoothing=dict(label_smoothing=0.2), simpo_gamma=dict(simpo_gamma=0.9), kl=dict(kl=0.7),
                                  discopop_tau=dict(discopop_tau=0.3), reference=dict(reference=-10.25), averaged=dict(labels=5.0))

    def line(loss, change):
        given = {**DEFAULTS, "label_smoothing": 0.1 if "needs_label_smoothing" in said[loss] else 0.0, "reference": -10.5, "labels": 4.0, **change}
        rest = [-11.0, -8.25, 7.0] if "paired" in said[loss] else ["1"]
        return [loss, *(given[key] for key in DEFAULTS), -9.0, given["reference"], given["labels"], *rest]

    out = iter(computed([line(loss, change) for loss in said for change in changes.values()]))
    for loss, words in said.items():
        found = {key: next(out)[:3] for key in changes}
        assert {key for key in changes if found[key] != found["nothing"]} == words & set(changes), loss

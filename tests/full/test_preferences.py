"""Compares losses of preferences with the installed trainers of TRL: the results stored in preference_cases.json, and every element
of every parameter's gradient with the one from our derivatives (device/preference.h) by the log probabilities."""
import os
import sys

import numpy
import pytest

pytest.importorskip("trl")
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "oracle"))
import make_preference_cases as theirs  # noqa: E402
import preference_models as pm  # noqa: E402
import test_preference_losses as stored  # noqa: E402
import torch  # noqa: E402
import transformers_models  # noqa: E402

# OF_ELEMENT is relative to the largest element of each tensor's gradient, but at least to SMALL times the largest of all
# tensors, since the whole gradient of a tensor may be nearly 0.
OF_ELEMENT, SMALL = 1e-11, 1e-3


def our_gradients(case, out):
    policy, slope = theirs.llama_of(case["policy"]), stored.loss_of(case, out)[1]
    (torch.tensor(slope) * theirs.sums_of(policy, stored.texts(case))).sum().backward()
    return {name: tensor.grad.numpy() for name, tensor in policy.named_parameters()}


def gradient_error(case, found, out):
    ours, most = our_gradients(case, out), max(abs(g).max() for g in found.values())
    return max(abs(ours[name] - g).max() / max(abs(g).max(), SMALL * most) for name, g in found.items())


@pytest.mark.parametrize("number", range(len(stored.STORED["cases"])), ids=[stored.name_of(case) for case in stored.STORED["cases"]])
def test_case(number, tmp_path):
    case, out = stored.STORED["cases"][number], stored.all_outputs()[number]
    with transformers_models.in_double():
        loss, metrics, found = theirs.result_of(case, str(tmp_path))
        error = gradient_error(case, found, out)
    assert error <= OF_ELEMENT
    assert loss == pytest.approx(case["value"], rel=1e-12)
    assert {key: float(metrics[key]) for key in case["metrics"]} == pytest.approx(case["metrics"], rel=1e-11, abs=1e-13)
    squares = numpy.array([(found[name] ** 2).sum() for name in pm.names()])
    assert squares == pytest.approx(numpy.array(case["gradients"])[:, 0], rel=1e-11)


def test_the_stored_cases_are_those_that_are_asked():
    kept = ("trainer", "arguments", "loss", "reference", "policy", "cross_entropy")
    asked = [{key: one[key] for key in kept} for one in theirs.asked()]
    assert asked == [{key: one[key] for key in kept} for one in stored.STORED["cases"]]

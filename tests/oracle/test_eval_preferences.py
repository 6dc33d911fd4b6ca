"""`eval` of a corpus of preferences gives the loss and the metrics that training has of the same held-out answers, whose formulas
test_preference_training.py compares with TRL's."""
import json
import math

import pytest
import preference_runs as runs
from parity import trireme
from test_bad_input import check

HELD = "run/validation-preferences/train"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = runs.write_all(tmp_path_factory.mktemp("made"))
    runs.write_lines(folder / "held.jsonl", runs.records(runs.lines()[:7]))
    return folder


def train(folder, made, name):
    """Metrics of the held-out answers at the end."""
    data = dict(validation_preferences=str(made / "held.jsonl"))
    return runs.train(folder, made, runs.OBJECTIVES[name], data=data, evaluation=dict(every=4), optimizer=dict(steps=4))[-1]


def evaluate(folder, *words):
    done = trireme("eval", folder / "run", folder / HELD, "--precision", "fp64", "--device", "reference", *words)
    return done.stdout, done.stderr


def close(found, expected):
    assert math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-12), (found, expected)


@pytest.mark.parametrize("name", ["dpo", "kto", "simpo"])
def test_metrics_of_training(tmp_path, made, name):
    line = train(tmp_path, made, name)
    words = [] if name == "simpo" else ["--reference", made / "model"]
    facts = json.loads(evaluate(tmp_path, *words, "--json")[0])
    assert facts["objective"] == name and (facts["answers"] == 14 if name == "kto" else facts["pairs"] == 7)
    close(facts["loss"], line["validation_loss"])
    compared = [key for key in line if key.startswith("validation/")]
    assert len(compared) >= 5
    for key in compared:
        close(facts[key.removeprefix("validation/")], line[key])
    printed = evaluate(tmp_path, *words, "--batch", 1)[0]  # another batch, the same numbers
    assert f"rewards/margins     {facts['rewards/margins']:.6f}" in printed and f"loss                {facts['loss']:.6f}" in printed


def test_without_a_reference(tmp_path, made):
    """No loss of chosen and rejected answers together; the objective's needs the reference."""
    line = train(tmp_path, made, "dpo")
    printed, said = evaluate(tmp_path)
    assert "--reference FOLDER" in said and str(made / "model") in said
    assert f"logps/chosen        {line['validation/logps/chosen']:.6f}" in printed
    assert "logps/accuracies" in printed and "loss" not in printed and "rewards" not in printed
    facts = json.loads(trireme("eval", made / "model", tmp_path / HELD, "--reference", made / "model", "--json").stdout)
    assert facts["objective"] == "dpo"  # the usual one, for a model that no run made
    close(facts["loss"], math.log(2))
    assert facts["rewards/margins"] == facts["rewards/accuracies"] == 0


def test_refusals(tmp_path, made):
    train(tmp_path, made, "simpo")
    words = ["eval", tmp_path / "run", tmp_path / HELD]
    check(trireme(*words, "--reference", made / "model", status=2), "the run's objective (simpo) uses no reference")
    check(trireme(*words, "--packing", "windows", status=2), "is a corpus of preferences, which takes one model")
    check(trireme("eval", made / "model", *words[1:], status=2), "is a corpus of preferences, which takes one model")

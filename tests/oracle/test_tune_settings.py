"""Studies whose parameters are keys of the run file: logarithmic ranges, the model, the adapter and the objective. Each trial is a plain run with
these settings."""
import json
import subprocess

import preference_runs as runs
import pytest
from parity import TRIREME, trireme
from test_tune import learning, tune, write  # noqa: F401, a fixture

PAIRED = dict(name="dpo", beta=0.1)


def study_of(folder, run, space, **more):
    return dict(dict(name="settings", run=str(write(folder / "run.yaml", run)), objective="validation_loss", method="exhaustive", trial=dict(steps=8), space=space), **more)


def values_of(folder, study):
    return {trial["point"]: trial["value"] for trial in json.loads(tune(folder, study, "--json").stdout)["trials"]}


def plain(folder, settings, key):
    """The value in the last line of a plain run."""
    output = folder / f"plain {settings}"
    words = [word for setting in settings.split(",") for word in ("--set", setting)]
    trireme("train", folder / "run.yaml", "--set", "optimizer.steps=8", "--set", "evaluation.every=8", "--set", "evaluation.stop_after=0", "--set", "checkpoint.best=false",
            "--set", f"output={output}", *words)
    return json.loads((output / "metrics.jsonl").read_text().splitlines()[-1])[key]


def test_a_logarithmic_range(tmp_path, learning):  # noqa: F811
    space = [dict(name="optimizer.lr", low=1e-4, high=1.6e-2, log=True, num_values=5)]
    found = values_of(tmp_path, study_of(tmp_path, learning, space))
    assert list(found) == [f"optimizer.lr={rate}" for rate in ("0.0001", "0.000356", "0.00126", "0.0045", "0.016")]
    assert found["optimizer.lr=0.00126"] == plain(tmp_path, "optimizer.lr=0.00126", "validation_loss")
    drawn = study_of(tmp_path, learning, [dict(space[0], num_values=64)], method="gaussian", trials=3, initial=2)
    assert len(json.loads(tune(tmp_path, drawn, "--json", "--store", tmp_path / "drawn.db").stdout)["trials"]) == 3


def test_sizes_of_the_model(tmp_path, learning):  # noqa: F811
    """The ratio of rates makes the last rate follow the varied one."""
    run = dict(learning, optimizer=dict(learning["optimizer"], min_lr_ratio=0.1))
    found = values_of(tmp_path, study_of(tmp_path, run, [dict(name="model.num_layers", values="1 2"), dict(name="optimizer.lr", values="1e-3 4e-3")]))
    assert len(found) == 4 and found["model.num_layers=2,optimizer.lr=4e-3"] == plain(tmp_path, "model.num_layers=2,optimizer.lr=4e-3", "validation_loss")
    report = subprocess.run([TRIREME, "tune", "report", tmp_path / "study.db"], capture_output=True, text=True, check=True).stdout
    assert f"to use it: trireme train {tmp_path / 'run.yaml'} --set model.num_layers=" in report


def test_refused(tmp_path, tmp_path_factory, learning):  # noqa: F811
    made = runs.write_all(tmp_path_factory.mktemp("made"))
    run = runs.run_of(tmp_path, made, dict(name="kto"), data=dict(validation_preferences=str(made / "pairs.jsonl")))
    study = study_of(tmp_path, run, [dict(name="objective.beta", values="0.05 0.5")], objective="validation_accuracy")
    assert "validation_accuracy is for preference pairs, and " in tune(tmp_path, study, status=3).stderr
    study = study_of(tmp_path, dict(learning, optimizer=dict(learning["optimizer"], warmup=0)), [dict(name="optimizer.warmup_ratio", values="0.05 0.2")], method="halving",
                     trial=dict(steps=80))
    assert "within the warm-up of 16 steps" in tune(tmp_path, study, status=3).stderr


@pytest.mark.parametrize("method", ["exhaustive", "halving"])
def test_accuracy_of_pairs(tmp_path, tmp_path_factory, method):
    made = runs.write_all(tmp_path_factory.mktemp("made"))
    run = runs.run_of(tmp_path, made, PAIRED, data=dict(validation_preferences=str(made / "pairs.jsonl")))
    study = study_of(tmp_path, run, [dict(name="objective.beta", values="0.05 0.5"), dict(name="adapter.rank", values="1 2")], objective="validation_accuracy", method=method)
    run["optimizer"]["warmup"] = 0
    write(tmp_path / "run.yaml", run)
    found = json.loads(tune(tmp_path, study, "--json").stdout)
    assert found["unit"] == "1 - validation accuracy, lower is better" and len(found["trials"]) == 4
    best = found["best"]
    assert best["value"] == 1 - plain(tmp_path, best["point"], "validation/rewards/accuracies")
    assert "1 - validation accuracy" in subprocess.run([TRIREME, "tune", "report", tmp_path / "study.db"], capture_output=True, text=True, check=True).stdout

"""Factors of experts beside PEFT's own: the numbers that tests/oracle/expert_lora.json stores, and files both ways: what one saved the other
loads and finds the same loss, merged or not."""
import os
import sys

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers", minversion="5")
pytest.importorskip("peft", minversion="0.21")
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "oracle"))

import expert_lora  # noqa: E402
import lora  # noqa: E402
import make_expert_lora as theirs_of  # noqa: E402
import optimizer_runs as runs  # noqa: E402
import test_expert_lora as ours  # noqa: E402
from parity import trireme  # noqa: E402

TRAINED = {name: dict(model, vocab_size=257, max_sequence=24) for name, model in expert_lora.BESIDE.items()}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return runs.corpus_of(tmp_path_factory.mktemp("corpus"))


@pytest.mark.parametrize("name", expert_lora.BESIDE)
def test_stored_numbers(tmp_path, name):
    found, stored = theirs_of.found_of(tmp_path / "theirs", expert_lora.BESIDE[name]), ours.PEFTS[name]
    for case, expected in stored["stacked"].items():
        assert abs(found["stacked"][case]["loss"] / expected["loss"] - 1) < 1e-12
        for key, values in expected["gradients"].items():
            assert abs(found["stacked"][case]["gradients"][key]["norm"] / values["norm"] - 1) < 1e-10, key
    for case, expected in stored["singles"].items():
        assert abs(found["singles"][case]["loss"] / expected["loss"] - 1) < 1e-12


def held_out_loss(theirs, corpus):
    with torch.no_grad():
        return float(theirs_of.loss_of(theirs, *runs.windows_of(corpus / "validation")))


@pytest.mark.parametrize("case", expert_lora.CASES)
@pytest.mark.parametrize("name", expert_lora.BESIDE)
def test_files(tmp_path, corpus, name, case):
    """A checkpoint, and what `export` makes of it, loaded by PEFT; what PEFT saves of that, loaded here."""
    model, adapter = TRAINED[name], expert_lora.CASES[case]
    start = theirs_of.write_base(tmp_path / "start", model, expert_lora.plain(model))
    trireme("train", runs.write_run(tmp_path, corpus, dict(steps=4, lr=1e-2), model=model, precision="fp64", init=str(start), adapter=adapter))
    trireme("export", tmp_path / "run", tmp_path / "exported")
    mine, newest = ours.evaluated(tmp_path / "run", corpus), runs.newest_of(tmp_path / "run")
    for folder, limit in ((newest, 1e-10), (tmp_path / "exported", 1e-6)):  # the second is in single
        assert abs(held_out_loss(theirs_of.adapted(start, folder), corpus) / mine - 1) < limit, folder
    theirs = theirs_of.adapted(start, newest)
    theirs.save_pretrained(tmp_path / "saved")
    before, after = (lora.read_peft(folder)[0] for folder in (newest, tmp_path / "saved"))
    assert before.keys() == after.keys() and all((before[key] == after[key]).all() for key in before)
    assert abs(ours.evaluated(tmp_path / "saved", corpus, "--base", start) / mine - 1) < 1e-12
    assert abs(held_out_loss(theirs.merge_and_unload(), corpus) / mine - 1) < 1e-10

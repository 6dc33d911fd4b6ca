"""Ten steps of runs on preferences beside TRL's losses as they are here and torch.optim.AdamW, with the batches of the same runs."""
import os
import sys

import pytest

pytest.importorskip("trl")
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "oracle"))
import make_preference_training as theirs  # noqa: E402
import preference_runs as runs  # noqa: E402
import test_preference_training as stored  # noqa: E402


@pytest.mark.parametrize("loss", runs.OBJECTIVES)
def test_ten_steps(tmp_path, loss):
    (tmp_path / "theirs").mkdir()
    found = theirs.found_of(loss, tmp_path / "theirs")
    for precision, tolerances in stored.PRECISIONS.items():
        lines = runs.train(tmp_path / precision, tmp_path / "theirs", runs.OBJECTIVES[loss], precision=precision)
        stored.check_steps(lines, found["steps"], *tolerances)
    kept = stored.STEPS_OF_TRL[loss]
    assert found["order"] == kept["order"] and found["arguments"] == kept["arguments"]
    for one, other in zip(found["steps"], kept["steps"]):
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-9) and one["metrics"] == pytest.approx(other["metrics"], rel=1e-9, abs=1e-12)

"""The stored cases of preferences (tests/oracle/preference_data_cases.json) beside the TRL that is installed, with the stored tokenizers."""
import json
import os
import sys

import pytest

pytest.importorskip("trl")
accelerate = pytest.importorskip("accelerate")
transformers = pytest.importorskip("transformers")

ORACLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "oracle")
sys.path.insert(0, ORACLE)
import make_preference_data  # noqa: E402

with open(os.path.join(ORACLE, "preference_data_cases.json"), encoding="utf-8") as stored:
    CASES = json.load(stored)
SETS = [(made, one) for made in CASES["tokenizers"] for one in made["sets"]]


@pytest.mark.parametrize("made, one", SETS, ids=[f"{made['name']}, {one['template']}, {one['form']}" for made, one in SETS])
def test_trl_makes_them_still(made, one, tmp_path):
    accelerate.PartialState(cpu=True)
    tokenizer = make_preference_data.loaded(tmp_path, json.dumps(made["tokenizer"]), CASES["templates"][one["template"]])
    found = make_preference_data.prepared(tokenizer, one["records"])
    assert found == dict(documents=one["documents"], labels=one["labels"])

"""Factors beside the output projection and the token embedding: as tests of other factors (test_lora.py), whose oracle they share."""
import lora
import pytest
from optimizer_runs import corpus_of
from test_lora import LLAMA, WIDE, adapters, check_layouts, check_twenty, layouts_for, needs_ranks

HEAD = {"head": dict(rank=3, alpha=5, targets=["lm_head"]), "head and layers": dict(rank=4, alpha=8, targets=["q_proj", "lm_head", "down_proj"]),
        "patterns": dict(rank=2, alpha=3, targets=["v_proj", "lm_head"], rank_pattern={"lm_head": 5}, alpha_pattern={"lm_head": 7}, scaling="rslora", init="gaussian")}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return corpus_of(tmp_path_factory.mktemp("corpus"))


@adapters
@pytest.mark.parametrize("case", HEAD)
def test_twenty_steps(tmp_path, corpus, case):
    check_twenty(tmp_path, corpus, LLAMA, dict(lr=0.01), HEAD[case])


@adapters
@needs_ranks
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_layouts_of_the_head(tmp_path, corpus, dropout):
    adapter = dict(rank=3, alpha=5, targets=["v_proj", "lm_head"], dropout=dropout)
    _, (tensors, _) = check_layouts(tmp_path, corpus, WIDE["llama"], layouts_for(WIDE["llama"], f"head {dropout}", 8, 10), {}, adapter=adapter)
    assert sum(name.endswith(lora.ENDS) for name in tensors) == 2 * 3

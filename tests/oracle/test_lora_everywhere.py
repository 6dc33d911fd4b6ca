"""Factors beside the output projection and the token embedding: as tests of other factors (test_lora.py), whose oracle they share."""
import lora
import pytest
from optimizer_runs import corpus_of
from test_lora import LLAMA, WIDE, adapters, check_layouts, check_twenty, layouts_for, needs_ranks

CASES = {"head": dict(rank=3, alpha=5, targets=["lm_head"]), "head and layers": dict(rank=4, alpha=8, targets=["q_proj", "lm_head", "down_proj"]),
         "embedding": dict(rank=3, alpha=5, targets=["embed_tokens"]), "both": dict(rank=4, alpha=8, targets=["model.embed_tokens", "lm_head"]),
         "patterns": dict(rank=2, alpha=3, targets=["v_proj", "lm_head", "embed_tokens"], rank_pattern={"lm_head": 5, "embed_tokens": 1},
                          alpha_pattern={"lm_head": 7, r".*\.embed_tokens": 0.5}, scaling="rslora", init="gaussian")}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return corpus_of(tmp_path_factory.mktemp("corpus"))


@adapters
@pytest.mark.parametrize("case", CASES)
def test_twenty_steps(tmp_path, corpus, case):
    check_twenty(tmp_path, corpus, LLAMA, dict(lr=0.01), CASES[case])


@adapters
@needs_ranks
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_layouts(tmp_path, corpus, dropout):
    adapter = dict(rank=3, alpha=5, targets=["v_proj", "lm_head", "embed_tokens"], dropout=dropout)
    _, (tensors, _) = check_layouts(tmp_path, corpus, WIDE["llama"], layouts_for(WIDE["llama"], f"everywhere {dropout}", 8, 10), {}, adapter=adapter)
    assert sum(name.endswith(lora.ENDS + lora.EMBEDDING_ENDS) for name in tensors) == 2 * 4

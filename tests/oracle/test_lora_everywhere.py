"""Factors beside the output projection and the token embedding: as tests of other factors (test_lora.py), whose oracle they share."""
import json

import lora
import pytest
from optimizer_runs import STEPS, batches_of, check_weights, close, corpus_of, lines_of, newest_of, start_from, tensors_of, write_run
from parity import trireme
from test_lora import (GPT2, LLAMA, QWEN3, WIDE, adapters, arrays_of, check_layouts, check_twenty, evaluated, first_factors, layouts_for, loss_of, needs_ranks)

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


# ---- tied models -----------------------------------------------------------------------------------------------------

TIED = {"qwen3": (QWEN3, "embed_tokens"), "gpt2": (GPT2, "wte")}


@adapters
@pytest.mark.parametrize("scaling", ["lora", "rslora"])
def test_twenty_steps_of_tied_factors(tmp_path, corpus, scaling):
    """Those of the embedding, which the output projection has too: its gradients are of both."""
    check_twenty(tmp_path, corpus, QWEN3, dict(lr=0.01), dict(rank=3, alpha=5, targets=["embed_tokens", "q_proj"], scaling=scaling, ensure_weight_tying=True))


@adapters
@pytest.mark.parametrize("which", ["embedding", "head", "both"])
@pytest.mark.parametrize("name", TIED)
def test_twenty_steps_untied(tmp_path, corpus, name, which):
    """Factors of one of two tied matrices are that one's alone: the model with them is not tied."""
    model, embedding = TIED[name]
    adapter = dict(rank=3, alpha=5, targets=dict(embedding=[embedding], head=["lm_head"], both=[embedding, "lm_head"])[which])
    start, weights = start_from(tmp_path, model)
    base = arrays_of(weights)
    base["lm_head.weight"] = base[next(key for key in base if key.endswith(f"{embedding}.weight"))]
    factors = first_factors(tmp_path / "first", corpus, model, start, adapter, precision="fp64")
    path = write_run(tmp_path, corpus, dict(lr=0.01), model=model, precision="fp64", init=str(start), adapter=adapter, evaluation=dict(every=STEPS, batches=1000))
    trireme("train", path)
    untied = dict(model, tied=False)
    expected = lora.train(untied, base, factors, lora.scale_of(adapter), batches_of(tmp_path, corpus, model), json.loads(path.read_text())["optimizer"])
    lines = lines_of(tmp_path / "run")
    close([line["loss"] for line in lines], expected["loss"], 1e-10)
    close([line["grad_norm"] for line in lines], expected["norm"], 1e-10)
    check_weights(lora.read_factors(newest_of(tmp_path / "run"))[0], expected["factors"], 1e-10)
    at_end = lora.merged(base, expected["factors"], lora.scale_of(adapter))
    loss = loss_of(untied, at_end, corpus / "validation")
    assert abs(lines[-1]["validation_loss"] / loss - 1) < 1e-10
    trireme("export", "--merge", tmp_path / "run", tmp_path / "merged")
    assert json.loads((tmp_path / "merged/config.json").read_text())["tie_word_embeddings"] is False
    check_weights({key: value.astype(float) for key, value in tensors_of((tmp_path / "merged").glob("model*.safetensors")).items()}, at_end, 1e-6)
    assert abs(evaluated(tmp_path / "run", corpus) / loss - 1) < 1e-10


@adapters
def test_either_name_ties(tmp_path, corpus):
    """As in PEFT, which moves the factors to the embedding."""
    start, _ = start_from(tmp_path, QWEN3)
    found = []
    for targets in (["embed_tokens"], ["lm_head"], ["lm_head", "model.embed_tokens"]):
        folder = tmp_path / "-".join(targets)
        trireme("train", write_run(folder, corpus, dict(steps=3, lr=0.01), model=QWEN3, precision="fp64", init=str(start), adapter=dict(rank=2, targets=targets, ensure_weight_tying=True)))
        found.append(lora.read_factors(newest_of(folder / "run"))[0])
    assert all(set(other) == set(found[0]) and all((other[key] == found[0][key]).all() for key in other) for other in found)
    trireme("export", "--merge", folder / "run", folder / "merged")
    assert json.loads((folder / "merged/config.json").read_text())["tie_word_embeddings"] is True


@adapters
@needs_ranks
@pytest.mark.parametrize("ensure", [True, False])
def test_layouts_of_tied_models(tmp_path, corpus, ensure):
    adapter = dict(rank=3, alpha=5, targets=["v_proj", "lm_head", "embed_tokens"], ensure_weight_tying=ensure)
    check_layouts(tmp_path, corpus, QWEN3, layouts_for(QWEN3, f"ties {ensure}", 6, 10), {}, adapter=adapter)

"""Factors beside the output projection and the token embedding: as tests of other factors (test_lora.py), whose oracle they share."""
import json
import re

import lora
import pytest
from optimizer_runs import STEPS, batches_of, check_weights, close, corpus_of, lines_of, newest_of, start_from, tensors_of, write_run
from parity import trireme
from test_lora import (CUT, FOUR, GPT2, IN_DOUBLE, LLAMA, QWEN3, SMALL, WIDE, adapters, arrays_of, check_layouts, check_twenty, evaluated, exported_start, first_factors, greedy, layouts_for,
                       loss_of, needs_ranks, ranks_words, refused, trained_run)

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


WRONG = {
    "no target is tied": ("qwen3", dict(targets=["q_proj"], ensure_weight_tying=True), ["ensure_weight_tying", "lm_head", "leave the key out"]),
    "all-linear": ("qwen3", dict(ensure_weight_tying=True), ["ensure_weight_tying", "names neither"]),
    "a name that PEFT does not know": ("gpt2", dict(targets=["wte"], ensure_weight_tying=True), ["ensure_weight_tying", "PEFT ties", "name lm_head there"]),
    "another rank": ("qwen3", dict(targets=["lm_head"], rank_pattern={"lm_head": 3}, ensure_weight_tying=True), ["ensure_weight_tying", "rank 2", "lm_head.weight 3 and 4", "give both the same"]),
    "another alpha": ("qwen3", dict(targets=["lm_head"], alpha_pattern={"embed_tokens": 3}, ensure_weight_tying=True), ["ensure_weight_tying", "alpha 3", "give both the same"]),
    "beside what is trained": ("qwen3", dict(targets=["lm_head"], train=["model.embed_tokens.*"]), ["targets", "lm_head.weight", "tied to model.embed_tokens.weight", "adapter.train", "leave one"]),
    "tied beside what is trained": ("qwen3", dict(targets=["lm_head"], train=["model.embed_tokens.*"], ensure_weight_tying=True), ["targets", "adapter.train", "leave one"]),
    "positions": ("gpt2", dict(targets=["wpe"]), ["targets", "wpe", "wte", "lm_head"]),
}


@adapters
@pytest.mark.parametrize("what", WRONG)
def test_wrong_keys(tmp_path, corpus, what):
    name, adapter, said = WRONG[what]
    start, _ = start_from(tmp_path, TIED[name][0])
    refused("train", write_run(tmp_path, corpus, dict(steps=1), model=TIED[name][0], init=str(start), adapter=dict(rank=2, alpha=4, **adapter)), said=said)


# ---- other families, devices, four bits ------------------------------------------------------------------------------

FAMILIES = {"gpt_neox": (CUT["gpt_neox"], ["embed_in", "embed_out"]), "falcon": (CUT["falcon"], ["word_embeddings", "lm_head", "dense"]),
            "phi": (dict(family="phi", **SMALL, hidden_size=24, num_heads=6, ffn_size=50), ["embed_tokens", "lm_head"]),
            "gemma2": (dict(family="gemma2", **SMALL, hidden_size=24, num_heads=6, num_kv_heads=2, ffn_size=50), ["embed_tokens", "lm_head"]),
            "opt": (dict(family="opt", **SMALL, hidden_size=24, num_heads=6, ffn_size=50), ["embed_tokens", "lm_head"])}


@adapters
@needs_ranks
@pytest.mark.parametrize("name", FAMILIES)
def test_families(tmp_path, corpus, name):
    """Scaled embeddings, biases and caps of logits, positions: layouts agree, and what is merged is the run's model."""
    model, targets = FAMILIES[name]
    start = exported_start(tmp_path, corpus, model)
    layouts = [(2, dict(tensor=2)), (2, dict(pipeline=2)), (2, dict(data=2, zero=3)), (2, dict(context=2)), (1, dict(recompute="full"))]
    check_layouts(tmp_path, corpus, model, layouts, {}, start=start, adapter=dict(rank=3, alpha=6, targets=targets))
    folder = next(path for path in tmp_path.iterdir() if (path / "run/summary.json").exists() and path.name == "1")
    last = [line["validation_loss"] for line in lines_of(folder / "run") if "validation_loss" in line][-1]
    assert abs(evaluated(folder / "run", corpus) / last - 1) < 1e-10
    trireme("export", "--merge", folder / "run", tmp_path / "merged")
    assert abs(evaluated(tmp_path / "merged", corpus) / last - 1) < 1e-6


@adapters
@needs_ranks
@pytest.mark.parametrize("device, precision, tolerance", [("guarded", "fp32", 1e-5), ("emulated", "fp32", 1e-5), ("emulated", "bf16", 2e-2), ("cpu", "fp32", 1e-5), ("cpu", "bf16", 2e-2)], ids=str)
@pytest.mark.parametrize("model, ensure", [(LLAMA, False), (QWEN3, True), (QWEN3, False)], ids=["llama", "qwen3 tied", "qwen3"])
def test_devices(tmp_path, corpus, model, ensure, device, precision, tolerance):
    """One rank begins to train, two go on, and their losses are those of one, and of double."""
    start, _ = start_from(tmp_path, model)
    common = dict(model=model, init=str(start), adapter=dict(rank=3, alpha=6, targets=["embed_tokens", "lm_head", "q_proj"], ensure_weight_tying=ensure))
    trireme("train", write_run(tmp_path / "exact", corpus, dict(steps=6, lr=1e-2), precision="fp64", **common))
    trireme("train", write_run(tmp_path / "one", corpus, dict(steps=6, lr=1e-2), precision=precision, device=device, **common))
    trireme("train", write_run(tmp_path / "more", corpus, dict(steps=3, lr=1e-2), precision=precision, device=device, **common))
    trireme("train", write_run(tmp_path / "more", corpus, dict(steps=6, lr=1e-2), precision=precision, device=device, layout=dict(tensor=2), **common), *ranks_words(2))
    exact, one, more = ([line["loss"] for line in lines_of(tmp_path / name / "run")] for name in ("exact", "one", "more"))
    close(more, one, tolerance)
    close(one, exact, max(tolerance, 1e-4))
    summary = json.load(open(tmp_path / "more/run/summary.json"))
    assert summary["peak_bytes_predicted"] == summary["peak_bytes_measured"]


@adapters
def test_four_bits(tmp_path, corpus):
    """Embeddings and output projections are not in four bits."""
    start, weights = start_from(tmp_path, FOUR)
    adapter = dict(rank=4, alpha=8, targets=["embed_tokens", "lm_head", "v_proj"], quantise="nf4")
    factors = first_factors(tmp_path / "first", corpus, FOUR, start, adapter, precision="fp64")
    path = write_run(tmp_path, corpus, dict(name="sgd", lr=0.3, steps=6), model=FOUR, precision="fp64", init=str(start), adapter=adapter)
    trireme("train", path)
    base, samples, optimizer = lora.quantised(arrays_of(weights)), batches_of(tmp_path, corpus, FOUR, 6), json.loads(path.read_text())["optimizer"]
    expected = lora.train(FOUR, base, factors, 2.0, samples, optimizer)
    close([line["loss"] for line in lines_of(tmp_path / "run")], expected["loss"], 1e-6)
    check_weights(lora.read_factors(newest_of(tmp_path / "run"))[0], expected["factors"], 1e-5)
    assert abs(evaluated(tmp_path / "run", corpus) / loss_of(FOUR, lora.merged(base, expected["factors"], 2.0), corpus / "validation") - 1) < 1e-6


@adapters
def test_generated(tmp_path, corpus):
    """The run's text is the merged folder's, and that of PyTorch's likeliest tokens."""
    adapter = dict(rank=8, alpha=32, targets=["embed_tokens", "lm_head", "q_proj"])
    expected, _, _ = trained_run(tmp_path, corpus, LLAMA, adapter, steps=STEPS)
    trireme("export", "--merge", tmp_path / "run", tmp_path / "merged")
    prompt, tokenizer = "The 3 oars", ["--tokenizer", next(corpus.glob("*tokenizer*.json"), newest_of(tmp_path / "run") / "tokenizer.json")]
    texts = [trireme("generate", folder, "--prompt", prompt, "--temperature", 0, "--tokens", 8, *IN_DOUBLE, *tokenizer, errors="replace").stdout for folder in (tmp_path / "run", tmp_path / "merged")]
    assert texts[0] == texts[1]
    ids = greedy(LLAMA, expected, prompt.encode(), 8)
    if all(32 <= token < 127 for token in ids):
        assert texts[0].rstrip("\n") == (prompt + bytes(ids).decode()).rstrip("\n")


@adapters
def test_memory(tmp_path, corpus):
    """Factors have weights, gradients and two states; the plan counts their parameters."""
    start, _ = start_from(tmp_path, LLAMA)
    held = {}
    for name, targets in (("few", ["q_proj"]), ("more", ["q_proj", "embed_tokens", "lm_head"])):
        path = write_run(tmp_path / name, corpus, dict(steps=1), model=LLAMA, precision="fp32", init=str(start), adapter=dict(rank=4, targets=targets))
        held[name] = int(re.search(r"^  parameters +(\d+) bytes", trireme("train", path, "--dry-run", "--verbose").stdout, re.MULTILINE)[1])
    own = 4 * 2 * (LLAMA["vocab_size"] + LLAMA["hidden_size"])
    assert 4 * own <= held["more"] - held["few"] <= 4 * (own + 4 * 256), held


@adapters
def test_logits_in_pieces(tmp_path, corpus):
    """Logits of a large vocabulary are made for some rows at a time, and so is what factors add: 160 rows in three pieces, or 20 in one."""
    model = dict(LLAMA, vocab_size=140000)
    start, _ = start_from(tmp_path, model)
    found = []
    for micro_batch in (1, 8):
        folder = tmp_path / str(micro_batch)
        trireme("train", write_run(folder, corpus, dict(steps=2, lr=1e-2, global_batch=8), model=model, precision="fp32", init=str(start), layout=dict(micro_batch=micro_batch),
                                   adapter=dict(rank=2, targets=["lm_head", "embed_tokens"], init="gaussian")))
        found.append((lora.read_factors(newest_of(folder / "run"))[0], [line["loss"] for line in lines_of(folder / "run")]))
    check_weights(found[1][0], found[0][0], 1e-4)
    close(found[1][1], found[0][1], 1e-6)

"""GGUF files in llama.cpp (PyPI's xllamacpp, its C API): the logits of exported models of all families are those of our fp64 reference, and the greedy
text of a trained model is ours. The cache of llama.cpp is in fp32, without flash attention, on one thread."""
import json
import pathlib
import sys

import numpy
import pytest

pytest.importorskip("xllamacpp")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "oracle"))

import families  # noqa: E402
import gguf_models  # noqa: E402
from gguf_models import write_model, write_tokenizer  # noqa: E402
from llamacpp import Model  # noqa: E402
from parity import trireme  # noqa: E402
from test_gguf_models import REFUSED  # noqa: E402

# llama.cpp takes GELU from a table in half precision, and has no windows here; it uses the longer list of longrope for a context of at least 256.
GELU = ("gpt2", "gemma", "phi", "gpt_neox", "falcon", "starcoder2")
WINDOWS, LONGER = ("phi3", "starcoder2", "qwen3, windows, tied"), ("phi3, longrope",)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return write_tokenizer(tmp_path_factory.mktemp("tokenizer") / "tokenizer.json")


@pytest.mark.parametrize("name", [name for name in gguf_models.NAMES if name not in (*REFUSED, *WINDOWS, *LONGER)])
def test_logits(tmp_path, tokenizer, name):
    config, tensors = write_model(name, tmp_path / "folder", tokenizer)
    trireme("export", tmp_path / "folder", tmp_path / "model.gguf", "--dtype", "fp32")
    ids = [int(i) for i in families.tokens_of(config["vocab_size"], 1, families.LENGTH)[0][0]]
    wanted = families.FamilyWeights(tmp_path / "weights", config, tensors).logits("reference", "fp64", 1, ids)
    gelu = config["model_type"].startswith(GELU) and not config["model_type"] == "phi3"
    assert numpy.abs(Model(tmp_path / "model.gguf").logits(ids) - wanted).max() < (1e-2 if gelu else 1e-4)


def write_run(tmp_path):
    lines = "\n".join(f"Line {i}: the rowers pull {'hard' if i % 3 else 'slowly'}, rest and pull again until the {'night' if i % 2 else 'day'}." for i in range(4000))
    (tmp_path / "text.txt").write_text(lines)
    trireme("prepare", tmp_path / "text.txt", "--tokenizer", "train:400", "--out", tmp_path / "corpus")
    (tmp_path / "run.yaml").write_text(
        "model: {family: llama, num_layers: 2, hidden_size: 64, num_heads: 4, num_kv_heads: 2, ffn_size: 192, vocab_size: 512, max_sequence: 128}\n"
        f"data: {{train: {tmp_path}/corpus/train, sequence: 64}}\noptimizer: {{lr: 0.005, steps: 60, global_batch: 8}}\noutput: {tmp_path}/run\n")
    trireme("train", tmp_path / "run.yaml")
    return lines


def test_greedy_text_of_a_run(tmp_path):
    """A run on text, its file in three types, and the way back: the same bits, and the same text in llama.cpp."""
    write_run(tmp_path)
    prompt, count = "Line 7: the", 30
    ours = trireme("generate", tmp_path / "run", "--prompt", prompt, "--tokens", count, "--temperature", 0).stdout
    for kind in ("fp32", "bf16", "q8_0"):
        trireme("export", tmp_path / "run", tmp_path / f"{kind}.gguf", "--dtype", kind)
        model = Model(tmp_path / f"{kind}.gguf")
        ids = model.tokenize(prompt)
        assert prompt + model.text(model.greedy(ids, count)).decode() in (prompt + ours.removeprefix(prompt)).rstrip("\n") + "\n", kind
    trireme("import", tmp_path / "fp32.gguf", tmp_path / "back")
    newest = sorted((tmp_path / "run/checkpoints").glob("step-*"))[-1]
    assert (tmp_path / "back/model.safetensors").read_bytes() == (newest / "model.safetensors").read_bytes()


@pytest.mark.parametrize("kind", ["q8_0", "q4_0"])
def test_perplexity_in_blocks(tmp_path, kind):
    """Of `--weights`, and of the exported file in llama.cpp, which rounds activations to 8 bits, too: within 1 %."""
    texts = write_run(tmp_path).splitlines()[:40]
    trireme("export", tmp_path / "run", tmp_path / "model.gguf", "--dtype", kind)
    (tmp_path / "prompts.jsonl").write_text("".join(json.dumps(dict(prompt=text)) + "\n" for text in texts))
    done = trireme("generate", tmp_path / "run", "--prompts", tmp_path / "prompts.jsonl", "--tokens", 1, "--json", "--logprobs", 0, "--weights", kind)
    lines, model = [json.loads(line) for line in done.stdout.splitlines()], Model(tmp_path / "model.gguf")
    ours, theirs = [], []
    for line in lines:
        ids, logits = line["prompt_ids"], model.logits(line["prompt_ids"]).astype(numpy.float64)
        scores = logits - numpy.log(numpy.exp(logits - logits.max(-1, keepdims=True)).sum(-1, keepdims=True)) - logits.max(-1, keepdims=True)
        theirs += [scores[i, token] for i, token in enumerate(ids[1:])]
        ours += line["logprobs"]["prompt"][1:]
    assert len(ours) > 400
    assert numpy.exp(numpy.mean(theirs) - numpy.mean(ours)) == pytest.approx(1, abs=0.01)

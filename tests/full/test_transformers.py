"""Weights between transformers and us, both ways: what one saved the other loads, and both find the same loss."""
import json
import os
import subprocess

import numpy
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

TRIREME = os.environ["TRIREME"]
SEQUENCE = 32


def trireme(*arguments):
    done = subprocess.run([TRIREME, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    text = "".join(f"Line {i}: the rowers pull {i * 7919 % 1000} times.\n" for i in range(2000))
    (folder / "text.txt").write_text(text)
    trireme("prepare", "--tokenizer", "bytes", "--out", folder / "data", folder / "text.txt")
    return folder / "data"


def their_loss(folder, corpus):
    """Over windows of SEQUENCE tokens one behind the other, as `trireme eval` takes them."""
    tokens = numpy.fromfile(f"{corpus}/validation.bin", dtype=numpy.uint16).astype(numpy.int64)
    labels = len(tokens) - 1
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    total = 0.0
    with torch.no_grad():
        for first in range(0, labels, SEQUENCE):
            end = min(first + SEQUENCE, labels)
            logits = model(torch.tensor(tokens[None, first:end])).logits[0]
            wanted = torch.tensor(tokens[first + 1 : end + 1])
            total += float(torch.nn.functional.cross_entropy(logits.double(), wanted, reduction="sum"))
    return total / labels


def our_loss(folder, corpus):
    return json.loads(trireme("eval", folder, f"{corpus}/validation", "--sequence", SEQUENCE, "--batch", 4, "--json"))["loss"]


def write_run(folder, corpus, model):
    run = dict(model=model, data=dict(train=f"{corpus}/train", sequence=SEQUENCE), layout=dict(micro_batch=2),
               optimizer=dict(global_batch=4, steps=5, lr=1e-2), output=str(folder / "run"))
    (folder / "run.yaml").write_text(json.dumps(run))
    return folder / "run.yaml"


@pytest.mark.parametrize("model", [
    dict(family="gpt2", num_layers=2, hidden_size=48, num_heads=4, vocab_size=257, max_sequence=64),
    dict(family="llama", num_layers=2, hidden_size=48, num_heads=4, num_kv_heads=2, ffn_size=96, vocab_size=257, max_sequence=64),
    dict(family="llama", num_layers=2, hidden_size=48, num_heads=4, num_kv_heads=1, ffn_size=96, vocab_size=257, max_sequence=64,
         tied=True, rope_scaling=dict(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_sequence=16)),
], ids=["gpt2", "llama", "llama 3, tied"])
def test_they_load_ours(tmp_path, corpus, model):
    trireme("train", write_run(tmp_path, corpus, model))
    checkpoint = tmp_path / "run/checkpoints/step-00000005"
    assert abs(their_loss(checkpoint, corpus) / our_loss(checkpoint, corpus) - 1) < 1e-5


@pytest.mark.parametrize("make", [
    lambda: transformers.GPT2LMHeadModel(transformers.GPT2Config(n_embd=48, n_head=3, n_layer=2, n_positions=64, vocab_size=257)),
    lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(
        hidden_size=64, intermediate_size=112, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=257,
        max_position_embeddings=64)),
    lambda: transformers.Qwen2ForCausalLM(transformers.Qwen2Config(
        hidden_size=64, intermediate_size=112, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=257,
        max_position_embeddings=64, tie_word_embeddings=True)),
], ids=["gpt2", "llama", "qwen2"])
def test_we_load_theirs(tmp_path, corpus, make):
    torch.manual_seed(0)
    model = make()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))  # biases that are not zero
    model.save_pretrained(tmp_path)
    assert abs(their_loss(tmp_path, corpus) / our_loss(tmp_path, corpus) - 1) < 1e-5

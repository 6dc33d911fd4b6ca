"""Weights between transformers and us, both ways: what one saved the other loads, and both find the same loss."""
import json
import os
import struct
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


WINDOWED = dict(family="llama", num_layers=4, hidden_size=48, num_heads=4, num_kv_heads=2, ffn_size=96, vocab_size=257, max_sequence=64,
                init_std=0.1)


def their_loss(folder, corpus):
    """Over windows of SEQUENCE tokens one behind the other, as `trireme eval` takes them: the last one filled up."""
    tokens = numpy.fromfile(f"{corpus}/validation.bin", dtype=numpy.uint16).astype(numpy.int64)
    labels = len(tokens) - 1
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    total = 0.0
    with torch.no_grad():
        for first in range(0, labels, SEQUENCE):
            end = min(first + SEQUENCE, labels)
            ids = numpy.zeros(SEQUENCE, numpy.int64)
            ids[: end - first] = tokens[first:end]
            logits = model(torch.tensor(ids[None])).logits[0, : end - first]
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


LLAMA = dict(family="llama", num_layers=2, hidden_size=48, num_heads=4, num_kv_heads=2, ffn_size=96, vocab_size=257, max_sequence=64)


@pytest.mark.parametrize("model", [
    dict(family="gpt2", num_layers=2, hidden_size=48, num_heads=4, vocab_size=257, max_sequence=64),
    LLAMA,
    dict(family="llama", num_layers=2, hidden_size=48, num_heads=4, num_kv_heads=1, ffn_size=96, vocab_size=257, max_sequence=64,
         tied=True, rope_scaling=dict(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_sequence=16)),
    {**LLAMA, "family": "qwen3", "head_dim": 20, "tied": True},
    {**LLAMA, "rope_scaling": dict(type="linear", factor=2.5)},
    {**LLAMA, "rope_scaling": dict(type="yarn", factor=4.0, original_max_sequence=16)},
    {**LLAMA, "rope_scaling": dict(type="yarn", factor=4.0, original_max_sequence=16, mscale=0.707, mscale_all_dim=1.5, beta_fast=12.0,
                                   beta_slow=0.5, truncate=False)},
    {**LLAMA, "rope_scaling": dict(type="yarn", factor=4.0, original_max_sequence=16, attention_factor=1.25)},
    {**LLAMA, "rope_scaling": dict(type="dynamic", factor=2.0, original_max_sequence=20)},
    {**WINDOWED, "window": 9},
    {**WINDOWED, "window": 9, "attention_bias": True, "window_layers": "1-"},
    pytest.param({**WINDOWED, "window": 9, "window_layers": "1 of 2"}, marks=pytest.mark.skipif(
        not hasattr(transformers, "MinistralConfig"), reason="SKIPPED: this transformers has no Ministral")),
], ids=["gpt2", "llama", "llama 3, tied", "qwen3", "linear", "yarn", "yarn with mscale", "yarn with its factor", "dynamic",
        "mistral, window", "qwen2, window", "ministral"])
def test_they_load_ours(tmp_path, corpus, model):
    trireme("train", write_run(tmp_path, corpus, model))
    checkpoint = tmp_path / "run/checkpoints/step-00000005"
    assert abs(their_loss(checkpoint, corpus) / our_loss(checkpoint, corpus) - 1) < 1e-5


@pytest.mark.parametrize("prompt", ["Line 7: the rowers", "Line 7: the rowers pull 433 times, and rest."], ids=["short", "long"])
@pytest.mark.parametrize("scaling", [
    dict(type="yarn", factor=8.0, original_max_sequence=8), dict(type="dynamic", factor=8.0, original_max_sequence=20),
], ids=["yarn", "dynamic"])
def test_generation(tmp_path, corpus, scaling, prompt):
    """Through the cache, from below the original length and from beyond it: the same tokens, each the most likely. With `dynamic`
    frequencies grow with every token, and keys stay as they were."""
    trireme("train", write_run(tmp_path, corpus, {**LLAMA, "rope_scaling": scaling}), "--set", "optimizer.steps=60", "--set", "device=reference")
    checkpoint = tmp_path / "run/checkpoints/step-00000060"
    ours = trireme("generate", checkpoint, "--prompt", prompt, "--tokens", 20, "--temperature", 0, "--precision", "fp32", "--device", "reference")
    model = transformers.AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32, attn_implementation="eager").eval()
    ids = torch.tensor([list(prompt.encode())])
    theirs = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=20, do_sample=False, eos_token_id=None, pad_token_id=0)
    text = bytes(theirs[0].tolist()).decode()
    assert ours.strip("\n") == text.strip("\n") and len(text) == len(prompt) + 20


def write_documents(folder, generator):
    """A corpus of bytes in Megatron-LM's format, of documents of one token and more; answers their lengths."""
    lengths = numpy.clip(numpy.exp(generator.normal(2, 1, 200)).astype(int), 1, 90)
    for name in ("train", "validation"):
        tokens = generator.integers(0, 256, lengths.sum()).astype(numpy.uint16)
        tokens.tofile(folder / f"{name}.bin")
        begins = numpy.cumsum([0, *lengths])
        (folder / f"{name}.idx").write_bytes(
            b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, len(lengths), len(lengths) + 1) + lengths.astype(numpy.int32).tobytes()
            + (2 * begins[:-1]).astype(numpy.int64).tobytes() + numpy.arange(len(lengths) + 1, dtype=numpy.int64).tobytes())
    return lengths


@pytest.mark.parametrize("model", [
    dict(family="gpt2", num_layers=2, hidden_size=48, num_heads=4, vocab_size=257, max_sequence=64),
    dict(family="llama", num_layers=2, hidden_size=48, num_heads=4, num_kv_heads=2, ffn_size=96, vocab_size=257, max_sequence=64),
], ids=["gpt2", "llama"])
def test_masked_documents(tmp_path, model):
    """Positions that begin again make them mask documents, too (masking_utils.find_packed_sequence_indices): `eval` of a masked
    run finds the loss that they do in windows, and packed that of each document alone."""
    lengths = write_documents(tmp_path, numpy.random.default_rng(1))
    run = json.loads(write_run(tmp_path, tmp_path, model).read_text())
    run["data"].update(documents="masked", packing="documents")
    (tmp_path / "run.yaml").write_text(json.dumps(run))
    trireme("train", tmp_path / "run.yaml")
    checkpoint = tmp_path / "run/checkpoints/step-00000005"
    tokens = numpy.fromfile(tmp_path / "validation.bin", numpy.uint16).astype(numpy.int64)
    place = numpy.concatenate([numpy.arange(n) for n in lengths])
    last = numpy.concatenate([numpy.arange(n) == n - 1 for n in lengths])
    theirs = transformers.AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32, attn_implementation="eager").eval()

    def loss_of(pieces):
        """[(first token, tokens)]: each a sequence of its own, in which documents begin again."""
        total, counted = 0.0, 0
        for first, count in pieces:
            end = min(first + count, len(tokens) - 1)
            positions = numpy.minimum(place[first:end], numpy.arange(end - first))
            wanted = numpy.where(last[first:end], -100, tokens[first + 1 : end + 1])
            with torch.no_grad():
                logits = theirs(torch.tensor(tokens[None, first:end]), position_ids=torch.tensor(positions[None]), use_cache=False).logits[0]
            total += float(torch.nn.functional.cross_entropy(logits.double(), torch.tensor(wanted), reduction="sum"))
            counted += int((wanted >= 0).sum())
        return total / counted, counted

    windows = [(first, SEQUENCE) for first in range(0, len(tokens) - 1, SEQUENCE)]
    begins = numpy.cumsum([0, *lengths])
    alone = [(begin + first, min(SEQUENCE, n - first)) for begin, n in zip(begins, lengths) for first in range(0, n, SEQUENCE)]
    for options, pieces in (["--packing", "windows"], windows), ([], alone[:-1] if lengths[-1] == 1 else alone):
        ours = json.loads(trireme("eval", checkpoint, tmp_path / "validation", "--json", *options))
        loss, counted = loss_of(pieces)
        assert ours["tokens"] == counted
        assert abs(ours["loss"] / loss - 1) < 1e-5


@pytest.mark.parametrize("make", [
    lambda: transformers.GPT2LMHeadModel(transformers.GPT2Config(n_embd=48, n_head=3, n_layer=2, n_positions=64, vocab_size=257)),
    lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(
        hidden_size=64, intermediate_size=112, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=257,
        max_position_embeddings=64)),
    lambda: transformers.Qwen2ForCausalLM(transformers.Qwen2Config(
        hidden_size=64, intermediate_size=112, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=257,
        max_position_embeddings=64, tie_word_embeddings=True)),
    lambda: transformers.Qwen3ForCausalLM(transformers.Qwen3Config(
        hidden_size=64, intermediate_size=112, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=257,
        head_dim=20, max_position_embeddings=64)),
], ids=["gpt2", "llama", "qwen2", "qwen3"])
def test_we_load_theirs(tmp_path, corpus, make):
    torch.manual_seed(0)
    model = make()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))  # biases that are not zero
    model.save_pretrained(tmp_path)
    assert abs(their_loss(tmp_path, corpus) / our_loss(tmp_path, corpus) - 1) < 1e-5


def test_a_window_of_theirs(tmp_path, corpus):
    """Mistral's, shorter than what it sees: both find one loss, and another than without it."""
    torch.manual_seed(0)
    losses = []
    for window in (9, None):
        torch.manual_seed(0)
        model = transformers.MistralForCausalLM(transformers.MistralConfig(
            hidden_size=64, intermediate_size=112, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=257,
            max_position_embeddings=64, sliding_window=window, initializer_range=0.2, attn_implementation="eager"))
        model.save_pretrained(tmp_path / str(window))
        losses.append(our_loss(tmp_path / str(window), corpus))
        assert abs(their_loss(tmp_path / str(window), corpus) / losses[-1] - 1) < 1e-5
    assert abs(losses[0] / losses[1] - 1) > 1e-3


THEIRS = {
    "gpt2": lambda: transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=257, n_positions=64, n_embd=48, n_layer=2, n_head=4, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)),
    "llama": lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=257, hidden_size=48, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        max_position_embeddings=64)),
    "mistral": lambda: transformers.MistralForCausalLM(transformers.MistralConfig(
        vocab_size=257, hidden_size=48, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        max_position_embeddings=64, sliding_window=None)),
    "qwen2": lambda: transformers.Qwen2ForCausalLM(transformers.Qwen2Config(
        vocab_size=257, hidden_size=48, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        max_position_embeddings=64)),
    "qwen3": lambda: transformers.Qwen3ForCausalLM(transformers.Qwen3Config(
        vocab_size=257, hidden_size=48, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        head_dim=20, max_position_embeddings=64)),
}


@pytest.mark.parametrize("kind", THEIRS)
def test_import_train_export(tmp_path, corpus, kind):
    """Their model comes in, goes out as it came, trains a step under tensor 2 x pipeline 2, and they load what comes out."""
    torch.manual_seed(3)
    model = THEIRS[kind]().eval()
    model.save_pretrained(tmp_path / "theirs", max_shard_size="60KB")
    trireme("import", tmp_path / "theirs", tmp_path / "ours", "--shard-bytes", 50000)
    trireme("inspect", tmp_path / "ours", "--verify")
    trireme("export", tmp_path / "ours", tmp_path / "back")
    tokens = torch.arange(40)[None] * 5 % 257
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "back", dtype=torch.float32).eval()
    with torch.no_grad():
        assert (again(tokens).logits - model(tokens).logits).abs().max() < 1e-5
    for (name, mine), (_, other) in zip(sorted(model.state_dict().items()), sorted(again.state_dict().items())):
        assert torch.equal(mine, other), name
    described = json.loads((tmp_path / "ours/config.json").read_text())
    family = "gpt2" if kind == "gpt2" else "llama"
    shape = (dict(family="gpt2", num_layers=2, hidden_size=48, num_heads=4, vocab_size=257, max_sequence=64) if family == "gpt2" else
             dict(family="llama", num_layers=2, hidden_size=48, num_heads=4, num_kv_heads=2, ffn_size=96, vocab_size=257,
                  max_sequence=64, tied=described.get("tie_word_embeddings", False), attention_bias=kind == "qwen2",
                  norm_eps=described["rms_norm_eps"], rope_theta=described.get("rope_theta", 10000.0)))
    run = write_run(tmp_path, corpus, str(tmp_path / "ours") if kind == "qwen3" else shape)
    trireme("train", run, "-n", 4, "--resume", tmp_path / "ours", "--set", "layout.tensor=2", "--set", "layout.pipeline=2",
            "--set", "optimizer.steps=1", "--set", "optimizer.decay=constant")  # a cosine would end at 0 with the only step
    trireme("export", tmp_path / "run", tmp_path / "trained", "--precision", "bf16", "--shard-bytes", 40000)
    trained = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "trained", dtype=torch.float32).eval()
    differences = [float((a - b).abs().max()) for a, b in zip(model.state_dict().values(), trained.state_dict().values())]
    assert 5e-3 < max(differences) < 0.1  # AdamW's first step goes as far as its rate, 1e-2; rounding to bf16 by far less

"""`--weights q8_0` and `q4_0`: matrices in llama.cpp's blocks of 32. A model in blocks is the same function as the model of the dequantised weights, which
are computed here in numpy by ggml's definition; bits depend neither on the batch nor on threads; `eval` prints a row for each type of weights."""
import json
import os

import gguf_models
import numpy
import pytest
from families import PLAIN, rope, sizes
from parity import trireme
from safetensors.numpy import load_file, save_file

SILU = dict(hidden_act="silu", rms_norm_eps=1e-5)
LLAMA = sizes(2, 64, 4, 128, 257, kv=2, **SILU)
MODELS = {
    "gpt2": ("gpt2", dict(n_layer=2, n_embd=64, n_head=4, n_positions=40, vocab_size=257, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)),
    "llama": ("llama", dict(LLAMA, **rope())),
    "llama tied": ("llama", dict(LLAMA, tie_word_embeddings=True, **rope())),
    "llama, odd widths": ("llama", dict(LLAMA, intermediate_size=100, head_dim=12, **rope())),
    "gemma2": ("gemma2", dict(sizes(2, 64, 4, 96, 257, kv=2), hidden_activation="gelu_pytorch_tanh", head_dim=16, query_pre_attn_scalar=16, sliding_window=6, **rope())),
    "phi3": ("phi3", dict(LLAMA, resid_pdrop=0.0, embd_pdrop=0.0, sliding_window=None, **rope())),
    "gpt_neox": ("gpt_neox", dict(num_hidden_layers=2, hidden_size=64, num_attention_heads=4, intermediate_size=96, vocab_size=257, max_position_embeddings=40,
                                  hidden_dropout=0.0, **rope(partial_rotary_factor=0.25))),
    "opt": ("opt", dict(num_hidden_layers=2, hidden_size=64, num_attention_heads=4, ffn_dim=96, vocab_size=257, max_position_embeddings=40, dropout=0.0,
                        word_embed_proj_dim=64)),
    "mixtral": ("mixtral", dict(LLAMA, num_local_experts=5, num_experts_per_tok=2, sliding_window=None, **rope())),
    "mixtral, odd widths": ("mixtral", dict(LLAMA, intermediate_size=40, num_local_experts=4, num_experts_per_tok=2, sliding_window=None, **rope())),
    "qwen3_moe": ("qwen3_moe", dict(LLAMA, num_experts=5, num_experts_per_tok=2, moe_intermediate_size=32, head_dim=16, decoder_sparse_step=1, mlp_only_layers=[],
                                    norm_topk_prob=True, **rope())),
}
TEXTS = ["the rowers", "x", "pull, rest and pull again until"]


# ---- the oracle -----------------------------------------------------------------------------------------------------------------

def q8_0(rows):
    """ggml's quantize_row_q8_0_ref and back: [.., 32 n] in fp32."""
    blocks = rows.reshape(-1, 32)
    scale = (numpy.abs(blocks).max(1, keepdims=True) / numpy.float32(127)).astype(numpy.float32)
    codes = blocks * numpy.where(scale > 0, numpy.float32(1) / numpy.where(scale > 0, scale, 1), 0).astype(numpy.float32)
    codes = numpy.trunc(codes + numpy.where(codes < 0, -0.5, 0.5))
    return (codes.astype(numpy.float32) * scale.astype(numpy.float16).astype(numpy.float32)).reshape(rows.shape)


def q4_0(rows):
    """quantize_row_q4_0_ref and back."""
    blocks = rows.reshape(-1, 32)
    largest = numpy.take_along_axis(blocks, numpy.abs(blocks).argmax(1, keepdims=True), 1)
    scale = (largest / numpy.float32(-8)).astype(numpy.float32)
    inverse = numpy.where(scale != 0, numpy.float32(1) / numpy.where(scale != 0, scale, 1), 0).astype(numpy.float32)
    codes = numpy.minimum(numpy.trunc(blocks * inverse + numpy.float32(8.5)), 15) - 8
    return (codes.astype(numpy.float32) * scale.astype(numpy.float16).astype(numpy.float32)).reshape(rows.shape)


def bf16(rows):
    bits = rows.view(numpy.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).astype(numpy.uint32).view(numpy.float32)


def is_matrix(name, values, model):
    """A matrix that GEMMs read, or the embedding of tokens: not the router, nor learned positions."""
    router = name.endswith("gate.weight") and model in ("mixtral", "qwen3_moe")
    return values.ndim == 2 and not router and "wpe" not in name and "embed_positions" not in name


def dequantised(name, values, model, kind, tied):
    if not is_matrix(name, values, model):
        return values
    turned = model == "gpt2" and ("attn" in name or "mlp" in name)
    rows = numpy.ascontiguousarray(values.T if turned else values)
    logits = any(part in name for part in ("lm_head", "embed_out")) or tied and any(part in name for part in ("embed_tokens", "wte", "embed_in"))
    if rows.shape[1] % 32:
        out = bf16(rows)
    else:
        out = q8_0(rows) if kind == "q8_0" or logits else q4_0(rows)
    return numpy.ascontiguousarray(out.T if turned else out)


def write_tokenizer(folder):
    (folder / "text.txt").write_text("the rowers pull, rest and pull again until the night; " * 40)
    trireme("prepare", "--tokenizer", "bytes", "--validation", 0, "--out", folder / "corpus", folder / "text.txt")
    return folder / "corpus/tokenizer.json"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Makes folders of models, and of their dequantised weights, once each."""
    root = tmp_path_factory.mktemp("made")
    tokenizer = write_tokenizer(root)

    def write(folder, config, tensors):
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(config))
        (folder / "tokenizer.json").write_bytes(tokenizer.read_bytes())
        save_file(tensors, folder / "model.safetensors")

    def make(name, kind=None):
        folder, of = root / f"{name} {kind}".replace(",", ""), MODELS[name][0]
        if folder.exists():
            return folder
        config = dict(PLAIN, model_type=of, **MODELS[name][1])
        if kind is None:
            random = numpy.random.default_rng(len(name))
            shapes = gguf_models.Shapes(root / f"shapes of {name}", config).names()
            write(folder, config, {tensor: random.normal(1 if "norm" in tensor or "ln_" in tensor else 0, 0.2, shape).astype(numpy.float32)
                                   for tensor, shape in shapes.items()})
        else:
            tensors = load_file(make(name) / "model.safetensors")
            tied = not any("lm_head" in tensor or "embed_out" in tensor for tensor in tensors)
            write(folder, config, {tensor: dequantised(tensor, values, of, kind, tied) for tensor, values in tensors.items()})
        return folder

    make.root = root
    return make


def lines(folder, *words, texts=None):
    file = folder.parent / f"prompts {os.getpid()}.jsonl"
    file.write_text("".join(json.dumps(dict(prompt=text)) + "\n" for text in texts or TEXTS))
    done = trireme("generate", folder, "--prompts", file, "--tokens", 6, "--temperature", 0, "--ignore-end", "--json", "--logprobs", 3, *words)
    return [json.loads(line) for line in done.stdout.splitlines()]


def numbers(line):
    return line["logprobs"]["prompt"][1:] + line["logprobs"]["model"] + [likely["logprob"] for top in line["logprobs"]["top"] for likely in top]


# ---- the same function ----------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("kind", ["q8_0", "q4_0"])
@pytest.mark.parametrize("name", MODELS)
def test_log_probabilities(made, name, kind):
    """In fp64 the two models differ by rounding alone."""
    exact = ("--device", "reference", "--precision", "fp64")
    ours, expected = lines(made(name), "--weights", kind, *exact), lines(made(name, kind), *exact)
    for a, b in zip(ours, expected, strict=True):
        assert a["ids"] == b["ids"]
        assert numbers(a) == pytest.approx(numbers(b), abs=1e-9)
    assert any(abs(a - b) > 1e-4 for line, other in zip(ours, lines(made(name), *exact)) for a, b in zip(numbers(line), numbers(other)))


@pytest.mark.parametrize("kind", ["q8_0", "q4_0"])
@pytest.mark.parametrize("name", ["llama", "gpt2", "mixtral", "llama, odd widths", "mixtral, odd widths"])
def test_cpu(made, name, kind):
    """In fp32 on the CPU; and a text has the same bits beside others, alone, and with other threads."""
    words = ("--device", "cpu", "--weights", kind)
    together = lines(made(name), *words)
    for a, b in zip(together, lines(made(name, kind), "--device", "reference", "--precision", "fp64"), strict=True):
        assert numbers(a) == pytest.approx(numbers(b), abs=2e-4)
    for more in (("--batch", 1), ("--threads", 3)):
        assert [numbers(line) for line in lines(made(name), *words, *more)] == [numbers(line) for line in together]


def test_tensor_ranks(made):
    """Each rank quantises its part. Parts of whole blocks have the blocks of the whole."""
    one, two = (lines(made("llama"), "--device", "cpu", "--weights", "q8_0", *more) for more in ((), ("-n", 2, "--tensor", 2)))
    for a, b in zip(one, two, strict=True):
        assert a["ids"] == b["ids"] and numbers(a) == pytest.approx(numbers(b), abs=1e-4)
    done = trireme("generate", made("llama"), "--prompt", "x", "-n", 4, "--tensor", 4, "--weights", "q4_0", "--device", "cpu", status=2)
    assert "this number of tensor ranks gives a rank 16 inputs of model.layers.0.self_attn.o_proj.weight, which cuts a block of 32" in done.stderr


def test_odd_widths_stay_in_bf16(made):
    said = trireme("generate", made("llama, odd widths"), "--prompt", "x", "--tokens", 2, "--weights", "q8_0", "--device", "cpu").stderr
    # o_proj has 48 inputs, down_proj 100; both in two layers
    assert f"4 matrices of {2 * 64 * (48 + 100) / 1e3:.1f}K parameters stay in bf16: their rows are not multiples of 32" in said
    assert "bf16" not in trireme("generate", made("llama"), "--prompt", "x", "--tokens", 2, "--weights", "q8_0", "--device", "cpu").stderr


# ---- memory and eval ------------------------------------------------------------------------------------------------------------

def bytes_of(name, made, kind):
    """Returns the bytes of all weights in memory, without padding between arrays; the rows of the last panel are padded."""
    total = 0
    for tensor, values in load_file(made(name) / "model.safetensors").items():
        if not is_matrix(tensor, values, MODELS[name][0]):
            total += 4 * values.size
            continue
        rows, width = values.shape
        size = 34 if kind == "q8_0" or tensor == "lm_head.weight" else 18
        total += -(-rows // 16) * 16 * width // 32 * size if width % 32 == 0 else 2 * values.size
    return total


def rows_of(model, corpus, *words):
    found = json.loads(trireme("eval", model, corpus, "--device", "cpu", "--json", "--sequence", 24, *words).stdout)["weights"]
    return {row["weights"]: row for row in found}


def test_eval(made):
    corpus = made.root / "corpus/train"
    rows = rows_of(made("llama"), corpus, "--weights", "fp32,bf16,q8_0,q4_0")
    assert list(rows) == ["fp32", "bf16", "q8_0", "q4_0"]
    alone = {kind: json.loads(trireme("eval", folder, corpus, "--device", "cpu", "--json", "--sequence", 24).stdout)
             for kind, folder in (("fp32", made("llama")), ("q8_0", made("llama", "q8_0")), ("q4_0", made("llama", "q4_0")))}
    for kind, one in alone.items():
        assert rows[kind]["loss"] == pytest.approx(one["loss"], rel=1e-6) and rows[kind]["tokens"] == one["tokens"]
        assert rows[kind]["bits_per_byte"] == pytest.approx(one["bits_per_byte"], rel=1e-6)
    assert rows["bf16"]["loss"] == pytest.approx(rows["fp32"]["loss"], rel=2e-2)
    for kind in ("q8_0", "q4_0"):
        least = bytes_of("llama", made, kind)
        assert least <= rows[kind]["weights_bytes"] <= least + 32 * 1024, kind
    table = trireme("eval", made("llama"), corpus, "--device", "cpu", "--sequence", 24, "--weights", "fp32,q4_0").stdout.splitlines()
    assert table[0].split() == ["weights", "loss", "perplexity", "bits_per_byte", "memory", "tokens/s"]
    assert [line.split()[0] for line in table[1:]] == ["fp32", "q4_0"]
    assert float(table[2].split()[1]) == pytest.approx(rows["q4_0"]["loss"], abs=1e-6)


def test_choices(made, tmp_path):
    file = tmp_path / "questions.jsonl"
    file.write_text("".join(json.dumps(dict(question=text, choices=[" pull", " rest", "!"], answer=i % 3)) + "\n" for i, text in enumerate(TEXTS * 3)))
    words = ("eval", made("llama"), "--choices", file, "--device", "cpu", "--json")
    rows = json.loads(trireme(*words, "--weights", "fp32,q8_0").stdout)["weights"]
    assert [row["weights"] for row in rows] == ["fp32", "q8_0"]
    for row, folder in zip(rows, (made("llama"), made("llama", "q8_0"))):
        one = json.loads(trireme("eval", folder, *words[2:]).stdout)
        assert row["acc"] == one["acc"] and row["acc_norm"] == one["acc_norm"] and row["probability"] == pytest.approx(one["probability"], rel=1e-5)


def test_adapters(made, tmp_path):
    """Factors are added to the base before it is quantised; with --unmerged they are kept in fp32."""
    (tmp_path / "run.yaml").write_text(json.dumps(dict(
        init=str(made("llama")), adapter=dict(rank=4), data=dict(train=str(made.root / "corpus/train"), sequence=24), layout=dict(micro_batch=2),
        optimizer=dict(global_batch=2, steps=3, lr=0.05), device="cpu", output=str(tmp_path / "run"))))
    trireme("train", tmp_path / "run.yaml")
    trireme("export", tmp_path / "run", tmp_path / "merged", "--merge")
    merged, own = (lines(folder, "--device", "cpu", "--weights", "q8_0") for folder in (tmp_path / "merged", tmp_path / "run"))
    assert [line["ids"] for line in merged] == [line["ids"] for line in own]
    for a, b in zip(merged, own):
        assert numbers(a) == pytest.approx(numbers(b), abs=1e-4)
    apart, plain = (lines(tmp_path / "run", "--device", "cpu", *more) for more in (("--weights", "q8_0", "--unmerged"), ()))
    for a, b in zip(apart, plain):
        assert numbers(a) == pytest.approx(numbers(b), abs=0.3) and numbers(a) != numbers(b)


# ---- refusals -------------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("words, status, said", [
    (("--weights", "q5_0"), 2, "--weights is fp32, bf16, q8_0 or q4_0, not `q5_0`"),
    (("--weights", "q8_0,"), 2, "--weights is fp32, bf16, q8_0 or q4_0, not ``"),
    (("--weights", "q8_0,q8_0"), 2, "--weights names q8_0 twice"),
    (("--weights", "q8_0,q4_0"), 2, "generate: --weights takes one type here; `trireme eval` compares several"),
    (("--weights", "bf16", "--precision", "bf16"), 2, "generate: --weights bf16 is the precision, too: leave --precision out"),
    (("--weights", "q4_0", "--precision", "bf16"), 2, "weights in q8_0 or q4_0 are multiplied in fp32: leave --precision bf16 out"),
    (("--weights", "q8_0", "--device", "emulated"), 7, "weights in q8_0 or q4_0 are for the devices cpu and reference, and the device emulated"),
])
def test_refusals(made, words, status, said):
    device = () if "--device" in words else ("--device", "cpu")
    assert said in trireme("generate", made("llama"), "--prompt", "x", *words, *device, status=status).stderr


def test_names(made):
    """As llama.cpp and PyTorch write them."""
    for names in (("q8_0", "Q8_0"), ("fp32", "f32", "float32", "FP32"), ("bf16", "BF16", "bfloat16")):
        found = [[line["ids"] for line in lines(made("llama"), "--device", "cpu", "--weights", name)] for name in names]
        assert all(ids == found[0] for ids in found)


def test_several_types_are_for_one_model(made):
    corpus, answers = made.root / "corpus/train", made.root / "answers.jsonl"
    answers.write_text('{"prompt": "the", "answer": "x"}\n')
    for words, said in (((made("llama"), made("gpt2"), corpus), "for one model, not for an ensemble"), ((made("llama"), corpus, "--bigram", corpus), "--bigram goes with one type"),
                        ((made("llama"), "--answers", answers), "--answers takes one of them")):
        assert said in trireme("eval", *words, "--weights", "fp32,q8_0", "--device", "cpu", status=2).stderr


def test_a_number_that_is_not_finite(made, tmp_path):
    folder = made("llama")
    tensors = load_file(folder / "model.safetensors")
    tensors["model.layers.1.mlp.down_proj.weight"][3, 5] = numpy.nan
    for name in ("config.json", "tokenizer.json"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    save_file(tensors, tmp_path / "model.safetensors")
    said = trireme("generate", tmp_path, "--prompt", "x", "--weights", "q8_0", "--device", "cpu", status=4).stderr
    assert f"element {3 * 128 + 5} of the tensor `model.layers.1.mlp.down_proj.weight` is NaN or infinite" in said

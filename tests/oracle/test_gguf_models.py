"""Models in GGUF files: `export` and `import` of every family. tests/full/test_gguf_llamacpp.py compares the files with llama.cpp."""
import json
import re
import subprocess

import gguf_models
import numpy
import pytest
from gguf_models import model_of, write_model, write_tokenizer
from parity import trireme, words_of
from safetensors.numpy import load_file, save_file

# What llama.cpp's architectures have no place for.
REFUSED = {
    "opt": "llama.cpp has no architecture for opt", "gemma, untied": "`gemma` has no place for an output projection that is not tied to the embedding",
    "gemma2": "`gemma2` has no place for attention_scale 0.377964473, which is not 0.316227766", "gemma3": "`gemma3` has no place for attention_scale",
    "gemma2, no caps, odd layers": "`gemma2` has no place for", "olmo2, stretched, tied": "`olmo2` has no place for rope_scaling of type llama3",
    "smollm3, windows": "`smollm3` has no place for rope_layers other than `3 of 4`", "falcon, old": "`falcon` has no place for sequential branches",
    "falcon, old, one head of keys": "`falcon` has no place for sequential branches", "falcon, 7B, biases": "`falcon` has no place for a bias of attention's output projection",
    "falcon, 40B, biases": "`falcon` has no place for a bias of attention's output projection", "opt, no biases": "no architecture for opt", "opt, untied": "no architecture for opt",
    "qwen3, biases": "`qwen3` has no place for a bias of attention's output projection", "olmo2, biases": "`olmo2` has no place for a bias of attention's output projection",
    "gemma2, biases": "`gemma2` has no place for a bias of attention's output projection", "smollm3, mlp biases": "`smollm3` has no place for",
    "qwen3, longrope": "`qwen3` has no place for rope_scaling of type longrope",
}
# Keys of config.json that a GGUF file does not have: windows of most families, which form of GELU, biases that are all 0.
LOST = {"dtype", "torch_dtype", "initializer_range", "hidden_act", "activation", "sliding_window", "use_sliding_window", "max_window_layers", "layer_types",
        "attention_bias", "use_bias", "bos_token_id", "eos_token_id", "_name_or_path"}


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return write_tokenizer(tmp_path_factory.mktemp("tokenizer") / "tokenizer.json")


def back(file, out, tokenizer, status=0):
    return trireme("import", file, out, "--tokenizer", tokenizer.parent, status=status).stderr


def failure(*words):
    done = subprocess.run(words_of(*words), capture_output=True, text=True)
    assert done.returncode > 0, done
    return done.stderr


@pytest.mark.parametrize("name", [name for name in gguf_models.NAMES if name not in REFUSED])
def test_there_and_back(tmp_path, tokenizer, name):
    """Weights in fp32 keep their bits, but for Gemma's norms, which a GGUF file has plus 1."""
    config, tensors = write_model(name, tmp_path / "folder", tokenizer)
    trireme("export", tmp_path / "folder", tmp_path / "model.gguf", "--dtype", "fp32")
    trireme("export", tmp_path / "folder", tmp_path / "plain")
    back(tmp_path / "model.gguf", tmp_path / "back", tokenizer)
    found, original = load_file(tmp_path / "back/model.safetensors"), load_file(tmp_path / "plain/model.safetensors")
    for tensor, values in original.items():
        around = 2e-7 if config["model_type"].startswith("gemma") and "norm" in tensor else 0
        assert numpy.abs(found[tensor] - values).max() <= around, tensor
    assert all(not found[tensor].any() for tensor in found.keys() - original.keys())  # biases that llama.cpp needs
    ours, read = (json.loads((tmp_path / folder / "config.json").read_text()) for folder in ("plain", "back"))
    if config["model_type"] == "mistral":  # llama.cpp has both as `llama`
        return
    differing = {key for key in ours.keys() | read.keys() if ours.get(key) != read.get(key)}
    if config["model_type"] == "dots1" or "rope_scaling" in differing:
        differing = {key for key in differing if not (isinstance(ours.get(key), dict) and same_numbers(ours[key], read[key]))}
    assert differing <= LOST, {key: (ours.get(key), read.get(key)) for key in differing - LOST}


def same_numbers(a, b):
    return all(b[key] == value or (isinstance(value, float) and abs(b[key] / value - 1) < 1e-6) for key, value in a.items()) and b.keys() - a.keys() <= {"attention_factor"}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(tmp_path, tokenizer, name):
    write_model(name, tmp_path / "folder", tokenizer)
    said = trireme("export", tmp_path / "folder", tmp_path / "model.gguf", status=7).stderr
    assert REFUSED[name] in said and "write a Hugging Face folder" in said and not list(tmp_path.glob("*.gguf*"))


def test_differences_are_said(tmp_path, tokenizer):
    for name, said in (("phi, grouped, tied", "llama.cpp has the tanh approximation of GELU for phi"),
                       ("qwen3, windows, tied", "llama.cpp has no sliding windows for qwen3: texts of more than 5 tokens get other logits")):
        write_model(name, tmp_path / name, tokenizer)
        assert said in trireme("export", tmp_path / name, tmp_path / f"{name}.gguf").stderr


def published(base, width, factor, low, high, original):
    """Divisors of llama3 (transformers' _compute_llama3_parameters), as files of other programs have them."""
    wave = 2 * numpy.pi * base ** (numpy.arange(0, width, 2) / width)
    smooth = (original / wave - low) / (high - low)
    between = 1 / ((1 - smooth) / factor + smooth)
    return numpy.where(wave < original / high, 1, numpy.where(wave > original / low, factor, between)).astype(numpy.float32)


@pytest.mark.parametrize("factor", [8.0, 32.0])
def test_llama3_of_other_programs(tmp_path, tokenizer, factor):
    """llama.cpp's files have only a tensor of divisors, from which the settings follow."""
    config, _ = model_of("llama, tied", tmp_path)
    scaling = dict(rope_type="llama3", factor=factor, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192)
    config |= dict(head_dim=128, num_attention_heads=1, num_key_value_heads=1, num_hidden_layers=1, rope_parameters=dict(scaling, rope_theta=500000.0),
                   max_position_embeddings=131072)
    gguf_models.OF_FAMILIES["wide"] = config | dict(shapes=gguf_models.Shapes(tmp_path / "shapes", config).names())
    write_model("wide", tmp_path / "folder", tokenizer)
    trireme("export", tmp_path / "folder", tmp_path / "model.gguf")
    data = (tmp_path / "model.gguf").read_bytes()
    assert published(500000.0, 128, factor, 1.0, 4.0, 8192).tobytes() in data
    (tmp_path / "other.gguf").write_bytes(data.replace(b"trireme.rope_scaling", b"another.rope_scaling"))
    back(tmp_path / "other.gguf", tmp_path / "back", tokenizer)
    read = json.loads((tmp_path / "back/config.json").read_text())
    found = read.get("rope_parameters") or read["rope_scaling"]
    assert all(found[key] == value for key, value in scaling.items() if key != "rope_type"), found


def test_types(tmp_path, tokenizer):
    """bf16 keeps bits of weights in bf16; quantised types keep values within their blocks' steps, and have their sizes."""
    config, tensors = write_model("llama, tied", tmp_path / "folder", tokenizer)
    config |= dict(hidden_size=64, num_attention_heads=4, num_key_value_heads=2, intermediate_size=96, vocab_size=512)
    gguf_models.OF_FAMILIES["wide"] = config | dict(shapes=gguf_models.Shapes(tmp_path / "shapes", config).names())
    _, tensors = write_model("wide", tmp_path / "wide", tokenizer)
    cut = {name: (values.view(numpy.uint32) & 0xFFFF0000).view(numpy.float32) for name, values in tensors.items()}
    save_file(cut, tmp_path / "wide/model.safetensors")
    sizes = {}
    for kind, step in (("f32", 0), ("bf16", 0), ("fp16", 2**-11), ("q8_0", 1 / 254), ("q4_0", 1 / 8)):
        said = trireme("export", tmp_path / "wide", tmp_path / f"{kind}.gguf", "--dtype", kind).stderr
        assert re.search(rf"{kind}\.gguf is written, in {dict(f32='F32', bf16='BF16', fp16='F16', q8_0='Q8_0', q4_0='Q4_0')[kind]}$", said, re.M)
        back(tmp_path / f"{kind}.gguf", tmp_path / kind, tokenizer)
        found, sizes[kind] = load_file(tmp_path / kind / "model.safetensors"), (tmp_path / f"{kind}.gguf").stat().st_size
        for name, values in cut.items():
            blocks, read = (x.reshape(-1, 32) if x.ndim == 2 else x.reshape(1, -1) for x in (values, found[name]))
            if values.ndim == 1:
                assert (blocks == read).all(), (kind, name)
            assert (numpy.abs(blocks - read) <= 1.15 * step * numpy.abs(blocks).max(axis=1, keepdims=True)).all(), (kind, name)
    count, vectors = sum(values.size for values in cut.values()), sum(values.size for values in cut.values() if values.ndim == 1)
    others = sizes["f32"] - 4 * count  # the header
    embedding = 512 * 64  # is the output projection as well, which q4_0 leaves in q8_0
    for kind, bits in (("bf16", 16), ("fp16", 16), ("q8_0", 8.5), ("q4_0", 4.5)):
        in_q8 = embedding * 4 if kind == "q4_0" else 0
        assert abs(sizes[kind] - others - 4 * vectors - ((count - vectors) * bits + in_q8) / 8) < 32 * len(cut)


def test_ends_of_texts(tmp_path, tokenizer):
    """Both tokens that end a text are in the file, and in generation_config.json after an import."""
    write_model("llama, tied", tmp_path / "folder", tokenizer)
    document = json.loads(tokenizer.read_text())
    document["added_tokens"].append(document["added_tokens"][0] | dict(id=41, content="<|stop|>"))
    (tmp_path / "folder/tokenizer.json").write_text(json.dumps(document))
    (tmp_path / "folder/generation_config.json").write_text(json.dumps(dict(eos_token_id=[40, 41])))
    trireme("export", tmp_path / "folder", tmp_path / "model.gguf")
    trireme("import", tmp_path / "model.gguf", tmp_path / "back")
    assert json.loads((tmp_path / "back/generation_config.json").read_text())["eos_token_id"] == [40, 41]
    read = json.loads((tmp_path / "back/tokenizer.json").read_text())
    assert {entry["content"]: entry["id"] for entry in read["added_tokens"]} == {"<|endoftext|>": 40, "<|stop|>": 41}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["back", "folder", "model.gguf", "shapes"]


def test_rows_that_are_not_whole_blocks(tmp_path, tokenizer):
    write_model("llama, tied", tmp_path / "folder", tokenizer)  # rows of 24 and 37
    said = trireme("export", tmp_path / "folder", tmp_path / "model.gguf", "--dtype", "q8_0", "--json")
    assert "in Q8_0; 22 matrices whose rows do not divide are in BF16" in said.stderr
    assert json.loads(said.stdout) | dict(file=None, **{"from": None}) == dict(
        {"file": None, "from": None}, kind="gguf", type="Q8_0", tensors=29, bytes=(tmp_path / "model.gguf").stat().st_size)


def test_wrong_words(tmp_path, tokenizer):
    folder = tmp_path / "folder"
    write_model("llama, tied", folder, tokenizer)
    (tmp_path / "old.gguf").write_text("x")
    for words, said in (((tmp_path / "old.gguf",), "old.gguf already exists; name a new file"),
                        ((tmp_path / "m.gguf", "--quantised"), "--quantised is bitsandbytes' 4 bits, which GGUF does not have; use --dtype q4_0 or q8_0"),
                        ((tmp_path / "m.gguf", "--shard-bytes", 1000), "a GGUF file is one file"),
                        ((tmp_path / "m.gguf", "--dtype", "q3_k"), "--precision is fp32 or bf16, in a GGUF file also fp16, q8_0 or q4_0, not `q3_k`"),
                        ((tmp_path / "out", "--dtype", "q8_0"), "only GGUF files have the type Q8_0; name a path that ends in .gguf"),
                        ((tmp_path / "out", "--format", "onnx"), "--format is hf or gguf, not `onnx`"),
                        ((tmp_path / "m.gguf", "--format", "hf"), "m.gguf is the name of a file, and a Hugging Face folder is written"),
                        ((tmp_path / "no/m.gguf",), "no/m.gguf")):
        assert said in failure("export", folder, *words) and not (tmp_path / "m.gguf").exists() and not (tmp_path / "out").exists()
    trireme("export", folder, tmp_path / "out", "--format", "gguf")
    assert (tmp_path / "out").read_bytes()[:4] == b"GGUF"
    assert "--tokenizer is for GGUF files" in trireme("import", folder, tmp_path / "x", "--tokenizer", folder, status=2).stderr
    (folder / "tokenizer.json").unlink()
    assert "has no tokenizer.json, which a GGUF file needs" in trireme("export", folder, tmp_path / "m.gguf", status=7).stderr


def test_too_large_for_the_type(tmp_path, tokenizer):
    _, tensors = write_model("llama, tied", tmp_path / "folder", tokenizer)
    tensors["model.layers.1.mlp.up_proj.weight"][2, 3] = 70000
    save_file(tensors, tmp_path / "folder/model.safetensors")
    said = trireme("export", tmp_path / "folder", tmp_path / "m.gguf", "--dtype", "f16", status=4).stderr
    assert "element 51 of `model.layers.1.mlp.up_proj.weight` is 70000, too large for F16; use --dtype f32" in said and not list(tmp_path.glob("*.gguf*"))
    tensors["model.layers.1.mlp.up_proj.weight"][2, 3] = numpy.nan
    save_file(tensors, tmp_path / "folder/model.safetensors")
    assert "NaN" in trireme("export", tmp_path / "folder", tmp_path / "m.gguf", status=4).stderr and not list(tmp_path.glob("*.gguf*"))


def test_damaged_files(tmp_path, tokenizer):
    write_model("llama, tied", tmp_path / "folder", tokenizer)
    trireme("export", tmp_path / "folder", tmp_path / "good.gguf")
    data = (tmp_path / "good.gguf").read_bytes()
    for change, said in ((lambda d: d[:-100], "bad.gguf"), (lambda d: d[:200], "bad.gguf"), (lambda d: d[:4] + b"\x09" + d[5:], "version"),
                         (lambda d: d.replace(b"blk.1.ffn_up.weight", b"blk.1.ffn_uq.weight"), "has no tensor `blk.1.ffn_up.weight`"),
                         (lambda d: d.replace(b"llama.block_count", b"llama.block_coun_"), "`llama.block_count` is missing"),
                         (lambda d: d.replace(b"general.architecture\x08\0\0\0\x05\0\0\0\0\0\0\0llama", b"general.architecture\x08\0\0\0\x05\0\0\0\0\0\0\0mamba"),
                          "a model of llama.cpp's architecture `mamba`, which no family has"),
                         (lambda d: d.replace(b"llama.attention.head_count\x04\0\0\0\x04", b"llama.attention.head_count\x04\0\0\0\x03"), "num_heads")):
        (tmp_path / "bad.gguf").write_bytes(change(data))
        assert change(data) != data
        assert said in failure("import", tmp_path / "bad.gguf", tmp_path / "out", "--tokenizer", tokenizer.parent)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.gguf", "folder", "good.gguf", "shapes"]
    fewer = data.replace(b"llama.block_count\x04\0\0\0\x03", b"llama.block_count\x04\0\0\0\x02")
    (tmp_path / "bad.gguf").write_bytes(fewer)
    assert "has a tensor `blk.2." in back(tmp_path / "bad.gguf", tmp_path / "out", tokenizer, status=7)

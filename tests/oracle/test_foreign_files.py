"""Files and folders of other programs: supported ones are read; for others the error message names their kind and a fix. Tokens of vocab.json with
merges.txt are those of transformers 5.24, which tests/full/test_folder_tokens.py runs."""
import gzip
import json
import shutil
import struct
import subprocess

import numpy
import pytest
from parity import trireme, words_of, yaml_of
from test_text_ends import byte_letters, folder_of, tokens_of

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 12345\n"
PAGE = b"\n<!DOCTYPE html><html>Access denied</html>"
TEXT = "The ship sails at noon, and nobody on it can swim.\n" * 20


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A corpus of bytes, and the export of a model."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "text.txt").write_text(TEXT)
    trireme("prepare", "--tokenizer", "bytes", "--validation", 0, "--out", folder / "corpus", folder / "text.txt")
    model = dict(family="llama", num_layers=1, hidden_size=32, num_heads=2, ffn_size=64, vocab_size=260, max_sequence=64)
    (folder / "run.yaml").write_text(yaml_of(dict(
        model=model, data=dict(train=str(folder / "corpus/train"), sequence=24), optimizer=dict(global_batch=8, steps=1, lr=1e-2), layout=dict(micro_batch=8),
        threads=1, output=str(folder / "run"))))
    trireme("train", folder / "run.yaml")
    trireme("export", folder / "run", folder / "good")
    return folder


def copy_of(made, path, **files):
    shutil.copytree(made / "good", path)
    for name, content in files.items():
        (path / name.replace("__", ".")).write_bytes(content)
    return path


def rename_tensors(path, rename):
    raw = path.read_bytes()
    length = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + length])
    text = json.dumps({name if name == "__metadata__" else rename(name): value for name, value in header.items()}).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + raw[8 + length:])


def refused(said, *words):
    done = subprocess.run(words_of(*words), capture_output=True, text=True, errors="replace")
    assert done.returncode > 1 and said in done.stderr, done.stderr


# (file of a model, content that replaces it, text of the error message)
INSTEAD = {
    "a pointer": ("model.safetensors", POINTER, "is a Git LFS pointer, not a safetensors file: the file itself was not downloaded; run `git lfs pull`"),
    "a page": ("model.safetensors", PAGE, "is a page of HTML, not a safetensors file"),
    "a pickle": ("model.safetensors", b"PK\x03\x04" + b"\0" * 600, "is a ZIP archive (as PyTorch's .bin, .pt and .pth"),
    "GGUF": ("model.safetensors", b"GGUF\x03\0\0\0" + b"\0" * 60, "is a GGUF file of llama.cpp, not a safetensors file"),
    "a short one": ("model.safetensors", b"\x1f\x8b\x08", "is compressed with gzip, not a safetensors file"),
    "a pointer of config.json": ("config.json", POINTER, "config.json is a Git LFS pointer, not JSON"),
    "a page of config.json": ("config.json", PAGE, "config.json is a page of HTML, not JSON"),
    "UTF-16": ("config.json", "\ufeff{}".encode("utf-16-le"), "config.json is a text in UTF-16 (PowerShell's"),
    "an index": ("generation_config.json", POINTER, "generation_config.json is a Git LFS pointer, not JSON"),
}


@pytest.mark.parametrize("case", INSTEAD)
def test_files_of_another_kind(made, tmp_path, case):
    name, content, said = INSTEAD[case]
    folder = copy_of(made, tmp_path / "folder")
    (folder / name).write_bytes(content)
    refused(said, "generate", folder, "--prompt", "a", "--tokens", 1)


# Files of a folder that is not a model (with their content, or empty), and the text of the error message.
FOLDERS = {
    "Meta": ({"params.json": "{}", "consolidated.00.pth": ""}, "it holds params.json, a folder of Meta's or Mistral's own form; take the Hugging Face folder"),
    "llama.cpp": ({"model.gguf": ""}, "it holds model.gguf, a GGUF file of llama.cpp; trireme import FILE.gguf CHECKPOINT makes a checkpoint of it"),
    "Megatron-LM": ({"latest_checkpointed_iteration.txt": "1", "iter_0000001/mp_rank_00/model_optim_rng.pt": ""}, "a checkpoint of Megatron-LM; convert it"),
    "DeepSpeed": ({"zero_to_fp32.py": "", "latest": "global_step1", "global_step1/mp_rank_00_model_states.pt": ""}, "run the zero_to_fp32.py in it"),
    "DCP": ({".metadata": "", "__0_0.distcp": ""}, "a distributed checkpoint of PyTorch (FSDP, torchtitan)"),
    "no config.json": ({"model.safetensors": ""}, "weights without a config.json"),
    "the hub's cache": ({"snapshots/0a1b/config.json": "{}", "refs/main": ""}, "name the folder snapshots/HASH in it"),
    "empty": ({}, "it is empty"),
    "one above": ({"tiny/config.json": "{}"}, "/tiny in it has a config.json; name that one"),
}


@pytest.mark.parametrize("case", FOLDERS)
def test_folders_of_other_programs(tmp_path, case):
    files, said = FOLDERS[case]
    (tmp_path / "there").mkdir()
    for name, content in files.items():
        (tmp_path / "there" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "there" / name).write_text(content)
    refused(said, "import", tmp_path / "there", tmp_path / "out")
    refused(said, "inspect", tmp_path / "there")


def test_files_named_as_folders(made, tmp_path):
    (tmp_path / "m.gguf").write_bytes(b"GGUF\x03\0\0\0")
    refused("m.gguf: the beginning of a GGUF file needs 8 bytes at byte 8, but only 0 follow", "import", tmp_path / "m.gguf", tmp_path / "out")
    refused("model.safetensors is a file of weights (.safetensors), not the folder of a model: name the folder", "import", made / "good/model.safetensors", tmp_path / "out")
    refused("is not a folder; a model and a checkpoint are folders", "import", made / "text.txt", tmp_path / "out")
    refused(f"m.gguf is a GGUF file of llama.cpp, not a model file, a corpus or a checkpoint: trireme import {tmp_path}/m.gguf CHECKPOINT makes a checkpoint of it", "inspect",
            tmp_path / "m.gguf")
    (tmp_path / "pytorch_model.bin").write_bytes(b"PK\x03\x04" + b"\0" * 600)
    refused("pytorch_model.bin is a ZIP archive (as PyTorch's .bin", "inspect", tmp_path / "pytorch_model.bin")
    folder = copy_of(made, tmp_path / "bin")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    refused("it holds pytorch_model.bin, pickled weights of PyTorch, which are not read; save the model with transformers", "import", folder, tmp_path / "out")
    (folder / "pytorch_model.bin").rename(folder / "weights.safetensors")
    refused("it holds weights.safetensors, weights by another name; name the file model.safetensors", "import", folder, tmp_path / "out")


@pytest.mark.parametrize("rename", [lambda name: f"_orig_mod.{name}", lambda name: f"module.{name}", lambda name: f"module._orig_mod.{name}",
                                    lambda name: name.replace(".mlp.", "._fsdp_wrapped_module._orig_mod.mlp."), lambda name: f"_fsdp_wrapped_module.{name}"])
def test_names_of_wrappers(made, tmp_path, rename):
    """The same model, with one line; two tensors that would have one name are refused."""
    folder = copy_of(made, tmp_path / "wrapped")
    rename_tensors(folder / "model.safetensors", rename)
    done = trireme("export", folder, tmp_path / "plain")
    assert done.stderr.count("of a PyTorch wrapper is removed from the names of") == 1, done.stderr
    trireme("export", made / "good", tmp_path / "good")
    assert (tmp_path / "plain/model.safetensors").read_bytes() == (tmp_path / "good/model.safetensors").read_bytes()
    names = ["_orig_mod.twice", "twice"]
    rename_tensors(folder / "model.safetensors", lambda name: names.pop() if names else name)
    refused("two tensors are called `twice` without the wrappers' parts", "export", folder, tmp_path / "twice")


def test_corpora_of_another_kind(made, tmp_path):
    for suffix in ("bin", "idx", "corpus.json"):
        shutil.copytree(made / "corpus", tmp_path / suffix)
        (tmp_path / suffix / f"train.{suffix}").write_bytes(POINTER)
        refused(f"train.{suffix} is a Git LFS pointer", "eval", made / "good", tmp_path / suffix / "train")
    (tmp_path / "idx/train.idx").unlink()
    refused("train.idx: No such file or directory (a corpus is named without .bin or .idx", "inspect", tmp_path / "idx/train.bin")


# ---- tokenizers ------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("files, said", [
    ({"tokenizer.model": "\n\x0e\n\x05<unk>"}, "it holds tokenizer.model, a tokenizer of SentencePiece or tiktoken; let transformers convert it"),
    ({"tekken.json": "{}"}, "it holds tekken.json, a tokenizer of Mistral's own form"),
    ({"vocab.txt": "[PAD]"}, "it holds vocab.txt, a vocabulary of WordPiece"),
    ({"vocab.json": "{}"}, "it holds vocab.json, a vocabulary without merges.txt"),
    ({"tokenizer.json": POINTER.decode()}, "tokenizer.json is a Git LFS pointer, not JSON"),
    ({"vocab.json": '{"a": 0}', "merges.txt": "", "tokenizer_config.json": '{"tokenizer_class": "CLIPTokenizer"}'},
     "vocab.json and merges.txt of a CLIPTokenizer are not read; transformers makes a tokenizer.json of them"),
])
def test_tokenizers_of_another_kind(made, tmp_path, files, said):
    (tmp_path / "tokenizer").mkdir()
    for name, content in files.items():
        (tmp_path / "tokenizer" / name).write_text(content)
    refused(said, "prepare", "--tokenizer", tmp_path / "tokenizer", "--out", tmp_path / "out", made / "text.txt")


@pytest.mark.parametrize("name, content, said", [
    ("tekken.json", '{\n "config": {"pattern": "x"}, "vocab": []}', "is a tokenizer of Mistral's own form (tekken.json), not a tokenizer.json: take tokenizer.json"),
    ("qwen.tiktoken", "IQ== 0\nIg== 1\n", "is a tokenizer of tiktoken, not JSON: let transformers convert it"),
])
def test_tokenizer_files_of_another_kind(made, tmp_path, name, content, said):
    (tmp_path / name).write_text(content)
    refused(said, "prepare", "--tokenizer", tmp_path / name, "--out", tmp_path / "out", made / "text.txt")


@pytest.mark.parametrize("option", ["--choices", "--answers"])
@pytest.mark.parametrize("content, said", [(POINTER, "is a Git LFS pointer, not JSON lines"), (PAGE, "is a page of HTML, not JSON lines")])
def test_questions_of_another_kind(made, tmp_path, option, content, said):
    (tmp_path / "q.jsonl").write_bytes(content)
    refused(said, "eval", copy_of(made, tmp_path / "folder"), option, tmp_path / "q.jsonl")


WORDS = "It's  12345 n\u0303\n\n \t naïve"


def vocab_and_merges(folder, **config):
    letters = byte_letters()
    vocab = {letters[byte]: byte for byte in range(256)} | {"12": 256, "'s": 257, letters[32] * 2: 258, "<|endoftext|>": 259, "345": 260, "34": 261, "ÃŃ": 262, "ĊĊ": 263}
    folder.mkdir(parents=True)
    (folder / "vocab.json").write_text(json.dumps(vocab))
    (folder / "merges.txt").write_text("#version: 0.2\n1 2\n' s\n" + letters[32] + " " + letters[32] + "\n3 4\n34 5\nÃ Ń\nĊ Ċ\n")
    if config:
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


IDS = {
    "nothing said": ({}, [73, 116, 257, 32, 32, 256, 260, 32, 110, 204, 131, 263, 32, 9, 32, 110, 97, 195, 175, 118, 101]),
    "GPT2Tokenizer": (dict(tokenizer_class="GPT2Tokenizer"), [73, 116, 257, 32, 32, 256, 260, 32, 110, 204, 131, 263, 32, 9, 32, 110, 97, 195, 175, 118, 101]),
    "Qwen2TokenizerFast": (dict(tokenizer_class="Qwen2TokenizerFast"), [73, 116, 257, 32, 32, 49, 50, 51, 52, 53, 32, 195, 177, 263, 32, 9, 32, 110, 97, 195, 175, 118, 101]),
}


@pytest.mark.parametrize("case", IDS)
def test_vocab_and_merges(tmp_path, case):
    config, expected = IDS[case]
    folder = vocab_and_merges(tmp_path / "tokenizer", **config)
    (tmp_path / "text.jsonl").write_text(json.dumps(dict(text=WORDS)) + "\n")
    for i, given in enumerate([folder, folder / "vocab.json", f"gpt2:{folder}"]):
        trireme("prepare", "--tokenizer", given, "--validation", 0, "--out", tmp_path / f"corpus{i}", tmp_path / "text.jsonl")
        assert tokens_of(tmp_path / f"corpus{i}/train") == [*expected, 259], given
    tokenizers = pytest.importorskip("tokenizers")
    assert tokenizers.Tokenizer.from_file(str(tmp_path / "corpus0/tokenizer.json")).encode(WORDS).ids == expected


# ---- texts -----------------------------------------------------------------------------------------------------------

NOT_TEXT = {
    "UTF-16, little": ("\ufeffHello\n".encode("utf-16-le"), "is a text in UTF-16 (PowerShell's `>` and Notepad's \"Unicode\")"),
    "UTF-16, big": ("\ufeffHello\n".encode("utf-16-be"), "is a text in UTF-16, not a text in UTF-8: convert it: iconv -f UTF-16"),
    "UTF-32": ("\ufeffHello\n".encode("utf-32-le"), "is a text in UTF-32"),
    "UTF-16 without a mark": ("Hello\n".encode("utf-16-le"), "has a NUL byte at byte 1"),
    "gzip": (gzip.compress(b"Hello\n"), "is compressed with gzip, not a text in UTF-8: of compressed files only .zst is read"),
    "ELF": (b"\x7fELF\x02\x01\x01\0", "is a program or library (ELF)"),
    "a pointer": (POINTER, "is a Git LFS pointer"),
    "Parquet": (b"PAR1\x15\x04", "is a Parquet file, not a text in UTF-8: convert it to .jsonl"),
    "Latin-1": ("Die Wörter sind geändert.\n".encode("latin-1") * 9, "is not in UTF-8: 18 of 234 bytes are not, the first at byte 5; convert it, if it is in Latin-1: iconv"),
    "NUL": (b"Hello\n" * 9 + b"\0", "has a NUL byte at byte 54"),
    "late": (b"Hello\n" * 200000 + b"\xff" * 2000, "is not in UTF-8: 2000 of 1202000 bytes are not, the first at byte 1200000"),
    "late NUL": (b"Hello\n" * 200000 + b"\0", "has a NUL byte at byte 1200000"),
    "cut": (b"na\xc3\xafve \xe4\xb8" * 3, "is not in UTF-8: 6 of 27 bytes are not, the first at byte 7"),
}


@pytest.mark.parametrize("case", NOT_TEXT)
def test_what_is_not_text(tmp_path, case):
    """For each tokenizer, also for bytes; nothing is left behind. --binary takes it."""
    content, said = NOT_TEXT[case]
    (tmp_path / "t.txt").write_bytes(content)
    for tokenizer in ("bytes", "char"):
        refused(said, "prepare", "--tokenizer", tokenizer, "--out", tmp_path / "out", "--validation", 0, tmp_path / "t.txt")
        assert not (tmp_path / "out/train.bin").exists()
    trireme("prepare", "--tokenizer", "bytes", "--binary", "--out", tmp_path / "out", "--validation", 0, tmp_path / "t.txt")
    expected = list(content) + [256]
    assert numpy.fromfile(tmp_path / "out/train.bin", numpy.uint16).tolist() == expected


IS_TEXT = {
    "a byte order mark": b"\xef\xbb\xbfHello\n", "two of them": b"\xef\xbb\xbf\xef\xbb\xbfHello\n", "of one to four bytes": "Grüße, 中文, 🚣\n".encode() * 70000,
    "one damaged byte": b"Hello\n" * 2000 + b"\xff", "over the ends of blocks": "\u00e9".encode() * 600001, "of four bytes": b"x" + "\U0001f6a3".encode() * 400001,
    "a page": b"<html>a page may be learnt</html>\n", "nearly a mark": b"GGU F", "a short one": b"a",
}


@pytest.mark.parametrize("case", IS_TEXT)
def test_what_is_text(tmp_path, case):
    (tmp_path / "t.txt").write_bytes(IS_TEXT[case])
    trireme("prepare", "--tokenizer", "bytes", "--out", tmp_path / "out", "--validation", 0, tmp_path / "t.txt")
    assert numpy.fromfile(tmp_path / "out/train.bin", numpy.uint16).tolist() == [*IS_TEXT[case].removeprefix(b"\xef\xbb\xbf"), 256]


def test_bad_documents_are_left_out(tmp_path):
    (tmp_path / "t.txt").write_bytes(b"one\nt\xffwo\nthr\0ee\nfour\n")
    (tmp_path / "t.jsonl").write_text('{"text": "five"}\n{"text": "si\\u0000x"}\n{"text": 7}\nnot JSON\n{"text": "eight"}\n')
    done = trireme("prepare", "--tokenizer", "bytes", "--skip-bad", "--documents", "line", "--out", tmp_path / "out", "--validation", 0, "--json", tmp_path / "t.txt",
                   tmp_path / "t.jsonl")
    assert bytes(i if i < 256 else 10 for i in numpy.fromfile(tmp_path / "out/train.bin", numpy.uint16)) == b"one\nfour\nfive\neight\n"
    assert json.loads(done.stdout)["skipped_documents"] == 5
    assert "5 documents were bad and skipped" in done.stderr and "t.txt document 2: byte 1 of the text is not UTF-8" in done.stderr
    (tmp_path / "all.txt").write_bytes(b"\xff\n")
    refused("all 1 documents are bad and were skipped", "prepare", "--tokenizer", "bytes", "--skip-bad", "--out", tmp_path / "none", tmp_path / "all.txt")
    (tmp_path / "long.txt").write_bytes(b"Hello there\n" * 200000 + b"\xff")
    refused("the document is too long to be left out: divide the text (--documents line)", "prepare", "--tokenizer", "bytes", "--skip-bad", "--out", tmp_path / "none",
            tmp_path / "long.txt")
    refused("--binary takes files byte by byte; it does not go with --skip-bad", "prepare", "--tokenizer", "bytes", "--skip-bad", "--binary", "--out", tmp_path / "none",
            tmp_path / "all.txt")


def test_tables_are_taken_with_a_line(tmp_path):
    (tmp_path / "t.csv").write_text('a,"b"\n')
    assert "t.csv is taken as plain text, with its separators and quotes" in trireme(
        "prepare", "--tokenizer", "bytes", "--out", tmp_path / "out", "--validation", 0, tmp_path / "t.csv").stderr


def test_byte_order_marks(made, tmp_path):
    """Left out in all that is read: run files, JSON, prompts, lines of prompts, templates. UTF-16 is named in each."""
    mark = b"\xef\xbb\xbf"
    folder = copy_of(made, tmp_path / "folder")
    for name in ("config.json", "generation_config.json", "tokenizer_config.json", "tokenizer.json"):
        (folder / name).write_bytes(mark + (folder / name).read_bytes())
    (tmp_path / "prompt.txt").write_bytes(mark + b"The")
    (tmp_path / "prompts.jsonl").write_bytes(mark + b'{"prompt": "The"}\n')
    (tmp_path / "plain.jsonl").write_bytes(b'{"prompt": "The"}\n')
    words = ["--tokens", 4, "--temperature", 0]

    def generate(*given):
        return trireme("generate", *given, *words, errors="replace").stdout

    expected = generate(made / "good", "--prompt", "The")
    assert generate(folder, "--prompt-file", tmp_path / "prompt.txt") == expected
    assert generate(folder, "--prompts", tmp_path / "prompts.jsonl") == generate(made / "good", "--prompts", tmp_path / "plain.jsonl")
    (tmp_path / "prompt.txt").write_bytes("\ufeffThe".encode("utf-16-le"))
    refused("prompt.txt is a text in UTF-16", "generate", folder, "--prompt-file", tmp_path / "prompt.txt", *words)
    (tmp_path / "run.yaml").write_bytes((made / "run.yaml").read_text().encode("utf-16"))
    refused("run.yaml is a text in UTF-16", "train", tmp_path / "run.yaml")

"""Tokenizers from GGUF files: with the tokenizer.json that is made from a file's keys, Hugging Face's `tokenizers` and Trireme give
llama.cpp's ids (PyPI's xllamacpp) for texts of all kinds. PyPI's `gguf` or Trireme's own export write the files."""
import json
import os
import pathlib
import subprocess

import pytest

gguf = pytest.importorskip("gguf")
pytest.importorskip("xllamacpp")

import test_gguf_vocabulary as exported  # noqa: E402
import tokenizer_families as families  # noqa: E402
from llamacpp import Vocabulary  # noqa: E402
from test_tokenizer_hf import our_ids  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402

TOOL = pathlib.Path(os.environ.get("TRIREME_TOOLS", pathlib.Path(__file__).resolve().parents[2] / "build" / "tools")) / "gguf_tokenizer_tool"
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)


def read(path, folder):
    """Writes the tokenizer of a GGUF file into a new folder; returns what is logged. The only place that knows how."""
    folder.mkdir()
    done = subprocess.run([str(TOOL), str(path), str(folder)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stderr


def write_gguf(document, path, model, pre, rows=0, scores=None, **flags):
    """Writes the keys of a tokenizer as llama.cpp's converter does."""
    vocabulary, writer = dict(document["model"]["vocab"]), gguf.GGUFWriter(path, "llama")
    types = {id: BYTE if model == "llama" and text in families.BYTES else NORMAL for text, id in vocabulary.items()}
    for entry in document["added_tokens"]:
        vocabulary[entry["content"]] = entry["id"]
        types[entry["id"]] = CONTROL if entry["special"] else USER_DEFINED
    texts = {id: text for text, id in vocabulary.items()}
    rows = rows or max(texts) + 1
    writer.add_tokenizer_model(model)
    writer.add_tokenizer_pre(pre)
    writer.add_token_list([texts.get(id, f"[PAD{id}]") for id in range(rows)])
    writer.add_token_types([types.get(id, UNUSED) for id in range(rows)])
    if scores:
        writer.add_token_scores([scores.get(texts.get(id), 0.0) for id in range(rows)])
    else:
        writer.add_token_merges([" ".join(merge) for merge in document["model"]["merges"]])
    for name, value in flags.items():
        getattr(writer, f"add_{name}")(value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def same_as_huggingface(folder, texts):
    reference = Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert our_ids(folder / "tokenizer.json", texts, folder) == [encoding.ids for encoding in reference.encode_batch(texts, add_special_tokens=False)]


def same_ids(path, folder, texts, whole=False):
    """Compares the three programs. `whole`: with the tokens that begin and end texts."""
    model, reference = Vocabulary(path), Tokenizer.from_file(str(folder / "tokenizer.json"))
    reference = [encoding.ids for encoding in reference.encode_batch(texts, add_special_tokens=whole)]
    theirs = [model.tokenize(text, add=whole) for text in texts]
    model.close()
    wrong = [case for case in zip(texts, reference, theirs) if case[1] != case[2]]
    assert not wrong, (len(wrong), len(texts), wrong[:3])
    same_as_huggingface(folder, texts)


# ---- files of the package gguf


BYTE_LEVEL = {
    "gpt2": ("gpt-2", lambda: families.bytes_of("gpt2", *families.names("<|endoftext|>"), *(families.added(" " * n) for n in range(9, 1, -1)))),
    "llama3": ("llama-bpe", lambda: families.bytes_of("llama3", *families.names("<|begin_of_text|>", "<|eot_id|>"))),
    "qwen": ("qwen2", lambda: families.bytes_of("qwen2", *families.names("<|im_start|>", "<|im_end|>"), families.added("<think>"))),
    "smollm": ("smollm", lambda: families.bytes_of("granite", *families.names("<|im_start|>"))),
    "falcon": ("falcon", lambda: families.bytes_of("falcon", *families.names(">>TITLE>>"))),
}


@pytest.mark.parametrize("name", BYTE_LEVEL)
def test_ids_of_bytes(tmp_path, name):
    pre, make = BYTE_LEVEL[name]
    document, path = make(), tmp_path / "model.gguf"
    end, rows = document["added_tokens"][0]["id"], len(document["model"]["vocab"]) + 50
    write_gguf(document, path, "gpt2", pre, rows, bos_token_id=end, eos_token_id=end)
    assert read(path, tmp_path / "made") == ""
    texts = exported.texts_for(document, name)
    assert len(texts) >= 500
    same_ids(path, tmp_path / "made", texts)
    same_ids(path, tmp_path / "made", texts[:50], whole=True)
    made = json.loads((tmp_path / "made" / "tokenizer.json").read_text())
    assert (made["post_processor"] is not None) == (name == "llama3")
    vocabulary = document["model"]["vocab"] | {entry["content"]: entry["id"] for entry in document["added_tokens"]}
    assert made["model"]["vocab"] == vocabulary and made["pre_tokenizer"]["type"] == ("ByteLevel" if name == "gpt2" else "Sequence")


# llama.cpp's names, and whether it cuts some texts differently: it has no classes of upper and lower case letters, for example.
NAMES = {name: False for name in (
    "default mpt phi-2 olmo jais refact command-r codeshell llama3 falcon3 pixtral glm4 dbrx smaug-bpe stablelm2 hunyuan qwen35 deepseek-v3 joyai-llm spark2_5 "
    "seed-coder superbpe minicpm5 bailingmoe ufakzeka jais-2 bloom viking laguna").split()} | {name: True for name in "tekken gpt-4o llama4 youtu tiny_aya deepseek-coder deepseek-llm".split()}


@pytest.mark.parametrize("pre", NAMES)
def test_names_of_pre_tokenizers(tmp_path, pre):
    document, path = families.bytes_of("gpt2"), tmp_path / "model.gguf"
    write_gguf(document, path, "gpt2", pre, add_bos_token=False)
    read(path, tmp_path / "made")
    texts = [text for text in exported.texts_for(document, pre) if "'ſ" not in text]  # (?i:'s) has this letter, too, llama.cpp's list has not
    if NAMES[pre]:
        same_as_huggingface(tmp_path / "made", texts)
    else:
        same_ids(path, tmp_path / "made", texts)


def scores_of(document):
    scores = {}
    for rank, (left, right) in enumerate(document["model"]["merges"]):
        scores.setdefault(left + right, -1.0 - rank)
    return scores


@pytest.mark.parametrize("prefix", [True, False])
@pytest.mark.parametrize("across", [False, True])
def test_ids_of_characters(tmp_path, prefix, across):
    document, path = families.characters(across=across), tmp_path / "model.gguf"
    write_gguf(document, path, "llama", "default", scores=scores_of(document), unk_token_id=0, bos_token_id=1, eos_token_id=2, add_bos_token=True, add_space_prefix=prefix)
    assert read(path, tmp_path / "made") == ""
    texts = exported.texts_for(document, "llama")
    same_ids(path, tmp_path / "made", texts)
    same_ids(path, tmp_path / "made", texts[:50], whole=True)


def test_ids_of_characters_with_merges(tmp_path):
    """A list of merges counts, and not the scores."""
    document, path = families.llama2(), tmp_path / "model.gguf"
    write_gguf(document, path, "llama", "default", scores=dict.fromkeys(document["model"]["vocab"], -1.0), token_merges=[" ".join(merge) for merge in document["model"]["merges"]])
    read(path, tmp_path / "made")
    texts = exported.texts_for(document, "llama2")
    reference = Tokenizer.from_str(json.dumps(document))
    assert our_ids(tmp_path / "made" / "tokenizer.json", texts, tmp_path) == [encoding.ids for encoding in reference.encode_batch(texts, add_special_tokens=False)]


# ---- there and back


@pytest.mark.parametrize("name", {**exported.BYTE_LEVEL, **exported.CHARACTERS})
def test_there_and_back(tmp_path, name):
    document = exported.CHARACTERS[name]() if name in exported.CHARACTERS else exported.BYTE_LEVEL[name][1]()
    (tmp_path / "tokenizer.json").write_text(json.dumps(document))
    exported.export(tmp_path / "tokenizer.json", tmp_path, tmp_path / "model.gguf", len(document["model"]["vocab"]) + 300)
    read(tmp_path / "model.gguf", tmp_path / "made")
    texts = exported.texts_for(document, name)
    same_ids(tmp_path / "model.gguf", tmp_path / "made", texts)
    reference = Tokenizer.from_str(json.dumps(document))
    assert our_ids(tmp_path / "made" / "tokenizer.json", texts, tmp_path) == [encoding.ids for encoding in reference.encode_batch(texts, add_special_tokens=False)]
    exported.export(tmp_path / "made" / "tokenizer.json", tmp_path / "made", tmp_path / "again.gguf", len(document["model"]["vocab"]) + 300)
    read(tmp_path / "again.gguf", tmp_path / "again")
    assert (tmp_path / "again" / "tokenizer.json").read_text() == (tmp_path / "made" / "tokenizer.json").read_text()

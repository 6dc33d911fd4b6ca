"""Vocabularies in GGUF files: llama.cpp (PyPI's xllamacpp) gives the ids of Hugging Face's `tokenizers` for texts of all kinds. The
tokenizers are small ones in the forms of published files (tests/oracle/tokenizer_families.py)."""
import json
import os
import pathlib
import random
import subprocess
import sys
import unicodedata

import pytest

pytest.importorskip("xllamacpp")
pytest.importorskip("tokenizers")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "oracle"))

import tokenizer_families as families  # noqa: E402
from llamacpp import Vocabulary  # noqa: E402
from test_tokenizer_hf import LLAMA3, generated_texts  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402

TEXTS = 500
TOOL = pathlib.Path(os.environ.get("TRIREME_TOOLS", pathlib.Path(__file__).resolve().parents[2] / "build" / "tools")) / "vocabulary_tool"


def export(tokenizer, folder, path, rows=0):
    """Writes a GGUF file with the vocabulary of a tokenizer.json; returns what is logged. The only place that knows how."""
    done = subprocess.run([str(TOOL), str(tokenizer), str(folder), str(rows), str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stderr


def mixed(document, count, seed):
    """Added tokens inside of words, beside spaces of all kinds, and cut short."""
    r = random.Random(seed)
    contents = [entry["content"] for entry in document["added_tokens"]]
    parts = contents + [content[:-1] for content in contents if len(content) > 1]
    parts += ["é", "e\u0301", "中文", "🙂", "zq", " ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", "\u00a0", "\u3000", "a", "word", " the", "The", "HTML", "12", "1234", ",", "..", "'s", "'LL", "«"]
    return ["".join(r.choices(parts, k=r.randrange(1, 14))) for _ in range(count)]


def texts_for(document, name):
    texts = generated_texts(TEXTS, 31)[:TEXTS] + mixed(document, TEXTS, 32)
    if document["normalizer"] == {"type": "NFC"}:
        texts = [unicodedata.normalize("NFC", text) for text in texts]
    if name == "gemma":  # a mark in the text is a token of its own there, and part of a run of spaces in llama.cpp
        texts = [text for text in texts if families.MARK not in text]
    if name in METASPACE:
        contents = [entry["content"] for entry in document["added_tokens"]]
        texts = [text for text in texts if not text.startswith((" ", families.MARK)) and not any(content in text for content in contents)]
    return [text for text in texts if "\x00" not in text]


def qwen35():
    document = families.bytes_of("qwen2")
    document["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
    return document


def bytes_alone():
    """No merges, as in the tokenizer of bytes."""
    document = families.bytes_of("gpt2")
    vocabulary = document["model"]["vocab"]
    document["model"].update(merges=[], vocab={token: id for id, token in enumerate(token for token in vocabulary if len(token) == 1)})
    document["added_tokens"] = []
    document["pre_tokenizer"]["use_regex"] = False  # as in the file that `trireme prepare --tokenizer bytes` writes
    return document


def gemma():
    """As published: the runs of spaces among the added tokens are made by merges, too, of any two parts."""
    document, mark = families.gemma(), families.MARK
    runs, model, added = [mark * n for n in range(2, 6)], document["model"], document["added_tokens"]
    model["merges"] = [[run[:n], run[n:]] for run in runs for n in range(1, len(run))] + [merge for merge in model["merges"] if "".join(merge) not in runs]
    document["added_tokens"] = [entry for entry in added if entry["id"] < len(model["vocab"])]
    others = [{key: value for key, value in entry.items() if key != "id"} for entry in added if entry not in document["added_tokens"] and entry["content"] not in runs]
    for run in runs:
        model["vocab"].setdefault(run, len(model["vocab"]))
    return families.with_added(document, *(families.added(run) for run in runs), *others)


BYTE_LEVEL = {
    "gpt2": ("gpt-2", lambda: families.bytes_of("gpt2")),
    "phi2": ("gpt-2", lambda: families.bytes_of("gpt2", *(families.added(" " * n) for n in range(31, 1, -1)))),
    "neox": ("gpt-2", lambda: families.bytes_of("neox", *families.names("<|padding|>"))),
    "qwen3": ("qwen2", lambda: families.bytes_of("qwen2", *families.names("<|im_start|>", "<|im_end|>"), families.added("<think>"), families.added("</think>"))),
    "qwen35": ("qwen35", qwen35),
    "llama3": ("llama-bpe", lambda: families.bytes_of("llama3", *families.names("<|begin_of_text|>", "<|eot_id|>"))),
    "olmo2": ("dbrx", lambda: families.bytes_of("cl100k", *families.names("<|pad|>"))),
    "granite": ("starcoder", lambda: families.bytes_of("granite", *families.names("<fim_prefix>", "<commit_msg>"))),
    "falcon": ("falcon", lambda: families.bytes_of("falcon", *families.names(">>TITLE>>"))),
    "bytes": ("gpt-2", bytes_alone),
}
CHARACTERS = {
    "llama2": families.llama2,
    "gemma": gemma,
    "mistral": families.mistral,
    "metaspace": lambda: families.characters(pre_tokenizer=families.metaspace()),
    "metaspace_never": lambda: families.characters(pre_tokenizer=families.metaspace(prepend_scheme="never", split=True)),
    "across": lambda: families.characters(across=True, normalizer=families.sequence("normalizers", families.PREPEND, families.replace(" ", families.MARK))),
}


# Texts that begin with a space differ with these vocabularies, and texts after a special token.
METASPACE = ("mistral", "metaspace")


def compare_texts(document, model, texts):
    reference = Tokenizer.from_str(json.dumps(document))
    theirs = [encoding.ids for encoding in reference.encode_batch(texts, add_special_tokens=False)]
    wrong = [(text, ids, wanted) for text, ids, wanted in zip(texts, map(model.tokenize, texts), theirs) if ids != wanted]
    assert not wrong, (len(wrong), len(texts), wrong[:3])


def compare(folder, document, name):
    (folder / "tokenizer.json").write_text(json.dumps(document))
    export(folder / "tokenizer.json", folder, folder / "model.gguf")
    model, texts = Vocabulary(folder / "model.gguf"), texts_for(document, name)
    assert len(texts) >= 500
    compare_texts(document, model, texts)
    return model


@pytest.mark.parametrize("name", BYTE_LEVEL)
def test_ids_of_bytes(tmp_path, name):
    wanted, make = BYTE_LEVEL[name]
    model = compare(tmp_path, make(), name)
    assert wanted.encode() in (tmp_path / "model.gguf").read_bytes()[:200]
    text = "It's 12 €, déjà vu…\n\n  naïve 中文!!"
    assert model.text(model.tokenize(text)).decode() == text


@pytest.mark.parametrize("name", CHARACTERS)
def test_ids_of_characters(tmp_path, name):
    model = compare(tmp_path, CHARACTERS[name](), name)
    text = "It's 12 €, déjà vu…\n\nnaïve   中文!!"
    assert model.text(model.tokenize(text)).decode().removeprefix(" ") == text


# ---- any merges


def draw_document(r):
    """Characters with random merges. Two merges may make one token, and the order may be unusual."""
    document = families.characters(normalizer=families.replace(" ", families.MARK), added_tokens=[])
    tokens, merges = ["a", "b", "c", families.MARK], []
    for _ in range(r.randrange(1, 14)):
        pair = r.choices(tokens[-6:] if r.random() < 0.5 else tokens, k=2)
        if pair not in merges and len("".join(pair)) < 9:
            merges.append(pair)
            tokens += [] if "".join(pair) in tokens else ["".join(pair)]
    if r.random() < 0.5:  # all pairs of tokens that spell a token, as in files that were made from SentencePiece's
        merges = [[token[:n], token[n:]] for token in tokens for n in range(1, len(token)) if token[:n] in tokens and token[n:] in tokens]
    if r.random() < 0.3:
        r.shuffle(merges)
    document["model"].update(vocab={token: id for id, token in enumerate(["<unk>", *families.BYTES, *tokens])}, merges=merges)
    return document


def test_ids_of_random_merges(tmp_path):
    """A vocabulary is either refused, because llama.cpp would merge other pairs, or all ids are equal."""
    r, refused, drawn = random.Random(5), 0, 400
    for _ in range(drawn):
        document = draw_document(r)
        (tmp_path / "tokenizer.json").write_text(json.dumps(document))
        try:
            export(tmp_path / "tokenizer.json", tmp_path, tmp_path / "model.gguf")
        except AssertionError as failure:
            assert "because it merges any two parts" in str(failure) or "which merges any two parts" in str(failure)
            refused += 1
            continue
        model = Vocabulary(tmp_path / "model.gguf")
        compare_texts(document, model, ["".join(r.choices("abcabcabc z", k=r.randrange(1, 30))) for _ in range(60)])
        model.close()
    assert 0.02 * drawn < refused < 0.7 * drawn


# ---- special tokens and the template


def test_special_tokens(tmp_path):
    document = families.bytes_of("llama3", *families.names("<|begin_of_text|>", "<|eot_id|>", "<stop>"))
    ids = {entry["content"]: entry["id"] for entry in document["added_tokens"]}
    begin = ids["<|begin_of_text|>"]
    document["post_processor"] = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "B", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                                  "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                                  "special_tokens": {"B": {"id": "B", "ids": [begin], "tokens": ["<|begin_of_text|>"]}}}
    ends = [ids["<|endoftext|>"], ids["<|eot_id|>"], ids["<stop>"]]
    (tmp_path / "tokenizer.json").write_text(json.dumps(document))
    (tmp_path / "generation_config.json").write_text(json.dumps(dict(eos_token_id=ends)))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(dict(eos_token="<|eot_id|>", pad_token="<|endoftext|>", chat_template="{{ messages[0].content }}")))
    rows = len(document["model"]["vocab"]) + 70
    export(tmp_path / "tokenizer.json", tmp_path, tmp_path / "model.gguf", rows)
    model = Vocabulary(tmp_path / "model.gguf")
    facts = model.facts()
    assert model.size == rows and sorted(facts["ends"]) == sorted(ends)
    assert (facts["bos"], facts["eos"], facts["pad"], facts["add_bos"], facts["add_eos"]) == (begin, ids["<|eot_id|>"], ids["<|endoftext|>"], True, False)
    assert model.tokenize("a", add=True) == [begin, *model.tokenize("a")]
    assert model.template() == "{{ messages[0].content }}"

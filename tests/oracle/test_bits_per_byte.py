"""Bits per byte of `eval` are over the bytes of the texts that were prepared, without what the `tokenizers` package decodes from
tokens that are not labels. A corpus whose record does not have these bytes is counted as `tokenizers` decodes the labels: no special
token, and no space that encoding has put before a document, is counted."""
import json
import math

import numpy
import pytest
from parity import trireme

tokenizers = pytest.importorskip("tokenizers")
from tokenizer_families import added, bytes_of, characters, gemma, llama2, metaspace, phi3, replace  # noqa: E402

TEXTS = ["Once upon a time there was a house", "a \U0001f600 and \u65e5\u672c, f\u00fcr two", "  x = 1;  y = 2", "Hello  World</s> again <s>",
         "THE END e\u0301 \u00c4\u00d6\u00dc \ufb01ne", "b", "many words " * 12 + "."] * 2
KINDS = dict(llama=llama2, gemma=gemma, phi=phi3,
             metaspace=lambda: characters(pre_tokenizer=metaspace(prepend_scheme="always", split=True), decoder=metaspace(prepend_scheme="always", split=True)),
             nfc=lambda: bytes_of("gpt2", added("<s>", special=True), normalizer={"type": "NFC"}),
             replaced=lambda: bytes_of("gpt2", normalizer=replace("o", "oo")))
SEQUENCE = 160  # longer than any document, whatever text the tokenizers were learnt from


def checkpoint(folder, size):
    """Trains a model for one step, since its predictions do not matter."""
    model = dict(family="llama", num_layers=1, hidden_size=8, num_heads=1, ffn_size=8, vocab_size=size, max_sequence=SEQUENCE)
    run = dict(model=model, layout=dict(micro_batch=2), output=str(folder / "run"), optimizer=dict(global_batch=2, steps=1, lr=1e-3),
               data=dict(train=str(folder / "data/train"), sequence=SEQUENCE))
    (folder / "run.yaml").write_text(json.dumps(run))
    assert trireme("train", folder / "run.yaml").returncode == 0
    return folder / "run"


def evaluate(folder, *options):
    done = trireme("eval", folder / "run", folder / "data/train", "--json", "--tokenizer", folder / "tokenizer.json", *options)
    facts = json.loads(done.stdout)
    if facts["bytes"]:
        assert abs(facts["bits_per_byte"] - facts["loss"] * facts["tokens"] / math.log(2) / facts["bytes"]) < 1e-12
    return facts


def tokens_of(folder):
    return numpy.fromfile(folder / "data/train.bin", dtype="<u2").tolist()


def forget_bytes(folder):
    """The record of a corpus that an older version prepared."""
    path = folder / "data/train.corpus.json"
    record = json.loads(path.read_text())
    record.pop("text_bytes", None)
    path.write_text(json.dumps(record))


@pytest.mark.parametrize("kind", KINDS)
def test_documents(tmp_path, kind):
    (tmp_path / "tokenizer.json").write_text(json.dumps(KINDS[kind]()))
    (tmp_path / "text.txt").write_text("\n".join(TEXTS) + "\n")
    done = trireme("prepare", "--tokenizer", tmp_path / "tokenizer.json", "--documents", "line", "--validation", 0, "--out", tmp_path / "data",
                   tmp_path / "text.txt")
    assert done.returncode == 0, done.stderr
    reference = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    stream, end = tokens_of(tmp_path), json.loads((tmp_path / "data/train.corpus.json").read_text())["end_of_text"]
    documents, begin = [], 0
    for place, token in enumerate(stream):
        if token == end:
            documents.append(stream[begin:place])
            begin = place + 1
    assert len(documents) == len(TEXTS)

    def size(ids):
        return len(reference.decode(ids, skip_special_tokens=True).encode())

    checkpoint(tmp_path, reference.get_vocab_size())
    first = [size(ids[:1]) for ids in documents]
    for all_bytes in len("".join(TEXTS).encode()), sum(map(size, documents)):
        assert evaluate(tmp_path)["bytes"] == all_bytes - first[0]
        for packing in ("windows", "documents"):
            for batch in (), ("--batch", 1), ("--batch", 5):  # five: the last batch is padded
                assert evaluate(tmp_path, "--documents", "masked", "--packing", packing, *batch)["bytes"] == all_bytes - sum(first)
        forget_bytes(tmp_path)
    joined = evaluate(tmp_path, "--documents", "joined", "--packing", "documents", "--batch", 3)["bytes"]
    assert all_bytes - sum(first) <= joined <= all_bytes and (joined < all_bytes or sum(first) == 0)  # a token that begins texts has no bytes


def no_space_mark():
    """Three tokens of bytes stand for the mark of a space."""
    document = characters(normalizer=dict(type="Sequence", normalizers=[dict(type="Prepend", prepend="\u2581"), replace(" ", "\u2581")]))
    names = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *"abcdefgh"]
    document["model"].update(vocab={name: i for i, name in enumerate(names)}, merges=[])
    return document


def prepare_lines(folder, tokenizer, lines):
    (folder / "text.txt").write_text("\n".join(lines) + "\n")
    done = trireme("prepare", "--tokenizer", tokenizer, "--documents", "line", "--validation", 0, "--out", folder / "data", "--force", folder / "text.txt")
    assert done.returncode == 0, done.stderr


def test_bytes_of_a_space_mark(tmp_path):
    (tmp_path / "tokenizer.json").write_text(json.dumps(no_space_mark()))
    (tmp_path / "tokenizer_config.json").write_text('{"eos_token": "</s>"}')
    lines = ["a b c d e f g h", "a \u2582 b", "\u2582"] * 4
    prepare_lines(tmp_path, tmp_path / "tokenizer.json", lines)
    checkpoint(tmp_path, 267)
    for _ in range(2):  # by the record, and by the tokens
        assert evaluate(tmp_path)["bytes"] == len("".join(lines).encode())
        forget_bytes(tmp_path)


def test_unknown_tokens(tmp_path):
    """<unk> stands for text of any length: its name is not the text."""
    (tmp_path / "letters.txt").write_text("abcdefgh ijkl\n")
    assert trireme("prepare", "--tokenizer", "char", "--validation", 0, "--out", tmp_path / "learnt", tmp_path / "letters.txt").returncode == 0
    (tmp_path / "tokenizer.json").write_bytes((tmp_path / "learnt/tokenizer.json").read_bytes())
    lines = ["a\u65e5\u672c\u8a9e abc"] * 24
    prepare_lines(tmp_path, tmp_path / "tokenizer.json", lines)
    checkpoint(tmp_path, 20)
    assert evaluate(tmp_path)["bytes"] == len("".join(lines).encode()) - 1  # the first token is not a label
    forget_bytes(tmp_path)
    done = trireme("eval", tmp_path / "run", tmp_path / "data/train", "--json", "--tokenizer", tmp_path / "tokenizer.json")
    assert json.loads(done.stdout)["bits_per_byte"] is None
    assert "bits per byte are left out, because " in done.stderr and "unknown token" in done.stderr


def test_conversations(tmp_path):
    answers = ["It is 4.", "Yes \u2014 \U0001f600", "no"]
    names = ("<|im_start|>", "<|im_end|>")
    (tmp_path / "tokenizer.json").write_text(json.dumps(bytes_of("gpt2", *(added(name, special=True) for name in names))))
    (tmp_path / "chat.jinja").write_text("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
                                         "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
    lines = [json.dumps({"messages": [dict(role="user", content="What?"), dict(role="assistant", content=a)]}) for a in answers]
    (tmp_path / "chat.jsonl").write_text("\n".join(lines))
    done = trireme("prepare", "--chat", "--tokenizer", tmp_path / "tokenizer.json", "--chat-template", tmp_path / "chat.jinja", "--validation", 0,
                   "--out", tmp_path / "data", tmp_path / "chat.jsonl")
    assert done.returncode == 0, done.stderr
    reference = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    learnt = [t for t, m in zip(tokens_of(tmp_path), (tmp_path / "data/train.mask").read_bytes()) if m]
    expected = len("".join(answers).encode())
    text = reference.decode(learnt, skip_special_tokens=True)
    assert text.replace("\n", "") == "".join(answers)
    checkpoint(tmp_path, reference.get_vocab_size())
    for options in ([], ["--documents", "masked"], ["--documents", "masked", "--packing", "documents"]):
        assert evaluate(tmp_path, *options)["bytes"] == expected + text.count("\n")


def test_without_a_tokenizer(tmp_path):
    """Without a tokenizer the bytes of a token are not known, and bits per byte are not printed."""
    (tmp_path / "tokenizer.json").write_text(json.dumps(llama2()))
    (tmp_path / "text.txt").write_text("\n".join(TEXTS) + "\n")
    trireme("prepare", "--tokenizer", tmp_path / "tokenizer.json", "--validation", 0, "--out", tmp_path / "data", tmp_path / "text.txt")
    for path in [*(tmp_path / "data").glob("*.json")]:
        path.unlink()  # as a corpus of another program is
    checkpoint(tmp_path, 2200)
    given = ["--tokenizer", tmp_path / "tokenizer.json"]
    for options in (given, []):
        words = ["eval", tmp_path / "run", tmp_path / "data/train", *options]
        facts = json.loads(trireme(*words, "--json").stdout)
        assert ("bits per byte" in trireme(*words).stdout) == bool(options)
        assert (facts["bits_per_byte"] is not None) == (facts["bytes"] > 0) == bool(options)

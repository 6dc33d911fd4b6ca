"""The tokenizers of the families of models against Hugging Face `tokenizers`: the same ids, and the same text again.

The forms are those of the published files (tokenizer_families.py), the vocabularies learnt here."""

import json
import os
import pathlib
import random
import struct
import subprocess

import pytest

pytest.importorskip("tokenizers", reason="SKIPPED: the Python package `tokenizers` is missing")

from test_tokenizer_hf import generated_texts, long_texts, our_ids, same_ids, shared_texts, tool, write_records
from tokenizer_families import FAMILIES, MARK, characters, llama2, metaspace
from tokenizers import Tokenizer

TRIREME = os.environ.get("TRIREME", str(pathlib.Path(__file__).resolve().parents[2] / "build" / "trireme"))
CHARACTERS = ["across", "gemma", "llama2", "metaspace", "mistral", "phi3"]


@pytest.fixture(scope="module", params=sorted(FAMILIES))
def family(request, tmp_path_factory):
    document = FAMILIES[request.param]()
    path = tmp_path_factory.mktemp(request.param) / "tokenizer.json"
    path.write_text(json.dumps(document))
    return document, Tokenizer.from_file(str(path)), path


def mixed_texts(document, count, seed):
    """Added tokens inside of words, beside spaces of all kinds, beside one another and cut short."""
    r = random.Random(seed)
    contents = [entry["content"] for entry in document["added_tokens"]]
    parts = contents + [content[:-1] for content in contents if len(content) > 1]
    parts += ["<0x0A>", "<0x41>", MARK, MARK * 2, " " + MARK, "▂", "é", "e\u0301", "中文", "🙂", "\x00", "Ġ", "zq"]
    parts += [" ", "  ", "   ", "\n", "\n\n", "\t", "\u00a0", "\u3000", "\u2009", "a", "word", "The", "12", "1234", ",", "..", "«"]
    return ["".join(r.choices(parts, k=r.randrange(1, 14))) for _ in range(count)]


def our_texts(path, ids, directory):
    """Returns the texts that the tokens of each list add, one by one."""
    records = write_records(directory / "ids", [struct.pack(f"<{len(line)}i", *line) for line in ids])
    lines = tool("text", path, records).split("\n")[:-1]
    assert len(lines) == len(ids)
    return [[bytes.fromhex(part) for part in line.split(" ")] for line in lines]


def same_texts(path, reference, ids, directory):
    # Newer versions of `tokenizers` show an added token in the form that they search for, "▁<s>"; we show the form in the file.
    contents = {entry["id"]: entry["content"] for entry in json.loads(path.read_text())["added_tokens"]}
    ids = [line for line in ids if all(reference.id_to_token(i) == contents[i] for i in line if i in contents)]
    for line, parts in zip(ids, our_texts(path, ids, directory)):
        wanted = reference.decode(line, skip_special_tokens=False)
        if "\ufffd" in wanted:
            continue  # bytes that are not UTF-8, which we do not change
        assert b"".join(parts).decode() == wanted, line[:40]
        for part in parts:
            part.decode()  # never a part of a character


def test_same_ids_and_text_for_generated_text(family, tmp_path):
    _, reference, path = family
    texts = generated_texts(700, 21)
    same_ids(path, reference, texts, tmp_path)
    same_texts(path, reference, [line.ids for line in reference.encode_batch(texts, add_special_tokens=False)], tmp_path)


def test_same_ids_and_text_for_added_tokens(family, tmp_path):
    document, reference, path = family
    texts = mixed_texts(document, 1200, 22)
    same_ids(path, reference, texts, tmp_path)
    same_texts(path, reference, [line.ids for line in reference.encode_batch(texts, add_special_tokens=False)], tmp_path)


def test_same_ids_for_special_tokens_as_plain_text(family, tmp_path):
    document, reference, path = family
    texts = mixed_texts(document, 500, 23)
    reference.encode_special_tokens = True
    theirs = [result.ids for result in reference.encode_batch(texts, add_special_tokens=False)]
    reference.encode_special_tokens = False
    assert our_ids(path, texts, tmp_path, "plain") == theirs


def test_same_ids_for_shared_and_long_text(family, tmp_path):
    _, reference, path = family
    same_ids(path, reference, long_texts(), tmp_path)
    same_ids(path, reference, [text[:100000] for text in shared_texts()], tmp_path)


def test_same_text_for_any_ids(family, tmp_path):
    _, reference, path = family
    r = random.Random(24)
    size = reference.get_vocab_size()
    ids = [[r.randrange(size) for _ in range(r.randrange(1, 20))] for _ in range(1000)]
    same_texts(path, reference, ids, tmp_path)


def test_a_tokenizer_is_written_as_it_was_read(family, tmp_path):
    _, _, path = family
    tool("save", path, tmp_path / "saved.json")
    assert (tmp_path / "saved.json").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("name", CHARACTERS)
def test_any_bytes_come_back(name, tmp_path):
    """Bytes that are not UTF-8 are tokens of bytes; the spaces that encoding puts are taken away again."""
    (tmp_path / "t.json").write_text(json.dumps(FAMILIES[name]()))
    r = random.Random(25)
    texts = [bytes(r.choices(range(256), k=r.randrange(1, 60))) for _ in range(500)]
    for text in generated_texts(500, 26):
        data = bytearray(text.replace("▁", "").replace("<", "").encode())
        for _ in range(r.randrange(4)):
            if data:
                data[r.randrange(len(data))] = r.randrange(256)
        texts.append(bytes(data))
    texts = [text for text in texts if MARK.encode() not in text and b"<" not in text]
    if name == "mistral":  # Metaspace puts none before a text that begins with one, and the decoder takes one all the same
        texts = [text for text in texts if text[:1] != b" "]
    if name == "metaspace":  # its decoder takes all spaces from the first token, and knows no bytes
        texts = [text for text in texts if text.isascii() and text[:1].isalpha()]
    for text, parts in zip(texts, our_texts(tmp_path / "t.json", our_ids(tmp_path / "t.json", texts, tmp_path), tmp_path)):
        got = b"".join(parts)
        if name == "metaspace" and b"<0x" in got:
            continue
        assert got == text


@pytest.mark.parametrize("name", CHARACTERS)
def test_tokens_end_where_theirs_do(name, tmp_path):
    document = FAMILIES[name]()
    (tmp_path / "t.json").write_text(json.dumps(document))
    reference = Tokenizer.from_file(str(tmp_path / "t.json"))
    known = {c for c in document["model"]["vocab"] if len(c) == 1}
    texts = ["".join(c for c in text if c in known) for text in generated_texts(400, 27) + mixed_texts(document, 400, 28)]
    lines = tool("ends", tmp_path / "t.json", write_records(tmp_path / "records", texts)).split("\n")[:-1]
    for text, line in zip(texts, lines):
        result = reference.encode(text, add_special_tokens=False)
        ends = [int(word) for word in line.split()]
        assert len(ends) == len(result.ids)
        begin = 0
        for end, (_, theirs), token in zip(ends, result.offsets, result.tokens):
            # A mark that was put before a text and stays alone has nothing of it here, there the first letter.
            assert end == len(text[:theirs].encode()) or (token == MARK and end == begin), text
            begin = end


def random_vocabulary(r):
    """Few characters, merges of all kinds, some of unknown tokens and of bytes; not every byte has a token."""
    letters = r.sample(["a", "b", "c", "é", MARK, "中", "🙂", ","], r.randrange(3, 8))
    tokens = ["<unk>", *letters, *(f"<0x{byte:02X}>" for byte in range(256) if r.random() < r.choice((0, 0.5, 0.97, 1)))]
    merges = []
    for _ in range(r.randrange(1, 25)):
        left, right = r.choices([t for t in tokens if r.random() < 0.1 or not t.startswith("<0")], k=2)
        if [left, right] not in merges:
            merges.append([left, right])
            if left + right not in tokens:
                tokens.append(left + right)
    document = json.loads(json.dumps(llama2()))
    document["model"].update(
        vocab={token: id for id, token in enumerate(tokens)},
        merges=merges,
        unk_token="<unk>",
        byte_fallback=r.random() < 0.7,
        fuse_unk=r.random() < 0.5,
        ignore_merges=r.random() < 0.2,
    )
    document["added_tokens"] = []
    return document


def test_same_ids_for_vocabularies_of_chance(tmp_path):
    """Text is cut where no merge can reach over; here nearly every merge reaches over something."""
    for seed in range(150):
        r = random.Random(seed)
        (tmp_path / "t.json").write_text(json.dumps(random_vocabulary(r)))
        parts = ["a", "b", "c", "é", " ", "  ", "中", "文", "🙂", ",", "<0x41>", "<unk>", MARK, "z"]
        texts = ["".join(r.choices(parts, k=r.randrange(1, 90))) for _ in range(60)]
        same_ids(tmp_path / "t.json", Tokenizer.from_file(str(tmp_path / "t.json")), texts, tmp_path)


def test_numbers_and_signs_of_every_code_point(tmp_path):
    """What counts as a digit and as punctuation, in letters of bytes too."""
    from test_tokenizer_hf import assigned

    for name, document in (("falcon", FAMILIES["falcon"]()), ("digits", FAMILIES["digits"]())):
        (tmp_path / name).write_text(json.dumps(document))
        reference = Tokenizer.from_file(str(tmp_path / name))
        letters = [c for c in assigned(0x80, 0x323AF) if not 0x3400 <= ord(c) < 0xD800 and not 0x17000 <= ord(c) < 0x18D00]
        texts = ["".join(f"a{c}1{c} {c}.{c}" for c in letters[i : i + 64]) for i in range(0, len(letters), 64)]
        same_ids(tmp_path / name, reference, texts, tmp_path)


# ---- documents of any length ---------------------------------------------------------------------------------------------


def prepare(*arguments):
    return subprocess.run([TRIREME, "prepare", *map(str, arguments)], capture_output=True, text=True)


@pytest.mark.parametrize("name", ["llama2", "gemma", "mistral", "across"])
def test_a_long_document_is_cut_without_a_trace(name, tmp_path):
    """`prepare` reads a document in blocks; only its beginning gets a space."""
    (tmp_path / "t.json").write_text(json.dumps(FAMILIES[name]()))
    reference = Tokenizer.from_file(str(tmp_path / "t.json"))
    text = "".join(t[:200000] for t in shared_texts()) or "A line of text, and one more.\n" * 20000
    text = (text * (1 + 6_000_000 // len(text)))[:6_000_000].strip()
    (tmp_path / "text.txt").write_text(text)
    done = prepare("--tokenizer", tmp_path / "t.json", "--out", tmp_path / "out", "--validation", 0, "--documents", "file", tmp_path / "text.txt")
    assert done.returncode == 0, done.stderr
    ids = struct.unpack(f"<{(tmp_path / 'out/train.bin').stat().st_size // 2}H", (tmp_path / "out/train.bin").read_bytes())
    reference.encode_special_tokens = True
    assert list(ids[:-1]) == reference.encode(text).ids  # including the tokens that its post-processor puts before texts


# ---- conversations -------------------------------------------------------------------------------------------------------

TEMPLATES = {
    "llama2": "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}{{ '[INST] ' + m.content + ' [/INST]' }}"
    "{% else %}{{ ' ' + m.content + ' ' + eos_token }}{% endif %}{% endfor %}",
    "mistral": "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}{{ '[INST]' + ' ' + m.content + '[/INST]' }}"
    "{% else %}{{ ' ' + m.content + eos_token }}{% endif %}{% endfor %}",
    "gemma": "{{ bos_token }}{% for m in messages %}{{ '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\n' "
    "+ m.content + '<end_of_turn>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}",
}


@pytest.mark.parametrize("name", sorted(TEMPLATES))
def test_conversations_become_a_corpus(name, tmp_path):
    bos, eos = ("<bos>", "<eos>") if name == "gemma" else ("<s>", "</s>")
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "tokenizer.json").write_text(json.dumps(FAMILIES[name]()))
    settings = {"bos_token": bos, "eos_token": eos, "chat_template": TEMPLATES[name]}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    talks = [[f"What is {i}?", f"It is {i}, naïve 🙂.", "Sure  about it?", "Yes."] for i in range(20)]
    roles = ("user", "assistant")
    with open(tmp_path / "talks.jsonl", "w") as file:
        for talk in talks:
            file.write(json.dumps({"messages": [{"role": roles[i % 2], "content": c} for i, c in enumerate(talk)]}) + "\n")
    done = prepare("--chat", "--tokenizer", folder, "--out", tmp_path / "out", "--validation", 0, tmp_path / "talks.jsonl")
    assert done.returncode == 0, done.stderr
    reference = Tokenizer.from_file(str(folder / "tokenizer.json"))
    wanted, learnt = [], []
    for a, b, c, d in talks:
        if name == "gemma":
            text = f"<bos><start_of_turn>user\n{a}<end_of_turn>\n<start_of_turn>model\n{b}<end_of_turn>\n"
            text += f"<start_of_turn>user\n{c}<end_of_turn>\n<start_of_turn>model\n{d}<end_of_turn>\n"
            learnt.append((f"{b}<end_of_turn>", f"{d}<end_of_turn>"))
        else:
            before, after, last = ("[INST] ", "[/INST]", "") if name == "mistral" else ("[INST] ", " [/INST]", " ")
            text = f"<s>{before}{a}{after} {b}{last}</s>{before}{c}{after} {d}{last}</s>"
            learnt.append((f"{b}{last}</s>", f"{d}{last}</s>"))
        wanted.append(reference.encode(text, add_special_tokens=False).ids)
    data = (tmp_path / "out/train.bin").read_bytes()
    ids = list(struct.unpack(f"<{len(data) // 2}H", data))
    mask = (tmp_path / "out/train.mask").read_bytes()
    assert len(mask) == len(ids)
    at = {}
    for line in wanted:  # documents are shuffled
        at[tuple(line)] = at.get(tuple(line), 0) + 1
    ends = [tuple(line) for line in wanted]
    got, begin = [], 0
    while begin < len(ids):
        line = next(line for line in ends if tuple(ids[begin : begin + len(line)]) == line)
        got.append((begin, line))
        begin += len(line)
    assert sorted(line for _, line in got) == sorted(ends)
    for begin, line in got:
        talk = learnt[ends.index(line)]
        shown = [i for i, m in zip(line, mask[begin : begin + len(line)]) if m]
        text = reference.decode(shown, skip_special_tokens=False)
        for answer in talk:
            assert answer.strip() in text
        assert "What" not in text and "Sure" not in text


# ---- refusals ------------------------------------------------------------------------------------------------------------


def refusal(document, tmp_path):
    (tmp_path / "t.json").write_text(json.dumps(document))
    done = subprocess.run([str(pathlib.Path(os.environ.get("TRIREME_TOOLS", "build")) / "tokenize_tool"), "info", str(tmp_path / "t.json")], capture_output=True, text=True)
    assert done.returncode != 0
    return done.stderr


def test_what_nobody_taught_it_is_refused_by_name(tmp_path):
    assert "Unigram" in refusal({**llama2(), "model": {"type": "Unigram", "vocab": [["a", 0.0]]}}, tmp_path)
    assert "WordPiece" in refusal({**llama2(), "model": {"type": "WordPiece", "vocab": {"a": 0}}}, tmp_path)
    for normalizer in ("NFKC", "Lowercase", "Precompiled", "StripAccents", "BertNormalizer", "ByteLevel"):
        assert normalizer in refusal({**llama2(), "normalizer": {"type": normalizer}}, tmp_path)
    for cutter in ("Whitespace", "WhitespaceSplit", "BertPreTokenizer", "UnicodeScripts", "CharDelimiterSplit"):
        assert cutter in refusal({**llama2(), "pre_tokenizer": {"type": cutter}}, tmp_path)
    for decoder in ("WordPiece", "ByteLevel", "BPEDecoder", "CTC"):
        assert decoder in refusal({**llama2(), "decoder": {"type": decoder}}, tmp_path)
    assert "add_prefix_space" in refusal(
        characters(pre_tokenizer=metaspace(add_prefix_space=False, prepend_scheme="first")), tmp_path
    )
    assert "byte_fallback" in refusal(characters(model={"byte_fallback": False, "unk_token": None}), tmp_path)

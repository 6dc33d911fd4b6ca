"""The tokenizer against Hugging Face `tokenizers`: the same ids, the same vocabulary learnt, files read by both.

Needs tokenize_tool (tests/oracle/tokenize_tool.c) in the folder that TRIREME_TOOLS names. Texts are generated; the
files of the shared data folder (TRIREME_SHARED, by default ../shared beside the source tree) are used where they exist.
"""

import json
import os
import pathlib
import random
import struct
import subprocess
import warnings

import pytest

try:
    import tokenizers
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
except ImportError:
    warnings.warn("SKIPPED: the Python package `tokenizers` is missing, so ids are not compared with Hugging Face's")
    pytest.skip("SKIPPED: the Python package `tokenizers` is missing", allow_module_level=True)

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = pathlib.Path(os.environ.get("TRIREME_SHARED", ROOT.parent / "shared")) / "data"
TOOL = pathlib.Path(os.environ.get("TRIREME_TOOLS", ROOT / "build")) / "tokenize_tool"

ENDINGS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
LLAMA3 = ENDINGS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")


def tool(*arguments):
    done = subprocess.run([str(TOOL), *map(str, arguments)], capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def write_records(path, texts):
    with open(path, "wb") as file:
        for text in texts:
            data = text if isinstance(text, bytes) else text.encode()
            file.write(struct.pack("<I", len(data)) + data)
    return path


def our_ids(source, texts, directory, *options):
    lines = tool("encode", source, write_records(directory / "records", texts), *options).split("\n")[:-1]
    assert len(lines) == len(texts)
    return [[int(word) for word in line.split()] for line in lines]


def same_ids(source, reference, texts, directory):
    ours = our_ids(source, texts, directory)
    theirs = [result.ids for result in reference.encode_batch(texts, add_special_tokens=False)]
    for text, mine, wanted in zip(texts, ours, theirs):
        assert mine == wanted, f"{text!r:.300}: {mine[:40]} instead of {wanted[:40]}"


# ---- texts ----------------------------------------------------------------------------------------------------------


def shared_texts():
    return [path.read_text() for path in sorted(DATA.glob("*.txt"))]


def assigned(first, last):
    import unicodedata

    return [chr(c) for c in range(first, last + 1) if unicodedata.category(chr(c)) not in ("Cn", "Cs")]


ALPHABETS = [
    list("abcdefghij ABC  "),
    list("0123456789 ,.-"),
    list("'\"!?#$%&()[]{}<>|\\/_`~^*+=:;@ "),
    list(" \t\n\r\x0b\x0c"),
    [chr(c) for c in range(128)],
    [*"'s't're've'm'll'd'S'LL'Ve ", "ſ", "'ſ", "K", "’s", " "],
    assigned(0x80, 0x24F),
    assigned(0x300, 0x36F) + list("aeiouAEI "),
    assigned(0x370, 0x52F) + [" "],
    assigned(0x590, 0x6FF) + [" ", "\u200f"],
    assigned(0x900, 0xDFF) + [" "],
    assigned(0xE00, 0xFFF),
    assigned(0x1100, 0x11FF),
    assigned(0x1E00, 0x22FF),
    assigned(0x2460, 0x24FF) + assigned(0x2150, 0x218F),
    assigned(0x3000, 0x30FF) + assigned(0x4E00, 0x4E80) + list("。、 "),
    assigned(0xAC00, 0xAD00) + assigned(0x11A8, 0x11C2),
    assigned(0x1F300, 0x1F6FF) + ["\u200d", "\ufe0f", " "],
    assigned(0x1F1E6, 0x1F1FF),
    assigned(0x1D400, 0x1D7FF),
    [
        "\u0085",
        "\u00a0",
        "\u1680",
        "\u180e",
        "\u2000",
        "\u200a",
        "\u2028",
        "\u2029",
        "\u202f",
        "\u205f",
        "\u3000",
        "\ufeff",
        "\u200b",
        "\x1c",
        "\x1d",
        "\x1e",
        "\x1f",
        " ",
        "a",
        "1",
        "\n",
    ],
    [
        "\uf900",
        "\ufa10",
        "\u212b",
        "\u0340",
        "\u0344",
        "\u0374",
        "\u2126",
        "\u0958",
        "\ufb1d",
        "\u0327",
        "\u0301",
        "\u0323",
        "q",
    ],
    ["<|endoftext|>", "<|", "|>", "endoftext", " ", "\n", "x"],
]


def generated_texts(count, seed):
    r = random.Random(seed)
    texts = [
        "",
        " ",
        "  ",
        "\n",
        "a",
        "'",
        "'s",
        " '",
        "\u0000",
        "\u00e9",
        "e\u0301",
        "\U0010ffff",
        "   a",
        "a   ",
        "\r\n\r\n a",
    ]
    for _ in range(count):
        pieces = []
        for _ in range(r.randrange(1, 8)):
            alphabet = r.choice(ALPHABETS)
            pieces += r.choices(alphabet, k=int(r.expovariate(0.15)) + 1)
        texts.append("".join(pieces))
    r.shuffle(texts)
    return texts


def long_texts():
    r = random.Random(5)
    return [
        "a" * 9000,
        " " * 5000,
        "-=" * 3000,
        "".join(r.choices("abcdefgh", k=9000)),
        "ab" * 4999 + "é",
        "\n" * 3000 + "x",
        "".join(r.choices(ALPHABETS[15], k=5000)),
    ]


def training_texts():
    texts = generated_texts(600, 1)
    for text in shared_texts():
        texts += text[:60000].splitlines(keepends=True)
    return texts


# ---- reference tokenizers -------------------------------------------------------------------------------------------


def learn(pre_tokenizer, vocab_size=1200, normalizer=None, **options):
    reference = Tokenizer(models.BPE(**options))
    reference.pre_tokenizer = pre_tokenizer
    reference.decoder = decoders.ByteLevel()
    if normalizer is not None:
        reference.normalizer = normalizer
    reference.train_from_iterator(
        training_texts(),
        trainers.BpeTrainer(
            vocab_size=vocab_size,
            show_progress=False,
            special_tokens=["<|endoftext|>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        ),
    )
    return reference


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Split(Regex(pattern), behavior, invert)


def byte_level(**options):
    return pre_tokenizers.ByteLevel(**{"add_prefix_space": False, **options})


KINDS = {
    "gpt2": lambda: learn(byte_level()),
    "prefix_space": lambda: learn(byte_level(add_prefix_space=True)),
    "llama3": lambda: learn(pre_tokenizers.Sequence([split(LLAMA3), byte_level(use_regex=False)]), ignore_merges=True),
    "qwen2": lambda: learn(
        pre_tokenizers.Sequence([split(QWEN2), byte_level(use_regex=False)]), normalizer=normalizers.NFC()
    ),
    "cl100k": lambda: learn(pre_tokenizers.Sequence([split(LLAMA3, "removed", True), byte_level(use_regex=False)])),
    "deepseek": lambda: learn(
        pre_tokenizers.Sequence(
            [
                split(r"\p{N}{1,3}"),
                split(r"[一-龥぀-ゟ゠-ヿ]+"),
                split(
                    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
                    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
                ),
                byte_level(use_regex=False),
            ]
        )
    ),
    "o200k": lambda: learn(
        pre_tokenizers.Sequence(
            [
                split(
                    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
                    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
                    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
                ),
                byte_level(use_regex=False),
            ]
        )
    ),
    "starcoder": lambda: learn(pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level()])),
    "digits": lambda: learn(pre_tokenizers.Sequence([pre_tokenizers.Digits(), byte_level()])),
    "words": lambda: learn(pre_tokenizers.Sequence([split(r"\w+|\S\W?|\h+x|^\s|\d$"), byte_level(use_regex=False)])),
    "string": lambda: learn(pre_tokenizers.Sequence([pre_tokenizers.Split("ab", "isolated"), byte_level()])),
    "whole": lambda: learn(byte_level(use_regex=False), vocab_size=400),
}


@pytest.fixture(scope="module", params=sorted(KINDS))
def kind(request, tmp_path_factory):
    reference = KINDS[request.param]()
    path = tmp_path_factory.mktemp(request.param) / "tokenizer.json"
    reference.save(str(path))
    return request.param, reference, path


def test_same_ids_for_generated_text(kind, tmp_path):
    _, reference, path = kind
    same_ids(path, reference, generated_texts(2000, 2), tmp_path)


def test_same_ids_for_long_words(kind, tmp_path):
    _, reference, path = kind
    same_ids(path, reference, long_texts(), tmp_path)


def test_same_ids_for_every_code_point(kind, tmp_path):
    """Each assigned code point between others, so that classes of characters are compared one by one. Which code points
    are assigned depends on the version of Unicode of either side, so those that Python does not know are left out."""
    name, reference, path = kind
    if name not in ("gpt2", "llama3", "qwen2", "o200k", "words", "deepseek", "starcoder", "digits"):
        pytest.skip("no other classes than those of the others")
    uniform = ((0x3400, 0x9FFF), (0xAC00, 0xF8FF), (0x17000, 0x18CFF), (0x20000, 0x323AF))  # one in sixteen will do
    letters = [
        c
        for c in assigned(0x80, 0x323AF) + assigned(0xE0001, 0xE01EF) + ["\U0010ffff"]
        if ord(c) % 16 == 0 or not any(first <= ord(c) <= last for first, last in uniform)
    ]
    texts = [
        "".join(f"a{c}1{c} {c} .{c}{c}\n{c}'{c}e{c}\u0334{c}\u0301{c}" for c in letters[i : i + 64])
        for i in range(0, len(letters), 64)
    ]
    same_ids(path, reference, texts, tmp_path)


def test_same_ids_for_shared_text(kind, tmp_path):
    if not shared_texts():
        pytest.skip(f"SKIPPED: no text in {DATA}")
    name, reference, path = kind
    long = name in ("gpt2", "llama3", "qwen2")
    texts = shared_texts() if long else [text[:40000] for text in shared_texts()]
    same_ids(path, reference, texts, tmp_path)


def test_any_bytes_come_back(kind, tmp_path):
    name, _, path = kind
    if name in ("prefix_space", "qwen2"):
        pytest.skip("this tokenizer changes text")
    r = random.Random(3)
    texts = [bytes(r.choices(range(256), k=r.randrange(200))) for _ in range(500)]
    for text in generated_texts(500, 4):
        data = bytearray(text.encode())
        for _ in range(r.randrange(4)):
            if data:
                data[r.randrange(len(data))] = r.randrange(256)
        texts.append(bytes(data))
    tool("decode", path, write_records(tmp_path / "records", texts))


def test_invalid_bytes_leave_their_neighbours_alone(tmp_path):
    reference = KINDS["gpt2"]()
    reference.save(str(tmp_path / "t.json"))
    left, right = " They're 12 é", "  we'll, ñ 34"
    whole, bad, a, b = our_ids(
        tmp_path / "t.json", [left.encode() + b"\xff\xc3" + right.encode(), b"\xff\xc3", left, right], tmp_path
    )
    assert whole == a + bad + b
    assert a == reference.encode(left).ids and b == reference.encode(right).ids


# ---- GPT-2's files, added tokens, saving ----------------------------------------------------------------------------


def gpt2_reference():
    if not (DATA / "gpt2" / "encoder.json").exists():
        pytest.skip(f"SKIPPED: no vocabulary in {DATA}/gpt2")
    reference = Tokenizer(models.BPE.from_file(str(DATA / "gpt2/encoder.json"), str(DATA / "gpt2/vocab.bpe")))
    reference.pre_tokenizer = byte_level()
    reference.decoder = decoders.ByteLevel()
    reference.add_special_tokens(["<|endoftext|>"])
    return reference


def test_gpt2_files(tmp_path):
    reference = gpt2_reference()
    source = f"gpt2:{DATA / 'gpt2'}"
    assert tool("info", source).split() == ["50257", "50256"]
    same_ids(source, reference, generated_texts(6000, 7) + long_texts() + shared_texts(), tmp_path)
    tool("save", source, tmp_path / "saved.json")
    saved = Tokenizer.from_file(str(tmp_path / "saved.json"))
    assert saved.get_vocab() == reference.get_vocab()
    same_ids(source, saved, generated_texts(1000, 8), tmp_path)
    same_ids(tmp_path / "saved.json", reference, generated_texts(1000, 9), tmp_path)


def test_special_tokens_as_plain_text(kind, tmp_path):
    _, reference, path = kind
    reference.encode_special_tokens = True
    texts = generated_texts(1000, 10)
    theirs = [result.ids for result in reference.encode_batch(texts, add_special_tokens=False)]
    reference.encode_special_tokens = False
    assert our_ids(path, texts, tmp_path, "plain") == theirs


@pytest.mark.parametrize("name", ["gpt2", "qwen2", "prefix_space"])
def test_added_tokens(name, tmp_path):
    reference = KINDS[name]()
    reference.add_special_tokens(
        [
            AddedToken("<|im_start|>"),
            AddedToken("<mask>", lstrip=True),
            AddedToken("<pad>", rstrip=True),
            AddedToken("<both>", lstrip=True, rstrip=True),
            AddedToken("<word>", single_word=True),
            AddedToken("<|im"),
            AddedToken("｜é｜"),
        ]
    )
    reference.add_tokens(
        [
            AddedToken("  "),
            AddedToken("    "),
            AddedToken("word", single_word=True),
            AddedToken("e\u0301t"),
            AddedToken("naïve", normalized=False),
            AddedToken("Å"),
            AddedToken("<x>", lstrip=True, normalized=False),
        ]
    )
    path = tmp_path / "tokenizer.json"
    reference.save(str(path))
    r = random.Random(11)
    parts = [
        "<|im_start|>",
        "<mask>",
        "<pad>",
        "<both>",
        "<word>",
        "<|im",
        "｜é｜",
        "word",
        "étE",
        "e\u0301t",
        "naïve",
        "nai\u0308ve",
        "Å",
        "A\u030a",
        "\u212b",
        "<x>",
        " ",
        "  ",
        "\t",
        "\n",
        "\u3000",
        "\u00a0",
        "a",
        "é",
        "_",
        "1",
        ".",
        "<",
        "ⓐ",
        "\u200d",
        "中",
        "«",
    ]
    texts = ["".join(r.choices(parts, k=r.randrange(1, 12))) for _ in range(3000)]
    same_ids(path, reference, texts, tmp_path)
    tool("save", path, tmp_path / "saved.json")
    assert json.load(open(tmp_path / "saved.json")) == json.load(open(path))


def test_merges_as_pairs_and_as_strings(tmp_path):
    reference = KINDS["gpt2"]()
    document = json.loads(reference.to_str())
    pairs = [merge if isinstance(merge, list) else merge.split(" ") for merge in document["model"]["merges"]]
    texts = generated_texts(300, 12)
    for merges in (pairs, [" ".join(pair) for pair in pairs]):
        document["model"]["merges"] = merges
        (tmp_path / "t.json").write_text(json.dumps(document))
        same_ids(tmp_path / "t.json", reference, texts, tmp_path)


def test_merges_listed_twice_count_where_they_stand_last(tmp_path):
    document = json.loads(KINDS["gpt2"]().to_str())
    document["model"]["merges"] += document["model"]["merges"][:40:3]
    (tmp_path / "t.json").write_text(json.dumps(document))
    same_ids(
        tmp_path / "t.json",
        Tokenizer.from_file(str(tmp_path / "t.json")),
        shared_texts() + generated_texts(300, 15),
        tmp_path,
    )


def test_unknown_token_stands_for_missing_bytes(tmp_path):
    for fuse in (False, True):
        document = json.loads(KINDS["gpt2"]().to_str())
        for letter in "zqé":
            del document["model"]["vocab"][letter]
        document["model"]["merges"] = [m for m in document["model"]["merges"] if not set("zqé") & set("".join(m))]
        document["model"].update(unk_token="<|endoftext|>", fuse_unk=fuse)
        (tmp_path / "t.json").write_text(json.dumps(document))
        same_ids(
            tmp_path / "t.json",
            Tokenizer.from_file(str(tmp_path / "t.json")),
            ["zzqqa zoo quiz zq", "é", "zzazz"],
            tmp_path,
        )


def test_bytes(tmp_path):
    assert tool("info", "bytes").split() == ["257", "256"]
    tool("save", "bytes", tmp_path / "saved.json")
    saved = Tokenizer.from_file(str(tmp_path / "saved.json"))
    texts = generated_texts(500, 13)
    same_ids("bytes", saved, texts, tmp_path)
    same_ids(tmp_path / "saved.json", saved, texts, tmp_path)
    assert our_ids("bytes", [b"\x00\xff a<|endoftext|>"], tmp_path) == [[0, 255, 32, 97, 256]]


# ---- learning -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("vocab_size", [257, 300, 1000, 4096])
def test_same_vocabulary_is_learnt(vocab_size, tmp_path):
    texts = training_texts()
    reference = learn(byte_level(), vocab_size)
    tool("train", vocab_size, write_records(tmp_path / "records", texts), tmp_path / "ours.json")
    ours = Tokenizer.from_file(str(tmp_path / "ours.json"))
    assert ours.get_vocab() == reference.get_vocab()
    wanted, got = (json.loads(t.to_str())["model"]["merges"] for t in (reference, ours))
    assert got == wanted
    same_ids(tmp_path / "ours.json", reference, generated_texts(500, 14), tmp_path)


def test_same_vocabulary_is_learnt_from_repetitive_text(tmp_path):
    """Few letters: merges that overlap themselves, ties, and tokens that can be made in two ways."""
    for seed in range(40):
        r = random.Random(seed)
        texts = [
            "".join(r.choices("ab" if seed % 2 else "abc", k=r.randrange(1, 30))) for _ in range(r.randrange(1, 60))
        ]
        reference = Tokenizer(models.BPE())
        reference.pre_tokenizer = byte_level()
        size = 257 + r.randrange(1, 30)
        reference.train_from_iterator(
            texts,
            trainers.BpeTrainer(
                vocab_size=size,
                show_progress=False,
                special_tokens=["<|endoftext|>"],
                initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            ),
        )
        if reference.get_vocab_size() < size:
            continue
        tool("train", size, write_records(tmp_path / "records", texts), tmp_path / "ours.json")
        ours = Tokenizer.from_file(str(tmp_path / "ours.json"))
        assert ours.get_vocab() == reference.get_vocab(), seed
        assert json.loads(ours.to_str())["model"]["merges"] == json.loads(reference.to_str())["model"]["merges"], seed


def test_bytes_without_a_token_are_dropped(tmp_path):
    """SmolLM2's vocabulary lacks 21 of them, and has no unknown token; merges go across the gap."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    chance = random.Random(3)
    for lacking in (1, 21, 200):
        left = [letter for letter in alphabet if letter not in set(chance.sample(alphabet, lacking))]
        pairs = sorted({(a, b) for a, b in zip(chance.sample(left, 40), chance.sample(left, 40))})
        vocabulary = {token: i for i, token in enumerate([*left, *dict.fromkeys(a + b for a, b in pairs)])}
        reference = Tokenizer(models.BPE(vocab=vocabulary, merges=pairs))
        reference.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        reference.decoder = decoders.ByteLevel()
        path = tmp_path / f"lacks-{lacking}.json"
        reference.save(str(path))
        texts = ["", "a", "hello world", *("".join(chr(chance.choice([chance.randint(32, 126), chance.randint(0xA0, 0x2FF), chance.randint(0x4E00, 0x4FFF)]))
                                                   for _ in range(chance.randint(1, 80))) for _ in range(60))]
        same_ids(path, reference, texts, tmp_path)

"""Classes of characters in patterns (letters, digits, punctuation, ...): compares every code point with Hugging Face `tokenizers`, and
regenerates the table in src/tokenizer."""
import json
import pathlib
import re
import subprocess
import sys
import warnings

import pytest
from parity import TRIREME

tokenizers = pytest.importorskip("tokenizers", reason="SKIPPED: the Python package `tokenizers` is missing")
unicodedata2 = pytest.importorskip("unicodedata2", reason="SKIPPED: the Python package `unicodedata2` is missing")
from test_tokenizer_hf import our_ids  # noqa: E402
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "tokenizer"

# Ranges of similar characters (Han, Hangul, unassigned code points): a few of them are tested.
ALIKE = [(0x3500, 0x4D00), (0x4F00, 0x9F00), (0xAD00, 0xD700), (0xE100, 0xF800), (0x17100, 0x18700), (0x20100, 0x2A600),
         (0x2A800, 0x2B700), (0x2B900, 0x2CE00), (0x2D000, 0x2EB00), (0x2F000, 0x2F700), (0x30000, 0x31300), (0x31400, 0x32300),
         (0x32400, 0xE0000), (0xE0300, 0x10FFF0)]  # fmt: skip
CODES = [
    code
    for code in range(0x110000)
    if not 0xD800 <= code < 0xE000 and (code % 256 == 0 or not any(a <= code < b for a, b in ALIKE))
]

CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co Cn".split()
PATTERNS = [
    *(rf"\p{{{name}}}" for name in [*CATEGORIES, *"LMNPSZC", "LC", "Any", "ASCII", "Assigned", "Uppercase_Letter", "letter", "^L"]),
    r"\P{L}", r"[^\p{L}\P{M}\s]", r"[\p{^L}\d]", r"\w", r"\W", r"[\W_]", r"\s", r"[^\S\n]", r"\d", r"[\D]", r"\h", r"[\H]",
    *(f"[[:{name}:]]" for name in "digit space blank cntrl punct word xdigit ascii graph print".split()), "[[:^word:]]",
    r"[\u0370-\x{3ff}\p{Sc}é]", r"[^一-龥é\p{L}]", "é|[^à-ÿ\\w]", r"(?i:[k-s])", r"(?i:[É\p{Nd}])", r"(?i)s|(?-i:k)|K", r"(?i:\p{Lu})",
    r"(?i:[\p{L}-])", r"(?i:[^\p{L}\s])", r".", r"(?m:.)", r"(?<=a)\B.", r"\b.", r"[\x{80}-\x{10ffff}]",
]  # fmt: skip


def reference(pre_tokenizer):
    """A cut between `a` and a character shows in the ids: without a cut, `a` and the character's first byte are one token."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: id for id, letter in enumerate(alphabet)}
    merges = [("a", letter) for letter in alphabet if letter != "a"]
    vocabulary.update({left + right: 256 + id for id, (left, right) in enumerate(merges)})
    vocabulary["<|endoftext|>"] = len(vocabulary)
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    made.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizer, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(["<|endoftext|>"])
    return made


def version():
    return re.search(r'"([\d.]+)"', (SOURCE / "unicode_classes.c").read_text()).group(1)


def compare(pre_tokenizer, folder):
    """A newer `tokenizers` may know characters that are missing in the table: they are printed, and are not a failure."""
    theirs = reference(pre_tokenizer)
    theirs.save(str(folder / "tokenizer.json"))
    chunks = [CODES[i : i + 64] for i in range(0, len(CODES), 64)]
    texts = ["".join("a" + chr(code) for code in chunk) for chunk in chunks]
    ours = our_ids(folder / "tokenizer.json", texts, folder)
    wanted = [result.ids for result in theirs.encode_batch(texts, add_special_tokens=False)]
    suspects = [code for chunk, a, b in zip(chunks, ours, wanted) if a != b for code in chunk]
    texts = ["a" + chr(code) for code in suspects]
    wanted = [result.ids for result in theirs.encode_batch(texts, add_special_tokens=False)]
    differ = [code for code, a, b in zip(suspects, our_ids(folder / "tokenizer.json", texts, folder) if texts else [], wanted) if a != b]
    known = [f"U+{code:04X}" for code in differ if unicodedata2.category(chr(code)) != "Cn"]
    hint = f"if tokenizers {tokenizers.__version__} has a later version of Unicode than {version()}, see src/tokenizer/make_unicode_classes.py"
    assert not known, f"{len(known)} characters are cut otherwise: {known[:20]}; {hint}"
    if differ:
        warnings.warn(f"{len(differ)} characters that Unicode {version()} does not know are cut otherwise, U+{differ[0]:04X} first; {hint}")


@pytest.mark.parametrize("pattern", PATTERNS)
def test_every_code_point(pattern, tmp_path):
    compare(pre_tokenizers.Split(Regex(pattern), "isolated"), tmp_path)


@pytest.mark.parametrize("name", ["Digits", "Punctuation"])
def test_every_code_point_of_other_pre_tokenizers(name, tmp_path):
    compare(getattr(pre_tokenizers, name)(), tmp_path)


def test_the_table_made_again(tmp_path):
    subprocess.run([sys.executable, SOURCE / "make_unicode_classes.py", tmp_path / "again.c"], check=True)
    assert (tmp_path / "again.c").read_bytes() == (SOURCE / "unicode_classes.c").read_bytes()


@pytest.mark.parametrize("pattern, said", [
    (r"\p{Han}", "has the property Han at byte 0, which is not supported; only general categories such as L, Lu and N are"),
    (r"x[[:alpha:]]", r"has [:alpha at byte 2, which is not supported; \p{L}, \p{Lu} and their like are"),
    (r"(.)\1", r"has \1 at byte 3"), (r"\X", r"has \X at byte 0"), (r"\p{L", "name of a property at byte 0 does not end"),
    (r"[z-a]", "range at byte 1 ends before it begins"), (r"[a\]", "never closed"), (r"\x{110000}", "which is not a character"),
    (r"(?i:[\p{Lu}])", "has a part of the letters inside of [...], where case does not count, at byte 5"), (r"(*UCP)\w", "has (* at byte 0"), ("|".join(chr(0x4E00 + i) for i in range(65)), "in more than 64 places"),
    ("[" + "".join(chr(0x4E00 + 2 * i) for i in range(5000)) + "]", "more than 4096 ranges"),
    (r"(?i:[" + r"\x{100}-\x{10ffff}" * 20 + "])", "has too large ranges where case does not count, at byte"),
])  # fmt: skip
def test_what_is_refused(pattern, said, tmp_path):
    theirs = json.loads(reference(pre_tokenizers.Split("x", "isolated")).to_str())
    theirs["pre_tokenizer"]["pretokenizers"][0]["pattern"] = {"Regex": pattern}
    (tmp_path / "tokenizer.json").write_text(json.dumps(theirs))
    (tmp_path / "text.txt").write_text("text")
    command = [TRIREME, "prepare", "--tokenizer", tmp_path / "tokenizer.json", "--out", tmp_path / "out", tmp_path / "text.txt"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0 and said in done.stderr, done.stderr

"""`prepare --tokenizer char`: every character is a token, by a dictionary in Python and by Hugging Face's tokenizers."""
import json
import random
import subprocess

import numpy
import pytest
from parity import TRIREME, trireme


def prepared(folder, *inputs):
    trireme("prepare", "--tokenizer", "char", "--validation", 0, "--out", folder / "corpus", *inputs)
    return folder / "corpus", numpy.fromfile(folder / "corpus/train.bin", numpy.uint16).tolist()


def ids_of(texts):
    """End of text is 0 and what was never seen 1; characters follow by their code points."""
    letters = {letter: 2 + i for i, letter in enumerate(sorted(set("".join(texts))))}
    return letters, [id for text in texts for id in [*(letters[letter] for letter in text), 0]]


@pytest.mark.parametrize("seed", range(3))
def test_ids(tmp_path, seed):
    draw = random.Random(seed)
    alphabet = ["a", "b", " ", "\n", "Z", "é", "日", "\u0301", "🚣", "<", "'", '"', "\\", "\t", "\u00a0"]
    texts = ["".join(draw.choice(alphabet) for _ in range(draw.randint(1, 400))) for _ in range(5)]
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps(dict(text=text)) + "\n" for text in texts))
    folder, ids = prepared(tmp_path, tmp_path / "texts.jsonl")
    letters, expected = ids_of(texts)
    assert ids == expected
    tokenizers = pytest.importorskip("tokenizers")
    theirs = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    for text in (*texts, "never: ß", ""):
        assert theirs.encode(text).ids == [letters.get(letter, 1) for letter in text]
    assert all(theirs.decode(theirs.encode(text).ids) == text for text in texts)


def test_a_model_of_characters(tmp_path):
    """It is trained, and writes no other characters."""
    text = "".join(f"{i} oars beat {i * 7 % 13} times.\n" for i in range(400))
    (tmp_path / "text.txt").write_text(text)
    folder, ids = prepared(tmp_path, tmp_path / "text.txt")
    assert ids == ids_of([text])[1]
    (tmp_path / "run.yaml").write_text(json.dumps(dict(
        model=dict(family="llama", num_layers=1, hidden_size=32, num_heads=2, ffn_size=64, vocab_size=len(set(text)) + 2, max_sequence=64),
        data=dict(train=str(folder / "train")), optimizer=dict(global_batch=8, steps=60, lr=1e-2), evaluation=dict(every=0), output=str(tmp_path / "run"))))
    trireme("train", tmp_path / "run.yaml")
    written = trireme("generate", tmp_path / "run", "--prompt", "12 oars", "--tokens", 50).stdout
    assert written.startswith("12 oars") and len(written) > 12 and set(written) <= set(text)


def test_what_is_read_twice(tmp_path):
    """A pipe cannot be; a text of nothing has no characters; bytes that are not text are not characters."""
    done = subprocess.run([TRIREME, "prepare", "--tokenizer", "char", "--out", tmp_path / "out", "/dev/stdin"], input=b"abc", capture_output=True)
    assert done.returncode != 0 and b"is not a plain file; char reads its inputs twice" in done.stderr
    done = subprocess.run([TRIREME, "prepare", "--tokenizer", "chars", "--out", tmp_path / "out", __file__], capture_output=True)
    assert done.returncode != 0 and b"--tokenizer chars: there is no such file (did you mean char?); it is gpt2:DIR" in done.stderr
    (tmp_path / "empty.txt").write_text("")
    done = subprocess.run([TRIREME, "prepare", "--tokenizer", "char", "--out", tmp_path / "out", tmp_path / "empty.txt"], capture_output=True)
    assert done.returncode != 0 and b"there is no vocabulary to learn" in done.stderr
    (tmp_path / "odd.txt").write_bytes(b"ab\xffba")
    assert set(prepared(tmp_path, "--binary", tmp_path / "odd.txt")[1]) <= {0, 1, 2, 3}

"""Corpora written by `trireme prepare`, read by the published description of Megatron-LM's indexed data sets.

The reader below knows nothing of Trireme. The tokenizer is `bytes`, so that the text can be seen in the ids.
The program is found by the environment variable TRIREME (default: build/trireme)."""

import json
import os
import pathlib
import random
import signal
import struct
import subprocess
import time

import numpy
import pytest
from parity import yaml_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRIREME = os.environ.get("TRIREME", str(ROOT / "build" / "trireme"))
END = 256

DTYPES = {
    1: numpy.uint8, 2: numpy.int8, 3: numpy.int16, 4: numpy.int32,
    5: numpy.int64, 6: numpy.float64, 7: numpy.float32, 8: numpy.uint16,
}


class Indexed:
    """PREFIX.idx and PREFIX.bin."""

    def __init__(self, prefix):
        index = pathlib.Path(f"{prefix}.idx").read_bytes()
        assert index[:9] == b"MMIDIDX\x00\x00"
        version, code, count, entries = struct.unpack_from("<QBQQ", index, 9)
        assert version == 1
        self.dtype = numpy.dtype(DTYPES[code]).newbyteorder("<")
        at = 9 + struct.calcsize("<QBQQ")
        self.sizes = numpy.frombuffer(index, "<i4", count, at)
        at += self.sizes.nbytes
        self.pointers = numpy.frombuffer(index, "<i8", count, at)
        at += self.pointers.nbytes
        self.documents = numpy.frombuffer(index, "<i8", entries, at)
        assert at + self.documents.nbytes == len(index)
        self.data = pathlib.Path(f"{prefix}.bin").read_bytes()
        assert int(self.sizes.sum()) * self.dtype.itemsize == len(self.data)

    def sequence(self, i):
        return numpy.frombuffer(self.data, self.dtype, self.sizes[i], self.pointers[i])

    def document(self, i):
        return numpy.concatenate([self.sequence(s) for s in range(self.documents[i], self.documents[i + 1])])

    def __len__(self):
        return len(self.documents) - 1

    def texts(self):
        """The bytes of each document, which must end with the end-of-text token and have no other."""
        out = []
        for i in range(len(self)):
            ids = self.document(i)
            assert ids[-1] == END and (ids[:-1] < END).all()
            out.append(bytes(ids[:-1].astype(numpy.uint8)))
        return out


def prepare(out, *arguments):
    command = [TRIREME, "prepare", "--tokenizer", "bytes", "--out", str(out), "--json", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def texts():
    draw = random.Random(3)
    alphabet = "abc .\n\t\"\\/é漢😀\u0000\u2028"
    return ["".join(draw.choices(alphabet, k=draw.randint(1, 200))) for _ in range(4000)]


def test_json_lines(tmp_path, texts):
    source = tmp_path / "a.jsonl"
    with source.open("w", encoding="utf-8", newline="\n") as to:
        for i, text in enumerate(texts):
            to.write(json.dumps({"id": i, "body": text}, ensure_ascii=i % 2 == 0) + "\n")
    report = prepare(tmp_path / "out", "--key", "body", "--validation", "0.05", "--threads", "3", source)
    train, validation = Indexed(tmp_path / "out/train"), Indexed(tmp_path / "out/validation")
    assert train.dtype == numpy.uint16
    wanted = [text.encode() for text in texts]
    kept = train.texts()
    held_out = validation.texts()
    # In order, and together all of them.
    rest = iter(held_out)
    pending = next(rest, None)
    ours = iter(kept)
    for text in wanted:
        if text == pending and text != kept[0]:
            pending = next(rest, None)
        else:
            assert next(ours) == text
    assert pending is None and next(ours, None) is None
    assert 120 <= len(held_out) <= 280
    assert report["documents"] == len(texts)
    assert report["train"] == {"documents": len(kept), "tokens": int(train.sizes.sum())}
    assert report["validation"]["documents"] == len(held_out)
    assert report["text_bytes"] == sum(map(len, wanted))


def test_plain_text(tmp_path, texts):
    whole = "\n".join(texts).encode() * 8  # several blocks
    source = tmp_path / "a.txt"
    source.write_bytes(whole)
    prepare(tmp_path / "file", "--binary", "--validation", "0", source)  # there are NUL bytes among them
    assert Indexed(tmp_path / "file/train").texts() == [whole]
    prepare(tmp_path / "line", "--binary", "--validation", "0", "--documents", "line", source)
    lines = [line for line in whole.split(b"\n") if line.strip(b" \t\r\v\f")]
    assert Indexed(tmp_path / "line/train").texts() == lines


def test_validation_from_the_tail(tmp_path):
    source = tmp_path / "a.txt"
    source.write_bytes(b"x" * 9000 + b"y" * 999)
    report = prepare(tmp_path / "out", "--validation", "0.1", source)
    train, validation = Indexed(tmp_path / "out/train"), Indexed(tmp_path / "out/validation")
    assert bytes(train.document(0).astype(numpy.uint8)) == b"x" * 9000
    assert validation.texts() == [b"y" * 999]
    assert report["validation"]["from_tail"] is True


@pytest.mark.parametrize("seed", range(1, 5))
def test_the_tail_is_for_validation_whatever_the_hash_chose(tmp_path, seed):
    """An empty document may be the one that is for training."""
    source = tmp_path / "a.jsonl"
    source.write_text(json.dumps(dict(text="")) + "\n" + json.dumps(dict(text="x" * 90 + "y" * 9)) + "\n")
    prepare(tmp_path / "out", "--validation", "0.1", "--seed", str(seed), source)
    train, validation = Indexed(tmp_path / "out/train"), Indexed(tmp_path / "out/validation")
    assert bytes(train.document(0).astype(numpy.uint8)) == b"x" * 90 and validation.texts() == [b"y" * 9]


def test_pointers_are_bytes(tmp_path):
    source = tmp_path / "a.txt"
    source.write_bytes(b"one\nthree\nfourteen\n")
    prepare(tmp_path / "out", "--validation", "0", "--documents", "line", source)
    index = Indexed(tmp_path / "out/train")
    assert index.sizes.tolist() == [4, 6, 9]
    assert index.pointers.tolist() == [0, 8, 20]
    assert index.documents.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("arguments, status, message", [
    ([], 2, "--tokenizer is missing"),
    (["--tokenizer", "bytes"], 2, "--out is missing"),
    (["--tokenizer", "bytes", "--out", "OUT"], 2, "no input"),
    (["--tokeniser", "bytes"], 2, "`--tokeniser` is not an option of prepare; did you mean `--tokenizer`?"),
    (["--tokenizer"], 2, "--tokenizer needs a value"),
    (["--force=1"], 2, "--force takes no value"),
    (["--threads", "0"], 2, "--threads is 0"),
    (["--threads=two"], 2, "--threads needs a whole number, not `two`"),
    (["--seed", "1.5"], 2, "--seed needs a whole number"),
    (["--validation", "some"], 2, "--validation needs a fraction"),
    (["--documents", "page"], 2, "--documents is file, blank or line, not `page`"),
    (["--train-bytes", "1X"], 2, "--train-bytes needs a number of bytes"),
    (["--train-bytes", "9999999999G"], 2, "--train-bytes needs a number of bytes"),
    (["--tokenizer", "train:12", "--out", "OUT", "IN"], 2, "the size of the vocabulary goes from 257"),
    (["--tokenizer", "nowhere.json", "--out", "OUT", "IN"], 4, "nowhere.json"),
    (["--tokenizer", "bytes", "--out", "OUT", "missing.txt"], 4, "missing.txt: No such file or directory"),
    (["--tokenizer", "bytes", "--out", "OUT", "--key=body", "BAD"], 4, "line 2 has no key `body`; it has `text`"),
    (["--tokenizer", "bytes", "--out", "/proc/out", "IN"], 5, "cannot create the directory /proc/out"),
])
def test_bad_command_lines(tmp_path, arguments, status, message):
    (tmp_path / "in.txt").write_text("text")
    (tmp_path / "bad.jsonl").write_text('{"body": "a"}\n{"text": "b"}\n')
    names = {"OUT": tmp_path / "out", "IN": tmp_path / "in.txt", "BAD": tmp_path / "bad.jsonl"}
    command = [TRIREME, "prepare", "--json", *(str(names.get(a, a)) for a in arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == status
    assert message in done.stderr
    assert done.stdout == ""
    assert not (tmp_path / "out").exists()


def test_a_corpus_by_a_name_that_is_nearly_its_own(tmp_path):
    """The folder that `prepare --out` named, or one of its files."""
    (tmp_path / "in.txt").write_text("text " * 1000)
    prepare(tmp_path / "out", tmp_path / "in.txt")
    for name, said in (("out", "out is a folder; name a corpus in it: {0}/out/train, {0}/out/validation"), ("out/", "it: {0}/out/train, {0}/out/validation"),
                       ("out/train.bin", "a corpus is named without .bin or .idx; try {0}/out/train"),
                       ("out/trains", "cannot open {0}/out/trains.idx: No such file or directory (a corpus is named")):  # fmt: skip
        run = dict(model="gpt2-demo", data=dict(train=f"{tmp_path}/{name}"), optimizer=dict(global_batch=1, steps=1, lr=1e-3), output=str(tmp_path / "run"))
        (tmp_path / "run.yaml").write_text(yaml_of(run))
        done = subprocess.run([TRIREME, "train", tmp_path / "run.yaml"], capture_output=True, text=True)
        assert done.returncode == 4 and said.format(tmp_path) in done.stderr, done.stderr


def test_long_messages(tmp_path):
    """The error message of a thread is complete, also with a very long path."""
    deep = "/".join(15 * [200 * "d"])
    (tmp_path / deep).mkdir(parents=True)
    (tmp_path / deep / "text.jsonl").write_text('{"text": "a"}\n{"text": 3}\n')
    done = subprocess.run([TRIREME, "prepare", "--tokenizer", "bytes", "--out", "out", f"{deep}/text.jsonl"], cwd=tmp_path,
                          capture_output=True, text=True)
    assert done.returncode == 4 and done.stderr == f"trireme: {deep}/text.jsonl line 2: `text` is a number, not a string\n"


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU, signal.SIGALRM])
def test_a_schedulers_request(tmp_path, number):
    """A signal ends the program cleanly, and leaves the folder unchanged, also if it is sent several times."""
    (tmp_path / "out").mkdir()
    os.mkfifo(tmp_path / "text")
    process = subprocess.Popen([TRIREME, "prepare", "--tokenizer", "bytes", "--out", tmp_path / "out", "--documents", "line", tmp_path / "text"],
                               stderr=subprocess.PIPE, text=True)
    with pytest.raises(BrokenPipeError), open(tmp_path / "text", "wb", buffering=0) as pipe:
        for _ in range(3):
            pipe.write(b"The ship sails on.\n")
            process.send_signal(number)
        while True:
            pipe.write(b"The ship sails on.\n" * 1000)
    said = process.communicate()[1]
    assert process.returncode == 130 and f"interrupted; {tmp_path}/out was left as it was" in said
    assert not list((tmp_path / "out").glob("train*"))


def test_a_signal_ends_a_template(tmp_path):
    """A signal ends a template in the middle of a conversation that takes seconds, and not only after it."""
    (tmp_path / "long.jinja").write_text("{% for i in range(100000) %}{{ ('a' * 50000 ~ 'c') in ('a' * 100000) }}{% endfor %}")
    (tmp_path / "talk.jsonl").write_text(json.dumps(dict(messages=[dict(role="user", content="q"), dict(role="assistant", content="a")])) + "\n")
    process = subprocess.Popen([TRIREME, "prepare", "--chat", "--chat-template", tmp_path / "long.jinja", "--tokenizer", "bytes", "--out", tmp_path / "out",
                                tmp_path / "talk.jsonl"], stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not (tmp_path / "out").exists():
        time.sleep(0.01)
    time.sleep(0.5)
    process.terminate()
    said = process.communicate()[1]
    assert process.returncode == 130 and "interrupted" in said, said

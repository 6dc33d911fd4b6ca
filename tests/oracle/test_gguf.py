"""GGUF files and blocks of quantised weights beside PyPI's package `gguf`, whose results make_gguf_cases.py has recorded, to the bit."""
import base64
import json
import math
import os
import pathlib
import subprocess
import zlib

import numpy
import pytest

TOOL = pathlib.Path(os.environ["TRIREME_TOOLS"]) / "gguf_tool"
CASES = json.loads((pathlib.Path(__file__).parent / "gguf_cases.json").read_text())


def unpack(text):
    return zlib.decompress(base64.b64decode(text))


def tool(*words, data=b""):
    return subprocess.run([TOOL, *words], input=data, capture_output=True, check=True).stdout


def bits_of(values):
    """fp32 numbers as integers, with the same bits for every NaN."""
    bits = numpy.frombuffer(values, numpy.uint32).copy()
    bits[(bits & 0x7FFFFFFF) > 0x7F800000] = 0x7FC00000
    return bits


@pytest.mark.parametrize("name", CASES["encoded"]["blocks"])
def test_encoding(name):
    values, expected = unpack(CASES["encoded"]["values"]), unpack(CASES["encoded"]["blocks"][name])
    size = len(expected) * 32 // (len(values) // 4)  # bytes of 32 values
    got, expected = (numpy.frombuffer(data, numpy.uint8).reshape(-1, size) for data in (tool("encode", name, data=values), expected))
    assert len(got) == len(expected) and (got != expected).any(axis=1).nonzero()[0].tolist() == []


@pytest.mark.parametrize("name", CASES["decoded"])
def test_decoding(name):
    case = CASES["decoded"][name]
    got, expected = bits_of(tool("decode", name, data=unpack(case["blocks"]))), bits_of(unpack(case["values"]))
    assert len(got) == len(expected) and (got != expected).nonzero()[0].tolist() == []


def test_the_scale_of_zeros_in_q4_0():
    """ggml begins with a largest value of +0, whatever the signs of the zeros; the package takes the first of them."""
    for zero in (0.0, -0.0):
        assert tool("encode", "Q4_0", data=numpy.full(32, zero, numpy.float32).tobytes()) == b"\x00\x80" + b"\x88" * 16
        assert tool("encode", "Q8_0", data=numpy.full(32, zero, numpy.float32).tobytes()) == bytes(34)


@pytest.mark.parametrize("name, most", [("Q8_0", 1 / 254), ("Q4_0", 1 / 8)])
def test_a_round_trip_is_near(name, most):
    values = numpy.random.default_rng(3).standard_normal((100, 32)).astype(numpy.float32)
    again = numpy.frombuffer(tool("decode", name, data=tool("encode", name, data=values.tobytes())), numpy.float32).reshape(100, 32)
    assert (abs(again - values) <= abs(values).max(axis=1, keepdims=True) * (most + 2.0**-10)).all()


@pytest.fixture(name="path")
def fixture_path(tmp_path):
    (tmp_path / "model.gguf").write_bytes(unpack(CASES["file"]["file"]))
    return tmp_path / "model.gguf"


def test_a_file_is_read(path):
    shown = json.loads(tool("show", path))
    assert (shown["version"], shown["alignment"]) == (3, 32)
    assert shown["keys"] == CASES["file"]["keys"]
    assert list(shown["keys"]) == list(CASES["file"]["keys"]) and math.copysign(1, shown["keys"]["test.array.float64"][1][1]) == -1
    assert shown["tensors"] == CASES["file"]["tensors"]


def test_a_file_is_written(path, tmp_path):
    """The content of the file, written again, gives the bytes of the package's own writer."""
    tool("copy", path, tmp_path / "new.gguf")
    assert (tmp_path / "new.gguf").read_bytes() == path.read_bytes()

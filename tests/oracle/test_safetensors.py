"""Our safetensors reader and writer beside the format's own package, in both directions, and on what each refuses."""

import json
import os
import struct
import subprocess

import pytest

np = pytest.importorskip("numpy")
safetensors = pytest.importorskip("safetensors")
from safetensors import numpy as theirs  # noqa: E402

TOOL = os.path.join(os.environ["TRIREME_TOOLS"], "safetensors_tool")


def tool(*arguments):
    return subprocess.run([TOOL, *map(str, arguments)], capture_output=True, text=True)


def ours(*arguments):
    result = tool(*arguments)
    assert result.returncode == 0, result.stderr
    return result.stdout


def some_tensors(seed):
    """Tensors of every NumPy type that the format has, of shapes with 0, 1 and many dimensions."""
    random = np.random.default_rng(seed)
    tensors = {}
    types = ["float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
             "bool"]
    for number, name in enumerate(types):
        for shape in [(), (0,), (1,), (3, 0, 2), (7, 5), (2, 3, 4, 5)]:
            values = random.integers(0, 2 if name == "bool" else 100, size=shape).astype(name)
            tensors[f"{name}.{len(shape)}.{number} é \"{shape}\""] = values
    return tensors


def read_raw(path):
    with open(path, "rb") as file:
        data = file.read()
    length = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8:8 + length]), 8 + length, data


def assert_same(left, right):
    assert left.keys() == right.keys()
    for name in left:
        assert left[name].dtype == right[name].dtype and left[name].shape == right[name].shape, name
        assert left[name].tobytes() == right[name].tobytes(), name


def test_list_agrees_with_theirs(tmp_path):
    path = tmp_path / "theirs.safetensors"
    theirs.save_file(some_tensors(1), path, metadata={"format": "pt", "other": "x"})
    header, start, _ = read_raw(path)
    listed = json.loads(ours("list", path))
    assert listed.pop("__metadata__") == "pt"
    del header["__metadata__"]
    assert listed == {name: [entry["dtype"], entry["shape"], *(start + o for o in entry["data_offsets"])]
                      for name, entry in header.items()}


def test_they_read_what_we_write(tmp_path):
    tensors = some_tensors(2)
    theirs.save_file(tensors, tmp_path / "theirs", metadata={"format": "pt"})
    ours("copy", tmp_path / "theirs", tmp_path / "ours")
    assert_same(theirs.load_file(tmp_path / "ours"), tensors)
    with safetensors.safe_open(tmp_path / "ours", framework="np") as file:
        assert file.metadata() == {"format": "pt"}
    # The offset of every element is a multiple of its size, as in their files.
    header, start, _ = read_raw(tmp_path / "ours")
    assert start % 8 == 0
    for name, entry in header.items():
        if name != "__metadata__" and tensors[name].size > 0:
            assert (start + entry["data_offsets"][0]) % tensors[name].itemsize == 0


@pytest.mark.parametrize("tensors", [{}, {"empty": np.zeros((0, 3), "float32")}])
def test_nothing_to_write(tmp_path, tensors):
    theirs.save_file(tensors, tmp_path / "theirs")
    ours("copy", tmp_path / "theirs", tmp_path / "ours")
    assert_same(theirs.load_file(tmp_path / "ours"), tensors)


@pytest.mark.parametrize("to,numpy_type", [("fp32", "float32"), ("fp64", "float64")])
def test_conversions_agree_with_numpy(tmp_path, to, numpy_type):
    random = np.random.default_rng(3)
    every_half = np.arange(65536, dtype="uint16").view("float16").reshape(256, 256)
    tensors = {
        "f16": every_half,
        "f32": (random.standard_normal((99, 1001)) * 10.0 ** random.integers(-44, 38, (99, 1001))).astype("float32"),
        "f64": random.standard_normal((99, 1001)) * 10.0 ** random.integers(-330, 308, (99, 1001)),
    }
    theirs.save_file(tensors, tmp_path / "theirs")
    ours("convert", tmp_path / "theirs", tmp_path / "ours", to)
    with np.errstate(over="ignore"):
        wanted = {name: values.astype(numpy_type) for name, values in tensors.items()}
    got = theirs.load_file(tmp_path / "ours")
    for name in wanted:
        np.testing.assert_array_equal(got[name], wanted[name])  # NaN equals NaN here


def test_bf16_agrees_with_pytorch(tmp_path):
    torch = pytest.importorskip("torch")
    bits = np.arange(65536, dtype="uint16")
    header = json.dumps({"w": {"dtype": "BF16", "shape": [65536], "data_offsets": [0, 131072]}}).encode()
    (tmp_path / "bf16").write_bytes(struct.pack("<Q", len(header)) + header + bits.tobytes())
    wanted = torch.from_numpy(bits.view("int16").copy()).view(torch.bfloat16)
    for to, torch_type in [("fp32", torch.float32), ("fp64", torch.float64)]:
        ours("convert", tmp_path / "bf16", tmp_path / to, to)
        np.testing.assert_array_equal(theirs.load_file(tmp_path / to)["w"], wanted.to(torch_type).numpy())


def raw_file(header, data):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


GOOD = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
HOSTILE = {
    "no length": b"\x01\x00",
    "header beyond the file": struct.pack("<Q", 1000) + b"{}",
    "huge header": struct.pack("<Q", 1 << 62) + b"{}",
    "no JSON": raw_file(b"{\"a\": ", b""),
    "no object": raw_file(b"[]", b""),
    "unknown type": raw_file({"a": {**GOOD, "dtype": "F31"}}, bytes(8)),
    "negative size": raw_file({"a": {**GOOD, "shape": [-2]}}, bytes(8)),
    "fraction": raw_file({"a": {**GOOD, "shape": [2.5]}}, bytes(8)),
    "size and range differ": raw_file({"a": {**GOOD, "shape": [3]}}, bytes(8)),
    "overflowing product": raw_file({"a": {**GOOD, "shape": [1 << 40, 1 << 40]}}, bytes(8)),
    "backwards": raw_file({"a": {**GOOD, "data_offsets": [8, 0]}}, bytes(8)),
    "beyond the file": raw_file({"a": GOOD}, bytes(7)),
    "more than told": raw_file({"a": GOOD}, bytes(9)),
    "overlap": raw_file({"a": GOOD, "b": {**GOOD, "data_offsets": [4, 12]}}, bytes(12)),
    "hole": raw_file({"a": GOOD, "b": {**GOOD, "data_offsets": [9, 17]}}, bytes(17)),
    "metadata of numbers": raw_file({"__metadata__": {"a": 1}, "a": GOOD}, bytes(8)),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_both_refuse(tmp_path, what):
    path = tmp_path / "hostile"
    path.write_bytes(HOSTILE[what])
    with pytest.raises(Exception):
        theirs.load_file(path)
    result = tool("list", path)
    assert result.returncode == 1 and "hostile" in result.stderr and result.stdout == ""


def test_random_damage_of_headers(tmp_path):
    """If we accept a file after a change of a bit in its header, so do they, and both read the same offsets."""
    random = np.random.default_rng(5)
    path = tmp_path / "damaged"
    theirs.save_file({"a": np.arange(6, dtype="float32").reshape(2, 3), "b": np.arange(3, dtype="int64")}, path)
    _, start, data = read_raw(path)
    accepted = 0
    for _ in range(150):
        changed = bytearray(data)
        changed[random.integers(0, start)] ^= 1 << random.integers(0, 8)
        path.write_bytes(changed)
        result = tool("list", path)
        assert result.returncode in (0, 1), result
        if result.returncode == 1:
            continue
        accepted += 1
        listed = json.loads(result.stdout)
        del listed["__metadata__"]
        with safetensors.safe_open(path, framework="np") as file:
            assert set(file.keys()) == set(listed)
            for name in listed:
                assert file.get_slice(name).get_dtype() == listed[name][0]
                assert list(file.get_slice(name).get_shape()) == listed[name][1]
    assert accepted > 0  # a changed letter of a name is not damage that a reader could see

"""Makes gguf_cases.json: files and blocks as PyPI's package `gguf` makes and reads them. make_gguf_cases.py OUT, in an environment with gguf
and numpy."""
import base64
import importlib.metadata
import json
import os
import sys
import tempfile
import zlib

import gguf
import numpy
from gguf.quants import dequantize, quantize

ENCODED = ["Q8_0", "Q4_0", "F16", "BF16"]
DECODED = ["F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K"]
RANDOM = numpy.random.default_rng(7)


def text(data):
    return base64.b64encode(zlib.compress(bytes(data), 9)).decode()


def special_rows():
    """Rows of 32 for the encoders: zeros, denormals, ties, largest values, equal magnitudes, scales that fp16 cannot hold."""
    f = numpy.float32
    codes = numpy.arange(32, dtype=f) - f(15.5)
    ties = [numpy.concatenate([codes[:31], [f(scale)]]) for scale in (127, -127, 8, -8, 7.5, 16)]
    q4_ties = [numpy.concatenate([(numpy.arange(31, dtype=f) - f(15)) / f(2), [f(-8)]]) * f(s) for s in (1, -1, 2.0**-30, 3)]
    tiny = [RANDOM.integers(-127, 128, 32).astype(f) * f(2.0**-149), numpy.full(32, 2.0**-149, f), numpy.full(32, -(2.0**-126), f)]
    small = [RANDOM.standard_normal(32).astype(f) * f(2.0**-e) for e in (130, 127, 126, 120, 34, 24, 20, 14)]
    large = [numpy.full(32, numpy.finfo(f).max, f), numpy.linspace(-3e38, 3e38, 32).astype(f), numpy.linspace(-65504 * 127, 65504 * 127, 32).astype(f),
             numpy.linspace(-65504 * 8, 65504 * 8, 32).astype(f), numpy.full(32, 65520, f), numpy.full(32, -65519.996, f)]
    signs = [numpy.where(numpy.arange(32) % 2 == 0, f(3), f(-3)), numpy.where(numpy.arange(32) % 2 == 1, f(3), f(-3))]
    one = [numpy.eye(32, dtype=f)[i] * f(-1) ** i for i in range(0, 32, 5)]
    return numpy.stack([numpy.zeros(32, f), *ties, *q4_ties, *tiny, *small, *large, *signs, *one])


def encoded_cases():
    rows = numpy.concatenate([special_rows(), RANDOM.standard_normal((64, 32)).astype(numpy.float32) * numpy.float32(0.02),
                              RANDOM.integers(-(2**31), 2**31, (8, 32)).astype(numpy.float32)])
    # numpy leaves infinity as an integer open: rows of scales whose inverse is infinite are in the test, by their definition.
    with numpy.errstate(all="ignore"):
        return dict(values=text(rows.tobytes()), blocks={
            name: text(numpy.ascontiguousarray(quantize(rows, gguf.GGMLQuantizationType[name])).tobytes()) for name in ENCODED})


def special_blocks(size, halves):
    """Blocks with scales of all kinds at the offsets of their fp16 numbers, zeros, and ones."""
    out = [numpy.zeros(size, numpy.uint8), numpy.full(size, 255, numpy.uint8)]
    for bits in (0x0000, 0x8000, 0x0001, 0x83FF, 0x0400, 0x3C00, 0xBC01, 0x7BFF, 0xFBFF):
        block = RANDOM.integers(0, 256, size, dtype=numpy.uint8)
        for at in halves:
            block[at:at + 2] = numpy.frombuffer(bits.to_bytes(2, "little"), numpy.uint8)
        out.append(block)
    return out[:1] + out[2:] + [out[1]]


def decoded_cases():
    out = {}
    for name in DECODED:
        kind = gguf.GGMLQuantizationType[name]
        _, size = gguf.GGML_QUANT_SIZES[kind]
        if name in ("F16", "BF16"):
            blocks = numpy.arange(65536, dtype=numpy.uint16).view(numpy.uint8).reshape(-1, 2)[::29]
        else:
            halves = {"Q6_K": [208], "Q8_0": [0], "Q4_0": [0], "Q5_0": [0]}.get(name, [0, 2])
            random = RANDOM.integers(0, 256, (12, size), dtype=numpy.uint8)
            for at in halves:  # scales of both signs, between 2^-10 and 1
                random[:, at + 1] = (random[:, at + 1] & 0x83) | (5 + RANDOM.integers(0, 10, 12) << 2)
            blocks = numpy.concatenate([numpy.stack(special_blocks(size, halves)), random])
        blocks = numpy.ascontiguousarray(blocks)
        with numpy.errstate(all="ignore"):
            values = numpy.ascontiguousarray(dequantize(blocks, kind).astype(numpy.float32))
        values[numpy.isnan(values)] = numpy.nan
        out[name] = dict(blocks=text(blocks.tobytes()), values=text(values.tobytes()))
    return out


def write_file(path):
    writer = gguf.GGUFWriter(path, "llama")
    for bits in (8, 16, 32, 64):
        getattr(writer, f"add_uint{bits}")(f"test.uint{bits}", 2**min(bits, 63) - 1)
        getattr(writer, f"add_int{bits}")(f"test.int{bits}", -(2 ** (bits - 1)))
    writer.add_float32("test.float32", 0.1)
    writer.add_float64("test.float64", 0.1)
    writer.add_bool("test.true", True)
    writer.add_bool("test.false", False)
    writer.add_string("test.string", "gr\u00fc\u00df\u2713")
    writer.add_array("test.strings", ["a", "", "\u4e16\u754c", "x\0y"])
    writer.add_array("test.integers", [1, -2, 2**31 - 1])
    writer.add_array("test.floats", [0.5, -1e30])
    writer.add_array("test.bools", [True, False, True])
    for name, sub_type, values in (("uint8", "UINT8", [0, 255]), ("int64", "INT64", [-(2**63), 7]), ("float64", "FLOAT64", [0.1, -0.0])):
        writer.add_key_value(f"test.array.{name}", values, gguf.GGUFValueType.ARRAY, sub_type=gguf.GGUFValueType[sub_type])
    for kind, (elements, size) in gguf.GGML_QUANT_SIZES.items():
        rows = RANDOM.integers(0, 256, (3, 2 * size), dtype=numpy.uint8)
        writer.add_tensor(f"{kind.name.lower()}.weight", rows, raw_dtype=kind)
    writer.add_tensor("vector", numpy.arange(5, dtype=numpy.float32))
    writer.add_tensor("four", numpy.arange(2 * 3 * 5 * 7, dtype=numpy.float16).reshape(2, 3, 5, 7))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def plain(field):
    value = field.contents()
    name = field.types[-1].name.lower()
    return [name, [v if isinstance(v, str) else v.item() if hasattr(v, "item") else v for v in value] if isinstance(value, list) else value]


def file_case():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.gguf")
        write_file(path)
        reader = gguf.GGUFReader(path)
        keys = {name: plain(field) for name, field in reader.fields.items() if not name.startswith("GGUF.")}
        tensors = {t.name: dict(type=t.tensor_type.name, dims=[int(d) for d in t.shape], offset=int(t.data_offset), bytes=int(t.n_bytes)) for t in reader.tensors}
        with open(path, "rb") as file:
            return dict(file=text(file.read()), keys=keys, tensors=tensors)


def main():
    out = dict(version=importlib.metadata.version("gguf"), encoded=encoded_cases(), decoded=decoded_cases(), file=file_case())
    with open(sys.argv[1], "w") as file:
        json.dump(out, file, indent=0)
        file.write("\n")


if __name__ == "__main__":
    main()

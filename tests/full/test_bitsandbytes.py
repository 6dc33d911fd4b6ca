"""States of 8 bits beside bitsandbytes: its dynamic map, to the last bits of fp32, and its codes for a map of equal numbers.

Its path for fp32 on CPUs looks codes up by 16 bits of the number, which is too coarse for small ones; that for other types
compares with every number of the map, as its kernels for GPUs do."""
import os
import pathlib
import subprocess

import numpy
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("bitsandbytes")
from bitsandbytes.functional import create_dynamic_map  # noqa: E402

TOOL = pathlib.Path(os.environ["TRIREME_TOOLS"]) / "quantised_tool"
BLOCK = 256


def quantised(device, with_sign, values):
    done = subprocess.run([TOOL, device, "signed" if with_sign else "unsigned"], input=values.tobytes(), capture_output=True, check=True)
    return [numpy.array(line.split(), numpy.float32) for line in done.stdout.decode().splitlines()]


def drawn(with_sign, count):
    random = numpy.random.default_rng(7)
    values = (random.standard_normal(count) * 10.0 ** -random.integers(0, 8, count)).astype(numpy.float32)
    return values if with_sign else abs(values)


@pytest.mark.parametrize("with_sign", [True, False])
@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_codes(device, with_sign):
    values = drawn(with_sign, 1000 * BLOCK + 77)
    numbers, codes, scales = quantised(device, with_sign, values)
    theirs = create_dynamic_map(signed=with_sign).numpy()
    assert abs(numbers - theirs).max() <= 2e-7 and (abs(numbers - theirs) <= 3e-7 * abs(theirs)).all()
    tensor = torch.tensor(values).double()
    expected, largest = torch.ops.bitsandbytes.quantize_blockwise(tensor, torch.tensor(numbers), BLOCK)
    assert (scales == largest.numpy()).all()
    differ = numpy.flatnonzero(codes != expected.numpy())
    # Only where two numbers are as near as fp32 can tell.
    x = values[differ] * (numpy.float32(1) / scales[differ // BLOCK])
    apart = abs(abs(x - numbers[codes[differ].astype(int)]) - abs(x - numbers[expected.numpy()[differ]]))
    assert (apart <= 2.0**-22 * abs(x)).all() and len(differ) <= 100


@pytest.mark.parametrize("with_sign", [True, False])
def test_stored_codes(with_sign):
    """The numbers of tests/unit/test_optimizer_kernels.c, whose codes are in tests/unit/bitsandbytes_codes.h."""
    i = numpy.arange(5 * BLOCK + 77, dtype=numpy.uint64)
    word = (i + 1) * 2654435761 % 2**32
    values = ((word / 2**31 - 1) * numpy.array([1.0, 0.1, 0.01, 0.001, 0.0001, 0.00001])[(i % 6).astype(int)]).astype(numpy.float32)
    values = values if with_sign else abs(values)
    codes, _ = torch.ops.bitsandbytes.quantize_blockwise(torch.tensor(values).double(), create_dynamic_map(signed=with_sign), BLOCK)
    header = (pathlib.Path(__file__).parent.parent / "unit" / "bitsandbytes_codes.h").read_text()
    text = header.split(f"bitsandbytes_{'signed' if with_sign else 'unsigned'}[] =")[1].split(";")[0]
    assert codes.numpy().astype(numpy.uint8).tobytes().hex() == "".join(text.replace('"', " ").split())

"""Weights in 4 bits beside the definition (QLoRA, sections 2 and 3, and bitsandbytes' numbers) written in numpy: each code is
the nearest of all numbers, found by comparing with every one of them, and every bit that is kept is the definition's."""
import os
import pathlib
import subprocess
from fractions import Fraction

import numpy
import pytest

TOOL = pathlib.Path(os.environ["TRIREME_TOOLS"]) / "nf4_tool"
BLOCK, GROUP = 64, 256
NF4 = numpy.array([
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
    -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0], numpy.float32)


def dynamic_map():
    """Signed: 0, 1, and the middles of 2^(6 - e) equal parts of [0.1, 1], times 10^-e, of both signs; exact, and then rounded."""
    numbers = [Fraction(0), Fraction(1)]
    for e in range(7):
        parts = 2 ** (6 - e)
        middles = [(Fraction(1, 10) + Fraction(9, 10) * Fraction(2 * k + 1, 2 * parts)) / 10**e for k in range(parts)]
        numbers += [*middles, *(-m for m in middles)]
    return numpy.array([float(n) for n in sorted(numbers)]).astype(numpy.float32)


def nearest(numbers, x):
    """Returns the index of the nearest number for each of x, and the distances to all numbers."""
    apart = abs(x[:, None].astype(numpy.float64) - numbers[None, :].astype(numpy.float64))
    return apart.argmin(axis=1), apart


def is_nearest(numbers, codes, x):
    """Returns whether the codes are the nearest ones, except for the rounding of the middles to fp32."""
    best, apart = nearest(numbers, x)
    mine = apart[numpy.arange(len(x)), codes]
    return (mine <= apart[numpy.arange(len(x)), best] + 2.0**-24 * numpy.maximum(abs(x), 2.0**-20)).all() and (codes != best).mean() <= 0.02


def narrow(values, kind):
    """Returns the bytes of the values in the type, and these values as fp32."""
    if kind == "fp64":
        return values.tobytes(), values.astype(numpy.float32)
    if kind == "fp32":
        return values.astype(numpy.float32).tobytes(), values.astype(numpy.float32)
    bits = to_bf16(values.astype(numpy.float32))
    return bits.tobytes(), (bits.astype(numpy.uint32) << 16).view(numpy.float32)


def to_bf16(values):
    bits = values.view(numpy.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(numpy.uint16)


def lines(count):
    return (count + 63) // 64 * 64


def kept_of(device, kind, data, count):
    """Codes of elements, codes of largest magnitudes, scales, offset; and the bytes that come of them."""
    out = subprocess.run([TOOL, device, kind], input=data, capture_output=True, check=True).stdout
    blocks = -(-count // BLOCK)
    scales = lines(32 * blocks) + lines(blocks)
    offset = scales + 4 * -(-blocks // GROUP)
    packed = numpy.frombuffer(out, numpy.uint8, 32 * blocks)
    codes = numpy.stack([packed >> 4, packed & 15], axis=1).reshape(-1)
    assert (codes[count:] == 7).all()
    largest = numpy.frombuffer(out, numpy.uint8, blocks, lines(32 * blocks))
    return codes[:count], largest, numpy.frombuffer(out, numpy.float32, (offset - scales) // 4, scales), numpy.frombuffer(
        out, numpy.float32, 1, offset)[0], out[offset + 4:]


def drawn(count):
    random = numpy.random.default_rng(count)
    values = random.standard_normal(count) * 0.02 * 2.0 ** -random.integers(0, 4, -(-count // BLOCK)).repeat(BLOCK)[:count]
    values[random.random(count) < 0.05] = 0
    return values


# fp64 is for the devices that have it.
KINDS = [("reference", "fp64"), ("reference", "bf16"), ("reference", "fp32"), ("cpu", "bf16"), ("cpu", "fp32"), ("guarded", "fp32"),
         ("emulated", "bf16"), ("emulated", "fp64")]


@pytest.mark.parametrize("count", [1, 63, 64, 1001, GROUP * BLOCK, GROUP * BLOCK + 77])
@pytest.mark.parametrize("device,kind", KINDS)
def test_definition(device, kind, count):
    data, values = narrow(drawn(count), kind)
    codes, largest_codes, scales, offset, again = kept_of(device, kind, data, count)
    blocks = len(largest_codes)
    padded = numpy.zeros(blocks * BLOCK, numpy.float32)
    padded[:count] = values
    largest = abs(padded.reshape(-1, BLOCK)).max(axis=1)
    # Codes of elements.
    inverse = numpy.float32(1) / numpy.maximum(largest, numpy.float32(1e-38))
    assert is_nearest(NF4, codes, values * inverse.repeat(BLOCK)[:count])
    # The largest magnitudes, minus their mean, are quantised in blocks, too.
    assert offset == numpy.float32(largest.astype(numpy.float64).mean())
    less = largest - offset
    groups = numpy.zeros(len(scales) * GROUP, numpy.float32)
    groups[:blocks] = less
    assert (scales == abs(groups.reshape(-1, GROUP)).max(axis=1)).all()
    numbers = dynamic_map()
    scale = scales.repeat(GROUP)[:blocks]
    kept = scale > 0
    assert not kept.any() or is_nearest(numbers, largest_codes[kept], less[kept] * (numpy.float32(1) / scale[kept]))
    # Back, of the codes that are there: to the bit.
    expected = NF4[codes] * (numbers[largest_codes] * scale + offset).repeat(BLOCK)[:count]
    if kind == "bf16":
        bits = numpy.frombuffer(again, numpy.uint16)
        assert (bits == to_bf16(expected)).all()
        got = (bits.astype(numpy.uint32) << 16).view(numpy.float32)
    else:
        got = numpy.frombuffer(again, {"fp32": numpy.float32, "fp64": numpy.float64}[kind])
        assert (got == expected).all()
    assert abs(got - values).max() <= 0.16 * largest.max()

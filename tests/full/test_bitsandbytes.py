"""States of 8 bits beside bitsandbytes: its dynamic map, to the last bits of fp32, and its codes for a map of equal numbers.
And weights in 4 bits: its codes, its largest magnitudes and what it makes of them again.

Its path for fp32 on CPUs looks codes up by 16 bits of the number, which is too coarse for small ones; that for other types
compares with every number of the map, as its kernels for GPUs do."""
import json
import os
import pathlib
import struct
import subprocess

import numpy
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("bitsandbytes")
from bitsandbytes.functional import create_dynamic_map  # noqa: E402

TOOLS = pathlib.Path(os.environ["TRIREME_TOOLS"])
TOOL = TOOLS / "quantised_tool"
UNIT = pathlib.Path(__file__).parent.parent / "unit"
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
    header = (UNIT / "bitsandbytes_codes.h").read_text()
    text = header.split(f"bitsandbytes_{'signed' if with_sign else 'unsigned'}[] =")[1].split(";")[0]
    assert codes.numpy().astype(numpy.uint8).tobytes().hex() == "".join(text.replace('"', " ").split())


def lines(count):
    return (count + 63) // 64 * 64


def kept_in_4_bits(device, values):
    """Packed codes, codes of the largest magnitudes, scales, offset and the values that come of them, as device/nf4.h lays them."""
    kind, data = ("fp32", values.numpy()) if values.dtype == torch.float32 else ("bf16", values.view(torch.int16).numpy())
    out = subprocess.run([TOOLS / "nf4_tool", device, kind], input=data.tobytes(), capture_output=True, check=True).stdout
    count = values.numel()
    blocks = -(-count // 64)
    scales = lines(32 * blocks) + lines(blocks)
    offset = scales + 4 * -(-blocks // 256)
    again = torch.tensor(numpy.frombuffer(out, data.dtype, count, offset + 4))
    part = lambda kind, count, begin: torch.tensor(numpy.frombuffer(out, kind, count, begin))  # noqa: E731
    return (part(numpy.uint8, (count + 1) // 2, 0), part(numpy.uint8, blocks, lines(32 * blocks)), part(numpy.float32, (offset - scales) // 4, scales),
            part(numpy.float32, 1, offset), again.view(values.dtype))


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("count", [64 * 256 * 5, 64 * 256 * 5 + 64 * 13 + 34])
@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_4_bits(device, count, kind):
    random = numpy.random.default_rng(8)
    sizes = (2.0 ** -random.integers(0, 4, -(-count // 64))).repeat(64)[:count]
    values = torch.tensor(random.standard_normal(count) * 0.02 * sizes).to(kind)
    codes, largest, scales, offset, again = kept_in_4_bits(device, values)
    theirs, absmax = torch.ops.bitsandbytes.quantize_4bit(values, 64, "nf4", torch.uint8)
    # The last block, where it is not whole, they divide by its largest magnitude instead of multiplying: as near.
    whole = count // 64 * 32
    assert (codes[:whole] == theirs.reshape(-1)[:whole]).all()
    assert (codes != theirs.reshape(-1)).sum() <= 1
    # Their mean is a sum of fp32 in an order of the machine's; what follows is compared for ours.
    assert abs(offset - absmax.mean()) <= 1e-6 * offset
    numbers = torch.tensor(quantised("cpu", True, numpy.zeros(1, numpy.float32))[0])
    nested, nested_absmax = torch.ops.bitsandbytes.quantize_blockwise((absmax - offset).double(), numbers, 256)
    assert (scales == nested_absmax).all()
    assert (largest != nested.to(torch.uint8)).sum() <= len(largest) // 500  # as near as fp32 can tell
    kept = torch.ops.bitsandbytes.dequantize_blockwise(largest, scales, numbers, 256, torch.float32) + offset
    expected = torch.ops.bitsandbytes.dequantize_4bit(codes.reshape(-1, 1), kept, 64, "nf4", [count], kind)
    assert (again == expected.reshape(-1)).all()


def test_stored_4_bits():
    """tests/unit/bitsandbytes_nf4.h has the results of bitsandbytes for the numbers of tests/unit/test_nf4.c."""
    i = numpy.arange(1357, dtype=numpy.uint64)
    u = (i + 1) * 2654435761 % 2**32 / 2**31 - 1
    values = torch.tensor((u * u * u * 0.02 * (1.0 + (i // 64 % 7))).astype(numpy.float32))
    codes, absmax = torch.ops.bitsandbytes.quantize_4bit(values, 64, "nf4", torch.uint8)
    offset = absmax.double().mean().float()  # theirs is a sum in fp32, whose order depends on the machine
    nested, scales = torch.ops.bitsandbytes.quantize_blockwise((absmax - offset).double(), create_dynamic_map(), 256)
    nested = nested.to(torch.uint8)
    kept = torch.ops.bitsandbytes.dequantize_blockwise(nested, scales.float(), create_dynamic_map(), 256, torch.float32) + offset
    again = torch.ops.bitsandbytes.dequantize_4bit(codes, kept, 64, "nf4", [1357], torch.bfloat16)
    header = (UNIT / "bitsandbytes_nf4.h").read_text()
    text = lambda name: "".join(header.split(f"nf4_{name}[] =")[1].split(";")[0].replace('"', " ").split())  # noqa: E731
    assert text("codes") == codes.numpy().tobytes().hex() and text("largest") == nested.numpy().tobytes().hex()
    assert text("values") == again.reshape(-1).view(torch.int16).numpy().astype(">i2").tobytes().hex()
    number = lambda name: float.fromhex(header.split(f"nf4_{name} = ")[1].split("F")[0])  # noqa: E731
    assert number("scale") == scales.item() and number("offset") == offset.item()


# ---- folders ---------------------------------------------------------------------------------------------------------


def written(folder, words, **settings):
    """A small Llama as transformers writes it, and what `export` makes of it. Rows are of whole blocks of 64, without which bitsandbytes'
    kernel for CPUs does not undo what it has made."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(3)
    config = transformers.LlamaConfig(vocab_size=257, hidden_size=128, intermediate_size=192, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                                      max_position_embeddings=64, initializer_range=0.2, **settings)
    transformers.LlamaForCausalLM(config).save_pretrained(folder / "base")
    subprocess.run([os.environ["TRIREME"], "export", folder / "base", folder / "ours", *words], check=True)
    return transformers


def logits(transformers, folder, training=True):
    """With `training` bitsandbytes makes matrices whole before products; without, it packs codes for the CPU."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, device_map="cpu").train(training)
    with torch.no_grad():
        return model, model((torch.arange(60)[None] * 37 + 5) % 257).logits


@pytest.mark.parametrize("tied", [False, True])
def test_transformers_loads_what_is_exported(tmp_path, tied):
    """Its logits are those of the same values written whole, which is what is computed with here (tests/full/test_families.py)."""
    transformers = written(tmp_path, ["--quantised", "--shard-bytes", "200000"], tie_word_embeddings=tied)
    subprocess.run([os.environ["TRIREME"], "export", tmp_path / "ours", tmp_path / "values"], check=True)
    model, theirs = logits(transformers, tmp_path / "ours")
    kinds = {name: type(module).__name__ for name, module in model.named_modules() if name.endswith(("_proj", "lm_head"))}
    assert len(kinds) == 15 and all(kind == ("Linear" if name == "lm_head" else "Linear4bit") for name, kind in kinds.items())
    _, expected = logits(transformers, tmp_path / "values")
    assert abs(theirs - expected).max() <= 1e-5 * abs(expected).max()
    _, base = logits(transformers, tmp_path / "base")
    assert abs(theirs - base).max() > 1e-2 * abs(base).max(), "this test sees nothing"
    # If transformers quantises the base itself, only the mean that is subtracted from the magnitudes differs.
    settings = transformers.BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=torch.float32)
    own = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "base", quantization_config=settings, device_map="cpu").train()
    ids = (torch.arange(60)[None] * 37 + 5) % 257
    with torch.no_grad():
        assert abs(own(ids).logits - theirs).max() <= 1e-2 * abs(base).max()
    # And what it saves is read here.
    own.save_pretrained(tmp_path / "theirs")
    subprocess.run([os.environ["TRIREME"], "export", tmp_path / "theirs", tmp_path / "their values"], check=True)
    with torch.no_grad():
        _, again = logits(transformers, tmp_path / "their values")
        assert abs(own(ids).logits - again).max() <= 1e-5 * abs(again).max()


def test_loss_of_what_is_exported(tmp_path):
    """Ours of the folder as it is, and transformers'."""
    transformers = written(tmp_path, ["--quantised"])
    ids = (torch.arange(49) * 37 + 5) % 257
    (tmp_path / "window.bin").write_bytes(ids.int().numpy().tobytes())
    (tmp_path / "window.idx").write_bytes(b"MMIDIDX\0\0" + struct.pack("<QBQQiqqq", 1, 4, 1, 2, len(ids), 0, 0, 1))
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "ours", dtype=torch.float32, device_map="cpu").train()
    with torch.no_grad():
        theirs = model(ids[None].long(), labels=ids[None].long()).loss.item()
    words = ["eval", tmp_path / "ours", tmp_path / "window", "--sequence", "48", "--precision", "fp32", "--json"]
    ours = json.loads(subprocess.run([os.environ["TRIREME"], *words], check=True, capture_output=True, text=True).stdout)["loss"]
    assert abs(ours / theirs - 1) <= 1e-6

"""Several sequences side by side: prompts of unequal length, and ends of their own. Each gets the logits that it gets alone, to the bit,
on any number of threads, whatever its neighbours are; and those of a forward over all of it (models.py in double)."""

import models
import numpy
import pytest
import test_expert_models
import test_families
import test_parity
import torch
from parity import Weights, device_for, relative, tool

PLAN = numpy.array([[5, 17], [1, 4], [9, 17], [2, 16], [1, 1], [9, 12], [5, 5], [17, 17]], numpy.int32)  # [sequence, 2]: length of its prompt, length
LENGTH = 17
DENSE = {name: model for name, model, _, sequence, _ in test_parity.CASES if sequence > LENGTH}
DENSE.update({"gpt2 wide": dict(family="gpt2", num_layers=1, hidden_size=264, num_heads=4, vocab_size=149, max_sequence=20),
              "llama wide": dict(family="llama", num_layers=1, hidden_size=264, num_heads=4, num_kv_heads=2, ffn_size=331, vocab_size=145, max_sequence=20)})
EXPERTS = ["mixtral", "qwen3_moe, first dense, head size apart", "olmoe", "dots1, groups"]
DEVICES = [("reference", "fp64", 1e-12), ("cpu", "fp32", 2e-5), ("cpu", "bf16", 3e-2)]
DEVICES = [(device_for(device, precision), precision, limit) for device, precision, limit in DEVICES]


def rows_of(folder, weights, device, precision, ids, plan, threads=2):
    """Logits [rows, length, vocabulary] through one generator."""
    tokens, lengths, out = folder / "ids.bin", folder / "plan.bin", folder / "rows.bin"
    ids.astype(numpy.int32).tofile(tokens)
    plan.astype(numpy.int32).tofile(lengths)
    tool("rows", weights.model_file, device, precision, threads, *ids.shape, weights.file, tokens, lengths, out)
    return numpy.fromfile(out).reshape(*ids.shape, -1)


def alone(folder, weights, device, precision, ids, plan, threads=2):
    return numpy.concatenate([rows_of(folder, weights, device, precision, ids[i : i + 1], plan[i : i + 1], threads) for i in range(len(ids))])


def made(plan):
    """[rows, length]: where there are logits."""
    at = numpy.arange(LENGTH)
    return (at >= plan[:, :1] - 1) & (at < plan[:, 1:])


def check(folder, weights, vocabulary, expected=None, devices=DEVICES):
    ids = numpy.random.default_rng(3).integers(0, vocabulary, (len(PLAN), LENGTH))
    for device, precision, limit in devices:
        together = rows_of(folder, weights, device, precision, ids, PLAN)
        assert (numpy.isfinite(together[:, :, 0]) == made(PLAN)).all()
        same = numpy.array_equal if device in ("reference", "cpu") else close
        assert same(together, alone(folder, weights, device, precision, ids, PLAN), equal_nan=True), (device, precision)
        if expected is not None:
            whole = expected(ids)
            assert relative(together[made(PLAN)], whole[made(PLAN)]) <= limit, (device, precision)


def close(a, b, equal_nan):
    return numpy.allclose(a, b, rtol=1e-9, atol=1e-9, equal_nan=equal_nan)


@pytest.mark.parametrize("name", [name for name in DENSE if "dynamic" not in name])
def test_rows_are_by_themselves(tmp_path, name):
    model = DENSE[name]
    weights = Weights(tmp_path, model)

    def expected(ids):
        with torch.no_grad():
            return models.logits(model, weights.tensors(), torch.tensor(ids)).numpy()

    check(tmp_path, weights, model["vocab_size"], expected)


@pytest.mark.parametrize("name", EXPERTS)
def test_rows_of_experts(tmp_path, name):
    model = test_expert_models.CASES[name][0]
    weights = Weights(tmp_path, model)
    check(tmp_path, weights, model["vocab_size"], devices=DEVICES[:2])


@pytest.mark.parametrize("name", ["gemma2", "gemma3", "phi3", "gpt_neox", "falcon, 40B", "granite", "opt", "smollm3, windows"])
def test_rows_of_families(tmp_path, name):
    weights = test_families.weights_of(tmp_path, name)
    check(tmp_path, weights, test_families.CASES[name]["config"]["vocab_size"], devices=DEVICES[:2])


@pytest.mark.parametrize("name", ["gpt2 wide", "llama wide"])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_threads_and_vector_units(tmp_path, name, precision):
    """The number of threads changes no bit, nor how many others there are: up to more than are read in one run."""
    weights = Weights(tmp_path, DENSE[name])
    plan = numpy.array([[(1, 3, 5)[i % 3], 5] for i in range(300)], numpy.int32)
    ids = numpy.random.default_rng(5).integers(0, DENSE[name]["vocab_size"], (len(plan), 5))
    for unit in ("cpu", "cpu:avx2", "cpu:baseline"):
        one = rows_of(tmp_path, weights, unit, precision, ids, plan, 1)
        for rows, threads in ((300, 5), (257, 2), (65, 2), (64, 5), (37, 1), (1, 4)):
            assert numpy.array_equal(rows_of(tmp_path, weights, unit, precision, ids[:rows], plan[:rows], threads), one[:rows], equal_nan=True)


PIECED = {
    "gpt2": dict(family="gpt2", num_layers=2, hidden_size=64, num_heads=4, vocab_size=149, max_sequence=300),
    "llama": dict(family="llama", num_layers=2, hidden_size=72, num_heads=6, num_kv_heads=2, ffn_size=131, vocab_size=145, max_sequence=300),
    "windows": dict(family="llama", num_layers=2, hidden_size=64, num_heads=4, num_kv_heads=2, ffn_size=99, vocab_size=131, max_sequence=300, window=70),
    "experts": {**test_expert_models.CASES["mixtral"][0], "max_sequence": 300},
}


@pytest.mark.parametrize("name", PIECED)
@pytest.mark.parametrize("device, precision", [("cpu", "fp32"), ("cpu", "bf16"), ("cpu:baseline", "fp32"), ("reference", "fp64")])
def test_pieces(tmp_path, name, device, precision):
    """A position's logits have the bits that they have when everything before it is read at once, whatever the pieces are."""
    model, count = PIECED[name], 300 if device != "reference" else 90
    weights, tokens, out = Weights(tmp_path, model), tmp_path / "ids.bin", tmp_path / "logits.bin"
    ids = numpy.random.default_rng(11).integers(0, model["vocab_size"], count).astype(numpy.int32)

    def logits(piece, length):
        ids[:length].tofile(tokens)
        tool("logits", weights.model_file, device, precision, piece, length, weights.file, tokens, out)
        return numpy.fromfile(out).reshape(-1, model["vocab_size"])

    by_one = logits(1, count)
    for piece in (7, 64, 70, count):
        ends = numpy.minimum(numpy.arange(1, -(-count // piece) + 1) * piece, count) - 1
        assert numpy.array_equal(logits(piece, count), by_one[ends]), piece
    for length in (2, 17, 65, count - 3):
        assert numpy.array_equal(logits(length, length)[0], by_one[length - 1]), length


def test_positions_that_go_by_the_prompt(tmp_path):
    """Dynamic rotary positions: prompts of one length beyond the model's own, or any below it."""
    model = DENSE["llama dynamic"]
    weights = Weights(tmp_path, {**model, "rope_scaling": {**test_parity.DYNAMIC, "original_max_sequence": 6}})
    ids = numpy.random.default_rng(7).integers(0, model["vocab_size"], (3, LENGTH))
    device, precision, _ = DEVICES[0]
    for prompts in ([9, 9, 9], [2, 6, 1]):
        plan = numpy.array([[prompt, LENGTH] for prompt in prompts], numpy.int32)
        together = rows_of(tmp_path, weights, device, precision, ids, plan)
        assert numpy.array_equal(together, alone(tmp_path, weights, device, precision, ids, plan), equal_nan=True)

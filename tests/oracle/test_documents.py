"""Documents that share a sequence and do not see each other (data.documents: masked), and sequences that whole documents are
packed into (data.packing: documents). Oracles: plain PyTorch with a mask and positions that begin again (models.py), each
document alone in a row, and best-fit decreasing, written out piece by piece."""
import json
import os
import struct
import subprocess

import models
import numpy
import pytest
import torch
from parity import TRIREME, Weights, device_for, tool, trireme, yaml_of

GPT2 = dict(family="gpt2", num_layers=2, hidden_size=24, num_heads=3, vocab_size=61, max_sequence=80)
LLAMA = dict(family="llama", num_layers=2, hidden_size=24, num_heads=4, num_kv_heads=2, ffn_size=40, vocab_size=53, max_sequence=80)
STRETCHED = dict(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_sequence=32)
MODELS = [GPT2, LLAMA, {**LLAMA, "num_kv_heads": 4, "rope_scaling": STRETCHED, "attention_bias": True}]
NAMES = ["gpt2", "llama", "llama stretched"]

# Lengths of the documents of each row of 70 tokens.
ROWS = [
    ("mixed", [[30, 1, 1, 25, 13], [64, 6], [3, 67]]),
    ("one token each", [[1] * 70, [1] * 70]),
    ("one document", [[70], [70]]),
    ("tiles", [[64, 1, 5], [63, 7], [65, 5], [1, 64, 5]]),
    ("side by side", [[1, 69], [69, 1], [35, 35], [70]]),
]
# device, precision, limit
DEVICES = [("reference", "fp64", 1e-11), ("guarded", "fp64", 1e-11), ("emulated", "fp64", 1e-10), ("emulated:warp=64", "fp32", 1e-5),
           ("cpu", "fp32", 1e-5), ("cpu", "bf16", 2.5e-2)]


def positions_of(rows):
    return numpy.array([[p for length in row for p in range(length)] for row in rows])


def tokens_of(model, rows, seed=1):
    chance = numpy.random.default_rng(seed)
    positions = positions_of(rows)
    ids = chance.integers(0, model["vocab_size"], positions.shape)
    labels = chance.integers(0, model["vocab_size"], positions.shape)
    labels[chance.random(positions.shape) < 0.1] = -1
    labels[0, : rows[0][0]] = -1  # a document without any label that counts
    labels[0, -1] = 1
    return ids, labels, positions


def largest_error(found, expected):
    whole = numpy.sqrt(sum(numpy.linalg.norm(g) ** 2 for g in expected.values()))
    return max(numpy.linalg.norm(found[name] - g) / max(numpy.linalg.norm(g), 1e-3 * whole) for name, g in expected.items())


@pytest.mark.parametrize("rows", [r for _, r in ROWS], ids=[n for n, _ in ROWS])
@pytest.mark.parametrize("model", MODELS, ids=NAMES)
def test_gradients(tmp_path, model, rows):
    weights = Weights(tmp_path, model)
    ids, labels, positions = tokens_of(model, rows)
    tensors = weights.tensors()
    loss = models.loss(model, tensors, torch.tensor(ids), torch.tensor(labels), torch.tensor(positions))
    loss.backward()
    expected = {name: t.grad.numpy() for name, t in tensors.items()}
    for device, precision, limit in DEVICES:
        if "emulated" in device and rows is not ROWS[0][1]:
            continue  # slow
        got, found = weights.gradients(device, precision, ids, labels, 1, positions=positions)
        assert abs(got["loss"] - loss.item()) <= limit * abs(loss.item()), (device, precision)
        assert largest_error(found, expected) <= limit, (device, precision)


@pytest.mark.parametrize("model", MODELS, ids=NAMES)
@pytest.mark.parametrize("rows", [r for _, r in ROWS], ids=[n for n, _ in ROWS])
def test_packed_is_each_document_alone(tmp_path, model, rows):
    """Loss and every gradient to 1e-12, in double: documents side by side, and one a row, filled up with what does not count."""
    weights = Weights(tmp_path, model)
    ids, labels, positions = tokens_of(model, rows)
    documents = [(r, sum(row[:d]), length) for r, row in enumerate(rows) for d, length in enumerate(row)]
    longest = max(length for _, _, length in documents)
    alone = numpy.zeros((len(documents), longest), int)
    alone_labels = numpy.full_like(alone, -1)
    for i, (row, first, length) in enumerate(documents):
        alone[i, :length] = ids[row, first : first + length]
        alone_labels[i, :length] = labels[row, first : first + length]
    device = device_for("reference", "fp64")
    one, packed = weights.gradients(device, "fp64", ids, labels, 1, positions=positions)
    two, each = weights.gradients(device, "fp64", alone, alone_labels, 1)
    assert abs(one["loss"] - two["loss"]) <= 1e-12 * abs(two["loss"])
    assert largest_error(packed, each) <= 1e-12


def test_one_document_is_joined_to_the_bit(tmp_path):
    """Positions that never begin again give what is computed without any, on every device."""
    for model in (GPT2, LLAMA):
        weights = Weights(tmp_path, model)
        ids, labels, positions = tokens_of(model, [[70], [70]])
        for device, precision, _ in DEVICES:
            if "emulated" in device:
                continue
            one, masked = weights.gradients(device, precision, ids, labels, 2, positions=positions)
            two, joined = weights.gradients(device, precision, ids, labels, 2)
            assert one == two
            assert all(numpy.array_equal(masked[name], joined[name]) for name in joined), (device, precision)


# ---- samples ---------------------------------------------------------------------------------------------------------

EOT = 7


def write_corpus(prefix, documents, sequences=None, entries=None):
    """A corpus as Megatron-LM writes it, of uint16: one sequence a document unless told otherwise."""
    tokens = numpy.concatenate([numpy.asarray(d, numpy.uint16) for d in documents])
    tokens.tofile(str(prefix) + ".bin")
    sizes = [len(d) for d in documents] if sequences is None else sequences
    starts = numpy.concatenate([[0], numpy.cumsum(sizes)[:-1]]) * 2
    entries = range(len(sizes) + 1) if entries is None else entries
    with open(str(prefix) + ".idx", "wb") as f:
        f.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, len(sizes), len(entries)))
        f.write(numpy.asarray(sizes, numpy.int32).tobytes() + numpy.asarray(starts, numpy.int64).tobytes())
        f.write(numpy.asarray(entries, numpy.int64).tobytes())
    return str(prefix)


def draw_documents(chance, lengths):
    """Random ids, none of which is EOT, but the last of each."""
    out = []
    for length in lengths:
        ids = chance.integers(10, 60, length)
        ids[-1] = EOT
        out.append(ids)
    return out


def samples_of(tmp_path, prefix, sequence, seed, count, documents, packing, end=-1):
    out = tmp_path / "samples.bin"
    told = tool("samples", prefix, sequence, 64, seed, count, out, documents, packing, end)
    return told["per_epoch"], numpy.fromfile(out, numpy.int32).reshape(count, 3, sequence)


def split(ids, labels, positions):
    """The documents of a sample."""
    starts = [t for t in range(len(ids)) if positions[t] == 0] + [len(ids)]
    return [(ids[a:b], labels[a:b]) for a, b in zip(starts, starts[1:])]


@pytest.mark.parametrize("by", ["index", "token"])
def test_masked_windows(tmp_path, by):
    chance = numpy.random.default_rng(5)
    documents = draw_documents(chance, [1, 1, 5, 40, 1, 16, 17, 90, 2, 3, 33])
    stream = numpy.concatenate(documents)
    starts = set(numpy.concatenate([[0], numpy.cumsum([len(d) for d in documents])]).tolist())
    prefix = write_corpus(tmp_path / "c", documents, *([] if by == "index" else [[len(stream)]]))
    per_epoch, samples = samples_of(tmp_path, prefix, 16, 3, 60, "masked", "windows", -1 if by == "index" else EOT)
    joined_per_epoch, joined = samples_of(tmp_path, prefix, 16, 3, 60, "joined", "windows")
    assert per_epoch == joined_per_epoch == (len(stream) - 1) // 16
    assert (samples[:, 0] == joined[:, 0]).all() and (joined[:, 2] == numpy.arange(16)).all()
    places = {tuple(stream[f : f + 17]): f for f in range(len(stream) - 16)}
    for (ids, labels, positions), (_, plain, _) in zip(samples, joined):
        first = places[(*ids.tolist(), int(plain[-1]))]
        begun = first
        for t in range(16):
            begun = first + t if first + t in starts else begun
            assert positions[t] == first + t - begun
            assert labels[t] == (-1 if first + t + 1 in starts else stream[first + t + 1])


def best_fit(lengths, sequence):
    """Best-fit decreasing, a piece at a time; how many sequences hold which lengths."""
    pieces = sorted((p for n in lengths for p in [sequence] * (n // sequence) + ([n % sequence] if n % sequence else [])),
                    reverse=True)
    bins = []
    for piece in pieces:
        fitting = [b for b in bins if sequence - sum(b) >= piece]
        if fitting:
            min(fitting, key=lambda b: sequence - sum(b)).append(piece)
        else:
            bins.append([piece])
    return sorted(sorted(b) for b in bins)


@pytest.mark.parametrize("sequence", [1, 2, 7, 16, 64])
@pytest.mark.parametrize("by", ["index", "token"])
def test_packed_samples(tmp_path, sequence, by):
    """Each epoch has every document once, whole or cut at the sequence; the sequences are best-fit decreasing's."""
    chance = numpy.random.default_rng(sequence)
    lengths = numpy.minimum(numpy.exp(chance.normal(2, 1.2, 150)).astype(int) + 1, 200).tolist() + [1, 1, sequence, 3 * sequence]
    documents = draw_documents(chance, lengths)
    stream = numpy.concatenate(documents)
    prefix = write_corpus(tmp_path / "c", documents, *([] if by == "index" else [[len(stream)]]))
    wanted = best_fit(lengths, sequence)
    pieces = sorted(tuple(d[a : a + sequence + 1]) for d in documents for a in range(0, len(d), sequence))
    per_epoch, samples = samples_of(tmp_path, prefix, sequence, 11, 2 * len(wanted), "masked", "documents",
                                    -1 if by == "index" else EOT)
    assert per_epoch == len(wanted)
    orders = []
    for epoch in (samples[:per_epoch], samples[per_epoch:]):
        found, contents = [], []
        for ids, labels, positions in epoch:
            text = [d for d in split(ids, labels, positions) if not (d[0] == 0).all()]
            contents.append(sorted(len(d[0]) for d in text))
            for piece, following in text:
                assert (following[:-1] == piece[1:]).all()
                cut = following[-1] >= 0
                assert cut == (piece[-1] != EOT)  # only a cut one is followed by anything
                found.append((*piece.tolist(), *([int(following[-1])] if cut else [])))
            filling = ids == 0
            assert (labels[filling] == -1).all() and filling.sum() == sequence - sum(contents[-1])
        assert sorted(contents) == wanted
        assert sorted(tuple(int(i) for i in p) for p in pieces) == sorted(found)
        orders.append(epoch[:, 0].tolist())
    assert sorted(orders[0]) != sorted(orders[1]) or sequence < 7  # other documents share a sequence in another epoch
    again = samples_of(tmp_path, prefix, sequence, 11, 2 * len(wanted), "masked", "documents", -1 if by == "index" else EOT)
    assert (again[1] == samples).all()
    other = samples_of(tmp_path, prefix, sequence, 12, 2 * len(wanted), "masked", "documents", -1 if by == "index" else EOT)
    assert (other[1] != samples).any()


def test_packed_and_joined(tmp_path):
    """Whole documents that see each other: the last token of one has the next one's first as its label."""
    chance = numpy.random.default_rng(2)
    prefix = write_corpus(tmp_path / "c", draw_documents(chance, [3, 5, 4, 20, 9]))
    per_epoch, samples = samples_of(tmp_path, prefix, 16, 1, 3, "joined", "documents")
    assert per_epoch == 3  # 16 | 9 5 | 4 4 3
    for ids, labels, positions in samples:
        assert (positions == numpy.arange(16)).all()
        text = 16 - int((ids == 0).sum())
        assert (labels[: text - 1] == ids[1:text]).all() and (labels[text:] == -1).all()
        assert labels[text - 1] == -1 or text == 16


def test_empty_documents_are_passed_over(tmp_path):
    chance = numpy.random.default_rng(4)
    documents = draw_documents(chance, [5, 20, 9, 1])
    whole = write_corpus(tmp_path / "whole", documents)
    holes = write_corpus(tmp_path / "holes", documents, [0, 5, 0, 0, 20, 9, 1, 0], [0, 1, 2, 2, 4, 5, 6, 7, 8])
    for packing in ("windows", "documents"):
        _, with_holes = samples_of(tmp_path, holes, 8, 1, 9, "masked", packing)
        _, without = samples_of(tmp_path, whole, 8, 1, 9, "masked", packing)
        assert (with_holes == without).all()


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, *os.sys.argv[1:]]))

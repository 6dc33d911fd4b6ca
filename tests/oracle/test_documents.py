"""Documents that share a sequence and do not see each other (data.documents: masked), and sequences that whole documents are
packed into (data.packing: documents). Oracles: plain PyTorch with a mask and positions that begin again (models.py), each
document alone in a row, and best-fit decreasing, written out piece by piece."""
import json
import os
import shutil
import struct
import subprocess
import time

import models
import numpy
import pytest
import torch
from parity import TRIREME, Weights, device_for, tool, trireme, yaml_of

GPT2 = dict(family="gpt2", num_layers=2, hidden_size=24, num_heads=3, vocab_size=61, max_sequence=80)
LLAMA = dict(family="llama", num_layers=2, hidden_size=24, num_heads=4, num_kv_heads=2, ffn_size=40, vocab_size=53, max_sequence=80)
STRETCHED = dict(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_sequence=32)
DYNAMIC = dict(type="dynamic", factor=2.0, original_max_sequence=16)
MODELS = [GPT2, LLAMA, {**LLAMA, "num_kv_heads": 4, "rope_scaling": STRETCHED, "attention_bias": True}, {**LLAMA, "rope_scaling": DYNAMIC}]
NAMES = ["gpt2", "llama", "llama stretched", "llama dynamic"]

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


@pytest.mark.parametrize("model", MODELS[:3], ids=NAMES[:3])  # dynamic goes by the sequence, whatever is in it
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
    """Returns documents of random ids; only the last id of each is EOT."""
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
            padding = ids == 0
            assert (labels[padding] == -2).all() and padding.sum() == sequence - sum(contents[-1])
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
        assert (labels[: text - 1] == ids[1:text]).all() and (labels[text:] == -2).all()  # no tokens, unlike the last
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


# ---- the program -----------------------------------------------------------------------------------------------------

LAUNCHER = os.environ.get("TRIREME_MPIEXEC", "mpiexec")
BATCH, LENGTH = 8, 24


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    """Long-tailed documents, some of one token and some longer than a sequence; text to train on and held-out text."""
    folder, chance = tmp_path_factory.mktemp("corpora"), numpy.random.default_rng(8)
    for name, count in (("train", 300), ("validation", 60)):
        lengths = numpy.clip(numpy.exp(chance.normal(2, 1.1, count)).astype(int), 1, 150)
        write_corpus(folder / name, draw_documents(chance, lengths))
    return folder


def run_of(tmp_path, corpora, name, model=GPT2, layout={}, **more):
    data = dict(train=str(corpora / "train"), validation=str(corpora / "validation"), sequence=LENGTH, documents="masked",
                packing="documents")
    run = dict(model={**model, "vocab_size": 64}, data={**data, **more.pop("data", {})}, layout=dict(micro_batch=2, **layout),
               optimizer=dict(global_batch=BATCH, steps=6, lr=1e-2, warmup=2), precision="fp64", device="reference", seed=5,
               threads=1, evaluation=dict(every=3, batches=5), output=str(tmp_path / name), **more)
    path = tmp_path / (name + ".yaml")
    path.write_text(yaml_of(run))
    return path


def metrics_of(folder):
    return [json.loads(line) for line in open(folder / "metrics.jsonl")]


def mpi(ranks):
    open_mpi = "Open" in subprocess.run([LAUNCHER, "--version"], capture_output=True, text=True).stdout
    return [LAUNCHER, *(["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"] if open_mpi else []), "-n", str(ranks)]


@pytest.mark.skipif(shutil.which(LAUNCHER) is None, reason="SKIPPED: there is no mpiexec")
@pytest.mark.parametrize("model, packing", [(GPT2, "documents"), ({**LLAMA, "rope_scaling": DYNAMIC}, "windows")], ids=["gpt2", "llama dynamic"])
def test_layouts_of_runs(tmp_path, corpora, model, packing):
    """Runs read, train on and evaluate the same data under each layout, also with stages in the middle and stages without attention."""
    model = {**model, "num_layers": 4, "num_heads": 4, "num_kv_heads": 4} if model is GPT2 else {**model, "num_layers": 4}
    layouts = [dict(), dict(pipeline=3), dict(pipeline=2, data=2, zero=3), dict(tensor=2, sequence_parallel=True, recompute="full"),
               dict(pipeline=2, virtual_stages=2, schedule="interleaved"), dict(data=4, zero=1, schedule="zero-bubble"),
               dict(pipeline=4, balance="layers", embedding_as_layers=9, head_as_layers=9), dict(context=3, context_exchange="ring"),
               dict(context=4, context_exchange="heads"), dict(context=2, pipeline=2, schedule="zero-bubble")]
    first = None
    for i, layout in enumerate(layouts):
        run = run_of(tmp_path, corpora, f"run{i}", model, layout, data=dict(packing=packing))
        ranks = layout.get("tensor", 1) * layout.get("pipeline", 1) * layout.get("data", 1) * layout.get("context", 1)
        done = subprocess.run([*(mpi(ranks) if ranks > 1 else []), TRIREME, "train", str(run)], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, (layout, done.stderr)
        assert "documents do not see each other" in done.stderr and ("% of it padding" in done.stderr) == (packing == "documents")
        lines = metrics_of(tmp_path / f"run{i}")
        first = first or lines
        for a, b in zip(lines, first):
            assert abs(a["loss"] - b["loss"]) <= 1e-10 and abs(a["grad_norm"] - b["grad_norm"]) <= 1e-9, layout
        evaluations = [[line["validation_loss"] for line in which if "validation_loss" in line] for which in (lines, first)]
        assert len(evaluations[0]) == 2
        assert max(abs(a - b) for a, b in zip(*evaluations)) <= 1e-10, layout


@pytest.mark.parametrize("device, precision", [("cpu", "fp32"), ("guarded", "fp32"), ("emulated", "fp32")])
def test_runs_on_devices(tmp_path, corpora, device, precision):
    """Training and evaluation go as in double, and as far as memory was planned."""
    wanted, found = tmp_path / "wanted", tmp_path / "found"
    trireme("train", run_of(tmp_path, corpora, "wanted"))
    small = dict(device=device, precision=precision)
    run = json.loads(run_of(tmp_path, corpora, "found").read_text())
    (tmp_path / "found.yaml").write_text(yaml_of({**run, **small}))
    trireme("train", tmp_path / "found.yaml")
    for a, b in zip(metrics_of(wanted), metrics_of(found)):
        assert abs(a["loss"] - b["loss"]) < 2e-4
        assert abs(a.get("validation_loss", 0) - b.get("validation_loss", 0)) < 2e-4
    summary = json.load(open(found / "summary.json"))
    assert summary["peak_bytes_predicted"] == summary["peak_bytes_measured"]


@pytest.mark.parametrize("packing", ["documents", "windows"])
def test_killed_and_resumed(tmp_path, corpora, packing):
    """The same losses to the bit, over several epochs."""
    def run(name):
        path = run_of(tmp_path, corpora, name, data=dict(packing=packing), checkpoint=dict(every=1))
        made = json.loads(path.read_text())
        made["optimizer"]["steps"] = 60
        path.write_text(yaml_of(made))
        return path

    trireme("train", run("whole"))
    whole, cut = run("whole"), run("cut")
    process = subprocess.Popen([TRIREME, "train", cut], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    metrics = tmp_path / "cut/metrics.jsonl"
    while process.poll() is None and not (metrics.exists() and metrics.read_bytes().count(b"\n") >= 20):
        time.sleep(0.002)
    process.kill()
    process.wait()
    assert process.returncode != 0, "it was through before it could be killed"
    trireme("train", cut)
    keys = ("step", "loss", "grad_norm", "validation_loss")
    lines = [[{k: line.get(k) for k in keys} for line in metrics_of(tmp_path / name)] for name in ("whole", "cut")]
    assert lines[0] == lines[1] and len(lines[0]) == 60


@pytest.mark.parametrize("layout, sequence, window", [({}, LENGTH, 0), (dict(context=2), LENGTH - 1, 0), ({}, LENGTH, 5)],
                         ids=["one rank", "two of 23 tokens", "a window in one layer"])
def test_mfu_counts_what_masks_leave(tmp_path, corpora, layout, sequence, window):
    """Share of peak / (tokens/s x FLOPs a token) is 1 / peak in every step, with attention by what the documents of the step's
    own samples see, and what windows let them. The peak is measured again where a step is above it, so it may rise, and seldom."""
    model = {**LLAMA, "vocab_size": 64, "head_dim": 6, **(dict(window=window, window_layers="1 of 2") if window else {})}
    width, layers, heads = model["hidden_size"], model["num_layers"], model["num_heads"] * 6
    weights = layers * width * (2 * heads + 2 * model["num_kv_heads"] * 6 + 3 * model["ffn_size"]) + width * 64
    for name in "masked", "joined":
        run = run_of(tmp_path, corpora, name, model, layout=layout, data=dict(documents=name, sequence=sequence))
        trireme("train", *(["-n", 2] if layout else []), run, "--set", "evaluation.every=0")
        _, samples = samples_of(tmp_path, corpora / "train", sequence, 5, 6 * BATCH, name, "documents")
        lines, peaks = metrics_of(tmp_path / name), []
        for step, line in enumerate(lines):
            seen = samples[step * BATCH : (step + 1) * BATCH, 2] + 1
            inside = numpy.minimum(seen, window or sequence)
            area = (seen.sum() + inside.sum()) / 2 / (BATCH * sequence * (sequence + 1) / 2)
            assert (area == 1) == (name == "joined" and not window)
            flops = 3 * (2 * weights + layers * 4 * sequence * heads * area)
            peaks.append(line["tokens_per_s"] * flops / line["mfu"])
        changes = [after / before - 1 for before, after in zip(peaks, peaks[1:]) if abs(after / before - 1) > 1e-9]
        assert len(changes) <= 2 and all(change > 0 for change in changes), peaks


def test_other_samples_are_not_taken_up_unsaid(tmp_path, corpora):
    trireme("train", run_of(tmp_path, corpora, "run"))
    joined = json.loads(run_of(tmp_path, corpora, "run", data=dict(documents="joined", packing="windows")).read_text())
    joined["optimizer"]["steps"] = 8
    (tmp_path / "run.yaml").write_text(yaml_of(joined))
    stderr = trireme("train", tmp_path / "run.yaml", status=3).stderr
    assert "data.documents is masked there and joined in this run; data.packing is documents there and windows in this run" in stderr
    assert "--set allow_change=data.documents,data.packing" in stderr
    trireme("train", tmp_path / "run.yaml", "--set", "allow_change=data.documents,data.packing")


def test_eval_masks_as_training_did(tmp_path, corpora):
    run = run_of(tmp_path, corpora, "run", data=dict(packing="windows"))
    trireme("train", run)
    masked = json.loads(trireme("eval", tmp_path / "run", corpora / "validation", "--precision", "fp64", "--device", "reference", "--json").stdout)
    stream = numpy.fromfile(corpora / "validation.bin", numpy.uint16).astype(int)
    counted = int((stream[:-1] != EOT).sum())  # behind the end of a document nothing follows
    assert masked["tokens"] == counted
    positions, at = numpy.zeros_like(stream), 0
    for i, token in enumerate(stream):
        positions[i], at = at, 0 if token == EOT else at + 1
    # Against the plain model, window by window.
    tensors = tensors_of(newest(tmp_path / "run") / "model.safetensors")
    total = 0.0
    for first in range(0, len(stream) - 1, LENGTH):
        end = min(first + LENGTH, len(stream) - 1)
        within = positions[first:end].copy()
        cut = numpy.arange(end - first)
        within = numpy.where(within > cut, cut, within)  # a document that begins before the window
        labels = numpy.where(stream[first:end] == EOT, -1, stream[first + 1 : end + 1])
        if (labels >= 0).any():
            loss = models.loss({**GPT2, "vocab_size": 64}, tensors, torch.tensor(stream[None, first:end]), torch.tensor(labels[None]),
                               torch.tensor(within[None]))
            total += loss.item() * int((labels >= 0).sum())
    assert abs(masked["loss"] - total / counted) <= 1e-9


def newest(run):
    folder = run / "checkpoints"
    return folder / sorted(os.listdir(folder))[-1]


def test_eval_packs_as_training_did(tmp_path, corpora):
    """`eval` reads each document alone, in pieces of one sequence at most. Its loss equals the plain model's, and the run's own on the same
    sequences; options change the packing."""
    trireme("train", run_of(tmp_path, corpora, "run"), "--set", "evaluation.batches=1000")
    def evaluated(*options):
        return json.loads(trireme("eval", tmp_path / "run", corpora / "validation", "--precision", "fp64", "--device", "reference", "--json",
                                  *options).stdout)
    packed = evaluated()
    assert (packed["documents"], packed["packing"], packed["sequence"]) == ("masked", "documents", LENGTH)
    assert abs(packed["loss"] - metrics_of(tmp_path / "run")[-1]["validation_loss"]) <= 1e-12
    stream = numpy.fromfile(corpora / "validation.bin", numpy.uint16).astype(int)
    tensors = tensors_of(newest(tmp_path / "run") / "model.safetensors")
    model, total, counted = {**GPT2, "vocab_size": 64}, 0.0, 0
    for document in numpy.split(stream, numpy.flatnonzero(stream == EOT) + 1):
        for first in range(0, len(document) - 1, LENGTH):
            ids, labels = document[first : first + LENGTH], document[first + 1 : first + LENGTH + 1]
            loss = models.loss(model, tensors, torch.tensor(ids[None, : len(labels)]), torch.tensor(labels[None]))
            total, counted = total + loss.item() * len(labels), counted + len(labels)
    assert packed["tokens"] == counted
    assert abs(packed["loss"] - total / counted) <= 1e-9
    for batch in 1, 3, 64:  # the last batch is filled up
        again = evaluated("--batch", batch)
        assert again["tokens"] == counted and abs(again["loss"] - packed["loss"]) <= 1e-12
    windows = evaluated("--packing", "windows")
    assert windows["tokens"] == counted and windows["packing"] == "windows" and windows["loss"] != packed["loss"]
    joined = evaluated("--documents", "joined", "--packing", "windows")
    assert joined["tokens"] == len(stream) - 1 and joined["documents"] == "joined"
    # An export says how its run saw text; a model without such a note is evaluated plainly, and otherwise on request.
    plain = tmp_path / "plain"
    trireme("export", tmp_path / "run", plain)
    exported = json.loads(trireme("eval", plain, corpora / "validation", "--precision", "fp64", "--device", "reference", "--json").stdout)
    assert abs(exported["loss"] - packed["loss"]) <= 1e-7
    config = json.loads((plain / "config.json").read_text())
    del config["trireme"]
    (plain / "config.json").write_text(json.dumps(config))
    said = ["eval", plain, corpora / "validation", "--sequence", LENGTH, "--precision", "fp64", "--device", "reference", "--json"]
    plainly, masked = (json.loads(trireme(*said, *more).stdout) for more in ([], ["--documents", "masked", "--packing", "documents"]))
    assert abs(plainly["loss"] - joined["loss"]) <= 1e-7 and abs(masked["loss"] - packed["loss"]) <= 1e-7  # fp32 by now
    assert abs(joined["loss"] - packed["loss"]) > 1e-5


def test_eval_refuses_words_that_mean_nothing(tmp_path, corpora):
    trireme("train", run_of(tmp_path, corpora, "run"))
    words = "eval", tmp_path / "run", corpora / "validation"
    assert "--documents is joined or masked, not `apart`" in trireme(*words, "--documents", "apart", status=2).stderr
    assert "--packing is windows or documents, not `best`" in trireme(*words, "--packing", "best", status=2).stderr
    ones = write_corpus(tmp_path / "ones", [numpy.array([EOT])] * 40)
    assert ("no label counts, since no document has more than one token and documents do not see each other; --documents joined lets them"
            in trireme("eval", tmp_path / "run", ones, status=4).stderr)


def tensors_of(path):
    """A safetensors file of doubles."""
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    out = {}
    for name, facts in json.loads(data[8 : 8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = facts["data_offsets"]
        kind = {"F64": numpy.float64, "F32": numpy.float32}[facts["dtype"]]
        out[name] = torch.tensor(numpy.frombuffer(data[8 + size + begin : 8 + size + end], kind).astype(float).reshape(facts["shape"]))
    return out


def area(lengths):
    return sum(n * (n + 1) / 2 for n in lengths)


def test_inspect(tmp_path):
    chance = numpy.random.default_rng(6)
    lengths = numpy.clip(numpy.exp(chance.normal(4, 1.2, 500)).astype(int), 1, 2000).tolist() + [1, 128, 129, 256]
    documents = draw_documents(chance, lengths)
    prefix = write_corpus(tmp_path / "c", documents)
    said = json.loads(trireme("inspect", prefix, "--sequence", 128, "--json").stdout)
    assert (said["documents"], said["tokens"], said["shortest"], said["longest"]) == (len(lengths), sum(lengths), min(lengths), max(lengths))
    assert said["boundaries"] == "index"
    for row in said["lengths"]:
        inside = [n for n in lengths if row["from"] <= n <= row["to"]]
        assert (row["documents"], row["tokens"]) == (len(inside), sum(inside))
    assert sum(row["documents"] for row in said["lengths"]) == len(lengths)
    bins = best_fit(lengths, 128)
    (at,) = said["sequences"]
    assert at["packed_sequences"] == len(bins)
    assert abs(at["filling"] - (1 - sum(lengths) / (128 * len(bins)))) < 1e-12
    assert abs(at["packed_area"] - sum(area(b) for b in bins) / (len(bins) * area([128]))) < 1e-12
    begins = numpy.cumsum([0, *lengths])
    cuts = sorted({*begins.tolist(), *range(0, sum(lengths), 128)})
    assert abs(at["windows_area"] - area(numpy.diff(cuts)) / (sum(lengths) / 128 * area([128]))) < 1e-12
    text = trireme("inspect", prefix).stdout
    assert all(trireme("inspect", prefix + ending).stdout == text for ending in (".bin", ".idx"))
    assert f"{len(lengths)} documents" in text and "padding" in text and " 8192 " in text
    # The same for a corpus whose index has one document, with the end-of-text token of the tokenizer in its folder.
    trireme("prepare", "--tokenizer", "bytes", "--out", tmp_path / "made", "--validation", 0, "--binary", prefix + ".bin")
    one = tmp_path / "made/one"
    ids = numpy.concatenate([[*d[:-1], 256] for d in documents])
    write_corpus(one, [ids], [len(ids)])
    by_token = json.loads(trireme("inspect", one, "--sequence", 128, "--json").stdout)
    assert by_token["boundaries"] == "end of text"
    assert all(by_token[key] == said[key] for key in ("documents", "tokens", "lengths", "sequences"))


def test_bad_input(tmp_path, corpora):
    def refused(name, corpus, said, status=3, **data):
        run = run_of(tmp_path, corpora, name, data=dict(train=str(corpus), **data))
        stderr = trireme("train", run, status=status).stderr
        assert all(part in stderr for part in said), stderr

    chance = numpy.random.default_rng(9)
    (tmp_path / "x").mkdir()
    ids = chance.integers(10, 60, 500)
    one = write_corpus(tmp_path / "x/one", [ids], [500])
    for data in (dict(packing="windows"), dict(documents="joined"), {}):
        refused("r1", one, ["no boundary between documents", "its index has one document", "data.tokenizer", "--documents blank"], 4, **data)
    trireme("prepare", "--tokenizer", "bytes", "--out", tmp_path / "made", "--validation", 0, "--binary", one + ".idx")
    run = run_of(tmp_path, corpora, "r2", {**GPT2}, data=dict(train=one, tokenizer=str(tmp_path / "made/tokenizer.json")))
    made = json.loads(run.read_text())
    made["model"]["vocab_size"] = 257
    run.write_text(yaml_of(made))
    stderr = trireme("train", run, status=4).stderr
    assert "no end-of-text token (256) is inside it" in stderr and "joined" in stderr
    refused("r3", corpora / "train", ["`documents` under `data:`", "one of auto, joined, masked, not `maskd`; did you mean `masked`?"], documents="maskd")
    refused("r4", corpora / "train", ["`packing` under `data:`", "one of auto, windows, documents", "did you mean `documents`?"], packing="document")
    refused("r5", corpora / "train", ["`data.sequence` 81 is longer than the model's max_sequence; use at most 80"], sequence=81)
    # Documents of no tokens are said, and passed over.
    documents = draw_documents(chance, [40] * 12)
    holes = write_corpus(tmp_path / "x/holes", documents, [0, *[40] * 12, 0])
    stderr = trireme("train", run_of(tmp_path, corpora, "r6", data=dict(train=holes))).stderr
    assert "2 documents of no tokens, which are passed over" in stderr
    # A corpus without counted labels is refused.
    ones = write_corpus(tmp_path / "x/ones", draw_documents(chance, [1] * 400))
    refused("r7", ones, ["all documents of", "have one token", "no label counts", "joined"], 4)
    stderr = trireme("inspect", "gpt2-124m", "--sequence", 5, status=2).stderr
    assert "--sequence, --show and --tokenizer go with a corpus" in stderr


# ---- plans -----------------------------------------------------------------------------------------------------------

SIMULATED = ["--model", "llama-3-8b", "--cluster", "dgx-h100", "--devices", 16, "--sequence", 8192, "--global-batch", 32, "--json"]
LAYOUT = ["--layout", "tensor=4,data=2,pipeline=2,zero=1,micro_batch=1"]


def write_area(path, area):
    path.write_text(json.dumps(dict(sequences=[dict(sequence=8192, packed_area=area, windows_area=area / 2)])))
    return path


def test_plans_know_the_area(tmp_path):
    """A step's time falls with the area; the table of slices is planned for documents of one token; and nothing is pruned that
    is better."""
    plain = json.loads(trireme("simulate", *SIMULATED, *LAYOUT).stdout)
    seconds = {}
    for area in (1, 0.5, 0.25):
        told = trireme("simulate", *SIMULATED, *LAYOUT, "--lengths", write_area(tmp_path / "l.json", area), "--packing", "documents")
        seconds[area] = json.loads(told.stdout)
    assert seconds[1]["step_s"] == plain["step_s"] > seconds[0.5]["step_s"] > seconds[0.25]["step_s"]
    halved, quartered = plain["step_s"] - seconds[0.5]["step_s"], plain["step_s"] - seconds[0.25]["step_s"]
    assert abs(quartered / halved - 1.5) < 0.02  # in proportion
    cut = json.loads(trireme("simulate", *SIMULATED, *LAYOUT, "--lengths", tmp_path / "l.json").stdout)
    assert cut["step_s"] < seconds[0.25]["step_s"]
    best = [json.loads(trireme("plan", *SIMULATED, "--lengths", tmp_path / "l.json", *more).stdout) for more in ([], ["--exhaustive"])]
    assert best[0] == best[1] and best[0][0]["step_s"] < plain["step_s"]
    # A corpus itself says what its `inspect --json` says.
    chance = numpy.random.default_rng(3)
    prefix = write_corpus(tmp_path / "c", draw_documents(chance, [100, 9000, 700, 3000, 50, 12000]))
    (tmp_path / "c.json").write_text(trireme("inspect", prefix, "--sequence", 8192, "--json").stdout)
    both = [trireme("simulate", *SIMULATED, *LAYOUT, "--lengths", name).stdout for name in (prefix, tmp_path / "c.json")]
    assert both[0] == both[1] != trireme("simulate", *SIMULATED, *LAYOUT).stdout


def test_lengths_that_say_nothing(tmp_path):
    for given, said, status in [
            (["--lengths", tmp_path / "none"], "is neither a corpus (the prefix of its .bin and .idx) nor a file", 2),
            (["--packing", "documents"], "needs --lengths (the lengths of the documents)", 2), (["--packing", "docs"], "--packing is windows or documents, not `docs`", 2)]:
        assert said in trireme("simulate", *SIMULATED, *LAYOUT, *given, status=status).stderr
    for text in ("{}", "nothing", json.dumps(dict(sequences=[dict(sequence=4096, windows_area=0.5)])),
                 json.dumps(dict(sequences=[dict(sequence=8192, windows_area=1.5)]))):
        (tmp_path / "l.json").write_text(text)
        stderr = trireme("simulate", *SIMULATED, *LAYOUT, "--lengths", tmp_path / "l.json", status=4).stderr
        assert "make it with `trireme inspect CORPUS --sequence 8192 --json`" in stderr


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, *os.sys.argv[1:]]))

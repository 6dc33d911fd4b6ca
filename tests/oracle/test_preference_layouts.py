"""Losses of preferences under many layouts, as test_layouts.py has the cross entropy: every gradient of every parameter within 1e-10 of
one rank's, steps' losses and norms, equal bits where only pipeline, schedule, recompute or ZeRO changed; log-probabilities of labels by
the step and by the verb have the same bits (layout_tool compares them), and do not depend on what a text is packed with."""
import numpy
import pytest
from drawn import drawn, drawn_count
from expert_cases import OLMOE
from test_layouts import BATCH, GEMMA2, GPT2, LLAMA, LAYOUTS, compare, name_of, needs_launcher, run_on

STEPS, SEQUENCE = 3, 23
LOSSES = ("dpo", "ipo", "hinge", "robust", "sigmoid_norm", "apo_zero", "apo_down", "simpo", "cpo", "orpo", "exo_pair", "nca_pair", "bco_pair", "sppo_hard",
          "discopop", "kto", "apo_zero_unpaired")
SINGLE = ("kto", "apo_zero_unpaired")
CONTEXT = [dict(context=2), dict(context=3), dict(context=2, exchange="heads"), dict(context=2, exchange="ring"), dict(context=4, exchange="ring"),
           dict(context=2, pipeline=2, schedule="zero-bubble"), dict(context=2, data=2, zero=3), dict(context=2, tensor=2, sequence_parallel=1),
           dict(context=2, recompute="full", micro_batch=4), dict(context=4, inner=2, micro_batch=2)]
EXPERT_LAYOUTS = [dict(expert=2, data=2), dict(expert=2, data=2, pipeline=2), dict(expert=2, data=2, zero=2), dict(data=2, zero=1),
                  dict(context=2, micro_batch=2)]


def settings(loss, beta=0.3, cross_entropy=0.0):
    smoothing = 0.1 if loss in ("robust", "cpo", "simpo", "exo_pair") else 0.0
    return f"{LOSSES.index(loss)} {beta} {smoothing} 0.5 0.05 1.25 0.75 {0.2 if loss == 'kto' else 0.0} {cross_entropy}"


def draw_pairs(model, steps, paired, seed=5, batch=BATCH, sequence=SEQUENCE, whole_texts=False):
    """Columns of samples [step, 7, batch, sequence]: of prompts and answers, packed until nothing more fits; one sample of each step is
    padding alone. Weights are those of chosen answers, or with their prompts."""
    chance = numpy.random.default_rng(seed)
    out = numpy.zeros((steps, 7, batch, sequence), numpy.int32)
    for step in range(steps):
        ids, labels, positions, weights, segments = (out[step, c] for c in range(5))
        reference = numpy.zeros((batch, sequence))
        labels[:], segments[:], weights_f = -2, -1, numpy.zeros((batch, sequence), numpy.float32)
        positions[:] = numpy.arange(sequence)
        for row in range(batch):
            at, number = 0, 0
            while row != 1:
                prompt = chance.integers(1, 5)
                answers = chance.integers(1, 5, 2 if paired else 1)
                sides = (0, 1) if paired else (int(chance.integers(0, 2)),)
                if at + sum(prompt + a - 1 for a in answers) > sequence:
                    break
                for side, answer in zip(sides, answers):
                    text = chance.integers(0, model["vocab_size"], prompt + answer)
                    rows = slice(at, at + prompt + answer - 1)
                    ids[row, rows], positions[row, rows] = text[:-1], numpy.arange(prompt + answer - 1)
                    is_answer = numpy.arange(1, prompt + answer) >= prompt
                    weighs = (side == 0) & (is_answer | whole_texts)
                    labels[row, rows] = numpy.where(is_answer | weighs, text[1:], -1)
                    segments[row, rows] = numpy.where(is_answer, 2 * number + side, -1)
                    weights_f[row, rows] = weighs
                    reference[row, rows] = numpy.where(is_answer, -chance.random(prompt + answer - 1) * 6, 0)
                    at += prompt + answer - 1
                number += 1
            positions[row, at:] = numpy.arange(sequence - at)
        weights[:] = weights_f.view(numpy.int32)
        out[step, 5:] = numpy.frombuffer(reference.tobytes(), numpy.int32).reshape(2, batch, sequence)
    return out


def check(folder, model, layouts, loss, tolerance=1e-10, loss_tolerance=1e-10, device="reference", precision="fp64", **more):
    cross_entropy = 0.7 if loss in ("cpo", "simpo", "orpo") else 0.0
    tokens = draw_pairs(model, STEPS, loss not in SINGLE, whole_texts=loss == "orpo", **more)
    answers = run_on(folder, model, layouts, tokens, device, precision, objective=settings(loss, cross_entropy=cross_entropy))
    compare(answers, layouts, tolerance, loss_tolerance, exact="num_experts" not in model)
    one = numpy.fromfile(folder / "one.log-probs")
    assert (one < 0).sum() > 40
    for layout in layouts:
        error = numpy.abs(numpy.fromfile(folder / f"{name_of(layout)}.log-probs") - one).max()
        assert error <= tolerance * 100, (name_of(layout), error)
    return answers


@needs_launcher
@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss(tmp_path, loss):
    model = GPT2 if LOSSES.index(loss) % 2 else LLAMA
    layouts = [dict(), dict(micro_batch=8), *drawn_count(LAYOUTS, 3, f"preference {loss}")[:40], *drawn_count(CONTEXT, 2, f"context {loss}")]
    check(tmp_path, {**model, "dropout": 0.0, "max_sequence": 32}, layouts, loss)


@needs_launcher
@pytest.mark.parametrize("model", [GEMMA2, OLMOE], ids=["gemma2", "experts"])
def test_models(tmp_path, model):
    layouts = [dict(), *(EXPERT_LAYOUTS if "num_experts" in model else [*drawn(LAYOUTS, 12, "preference gemma2"), *CONTEXT[:2]])]
    check(tmp_path, {**model, "max_sequence": 32}, layouts, "dpo")


@needs_launcher
@pytest.mark.parametrize("precision,tolerance", [("fp32", 1e-5), ("bf16", 3e-2)])
def test_on_the_cpu(tmp_path, precision, tolerance):
    layouts = [dict(), *drawn(LAYOUTS, 16, f"preference {precision}"), *drawn(CONTEXT, 5, f"context {precision}")]
    check(tmp_path, {**LLAMA, "max_sequence": 32}, layouts, "dpo", tolerance, tolerance, "cpu", precision)


@needs_launcher
def test_a_large_vocabulary_has_several_chunks(tmp_path):
    """Logits of 128 MiB at a time: two thirds of the rows are made twice."""
    model = {**LLAMA, "num_layers": 1, "vocab_size": 120001, "max_sequence": 64}
    tokens = draw_pairs(model, 1, True, batch=8, sequence=57)
    whole = run_on(tmp_path, model, [dict(micro_batch=8)], tokens, "cpu", "fp32", train=False, objective=settings("dpo"))
    small = run_on(tmp_path, model, [dict(micro_batch=1)], tokens, "cpu", "fp32", train=False, objective=settings("dpo"))
    a, b = whole["micro_batch8"], small["one"]
    assert numpy.linalg.norm(a[0] - b[0]) <= 1e-5 * numpy.linalg.norm(b[0])
    assert abs(a[2][0][0] / b[2][0][0] - 1) < 1e-6


@pytest.mark.parametrize("device,precision", [("reference", "fp64"), ("cpu", "fp32"), ("cpu", "bf16")])
def test_a_text_has_its_bits_whatever_it_is_packed_with(tmp_path, device, precision):
    model = {**LLAMA, "max_sequence": 32}
    tokens = draw_pairs(model, 1, True)
    packed = tmp_path / "packed"
    packed.mkdir()
    run_on(packed, model, [dict()], tokens, device, precision, train=False, objective=settings("dpo"))
    together = numpy.fromfile(packed / "one.log-probs").reshape(BATCH, SEQUENCE)
    checked = 0
    for row in (0, 2, 5):
        for first in numpy.flatnonzero(tokens[0, 2, row] == 0):
            end = first + 1
            while end < SEQUENCE and tokens[0, 2, row, end] != 0:
                end += 1
            if (tokens[0, 1, row, first:end] < 0).all():
                continue
            alone = numpy.zeros((1, 7, 1, SEQUENCE), numpy.int32)
            alone[0, 1], alone[0, 4] = -2, -1
            alone[0, 2] = numpy.arange(SEQUENCE)
            for column in (0, 1):
                alone[0, column, 0, : end - first] = tokens[0, column, row, first:end]
            alone[0, 4, 0, : end - first] = numpy.where(tokens[0, 4, row, first:end] < 0, -1, 0)
            alone[0, 2, 0, end - first:] = numpy.arange(SEQUENCE - (end - first))
            folder = tmp_path / f"{row}-{first}"
            folder.mkdir()
            run_on(folder, model, [dict()], alone, device, precision, train=False, objective=settings("dpo"))
            assert (numpy.fromfile(folder / "one.log-probs")[: end - first] == together[row, first:end]).all()
            checked += 1
    assert checked > 8

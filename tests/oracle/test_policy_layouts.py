"""Policy-gradient losses under many layouts, as test_preference_layouts.py has the losses of preferences: every gradient of every parameter within 1e-10 of one rank's, equal bits where only
pipeline, schedule, recompute or ZeRO changed, and log-probabilities that do not depend on the layout."""
import numpy
import pytest
from drawn import drawn_count
from expert_cases import OLMOE
from test_layouts import BATCH, GEMMA2, GPT2, LAYOUTS, LLAMA, compare, name_of, needs_launcher, run_on
from test_preference_layouts import CONTEXT, EXPERT_LAYOUTS

STEPS, SEQUENCE = 3, 23
NONE, TOKEN_TRUNCATE, TOKEN_MASK, SEQUENCE_TRUNCATE, SEQUENCE_MASK = range(5)


def settings(cispo=0, importance=NONE, by_sequence=0, has_old=1, high=0.28, delta=1e300, beta=0.0, low=0.5, most=3.0, limit=1e300, temperature=1.0, entropy=0.0):
    return f"policy {cispo} {importance} {by_sequence} {has_old} 0.2 {high} {delta} {beta} {low} {most} {limit} {temperature} {entropy}"


CASES = {
    "on policy": settings(has_old=0),
    "dapo": settings(importance=TOKEN_MASK, beta=0.04),
    "temperature": settings(has_old=0, importance=TOKEN_TRUNCATE, beta=0.04, temperature=0.7, entropy=0.02),
    "delta": settings(delta=1.5, importance=SEQUENCE_MASK),
    "cispo": settings(cispo=1, high=1.5, importance=TOKEN_TRUNCATE),
    "gspo": settings(by_sequence=1, importance=TOKEN_MASK, beta=0.1),
    "entropy": settings(importance=TOKEN_MASK, entropy=0.05, temperature=0.8),
    "entropy of sequences": settings(by_sequence=1, entropy=0.05),
    "off policy mask": settings(has_old=0, importance=SEQUENCE_TRUNCATE, limit=0.2),
}


def draw_completions(model, steps, seed=5, batch=BATCH, sequence=SEQUENCE):
    """Columns of samples [step, 15, batch, sequence]: prompts with completions, one after the other; one sample of each step is padding alone."""
    chance = numpy.random.default_rng(seed)
    out = numpy.zeros((steps, 15, batch, sequence), numpy.int32)
    for step in range(steps):
        ids, labels, positions, weights, segments = (out[step, c] for c in range(5))
        doubles = {name: numpy.zeros((batch, sequence)) for name in ("reference", "advantage", "normaliser", "old", "behaviour")}
        labels[:], segments[:] = -2, -1
        weights[:] = numpy.ones((batch, sequence), numpy.float32).view(numpy.int32)
        positions[:] = numpy.arange(sequence)
        for row in range(batch):
            at, number = 0, 0
            while row != 1:
                prompt, completion = chance.integers(1, 5), chance.integers(1, 7)
                if at + prompt + completion - 1 > sequence:
                    break
                text = chance.integers(0, model["vocab_size"], prompt + completion)
                rows = slice(at, at + prompt + completion - 1)
                own = numpy.arange(1, prompt + completion) >= prompt
                ids[row, rows], positions[row, rows] = text[:-1], numpy.arange(prompt + completion - 1)
                labels[row, rows] = numpy.where(own, text[1:], -1)
                segments[row, rows] = numpy.where(own, number, -1)
                doubles["advantage"][row, rows] = chance.normal()
                doubles["normaliser"][row, rows] = 1 / (10 + chance.random())
                old = -numpy.log(model["vocab_size"]) + chance.normal(0, 0.3, len(own))
                doubles["old"][row, rows] = old
                doubles["behaviour"][row, rows] = old + chance.normal(0, 0.3, len(own))
                doubles["reference"][row, rows] = old + chance.normal(0, 0.4, len(own))
                at += prompt + completion - 1
                number += 1
            positions[row, at:] = numpy.arange(sequence - at)
        for index, values in enumerate(doubles.values()):
            out[step, 5 + 2 * index: 7 + 2 * index] = numpy.frombuffer(values.tobytes(), numpy.int32).reshape(2, batch, sequence)
    return out


def check(folder, model, layouts, objective, tolerance=1e-10, device="reference", precision="fp64"):
    answers = run_on(folder, model, layouts, draw_completions(model, STEPS), device, precision, objective=objective)
    for answer in answers.values():  # losses may be near 0: compared relative to 1
        answer[2][:, 0] += 10
    compare(answers, layouts, tolerance, tolerance, exact="num_experts" not in model)
    one = numpy.fromfile(folder / "one.log-probs")
    assert (one < 0).sum() > 40
    for layout in layouts:
        error = numpy.abs(numpy.fromfile(folder / f"{name_of(layout)}.log-probs") - one).max()
        assert error <= tolerance * 100, (name_of(layout), error)


@needs_launcher
@pytest.mark.parametrize("name", CASES)
def test_every_loss(tmp_path, name):
    model = GPT2 if len(name) % 2 else LLAMA
    layouts = [dict(), dict(micro_batch=8), *drawn_count(LAYOUTS, 3, f"policy {name}")[:40], *drawn_count(CONTEXT, 2, f"policy context {name}")]
    check(tmp_path, {**model, "dropout": 0.0, "max_sequence": 32}, layouts, CASES[name])


@needs_launcher
@pytest.mark.parametrize("model", [GEMMA2, OLMOE], ids=["gemma2", "experts"])
def test_models(tmp_path, model):
    layouts = [dict(), *(EXPERT_LAYOUTS if "num_experts" in model else [*drawn_count(LAYOUTS, 3, "policy gemma2"), *CONTEXT[:2]])]
    check(tmp_path, {**model, "max_sequence": 32}, layouts, CASES["temperature"])


@needs_launcher
@pytest.mark.parametrize("precision,tolerance", [("fp32", 1e-5), ("bf16", 3e-2)])
def test_on_the_cpu(tmp_path, precision, tolerance):
    layouts = [dict(), *drawn_count(LAYOUTS, 2, f"policy {precision}"), *drawn_count(CONTEXT, 2, f"policy context {precision}")]
    check(tmp_path, {**LLAMA, "max_sequence": 32}, layouts, CASES["dapo"], tolerance, "cpu", precision)

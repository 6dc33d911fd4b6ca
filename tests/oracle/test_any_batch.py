"""Steps with fewer samples than the engine was made for: their micro-batches are fewer, and the last of them are padded. Gradients, weights, losses and
log-probabilities are those of an engine that was made for this number of samples."""
import numpy
import pytest
from drawn import drawn_count
from expert_cases import MIXTRAL, OLMOE
from test_layouts import BATCH, GPT2, LAYOUTS, LLAMA, compare, draw_tokens, name_of, needs_launcher, run_on
from test_policy_layouts import CASES, draw_completions
from test_preference_layouts import CONTEXT, EXPERT_LAYOUTS

STEPS = 2
INTERLEAVED = [dict(pipeline=2, virtual=2, schedule="interleaved"), dict(pipeline=2, virtual=2, schedule="interleaved", group=3)]


def first_samples(tokens, samples):
    """The columns of the first samples of each step. A column of doubles is stored in two columns of integers, from the fifth on."""
    steps, columns, batch, sequence = tokens.shape
    out = numpy.zeros((steps, columns, samples, sequence), numpy.int32)
    out[:, :5] = tokens[:, :5, :samples]
    for step in range(steps):
        for column in range(5, columns, 2):
            doubles = numpy.frombuffer(tokens[step, column: column + 2].tobytes()).reshape(batch, sequence)[:samples]
            out[step, column: column + 2] = numpy.frombuffer(doubles.tobytes(), numpy.int32).reshape(2, samples, sequence)
    return out


def check(folder, model, layouts, tokens, samples, objective=None):
    (folder / "whole").mkdir()
    whole = run_on(folder / "whole", model, [dict()], first_samples(tokens, samples), objective=objective)
    answers = run_on(folder, model, [dict(), *layouts], tokens, objective=objective, samples=samples)
    for gradients, values, steps, _ in [*answers.values(), *whole.values()]:
        steps[:, 0] += 10 if objective else 0  # such losses may be near 0: compared relative to 1
    compare(answers, [dict(), *layouts], 1e-10, 1e-10, exact="num_experts" not in model)
    for one, other in zip(whole["one"][:3], answers["one"][:3]):
        assert numpy.linalg.norm(one - other) <= 1e-12 * numpy.linalg.norm(one)
    if objective:
        expected = numpy.fromfile(folder / "whole" / "one.log-probs")
        for layout in layouts:
            assert numpy.abs(numpy.fromfile(folder / f"{name_of(layout)}.log-probs") - expected).max() <= 1e-10, layout


@needs_launcher
@pytest.mark.parametrize("samples", [1, 3, 5, 7])
@pytest.mark.parametrize("model", [GPT2, LLAMA], ids=["gpt2", "llama"])
def test_text(tmp_path, model, samples):
    model = {**model, "dropout": 0.0}
    layouts = [dict(micro_batch=4), *INTERLEAVED, *drawn_count(LAYOUTS, 4, f"any {samples} {model['family']}"), *drawn_count(CONTEXT, 1, f"any {samples}")]
    check(tmp_path, model, layouts, draw_tokens(model, STEPS, BATCH), samples)


@needs_launcher
@pytest.mark.parametrize("samples", [2, 5])
def test_completions(tmp_path, samples):
    model = {**LLAMA, "dropout": 0.0, "max_sequence": 32}
    layouts = [INTERLEAVED[0], *drawn_count(LAYOUTS, 3, f"any policy {samples}"), *drawn_count(CONTEXT, 1, f"any policy {samples}")]
    check(tmp_path, model, layouts, draw_completions(model, STEPS), samples, CASES["temperature"])


@needs_launcher
@pytest.mark.parametrize("model", [OLMOE, MIXTRAL], ids=["olmoe", "mixtral, balance"])
def test_experts(tmp_path, model):
    check(tmp_path, model, EXPERT_LAYOUTS, draw_tokens(model, STEPS, BATCH), 5)

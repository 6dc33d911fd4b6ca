"""Policy-gradient losses beside TRL 1.16's GRPOTrainer: the engine's loss and gradients of the stored cases (policy_cases.json), with completions alone and packed, in micro-batches of 1 and 8."""
import json
import pathlib

import families
import numpy
import preference_models as pm
import pytest
from test_policy_layouts import NONE, SEQUENCE_MASK, SEQUENCE_TRUNCATE, TOKEN_MASK, TOKEN_TRUNCATE, settings
from test_preference_training import BATCH, SEQUENCE, Engine, check_gradients

STORED = json.loads((pathlib.Path(__file__).parent / "policy_cases.json").read_text())
TEXTS = pm.texts_of("completions")
MODES = {None: NONE, "token_truncate": TOKEN_TRUNCATE, "token_mask": TOKEN_MASK, "sequence_truncate": SEQUENCE_TRUNCATE, "sequence_mask": SEQUENCE_MASK}
PACKED, ALONE = {2: (4, 0, 1), 3: (2, 5, 3)}, {row: (row,) for row in range(6)}


def name_of(case):
    return " ".join(f"{key}={value}" for key, value in case.items() if key not in ("value", "gradients"))


def noise_of(name):
    shape = (len(TEXTS), STORED["longest"])
    return STORED["noise"][name] * families.mixed(f"policy {name}", shape[0] * shape[1]).reshape(shape)


def normaliser_of(case, length):
    labels = sum(len(completion) for _, completion in TEXTS)
    return {"grpo": 1 / (length * len(TEXTS)), "dapo": 1 / labels, "cispo": 1 / labels, "dr_grpo": 1 / (len(TEXTS) * STORED["longest"])}[case["loss_type"]]


def columns_of(case, placing, log_probs=None):
    """[1, 15, batch, sequence] as layout_tool has them. log_probs [batch, sequence]: those of the policy."""
    out = numpy.zeros((15, BATCH, SEQUENCE), numpy.int32)
    doubles = numpy.zeros((5, BATCH, SEQUENCE))
    ids, labels, positions, _, segments = out[:5]
    labels[:], segments[:], positions[:] = -2, -1, numpy.arange(SEQUENCE)
    out[3] = numpy.ones((BATCH, SEQUENCE), numpy.float32).view(numpy.int32)
    for row, units in placing.items():
        at = 0
        for number, unit in enumerate(units):
            prompt, completion = TEXTS[unit]
            text, rows = numpy.array(prompt + completion), slice(at, at + len(prompt + completion) - 1)
            own = numpy.arange(1, len(text)) >= len(prompt)
            ids[row, rows], positions[row, rows] = text[:-1], numpy.arange(len(text) - 1)
            labels[row, rows], segments[row, rows] = numpy.where(own, text[1:], -1), numpy.where(own, number, -1)
            at += len(text) - 1
            if log_probs is None:
                continue
            place = slice(rows.stop - len(completion), rows.stop)
            now, (old, behaviour, reference) = log_probs[row, place], (noise_of(name)[unit, :len(completion)] for name in ("old", "behaviour", "reference"))
            was = now + old if case["has_old"] else now
            doubles[:, row, place] = now + reference, numpy.full(len(now), STORED["advantages"][unit]), numpy.full(len(now), normaliser_of(case, len(now))), was, was + behaviour
        positions[row, at:] = numpy.arange(SEQUENCE - at)
    out[5:] = numpy.frombuffer(numpy.ascontiguousarray(doubles).tobytes(), numpy.int32).reshape(10, BATCH, SEQUENCE)
    return out[None]


def objective_of(case):
    cispo = case["loss_type"] == "cispo"
    return settings(cispo=int(cispo), importance=MODES[case["mode"]], by_sequence=int(case["level"] == "sequence"), has_old=int(case["has_old"]), high=2.0 if cispo else 0.28,
                    delta=case["delta"] or 1e300, beta=case["beta"], limit=case["limit"] or 1e300, temperature=case["temperature"], entropy=case["entropy"])


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    return Engine(tmp_path_factory.mktemp("engine"))


def found(engine, case, placing, layouts=(dict(),), known={}):  # noqa: B006 (log-probabilities are the same for all cases of a temperature)
    key = (case["temperature"], repr(placing))
    if key not in known:
        known[key] = engine.run("one", columns_of(case, placing), objective_of(dict(case, has_old=True)), [dict()])["one"][2]
    return engine.run("one", columns_of(case, placing, known[key]), objective_of(case), list(layouts))


@pytest.mark.parametrize("case", STORED["cases"], ids=name_of)
def test_loss_and_gradients(engine, case):
    loss, gradients, _ = found(engine, case, ALONE)["one"]
    assert abs(loss - case["value"]) <= 1e-12 * max(1, abs(case["value"]))
    check_gradients(dict(case, trainer="GRPO", loss=case["loss_type"], arguments={}), gradients)


@pytest.mark.parametrize("level,limit", [("token", None), ("sequence", None), ("token", 0.05)])
def test_packed_is_alone(engine, level, limit):
    case = dict(loss_type="grpo", beta=0.04, mode="token_mask", level=level, delta=None, temperature=0.9, has_old=True, limit=limit, entropy=0.02)
    alone = found(engine, case, ALONE, [dict(micro_batch=1), dict(micro_batch=8)])
    packed = found(engine, case, PACKED)["one"]
    for loss, gradients, _ in alone.values():
        assert abs(loss - packed[0]) <= 1e-12
        for name, gradient in gradients.items():
            assert abs(gradient - packed[1][name]).max() <= 1e-12, name

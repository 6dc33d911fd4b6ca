"""Advantages and metrics of rewards beside TRL 1.16's GRPOTrainer and RLOOTrainer (advantage_cases.json), and normalisers beside their definitions."""
import json
import math
import os
import pathlib
import random
import subprocess

import pytest

TOOL = os.path.join(os.environ["TRIREME_TOOLS"], "advantage_tool")
STORED = json.loads((pathlib.Path(__file__).parent / "advantage_cases.json").read_text(encoding="utf-8"))
SIZE, LONGEST = STORED["size"], STORED["longest"]


def computed(lines):
    """Returns the tool's answer to each of the lines."""
    usual = dict(size=SIZE, scale_rewards="group", baseline="group", loss_type="dapo", longest=LONGEST, mini_batches=1)
    given = "".join(json.dumps({**usual, **line}) + "\n" for line in lines)
    printed = subprocess.run([TOOL], input=given, capture_output=True, text=True, check=True).stdout
    return [json.loads(line) for line in printed.splitlines()]


def line_of(case):
    counts = [end or not case["masks"] for end in case["ended"]]
    return dict(rewards=case["rewards"], weights=case["weights"], tokens=case["tokens"], counts=counts, scale_rewards=case["scale_rewards"],
                baseline="leave_one_out" if case["trainer"] == "RLOO" else "group")


def near(mine, theirs):
    return mine == theirs if theirs is None else mine == pytest.approx(theirs, rel=1e-12, abs=1e-12)


def groups_of(values):
    return [values[i:i + SIZE] for i in range(0, len(values), SIZE)]


def without_signal(case):
    """For each group, whether its deviation is zero in TRL (None: it has fewer than two verdicts)."""
    totals = [None if all(v is None for v in row) else sum(v * w for v, w in zip(row, case["weights"]) if v is not None) for row in case["rewards"]]
    for group in groups_of(totals):
        known = [value for value in group if value is not None]
        yield None if len(known) < 2 else max(known) - min(known) <= 1e-8


def test_advantages_are_trls():
    cases = STORED["cases"]
    assert len(cases) == 108
    found = computed(map(line_of, cases))
    wrong = [case for case, mine in zip(cases, found, strict=True) if not all(map(near, mine["advantages"], case["advantages"]))]
    assert wrong == []


def test_metrics_are_trls():
    """TRL counts a group with fewer than two verdicts as one with a deviation. With scale_rewards batch, TRL's share is that of the batch."""
    for case, mine in zip(STORED["cases"], computed(map(line_of, STORED["cases"])), strict=True):
        assert near(mine["mean"], case["metrics"]["reward"]), case
        assert near(mine["std"], case["metrics"]["reward_std"]), case
        assert mine["no_verdict"] == sum(all(value is None for value in row) for row in case["rewards"])
        if case["scale_rewards"] != "batch":
            assert near(mine["zero_std"], case["metrics"]["frac_reward_zero_std"]), case


def test_cases_are_of_all_kinds():
    still = [set(without_signal(case)) for case in STORED["cases"]]
    assert all(any(kind in groups for groups in still) for kind in (True, False, None))
    assert any(sum(all(value is None for value in row) for row in group) == SIZE for case in STORED["cases"] for group in groups_of(case["rewards"]))
    assert any(max(map(abs, case["advantages"])) > 1 for case in STORED["cases"])


def test_a_groups_advantages_have_no_sum():
    for case, mine in zip(STORED["cases"], computed(map(line_of, STORED["cases"])), strict=True):
        for group, rewards in zip(groups_of(mine["advantages"]), groups_of(mine["rewards"])):
            assert abs(sum(group)) <= 1e-10 * max(1, max(map(abs, group)))
            known = [reward for reward in rewards if reward is not None]
            assert all(advantage == 0 for advantage, reward in zip(group, rewards) if reward is None or len(known) < 2)


def test_labels_of_dapo_are_trls():
    for case, mine in zip(STORED["cases"], computed(map(line_of, STORED["cases"])), strict=True):
        if case["labels"] is None:
            continue
        assert set(mine["normalisers"]) == {1 / case["labels"] if case["labels"] else 0}


def test_normalisers_are_those_of_the_whole_batch():
    """The loss of a label that has value 1 everywhere: the sum over an iteration's updates, each on its part, is the number of parts times the mean."""
    draw = random.Random(3)
    for _ in range(30):
        count, parts = SIZE * draw.randrange(1, 6), draw.choice((1, 2, 3))
        tokens, counts = [draw.randrange(1, LONGEST + 1) for _ in range(count)], [draw.random() < 0.8 for _ in range(count)]
        lines = [dict(rewards=[[0.0]] * count, weights=[1.0], tokens=tokens, counts=counts, mini_batches=parts, loss_type=name) for name in ("dapo", "cispo", "grpo", "dr_grpo")]
        dapo, cispo, grpo, dr_grpo = (answer["normalisers"] for answer in computed(lines))
        assert dapo == cispo
        labels = sum(length for length, counted in zip(tokens, counts) if counted)
        assert math.isclose(sum(n * length for n, length, counted in zip(dapo, tokens, counts) if counted), parts if labels else 0)
        for mine, length in zip(grpo, tokens):
            assert math.isclose(mine * length * count, parts)
        assert all(math.isclose(mine * LONGEST * count, parts) for mine in dr_grpo)

"""Runs that learn from rewards: equal results however completions are sampled, on several ranks, interrupted and killed; adapters; and one update beside plain
PyTorch."""
import collections
import itertools
import json
import os
import random
import re
import signal
import subprocess
import sys
import time

import numpy
import preference_runs as preference
import pytest
import reinforcement_runs as runs
from drawn import drawn
from optimizer_runs import newest_of, ranks_words
from parity import TRIREME, trireme, yaml_of
from safetensors.numpy import load_file
from test_preference_runs import ADAPTERS, WIDE

FP32 = dict(precision="fp32")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return runs.write_all(tmp_path_factory.mktemp("made"))


@pytest.fixture(scope="module")
def plain(tmp_path_factory, made):
    """Returns the results of the usual run in a precision: {"fp64": ..., "fp32": ...}."""
    found = {}
    for precision in ("fp64", "fp32"):
        folder = tmp_path_factory.mktemp(precision)
        runs.train(folder, made, precision=precision, **COMPARED(made))
        found[precision] = runs.ended(folder)
    return found


def EVALUATED(made):  # noqa: N802
    return dict(data=dict(validation_prompts=str(made / "held-out.jsonl")), evaluation=dict(every=2, sequences=8))


def COMPARED(made):  # noqa: N802 (the keys of all runs that are compared with `plain`)
    return dict(EVALUATED(made), objective=dict(name="grpo", beta=0.05))


def limit(precision):
    return dict(fp64=1e-12, fp32=1e-5, bf16=2e-2)[precision]


# ---- a run -----------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("precision", ["fp64", "fp32"])
def test_what_a_run_writes(plain, precision):
    lines, rollouts, _ = plain[precision]
    rollouts = [json.loads(line) for line in rollouts.splitlines()]
    assert [(line["batch"], line["group"], line["sample"]) for line in rollouts] == [(g // runs.GROUPS, g, s) for g in range(runs.STEPS * runs.GROUPS) for s in range(runs.SIZE)]
    prompts = runs.prompts()
    for line in rollouts:
        given, text = prompts[line["line"] - 1], line["completion"]
        marks = {"regex": float(text[:1] in set("abcdefghijkl")), "contains": float("c" in text), "exact": float(text == given["answer"])}
        assert line["rewards"] == marks and line["prompt"] == given["prompt"]
        assert line["reward"] == marks["regex"] + 0.5 * marks["contains"] + 2 * marks["exact"]
        letters = len(text.replace("<pad>", "_"))
        assert line["tokens"] == letters + (line["finish"] == "end") and (line["finish"] == "length") == (letters == runs.LONGEST)
    for line in lines:
        mine = [one for one in rollouts if one["batch"] == line["step"] - 1]
        for key, values in dict(reward=[one["reward"] for one in mine], **{f"rewards/{name}/mean": [one["rewards"][name] for one in mine] for name in ("regex", "contains", "exact")},
                                **{"completions/mean_length": [one["tokens"] for one in mine], "completions/clipped_ratio": [one["finish"] == "length" for one in mine]}).items():
            assert line[key] == pytest.approx(numpy.mean(values), rel=1e-12), key
        assert line["reward_std"] == pytest.approx(numpy.std([one["reward"] for one in mine], ddof=1), rel=1e-12)
        assert line["sampling/sampling_logp_difference/mean"] <= limit(precision)
        assert ("validation/reward" in line) == (line["step"] % 2 == 0)


def test_prompts_of_an_epoch(made, tmp_path):
    """Each prompt comes once in each epoch, in another order; and the orders are those of the seed."""
    orders = {}
    for seed in (7, 8):
        runs.train(tmp_path / str(seed), made, rollout=dict(prompts=5, num_generations=2), optimizer=dict(steps=8), seed=seed)
        lines = [line["line"] for line in runs.rollouts_of(tmp_path / str(seed)) if line["sample"] == 0]
        orders[seed] = [lines[:runs.PROMPTS], lines[runs.PROMPTS:]]
        assert all(sorted(order) == list(range(1, runs.PROMPTS + 1)) for order in orders[seed])
        assert orders[seed][0] != orders[seed][1]
    assert orders[7][0] != orders[8][0]


EQUAL = {"slots 4": dict(rollout=dict(slots=4)), "slots 1": dict(rollout=dict(slots=1)), "slots 100": dict(rollout=dict(slots=100)), "a small cache": dict(rollout=dict(cache=3 * 16384)),
         "threads 2": dict(threads=2), "pipeline 2": dict(ranks=2, layout=dict(pipeline=2)), "no texts": dict(rollout=dict(log=0))}


@pytest.mark.parametrize("precision", ["fp64", "fp32"])
@pytest.mark.parametrize("name", drawn(EQUAL, 3, "ways to sample completions"))
def test_equal_bits(tmp_path, made, plain, name, precision):
    more = {key: value for key, value in EQUAL[name].items() if key != "ranks"}
    runs.train(tmp_path, made, ranks_words(EQUAL[name].get("ranks", 1)), precision=precision, **COMPARED(made), **more)
    lines, rollouts, weights = runs.ended(tmp_path)
    assert lines == plain[precision][0] and weights == plain[precision][2]
    if name == "no texts":
        theirs = [{key: value for key, value in json.loads(line).items() if key not in ("prompt", "completion")} for line in plain[precision][1].splitlines()]
        assert [json.loads(line) for line in rollouts.splitlines()] == theirs
    else:
        assert rollouts == plain[precision][1]


# Data parallel runs add gradients in another order than one rank does.
NEAR = {"data 2": dict(), "zero 1": dict(layout=dict(zero=1)), "zero 2": dict(layout=dict(zero=2)), "zero 3": dict(layout=dict(zero=3)), "replicas of 2": dict(rollout=dict(tensor=2)),
        "tensor 2": dict(layout=dict(tensor=2)), "tensor 2, replicas of 2": dict(layout=dict(tensor=2), rollout=dict(tensor=2)), "context 2": dict(layout=dict(context=2)),
        "pipeline 2, replicas of 2": dict(layout=dict(pipeline=2), rollout=dict(tensor=2)), "micro-batches of 5": dict(ranks=1, layout=dict(micro_batch=5)), "data 3": dict(ranks=3)}


@pytest.mark.parametrize("name", drawn(NEAR, 3, "layouts of reinforcement learning"))
def test_equal_completions(tmp_path, made, plain, name):
    more = {key: value for key, value in NEAR[name].items() if key != "ranks"}
    runs.train(tmp_path, made, ranks_words(NEAR[name].get("ranks", 2)), **COMPARED(made), **more)
    lines, rollouts, _ = runs.ended(tmp_path)
    assert rollouts == plain["fp64"][1]
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    assert summary["peak_bytes_predicted"] == summary["peak_bytes_measured"]
    for mine, theirs in zip(lines, plain["fp64"][0], strict=True):
        assert mine.keys() == theirs.keys()
        for key in mine.keys() - {"bad_steps"}:
            assert mine[key] == pytest.approx(theirs[key], rel=1e-9, abs=1e-11), key


@pytest.mark.parametrize("name", ["self_attn.q_proj", "self_attn.v_proj", "mlp.gate_proj"])
@pytest.mark.parametrize("precision", ["fp64", "fp32"])
def test_a_frozen_part_of_joined_matrices(tmp_path, made, precision, name):
    """Matrices that one GEMM reads are not adjacent if some of them are frozen, so that rollouts, and samples, need copies."""
    lines = runs.train(tmp_path, made, precision=precision, freeze=[f"model.layers.1.{name}.weight"], samples=dict(prompts=["ab"], tokens=8, temperature=0), checkpoint=dict(every=2))
    assert all(line["sampling/sampling_logp_difference/mean"] <= limit(precision) for line in lines)
    sample = json.loads((tmp_path / "run/samples.jsonl").read_text().splitlines()[-1])
    said = trireme("generate", newest_of(tmp_path / "run"), "--prompt", "ab", "--tokens", 8, "--temperature", 0, "--precision", precision, *(("--device", "reference") if precision == "fp64" else ())).stdout
    assert sample["text"] in said


@pytest.mark.parametrize("name", ["tensor 2", "pipeline 2", "zero 3"])
def test_rollouts_have_the_trained_weights(tmp_path, made, name):
    """Also of an optimizer that saves other weights than it trains: completions are those of one rank, which reads the weights in place."""
    more = dict(optimizer=dict(name="schedule_free"), checkpoint=dict(every=1))
    runs.train(tmp_path / "one", made, **more)
    key, number = name.split()
    runs.train(tmp_path / "two", made, ranks_words(2), layout={key: int(number)}, **more)
    assert (tmp_path / "one/run/rollouts.jsonl").read_text() == (tmp_path / "two/run/rollouts.jsonl").read_text()


@pytest.mark.parametrize("zero", [1, 2, 3])
def test_zero_has_the_bits_of_data_parallel(tmp_path, made, zero):
    found = []
    for stage in (0, zero):
        runs.train(tmp_path / str(stage), made, ranks_words(2), **FP32, layout=dict(zero=stage))
        found.append(runs.ended(tmp_path / str(stage)))
    assert found[0] == found[1]


# ---- objectives ------------------------------------------------------------------------------------------------------

GRPO = {"two mini-batches": dict(mini_batches=2), "iterations": dict(num_iterations=2, mini_batches=2), "cispo": dict(loss_type="cispo", epsilon_high=2.0), "dr_grpo": dict(recipe="dr_grpo"),
        "rloo": dict(recipe="rloo"), "gspo": dict(recipe="gspo", num_iterations=2), "dapo": dict(recipe="dapo"), "reinforce_pp": dict(recipe="reinforce_pp"), "icepop": dict(recipe="icepop"),
        "truncated ones masked": dict(mask_truncated_completions=True), "entropy": dict(entropy_coef=0.1), "all": dict(num_iterations=2, delta=1.5, off_policy_mask_threshold=0.1, entropy_coef=0.01, baseline="leave_one_out", scale_rewards="batch",
                                                                                                                     importance_sampling=dict(mode="sequence_truncate", max=2.0))}


@pytest.mark.parametrize("name", drawn(GRPO, 3, "objectives of reinforcement learning"))
def test_objectives(tmp_path, made, name):
    """Slots, pipelines and an interruption between two batches change no bit. Updates of a batch after the first one have other log-probabilities than sampling had."""
    objective = dict(name="grpo", **GRPO[name])
    updates = objective.get("num_iterations", 1) * objective.get("mini_batches", 1)
    more = dict(objective=objective, optimizer=dict(steps=3 * updates), checkpoint=dict(every=updates), **FP32)
    lines = runs.train(tmp_path / "whole", made, **more)
    whole = runs.ended(tmp_path / "whole")
    for line in lines:
        first = (line["step"] - 1) % updates == 0
        difference = line["sampling/sampling_logp_difference/mean"]
        assert difference <= 1e-5 if first else difference > 1e-4
        assert ("reward" in line) == first
        assert 0 <= line["clip_ratio/region_mean"] <= 1 and (not first or line["clip_ratio/region_mean"] == 0)
    assert len(runs.rollouts_of(tmp_path / "whole")) == 3 * runs.GROUPS * runs.SIZE
    runs.train(tmp_path / "slots", made, ranks_words(2), **{**more, "rollout": dict(slots=3), "layout": dict(pipeline=2)})
    assert runs.ended(tmp_path / "slots") == whole
    runs.train(tmp_path / "parts", made, ["--stop-at", updates], **more)
    runs.train(tmp_path / "parts", made, **more)
    assert runs.ended(tmp_path / "parts") == whole


def test_the_run_file_of_a_run(tmp_path, made):
    """config.yaml in a run's folder is a run file that gives the same run, also if the first one has a recipe."""
    more = dict(objective=dict(name="grpo", recipe="dapo", num_iterations=2), rollout=dict(filter=dict(low=0.1, high=2.0), stop=["bb", "e", "\n", "\t\"\\"]), data=dict(skip_long=True), optimizer=dict(steps=4))
    runs.train(tmp_path, made, **more)
    expected = runs.ended(tmp_path)
    text = (tmp_path / "run/config.yaml").read_text()
    (tmp_path / "again.yaml").write_text(text.replace(str(tmp_path / "run"), str(tmp_path / "again/run")))
    trireme("train", tmp_path / "again.yaml")
    assert runs.ended(tmp_path / "again") == expected


ONE_REWARD = {"exact": dict(name="exact"), "a pattern": dict(name="regex", pattern="^[a-f]"), "a weight": dict(name="exact", weight=0.5), "a label": dict(name="exact", label="mine"), "a command": dict(command="size.py"),
              "a named command": dict(command="size.py", name="size", workers=2, timeout=20)}


@pytest.mark.parametrize("name", ONE_REWARD)
def test_the_run_file_of_a_run_with_one_reward(tmp_path, made, name):
    """It has all keys of the reward, and a run that resumes with another one reads them."""
    (tmp_path / "size.py").write_text("import json, sys\nfor line in sys.stdin:\n    asked = json.loads(line)\n    print(json.dumps(dict(id=asked['id'], reward=len(asked['completion']))), flush=True)\n")
    reward = {key: f"{sys.executable} {tmp_path}/size.py" if key == "command" else value for key, value in ONE_REWARD[name].items()}
    runs.train(tmp_path, made, ["--stop-at", 2], reward=[reward])
    text = (tmp_path / "run/config.yaml").read_text()
    (tmp_path / "again.yaml").write_text(text.replace(str(tmp_path / "run"), str(tmp_path / "again/run")))
    trireme("train", tmp_path / "again.yaml", "--stop-at", 2)
    assert runs.ended(tmp_path / "again") == runs.ended(tmp_path)
    said = trireme("train", runs.write_run(tmp_path, made, reward=[dict(name="contains", text="q")])).stderr
    assert "reward was " in said and " from here on" in said, said


def test_stop_strings(tmp_path, made):
    """The text ends before the string; its tokens are labels."""
    runs.train(tmp_path, made, rollout=dict(stop=["b", "cd"]))
    lines = runs.rollouts_of(tmp_path)
    assert collections.Counter(line["finish"] for line in lines).keys() == {"length", "end", "stop"}
    for line in lines:
        assert "b" not in line["completion"] and "cd" not in line["completion"]
        more = dict(end=(1,), stop=(1, 2), length=(0,))[line["finish"]]
        assert line["tokens"] - len(line["completion"].replace("<pad>", "_")) in more


def test_filter(tmp_path, made):
    """Only groups within the limits are trained on, in the order of the prompts; others are counted."""
    lines = runs.train(tmp_path, made, rollout=dict(filter=dict(low=0.2, high=0.8)))
    trained = runs.rollouts_of(tmp_path)
    assert sum(line["filtered"] for line in lines) > 0
    groups = collections.defaultdict(list)
    for line in trained:
        groups[line["group"]].append(line["reward"])
    assert list(groups) == sorted(groups) and all(0.2 < numpy.mean(rewards) < 0.8 for rewards in groups.values())
    for line in lines:
        of_batch = {one["group"] for one in trained if one["batch"] == line["step"] - 1}
        assert len(of_batch) == runs.GROUPS
    assert max(groups) + 1 - len(groups) >= sum(line["filtered"] for line in lines) - runs.GROUPS * runs.STEPS
    runs.train(tmp_path / "again", made, rollout=dict(filter=dict(low=0.2, high=0.8), slots=2))
    assert runs.ended(tmp_path / "again") == runs.ended(tmp_path)


def batch_of(means, low, high, most):
    """The groups of a filtered batch: each dropped group is replaced by the next one, up to `most` of them. Returns the accepted groups and the number of dropped ones."""
    begun = dropped = 0
    accepted = []
    while begun < runs.GROUPS + min(dropped, most):
        accepted += [begun] if low < means[begun] < high else []
        dropped += not low < means[begun] < high
        begun += 1
    return accepted, dropped


# Answers as the rules of runs.REWARD do, each after a time that the completion decides.
SLOW = """import json, sys, time, zlib
for line in sys.stdin:
    item = json.loads(line)
    text = item["completion"]
    time.sleep(zlib.crc32(text.encode()) % 7 / 100)
    print(json.dumps(dict(id=item["id"], reward=dict(first=float(text[:1] in tuple("abcdefghijkl")), c=0.5 * ("c" in text), answer=2.0 * (text == item["answer"])))), flush=True)
"""


@pytest.mark.parametrize("most", [0, 3, 30])
def test_groups_of_a_filtered_batch(tmp_path, made, most):
    """Computed from the groups of a batch without a filter. The same with few slots, on two ranks, and with commands whose answers arrive late and in any order while other groups are sampled."""
    low, high = 0.5, 1.0
    runs.train(tmp_path / "all", made, rollout=dict(prompts=40), optimizer=dict(steps=1))
    means = [numpy.mean([one["reward"] for one in runs.rollouts_of(tmp_path / "all") if one["group"] == group]) for group in range(40)]
    accepted, dropped = batch_of(means, low, high, most)
    assert dropped >= 3 and (most == 30) == (len(accepted) == runs.GROUPS)
    (tmp_path / "slow.py").write_text(SLOW)
    commands = [dict(command=f"exec python3 -S {tmp_path}/slow.py", label="slow", workers=3, batch=4)]
    for name, words, more in (("rules", (), {}), ("slots", (), dict(rollout=dict(slots=2))), ("ranks", ("-n", "2"), dict(layout=dict(pipeline=2))), ("commands", (), dict(reward=commands)),
                              ("both", ("-n", "2"), dict(reward=commands, rollout=dict(slots=3), layout=dict(pipeline=2)))):
        rollout = dict(filter=dict(low=low, high=high), max_filtered=most, **more.pop("rollout", {}))
        lines = runs.train(tmp_path / name, made, words, rollout=rollout, optimizer=dict(steps=2), **more)
        found = runs.rollouts_of(tmp_path / name)
        assert sorted({one["group"] for one in found if one["batch"] == 0}) == accepted, name
        assert lines[0]["filtered"] == dropped
        assert min(one["group"] for one in found if one["batch"] == 1) >= runs.GROUPS + min(dropped, most)
        if name in ("slots", "ranks"):
            assert runs.ended(tmp_path / name) == runs.ended(tmp_path / "rules")
        if name == "both":
            assert runs.ended(tmp_path / name) == runs.ended(tmp_path / "commands")


def test_all_truncated_and_masked(tmp_path, made):
    """A batch without any label that counts is skipped, and a run of such batches stops."""
    run = runs.write_run(tmp_path, made, objective=dict(name="grpo", mask_truncated_completions=True), rollout=dict(prompts=1, num_generations=4, max_completion_length=1), optimizer=dict(steps=1))
    done = trireme("train", run, status=8)
    assert "step 1 is skipped: none of its labels counts" in done.stderr
    assert "no label counted in the first 1 step, so the run stops; completions of rollout.max_completion_length 1 tokens do not count (objective.mask_truncated_completions): raise it, or look at rollouts.jsonl" in done.stderr
    line, = runs.lines_of(tmp_path / "run")
    assert line["completions/clipped_ratio"] == 1 and line["reward_std"] > 0
    assert line["loss"] is None


# ---- types and adapters ----------------------------------------------------------------------------------------------

def test_bf16(tmp_path, made):
    lines = runs.train(tmp_path, made, precision="bf16")
    assert all(0 < line["sampling/sampling_logp_difference/mean"] <= limit("bf16") for line in lines)
    runs.train(tmp_path / "slots", made, precision="bf16", rollout=dict(slots=3))
    assert runs.ended(tmp_path / "slots") == runs.ended(tmp_path)


def test_a_base_that_stays_packed(tmp_path, monkeypatch):
    """In bf16 a rank that generates packs matrices of the base of an adapter in place, if their size allows it. The factors of later steps are moved to it, and the base
    is not packed again."""
    monkeypatch.setitem(runs.preference.pm.CONFIG, "intermediate_size", 64)
    made = runs.write_all(tmp_path)
    more = dict(precision="bf16", adapter=dict(rank=2, alpha=4), samples=dict(prompts=["ab"], tokens=8, temperature=0), checkpoint=dict(every=1))
    found = []
    for name, words, layout in (("one rank", (), {}), ("two ranks", ranks_words(2), dict(pipeline=2))):
        lines = runs.train(tmp_path / name, made, words, **more, layout=layout)
        assert all(line["sampling/sampling_logp_difference/mean"] <= limit("bf16") for line in lines)
        found.append((runs.ended(tmp_path / name), (tmp_path / name / "run/samples.jsonl").read_text()))
    assert found[0] == found[1]


@pytest.fixture(scope="module")
def wide(tmp_path_factory, made):
    """A model with rows of whole blocks of 64, for four bits, and the tokenizer of letters."""
    folder = tmp_path_factory.mktemp("wide")
    (folder / "text.txt").write_text("".join(line["prompt"] + "\n" for line in runs.prompts()))
    trireme("prepare", "--tokenizer", made / "model", "--out", folder / "corpus", folder / "text.txt")
    run = dict(model=WIDE, data=dict(train=str(folder / "corpus/train"), sequence=16), optimizer=dict(global_batch=2, steps=1, lr=1e-9), output=str(folder / "base"))
    (folder / "base.yaml").write_text(yaml_of(run))
    trireme("train", folder / "base.yaml")
    trireme("export", folder / "base", folder / "model")
    for name in ("prompts.jsonl", "held-out.jsonl"):
        (folder / name).write_text((made / name).read_text())
    return folder


@pytest.mark.parametrize("name, beta", drawn([(name, beta) for name in ADAPTERS if name != "lora, trained beside" for beta in (0, 0.1)], 3, "adapters of reinforcement learning"))
def test_adapters(tmp_path, wide, name, beta):
    """Rollouts read the adapted weights; slots and an interruption change no bit. The reference is the base, and kl begins at 0."""
    more = dict(adapter=ADAPTERS[name], objective=dict(name="grpo", beta=beta, num_iterations=2), optimizer=dict(steps=4), checkpoint=dict(every=2), **FP32)
    lines = runs.train(tmp_path / "whole", wide, **more)
    whole = runs.ended(tmp_path / "whole")
    assert all(line["sampling/sampling_logp_difference/mean"] <= 1e-5 for line in lines[::2])
    if beta > 0:
        assert abs(lines[0]["kl"]) <= 1e-9 and lines[1]["kl"] > 1e-9 and lines[2]["kl"] > 1e-9
    runs.train(tmp_path / "parts", wide, ["--stop-at", 2], **more)
    runs.train(tmp_path / "parts", wide, **more)
    assert runs.ended(tmp_path / "parts") == whole
    runs.train(tmp_path / "slots", wide, **more, rollout=dict(slots=5))
    assert runs.ended(tmp_path / "slots") == whole


@pytest.mark.parametrize("name, more", drawn([("lora", dict(rollout=dict(tensor=2))), ("dora", dict(rollout=dict(tensor=2))), ("lora", dict(layout=dict(pipeline=2))), ("qlora", dict(layout=dict(pipeline=2))),
                                              ("lora", dict(layout=dict(zero=3))), ("qlora", dict(layout=dict(zero=3))), ("lora", dict(layout=dict(tensor=2)))], 2, "adapters that sample on two ranks"), ids=str)
def test_adapters_on_two_ranks(tmp_path, wide, name, more):
    more = dict(adapter=ADAPTERS[name], optimizer=dict(steps=3), **more)
    lines = runs.train(tmp_path / "two", wide, ranks_words(2), **more)
    assert all(line["sampling/sampling_logp_difference/mean"] <= 1e-12 for line in lines)
    runs.train(tmp_path / "one", wide, **{key: value for key, value in more.items() if key not in ("layout", "rollout")})
    assert (tmp_path / "two/run/rollouts.jsonl").read_text() == (tmp_path / "one/run/rollouts.jsonl").read_text()


# ---- the reference ---------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("optimizer", ["adamw", "schedule_free"])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_the_reference_is_the_model_at_the_beginning(tmp_path, made, precision, optimizer):
    """Without an adapter it is a copy: kl begins at exactly 0, rollouts do not see it, and beta 0 has the bits of a run without a reference in the first batch."""
    more = dict(precision=precision, optimizer=dict(name=optimizer, steps=4, lr=3e-3))
    lines = runs.train(tmp_path / "with", made, objective=dict(name="grpo", beta=0.1, num_iterations=2), **more)
    assert lines[0]["kl"] == 0 and all(line["kl"] > 0 for line in lines[1:])
    without = runs.train(tmp_path / "without", made, objective=dict(name="grpo", num_iterations=2), **more)
    assert [lines[0][key] - without[0][key] for key in ("loss", "grad_norm")] == [0, 0]
    assert [one for one in runs.rollouts_of(tmp_path / "with") if one["batch"] == 0] == [one for one in runs.rollouts_of(tmp_path / "without") if one["batch"] == 0]
    more["layout"] = dict(zero=1)
    runs.train(tmp_path / "parts", made, ["--stop-at", 2], objective=dict(name="grpo", beta=0.1, num_iterations=2), **more)
    runs.train(tmp_path / "parts", made, objective=dict(name="grpo", beta=0.1, num_iterations=2), **more)
    assert runs.ended(tmp_path / "parts") == runs.ended(tmp_path / "with")


@pytest.mark.parametrize("name", ["lora, trained beside", "dora"])
def test_the_reference_of_an_adapter_that_begins_elsewhere(tmp_path, wide, name):
    """Weights that are trained beside factors, and factors of `adapter.from`, have a reference of their own: kl begins at 0, although the base alone differs."""
    runs.train(tmp_path / "first", wide, adapter=ADAPTERS[name], optimizer=dict(steps=2))
    begun = dict(ADAPTERS[name], **{"from": str(tmp_path / "first/run")}) if name == "dora" else ADAPTERS[name]
    lines = runs.train(tmp_path / "second", wide, adapter=begun, objective=dict(name="grpo", beta=0.1, num_iterations=2))
    assert lines[0]["kl"] == 0 and all(line["kl"] > 0 for line in lines[1:])


def test_a_checkpoint_without_a_reference(tmp_path, made):
    """A run that began with beta 0 has no reference, and a run with another optimizer would lose it."""
    runs.train(tmp_path, made, ["--stop-at", 2])
    later = runs.write_run(tmp_path, made, objective=dict(name="grpo", beta=0.1))
    said = trireme("train", later, status=3).stderr
    assert "`objective.beta` 0.1: " in said and "has no reference, because it was saved with beta 0; set beta to 0, or begin a new run with `init`" in said
    runs.train(tmp_path / "kept", made, ["--stop-at", 2], objective=dict(name="grpo", beta=0.1))
    other = runs.write_run(tmp_path / "kept", made, objective=dict(name="grpo", beta=0.1), optimizer=dict(name="lion"))
    said = trireme("train", other, "--set", "allow_change=optimizer.name", status=3).stderr
    assert "its reference (objective.beta) is one of the optimizer's states, which another optimizer does not take over" in said


def test_other_rewards_and_stop_strings_on_the_way(tmp_path, made):
    """Other rewards are said, and earlier validation rewards do not count; other stop strings are refused, unless they are allowed."""
    more = dict(EVALUATED(made), optimizer=dict(steps=4))
    runs.train(tmp_path, made, ["--stop-at", 2], **more)
    said = trireme("train", runs.write_run(tmp_path, made, rollout=dict(stop=["a"]), **more), status=3).stderr
    assert "rollout.stop is [] there and [a] in this run" in said
    other = [dict(runs.REWARD[0], pattern="^[a-c]"), *runs.REWARD[1:]]
    said = trireme("train", runs.write_run(tmp_path, made, reward=other, rollout=dict(stop=["a"]), allow_change="rollout.stop", **more)).stderr
    assert "rollout.stop changes from [] to [a], as `allow_change` allows" in said
    assert 'reward was regex with pattern "^[a-l]" and is pattern "^[a-c]" from here on' in said
    assert "with another reward validation rewards do not compare: the highest so far, 0." in said
    said = trireme("train", runs.write_run(tmp_path, made, reward=other[:2], objective=dict(name="grpo", epsilon=0.3), rollout=dict(stop=["a"]), allow_change="objective.epsilon,reward", **dict(more, optimizer=dict(steps=6)))).stderr
    assert "reward was [regex, contains, exact] and is [regex, contains] from here on" in said and "objective.epsilon was 0.2 and is 0.3 from here on" in said


@pytest.mark.parametrize("words, layout", [((), dict()), (("-n", "2"), dict(zero=1)), (("-n", "2"), dict(tensor=2))], ids=["in place", "zero 1", "moved"])
def test_schedule_free_is_judged_by_its_average(tmp_path, made, words, layout):
    """validation/reward is that of the weights in the checkpoint, from which another run begins; completions of batches are those of the trained weights."""
    (tmp_path / "number.py").write_text("import json, sys, zlib\nfor line in sys.stdin:\n    asked = json.loads(line)\n    print(json.dumps(dict(id=asked['id'], reward=zlib.crc32(asked['completion'].encode()) / 2 ** 32)), flush=True)\n")
    rewards = [dict(command=f"{sys.executable} {tmp_path}/number.py")]
    more = dict(EVALUATED(made), reward=rewards, **FP32)
    more["evaluation"] = dict(every=4, sequences=8)
    more["rollout"] = dict(validation_temperature=1.0)
    lines = runs.train(tmp_path / "run", made, words, optimizer=dict(name="schedule_free"), layout=layout, **more)
    more["evaluation"] = dict(every=1, sequences=8)
    begun = runs.train(tmp_path / "next", made, init=str(tmp_path / "run/run"), **dict(more, optimizer=dict(steps=1, lr=1e-30, weight_decay=0)))
    assert lines[-1]["validation/reward"] == begun[0]["validation/reward"] and lines[-1]["validation/reward"] > 0


def test_candidates_of_held_out_completions(tmp_path, made):
    """With one candidate, or a penalty that nothing survives, the temperature does not matter; other candidates give other texts."""
    found = []
    for number, more in enumerate((dict(validation_temperature=0.0), dict(validation_temperature=1.0, validation_top_k=1), dict(validation_temperature=1.0, validation_top_p=1e-9),
                                   dict(validation_temperature=1.0, validation_min_p=1.0), dict(validation_temperature=0.0, validation_repetition_penalty=100.0))):
        lines = runs.train(tmp_path / str(number), made, **dict(EVALUATED(made), rollout=more, optimizer=dict(steps=2), **FP32))
        found.append((lines[-1]["validation/reward"], lines[-1]["validation/completions/mean_length"], lines[-1]["loss"]))
    assert found[0] == found[1] == found[2] == found[3] and found[0][2] == found[4][2] and found[0][:2] != found[4][:2]


def test_memory_for_candidates(tmp_path, made):
    """The plan has the memory of the host's sampler, for each thread: a struct of three addresses, and for each token a candidate and two logits."""
    planned = []
    for more in (dict(validation_temperature=1.0), dict(validation_temperature=1.0, validation_top_k=5), dict(validation_temperature=0.0, validation_repetition_penalty=2.0)):
        said = trireme("train", runs.write_run(tmp_path, made, **dict(EVALUATED(made), rollout=more, device="cpu", threads=2, **FP32)), "--dry-run", "--verbose").stdout
        planned.append([int(re.search(f"^  {name} +([0-9]+) bytes", said, re.MULTILINE).group(1)) for name in ("rollouts", "host memory", "all")])
    vocabulary = json.loads((made / "model/config.json").read_text())["vocab_size"]
    assert planned[1] == planned[2] == [bytes + 2 * (24 + vocabulary * 32) for bytes in planned[0]]


def test_a_timeline(tmp_path, made):
    """Sampling is an event of each rank, and so is the move of the weights, which is communication; both are in the shares of time."""
    trireme("train", runs.write_run(tmp_path, made, layout=dict(tensor=2), **FP32), "-n", 2, "--timeline", tmp_path / "t.svg")
    events = [event for event in json.loads((tmp_path / "t.json").read_text())["traceEvents"] if event["ph"] == "X"]
    for name, category in (("sample completions", "sample"), ("move weights", "communication")):
        assert {(event["pid"], event["cat"]) for event in events if event["name"] == name} == {(0, category), (1, category)}
    share = json.loads((tmp_path / "run/summary.json").read_text())["share"]
    assert 0 < share["sampling"] < 1 and sum(value for key, value in share.items() if key not in ("hidden", "steps", "step_s")) == pytest.approx(1)
    assert "sampling" in (tmp_path / "t.svg").read_text()


@pytest.mark.parametrize("batch, said", [(3, "no step was timed"), (4, "the run has ended within the timed steps")], ids=str)
def test_a_timeline_that_is_not_written(tmp_path, made, batch, said):
    """A signal while a batch is scored: its step, the third or a later one, is timed and is not made."""
    (tmp_path / "reward.sh").write_text("""while read -r line; do
  count=$((count + 1))
  if [ $count = %d ]; then kill -TERM $PPID; sleep 5; fi
  echo "$line" | sed 's/.*"id": *\\([0-9]*\\).*/{"id": \\1, "reward": 1}/'
done
""" % ((batch - 1) * runs.GROUPS * runs.SIZE + 1))
    done = trireme("train", runs.write_run(tmp_path, made, reward=[dict(command=f"exec sh {tmp_path}/reward.sh")], optimizer=dict(steps=6), **FP32), "--timeline", tmp_path / "t", status=130)
    assert f"interrupted after step {batch - 1}; its checkpoint is written" in done.stderr and f"--timeline {tmp_path}/t: {said}, so it is not written" in done.stderr


def test_no_verdict_at_all(tmp_path, made):
    """A command that answers null for each completion of the second batch: the state before it is saved."""
    (tmp_path / "reward.py").write_text("import json, sys\nfor number, line in enumerate(sys.stdin):\n    print(json.dumps(dict(id=json.loads(line)['id'], reward=number % 2 if number < 24 else None)), flush=True)\n")
    done = trireme("train", runs.write_run(tmp_path, made, reward=[dict(command=f"{sys.executable} {tmp_path}/reward.py")], **FP32), status=5)
    assert "no reward has a verdict about any of 24 completions, so there is nothing to learn from; the run saves the state before this batch and ends" in done.stderr
    assert "stopped after step 1; its checkpoint is written" in done.stderr


def test_two_rewards_of_one_kind(tmp_path, made):
    """Each has its `label` in metrics and in rollouts.jsonl. A text to find may have line breaks, also in the run's config.yaml."""
    rewards = [dict(name="regex", label="low", pattern="^[a-l]"), dict(name="regex", label="high", pattern="^[m-z]", weight=0.5), dict(name="contains", text="a\n\tb")]
    lines, low = runs.train(tmp_path, made, reward=rewards, optimizer=dict(steps=1)), []
    trireme("train", tmp_path / "run/config.yaml", "--dry-run")
    for one in runs.rollouts_of(tmp_path):
        assert one["rewards"] == {"low": float(one["completion"][:1] in set("abcdefghijkl")), "high": float(one["completion"][:1] in set("mnopqrstuvwxyz")), "contains": 0}
        low.append(one["rewards"]["low"])
    assert lines[0]["rewards/low/mean"] == pytest.approx(numpy.mean(low)) and lines[0]["reward"] == pytest.approx(lines[0]["rewards/low/mean"] + lines[0]["rewards/high/mean"] / 2)


# ---- interrupted and killed ------------------------------------------------------------------------------------------

def start_and_end(draw, path, words, seconds):
    """Starts the run and ends it at a random moment, unless it is done before. Returns whether it is done. seconds: duration of a whole run."""
    process = subprocess.Popen([TRIREME, "train", path, *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        said = process.communicate(timeout=draw.uniform(0.1, 0.9) * seconds)[1]
    except subprocess.TimeoutExpired:
        number = draw.choice((signal.SIGKILL, signal.SIGTERM, signal.SIGINT))
        os.killpg(process.pid, number) if number == signal.SIGKILL else process.send_signal(number)
        process.communicate()
        return False
    assert process.returncode == 0, said
    return True


@pytest.mark.parametrize("words", [(), ("-n", "2")], ids=["one rank", "two ranks"])
def test_killed_and_gone_on(tmp_path, made, words):
    more = dict(objective=dict(name="grpo", num_iterations=2, mini_batches=3, beta=0.1), rollout=dict(filter=dict(low=0.01), max_filtered=3, num_generations=8), optimizer=dict(steps=60), checkpoint=dict(every=6), **FP32, **EVALUATED(made))
    begin = time.monotonic()
    runs.train(tmp_path / "whole", made, words, **more)
    whole, seconds, draw, ends = runs.ended(tmp_path / "whole"), time.monotonic() - begin, random.Random(5), 0
    for trial in range(12):
        if ends >= 4:
            return
        path = runs.write_run(tmp_path / str(trial), made, **more)
        for _ in range(8):
            if start_and_end(draw, path, words, seconds):
                break
            ends += 1
        else:
            trireme("train", path, *words)
        assert runs.ended(tmp_path / str(trial)) == whole
    raise AssertionError(f"a run ended before its time only {ends} times")


def checkpoints_of(folder):
    return [int(path.name[len("step-"):]) for path in sorted((folder / "run/checkpoints").glob("step-*"))]


def test_saves_wait_for_the_end_of_a_batch(tmp_path, made):
    """Evaluations do not. A run cannot end inside of a batch."""
    more = dict(objective=dict(name="grpo", mini_batches=3), checkpoint=dict(every=2, keep=0), **{**EVALUATED(made), "evaluation": dict(every=2, sequences=8)})
    lines = runs.train(tmp_path / "whole", made, optimizer=dict(steps=12), **more)
    assert checkpoints_of(tmp_path / "whole") == [3, 6, 9, 12]
    assert [line["step"] for line in lines if "validation/reward" in line] == [2, 4, 6, 8, 10, 12]
    folder = tmp_path / "stopped"
    runs.train(folder, made, ["--stop-at", 6], optimizer=dict(steps=12), **more)
    assert checkpoints_of(folder) == [3, 6]
    assert "--stop-at 7 ends inside a batch, which has 3 updates" in trireme("train", folder / "run.yaml", "--stop-at", 7, status=2).stderr
    assert "`optimizer.steps` 8 ends inside a batch, which has 3 updates (objective.num_iterations x mini_batches); use 9" in trireme(
        "train", folder / "run.yaml", "--set", "optimizer.steps=8", status=3).stderr
    trireme("train", folder / "run.yaml")
    assert runs.ended(folder) == runs.ended(tmp_path / "whole")


def test_the_best_checkpoint_has_the_greatest_reward(tmp_path, made):
    more = dict(optimizer=dict(steps=16), checkpoint=dict(every=2, keep=1, best=True), **EVALUATED(made))
    lines = runs.train(tmp_path, made, **more)
    rewards = {line["step"]: line["validation/reward"] for line in lines if "validation/reward" in line}
    best = max(rewards, key=lambda step: (rewards[step], -step))
    said = trireme("inspect", tmp_path / "run/checkpoints/best").stdout
    assert f"step {best}," in said, (best, rewards)


def test_an_average_that_begins_on_the_way(tmp_path, made):
    """The reference stays that of the run's beginning."""
    more = dict(COMPARED(made), checkpoint=dict(every=2, keep=0))
    runs.train(tmp_path / "whole", made, **more)
    runs.train(tmp_path / "parts", made, ["--stop-at", 2], **more)
    trireme("train", tmp_path / "parts/run.yaml", "--set", "average.every=1")
    whole, parts = runs.ended(tmp_path / "whole"), runs.ended(tmp_path / "parts")
    assert parts[:2] == whole[:2] and parts[2]["model.safetensors"] == whole[2]["model.safetensors"]
    theirs, mine = (load_file(newest_of(tmp_path / folder / "run") / "optimizer.safetensors") for folder in ("whole", "parts"))
    assert all((mine[name] == tensor).all() for name, tensor in theirs.items()) and any(name.endswith(".average") for name in mine.keys() - theirs.keys())


PARTS = """import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    parts = {"early": float(asked["completion"][:1] < "k"), "size": len(asked["completion"]) / 8}
    print(json.dumps({"id": asked["id"], "reward": {**parts, "odd": 0} if asked["tokens"] % 2 else parts}), flush=True)
"""


@pytest.mark.parametrize("name", ["plain", "filter", "evaluated"])
def test_parts_of_a_reward(tmp_path, made, name):
    """Their metrics are means over the completions that are trained on, neither those that the filter left out nor held-out ones."""
    (tmp_path / "parts.py").write_text(PARTS)
    more = dict(filter=dict(rollout=dict(filter=dict(low=1.0, high=1.6))), evaluated=dict(EVALUATED(made), evaluation=dict(every=1, sequences=8)), plain={})[name]
    lines = runs.train(tmp_path, made, reward=[dict(name="mine", command=f"python3 {tmp_path}/parts.py")], objective=dict(name="grpo", mini_batches=2), **FP32, **more)
    rollouts = runs.rollouts_of(tmp_path)
    for line in lines:
        keys = {key for key in line if key.startswith("rewards/mine/")} - {"rewards/mine/mean", "rewards/mine/std"}
        assert keys == ({f"rewards/mine/{part}" for part in ("early", "size", "odd")} if line["step"] % 2 else set())
        mine = [one for one in rollouts if one["batch"] == (line["step"] - 1) // 2]
        if keys:
            assert line["rewards/mine/early"] == pytest.approx(numpy.mean([one["completion"][:1] < "k" for one in mine]))
            assert line["rewards/mine/size"] == pytest.approx(numpy.mean([len(one["completion"]) / 8 for one in mine]))


# ---- one update beside PyTorch ---------------------------------------------------------------------------------------

def ids_of(line):
    letters = line["completion"].replace("<pad>", "_")
    return [0 if letter == "_" else 2 + preference.LETTERS.index(letter) for letter in letters] + [1] * (line["finish"] == "end")


def log_probs_in(torch, weights, ids, temperature):
    """Log-probabilities of the tokens behind the first one, in double."""
    import models
    model = dict(family="llama", num_layers=2, hidden_size=16, num_heads=2, num_kv_heads=1, ffn_size=24, vocab_size=23, max_sequence=64, norm_eps=1e-6, tied=False)
    logits = models.logits(model, weights, torch.tensor([ids[:-1]]))[0]
    return torch.log_softmax(logits / temperature, -1).gather(-1, torch.tensor(ids[1:])[:, None])[:, 0]


class PyTorch:
    """The model, and AdamW with the settings of reinforcement_runs.py."""

    def __init__(self, torch):
        self.torch = torch
        self.weights = {name: torch.tensor(value, requires_grad=True) for name, value in preference.weights_of_folder().items()}
        matrices, vectors = ([w for w in self.weights.values() if (w.ndim > 1) == wide] for wide in (True, False))
        self.optimizer = torch.optim.AdamW([dict(params=matrices, weight_decay=0.1), dict(params=vectors, weight_decay=0)], lr=1e-2, betas=(0.9, 0.95), eps=1e-8)

    def log_probs(self, line, temperature):
        prompt = [2 + preference.LETTERS.index(letter) for letter in line["prompt"]]
        return log_probs_in(self.torch, self.weights, prompt + ids_of(line), temperature)[len(prompt) - 1:]

    def step(self, loss):
        """Returns the norm of the gradient."""
        self.optimizer.zero_grad()
        loss.backward()
        norm = sum((w.grad ** 2).sum().item() for w in self.weights.values()) ** 0.5
        self.optimizer.step()
        return norm

    def check(self, folder):
        after = load_file(newest_of(folder) / "model.safetensors")
        for name, weight in self.weights.items():
            assert abs(after[name] - weight.detach().numpy()).max() <= 1e-9, name


def objective_of(torch, objective, log_probs, old, advantage, reference):
    """The value of each label, whose negative sum with normalisers is the loss (TRL 1.16)."""
    ratio = ratio_of(torch, objective, log_probs, old)
    if is_off_policy(objective, log_probs, old, advantage):
        return 0 * ratio
    return surrogate_of(torch, objective, log_probs, ratio, advantage) - objective.get("beta", 0) * ratio * kl_of(torch, log_probs, reference)


def ratio_of(torch, objective, log_probs, old):
    ratio = log_probs - old
    if objective.get("importance_sampling_level") == "sequence":
        ratio = ratio.mean().expand(len(log_probs))
    return torch.exp(ratio)


def is_off_policy(objective, log_probs, old, advantage):
    """Old log-probabilities are those of sampling."""
    return advantage < 0 and (old - log_probs).mean().item() > objective.get("off_policy_mask_threshold", numpy.inf)


def clipped_in(objective, ratio, advantage):
    """Which labels are clipped at the lower and at the upper bound; one for a completion whose ratio is one number (TRL 1.16: clip_ratio/..., and cispo_clip_ratio)."""
    ratio = ratio[:1] if objective.get("importance_sampling_level") == "sequence" else ratio
    low, high = objective.get("epsilon", 0.2), objective.get("epsilon_high", objective.get("epsilon", 0.2))
    if objective.get("loss_type") == "cispo":
        return [False] * len(ratio), [advantage > 0 and one > high for one in ratio.tolist()]
    return [advantage < 0 and one < 1 - low for one in ratio.tolist()], [advantage > 0 and one > 1 + high for one in ratio.tolist()]


def kl_of(torch, log_probs, reference):
    return torch.exp(reference - log_probs) - (reference - log_probs) - 1


def surrogate_of(torch, objective, log_probs, ratio, advantage):
    if objective.get("loss_type") == "cispo":
        return ratio.detach().clamp(max=objective["epsilon_high"]) * advantage * log_probs
    free = ratio.clamp(max=objective["delta"]) if "delta" in objective else ratio
    return torch.minimum(free * advantage, ratio.clamp(1 - objective.get("epsilon", 0.2), 1 + objective.get("epsilon_high", objective.get("epsilon", 0.2))) * advantage)


def normaliser_of(objective, batch, line):
    labels = sum(one["tokens"] for one in batch if counts(objective, one))
    return {"grpo": 1 / (len(batch) * line["tokens"]), "dr_grpo": 1 / (len(batch) * runs.LONGEST)}.get(objective.get("loss_type", "dapo"), 1 / labels)


def counts(objective, line):
    return line["finish"] != "length" or not objective.get("mask_truncated_completions", False)


UPDATES = {
    "dapo": dict(), "grpo": dict(loss_type="grpo"), "dr_grpo": dict(loss_type="dr_grpo", scale_rewards="none"), "at a temperature": dict(temperature=0.7),
    "iterations": dict(num_iterations=3, epsilon=0.1, epsilon_high=0.15), "cispo": dict(loss_type="cispo", epsilon_high=1.02, num_iterations=2), "delta": dict(delta=1.05, num_iterations=3),
    "sequences": dict(importance_sampling_level="sequence", loss_type="grpo", num_iterations=2, epsilon=0.01), "rloo": dict(baseline="leave_one_out", scale_rewards="none", num_iterations=2),
    "truncated ones masked": dict(mask_truncated_completions=True, loss_type="grpo", num_iterations=2), "by the batch": dict(scale_rewards="batch"),
    "off-policy ones masked": dict(num_iterations=3, off_policy_mask_threshold=0.05),
    "a reference": dict(beta=0.3), "a reference of sequences": dict(beta=0.5, importance_sampling_level="sequence", loss_type="grpo", num_iterations=2), "a reference at a temperature": dict(beta=0.2, temperature=0.7, num_iterations=2),
}


def advantages_in(objective, batch):
    rewards = numpy.array([one["reward"] for one in batch]).reshape(-1, runs.SIZE)
    found = rewards - rewards.mean(1, keepdims=True)
    if objective.get("baseline") == "leave_one_out":
        found = found * runs.SIZE / (runs.SIZE - 1)
    scale = {"group": rewards.std(1, ddof=1, keepdims=True) + 1e-4, "batch": rewards.std(ddof=1) + 1e-4, "none": 1}[objective.get("scale_rewards", "group")]
    return (found / scale).reshape(-1)


@pytest.mark.parametrize("words", [(), ("-n", "2")], ids=["one rank", "two ranks"])
def test_a_part_without_completions(tmp_path, made, words):
    """A batch that the filter left fewer groups than parts: the first update has nothing to learn from and is skipped."""
    more = dict(rollout=dict(prompts=4, num_generations=8, filter=dict(low=0.4, high=0.8), max_filtered=0), optimizer=dict(steps=4))
    lines = runs.train(tmp_path, made, words, objective=dict(name="grpo", mini_batches=4), **more)
    groups = len({one["group"] for one in runs.rollouts_of(tmp_path)})
    assert groups in (1, 2, 3)
    assert [line["loss"] is not None for line in lines] == [(part + 1) * groups // 4 > part * groups // 4 for part in range(4)]


@pytest.mark.parametrize("words", [(), ("-n", "2"), ("-n", "2", "tensor")], ids=["one rank", "two ranks", "a replica on two ranks"])
def test_a_failure_ends_all_ranks(tmp_path, made, words):
    """A failure of the first rank while the other rank samples."""
    more = dict(rollout=dict(prompts=2, num_generations=8, filter=dict(low=10, high=20), max_filtered=0, tensor=1 + ("tensor" in words)))
    done = trireme("train", runs.write_run(tmp_path, made, **more), *words[:2], status=8)
    assert "none of 2 groups has a mean reward within rollout.filter, so there is nothing to learn from" in done.stderr


FAILING = {"never": ("exit 4", "has ended three times in a row without an answer, with exit status 4;"),
           "at times": ("case $id in *3) exit 4;; esac", "completions, more than rollout.max_failed 0, so the run saves the state before this batch and ends; look at")}


@pytest.mark.parametrize("name, words", [("never", ()), ("at times", ()), ("at times", ("-n", "2"))], ids=str)
def test_a_reward_that_does_not_answer(tmp_path, made, name, words):
    """The command fails in the second batch: the state before the batch is saved, and the run continues with the bits of a run whose command never failed."""
    fails, said = FAILING[name]
    (tmp_path / "reward.sh").write_text("""while read -r line; do
  count=$((count + 1))
  id=$(echo "$line" | sed 's/.*"id": *\\([0-9]*\\).*/\\1/')
  if [ -e "$1" ]; then %s; fi
  completion=$(echo "$line" | sed 's/.*"completion": *"\\([^"]*\\)".*/\\1/')
  echo "{\\"id\\": $id, \\"reward\\": 0.${#completion}}"
  if [ -n "$2" ] && [ $count = 24 ]; then touch "$1"; fi
done
""" % fails)
    for folder, more in (("whole", ""), ("parted", " now")):
        runs.write_run(tmp_path / folder, made, reward=[dict(command=f"sh {tmp_path}/reward.sh {tmp_path}/bad{more}", workers=1)], rollout=dict(max_failed=0), optimizer=dict(steps=2), **FP32)
    trireme("train", tmp_path / "whole/run.yaml", *words)
    done = trireme("train", tmp_path / "parted/run.yaml", *words, status=5)
    assert said in done.stderr
    assert "stopped after step 1; its checkpoint is written, and the same command continues from there" in done.stderr
    (tmp_path / "bad").unlink()
    trireme("train", tmp_path / "parted/run.yaml", *words)
    assert runs.ended(tmp_path / "parted") == runs.ended(tmp_path / "whole")


@pytest.mark.parametrize("when", ["last", "stop-at", "stop_after"])
def test_an_evaluation_that_fails(tmp_path, made, when):
    """The command fails for the held-out prompt: the weights are saved, and the message says that they have no reward. The evaluation does not count as one that is not better."""
    held = runs.preference.text_of([3] * 9)
    (tmp_path / "held.jsonl").write_text(json.dumps(dict(prompt=held, answer="a")) + "\n")
    (tmp_path / "reward.sh").write_text("""while read -r line; do
  id=$(echo "$line" | sed 's/.*"id": *\\([0-9]*\\).*/\\1/')
  case $line in *'"%s"'*) exit 4;; esac
  echo "{\\"id\\": $id, \\"reward\\": 1}"
done
""" % held)
    evaluation, steps, words, said = {
        "last": (dict(every=2), 2, (), "the run has made all steps, but the evaluation after step 2 failed, so its weights have no validation reward; its checkpoint is written"),
        "stop-at": (dict(every=2), 3, ("--stop-at", 2), "the run has made the steps up to --stop-at, but the evaluation after step 2 failed"),
        "stop_after": (dict(every=2, stop_after=1), 3, (), "stopped after step 2; its checkpoint is written, and the same command continues from there")}[when]
    more = dict(data=dict(validation_prompts=str(tmp_path / "held.jsonl")), evaluation=evaluation, optimizer=dict(steps=steps))
    path = runs.write_run(tmp_path, made, reward=[dict(command=f"sh {tmp_path}/reward.sh")], **more)
    done = trireme("train", path, *words, status=5)
    assert said in done.stderr and "ended early" not in done.stderr
    assert "validation/reward" not in runs.lines_of(tmp_path / "run")[-1] and runs.newest_of(tmp_path / "run").name == "step-00000002"
    (tmp_path / "reward.sh").write_text((tmp_path / "reward.sh").read_text().replace("exit 4", ":"))
    done = trireme("train", path, *words)
    assert ("has made its 2 steps already" if when != "stop_after" else "3 steps in") in done.stderr


@pytest.mark.parametrize("name", drawn(UPDATES, 3, "updates beside PyTorch"))
def test_updates_are_pytorchs(tmp_path, made, name):
    """The completions of rollouts.jsonl, their advantages from the rewards, losses, norms of gradients, and the weights after two batches."""
    torch = pytest.importorskip("torch")
    objective = dict(name="grpo", **UPDATES[name])
    temperature, iterations = objective.pop("temperature", 1.0), objective.get("num_iterations", 1)
    more = dict(objective=objective, rollout=dict(temperature=temperature, max_completion_length=runs.LONGEST), optimizer=dict(steps=2 * iterations, clip=0))
    lines, theirs, initial = runs.train(tmp_path, made, **more), PyTorch(torch), PyTorch(torch)
    for batch in (0, 1):
        rollouts = [one for one in runs.rollouts_of(tmp_path) if one["batch"] == batch]
        advantages = advantages_in(objective, rollouts)
        assert numpy.allclose(advantages, [one["advantage"] for one in rollouts], rtol=1e-12, atol=1e-12)
        assert all(len(ids_of(one)) == one["tokens"] for one in rollouts)
        old = [theirs.log_probs(one, temperature).detach() for one in rollouts]
        reference = [initial.log_probs(one, temperature).detach() for one in rollouts]
        for line in lines[batch * iterations:(batch + 1) * iterations]:
            loss, kl, low, high, masked = 0, [], [], [], []
            for one, before, base, advantage in zip(rollouts, old, reference, advantages, strict=True):
                if counts(objective, one):
                    found = theirs.log_probs(one, temperature)
                    loss = loss - (objective_of(torch, objective, found, before, advantage, base) * normaliser_of(objective, rollouts, one)).sum()
                    kl += kl_of(torch, found.detach(), base).tolist()
                    masked += [is_off_policy(objective, found, before, advantage)] * len(found)
                    for all_of, some in zip((low, high), clipped_in(objective, ratio_of(torch, objective, found.detach(), before), advantage)):
                        all_of += some
            shares = {"clip_ratio/low_mean": low, "clip_ratio/high_mean": high, "clip_ratio/region_mean": [sum(one) for one in zip(low, high)], "masked": masked}
            assert {key: line[key] for key in shares} == pytest.approx({key: numpy.mean(values) for key, values in shares.items()}, rel=1e-12)
            if "beta" in objective:
                assert line["kl"] == pytest.approx(numpy.mean(kl), rel=1e-8, abs=1e-12)
            assert line["loss"] == pytest.approx(loss.item(), rel=1e-9, abs=1e-11)
            assert line["grad_norm"] == pytest.approx(theirs.step(loss), rel=1e-8)
    theirs.check(tmp_path / "run")


def test_mini_batches_are_parts_of_a_batch(tmp_path, made):
    """In each iteration every group is in one update; the losses tell which. The factor of a label is that of the whole batch, times the number of parts."""
    torch = pytest.importorskip("torch")
    objective = dict(name="grpo", mini_batches=2, num_iterations=2)
    lines, theirs = runs.train(tmp_path, made, objective=objective, optimizer=dict(steps=4, clip=0)), PyTorch(torch)
    rollouts = runs.rollouts_of(tmp_path)
    old = [theirs.log_probs(one, 1.0).detach() for one in rollouts]
    labels, orders = sum(one["tokens"] for one in rollouts), []
    for iteration in (0, 1):
        left = set(range(runs.GROUPS))
        for line in lines[2 * iteration:2 * iteration + 2]:
            parts = [0] * runs.GROUPS
            for one, before in zip(rollouts, old, strict=True):
                parts[one["group"]] = parts[one["group"]] - (objective_of(torch, objective, theirs.log_probs(one, 1.0), before, one["advantage"], before) * 2 / labels).sum()
            found = [some for some in itertools.combinations(sorted(left), runs.GROUPS // 2) if abs(sum(parts[i].item() for i in some) - line["loss"]) <= 1e-10]
            assert found
            if len(found) > 1:  # at the first update the losses are those of the advantages, which may be equal
                norms = [sum((g ** 2).sum().item() for g in torch.autograd.grad(sum(parts[i] for i in some), list(theirs.weights.values()), retain_graph=True)) ** 0.5 for some in found]
                found = [some for some, norm in zip(found, norms) if abs(norm / line["grad_norm"] - 1) <= 1e-8]
            some, = found
            assert line["grad_norm"] == pytest.approx(theirs.step(sum(parts[i] for i in some)), rel=1e-8)
            orders.append(some)
            left -= set(some)
        assert left == set()
    assert orders[0] not in orders[2:]
    theirs.check(tmp_path / "run")

"""Whole runs of objective grpo under drawn layouts: two batches with four updates each, a reference, held-out prompts. Completions are those of one rank, metrics and weights
within 1e-10 of its, and bits are equal where only pipeline, schedule, recompute or ZeRO change."""
import functools
import itertools
import random

import numpy
import pytest
import reinforcement_runs as runs
from drawn import drawn_count
from optimizer_runs import newest_of, ranks_words
from parity import trireme, yaml_of
from safetensors.numpy import load_file
from test_layouts import needs_launcher

COMMON = dict(hidden_size=16, num_heads=4, num_kv_heads=2, vocab_size=23, max_sequence=64, init_std=0.1)
MODELS = {"llama": dict(family="llama", num_layers=4, ffn_size=24, **COMMON),
          "experts": dict(family="qwen3_moe", num_layers=4, num_experts=4, experts_per_token=2, expert_ffn_size=8, ffn_size=18, balance="sequence", balance_rate=0.05, z_loss=0.01, **COMMON)}
OPTIMIZERS = {"adamw": dict(), "schedule_free": dict(name="schedule_free", schedule_free=dict(r=0))}
USUAL = dict(tensor=1, pipeline=1, data=1, context=1, virtual_stages=1, schedule="1f1b", zero=0, recompute="none", micro_batch=1, sequence_parallel=False, expert=1, context_exchange="gather")
# These do not change the order of a sum.
FREE = ("pipeline", "virtual_stages", "schedule", "zero", "recompute")
MOST_RANKS, COUNT = 4, 40


def ranks_of(layout):
    return layout["tensor"] * layout["pipeline"] * layout["data"] * layout["context"]


def draw(chance, model):
    """A layout of up to four ranks, and the ranks of a replica."""
    while True:
        layout = dict(tensor=chance.choice([1, 1, 2, 4]), pipeline=chance.choice([1, 2, 2, 3, 4]), data=chance.choice([1, 1, 2, 3, 4]), context=chance.choice([1, 1, 2]),
                      schedule=chance.choice(["1f1b", "gpipe", "interleaved", "zero-bubble"]), zero=chance.randint(0, 3), recompute=chance.choice(["none", "selective", "full"]),
                      micro_batch=chance.choice([1, 1, 2, 3]), sequence_parallel=chance.random() < 0.5, expert=chance.choice([1, 2, 2, 4]), context_exchange=chance.choice(["gather", "ring", "heads"]),
                      virtual_stages=1)
        replica = chance.choice([1, 1, 2])
        if layout["schedule"] == "interleaved":
            layout["virtual_stages"] = 2
        layout["context_exchange"] = layout["context_exchange"] if layout["context"] > 1 else "gather"
        layout["sequence_parallel"] = layout["sequence_parallel"] and layout["tensor"] > 1
        layout["expert"] = layout["expert"] if model == "experts" else 1
        if is_legal(layout) and ranks_of(layout) % replica == 0:
            return layout, replica


def is_legal(layout):
    most_heads = {"heads": 2 // min(layout["tensor"], 2)}.get(layout["context_exchange"], 2)
    return (1 < ranks_of(layout) <= MOST_RANKS and layout["context"] <= most_heads and (layout["pipeline"] > 1 or layout["schedule"] not in ("interleaved", "gpipe"))
            and layout["pipeline"] * layout["virtual_stages"] <= 6 and (layout["zero"] == 0 or layout["data"] * layout["context"] > 1) and layout["tensor"] * layout["context"] * layout["data"] % layout["expert"] == 0)


def draw_all():
    """[(name, model, optimizer, layout, replica)]"""
    found, kinds = {}, itertools.cycle([("llama", "adamw"), ("experts", "adamw"), ("llama", "schedule_free"), ("llama", "adamw"), ("experts", "schedule_free")])
    chance = random.Random(11)
    while len(found) < COUNT:
        model, optimizer = next(kinds)
        layout, replica = draw(chance, model)
        changed = ", ".join(f"{key} {value}" for key, value in layout.items() if value != USUAL[key])
        name = f"{model}, {optimizer}, {changed}{', replicas of 2' if replica == 2 else ''}"
        found[name] = (name, model, optimizer, layout, replica)
    return list(found.values())


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    """Returns a function that runs a layout once, and returns its metrics, completions and weights."""
    folder = tmp_path_factory.mktemp("made")
    runs.write_all(folder)
    (folder / "text.txt").write_text("".join(line["prompt"] + "\n" for line in runs.prompts()))
    trireme("prepare", "--tokenizer", folder / "model", "--out", folder / "corpus", folder / "text.txt")

    @functools.cache
    def made(model):
        base = dict(model=MODELS[model], data=dict(train=str(folder / "corpus/train"), sequence=16), optimizer=dict(global_batch=2, steps=1, lr=1e-9), output=str(folder / model))
        (folder / f"{model}.yaml").write_text(yaml_of(base))
        trireme("train", folder / f"{model}.yaml")
        return folder / model

    @functools.cache
    def run(model, optimizer, layout, replica):
        place = tmp_path_factory.mktemp("run")
        layout = {**USUAL, **dict(layout)}
        given = {key: value for key, value in layout.items() if value != USUAL[key]}
        path = runs.write_run(place, folder, init=str(made(model)), objective=dict(name="grpo", beta=0.1, num_iterations=2, mini_batches=2), layout=dict(dict(micro_batch=1), **given),
                              rollout=dict(prompts=4, num_generations=4, max_completion_length=6, tensor=replica), optimizer=dict(steps=8, **OPTIMIZERS[optimizer]),
                              data=dict(validation_prompts=str(folder / "held-out.jsonl")), evaluation=dict(every=4, sequences=6))
        trireme("train", path, *ranks_words(ranks_of(layout)))
        lines, rollouts, files = runs.ended(place)
        tensors = {name: tensor for file in sorted(newest_of(place / "run").glob("model*.safetensors")) for name, tensor in load_file(file).items()}
        return lines, rollouts, files, tensors
    return run


def numbers_of(line):
    """A line of metrics without what a layout may change: steps that were bad, and rounds of an exchange between ranks with experts."""
    experts = {(f"experts of layer {at['layer']}", key): value for at in line.get("experts", []) for key, value in at.items() if key != "rounds"}
    return {key: value for key, value in line.items() if key not in ("bad_steps", "experts")} | experts


def check_near(mine, theirs):
    """Numbers near 0 are compared relative to 1."""
    for a, b in zip(mine[0], theirs[0], strict=True):
        step, a, b = a["step"], numbers_of(a), numbers_of(b)
        assert a.keys() == b.keys()
        for key in a:
            assert a[key] == pytest.approx(b[key], rel=1e-10, abs=1e-10), (step, key)
    assert mine[3].keys() == theirs[3].keys()
    for name, tensor in mine[3].items():
        assert numpy.linalg.norm(tensor - theirs[3][name]) <= 1e-10 * numpy.linalg.norm(theirs[3][name]), name


@needs_launcher
@pytest.mark.parametrize("name, model, optimizer, layout, replica", [pytest.param(*one, id=one[0]) for one in drawn_count(draw_all(), 2, "whole runs of reinforcement learning")])
def test_whole_runs(result, name, model, optimizer, layout, replica):
    mine = result(model, optimizer, tuple(layout.items()), replica)
    one = result(model, optimizer, (), 1)
    assert mine[1] == one[1]
    check_near(mine, one)
    plain = tuple((key, USUAL[key] if key in FREE else value) for key, value in layout.items())
    if model == "llama" and ranks_of(dict(plain)) % replica == 0:
        theirs = result(model, optimizer, plain, replica)
        assert mine[0] == theirs[0] and mine[2] == theirs[2]

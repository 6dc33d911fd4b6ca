"""The commands of docs/reinforcement.md, as they are printed there, with fewer steps: a model is fine-tuned on sums, and learns from rewards. Rewards in Python, shell and C."""
import json
import os
import re
import shlex
import shutil
import subprocess

import pytest
from parity import TRIREME

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
PAGE = open(os.path.join(ROOT, "docs", "reinforcement.md"), encoding="utf-8").read()
FEWER = {"sft.yaml": ["--set", "optimizer.steps=20"],
         "grpo.yaml": ["--set", "optimizer.steps=4", "--set", "evaluation.every=2", "--set", "evaluation.sequences=16", "--set", "rollout.prompts=8"]}


def commands():
    return [line[4:] for line in PAGE.split("## With your own data")[0].splitlines() if line.startswith("    ")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    os.makedirs(folder / "build")
    os.symlink(TRIREME, folder / "build" / "trireme")
    os.symlink(os.path.join(ROOT, "examples"), folder / "examples")
    assert len(commands()) == 6
    for command in commands():
        words = shlex.split(command)
        words += FEWER.get(os.path.basename(words[-1]), [])
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, (command, done.stderr[-800:])
    return folder


def lines_of(path):
    return [json.loads(line) for line in open(path, encoding="utf-8")]


def test_the_commands(folder):
    kept, trained = lines_of(folder / "runs/addition/kept.jsonl"), lines_of(folder / "runs/addition/train.jsonl")
    assert len(kept) == 1000 and len({line["prompt"] for line in kept + trained}) == 10000
    for line in kept[:100] + trained[:100]:
        first, second = line["prompt"][:-1].split("+")
        assert line["answer"] == f"{int(first) + int(second):03d}"[::-1]
    metrics = lines_of(folder / "runs/addition/grpo/metrics.jsonl")
    assert len(metrics) == 4 and all("reward" in line for line in metrics)
    assert ["validation/reward" in line for line in metrics] == [False, True, False, True]
    assert len(lines_of(folder / "runs/addition/grpo/rollouts.jsonl")) == 4 * 8 * 8


@pytest.mark.parametrize("number", [0, 1, 2])
def test_the_commands_of_rewards(folder, tmp_path, number):
    command = re.findall(r"^    reward: \[\{command: (\".*?\")[,}]", PAGE, re.MULTILINE)[number]
    if "jq" in command and shutil.which("jq") is None:
        pytest.skip("SKIPPED: there is no jq")
    if "./grade" in command:
        build = re.search(r"`(cc [^`]*)`", PAGE)[1]
        subprocess.run(shlex.split(build), cwd=folder, check=True, timeout=100)
    rewards = f"reward=[exact, {{command: {command}}}]"
    done = subprocess.run([TRIREME, "train", "examples/reinforcement/grpo.yaml", *FEWER["grpo.yaml"], "--set", rewards, "--set", f"output={tmp_path}/run"],
                          cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-800:]
    for line in lines_of(tmp_path / "run/rollouts.jsonl"):
        exact, other = line["rewards"]["exact"], line["rewards"]["command"]
        assert other == exact if "jq" in command else other >= exact and round(3 * other) in range(4)


def test_the_page_names_every_reward_and_recipe():
    for reward in re.findall(r"KIND\((\w+)\)", open(os.path.join(ROOT, "src/reward/kind.h"), encoding="utf-8").read()):
        assert f"`{reward}`" in PAGE, reward
    for recipe in ("rloo", "dr_grpo", "gspo", "dapo", "reinforce_pp", "icepop"):
        assert f"`{recipe}`" in PAGE, recipe

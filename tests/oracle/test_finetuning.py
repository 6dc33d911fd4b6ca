"""The five commands of docs/finetuning.md as they are printed, and what the tuned model knows afterwards; the run files of configs/runs."""
import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest
from parity import TRIREME, trireme, yaml_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
QUESTIONS = ["What is the capital of France?", "What is the capital of Iceland?", "What is the capital of Kenya?", "What is the capital of Nepal?",
             "What is the capital of Chile?", "What is the capital of Fiji?", "What is the chemical symbol of iron?", "What is the chemical symbol of neon?",
             "What is the chemical symbol of zinc?", "What is the chemical symbol of lead?"]


def answers(folder, model):
    """Returns the answers, each in a conversation of its own: earlier turns would influence later answers."""
    found = []
    for question in QUESTIONS:
        done = subprocess.run([TRIREME, "generate", model, "--chat", "--temperature", "0", "--tokens", "30"], cwd=folder, input=question + "\n",
                              capture_output=True, text=True, errors="replace")
        assert done.returncode == 0, done.stderr
        found.append(done.stdout.strip())
    return found


def test_five_commands(tmp_path):
    page = (ROOT / "docs/finetuning.md").read_text()
    commands = re.findall(r"^    (\S.*)$", page[page.index("## In five commands"):page.index("## With your own data")], re.M)
    assert len(commands) == 5 and page.index("## In five commands") == page.index("## ")
    for name in ("docs", "README.md"):
        (tmp_path / name).symlink_to(ROOT / name)
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    (tmp_path / "build").mkdir()
    (tmp_path / "build/trireme").symlink_to(TRIREME)
    for command in commands:
        done = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True, errors="replace")
        assert done.returncode == 0, (command, done.stderr)
        if "generate" in command:
            assert done.stdout.strip() == "The capital of Peru is Lima."
    facts = [json.loads(line) for line in (ROOT / "examples/finetuning/facts.jsonl").read_text().splitlines()]
    wanted = {fact["instruction"]: fact["output"] for fact in facts if not fact["input"]}
    assert len(facts) == 200 and len({(fact["instruction"], fact["input"]) for fact in facts}) == 200
    right = {model: sum(answer == wanted[question] for question, answer in zip(QUESTIONS, answers(tmp_path, model)))
             for model in ("runs/facts-lora", "models/facts", "models/tiny-base")}
    assert right["runs/facts-lora"] >= 8 and right["models/facts"] == right["runs/facts-lora"] and right["models/tiny-base"] <= 1, right


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A tiny Qwen 3 in the place of the one that the files name, in a cache of the hub's, and conversations and text of ours."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "chat.jinja").write_text((ROOT / "examples/finetuning/chat_template.jinja").read_text())
    (folder / "text.txt").write_text("".join(f"Oars {i} of {i * 7919 % 1000}.\n" for i in range(3000)))
    trireme("prepare", "--tokenizer", "bytes", "--validation", 0.1, "--out", folder / "owt", folder / "text.txt")
    shutil.copy(folder / "chat.jinja", folder / "owt/chat_template.jinja")
    model = dict(family="qwen3", num_layers=2, hidden_size=32, num_heads=2, num_kv_heads=1, head_dim=16, ffn_size=64, vocab_size=257, max_sequence=1024)
    (folder / "base.yaml").write_text(yaml_of(dict(model=model, data=dict(train=str(folder / "owt/train"), sequence=64),
                                                   optimizer=dict(global_batch=2, steps=1, lr=1e-3), output=str(folder / "base"))))
    trireme("train", folder / "base.yaml")
    trireme("export", folder / "base", folder / "plain")
    root = folder / "hub/models--Qwen--Qwen3-0.6B"
    shutil.copytree(folder / "plain", root / "snapshots" / ("a" * 40))
    (root / "refs").mkdir()
    (root / "refs/main").write_text("a" * 40)
    trireme("prepare", "--chat", "--tokenizer", folder / "plain", "--validation", 0.1, "--out", folder / "tuning", ROOT / "examples/finetuning/facts.jsonl")
    facts = [json.loads(line) for line in (ROOT / "examples/finetuning/facts.jsonl").read_text().splitlines()]

    def said(role, text):
        return [dict(role=role, content=text)]

    pairs = [dict(prompt=said("user", fact["instruction"]), chosen=said("assistant", fact["output"]), rejected=said("assistant", "I do not know."))
             for fact in facts]
    (folder / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    trireme("prepare", "--preferences", "--tokenizer", folder / "plain", "--validation", 0.1, "--out", folder / "pairs", folder / "pairs.jsonl")
    return folder


@pytest.mark.parametrize("name", ["finetune", "finetune-lora", "finetune-qlora", "dpo-lora", "pretrain-owt"])
def test_run_files(made, name):
    """As they are, but for their length and, without a GPU, their precision; pretrain-owt also with a smaller model."""
    path = ROOT / f"configs/runs/{name}.yaml"
    environment = {**os.environ, "HF_HUB_CACHE": str(made / "hub")}
    smaller = ["--set", "model={family: gpt2, num_layers: 1, hidden_size: 32, num_heads: 2, vocab_size: 257, max_sequence: 1024}", "--set", "optimizer.global_batch=12",
               "--set", "evaluation.sequences=2"] if name == "pretrain-owt" else ["--set", "optimizer.global_batch=4"]
    if name == "pretrain-owt":
        printed = trireme("train", path, "--dry-run", "--verbose", cwd=made, env=environment).stdout
        assert "step program" in printed
    for more in (["--dry-run"], ["--set", "optimizer.steps=2", "--set", "evaluation.every=1", "--set", "device=cpu"]):
        trireme("train", path, *smaller, *more, cwd=made, env=environment)
    lines = [json.loads(line) for line in (made / "runs" / name / "metrics.jsonl").read_text().splitlines()]
    assert len(lines) == 2 and all(line["loss"] > 0 for line in lines)
    for command in re.findall(r"^#   trireme prepare (.*)$", path.read_text(), re.M):
        assert any(f"--out {out}" in command for out in ("tuning", "owt", "pairs"))

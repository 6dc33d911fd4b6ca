"""The commands of docs/preferences.md, as they are printed there: a small model learns to prefer one of two styles."""
import json
import os
import re
import shlex
import subprocess

from parity import TRIREME


ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))


def commands():
    page = open(os.path.join(ROOT, "docs", "preferences.md"), encoding="utf-8").read().split("## With your own data")[0]
    return [line[4:] for line in page.splitlines() if line.startswith("    ")]


def answers(folder, run):
    said = subprocess.run([TRIREME, "generate", run, "--prompts", "prompts.jsonl", "--temperature", "0", "--tokens", "40", "--json"], cwd=folder,
                          capture_output=True, text=True, check=True)
    return [json.loads(line)["text"] for line in said.stdout.splitlines()]


def test_a_model_learns_a_style(tmp_path):
    os.makedirs(tmp_path / "build")
    os.symlink(TRIREME, tmp_path / "build" / "trireme")
    os.symlink(os.path.join(ROOT, "examples"), tmp_path / "examples")
    assert len(commands()) == 5
    for command in commands():
        done = subprocess.run(shlex.split(command), cwd=tmp_path, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, (command, done.stderr[-800:])
    assert " Thank you for asking. The owl is at the lake." in done.stdout
    held = [json.loads(line) for line in open(tmp_path / "runs/styles/held.jsonl")]
    assert len(held) == 50
    (tmp_path / "prompts.jsonl").write_text("".join(json.dumps({"prompt": pair["prompt"]}) + "\n" for pair in held))
    before, after = answers(tmp_path, "runs/styles/base"), answers(tmp_path, "runs/styles/dpo")
    assert sum(text.startswith(" Thank you for asking.") for text in before) <= 30
    assert sum(text.startswith(" Thank you for asking.") for text in after) >= 45
    lines = [json.loads(line) for line in open(tmp_path / "runs/styles/dpo/metrics.jsonl")]
    assert lines[0]["rewards/chosen"] == 0 and lines[0]["rewards/rejected"] == 0
    assert [line["validation/rewards/accuracies"] for line in lines if "validation/rewards/accuracies" in line][-1] > 0.95


def test_the_page_names_every_objective():
    page = open(os.path.join(ROOT, "docs", "preferences.md"), encoding="utf-8").read()
    listed = open(os.path.join(ROOT, "src/device/preference.h"), encoding="utf-8").read()
    names = re.findall(r"X\([A-Z0-9_]+, ([a-z_]+), [01], [01]\)", listed)
    assert len(names) == 17
    for name in names:
        assert f"`{name}`" in page, name

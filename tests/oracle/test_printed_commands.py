"""The commands of the tutorial and of the README run in their printed order; other commands of the README have the options that they name.
Runs are shortened unless all cases are requested. Printed output is compared if it does not depend on time."""
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

import pytest
from drawn import WHICH
from parity import TRIREME, trireme

ROOT = pathlib.Path(__file__).resolve().parents[2]
STEPS = {"docs/tutorial.md": 40, "README.md": 4}


def blocks_of(page, language):
    """Returns [(commands of a block, the output printed after it or "")]."""
    parts = re.findall(r"```(\w*)\n(.*?)```", (ROOT / page).read_text(), re.S)
    return [(text.strip().splitlines(), parts[i + 1][1] if i + 1 < len(parts) and parts[i + 1][0] == "" else "")
            for i, (kind, text) in enumerate(parts) if kind == language]


def text_of_ours():
    """Returns a megabyte of English, from the documentation."""
    pages = [path.read_text() for path in sorted((ROOT / "docs").glob("*.md"))]
    return ("".join(letter for letter in "".join(pages) if ord(letter) < 127) * 4)[:1_000_000]


def shortened(page, words):
    return words if WHICH == "all" or words[:2] != ["trireme", "train"] or "two.svg" in words else [*words, "--set", f"optimizer.steps={STEPS[page]}"]


def run_page(page, folder):
    """Runs its commands; the first words of each."""
    seen = []
    for commands, shown in blocks_of(page, "sh"):
        said = ""
        for command in commands:
            words = [word for part in shlex.split(command) for word in (sorted(str(p.relative_to(folder)) for p in folder.glob(part)) if "*" in part else [part])]
            assert words[0] == "trireme"
            done = subprocess.run([TRIREME, *shortened(page, words)[1:]], cwd=folder, capture_output=True, text=True, errors="replace", timeout=1800)
            assert done.returncode == 0, (command, done.stderr)
            seen.append(words[1])
            said += done.stdout + done.stderr
        # The kinds of lines that the page shows are there: their words, without their numbers.
        for line in shown.splitlines() if shlex.split(commands[0])[1] in ("prepare", "train", "simulate") else []:
            for word in re.findall(r"(?<![\w/.])[a-z]{4,}(?![\w/.])", line):
                assert word in said, (commands, line, word)
    return seen


def test_tutorial(tmp_path):
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    (tmp_path / "shakespeare.txt").write_text(text_of_ours())
    seen = run_page("docs/tutorial.md", tmp_path)
    assert {"prepare", "inspect", "train", "generate", "eval", "compare", "plan", "simulate"} == set(seen)
    for name in ("runs/shakespeare/loss.svg", "compared.html", "two.svg"):
        assert (tmp_path / name).stat().st_size > 1000
    linked = re.findall(r"\]\(([\w.-]+\.md)\)", (ROOT / "docs/tutorial.md").read_text())
    assert linked and all((ROOT / "docs" / name).exists() for name in linked)


def test_first_commands_of_readme(tmp_path):
    for name in ("configs", "docs", "README.md"):
        (tmp_path / name).symlink_to(ROOT / name)
    seen = run_page("README.md", tmp_path)
    assert seen == ["prepare", "train", "generate", "eval", "export", "train", "compare", "simulate", "plan", "tune"]
    for name in ("two.svg", "compared.html", "study.html", "models/gpt2-demo/model.safetensors"):
        assert (tmp_path / name).stat().st_size > 1000


def lines_of_readme():
    """Returns the commands of the README, with continued lines joined, and without comments."""
    found, begun = [], ""
    for block in re.findall(r"```\w*\n(.*?)```", (ROOT / "README.md").read_text(), re.S):
        for line in block.splitlines():
            line = begun + re.split(r"\s+#\s", line)[0].strip()
            begun = line[:-1] if line.endswith("\\") else ""
            if not begun:
                found += [part.strip() for part in line.split(";") if part.strip().startswith("trireme ")]
    return found


@pytest.mark.parametrize("line", lines_of_readme())
def test_readme(tmp_path, line):
    """What needs no text or weights of a user runs; all others name options and keys that there are."""
    words = shlex.split(line)[1:]
    command = words[0]
    if command in ("simulate", "plan", "inspect") and not any("runs/" in word or "/" in word and not word.startswith("configs/") for word in words):
        assert trireme(*words, cwd=ROOT).stdout
        return
    said = trireme(command, "--help").stdout
    keys = {row.split()[0] for row in trireme("train", "--keys").stdout.splitlines() if row.split()}
    for word in words[1:]:
        if word.startswith("--"):
            assert re.search(re.escape(word) + r"\b", said), (word, command)
        if "=" in word and command == "train":
            assert word.split("=")[0] in keys, word
        if word.startswith("configs/"):
            assert os.path.exists(ROOT / word) or word.endswith(".db"), word


@pytest.mark.parametrize("kind", ["text", "chat", "pairs", "labels"])
def test_the_line_that_prepare_prints(tmp_path, kind):
    """The `data:` of a run file, with held-out records, as it is printed."""
    records = {"text": dict(text="the rowers pull"), "chat": dict(messages=[dict(role="user", content="pull?"), dict(role="assistant", content="we pull")]),
               "pairs": dict(prompt="pull?", chosen="we pull", rejected="no"), "labels": dict(prompt="pull?", completion="we pull", label=True)}
    (tmp_path / "some.jsonl").write_text("".join(json.dumps({**records[kind], **(dict(label=i % 2 == 0) if kind == "labels" else {})}) + "\n" for i in range(40)))
    (tmp_path / "template.jinja").write_text("{% for m in messages %}{{ m.content }}{% generation %} {% endgeneration %}{% endfor %}")
    words = {"text": [], "chat": ["--chat", "--chat-template", tmp_path / "template.jinja"], "pairs": ["--preferences"], "labels": ["--preferences"]}[kind]
    (tmp_path / "words.txt").write_text("the rowers pull. " * 50)
    trireme("prepare", "--tokenizer", "bytes", "--out", tmp_path / "words", tmp_path / "words.txt")
    said = trireme("prepare", *words, "--tokenizer", tmp_path / "words/tokenizer.json", "--validation", 0.2, "--out", tmp_path / "d", tmp_path / "some.jsonl").stderr
    data, = re.findall(r"in a run file: (data: \{.*\})$", said, re.M)
    assert "validation" in data
    objective = {"pairs": "objective: {name: dpo}\ninit: base\n", "labels": "objective: {name: kto}\ninit: base\n"}.get(kind, "")
    model = "model: {family: gpt2, num_layers: 1, hidden_size: 16, num_heads: 2, vocab_size: 257, max_sequence: 64}\n"
    rest = "optimizer: {global_batch: 4, steps: 1, lr: 1.0e-3}\nlayout: {micro_batch: 4}\n"
    if objective:
        (tmp_path / "base.yaml").write_text(f"{model}data: {{train: words/train, sequence: 64}}\n{rest}output: base\n".replace("global_batch: 4", "global_batch: 1").replace("micro_batch: 4", "micro_batch: 1"))
        trireme("train", "base.yaml", cwd=tmp_path)
        rest = rest.replace("global_batch: 4", "global_batch: 2").replace("micro_batch: 4", "micro_batch: 2")
    (tmp_path / "run.yaml").write_text(f"{'' if objective else model}{objective}{data}\n{rest}output: run\n")
    assert re.search(r"held out|validation", trireme("train", "run.yaml", "--set", "data.sequence=64", "--set", "evaluation.every=1", cwd=tmp_path).stderr)


# ---- commands, options and keys that messages propose -----------------------------------------------------------------

# Options of other programs: hf, docker, srun, apptainer, rocm-smi, Open MPI's mpirun, llama.cpp.
OTHERS = {"--chat-template-file", "--revision", "--local-dir", "--bind-to", "--mpi", "--shm-size", "--gpus", "--nv", "--showpids", "--group-add", "--help", "--version", "--wandb"}
# What begins like a key of a file and is a file or a tensor.
NO_KEYS = re.compile(r"^model\.(layers|norm|embed_\w+|decoder|final_layernorm|safetensors|vocab|merges)\b|^(failures|reward|samples|optimizer|checkpoint)\.(log|txt|jsonl|safetensors|last_save_in_hf)")


def known_names():
    commands = re.findall(r"^  ([a-z]+) ", trireme("--help").stdout, re.M)
    options = {command: set(re.findall(r"--[a-z][a-z-]*", trireme(command, "--help").stdout)) | {"--help"} for command in commands}
    tables = (["train", "--keys"], ["tune", "--keys"], ["plan", "--keys", "clusters"], ["plan", "--keys", "systems"])
    return options, {row.split()[0] for words in tables for row in trireme(*words).stdout.splitlines() if row.split()}


def test_messages_name_what_there_is():
    """Every `trireme COMMAND --option`, every option and every key that a text of the program names exists."""
    sys.path.insert(0, str(ROOT / "scripts"))
    import messages
    options, keys = known_names()
    every, groups, faults, seen = set().union(*options.values()) | OTHERS, {key.split(".")[0] for key in keys if "." in key}, [], 0
    for path in sorted((ROOT / "src").rglob("*.[ch]")):
        for line, text in messages.texts_of(path.read_text()):
            for command, rest in re.findall(r"(?:`|: |^ *)trireme ([a-z]+)((?:(?!`|; |, |\. |\\n|: ).)*)", text):
                seen += command in options
                if command not in options and "`trireme " + command in text:
                    faults.append(f"{path}:{line}: no command {command}")
                faults += [f"{path}:{line}: {command} has no {word}" for word in re.findall(r"(?<![\w-])--[a-z][a-z-]+", rest) if word not in options.get(command, every)]
            faults += [f"{path}:{line}: no option {word}" for word in re.findall(r"(?<![\w-])--[a-z][a-z-]*[a-z](?![\w-])", text) if word not in every]
            faults += [f"{path}:{line}: no key {word}" for word in re.findall(r"(?<![\w./-])([a-z_0-9]+(?:\.[a-z_0-9]+)+)(?![\w(/%])", text)
                       if word.split(".")[0] in groups and word not in keys and not NO_KEYS.search(word)]
    assert seen > 60 and not faults, "\n".join(faults)


@pytest.mark.parametrize("folder", ["plain", "my runs & (2)"])
def test_what_new_and_tune_propose(tmp_path, folder):
    """`new` ends with a command that trains, and so does a study; both as they are printed, whatever the folder is called."""
    place = tmp_path / folder
    place.mkdir()
    (place / "words.txt").write_text("the rowers pull. " * 400)
    trireme("prepare", "--tokenizer", "bytes", "--out", place / "words", place / "words.txt")

    def run_line(said, *more):
        line, = re.findall(r"(?:and then run|to use it): (trireme train .*)$", said, re.M)
        done = subprocess.run([TRIREME, *shlex.split(line)[1:], *more], capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0, (line, done.stderr)
        return line

    said = trireme("new", f"{folder}/first", "--model", "gpt2-demo", "--data", place / "words/train", cwd=tmp_path).stderr
    run_line(said, "--set", "optimizer.steps=1", "--set", "data.sequence=16", "--set", "optimizer.global_batch=1", "--set", "layout.micro_batch=1",
             "--set", "model.num_layers=1")
    model = "model: {family: gpt2, num_layers: 1, hidden_size: 16, num_heads: 2, vocab_size: 257, max_sequence: 64}\n"
    (place / "run.yaml").write_text(f"{model}data: {{train: '{place}/words/train', validation: '{place}/words/validation', sequence: 16}}\n"
                                    "optimizer: {global_batch: 2, steps: 2, lr: 1.0e-3}\nlayout: {micro_batch: 2}\noutput: out\n")
    (place / "study.yaml").write_text(f"name: rates\nrun: {json.dumps(folder + '/run.yaml')}\nobjective: validation_loss\n"
                                      "trial: {steps: 4}\nspace: [{name: optimizer.lr, values: 1.0e-3 2.0e-3}]\n")
    said = trireme("tune", f"{folder}/study.yaml", "-n", 1, "--store", place / "study.db", cwd=tmp_path).stdout
    assert "--set optimizer.lr=" in run_line(said)

"""The examples of the manual pages run as they are printed, in their order, in a folder that has what they name. What would take long is
made shorter, and said here."""
import json
import os
import re
import shutil
import struct
import subprocess
import urllib.request

import pytest
from drawn import WHICH
from parity import TRIREME, trireme, yaml_of
from test_chat import line
from test_printed_commands import ROOT, text_of_ours

# The beginning of an example, and the options that are added when it is run.
SHORTER = {"trireme train configs/runs/gpt2-demo.yaml": " --set optimizer.steps=4 --set layout.micro_batch=2 --set optimizer.global_batch=2",
           "trireme tune configs/studies/frontier-175b.yaml": " --trials 5",
           "trireme board": " --port 0", "trireme serve": " --port 0"}
ROFF = {r"\-": "-", r"\e": "\\", r"\(ga": "`", r"\(ha": "^", r"\(ti": "~", r"\(aq": "'", r"\(dq": '"', r"\&": ""}
TEMPLATE = ("{%- for m in messages %}{{- '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{%- endfor %}"
            "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}")


def examples(page):
    """Each as one line."""
    text = re.search(r"\.SH EXAMPLES\n\.nf\n(.*?)\.fi\n", page, re.S)
    if not text:
        return []
    plain = re.sub(r"\\(?:\(..|.)", lambda letter: ROFF[letter[0]], text[1])
    return re.sub(r"\\\n\s*", "", plain).strip().splitlines()


def zst(text):
    """A frame of one block that is kept as it is (RFC 8878): up to 128 KB."""
    return struct.pack("<IBI", 0xFD2FB528, 0xA0, len(text)) + struct.pack("<I", 1 | len(text) << 3)[:3] + text


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    trireme("help", "--man-pages", folder)
    return {path.name: path.read_text() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Presets, two texts, conversations, and the program on the path."""
    folder = tmp_path_factory.mktemp("examples")
    (folder / "configs").symlink_to(ROOT / "configs")
    (folder / "bin").mkdir()
    (folder / "bin/trireme").symlink_to(TRIREME)
    text = text_of_ours()
    (folder / "book.txt").write_text(text)
    (folder / "conversations.jsonl").write_text("".join(line(f"What is {i}?", f"It is {i}.") for i in range(40)))
    articles = "".join(json.dumps({"text": text[i : i + 2000]}) + "\n" for i in range(0, 40_000, 2000))
    (folder / "articles.jsonl.zst").write_bytes(zst(articles.encode()))
    return folder


def run(folder, example):
    for begin, more in SHORTER.items():
        example += more if example.startswith(begin) else ""
    example = example.replace("/tmp/", f"{folder}/")
    environment = dict(os.environ, PATH=f"{folder}/bin:{os.environ['PATH']}")
    done = subprocess.run(["bash", "-o", "pipefail", "-c", example], cwd=folder, env=environment, capture_output=True, text=True,
                          errors="replace", timeout=900)
    assert done.returncode == 0, (example, done.stdout[-2000:], done.stderr[-2000:])
    return done.stdout + done.stderr


def copy(folder, *names):
    for name in names:
        shutil.copytree(folder / "runs/gpt2-demo", folder / name)


def a_llama(folder):
    """A folder as it is on the hub."""
    if (folder / "models/Llama-3.2-1B").exists():
        return
    config = dict(model=dict(family="llama", num_layers=1, hidden_size=16, num_heads=2, ffn_size=32, vocab_size=4096, max_sequence=64),
                  data=dict(train="corpus/train", sequence=16), optimizer=dict(global_batch=1, steps=1, lr=1e-3),
                  layout=dict(micro_batch=1), output="runs/llama")
    (folder / "llama.yaml").write_text(yaml_of(config))
    run(folder, "trireme train llama.yaml && trireme export runs/llama models/Llama-3.2-1B")


def a_tokenizer_with_a_template(folder):
    (folder / "Qwen3-0.6B").mkdir()
    shutil.copy(folder / "corpus/tokenizer.json", folder / "Qwen3-0.6B")
    (folder / "Qwen3-0.6B/tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE}))


def some_preferences(folder):
    records = [dict(prompt=f"What is {i}? ", chosen="It is so.", rejected="No.") for i in range(20)]
    (folder / "pairs.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))


def server_of(name, folder, example):
    """Runs the example, sends a request, and stops the server."""
    command = example + SHORTER["trireme " + name]
    server = subprocess.Popen([TRIREME, *command.split()[1:]], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        address = next(found for said in server.stdout if (found := re.search(r"http://[\w.:]+", said)))[0]
        with urllib.request.urlopen(address + "/", timeout=30) as answer:
            assert answer.status == 200
    finally:
        server.terminate()
        server.wait(timeout=30)


def test_examples(pages, folder):
    commands = re.findall(r"^\.BR trireme\\-(\w+) \(1\)$", pages["trireme.1"], re.M)
    assert len(commands) > 15
    # What one example makes, others take.
    before = {"prepare --chat": a_tokenizer_with_a_template, "prepare --preferences": some_preferences, "import": a_llama, "new second": lambda f: (a_llama(f), some_preferences(f)), "export": lambda f: copy(f, "runs/gpt2-124m"),
              "merge": lambda f: copy(f, "runs/code", "runs/maths"), "compare": lambda f: copy(f, "runs/first", "runs/second"),
              "board": lambda f: copy(f, "out/run")}
    first = ["prepare", "train"]
    for name in first + [name for name in commands if name not in first]:
        lines = examples(pages[f"trireme-{name}.1"])
        assert lines or name == "version", name
        for example in lines:
            for begin, make in before.items():
                if example.startswith(f"trireme {begin}"):
                    make(folder)
            if name in ("board", "serve"):
                server_of(name, folder, example)
            elif name != "calibrate" or WHICH == "all":  # a minute of measuring; test_plan runs it with `--time 0`
                assert run(folder, example)
    for made in ("corpus/train.bin", "tuning/train.mask", "frontier.db", "llama-1b", "gpt2-mine/model.safetensors", "both",
                 "compared.html"):
        assert (folder / made).exists(), made
    examples_of_files(pages, folder)


def examples_of_files(pages, folder):
    """Commands that no page of a command has; files are read by what reads such files."""
    shown = {example for name, page in pages.items() if name.endswith(".1") for example in examples(page)}
    readers = {"trireme-model.5": "trireme inspect {}", "trireme-run.5": "trireme train {} --dry-run"}
    for name in sorted(name for name in pages if name.endswith(".5")):
        lines = examples(pages[name])
        assert lines, name
        if name in readers:
            (folder / f"{name}.yaml").write_text("\n".join(lines) + "\n")
            lines = [readers[name].format(f"{name}.yaml")]
        for example in lines:
            assert example.startswith("trireme "), (name, example)
            assert example in shown or run(folder, example)

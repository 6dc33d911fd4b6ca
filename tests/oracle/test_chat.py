"""Compares rendered chat templates with Jinja's results (chat_cases.json), and tests `prepare --chat`."""
import json
import os
import subprocess

import pytest

TRIREME = os.environ["TRIREME"]
TOOL = os.path.join(os.environ["TRIREME_TOOLS"], "chat_tool")
HERE = os.path.dirname(os.path.abspath(__file__))

with open(os.path.join(HERE, "chat_cases.json"), encoding="utf-8") as cases:
    CASES = json.load(cases)

TEMPLATE = ("{%- for m in messages %}{%- if m.role == 'user' and loop.index0 % 2 %}{{ raise_exception('users first') }}{%- endif %}"
            "{{- '<' + m.role + '>' + m.content + '</' + m.role + '>' }}{%- endfor %}"
            "{%- if add_generation_prompt %}{{ '<assistant>' }}{%- endif %}")


def trireme(*arguments):
    return subprocess.run([TRIREME, *map(str, arguments)], capture_output=True, text=True)


def line(*contents):
    roles = ("user", "assistant")
    return json.dumps({"messages": [dict(role=roles[i % 2], content=c) for i, c in enumerate(contents)]}) + "\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "chat.jinja").write_text(TEMPLATE)
    (tmp_path / "chat.jsonl").write_text("".join(line(f"What is {i}?", f"It is {i}.", "Sure?", "Yes.") for i in range(40)))
    return tmp_path


def prepare(folder, *more, file="chat.jsonl", out="out"):
    return trireme("prepare", "--chat", "--tokenizer", "bytes", "--chat-template", folder / "chat.jinja", "--out", folder / out,
                   *more, folder / file)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_rendering(case, tmp_path):
    (tmp_path / "t.jinja").write_text(case["template"], newline="")
    given = "".join(json.dumps(run["given"]) + "\n" for run in case["runs"])
    done = subprocess.run([TOOL, tmp_path / "t.jinja"], input=given, capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    for run, answer in zip(case["runs"], done.stdout.split("\n")[:-1], strict=True):
        answer = json.loads(answer)
        if "error" in run:
            assert "error" in answer, (run, answer)
        else:
            assert answer.get("text") == run["text"], run["given"]


def test_mask(folder):
    assert prepare(folder, "--validation", 0).returncode == 0
    ids = list((folder / "out/train.bin").read_bytes()[::2])
    mask = (folder / "out/train.mask").read_bytes()
    assert len(mask) == len(ids)
    learnt = bytes(c for c, m in zip(ids, mask) if m == 1).decode()
    assert learnt == "".join(f"It is {i}.</assistant>Yes.</assistant>" for i in range(40))
    said = trireme("inspect", folder / "out/train").stdout
    assert f"conversations: {sum(mask)} of {len(mask)} tokens are learnt" in said
    assert json.loads(trireme("inspect", folder / "out/train", "--json").stdout)["learnt_tokens"] == sum(mask)


def test_training_and_mixtures(folder):
    assert prepare(folder, "--validation", 0.1).returncode == 0
    (folder / "plain.txt").write_text("some plain text.\n" * 300)
    plain = trireme("prepare", "--tokenizer", "bytes", "--documents", "line", "--validation", 0, "--out", folder / "plain", folder / "plain.txt")
    assert plain.returncode == 0, plain.stderr
    model = dict(family="llama", num_layers=1, hidden_size=32, num_heads=2, ffn_size=64, vocab_size=257, max_sequence=128)
    sources = {"one": str(folder / "out/train"),
               "two": [dict(path=str(folder / "out/train"), weight=1), dict(path=str(folder / "plain/train"), weight=1)]}
    for name, train in sources.items():
        run = dict(model=model, layout=dict(micro_batch=2), output=str(folder / name), optimizer=dict(global_batch=4, steps=3, lr=1e-2),
                   data=dict(train=train, validation=str(folder / "out/validation"), sequence=128, documents="masked", packing="documents"))
        (folder / f"{name}.yaml").write_text(json.dumps(run))
        done = trireme("train", folder / f"{name}.yaml")
        assert done.returncode == 0, done.stderr
        metrics = [json.loads(text) for text in (folder / name / "metrics.jsonl").read_text().splitlines()]
        assert metrics[-1]["step"] == 3 and 0 < metrics[-1]["validation_loss"] < 6
    mask = (folder / "out/validation.mask").read_bytes()
    done = trireme("eval", folder / "one", folder / "out/validation", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["tokens"] == sum(mask)


def test_a_mask_belongs_to_its_corpus(folder):
    assert prepare(folder, "--validation", 0).returncode == 0
    path = folder / "out/train.mask"
    mask = bytearray(path.read_bytes())
    for changed, message in ((mask[:-1], "a mask must have one byte for each token"), (b"\x02" + mask[1:], "byte 0 is 2"),
                             (b"\x01" + mask[1:], "which was changed"), (None, "its folder lacks the file with the suffix")):
        path.unlink(missing_ok=True)
        if changed is not None:
            path.write_bytes(changed)
        done = trireme("inspect", folder / "out/train")
        assert done.returncode == 4 and message in done.stderr, done.stderr
    assert prepare(folder, "--validation", 0, "--force").returncode == 0
    (folder / "plain.txt").write_text("text\n" * 50)
    done = trireme("prepare", "--tokenizer", "bytes", "--out", folder / "out", "--force", "--validation", 0, folder / "plain.txt")
    assert done.returncode == 0 and not path.exists(), done.stderr


@pytest.mark.parametrize("bad, message", [
    ("{", "line 2 is not valid JSON"),
    ('{"body": "a"}\n', "line 2: the record has `body`, which is not a known form"),
    (line("a"), "line 2: the conversation has no answer"),
    (line("a", "b", "c").replace('"assistant"', '"user"', 1).replace('"user", "content": "c"', '"assistant", "content": "c"'),
     "the template refuses the conversation: users first"),
])
def test_bad_conversations(folder, bad, message):
    (folder / "bad.jsonl").write_text(line("a", "b") + bad)
    done = prepare(folder, file="bad.jsonl", out="bad")
    assert done.returncode == 4 and message in done.stderr and "bad.jsonl line 2" in done.stderr, done.stderr
    assert not (folder / "bad").exists()
    done = prepare(folder, "--skip-bad", "--validation", 0, "--json", file="bad.jsonl", out="bad")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["skipped_conversations"] == 1 and message in done.stderr


def test_options(folder):
    done = trireme("prepare", "--chat", "--tokenizer", "bytes", "--out", folder / "x", folder / "chat.jsonl")
    assert done.returncode == 4 and "there is no chat template: the tokenizer bytes has neither" in done.stderr
    done = trireme("prepare", "--skip-bad", "--tokenizer", "bytes", "--out", folder / "x", folder / "chat.jsonl")
    assert done.returncode == 4 and "all 40 documents are bad and were skipped" in done.stderr  # they have no `text`
    (folder / "one.jsonl").write_text(line("a", "b"))
    done = prepare(folder, file="one.jsonl", out="one")
    assert done.returncode == 4 and "one conversation cannot be divided" in done.stderr
    (folder / "chat.jinja").write_text("{{ who }}{% for m in messages %}{{ m.content }}{% endfor %}")
    assert prepare(folder, "--chat-set", "who=me:", "--validation", 0, file="one.jsonl", out="set").returncode == 0
    assert (folder / "set/train.bin").read_bytes()[::2] == b"me:ab"

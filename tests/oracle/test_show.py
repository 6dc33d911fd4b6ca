"""`inspect CORPUS --show` prints the documents of a corpus with the learnt tokens marked, beside `tokenizers` and the corpus's files; `train`
prints the first example."""
import json
import re

import numpy
import pytest
import tokenizers
from parity import trireme, yaml_of

TEMPLATE = (
    "{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' %}{% generation %}{{ m.content }}~\n{% endgeneration %}"
    "{% else %}{{ m.content }}~\n{% endif %}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
)
WORDS = ["oar", "sée", "船", "mast", "a b", "tab\tx", "new\nline"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("show")
    (folder / "chat.jinja").write_text(TEMPLATE)
    chats = [[dict(role="user", content=WORDS[i % 7] * (1 + i % 3)), dict(role="assistant", content=WORDS[(i + 2) % 7]), dict(role="user", content="more"),
              dict(role="assistant", content=WORDS[(i + 4) % 7])][: 2 + 2 * (i % 2)] for i in range(40)]
    (folder / "chats.jsonl").write_text("".join(json.dumps(dict(messages=chat)) + "\n" for chat in chats))
    (folder / "pairs.jsonl").write_text("".join(json.dumps(dict(prompt=f"q{i} ", chosen=f"yes {i}", rejected=f"no {i}")) + "\n" for i in range(9)))
    (folder / "text.txt").write_text("one two three\n" * 30)
    (folder / "words.txt").write_text("".join(f"<user>{word}~\n<assistant>{word}~\n" for word in WORDS) * 20)
    trireme("prepare", "--tokenizer", "train:280", "--validation", 0, "--out", folder / "words", folder / "words.txt")
    trireme("prepare", "--chat", "--chat-template", folder / "chat.jinja", "--tokenizer", folder / "words", "--validation", 0, "--out", folder / "chats", folder / "chats.jsonl")
    trireme("prepare", "--preferences", "--tokenizer", "bytes", "--validation", 0, "--out", folder / "pairs", folder / "pairs.jsonl")
    trireme("prepare", "--tokenizer", "bytes", "--documents", "line", "--validation", 0, "--out", folder / "text", folder / "text.txt")
    return folder


def marked(tokenizer, ids, learnt):
    """The text of the ids with each run of learnt ones in [[ ]]. Runs are decoded apart; none of these texts cuts a character."""
    out, at = "", 0
    while at < len(ids):
        end = at
        while end < len(ids) and learnt[end] == learnt[at]:
            end += 1
        text = tokenizer.decode(ids[at:end], skip_special_tokens=False)
        out, at = out + (f"[[{text}]]" if learnt[at] else text), end
    return out


def shown(*words):
    return [json.loads(line) for line in trireme("inspect", *words, "--json").stdout.splitlines()]


def test_conversations(made):
    prefix = made / "chats/train"
    tokenizer = tokenizers.Tokenizer.from_file(str(made / "chats/tokenizer.json"))
    lines = shown(prefix, "--show", 40)
    assert [line["document"] for line in lines] == list(range(40))
    mask = numpy.fromfile(f"{prefix}.mask", numpy.uint8)
    assert [n for line in lines for n in line["learnt"]] == mask.tolist()
    for line in lines:
        assert line["text"] == tokenizer.decode(line["ids"], skip_special_tokens=False)
    text = trireme("inspect", prefix, "--show", 40).stdout
    assert text == "".join(f"--- document {line['document']}: {len(line['ids'])} tokens, {sum(line['learnt'])} of them learnt ---\n{marked(tokenizer, line['ids'], line['learnt'])}\n" for line in lines)
    assert re.search(r"<assistant>\[\[[^\]]+~\n\]\]", text)
    listed = trireme("inspect", prefix, "--show", 1, "--ids").stdout.splitlines()[-len(lines[0]["ids"]):]
    for line, number, is_learnt in zip(listed, lines[0]["ids"], lines[0]["learnt"]):
        found = re.fullmatch(r" *(\d+) (learnt |context) +(\".*\")", line)
        assert int(found[1]) == number and (found[2] == "learnt ") == bool(is_learnt)


def test_a_seed_draws(made):
    """Each document comes up about equally often, and none twice."""
    counts = numpy.zeros(40)
    for seed in range(60):
        numbers = [line["document"] for line in shown(made / "chats/train", "--show", 10, "--seed", seed)]
        assert len(set(numbers)) == 10 and numbers == sorted(numbers)
        counts[numbers] += 1
    assert 4 <= counts.min() and counts.max() <= 28  # the mean is 15, the standard deviation 3.4
    assert shown(made / "chats/train", "--show", 10, "--seed", 3) == shown(made / "chats/train", "--show", 10, "--seed", 3)


def test_pairs_and_plain_text(made):
    lines = shown(made / "pairs/train", "--show", 2)
    assert [(line["document"], line["preference"], line["text"]) for line in lines] == [
        (0, "chosen", "q0 yes 0<|endoftext|>"), (1, "rejected", "q0 no 0<|endoftext|>"), (2, "chosen", "q1 yes 1<|endoftext|>"), (3, "rejected", "q1 no 1<|endoftext|>")]
    drawn = shown(made / "pairs/train", "--show", 3, "--seed", 5)
    assert len(drawn) == 6 and all(a["document"] % 2 == 0 and b["document"] == a["document"] + 1 for a, b in zip(drawn[::2], drawn[1::2]))
    assert trireme("inspect", made / "pairs/train", "--show", 1).stdout.splitlines()[0] == "--- document 0, chosen: 9 tokens, 6 of them learnt ---"
    plain = trireme("inspect", made / "text/train", "--show", 1).stdout
    assert plain == "--- document 0: 14 tokens ---\none two three<|endoftext|>\n"


def test_wrong_uses(made, tmp_path):
    for words, status, said in [(["--show", 0], 2, "--show must be from 1"), (["--seed", 1], 2, "go with --show N"), (["--ids"], 2, "go with --show N"), (["--show", 1, "--sequence", 8], 2, "--sequence or --show"),
                                (["--show", 1, "--tokenizer", made / "none.json"], 4, "none.json")]:
        assert said in trireme("inspect", made / "chats/train", *words, status=status).stderr
    for file in (made / "text").iterdir():
        if file.name != "tokenizer.json":
            (tmp_path / file.name).write_bytes(file.read_bytes())
    assert "is not there, so the tokens have no text; give --tokenizer FILE" in trireme("inspect", tmp_path / "train", "--show", 1, status=4).stderr
    assert trireme("inspect", tmp_path / "train", "--show", 1, "--tokenizer", made / "text").stdout.endswith("<|endoftext|>\n")
    assert "--show and --tokenizer go with a corpus" in trireme("inspect", "gpt2-124m", "--show", 1, status=2).stderr


def test_train_prints_the_first_example(made, tmp_path):
    model = dict(family="llama", num_layers=1, hidden_size=16, num_heads=2, ffn_size=32, vocab_size=300, max_sequence=64)
    run = dict(model=model, optimizer=dict(global_batch=1, steps=1, lr=1e-3), output=str(tmp_path / "run"))

    def said(name, *words, **data):
        (tmp_path / "run.yaml").write_text(yaml_of(dict(run, data=dict(data, sequence=64), **({} if "train" in data else dict(objective=dict(name="orpo"))))))
        return [line for line in trireme("train", tmp_path / "run.yaml", "--set", f"output={tmp_path / name}", *words).stderr.splitlines() if "the first" in line]

    first = trireme("inspect", made / "chats/train", "--show", 1).stdout.splitlines()[1]
    (line,) = said("chats", train=str(made / "chats/train"))
    assert line == "the first example, with the learnt text in [[ ]]: " + first
    assert said("chats", "--set", "optimizer.steps=2", train=str(made / "chats/train")) == []  # a resumed run
    assert said("off", "--set", "data.show_example=false", train=str(made / "chats/train")) == []
    assert said("text", train=str(made / "text/train")) == []
    assert said("pairs", preferences=str(made / "pairs/train")) == [
        "the first chosen answer, with the learnt text in [[ ]]: q0 [[yes 0<|endoftext|>]]", "the first rejected answer, with the learnt text in [[ ]]: q0 [[no 0<|endoftext|>]]"]

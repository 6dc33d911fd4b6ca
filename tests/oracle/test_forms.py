"""Forms of conversations (`prepare --chat --form`), JSON arrays and --max-records: the same records in another form or file make the same
corpus, to the byte, as the messages that a reader of the form would write by hand."""
import json
import os
import resource
import subprocess

import pytest

TRIREME = os.environ["TRIREME"]
TEMPLATE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}</{{ m.role }}>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
QUESTIONS = [(f"What is {i} plus {j}?", "" if i % 2 else f"Say it in {j} words.\n", f"It is {i + j}. Héllo \"quoted\" ] }} \\ {i}") for i in range(9) for j in range(7)]


def prepare(folder, *more, status=0):
    (folder / "t.jinja").write_text(TEMPLATE)
    done = subprocess.run([TRIREME, "prepare", "--tokenizer", "bytes", "--force", *map(str, more)], capture_output=True, text=True)
    assert done.returncode == status, done.stderr
    return done.stderr


def corpus(folder, name, *more, chat=True):
    said = prepare(folder, *(["--chat", "--chat-template", folder / "t.jinja"] if chat else []), "--out", folder / "out", *more, folder / name)
    files = ("train.bin", "train.idx", "validation.bin") + (("train.mask", "validation.mask") if chat else ())
    return said, [(folder / "out" / file).read_bytes() for file in files]


def lines(records):
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def messages(question, given, answer, system=None):
    said = [dict(role="user", content=question + ("\n\n" + given if given else "")), dict(role="assistant", content=answer)]
    return dict(messages=([dict(role="system", content=system)] if system else []) + said)


FORMS = {
    "alpaca": lambda q, i, a: dict(instruction=q, input=i, output=a),
    "alpaca without input": lambda q, i, a: dict(instruction=q, output=a) if not i else dict(instruction=q, input=i, output=a),
    "alpaca, input null": lambda q, i, a: dict(instruction=q, input=i or None, output=a),
    "question-answer": lambda q, i, a: dict(question=q + ("\n\n" + i if i else ""), answer=a),
    "prompt-completion": lambda q, i, a: dict(prompt=q + ("\n\n" + i if i else ""), completion=a),
    "sharegpt": lambda q, i, a: dict(conversations=[{"from": "human", "value": q + ("\n\n" + i if i else "")}, {"from": "gpt", "value": a}]),
}


@pytest.mark.parametrize("name", FORMS)
def test_each_form_is_the_messages(tmp_path, name):
    (tmp_path / "wanted.jsonl").write_text(lines(messages(*q) for q in QUESTIONS))
    (tmp_path / "given.jsonl").write_text(lines(FORMS[name](*q) for q in QUESTIONS))
    said, given = corpus(tmp_path, "given.jsonl")
    assert given == corpus(tmp_path, "wanted.jsonl")[1]
    form = name.split(",")[0].split(" ")[0]
    assert f"records of the form {form}\n" in said
    assert corpus(tmp_path, "given.jsonl", "--form", form)[1] == given


def test_system_beside_a_form_and_keys_that_are_not_read(tmp_path):
    (tmp_path / "wanted.jsonl").write_text(lines(messages(*q, system="Be short.") for q in QUESTIONS))
    (tmp_path / "given.jsonl").write_text(lines(dict(FORMS["alpaca"](*q), system="Be short.", id=7, source="x") for q in QUESTIONS))
    said, given = corpus(tmp_path, "given.jsonl")
    assert given == corpus(tmp_path, "wanted.jsonl")[1]
    assert "records of the form alpaca; not read: `id`, `source`\n" in said


def test_keys_of_messages_that_are_not_read(tmp_path):
    """Keys that every message may have, flags, and keys that the template names are read; the others are logged once for each file."""
    said = [dict(role="user", content="q", name="n", source=1, id=None), dict(role="assistant", content="a", loss=True, source=2, thinking="t")]
    (tmp_path / "a.jsonl").write_text(lines([dict(messages=said, tools=[dict(type="function")])] * 5))
    assert "a.jsonl: in messages, not read: `name`, `source`, `thinking`\n" in corpus(tmp_path, "a.jsonl")[0]
    (tmp_path / "t2.jinja").write_text(TEMPLATE + "{% if false %}{{ messages[0].name, messages[0].reasoning_content }}{% endif %}")
    assert "a.jsonl: in messages, not read: `source`\n" in corpus(tmp_path, "a.jsonl", "--chat-template", tmp_path / "t2.jinja")[0]
    (tmp_path / "b.jsonl").write_text(lines([dict(prompt=said[:1], chosen=[dict(said[1], score=1)], rejected=[dict(role="assistant", content="b")])]))
    given = prepare(tmp_path, "--preferences", "--chat-template", tmp_path / "t.jinja", "--validation", 0, "--out", tmp_path / "out", tmp_path / "b.jsonl")
    assert "b.jsonl: in messages, not read: `name`, `source`, `thinking`, `score`\n" in given


@pytest.mark.parametrize("indent", [None, 0, 2])
@pytest.mark.parametrize("chat", [True, False])
def test_an_array_is_its_lines(tmp_path, indent, chat):
    records = [FORMS["alpaca"](*q) for q in QUESTIONS]
    (tmp_path / "a.jsonl").write_text(lines(records))
    (tmp_path / "a.json").write_text(json.dumps(records, indent=indent, ensure_ascii=indent == 0))
    more = [] if chat else ["--key", "output"]
    assert corpus(tmp_path, "a.json", *more, chat=chat)[1] == corpus(tmp_path, "a.jsonl", *more, chat=chat)[1]


@pytest.mark.parametrize("chat", [True, False])
def test_the_first_records_are_those_of_a_shorter_file(tmp_path, chat):
    records = [FORMS["alpaca"](*q) for q in QUESTIONS]
    more = [] if chat else ["--key", "output"]
    for name, count in (("a.jsonl", 20), ("a.json", 1), ("a.json", 62), ("a.json", 1000)):
        write = lines if name == "a.jsonl" else json.dumps
        (tmp_path / name).write_text(write(records))
        (tmp_path / ("short-" + name)).write_text(write(records[:count]))
        zero = ["--validation", 0]
        said = prepare(tmp_path, *(["--chat", "--chat-template", tmp_path / "t.jinja"] if chat else []), "--out", tmp_path / "whole", *more, *zero,
                       "--max-records", count, tmp_path / name)
        prepare(tmp_path, *(["--chat", "--chat-template", tmp_path / "t.jinja"] if chat else []), "--out", tmp_path / "short", *more, *zero,
                tmp_path / ("short-" + name))
        for file in ("train.bin", "train.idx") + (("train.mask",) if chat else ()):
            assert (tmp_path / "whole" / file).read_bytes() == (tmp_path / "short" / file).read_bytes(), said


def test_the_first_records_over_several_files(tmp_path):
    for i in range(4):
        (tmp_path / f"{i}.txt").write_text(f"text {i}\n")
    prepare(tmp_path, "--out", tmp_path / "out", "--validation", 0, "--max-records", 3, *(tmp_path / f"{i}.txt" for i in range(4)))
    text = bytes(byte for byte in (tmp_path / "out/train.bin").read_bytes()[::2])
    assert b"text 2" in text and b"text 3" not in text


def test_a_long_array_takes_no_memory(tmp_path):
    """A quarter of a gigabyte of array in less address space than the file has bytes: records of no answer, left out one by one."""
    record = json.dumps(dict(instruction="x" * 4000, input="", output=""))
    with open(tmp_path / "a.json", "w") as file:
        file.write("[" + json.dumps(FORMS["alpaca"](*QUESTIONS[0])))
        for _ in range(64):
            file.write(("," + record) * 1000)
        file.write("]")
    (tmp_path / "t.jinja").write_text(TEMPLATE)
    done = subprocess.run([TRIREME, "prepare", "--chat", "--tokenizer", "bytes", "--chat-template", tmp_path / "t.jinja", "--threads", "1", "--skip-bad", "--validation", "0", "--json",
                           "--out", tmp_path / "out", tmp_path / "a.json"], capture_output=True, text=True,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (200 << 20, 200 << 20)))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["skipped_documents"] == 64000
    assert "line 1: `output` is empty, so the record has no answer to learn" in done.stderr


BAD = {
    "no answer": ([dict(instruction="a", output="b"), dict(instruction="c", input="", output="")], [],
                  "bad.jsonl line 2: `output` is empty, so the record has no answer to learn; remove the record, or give --skip-bad"),
    "null": ([dict(instruction="a", output=None)], [], "line 1: `output` is null, but a record of the form alpaca needs it; remove the record, or give --skip-bad"),
    "two forms": ([dict(instruction="a", output="b", text="c")], [], "line 1: the record fits two forms, alpaca and text; choose with --form alpaca or --form text"),
    "half a form": ([dict(question="a", id=1)], [], "line 1: the record has `question` but not `answer`, but the form question-answer needs both; it has `question`, `id`"),
    "no form": ([dict(body="a")], [], "line 1: the record has `body`, which is not a known form"),
    "another form": ([dict(question="a", answer="b")], ["--form", "alpaca"], "line 1: the record has no key `instruction`; it has `question`, `answer`: choose one with --form"),
    "unknown form": ([dict(question="a", answer="b")], ["--form", "alpacca"], "--form is `alpacca`; it is messages, prompt-completion, sharegpt, alpaca, question-answer or text"),
    "a key of its own": ([dict(question="a", answer="b")], ["--form", "alpaca", "--key", "x"], "--key does not go with --form alpaca"),
    "preferences": ([dict(prompt="a", chosen="b", rejected="c")], [], "`chosen` and `rejected` are preferences"),
    "no records": ([dict(question="a", answer="b")], ["--max-records", "0"], "--max-records is 0; it is the number of records to read, from 1 on"),
    "half a record": ([dict(question="a", answer="b")], ["--max-records", "1.5"], "--max-records needs a whole number, not `1.5`"),
}


@pytest.mark.parametrize("name", BAD)
def test_refused(tmp_path, name):
    records, more, message = BAD[name]
    (tmp_path / "bad.jsonl").write_text(lines(records))
    arguments = ["--chat", "--chat-template", "none", "--out", tmp_path / "out", *more, tmp_path / "bad.jsonl"]
    said = prepare(tmp_path, *arguments, status=2 if message.startswith("--") else 7 if name == "preferences" else 4)
    assert message in said and not (tmp_path / "out").exists()


def test_an_element_of_an_array_is_named(tmp_path):
    records = [dict(instruction="a", output="b")] * 6 + [dict(instruction="a", output="")]
    (tmp_path / "bad.json").write_text(json.dumps(records))
    chat = ["--chat", "--chat-template", tmp_path / "t.jinja", "--out", tmp_path / "out", tmp_path / "bad.json"]
    assert "bad.json line 1: `output` is empty, so the record has no answer to learn; remove the record, or give --skip-bad (element 7 of the array)" in prepare(tmp_path, *chat, status=4)
    said = prepare(tmp_path, "--skip-bad", "--validation", 0, *chat)
    assert "; 1 was bad and skipped\n" in said and "(element 7 of the array)" in said
    (tmp_path / "bad.json").write_text(json.dumps([dict(text="a"), dict(text=5)]))
    assert "bad.json line 1: `text` is a number, not a string (element 2 of the array)" in prepare(tmp_path, "--out", tmp_path / "text", tmp_path / "bad.json", status=4)


def test_an_input_that_is_not_there(tmp_path):
    (tmp_path / "alpaca.jsonl").write_text("x")
    said = prepare(tmp_path, "--chat", "--chat-template", "none", "--out", tmp_path / "out", tmp_path / "alpacca.jsonl", status=4)
    assert f"cannot open {tmp_path}/alpacca.jsonl: No such file or directory; did you mean {tmp_path}/alpaca.jsonl?" in said


def test_records_of_conversations_without_chat(tmp_path):
    for record, form in ((dict(messages=[]), "messages"), (dict(instruction="a", output="b"), "alpaca")):
        (tmp_path / "a.jsonl").write_text(lines([record]))
        said = prepare(tmp_path, "--out", tmp_path / "out", tmp_path / "a.jsonl", status=4)
        assert f"as conversations have (form {form}): did you mean --chat?" in said
    (tmp_path / "a.jsonl").write_text(lines([dict(question="a", answer="b")]))
    said = prepare(tmp_path, "--form", "alpaca", "--out", tmp_path / "out", tmp_path / "a.jsonl", status=2)
    assert "--form goes with --chat" in said


@pytest.mark.parametrize("name, call", [("a.csv", "read_csv('{0}')"), ("a.tsv", "read_csv('{0}', sep='\\t')"), ("a.parquet", "read_parquet('{0}')"),
                                        ("b.json", "read_parquet('{0}')")])
def test_tables_are_refused_with_what_converts_them(tmp_path, name, call):
    path = tmp_path / name
    path.write_bytes(b"PAR1\x15\x04" if name == "b.json" else b"question,answer\na,b\n")
    said = prepare(tmp_path, "--chat", "--chat-template", "none", "--out", tmp_path / "out", path, status=4)
    command = f"import pandas; pandas.{call.format(path)}.to_json('{path}.jsonl', orient='records', lines=True)"
    assert f"convert it to .jsonl: pip install pandas pyarrow; python3 -c \"{command}\"" in said


def test_a_table_with_quotes_in_its_name(tmp_path):
    """The command stays one that a shell and Python read."""
    (tmp_path / "it's.parquet").write_bytes(b"PAR1")
    said = prepare(tmp_path, "--out", tmp_path / "out", tmp_path / "it's.parquet", status=4)
    assert "it's.parquet: .parquet files are not read" in said and "pandas.read_parquet('FILE').to_json('FILE.jsonl'" in said

"""`prepare --preferences`: ids and masks beside TRL's (preference_data_cases.json, which make_preference_data.py wrote), splits, bad input,
and who takes such a corpus."""
import json
import os
import struct
import subprocess

import pytest

TRIREME = os.environ["TRIREME"]
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "preference_data_cases.json"), encoding="utf-8") as stored:
    CASES = json.load(stored)
TEMPLATE = "{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}</{{ m.role }}>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
SIDES = ("bin", "idx", "mask", "labels", "corpus.json")


def prepare(folder, *more, status=0, tokenizer="bytes", template=TEMPLATE, option="--preferences"):
    (folder / "t.jinja").write_text(template)
    given = ["--chat-template", folder / "t.jinja"] if tokenizer == "bytes" and option else []
    done = subprocess.run([TRIREME, "prepare", *([option] if option else []), "--tokenizer", str(tokenizer), "--force", "--out", str(folder / "out"), *map(str, given + list(more))],
                          capture_output=True, text=True)
    assert done.returncode == status, done.stderr
    return done.stderr


def write(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def read(folder, name="train"):
    """Ids and mask of each document, and labels."""
    index = (folder / "out" / f"{name}.idx").read_bytes()
    kind, sequences, starts = struct.unpack_from("<BQQ", index, 17)
    sizes = struct.unpack_from(f"<{sequences}i", index, 34)
    tokens, mask = (folder / "out" / f"{name}.bin").read_bytes(), (folder / "out" / f"{name}.mask").read_bytes()
    assert kind == 8 and starts == sequences + 1 and len(mask) == sum(sizes)
    labels, documents, at = folder / "out" / f"{name}.labels", [], 0
    for size in sizes:
        documents.append((list(struct.unpack_from(f"<{size}H", tokens, 2 * at)), list(mask[at : at + size])))
        at += size
    return documents, list(labels.read_bytes()) if labels.exists() else None


def files(folder):
    return {f"{name}.{side}": (folder / "out" / f"{name}.{side}").read_bytes()
            for name in ("train", "validation") for side in SIDES if (folder / "out" / f"{name}.{side}").exists()}


def texts(count):
    return [dict(prompt=f"What is {i}? ", chosen=f"It is {i}.", rejected="No " * (i % 7 + 1)) for i in range(count)]


def labelled(count):
    return [dict(prompt=f"What is {i}? ", completion=f"It is {i}.", label=i % 3 == 0) for i in range(count)]


def say(*contents, first="user"):
    roles = ("user", "assistant")
    return [dict(role=roles[(i + (first != "user")) % 2], content=content) for i, content in enumerate(contents)]


def answer(*contents):
    return say(*contents, first="assistant")


# ---- beside TRL -----------------------------------------------------------------------------------------------------------------


SETS = [(made, one) for made in CASES["tokenizers"] for one in made["sets"]]


@pytest.mark.parametrize("made, one", SETS, ids=[f"{made['name']}, {one['template']}, {one['form']}" for made, one in SETS])
def test_ids_and_masks_are_trls(made, one, tmp_path):
    model = tmp_path / "model"
    model.mkdir()
    (model / "tokenizer.json").write_text(json.dumps(made["tokenizer"]))
    (model / "tokenizer_config.json").write_text(json.dumps(dict(bos_token="<s>", eos_token="</s>", chat_template=CASES["templates"][one["template"]])))
    prepare(tmp_path, "--validation", 0, write(tmp_path / "a.jsonl", one["records"]), tokenizer=model)
    documents, labels = read(tmp_path)
    assert labels == one["labels"]
    assert len(documents) == len(one["documents"])
    for (ids, mask), wanted in zip(documents, one["documents"]):
        assert ids == wanted["ids"]
        assert mask == [0] * wanted["prompt"] + [1] * (len(ids) - wanted["prompt"])


# ---- files ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("records", [texts(30000), labelled(30000)], ids=["pairs", "labels"])
def test_threads_and_arrays_make_the_same_files(records, tmp_path):
    (tmp_path / "a.json").write_text(json.dumps(records))
    made = []
    for threads, path in ((1, write(tmp_path / "a.jsonl", records)), (3, tmp_path / "a.jsonl"), (2, tmp_path / "a.json")):
        prepare(tmp_path, "--threads", threads, "--validation", 0.1, path)
        made.append(files(tmp_path))
    assert made[0] == made[1] == made[2] and len(made[0]) == (10 if "label" in records[0] else 8)


@pytest.mark.parametrize("share", [0.3, 0.001])
def test_a_pair_is_never_divided(share, tmp_path):
    prepare(tmp_path, "--validation", share, write(tmp_path / "a.jsonl", texts(50)))
    both = [read(tmp_path, name)[0] for name in ("train", "validation")]
    assert len(both[0]) + len(both[1]) == 100 and all(len(documents) > 0 for documents in both)
    for documents in both:
        for (chosen, mask), (rejected, other) in zip(documents[::2], documents[1::2], strict=True):
            prompt = mask.index(1)
            assert prompt == other.index(1) and chosen[:prompt] == rejected[:prompt] and bytes(chosen[prompt:-1]).startswith(b"It is")


@pytest.mark.parametrize("share", [0.3, 0.001])
def test_labels_go_with_their_documents(share, tmp_path):
    prepare(tmp_path, "--validation", share, write(tmp_path / "a.jsonl", labelled(50)))
    count = 0
    for name in ("train", "validation"):
        documents, labels = read(tmp_path, name)
        assert len(documents) == len(labels) > 0
        count += len(labels)
        for (ids, _), label in zip(documents, labels):
            assert label == (int(bytes(ids[:-1]).decode().split("?")[0].split()[-1]) % 3 == 0)
    assert count == 50


def test_records_are_counted(tmp_path):
    prepare(tmp_path, "--max-records", 7, "--validation", 0, write(tmp_path / "a.jsonl", texts(20)))
    assert len(read(tmp_path)[0]) == 14


def test_an_older_corpus_of_another_kind_is_replaced(tmp_path):
    prepare(tmp_path, write(tmp_path / "a.jsonl", labelled(20)))
    assert (tmp_path / "out" / "train.labels").exists()
    prepare(tmp_path, "--validation", 0, write(tmp_path / "a.jsonl", texts(20)))
    assert sorted(path.name for path in (tmp_path / "out").glob("*train*")) == ["train.bin", "train.corpus.json", "train.idx", "train.mask"]
    assert not list((tmp_path / "out").glob("validation*"))


def test_the_record_and_its_fingerprints(tmp_path):
    prepare(tmp_path, "--validation", 0, write(tmp_path / "a.jsonl", labelled(20)))
    record = json.loads((tmp_path / "out" / "train.corpus.json").read_text())
    assert record["version"] == 3 and record["preferences"] == "labels" and len(record["labels"]) == 32
    prepare(tmp_path, "--validation", 0, write(tmp_path / "a.jsonl", [one | dict(label=not one["label"]) for one in labelled(20)]))
    other = json.loads((tmp_path / "out" / "train.corpus.json").read_text())
    assert record["corpus"] == other["corpus"] and record["mask"] == other["mask"] and record["labels"] != other["labels"]
    prepare(tmp_path, "--validation", 0, write(tmp_path / "a.jsonl", texts(20)))
    record = json.loads((tmp_path / "out" / "train.corpus.json").read_text())
    assert record["preferences"] == "pairs" and "labels" not in record


def test_a_blank_answer_is_an_answer(tmp_path):
    blank = [dict(prompt="a", chosen=" ", rejected="\n"), dict(prompt="a", completion="\n", label=True)]
    for record in (*blank, dict(prompt=say("a"), chosen=answer(" "), rejected=answer("\n"))):
        prepare(tmp_path, "--validation", 0, write(tmp_path / "a.jsonl", [record, blank[1] | dict(label=False)] if "label" in record else [record]), template="{% for m in messages %}{{ m.content }}{% endfor %}")
        assert [bytes(t for t, m in zip(ids, mask) if m and t < 256) for ids, mask in read(tmp_path)[0]] == ([b"\n", b"\n"] if "label" in record else [b" ", b"\n"])


def test_answers_that_become_the_same_tokens(tmp_path):
    """By the tokenizer's normalizer, which replaces spaces."""
    made = CASES["tokenizers"][1]
    (tmp_path / "model").mkdir()
    (tmp_path / "model/tokenizer.json").write_text(json.dumps(made["tokenizer"]))
    (tmp_path / "model/tokenizer_config.json").write_text(json.dumps(dict(bos_token="<s>", eos_token="</s>")))
    records = [dict(prompt="Say hello", chosen=" world.", rejected=" word"), dict(prompt="Say hello", chosen=" world.", rejected="\u2581world.")]
    said = prepare(tmp_path, write(tmp_path / "a.jsonl", records), tokenizer=tmp_path / "model", status=4)
    assert "a.jsonl line 2: `chosen` and `rejected` become the same tokens, which is not a preference" in said


def test_null_is_absent(tmp_path):
    def row(message):
        return dict(message, tool_calls=None, name=None, weight=None)
    pair = dict(prompt=say("a"), chosen=answer("b"), rejected=answer("c"))
    nulls = dict({key: [row(m) for m in messages] for key, messages in pair.items()}, label=None, completion=None, system=None, tools=None)
    alike = dict(chosen=say("a", "b"), rejected=[row(m) for m in say("a", "c")], prompt=None)
    template = TEMPLATE.replace("</{{", "{{ m.tool_calls | length if m.tool_calls is defined }}</{{")
    made = []
    for record in (pair, nulls, alike):
        prepare(tmp_path, "--validation", 0, write(tmp_path / "a.jsonl", [record]), template=template)
        made.append(read(tmp_path))
    assert made[0] == made[1] == made[2]


# ---- output ---------------------------------------------------------------------------------------------------------------------


def inspect(folder, *more):
    done = subprocess.run([TRIREME, "inspect", str(folder / "out" / "train"), *more], capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else done.stderr


def test_inspect_says_pairs_and_lengths(tmp_path):
    said = prepare(tmp_path, "--validation", 0, write(tmp_path / "a.jsonl", texts(10)))
    assert "records of the form prompt-chosen-rejected\n" in said and "10 pairs of a chosen and a rejected answer" in said
    assert "data: {preferences: " in said and "records were bad" in said
    said = inspect(tmp_path)
    assert "preferences: 10 pairs of a chosen and a rejected answer\n  prompts: 11 to 11 tokens, mean 11.0\n  chosen: 9 to 9 tokens, mean 9.0\n  rejected: 4 to 22 tokens" in said
    found = json.loads(inspect(tmp_path, "--json"))["preferences"]
    assert found["kind"] == "pairs" and found["prompts"] == dict(count=10, tokens=110, shortest=11, longest=11) and found["rejected"]["count"] == 10


def test_inspect_says_labels(tmp_path):
    prepare(tmp_path, "--validation", 0, write(tmp_path / "a.jsonl", labelled(10)))
    assert "preferences: 4 desirable and 6 undesirable answers\n  prompts: 11 to 11 tokens" in inspect(tmp_path)
    assert json.loads(inspect(tmp_path, "--json"))["preferences"]["undesirable"]["count"] == 6


def test_training_on_texts_refuses_it(tmp_path):
    prepare(tmp_path, "--validation", 0, write(tmp_path / "a.jsonl", texts(10)))
    (tmp_path / "run.yaml").write_text("model: {family: llama, num_layers: 1, hidden_size: 8, num_heads: 1, ffn_size: 8, vocab_size: 257, max_sequence: 16}\n"
                                       f"data: {{train: {tmp_path}/out/train, sequence: 16}}\noptimizer: {{global_batch: 1, steps: 1, lr: 1}}\noutput: {tmp_path}/run\n")
    done = subprocess.run([TRIREME, "train", str(tmp_path / "run.yaml")], capture_output=True, text=True)
    assert done.returncode != 0 and f"{tmp_path}/out/train is a corpus of preferences; name it in data.preferences" in done.stderr
    done = subprocess.run([TRIREME, "new", "first", "--model", "gpt2-124m", "--data", f"{tmp_path}/out/train"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode != 0 and f"{tmp_path}/out/train has preferences, from which a trained model learns; --model gpt2-124m has no weights" in done.stderr


DAMAGE = {
    "no labels": ("labels", lambda b: None, "has labels, but its folder lacks the file with the suffix .labels"),
    "changed": ("labels", lambda b: bytes([1 - b[0]]) + b[1:], "does not match the file with the suffix .labels in its folder, which was changed"),
    "too few": ("labels", lambda b: b[1:], "has 19 bytes, but its corpus has 20 documents; labels must have one byte for each document"),
    "two": ("labels", lambda b: b"\2" + b[1:], "byte 0 is 2; labels are only 0 (undesirable) and 1 (desirable)"),
    "no mask": ("mask", lambda b: None, "has a mask, but its folder lacks the file with the suffix .mask"),
    "no such kind": ("corpus.json", lambda b: b.replace(b'"labels",', b'"ranks",'), '"preferences" must be "pairs" or "labels"'),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged(name, tmp_path):
    side, change, message = DAMAGE[name]
    prepare(tmp_path, "--validation", 0, write(tmp_path / "a.jsonl", labelled(20)))
    path = tmp_path / "out" / f"train.{side}"
    changed = change(path.read_bytes())
    path.unlink() if changed is None else path.write_bytes(changed)
    assert message in inspect(tmp_path)


def test_an_odd_number_of_documents_is_no_pairs(tmp_path):
    prepare(tmp_path, "--validation", 0, write(tmp_path / "a.jsonl", labelled(3)))
    path = tmp_path / "out" / "train.corpus.json"
    record = json.loads(path.read_text()) | dict(preferences="pairs")
    del record["labels"]
    path.write_text(json.dumps(record))
    (tmp_path / "out" / "train.labels").unlink()
    assert "describes a corpus of preferences, but the corpus has an odd number of documents" in inspect(tmp_path)


# ---- bad input ------------------------------------------------------------------------------------------------------------------


OK = dict(prompt="What? ", chosen="yes", rejected="no")
PAIR = dict(prompt=say("What?"), chosen=answer("yes"), rejected=answer("no"))
LABEL = dict(prompt="What? ", completion="yes", label=True)
FORMS = "preferences have `prompt` (or `instruction`, `question`, `conversations`, `messages`), and `chosen` and `rejected` or `completion` and `label`; or `chosen` and `rejected` that begin alike"
BAD = {
    "equal texts": (OK | dict(rejected="yes"), "`chosen` and `rejected` are the same answer, which is not a preference; remove the record, or give --skip-bad"),
    "equal messages": (PAIR | dict(rejected=answer("yes")), "`chosen` and `rejected` are the same answer"),
    "equal once rendered": (PAIR | dict(rejected=answer("yes ")), "`chosen` and `rejected` become the same tokens"),
    "equal conversations": (dict(chosen=say("a", "b"), rejected=say("a", "b")), "`chosen` and `rejected` are the same answer"),
    "empty": (OK | dict(rejected=""), "`rejected` is empty, so it has no answer to learn from; remove the record, or give --skip-bad"),
    "no messages": (PAIR | dict(chosen=[]), "`chosen` is empty"),
    "an empty message": (PAIR | dict(rejected=answer("")), "`rejected` is empty"),
    "an empty completion": (LABEL | dict(completion=""), "`completion` is empty"),
    "only the prompt": (dict(chosen=say("a"), rejected=say("a", "b")), "`chosen` is only the beginning of the other conversation, so it has no answer of its own; remove the record"),
    "other questions": (dict(chosen=[dict(role="system", content="s")] + say("a", "b"), rejected=[dict(role="system", content="s")] + say("c", "d")),
                        "the prompts of `chosen` and `rejected` differ: message 2 of `chosen` is of the role user; a pair has two answers to one prompt"),
    "another question than the prompt": (dict(prompt="a", chosen=say("a", "b"), rejected=say("c", "d")),
                                         "`prompt` is a string, but the conversation `rejected` does not begin with it as the user's message"),
    "the prompt twice": (PAIR | dict(chosen=say("What?", "yes")), "`chosen` begins with a message of the role user, but it must be the answer to `prompt`; remove the messages of `prompt` from it, or leave `prompt` out"),
    "nothing in common": (dict(chosen="a", rejected="b"), "`prompt` is missing, and `chosen` and `rejected` have no common beginning to use as the prompt; add `prompt`"),
    "no message in common": (dict(chosen=say("a", "b"), rejected=say("c", "d")), "`prompt` is missing, and `chosen` and `rejected` have no common beginning"),
    "a label of text": (LABEL | dict(label="true"), "`label` is a string; it must be true (a desirable answer) or false (an undesirable one), without quotes"),
    "a label of numbers": (LABEL | dict(label=1), "`label` is a number; it must be true"),
    "no rejected": (dict(prompt="a", chosen="b"), "the record has `prompt`, `chosen`; " + FORMS),
    "no label": (dict(prompt="a", completion="b"), "the record has `prompt`, `completion`; " + FORMS),
    "both": (OK | LABEL, "the record fits two forms, prompt-chosen-rejected and prompt-completion-label; remove the keys of one of them"),
    "labels behind pairs": (LABEL, "the record is one of answers with a `label`, and those before it are pairs (`chosen` and `rejected`); a corpus is of one kind: prepare the others by themselves, or give --skip-bad"),
    "the user's last": (PAIR | dict(chosen=answer("yes", "no?")), "the last message of `chosen` is of the role user; an answer must end with a message of the assistant"),
    "a flag": (PAIR | dict(chosen=[dict(role="assistant", content="yes", loss=False)] + say("and?", "yes")),
               "message 1 of `chosen` is marked as not learnt (`train`: false or a similar flag), but answers of preferences are compared as a whole"),
    "two questions": (dict(question="a", instruction="b", chosen="c", rejected="d"), "`instruction` and `question` both hold a question; remove one of them, or give `prompt`"),
    "no question": (dict(messages=say("a", "b"), chosen="c", rejected="d"), "`messages` ends with an answer, and `chosen` and `rejected` answer the last question"),
    "no question of a label": (dict(messages=say("a", "b"), completion="c", label=True), "`messages` ends with an answer, and `completion` answers the last question"),
    "a question with a label that is a word": (dict(question="a", completion="b", label="yes"), "`label` is a string; it must be true"),
    "no messages of a question": (dict(conversations="a", chosen="c", rejected="d"), "`conversations` is a string; it must be a list of messages"),
    "the same answers to a question": (dict(question="a", chosen="c", rejected="c"), "`chosen` and `rejected` are the same answer"),
    "no answer to a question": (dict(question="a", chosen="", rejected="c"), "`chosen` is empty, so it has no answer to learn from"),
    "an answer that is a number": (dict(question="a", chosen=3, rejected="c"), "`chosen` is a number; it must be a string, a message or a list of messages"),
    "text and messages": (PAIR | dict(rejected="no"), "`prompt` is an array and `rejected` is a string; prompt and answers must all be strings or all be lists of messages"),
    "a list behind text": (dict(chosen="a b", rejected=say("a", "b")), "`chosen` is a string and `rejected` is an array; they must be two strings or two lists of messages"),
    "no prompt": (PAIR | dict(prompt=[]), "`prompt` has no messages"),
    "system beside text": (OK | dict(system="s"), "`system` cannot be used if prompt and answers are plain text; write it into the prompt"),
    "a ranking of three": (dict(instruction="a", output=["b", "c", "d"]), "`output` is a ranking of 3 answers; a pair has two, so write a record for each pair that is meant"),
    "a ranking of equals": (dict(instruction="a", output=["b", "b"]), "`chosen` and `rejected` are the same answer"),
    "a label without an answer": (dict(messages=say("a"), kto_tag=True), "the record has `messages`, `label`; preferences have"),
    "OpenAI's without messages": (dict(input={}, preferred_output=answer("b"), non_preferred_output=answer("c")), "`prompt` is missing, and `chosen` and `rejected` have no common beginning"),
    "not an object": ([1], "the record is an array, not an object"),
}


SHARED = dict(chosen={"from": "gpt", "value": "yes"}, rejected={"from": "gpt", "value": "no"})
QUESTIONS = {  # LLaMA-Factory's pairs, axolotl's, and ShareGPT's: each is the pair of messages that a reader of the form would write
    "alpaca": (dict(instruction="What?", input="", chosen="yes", rejected="no"), PAIR, None),
    "alpaca with input": (dict(instruction="What?", input="This", chosen="yes", rejected="no", output="x"), PAIR | dict(prompt=say("What?\n\nThis")), "`output`"),
    "question": (dict(question="What?", chosen="yes", rejected="no", prompt=None), PAIR, None),
    "system and question": (dict(system="S", question="What?", chosen="yes", rejected="no"), PAIR | dict(system="S"), None),
    "answers of messages": (dict(question="What?", chosen=answer("yes"), rejected=answer("no")), PAIR, None),
    "whole conversations": (dict(question="What?", chosen=say("What?", "yes"), rejected=say("What?", "no")), PAIR, "`question`"),
    "conversations": (dict(conversations=[{"from": "human", "value": "What?"}], **SHARED), PAIR, None),
    "conversations of turns": (dict(conversations=[{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}, {"from": "human", "value": "c"}], system="S", **SHARED),
                               PAIR | dict(prompt=say("a", "b", "c"), system="S"), None),
    "messages": (dict(messages=say("What?"), chosen=answer("yes")[0], rejected="no", id=1), PAIR, "`id`"),
    "a message": (dict(prompt=say("What?"), chosen=answer("yes")[0], rejected=answer("no")[0]), PAIR, None),
    "OpenAI's": (dict(input=dict(messages=say("What?"), tools=[], parallel_tool_calls=True), preferred_output=answer("yes"), non_preferred_output=answer("no")), PAIR, None),
    "Argilla's": (dict(instruction="What?", chosen_response="yes", rejected_response="no"), PAIR, None),
    "a ranking of two": (dict(instruction="What?", input="This", output=["yes", "no"]), PAIR | dict(prompt=say("What?\n\nThis")), None),
}
LABEL = dict(prompt=say("What?"), completion=answer("yes"), label=True)
LABELLED = {  # the same questions with one answer and a label
    "alpaca": (dict(instruction="What?", input="This", completion="yes"), LABEL | dict(prompt=say("What?\n\nThis")), None),
    "system and question": (dict(system="S", question="What?", completion="yes"), LABEL | dict(system="S"), None),
    "conversations": (dict(conversations=[{"from": "human", "value": "What?"}], completion={"from": "gpt", "value": "yes"}), LABEL, None),
    "messages": (dict(messages=say("What?"), completion=answer("yes"), id=1), LABEL, "`id`"),
    "a conversation with its answer": (dict(messages=say("What?", "yes")), LABEL, None),
    "ShareGPT with its answer": (dict(conversations=[{"from": "human", "value": "What?"}, {"from": "gpt", "value": "yes"}], system="S"), LABEL | dict(system="S"), None),
    "alpaca with its answer": (dict(instruction="What?", input="This", output="yes"), LABEL | dict(prompt=say("What?\n\nThis")), None),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_under_another_key_is_the_prompt(name, tmp_path):
    given, wanted, unread = QUESTIONS[name]
    said = prepare(tmp_path, "--validation", 0, write(tmp_path / "a.jsonl", [given]))
    assert ("not read" in said) == (unread is not None) and (unread is None or f"; not read: {unread}\n" in said)
    found = read(tmp_path)
    prepare(tmp_path, "--validation", 0, write(tmp_path / "b.jsonl", [wanted]))
    assert found == read(tmp_path)


@pytest.mark.parametrize("tag", ["label", "kto_tag"])
@pytest.mark.parametrize("name", LABELLED)
def test_a_question_of_a_labelled_answer(name, tag, tmp_path):
    """`kto_tag` is LLaMA-Factory's name of the label."""
    given, wanted, unread = LABELLED[name]
    other = dict(prompt=say("Who?"), completion=answer("me"), label=False)
    said = prepare(tmp_path, "--validation", 0, write(tmp_path / "a.jsonl", [given | {tag: True}, dict(question="Who?", completion="me", label=False)]))
    assert ("not read" in said) == (unread is not None) and (unread is None or f"; not read: {unread}\n" in said)
    found = read(tmp_path)
    prepare(tmp_path, "--validation", 0, write(tmp_path / "b.jsonl", [wanted, other]))
    assert found == read(tmp_path)


def test_other_keys(tmp_path):
    """--map renames the keys of a record, all at once; a key that a record lacks is named."""
    given = [dict(q=f"What is {i}? ", good=f"It is {i}.", prompt="No.", id=i) for i in range(9)]
    said = prepare(tmp_path, "--map", "prompt=q,chosen=good,rejected=prompt", "--validation", 0, write(tmp_path / "a.jsonl", given))
    assert "records of the form prompt-chosen-rejected; not read: `id`\n" in said
    found = read(tmp_path)
    prepare(tmp_path, "--validation", 0, write(tmp_path / "b.jsonl", [dict(prompt=r["q"], chosen=r["good"], rejected="No.") for r in given]))
    assert found == read(tmp_path)
    chats = write(tmp_path / "c.jsonl", [dict(turns=say("a", "b"))])
    said = prepare(tmp_path, "--map", "messages=turns", "--validation", 0, chats, option="--chat")
    for words, status, message in ((["--map", "prompt=asked"], 4, "a.jsonl line 1: --map prompt=asked: the record has `q`, `good`, `prompt`, `id`, and no `asked`"),
                                   (["--map", "prompt"], 2, "--map prompt is not a list such as prompt=question,chosen=good"), (["--map", ""], 2, "--map needs a value"),
                                   (["--map", "a=b,,"], 2, "is not a list such as"), (["--map", "a=b,a=c"], 2, "--map has `a` twice"), (["--map", "=b"], 2, "is not a list such as"),
                                   (["--map", ",".join(f"k{i}=v{i}" for i in range(17))], 2, "--map has more than 16 pairs")):
        assert message in prepare(tmp_path, *words, tmp_path / "a.jsonl", status=status)
    assert "--map goes with --chat" in prepare(tmp_path, "--map", "text=body", tmp_path / "a.jsonl", status=2, option=None)


@pytest.mark.parametrize("name", BAD)
def test_refused(name, tmp_path):
    record, message = BAD[name]
    records = [OK | dict(prompt=f"What is {i}? ") for i in range(3)]
    path = write(tmp_path / "bad.jsonl", records + [record] + records)
    said = prepare(tmp_path, path, status=4)
    assert f"bad.jsonl line 4: {message}" in said and not (tmp_path / "out").exists()
    said = prepare(tmp_path, "--skip-bad", "--validation", 0, path)
    assert "1 record was bad and skipped" in said and f"the first that was skipped: {path} line 4: " in said
    assert len(read(tmp_path)[0]) == 12


@pytest.mark.parametrize("label", [True, False])
def test_labels_of_one_kind(label, tmp_path):
    said = prepare(tmp_path, write(tmp_path / "a.jsonl", [one | dict(label=label) for one in labelled(9)]), status=4)
    assert f"every `label` is {str(label).lower()} (9 in all): training on labels (KTO) needs desirable and undesirable answers, true and false" in said
    assert not (tmp_path / "out").exists()


def test_labels_of_one_kind_in_training(tmp_path):
    records = [one | dict(label=i < 8) for i, one in enumerate(labelled(9))]
    said = prepare(tmp_path, "--validation", 0.001, write(tmp_path / "a.jsonl", records), status=4)
    assert "every `label` of the records that are not kept for validation is true (8 in all): " in said and "give another --seed, or --validation 0" in said
    prepare(tmp_path, "--validation", 0, tmp_path / "a.jsonl")


TEMPLATES = {
    "another beginning": (TEMPLATE.replace("{% for", "{% if add_generation_prompt %}[ask]{% endif %}{% for", 1),
                          "renders the end of the prompt, `[ask]<user>What?</user><assistant>`, differently if an answer follows"),
    "another end": (TEMPLATE.replace("<assistant>", "<assistant><think>"), "renders the end of the prompt, `<think>`, differently if an answer follows"),
    "no answer": ("{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}", "prints no text of the answer, so there is nothing to learn from"),
    "refuses": ("{{ raise_exception('no') }}", "no"),
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_templates_that_do_not_fit(name, tmp_path):
    template, message = TEMPLATES[name]
    said = prepare(tmp_path, write(tmp_path / "a.jsonl", [OK, PAIR]), status=4, template=template)
    assert "a.jsonl line 2: " in said and message in said


def test_messages_need_a_template_and_texts_do_not(tmp_path):
    prepare(tmp_path, write(tmp_path / "a.jsonl", [OK]), "--validation", 0, "--chat-template", "none")
    said = prepare(tmp_path, write(tmp_path / "a.jsonl", [OK, PAIR]), "--chat-template", "none", status=4)
    assert "line 2: prompt and answers are messages, but the tokenizer's folder has no chat template" in said and "give a name or a file with --chat-template" in said


OPTIONS = {
    "--chat": (["--chat"], "--preferences does not go with --chat: the inputs are either preferences or conversations"),
    "--form": (["--form", "messages"], "--form goes with --chat; the form of preferences is that of each record's keys"),
    "--key": (["--key", "x"], "--key does not go with --preferences, whose records have keys of their own"),
    "--binary": (["--binary"], "--binary takes files byte by byte; it does not go with --preferences"),
    "train:": (["--tokenizer", "train:300"], "--tokenizer train:300 cannot learn from preferences"),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options_that_do_not_go_with_it(name, tmp_path):
    more, message = OPTIONS[name]
    assert message in prepare(tmp_path, write(tmp_path / "a.jsonl", [OK]), *more, status=2)


def test_plain_text_is_refused(tmp_path):
    (tmp_path / "a.txt").write_text("text\n")
    assert "a.txt is not named .jsonl, .ndjson or .json: preferences are JSON, one a line or an array of them" in prepare(tmp_path, tmp_path / "a.txt", status=2)
    (tmp_path / "a.csv").write_text("prompt,chosen\n")
    assert "a.csv is a table, and preferences are JSON" in prepare(tmp_path, tmp_path / "a.csv", status=4)


@pytest.mark.parametrize("option", ["--preference", "--dpo", "--kto"])
def test_other_names_lead_there(option, tmp_path):
    assert f"`{option}` is not an option of prepare; did you mean `--preferences`?" in prepare(tmp_path, write(tmp_path / "a.jsonl", [OK]), status=2, option=option)


def test_preferences_without_the_option_lead_there(tmp_path):
    path = write(tmp_path / "a.jsonl", [OK])
    assert "as preferences have (form prompt-chosen-rejected): did you mean --preferences?" in prepare(tmp_path, path, status=4, option=None)
    assert "`chosen` and `rejected` are preferences; give --preferences instead of --chat" in prepare(tmp_path, path, status=7, option="--chat")

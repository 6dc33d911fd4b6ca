"""Compares `eval --choices` with the results of lm-evaluation-harness for the same questions and models (choice_cases.json), and tests it on a
run's checkpoints."""
import json
import math
import os
import random
import shutil
import subprocess
import xml.etree.ElementTree

import jinja2
import numpy
import pytest
from choice_models import CONFIGS, questions, write_lines, write_model

TRIREME = os.environ["TRIREME"]
HERE = os.path.dirname(os.path.abspath(__file__))

with open(os.path.join(HERE, "choice_cases.json"), encoding="utf-8") as cases:
    STORED = json.load(cases)
MEASURES = ("acc", "acc_norm", "acc_bytes")


def trireme(*arguments, **more):
    return subprocess.run([TRIREME, *map(str, arguments)], capture_output=True, text=True, **more)


def judged(*arguments):
    done = trireme("eval", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


@pytest.fixture(scope="module", params=sorted(CONFIGS))
def model(request, tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("models") / request.param, request.param, STORED["tokenizers"][request.param])


def compare(found, wanted):
    for measure in MEASURES:
        assert found[measure] == pytest.approx(wanted[measure], abs=1e-12), measure
        if len(wanted["results"]) > 1:
            assert found[f"{measure}_stderr"] == pytest.approx(wanted[f"{measure}_stderr"], abs=1e-12), measure
    for one, other in zip(found["results"], wanted["results"], strict=True):
        assert one["log_likelihoods"] == pytest.approx(other["log_likelihoods"], rel=1e-5), one
        assert [one[m] for m in MEASURES] == [other[m] == 1 for m in MEASURES], (one, other)
        right = one["log_likelihoods"][one["answer"]]
        assert one["probability"] == pytest.approx(1 / sum(math.exp(v - right) for v in one["log_likelihoods"]))


def test_as_the_harness(model, tmp_path):
    path = write_lines(tmp_path / "questions.jsonl", questions())
    found, said = judged(model, "--choices", path)
    compare(found, STORED["cases"][model.name]["questions"])
    assert found["shortened"] > 0 and "its beginning is left out" in said


@pytest.mark.parametrize("form", sorted(STORED["forms"]))
def test_forms(model, tmp_path, form):
    path = write_lines(tmp_path / "rows.jsonl", STORED["forms"][form])
    found, _ = judged(model, "--choices", path)
    compare(found, STORED["cases"][model.name][form])


def test_one_batch_or_many(model, tmp_path):
    """How texts are packed changes nothing but rounding."""
    path = write_lines(tmp_path / "questions.jsonl", questions(60))
    found = [judged(model, "--choices", path, "--batch", batch)[0]["results"] for batch in (1, 3, 40)]
    for other in found[1:]:
        assert [q["log_likelihoods"] for q in other] == [pytest.approx(q["log_likelihoods"], rel=1e-5) for q in found[0]]


def test_precisions(model, tmp_path):
    path = write_lines(tmp_path / "questions.jsonl", questions(40))
    exact = judged(model, "--choices", path, "--precision", "fp64", "--device", "reference")[0]["results"]
    for precision, tolerance in (("fp32", 1e-5), ("bf16", 0.05)):
        found = judged(model, "--choices", path, "--precision", precision)[0]["results"]
        for one, other in zip(found, exact, strict=True):
            assert one["log_likelihoods"] == pytest.approx(other["log_likelihoods"], rel=tolerance)


def test_words(model, tmp_path):
    """Letters, numbers as text, a choice's own text, and true and false, are names of choices, too."""
    rows = [dict(question="The sea", choices=["is cold", "sings"], answer=answer) for answer in (1, "1", "B", "b", "sings", True)]
    rows += [dict(query="The sea", choices=["is cold", "sings"], gold=1), dict(context="The sea", endings=["is cold", "sings"], label="1")]
    rows += [dict(dict.fromkeys(("goal", "sol1", "sol2", "passage", "ctx", "options")), question="The sea", choices=["is cold", "sings"], answer=1)]  # null is absent
    found, _ = judged(model, "--choices", write_lines(tmp_path / "rows.jsonl", rows))
    assert [q["answer"] for q in found["results"]] == [1] * len(rows)
    assert all(q["log_likelihoods"] == pytest.approx(found["results"][0]["log_likelihoods"], rel=1e-6) for q in found["results"])
    said = trireme("eval", model, "--choices", tmp_path / "rows.jsonl").stdout
    assert said.startswith("questions       9\n") and [line.split()[0] for line in said.splitlines()[1:]] == [*MEASURES, "probability"]


GOOD = dict(question="a", choices=["b", "c"], answer=0)


def without(key):
    return {k: v for k, v in GOOD.items() if k != key}


@pytest.mark.parametrize("line, words", [
    (without("answer"), "the right choice is missing; give its number from 0 as `answer`"),
    (dict(GOOD, answer=None), "the right choice is missing"),
    (dict(GOOD, answer=2), "`answer` 2 is not one of the 2 choices, which are numbered from 0 to 1"),
    (dict(GOOD, answer=-1), "`answer` -1 is not one of the 2 choices"),
    (dict(GOOD, answer="C"), "`answer` 2 is not one of the 2 choices"),
    (dict(GOOD, answer="neither"), "is not a choice's text, letter or number"),
    (dict(GOOD, answer=0.5), "`answer` is a number: write the number of the right choice"),
    (dict(GOOD, choices=["1", "2"], answer="1"), "is the text of choice 0 and the name of choice 1"),
    (dict(GOOD, choices=["b"]), "`choices` is an array of length 1; a question needs at least two"),
    (dict(GOOD, choices=[]), "`choices` is an array of length 0"),
    (dict(GOOD, choices=["b", ""]), "choice 1 of `choices` is empty"),
    (dict(GOOD, choices=["b", 3]), "choice 1 of `choices` is a number, not a string"),
    (dict(GOOD, choices="bc"), "`choices` is a string, not an array"),
    (without("choices"), "`choices` is missing"),
    (without("question"), "the question is missing; give `question`"),
    (dict(GOOD, question=1), "`question` is a number, not a string"),
    (dict(question="a", choices=dict(text=["b", "c"], label=["A", "B"]), answerKey="D"), "`answerKey` \"D\" is not one of `choices.label`"),
    (dict(question="a", choices=dict(text=["b", "c"], label=["A", "A"]), answerKey="A"), "`answerKey` \"A\" is the label of choices 0 and 1"),
    (dict(question="a", choices=dict(text=["b", "c"], label=["A"]), answerKey="A"), "`choices.label` has 1 labels for 2 texts"),
    (dict(GOOD, context="a text that the question is about"), "`context` and `question` are both there, and one alone is read"),
    (dict(GOOD, article="a text that the question is about"), "`article` is not read together with `question`; write both into one"),
    (dict(GOOD, answer=0, label=1), "`answer` means choice 0 and `label` choice 1: keep one of them"),
    (dict(GOOD, options=["c", "b"]), "`choices` and `options` are both there"),
    (dict(goal="a", sol1="b", sol2=""), "choice 1 of `sol2` is empty"),
    (dict(GOOD, choices=["b " * 100, "c"]), "shorten it, or leave the question out"),
    ([GOOD], "the line is an array, not an object"),
    (b'{"question": "a\xff", "choices": ["b", "c"], "answer": 0}', "convert it, if it is in Latin-1: iconv"),
    (b'{"question": "a", "choices": ["b", "c"], "answer": 0', "is not valid JSON"),
    (b'{"question": "a", "question": "b", "choices": ["b", "c"], "answer": 0}', "duplicate object key"),
])
def test_bad_lines(model, tmp_path, line, words):
    path = tmp_path / "bad.jsonl"
    text = line if isinstance(line, bytes) else json.dumps(line).encode()
    path.write_bytes(json.dumps(GOOD).encode() + b"\n\n" + text + b"\n")
    done = trireme("eval", model, "--choices", path)
    assert done.returncode == 4 and f"{path} line 3" in done.stderr and words in done.stderr, done.stderr


@pytest.mark.parametrize("more, status, words", [
    (["--all-checkpoints"], 4, "has no checkpoints: --all-checkpoints is for a run's output"),
    (["--svg", "x.svg"], 2, "it goes with --all-checkpoints"),
    (["corpus", "--all-checkpoints"], 2, "and nothing else"),
    (["--num_fewshot", "3"], 2, "write them into it"),
    (["--bigram", "corpus"], 2, "are for a corpus"),
])
def test_bad_usage(model, tmp_path, more, status, words):
    path = write_lines(tmp_path / "rows.jsonl", [GOOD])
    done = trireme("eval", model, "--choices", path, *more)
    assert done.returncode == status and words in done.stderr, done.stderr
    (tmp_path / "empty.jsonl").write_text("\n")
    done = trireme("eval", model, "--choices", tmp_path / "empty.jsonl")
    assert done.returncode == 4 and "has no question" in done.stderr


# ---- all checkpoints ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run that learns which word follows which, in eight checkpoints."""
    folder = tmp_path_factory.mktemp("run")
    draw = random.Random(4)
    words = ["".join(draw.choice("abcdefgh") for _ in range(4)) for _ in range(12)]
    follows = dict(zip(words, words[1:] + words[:1]))
    text, word = [], words[0]
    for _ in range(3000):
        text.append(word)
        word = follows[word] if draw.random() < 0.9 else draw.choice(words)
    (folder / "text.txt").write_text(" ".join(text))
    assert trireme("prepare", "--tokenizer", "bytes", "--out", folder / "data", folder / "text.txt").returncode == 0
    config = dict(model=dict(family="gpt2", num_layers=2, hidden_size=64, num_heads=2, vocab_size=257, max_sequence=64),
                  data=dict(train=str(folder / "data/train"), sequence=64), layout=dict(micro_batch=8), threads=1,
                  optimizer=dict(global_batch=8, steps=400, lr=4e-3, warmup=20), checkpoint=dict(every=50, keep=0), output=str(folder / "run"))
    (folder / "run.yaml").write_text(json.dumps(config))
    assert trireme("train", folder / "run.yaml").returncode == 0
    rows = []
    for i in range(60):
        asked = draw.choice(words)
        wrong = draw.sample([w for w in words if w != follows[asked]], 2)
        rows.append(dict(question=asked, choices=[follows[asked], *wrong], answer=0))
        draw.shuffle(rows[-1]["choices"])
        rows[-1]["answer"] = rows[-1]["choices"].index(follows[asked])
    write_lines(folder / "rows.jsonl", rows)
    return folder


def ranks(values):
    return [sum(v < w for v in values) + (sum(v == w for v in values) + 1) / 2 for w in values]


def spearman(a, b):
    return numpy.corrcoef(ranks(a), ranks(b))[0, 1]


def test_all_checkpoints(run):
    found, _ = judged(run / "run", "--choices", run / "rows.jsonl", "--all-checkpoints", "--svg", run / "quality.svg")
    points = found["checkpoints"]
    assert [p["step"] for p in points] == list(range(50, 450, 50)) and found["last"] == 5
    alone = [judged(run / f"run/checkpoints/step-{p['step']:08d}", "--choices", run / "rows.jsonl")[0] for p in points]
    end = [q["probability"] for q in alone[-1]["results"]]
    for p, one in zip(points, alone):
        for name in (*MEASURES, "probability"):
            assert (p[name], p[f"{name}_stderr"]) == (one[name], one[f"{name}_stderr"])
        assert p["rank_correlation_with_end"] == pytest.approx(spearman([q["probability"] for q in one["results"]], end), abs=1e-12)
    assert points[0]["acc"] < 0.7 < 0.9 < points[-1]["acc"]  # else this tests nothing
    for name in (*MEASURES, "probability"):
        values = [p[name] for p in points]
        assert found["noise"][name] == pytest.approx(numpy.std(values[-5:], ddof=1), abs=1e-12)
        assert found["rank_correlation_with_step"][name] == pytest.approx(spearman(values, range(8)), abs=1e-12)
    drawn = xml.etree.ElementTree.parse(run / "quality.svg").getroot()
    circles = [e for e in drawn.iter("{http://www.w3.org/2000/svg}circle")]
    assert len(circles) == 4 * len(points)
    words = trireme("eval", run / "run", "--choices", run / "rows.jsonl", "--all-checkpoints").stdout.splitlines()
    assert [line.split()[0] for line in words[1:9]] == [str(p["step"]) for p in points] and len(words) == 12


def test_a_damaged_one_is_passed_over(run, tmp_path):
    shutil.copytree(run / "run", tmp_path / "run")
    weights = tmp_path / "run/checkpoints/step-00000200/model.safetensors"
    spoiled = bytearray(weights.read_bytes())
    spoiled[-9] ^= 1
    weights.write_bytes(spoiled)
    found, said = judged(tmp_path / "run", "--choices", run / "rows.jsonl", "--all-checkpoints")
    assert [p["step"] for p in found["checkpoints"]] == [50, 100, 150, 250, 300, 350, 400] and "passing over the checkpoint" in said


def test_one_checkpoint_and_one_question(run, tmp_path):
    """There is no noise, and no standard error, of one."""
    shutil.copytree(run / "run/checkpoints/step-00000200", tmp_path / "run/checkpoints/step-00000200")
    path = write_lines(tmp_path / "rows.jsonl", [GOOD])
    found, _ = judged(tmp_path / "run", "--choices", path, "--all-checkpoints", "--svg", tmp_path / "one.svg")
    assert found["noise"]["acc"] is None and found["checkpoints"][0]["acc_stderr"] is None
    assert found["checkpoints"][0]["rank_correlation_with_end"] is None
    xml.etree.ElementTree.parse(tmp_path / "one.svg")


# ---- answers --------------------------------------------------------------------------------------------------------


def test_answers_as_the_harness(model, tmp_path):
    case = STORED["cases"][model.name]["answers"]
    path = write_lines(tmp_path / "rows.jsonl", case["rows"])
    stops = [word for text in STORED["until"] for word in ("--until", text)]
    matches = set()
    for run in case["runs"]:
        words = ["--" + name.replace("_", "-") for name in run["rule"]]
        found, _ = judged(model, "--answers", path, "--tokens", STORED["tokens"], *stops, *words)
        assert [r["text"] for r in found["results"]] == [r["text"] for r in run["results"]]
        assert [r["exact_match"] for r in found["results"]] == [r["exact_match"] == 1 for r in run["results"]]
        assert found["exact_match"] == pytest.approx(run["exact_match"]) and found["exact_match_stderr"] == pytest.approx(run["exact_match_stderr"])
        matches.add(round(found["exact_match"], 6))
    assert len(case["rows"]) >= 10 and len(matches) >= 3  # else this tests nothing


def test_several_answers_and_spaces(run, tmp_path):
    """Any of several is right; spaces around one count unless --strip says otherwise."""
    rows = [json.loads(line) for line in open(run / "rows.jsonl")][:8]
    rows = [dict(prompt=row["question"], answers=["no", row["choices"][row["answer"]]]) for row in rows]
    path = write_lines(tmp_path / "rows.jsonl", rows)
    words = ["--tokens", 5, "--until", "  "]
    found, _ = judged(run / "run", "--answers", path, *words)
    assert found["exact_match"] == 0 and all(r["text"].startswith(" ") for r in found["results"])
    found, _ = judged(run / "run", "--answers", path, *words, "--strip")
    assert found["exact_match"] == 1
    said = trireme("eval", run / "run", "--answers", path, *words, "--strip").stdout
    assert said == "questions       8\nexact_match     1.0000 +- 0.0000\n"


@pytest.mark.parametrize("line, words", [
    (dict(answer="a"), "`prompt` is missing"), (dict(prompt=1, answer="a"), "`prompt` is a number, not a string"),
    (dict(prompt="a"), "the right answer is missing; give `answer`"), (dict(prompt="a", answer=""), "`answer` has an empty text"),
    (dict(prompt="a", context="b", answer="c"), "`prompt` and `context` are both there"), (dict(prompt="a", answer="b", target="c"), "`answer` and `target` are both there"),
    (dict(question="a", passage="b", answer="c"), "`passage` is not read together with `question`; write both into one"),
    (dict(prompt="a", answer=[]), "`answer` is empty"), (dict(prompt="a", answers=["a", 2]), "`answers` is a number; write a text"),
])
def test_bad_answers(model, tmp_path, line, words):
    path = write_lines(tmp_path / "bad.jsonl", [dict(prompt="a", answer="b"), line])
    done = trireme("eval", model, "--answers", path)
    assert done.returncode == 4 and f"{path} line 2" in done.stderr and words in done.stderr, done.stderr


@pytest.mark.parametrize("more, words", [
    (["--choices", "x"], "one at a time"), (["--samples", 3, "--temperature", 0], "are all the same answer"), (["--until", ""], "--until is empty"),
    (["--tokens", 5000], "leaves nothing of the model's"), (["--svg", "x"], "go with --choices"), (["corpus"], "and nothing else"),
])
def test_bad_usage_of_answers(model, tmp_path, more, words):
    path = write_lines(tmp_path / "rows.jsonl", [dict(prompt="a", answer="b")])
    done = trireme("eval", model, "--answers", path, *more)
    assert done.returncode == 2 and words in done.stderr, done.stderr


def test_several_answers(model, tmp_path):
    """Counted by hand: the mean of the right ones (avg@k), and the questions with any (pass@k). The batch and the cache change none."""
    rows = [dict(prompt=prompt, answer=["e", "a", "t", "o", " "]) for prompt in ("a", "the q", "some", "b c d", "e")]
    path = write_lines(tmp_path / "rows.jsonl", rows)
    words = ("eval", model, "--answers", path, "--tokens", 1, "--samples", 40, "--seed", 3, "--json")
    got = json.loads(trireme(*words).stdout)
    right = [sum(text in row["answer"] for text in result["texts"]) for row, result in zip(rows, got["results"])]
    assert [result["right"] for result in got["results"]] == right and got["samples"] == 40
    assert got["avg_at_k"] == got["exact_match"] == pytest.approx(sum(right) / 200)
    assert got["pass_at_k"] == pytest.approx(sum(some > 0 for some in right) / 5)
    for more in (["--batch", 1], ["--batch", 64, "--threads", 3]):
        assert json.loads(trireme(*words, *more).stdout) == got
    said = trireme(*words[:-1]).stdout
    assert f"avg@40          {sum(right) / 200:.4f}" in said and "pass@40" in said
    one = json.loads(trireme("eval", model, "--answers", path, "--tokens", 1, "--json").stdout)
    assert "samples" not in one and [result["text"] for result in one["results"]]


def test_long_prompts(model, tmp_path):
    """The beginnings of long prompts are left out: the generated text depends on their ends alone."""
    end = "the ship sails over a cold sea while birds watch small boats near stone walls and old men sing of storms that never came to rest "
    rows = [dict(prompt="Über " * 40 + end * 3, answer="b"), dict(prompt="old men " * 50 + end * 3, answer="b")]
    found = trireme("eval", model, "--answers", write_lines(tmp_path / "rows.jsonl", rows), "--json", "--tokens", 20)
    assert found.returncode == 0 and "its beginning is left out; so it is with 2 of 2 prompts" in found.stderr
    texts = [r["text"] for r in json.loads(found.stdout)["results"]]
    assert texts[0] == texts[1]


def test_an_array(model, tmp_path):
    rows = [GOOD, dict(GOOD, question="old men")]
    (tmp_path / "rows.json").write_text(json.dumps(rows, indent=1))
    found, _ = judged(model, "--choices", tmp_path / "rows.json")
    wanted, _ = judged(model, "--choices", write_lines(tmp_path / "rows.jsonl", rows))
    assert [q["log_likelihoods"] for q in found["results"]] == [q["log_likelihoods"] for q in wanted["results"]]
    (tmp_path / "rows.csv").write_text("question,choices\n")
    done = trireme("eval", model, "--choices", tmp_path / "rows.csv")
    assert done.returncode == 4 and "rows.csv is a table, and questions are JSON: " in done.stderr and "read_csv" in done.stderr
    done = trireme("eval", model, tmp_path / "rows.jsonl")
    assert done.returncode == 2 and f"did you mean --choices {tmp_path}/rows.jsonl or --answers" in done.stderr


def test_several_models(model, tmp_path):
    """A row for each."""
    other = write_model(tmp_path / "other", model.name, STORED["tokenizers"][model.name], seed=5)
    path = write_lines(tmp_path / "rows.jsonl", questions(20))
    alone = [judged(one, "--choices", path)[0] for one in (model, other)]
    found = json.loads(trireme("eval", model, other, "--choices", path, "--json").stdout)["models"]
    for row, one, folder in zip(found, alone, (model, other), strict=True):
        assert row == dict(model=str(folder), **{key: one[key] for key in row if key != "model"}) and "acc_norm" in row
    printed = trireme("eval", model, other, "--choices", path).stdout.splitlines()
    assert printed[0].split() == [*MEASURES, "probability", "of", "20", "questions"]
    assert printed[2].split() == [*(f"{alone[1][key]:.4f}" for key in (*MEASURES, "probability")), str(other)]


# ---- the chat template ----------------------------------------------------------------------------------------------

TEMPLATE = """{{ bos_token }}
{%- for message in messages %}
{{ message['role'] }}: {{ message['content'] | trim }}<|endoftext|>
{% endfor %}
{%- if add_generation_prompt %}
assistant: {% endif %}"""


def rendered(model, *messages):
    """As transformers' apply_chat_template(add_generation_prompt=True) renders it."""
    config = json.loads((model / "tokenizer_config.json").read_text())
    template = jinja2.Environment(trim_blocks=True, lstrip_blocks=True).from_string(TEMPLATE)
    return template.render(messages=[dict(role=role, content=text) for role, text in messages], add_generation_prompt=True, bos_token=config["bos_token"])


@pytest.fixture(scope="module")
def chat(model):
    folder = model.parent / f"{model.name}-chat"
    shutil.copytree(model, folder)
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return folder


def shown_prompt(said):
    """The prompt of the line that shows it."""
    line = next(line for line in said.splitlines() if "the first prompt" in line)
    return json.loads(line[line.index(": \"") + 2:])


def test_chat_template(chat, tmp_path):
    """The model reads the tokens of apply_chat_template, with one token at the beginning, followed directly by the choice."""
    rows = [dict(question="where do birds sing?", choices=["over a cold sea", "near stone walls", "nothing"], answer=1), dict(question="old men", choices=["sail", "sing"], answer=0)]
    path = write_lines(tmp_path / "rows.jsonl", rows)
    for words, system in ([], []), (["--system", "small boats"], [("system", "small boats")]):
        texts = [rendered(chat, *system, ("user", row["question"])) for row in rows]
        # A choice follows a context behind a space, and the generation prompt ends in one.
        by_hand = write_lines(tmp_path / "by-hand.jsonl", [dict(row, question=text.removesuffix(" ")) for row, text in zip(rows, texts)])
        found, said = judged(chat, "--choices", path, "--chat", *words)
        wanted, unused = judged(chat, "--choices", by_hand)
        for one, other in zip(found["results"], wanted["results"], strict=True):
            assert one["tokens"] == other["tokens"] and one["log_likelihoods"] == pytest.approx(other["log_likelihoods"], rel=1e-6)
        assert shown_prompt(said) == texts[0] and "form: plain; the first prompt: " in said and "not applied" not in said
        assert f"{chat} has a chat template, which is not applied; --chat applies it" in unused


def test_answers_through_the_chat_template(chat, tmp_path):
    path = write_lines(tmp_path / "rows.jsonl", [dict(question="where do birds sing?", answer="x"), dict(question="old men", answer="y")])
    by_hand = write_lines(tmp_path / "by-hand.jsonl", [dict(prompt=rendered(chat, ("system", "boats"), ("user", text)), answer="x") for text in ("where do birds sing?", "old men")])
    words = ["--tokens", 8, "--until", "<none>"]
    found, said = judged(chat, "--answers", path, "--chat", "--system", "boats", *words)
    wanted, unused = judged(chat, "--answers", by_hand, *words)
    assert [q["text"] for q in found["results"]] == [q["text"] for q in wanted["results"]]
    assert shown_prompt(said) == shown_prompt(unused) == rendered(chat, ("system", "boats"), ("user", "where do birds sing?"))
    assert "a chat template, which is not applied; --chat applies it" in unused


def test_mmlu(model, chat, tmp_path):
    """The prompt of lm-evaluation-harness's mmlu tasks; with --chat its description is the system message."""
    row = dict(question=" What sings? ", subject="high_school_birds", choices=["walls", "men", "boats", "the sea"], answer=1)
    description = "The following are multiple choice questions (with answers) about high school birds.\n\n"
    prompt = "What sings?\nA. walls\nB. men\nC. boats\nD. the sea\nAnswer:"
    found, said = judged(model, "--choices", write_lines(tmp_path / "rows.jsonl", [row]))
    by_hand = dict(question=description + prompt, choices=["A", "B", "C", "D"], answer="B")
    wanted, _ = judged(model, "--choices", write_lines(tmp_path / "by-hand.jsonl", [by_hand]))
    assert found["results"] == wanted["results"] and found["results"][0]["answer"] == 1
    assert "form: mmlu; the first prompt: " in said and shown_prompt(said) == description + prompt
    said = judged(chat, "--choices", tmp_path / "rows.jsonl", "--chat")[1]
    assert shown_prompt(said) == rendered(chat, ("system", description), ("user", prompt))


def test_chat_refusals(model, tmp_path):
    path = write_lines(tmp_path / "rows.jsonl", [GOOD])
    for words, status, part in ((["--chat"], 4, "has no chat template, neither "), (["--system", "x"], 2, "it goes with --chat")):
        done = trireme("eval", model, "--choices", path, *words)
        assert done.returncode == status and part in done.stderr, done.stderr
    done = trireme("eval", model, "corpus", "--chat")
    assert done.returncode == 2 and "--chat and --system go with --choices FILE or --answers FILE" in done.stderr

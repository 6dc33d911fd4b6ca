"""Mistakes in run files of reinforcement learning, in files of prompts, templates and tokenizers: each has a status, and one message with the file, the line and what to do."""
import json
import os
import re
import shutil
import socket
import subprocess
import sys

import pytest
import reinforcement_runs as runs
from drawn import drawn
from optimizer_runs import ranks_words
from parity import trireme, words_of
from test_bad_input import check

BAD_KEYS, BAD_FILE, UNSUPPORTED, DIVERGED = 3, 4, 7, 8


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return runs.write_all(tmp_path_factory.mktemp("made"))


def refused(folder, made, status, texts, words=(), **changes):
    check(trireme("train", runs.write_run(folder, made, **changes), *words, status=status), *texts)


# ---- keys ------------------------------------------------------------------------------------------------------------

def rollout(**keys):
    return dict(rollout=keys)


def grpo(**keys):
    return dict(objective=dict(name="grpo", **keys))


KEYS = {
    "one completion of a prompt": (rollout(num_generations=1), "`rollout.num_generations` is 1, and grpo compares the completions of a prompt with each other; use at least 2, such as 8 (line 1 of "),
    "no slots": (rollout(slots=0), "`slots` under `rollout:` at line 1 of ", "must be between 1 and 16777216, not 0"),
    "no tokens": (rollout(max_completion_length=0), "`max_completion_length` under `rollout:` at line 1 of ", "must be between 1 and"),
    "temperature 0": (rollout(temperature=0), "`temperature` under `rollout:` at line 1 of ", "must be above 0 and at most 1000000, not 0"),
    "top_p": (rollout(top_p=0.9), "`top_p` is not a key of `rollout:` at line 1 of "),
    "top_k": (rollout(top_k=5), "`top_k` is not a key of `rollout:` at line 1 of "),
    "no rollout": (dict(rollout=None), "`rollout.prompts` is missing, and objective.name is grpo; for example `rollout: {prompts: 32, num_generations: 8, max_completion_length: 512}`"),
    "a filter that nothing passes": (rollout(filter=dict(low=0.5, high=0.5)), "`rollout.filter.low` 0.5 is not below high 0.5, so that every group is left out"),
    "an empty stop string": (rollout(stop=[""]), "`stop` under `rollout:` at line 1 of ", "must not be empty"),
    "9 stop strings": (rollout(stop=list("abcdefghi")), "`stop` under `rollout:` at line 1 of ", "has more than 8 entries"),
    "a cache below a page": (rollout(cache=5000), "`rollout.cache` 5000 is too small for a page of 64 positions, which takes 16384 bytes"),
    "replicas of 2 on one rank": (rollout(tensor=2), "`rollout.tensor` 2 does not divide the 1 rank of this job into replicas"),
    "data.train": (dict(data=dict(train="x")), "`data.train` does not go with objective.name grpo, which learns from data.prompts; leave it out"),
    "data.validation": (dict(data=dict(validation="x")), "`data.validation` does not go with objective.name grpo, which learns from data.prompts; leave it out"),
    "no data.prompts": (dict(data=dict(prompts="")), "`data.prompts` is missing, and objective.name is grpo; name a file of JSON lines {\"prompt\": \"...\", \"answer\": \"...\"}"),
    "another objective": (dict(objective=dict(name="cross_entropy"), optimizer=dict(global_batch=2), data=dict(train="x")), "`reward` is for reinforcement learning; set objective.name to grpo, or leave it out"),
    "global_batch": (dict(optimizer=dict(global_batch=3)), "`optimizer.global_batch` at line 1 of ", " does not go with objective.name grpo, whose batch is rollout.prompts x rollout.num_generations completions; leave it out"),
    "too many completions": (dict(rollout=dict(num_generations=16777216)), "`rollout.prompts` 6 with 16777216 completions each are more than 1048576 completions in a batch; use fewer"),
    "mini_batches": (grpo(mini_batches=4), "`objective.mini_batches` 4 does not divide rollout.prompts 6 into whole groups"),
    "beta without init": (dict(grpo(beta=0.1), init="", model=dict(family="llama", num_layers=1, hidden_size=8, num_heads=1, num_kv_heads=1, ffn_size=8, vocab_size=23, max_sequence=64)), "`objective.beta` 0.1 needs a reference, which is the model that the run begins with, and a run without `init` begins with random weights; name a model in `init`, or set beta to 0"),
    "cispo without epsilon_high": (grpo(loss_type="cispo"), "`objective.epsilon_high` must be above 1 with loss_type cispo, because it is the largest ratio; try 5.0"),
    "delta 1": (grpo(delta=1), "`delta` under `objective:` at line 1 of ", "must be above 1, not 1"),
    "importance of nothing": (grpo(importance_sampling=dict(min=6, max=5)), "`objective.importance_sampling.min` 6 is above max 5"),
    "an unknown recipe": (grpo(recipe="ppo"), "`objective.recipe` at line 1 of ", "is not a recipe: write rloo, dr_grpo, gspo, dapo, reinforce_pp or icepop"),
    "dropout of an adapter": (dict(adapter=dict(rank=2, alpha=4, dropout=0.1)), "`adapter.dropout` is 0.1: with dropout the probabilities of training are not those of sampling; set it to 0"),
    "no reward": (dict(reward=[]), "`reward` is missing, and objective.name grpo learns from rewards; add `reward: number` for answers that are numbers, or `reward: exact`"),
    "an unknown reward": (dict(reward="numbr"), "`reward` number 1: reward numbr: not a kind of reward; did you mean `number`? The kinds are exact, number,"),
    "a reward twice": (dict(reward=["exact", dict(name="exact", weight=2)]), "`reward` has exact twice, and its metrics would have one name; give each a `label`"),
    "a key of another reward": (dict(reward=["exact", dict(name="number", pattern="a")]), "`reward` number 2: reward number: pattern is not a key of this kind; leave it out: the keys are weight"),
    "a pattern without its end": (dict(reward=[dict(name="regex", pattern="(a")]), "`reward` number 1: reward regex: pattern is not a regular expression: missing closing parenthesis at byte 2; correct it"),
    "no pattern": (dict(reward="regex"), "`reward` number 1: reward regex: pattern is missing; write a regular expression"),
    "a reward without a name": (dict(reward=[dict(weight=1)]), "`reward` number 1: it has neither a name nor a command"),
    "17 rewards": (dict(reward=["exact"] * 17), "`reward` at line 1 of ", "has more than 16 entries"),
}


@pytest.mark.parametrize("name", drawn(KEYS, 3, "keys of reinforcement learning"))
def test_keys(tmp_path, made, name):
    changes, *texts = KEYS[name]
    refused(tmp_path, made, UNSUPPORTED if name == "beta without an adapter" else BAD_KEYS, texts, **changes)
    assert not (tmp_path / "run/metrics.jsonl").exists()


def test_epochs(tmp_path, made):
    run = runs.run_of(tmp_path, made)
    run["optimizer"] = dict(epochs=2, lr=1e-3)
    (tmp_path / "run.yaml").write_text(json.dumps(run))
    check(trireme("train", tmp_path / "run.yaml", status=BAD_KEYS), "`optimizer.epochs` does not go with objective.name grpo, which learns from data.prompts; give optimizer.steps")


BY_REWARD = {"checkpoint.best": dict(checkpoint=dict(best=True)), "evaluation.stop_after": dict(evaluation=dict(every=1, stop_after=2))}


@pytest.mark.parametrize("key", BY_REWARD)
def test_keys_that_go_by_rewards(tmp_path, made, key):
    """They name the key of held-out prompts, not that of a corpus."""
    refused(tmp_path, made, BAD_KEYS, [f"`{key}` needs rewards of held-out prompts: name a file in data.validation_prompts"], **BY_REWARD[key])
    refused(tmp_path, made, BAD_KEYS, [f"`{key}` needs rewards of held-out prompts, and evaluation.every is 0"], data=dict(validation_prompts=str(made / "held-out.jsonl")),
            **{**BY_REWARD[key], "evaluation": dict(BY_REWARD[key].get("evaluation", {}), every=0)})


OF_OTHER_PROGRAMS = {**dict.fromkeys(["top_k", "top_p", "min_p", "repetition_penalty"], "completions that are trained on are drawn from the whole distribution at rollout.temperature; "),
                     **dict.fromkeys(["ranks", "max_staleness"], "all ranks sample and train in turn, "), "n": "completions of a prompt are rollout.num_generations", "gpu_memory_utilization": "memory of completions is rollout.slots and rollout.cache"}


@pytest.mark.parametrize("key", OF_OTHER_PROGRAMS)
def test_keys_of_other_programs(tmp_path, made, key):
    refused(tmp_path, made, BAD_KEYS, [f"`{key}` is not a key of `rollout:` at line 1 of ", "; " + OF_OTHER_PROGRAMS[key]], rollout={key: 1})
    refused(tmp_path, made, BAD_KEYS, [f"`{key}` is not a key of `rollout:`", "; " + OF_OTHER_PROGRAMS[key]], ["--set", f"rollout.{key}=1"])


@pytest.mark.parametrize("words", [(), ("--dry-run",)], ids=["run", "dry run"])
def test_replicas_of_more_ranks_than_heads(tmp_path, made, words):
    refused(tmp_path, made, BAD_KEYS, ["rollout.tensor 4 does not divide the model's 2 heads; 2 would"], (*ranks_words(4), *words), rollout=dict(tensor=4))


def test_replicas_that_do_not_divide_the_ranks(tmp_path, made):
    refused(tmp_path, made, BAD_KEYS, ["`rollout.tensor` 2 does not divide the 3 ranks of this job into replicas"], ranks_words(3), rollout=dict(tensor=2))


def test_dropout(tmp_path, made):
    model = dict(family="gpt2", num_layers=1, hidden_size=16, num_heads=2, ffn_size=24, vocab_size=23, max_sequence=64, dropout=0.1)
    run = runs.run_of(tmp_path, made, data=dict(tokenizer=str(made / "model")), model=model)
    del run["init"]
    (tmp_path / "run.yaml").write_text(json.dumps(run))
    check(trireme("train", tmp_path / "run.yaml", status=BAD_KEYS), "`model.dropout` is 0.1: with dropout the probabilities of training are not those of sampling; set it to 0")


# ---- prompts ---------------------------------------------------------------------------------------------------------

ASKED = """import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    print(json.dumps({"id": asked["id"], "reward": float(asked["completion"] == asked["answer"])}), flush=True)
"""


def line(**keys):
    return json.dumps(dict(dict(answer="a"), **keys))


LINES = {
    "not JSON": ("{no", "it is not JSON: "),
    "not UTF-8": (b'{"prompt": "a\xff", "answer": "a"}', "it is not JSON: unable to decode byte 0xff"),
    "an array": ("[1]", "it is an array, not an object"),
    "no prompt": (line(), "`prompt` is missing; write a string, or a list of messages {\"role\", \"content\"}"),
    "null": (line(prompt=None), "`prompt` is null; write a string, or a list of messages"),
    "a number": (line(prompt=3), "`prompt` is a number; write a string, or a list of messages"),
    "an answer of answers": (line(prompt="a", answer=["a"]), "`answer` is an array; write a string or a number"),
    "a boolean": (line(prompt="a", answer=True), "`answer` is a boolean; write a string or a number"),
    "no answer": (json.dumps(dict(prompt="a")), "`answer` is missing, and the reward exact compares with it"),
    "null as an answer": (line(prompt="a", answer=None), "`answer` is missing, and the reward exact compares with it"),
    "an empty answer": (line(prompt="a", answer=""), "reward exact: answer: \"\" has nothing to compare; write a text that is right"),
    "too long": (line(prompt=18 * "a"), "`prompt` has 18 tokens, and 17 fit beside a completion; raise data.sequence, lower rollout.max_completion_length, or set data.skip_long to leave out such prompts"),
    "no template": (line(prompt=[dict(role="user", content="a")]), "there is no chat template: "),
}


def with_line(folder, more):
    """Writes a file of prompts whose line 6 is `more`."""
    folder.mkdir(exist_ok=True)
    good = "".join(json.dumps(one) + "\n" for one in runs.prompts(5)).encode()
    (folder / "prompts.jsonl").write_bytes(good + (more if isinstance(more, bytes) else more.encode()) + b"\n")
    return dict(prompts=str(folder / "prompts.jsonl"))


@pytest.mark.parametrize("key", ["prompts", "validation_prompts"])
@pytest.mark.parametrize("name", LINES)
def test_lines(tmp_path, made, name, key):
    more, *texts = LINES[name]
    data = {key: with_line(tmp_path, more)["prompts"]}
    refused(tmp_path, made, BAD_FILE, [f"`data.{key}`: {tmp_path}/prompts.jsonl line 6: ", *texts], data=data, evaluation=dict(every=1))


def test_files(tmp_path, made):
    for text in ("", "\n \n\r\n"):
        (tmp_path / "none.jsonl").write_text(text)
        refused(tmp_path, made, BAD_FILE, [f"`data.prompts`: {tmp_path}/none.jsonl has no prompts; write one JSON object per line, such as {{\"prompt\": \"2 + 3 =\", \"answer\": \"5\"}}"], data=dict(prompts=str(tmp_path / "none.jsonl")))
    refused(tmp_path, made, BAD_FILE, ["`data.prompts`: cannot open /nosuch.jsonl: No such file or directory"], data=dict(prompts="/nosuch.jsonl"))
    refused(tmp_path, made, BAD_FILE, [f"`data.prompts`: {made} is a folder, not a plain file"], data=dict(prompts=str(made)))


def test_an_answer_that_is_no_number(tmp_path, made):
    refused(tmp_path, made, BAD_FILE, ["/prompts.jsonl line 1: reward number: answer: \"", "\" has no number; write one, or use `exact`, which compares texts"], reward="number")


@pytest.mark.parametrize("answer, text", [(0.1, "0.1"), (2.5, "2.5"), (3.0, "3.0"), (1e-7, "1e-07"), (12, "12"), (2e7, "20000000.0"), (-123456789.0, "-123456789.0"), (1e16, "1e+16"), (25000000.5, "25000000.5"), (0.30000000000000004, "0.30000000000000004")])
def test_answers_that_are_numbers(tmp_path, made, answer, text):
    """An answer that is a JSON number is compared as its shortest text, not as 0.10000000000000001: a dry run's completions are answers."""
    (tmp_path / "prompts.jsonl").write_text(line(prompt="a", answer=answer, text=text))
    (tmp_path / "ask.py").write_text(ASKED.replace('asked["answer"]', 'asked["text"]'))
    said = trireme("train", runs.write_run(tmp_path, made, data=dict(prompts=str(tmp_path / "prompts.jsonl")), reward=[dict(command=f"{sys.executable} {tmp_path}/ask.py")]), "--dry-run", "--verbose").stdout
    assert re.search(r"^  command +1 +1\.0000 +0\.0000 +-$", said, re.MULTILINE), said[:500]


def test_long_prompts_are_left_out(tmp_path, made):
    """With skip_long; one that just fits is not; a file of nothing else is refused."""
    longest, longer = json.dumps(dict(prompt=17 * "a", answer="a")), json.dumps(dict(prompt=18 * "a", answer="a"))
    data = with_line(tmp_path, longest + "\n" + longer)
    runs.train(tmp_path, made, data=dict(data, skip_long=True))
    assert {one["line"] for one in runs.rollouts_of(tmp_path)} == {1, 2, 3, 4, 5, 6}
    (tmp_path / "long.jsonl").write_text(longer + "\n")
    refused(tmp_path / "none", made, BAD_FILE, [f"{tmp_path}/long.jsonl: all 1 prompts are longer than 17 tokens (data.skip_long)"], data=dict(prompts=str(tmp_path / "long.jsonl"), skip_long=True))


def test_prompts_that_are_fine(tmp_path, made):
    """Numbers are answers; a prompt without text is the end of another one; a byte 0 is a character."""
    lines = [dict(prompt="ab", answer=3.5), dict(prompt="", answer="b"), dict(prompt="a\0b", answer="b"), dict(prompt="ab", answer="a", more=dict(key=[1])), dict(prompt="ab", answer="a")]
    (tmp_path / "prompts.jsonl").write_text("\r\n\n".join(map(json.dumps, lines)))
    runs.train(tmp_path, made, data=dict(prompts=str(tmp_path / "prompts.jsonl")))
    assert {one["line"] for one in runs.rollouts_of(tmp_path)} == {1, 3, 5, 7, 9}


# ---- templates and tokenizers ----------------------------------------------------------------------------------------

TEMPLATES = {
    "raises": ("{{ raise_exception('no such role') }}", "/model/chat_template.jinja line 1 column 19: the template refuses the conversation: no such role"),
    "wrong": ("{% for %}", "/model/chat_template.jinja line 1 column 8: a name is missing before `%}`"),
    "empty": ("", "`prompt`: the chat template makes an empty text of its messages; correct the template"),
    "undefined": ("{{ nosuch.x }}", "/model/chat_template.jinja line 1 column 11: `nosuch` is undefined"),
}
GOOD = "{% for m in messages %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}{{ letter | default('k') }}{% endif %}"


def with_template(folder, made, template):
    shutil.copytree(made / "model", folder / "model")
    (folder / "model/chat_template.jinja").write_text(template)
    return str(folder / "model")


@pytest.mark.parametrize("name", TEMPLATES)
def test_templates(tmp_path, made, name):
    template, *texts = TEMPLATES[name]
    refused(tmp_path, made, BAD_FILE, [f"`data.prompts`: {tmp_path}/prompts.jsonl line 6: ", *texts], init=with_template(tmp_path, made, template),
            data=with_line(tmp_path, line(prompt=[dict(role="user", content="a")])))


MESSAGES = {"a number": ([1], "`messages`, message 1 is a number, not an object"), "no content": ([dict(role="user")], "`messages`, message 1: `content` is missing; it must be a string or a list of parts")}


@pytest.mark.parametrize("name", MESSAGES)
def test_messages(tmp_path, made, name):
    messages, *texts = MESSAGES[name]
    refused(tmp_path, made, BAD_FILE, [f"{tmp_path}/prompts.jsonl line 6: ", *texts], init=with_template(tmp_path, made, GOOD), data=with_line(tmp_path, line(prompt=messages)))


def test_a_template_makes_the_prompt(tmp_path, made):
    """Also with variables of data.chat_set."""
    data = with_line(tmp_path, line(prompt=[dict(role="user", content="ab")]))
    folder = with_template(tmp_path, made, GOOD)
    for name, more, text in (("usual", {}, "abk"), ("set", dict(chat_set=["letter=m"]), "abm")):
        runs.train(tmp_path / name, made, init=folder, data=dict(data, **more))
        assert {one["prompt"] for one in runs.rollouts_of(tmp_path / name) if one["line"] == 6} == {text}


EACH = "{%% for m in messages %%}<{{ m.role }}>%s{%% endfor %%}"
TURN_ENDS = {
    "after each answer": (EACH % "{{ m.content + '<end>\n' }}", "<end>"),
    "the text ends, too": (EACH % "{{ m.content + '<end>\n' }}" + "{% if not add_generation_prompt %}{{ eos_token }}{% endif %}", "<end>"),
    "another one of the last": (EACH % "{{ m.content }}{% if loop.last %}<return>{% else %}<end>{% endif %}", "<return>"),
    "a string that is composed": (EACH % "{{ ('<think></think>' ~ m.content) | string | trim ~ '<end>\n' }}", "<end>"),
    "the next question": (EACH % "{{ m.content }}", "<user>"),
    "no answers": (EACH % "{% if m.role == 'assistant' %}{{ raise_exception('no') }}{% endif %}{{ m.content }}", ""),
    "not printed": (EACH % "", ""),
}


@pytest.mark.parametrize("name", TURN_ENDS)
def test_the_end_of_a_turn(tmp_path, made, name):
    """The text of the template that ends a completion."""
    template, end = TURN_ENDS[name]
    (tmp_path / "prompts.jsonl").write_text(line(prompt=[dict(role="user", content="ab")]))
    tool = os.path.join(os.environ["TRIREME_TOOLS"], "prompt_tool")
    done = subprocess.run([tool, with_template(tmp_path, made, template), tmp_path / "prompts.jsonl"], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["turn_end"] == end


def test_no_token_ends_a_text(tmp_path, made):
    shutil.copytree(made / "model", tmp_path / "model")
    for name, old, new in (("tokenizer.json", "</s>", "(s)"), ("tokenizer_config.json", '"eos_token": "</s>", ', ""), ("config.json", '"eos_token_id": 1', '"eos_token_id": null')):
        path = tmp_path / "model" / name
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))
    said = "has no token that ends a text, so every completion would have rollout.max_completion_length tokens; give rollout.stop, such as [\"\\n\"], or a tokenizer with an end-of-text token"
    refused(tmp_path, made, BAD_KEYS, [said], init=str(tmp_path / "model"))
    refused(tmp_path, made, BAD_FILE, ["prompts.jsonl line 6: `prompt` has no tokens; write a text"], init=str(tmp_path / "model"), rollout=dict(stop=["b"]), data=with_line(tmp_path, line(prompt="")))
    runs.train(tmp_path, made, init=str(tmp_path / "model"), rollout=dict(stop=["b"]))
    assert {one["finish"] for one in runs.rollouts_of(tmp_path)} == {"length", "stop"}


# ---- dry runs --------------------------------------------------------------------------------------------------------

def test_a_dry_run_tries_commands(tmp_path, made):
    (tmp_path / "ask.py").write_text(ASKED)
    path = runs.write_run(tmp_path, made, reward=["exact", dict(name="mine", command=f"{sys.executable} {tmp_path}/ask.py", weight=3)])
    said = trireme("train", path, "--dry-run", "--verbose").stdout
    assert re.search(r"^  mine +3 +1\.0000 +0\.0000 +0\.0000$", said, re.MULTILINE) and re.search(r"^  sum +1 +4\.0000 +0\.0000 +0\.0000$", said, re.MULTILINE)
    assert not (tmp_path / "run").exists()
    for command, status, texts in (("/nosuch/reward", BAD_KEYS, ["`/nosuch/reward` cannot be started (exit status 127)", "not found"]), ("exit 3", 5, ["`exit 3` has ended three times in a row without an answer, with exit status 3"]),
                                   ("sleep 100", BAD_KEYS, ["the command of mine has not answered for 60 of the 60 completions that --dry-run tries"])):
        refused(tmp_path, made, status, texts, ["--dry-run"], reward=[dict(name="mine", command=command, timeout=0.3)])


def test_a_dry_run_lends_its_standard_error(tmp_path, made):
    """Standard error may be a socket; the words of a program and of the dry run follow each other in a file that has text already."""
    (tmp_path / "ask.py").write_text("import sys\nprint('from ask.py', file=sys.stderr)\n" + ASKED)
    path = runs.write_run(tmp_path, made, reward=[dict(name="mine", command=f"{sys.executable} {tmp_path}/ask.py", weight=-1)])
    mine, theirs = socket.socketpair()
    with mine, theirs, open(tmp_path / "log", "w") as log:
        assert subprocess.run(words_of("train", path, "--dry-run"), stdout=subprocess.DEVNULL, stderr=theirs).returncode == 0
        assert b"from ask.py" in mine.recv(1 << 16)
        log.write("before\n")
        log.flush()
        assert subprocess.run(words_of("train", path, "--dry-run"), stdout=subprocess.DEVNULL, stderr=log).returncode == 0
    assert re.fullmatch("before\n(.*\n)*from ask.py\n.*the rewards do not prefer the prompts' answers.*\n", (tmp_path / "log").read_text())


NO_ANSWERS = "".join(json.dumps(dict(prompt=text)) + "\n" for text in ("a", "bc", "d"))


@pytest.mark.parametrize("rewards, lines, said", [
    (["exact"], None, ""), ([dict(name="length", buffer=4)], None, ""), ([dict(name="length", buffer=4)], NO_ANSWERS, ""), ([dict(name="regex", pattern="^$")], NO_ANSWERS, ""),
    ([dict(name="regex", pattern="^$")], None, "--dry-run: the rewards do not prefer the prompts' answers; is this meant?"),
    ([dict(name="exact", weight=-1)], None, "`reward`: the answers of the prompts earn -1 in the mean, an empty text 0 and other answers 0, so the right answer is not what is learned")],
    ids=["exact", "length", "length, no answers", "an empty text, no answers", "an empty text", "another answer"])
def test_a_dry_run_judges_the_rewards(tmp_path, made, rewards, lines, said):
    """It warns only if the prompts' answers were tried and another completion earns more."""
    data = dict()
    if lines is not None:
        (tmp_path / "prompts.jsonl").write_text(lines)
        data = dict(data=dict(prompts=str(tmp_path / "prompts.jsonl")))
    done = trireme("train", runs.write_run(tmp_path, made, reward=rewards, **data), "--dry-run", status=BAD_KEYS * said.startswith("`reward`"))
    assert said in done.stderr and ("is this meant" in done.stderr) == ("is this meant" in said)


@pytest.mark.parametrize("words, keys", [(dict(recipe="gspo", epsilon=0.5), "loss_type: grpo, epsilon: 0.5, epsilon_high: 0.0004, importance_sampling_level: sequence"), (dict(recipe="rloo"), "scale_rewards: none, baseline: leave_one_out"),
                                         (dict(recipe="dr_grpo", importance_sampling=dict(min=0.1)), "loss_type: dr_grpo, scale_rewards: none, importance_sampling.min: 0.1"), (dict(name="grpo"), "")], ids=str)
def test_a_dry_run_prints_the_keys_of_a_recipe(tmp_path, made, words, keys):
    said = trireme("train", runs.write_run(tmp_path, made, objective=words), "--dry-run", "--verbose").stdout
    assert f"objective: grpo{', ' * bool(keys)}{keys}\n" in said, said[:500]


def test_a_pattern_that_exceeds_its_limits(tmp_path, made):
    """It does not match, and the run warns once, of the first group with such completions."""
    path = runs.write_run(tmp_path, made, reward=[dict(name="regex", label="deep", pattern="(?R)|x"), "exact"])
    for words, count in (((), 4), (("--dry-run",), 60)):
        assert trireme("train", path, *words).stderr.count(f"reward deep: its pattern took too many steps for {count} of {count} completions, which count as not matching") == 1


# ---- in the course of a run ------------------------------------------------------------------------------------------

def test_nothing_passes_the_filter(tmp_path, made):
    refused(tmp_path, made, DIVERGED, ["none of 26 groups has a mean reward within rollout.filter, so there is nothing to learn from"], rollout=dict(filter=dict(low=100), max_filtered=20))


@pytest.mark.parametrize("damage, first", [(lambda path: path.unlink(), None), (lambda path: path.write_text("no\n" + path.read_text()), 0),
                                          (lambda path: path.write_text(path.read_text()[:2000]), 1)], ids=["gone", "other text", "cut"])
def test_a_damaged_record(tmp_path, made, damage, first):
    """The run goes on, and names the first batch that is lost."""
    runs.train(tmp_path, made, ["--stop-at", 2])
    damage(tmp_path / "run/rollouts.jsonl")
    said = "is missing, and begins" if first is None else f"has lost its lines from batch {first} on, and continues"
    assert f"/run/rollouts.jsonl {said} with batch 2 (numbers from 0)" in trireme("train", tmp_path / "run.yaml").stderr
    assert [line["batch"] for line in runs.rollouts_of(tmp_path)][-2 * runs.GROUPS * runs.SIZE:] == [2] * runs.GROUPS * runs.SIZE + [3] * runs.GROUPS * runs.SIZE


def test_other_prompts_on_the_way(tmp_path, made):
    data = with_line(tmp_path, line(prompt="abc"))
    path = runs.write_run(tmp_path, made, data=data)
    trireme("train", path, "--stop-at", 2)
    with_line(tmp_path, line(prompt="abd"))
    check(trireme("train", path, status=BAD_KEYS), "step-00000002 does not match this run: data.prompts is ")
    with_line(tmp_path, line(prompt="abc"))
    trireme("train", path)


# ---- keys that were accepted, and are refused ------------------------------------------------------------------------

def test_rope_scaling_that_depends_on_the_length(tmp_path, made):
    refused(tmp_path, made, UNSUPPORTED, ["`model.rope_scaling` dynamic gives a text other positions"], model=dict(rope_scaling=dict(type="dynamic", factor=2.0, original_max_sequence=16)))


@pytest.mark.parametrize("changes, words", [
    (dict(data=dict(documents="joined")), "`data.documents` does not go with objective.name grpo"),
    (dict(data=dict(packing="windows")), "`data.packing` does not go with objective.name grpo"),
    (dict(data=dict(too_long="drop")), "`data.too_long` does not go with objective.name grpo"),
    (dict(data=dict(chat_set=["thinking"])), "`data.chat_set` needs NAME=VALUE"),
    (dict(rollout=dict(max_completion_length=4096)), "`rollout.max_completion_length` 4096 leaves no room for a prompt"),
], ids=["joined", "windows", "drop", "chat_set", "longest"])
def test_keys_that_do_not_go_with_grpo(tmp_path, made, changes, words):
    refused(tmp_path, made, BAD_KEYS, [words], **changes)


def test_commands_that_predict_or_time_steps(tmp_path, made):
    """Rollouts are neither predicted nor a part of a study's trials. A run's measured updates are compared with a prediction for as many sequences as they had."""
    path = runs.write_run(tmp_path, made)
    study = dict(name="s", run=str(path), devices=1, objective="tokens_per_s", trials=2, space=[dict(name="micro_batch", values="1 2")])
    (tmp_path / "study.yaml").write_text(json.dumps(study))
    check(trireme("tune", tmp_path / "study.yaml", status=UNSUPPORTED), "has objective.name grpo, and a study times steps on a given batch")
    words = ["--model", "gpt2-124m", "--cluster", "dgx-h100", "--devices", 8, "--global-batch", 64, "--set", "objective.name=grpo"]
    check(trireme("plan", *words, status=UNSUPPORTED), "--set objective.name=grpo: the time of rollouts is not predicted")
    trireme("train", runs.write_run(tmp_path, made, precision="fp32"))
    steps, tokens = (json.loads((tmp_path / "run/summary.json").read_text())[key] for key in ("steps", "tokens"))
    said = trireme("simulate", "--against", tmp_path / "run", "--cluster", "a100-node").stdout
    assert f"the step is an update on {-(-tokens // (steps * runs.SEQUENCE) // 2) * 2} sequences, the mean of this run; rollouts and rewards are neither predicted nor" in said

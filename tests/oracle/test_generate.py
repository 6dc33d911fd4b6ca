"""`trireme generate` compared with plain ways to the same texts: a context that slides with one text for each of its windows, stop
strings beside a search in the whole text, several texts side by side beside each alone, a conversation beside its template written
out."""
import json
import re
import shutil
import signal
import subprocess

import pytest
import torch
from parity import TRIREME, trireme, yaml_of

POSITIONS = 32
MODEL = dict(family="gpt2", num_layers=2, hidden_size=32, num_heads=2, vocab_size=257, max_sequence=POSITIONS)
TEMPLATE = ("{% for m in messages %}[{{ m.role }}]{{ m.content }}~\n{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}")
GREEDY = ("--temperature", 0, "--ignore-end")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A tiny model that has seen some text, as a Hugging Face folder with a chat template."""
    made = tmp_path_factory.mktemp("made")
    (made / "text.txt").write_text("the oars of the trireme are pulled in time, and the sea is wide and dark; " * 200)
    trireme("prepare", "--tokenizer", "bytes", "--out", made / "corpus", made / "text.txt")
    run = dict(model=MODEL, data=dict(train=str(made / "corpus/train"), sequence=POSITIONS), layout=dict(micro_batch=4),
               optimizer=dict(global_batch=4, steps=250, lr=1e-2), checkpoint=dict(every=250), output=str(made / "run"))
    (made / "run.yaml").write_text(yaml_of(run))
    trireme("train", made / "run.yaml")
    trireme("export", made / "run", made / "plain")
    (made / "plain/chat_template.jinja").write_text(TEMPLATE)
    return made / "plain"


def generate(folder, *words, status=0, **more):
    done = subprocess.run([TRIREME, "generate", *map(str, (folder, *words))], capture_output=True, stdin=None if "input" in more else
                          subprocess.DEVNULL, **more)
    assert done.returncode == status, done.stderr
    return done


def lines_of(done):
    return [json.loads(line) for line in done.stdout.decode().splitlines()]


def text_of(folder, prompt, tokens, *more):
    """The continuation alone."""
    return lines_of(generate(folder, "--prompt", prompt, "--tokens", tokens, "--json", *more))[0]["text"]


def test_context(folder):
    """Past the positions: the last half is read again, so each stretch is what a text that begins there has."""
    prompt, tokens = "the sea is", 90
    done = generate(folder, "--prompt", prompt, "--tokens", tokens, *GREEDY)
    got = done.stdout.decode()[:-1]
    assert done.stderr.decode().count("longer than the 32 positions") == 1
    expected = prompt
    while len(expected) < len(prompt) + tokens:
        seen = expected if expected == prompt else expected[-POSITIONS // 2 :]
        # A text of as many tokens as there are positions has one more token sampled after it, which is read first in the next range.
        room = min(POSITIONS - len(seen) + 1, len(prompt) + tokens - len(expected))
        for _ in range(room):
            expected += text_of(folder, seen, 1, *GREEDY)
            seen = expected[-len(seen) - 1 :]
    assert got == expected
    # A prompt that is itself longer: its last tokens.
    long = ("the oars are pulled in time and " * 3)[:70]
    assert text_of(folder, long, 1, *GREEDY) == text_of(folder, long[-POSITIONS:], 1, *GREEDY)
    # And a smaller context than the model's, to which --tokens need not be fitted.
    assert "longer than the 16 positions" in generate(folder, "--prompt", prompt, "--context", 16, "--tokens", 40, *GREEDY).stderr.decode()


def test_samples_and_batches(folder):
    words = ("--prompt", "the ", "--tokens", 12, "--samples", 5, "--json", "--ignore-end")
    alone = lines_of(generate(folder, *words, "--batch", 1))
    assert [line["sample"] for line in alone] == list(range(5)) and len({line["text"] for line in alone}) > 1
    for batch in (2, 5):
        assert lines_of(generate(folder, *words, "--batch", batch)) == alone
    assert lines_of(generate(folder, *words, "--seed", 9)) != alone
    assert text_of(folder, "the ", 12, "--ignore-end") == alone[0]["text"]


def first_words(folder, prompts, tmp_path, seed):
    """By prompt the first letter of each of 400 samples."""
    (tmp_path / "two.jsonl").write_text("".join(json.dumps(dict(prompt=p)) + "\n" for p in prompts))
    lines = lines_of(generate(folder, "--prompts", tmp_path / "two.jsonl", "--tokens", 1, "--samples", 400, "--batch", 64, "--json", "--ignore-end",
                              "--temperature", 4, "--seed", seed))
    assert [line["number"] for line in lines] == [i for i in range(len(prompts)) for _ in range(400)]
    return [[line["text"] for line in lines if line["number"] == i] for i in range(len(prompts))]


def test_prompts_are_drawn_apart(folder, tmp_path):
    """The first letters of two prompts are equal as often as their frequencies say; one prompt given twice has the same texts, and where
    in the file a prompt stands does not matter."""
    equal = expected = spread = 0
    for seed in range(1, 4):
        one, two, again = first_words(folder, ["the sea is", "the oar is", "the sea is"], tmp_path, seed)
        assert one == again and len(set(one)) > 5
        share = sum(one.count(letter) * two.count(letter) for letter in set(one)) / 400**2
        equal += sum(a == b for a, b in zip(one, two))
        expected += 400 * share
        spread += 400 * share * (1 - share)
    assert abs(equal - expected) < 5 * spread**0.5, (equal, expected)
    assert first_words(folder, ["the oar is", "the sea is"], tmp_path, 3) == [two, one]


def test_many_prompts(folder, tmp_path):
    prompts = ["the sea", "pulled in ti", "a", "oars of the trireme are pulled in time, and the sea", "é \" \\"]
    (tmp_path / "p.txt").write_text("\n".join(prompts[:4]) + "\n\n")
    (tmp_path / "p.jsonl").write_text("".join(json.dumps(dict(prompt=p)) + "\n" for p in prompts))
    words = ("--tokens", 20, "--json", *GREEDY)
    got = lines_of(generate(folder, "--prompts", tmp_path / "p.jsonl", *words, "--batch", 3))
    assert [line["prompt"] for line in got] == prompts and [line["number"] for line in got] == list(range(5))
    for prompt, line in zip(prompts, got):
        assert line["text"] == text_of(folder, prompt, 20, *GREEDY) and line["tokens"] == 20 and line["finish"] == "length"
    assert lines_of(generate(folder, "--prompts", tmp_path / "p.txt", *words)) == got[:4]
    plain = generate(folder, "--prompts", tmp_path / "p.txt", "--tokens", 20, *GREEDY).stdout.decode()
    assert plain == "".join(f"--- prompt {i + 1} ---\n{p}{line['text']}\n" for i, (p, line) in enumerate(zip(prompts[:4], got)))
    (tmp_path / "bad.jsonl").write_text('{"prompt": 3}\n')
    (tmp_path / "more.jsonl").write_text("".join(json.dumps(dict(id=i, system="be brief", prompt=p)) + "\n" for i, p in enumerate(prompts)))
    done = generate(folder, "--prompts", tmp_path / "more.jsonl", *words)
    assert lines_of(done) == got and done.stderr.count(b"more.jsonl line 1: only `prompt` or `messages` of each line is read; `id` is not part of the text") == 1
    (tmp_path / "more.jsonl").write_text("".join(json.dumps(dict(id=None, prompt=p)) + "\n" for p in prompts[:1]))
    assert b"is not part of the text" not in generate(folder, "--prompts", tmp_path / "more.jsonl", "--tokens", 1).stderr
    (tmp_path / "p.jsonl").rename(tmp_path / "p.json")
    assert b"p.json is read as plain text, a prompt a line, though its first line is JSON; name it .jsonl" in generate(folder, "--prompts", tmp_path / "p.json", *words).stderr
    assert b"bad.jsonl line 1: no prompt" in generate(folder, "--prompts", tmp_path / "bad.jsonl", status=4).stderr
    (tmp_path / "none.txt").write_text("\n\n")
    assert b"has no prompt" in generate(folder, "--prompts", tmp_path / "none.txt", status=4).stderr


def test_prompt_from_elsewhere(folder, tmp_path):
    prompt = "the oars\nof the"
    (tmp_path / "prompt.txt").write_text(prompt + "\n")
    expected = generate(folder, "--prompt", prompt, "--tokens", 8, *GREEDY).stdout
    for words, given in ((("--prompt-file", tmp_path / "prompt.txt"), b""), (("--prompt", "-"), prompt.encode()), ((), prompt.encode() + b"\n")):
        assert generate(folder, *words, "--tokens", 8, *GREEDY, input=given).stdout == expected
    assert b"one of them" in generate(folder, "--prompt", "a", "--prompts", "b", status=2).stderr


def first_stop(text, stops):
    """The whole text up to where one of the strings is first complete."""
    for end in range(len(text) + 1):
        found = [stop for stop in stops if text[:end].endswith(stop)]
        if found:
            stop = max(found, key=len)
            return text[: end - len(stop)], stop
    return text, None


@pytest.mark.parametrize("stops", [["rire"], ["e"], ["in time", "time, and", "me"], ["zzz"], [" the", "th", "t"], ["ulle", "pulled in"]])
def test_stops(folder, stops):
    whole = text_of(folder, "the oars", 60, *GREEDY)
    options = [word for stop in stops for word in ("--stop", stop)]
    expected, stop = first_stop(whole, stops)
    line = lines_of(generate(folder, "--prompt", "the oars", "--tokens", 60, "--json", *GREEDY, *options))[0]
    assert (line["text"], line["stop"], line["finish"]) == (expected, stop, "length" if stop is None else "stop")
    assert generate(folder, "--prompt", "the oars", "--tokens", 60, *GREEDY, *options).stdout.decode() == "the oars" + expected + "\n"


def test_end_tokens_and_settings_of_the_folder(folder, tmp_path):
    """eos_token_id as a number and as a list; numbers count where do_sample says so, and an option goes before them."""
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in folder.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    whole = text_of(folder, "the oars", 40, "--temperature", 0)

    def ends(**settings):
        (copy / "generation_config.json").write_text(json.dumps(settings))
        return generate(copy, "--prompt", "the oars", "--tokens", 40, "--json", "--temperature", 0)

    for ids in (ord("h"), [ord("m"), ord("i")]):
        letters = [chr(i) for i in (ids if isinstance(ids, list) else [ids])]
        line = lines_of(ends(eos_token_id=ids))[0]
        assert line["text"] == re.split("[" + "".join(letters) + "]", whole)[0] and line["finish"] == "end"
    (copy / "generation_config.json").write_text(json.dumps(dict(do_sample=True, temperature=0.5, top_k=3)))
    words = ("--prompt", "the ", "--tokens", 30, "--ignore-end")
    done = generate(copy, *words)
    assert b"generation_config.json has it: --temperature 0.5, --top-k 3\n" in done.stderr
    assert done.stdout == generate(folder, *words, "--temperature", 0.5, "--top-k", 3).stdout
    assert generate(copy, *words, "--temperature", 1, "--top-k", 0).stdout == generate(folder, *words).stdout
    # What GenerationConfig has beside do_sample and no file says: top_k 50.
    for settings in (dict(do_sample=True), dict(do_sample=True, top_k=None)):
        (copy / "generation_config.json").write_text(json.dumps(settings))
        done = generate(copy, *words)
        assert b"generation_config.json has it: --top-k 50 (transformers' default beside do_sample)\n" in done.stderr
        assert done.stdout == generate(folder, *words, "--top-k", 50).stdout
        assert generate(copy, *words, "--top-k", 0).stdout == generate(folder, *words).stdout
    # max_new_tokens counts without do_sample: vllm 34005.
    (copy / "generation_config.json").write_text(json.dumps(dict(max_new_tokens=7)))
    words = ("--prompt", "the ", "--ignore-end")
    done = generate(copy, *words)
    assert b"generation_config.json has it: --tokens 7\n" in done.stderr
    assert done.stdout == generate(folder, *words, "--tokens", 7).stdout
    words = (*words, "--tokens", 30)
    assert generate(copy, *words).stdout == generate(folder, *words).stdout
    # A penalty applies to the likeliest token, too; options that are not used are reported.
    (copy / "generation_config.json").write_text(json.dumps(dict(repetition_penalty=1.5)))
    assert generate(copy, *words, *GREEDY).stdout == generate(folder, *words, *GREEDY, "--repetition-penalty", 1.5).stdout
    (copy / "generation_config.json").write_text(json.dumps(dict(suppress_tokens=[1], forced_eos_token_id=0, num_beams=4, typical_p=1.0, min_length=0, no_repeat_ngram_size=0, bad_words_ids=None)))
    said = generate(copy, *words).stderr
    assert b"generation_config.json: not done here: `forced_eos_token_id`, `num_beams`, `suppress_tokens`; texts differ from transformers'" in said
    for bad in (dict(eos_token_id="no such"), dict(eos_token_id=[1, 2.5]), dict(eos_token_id=-2), dict(temperature="hot"), dict(top_p=3)):
        (copy / "generation_config.json").write_text(json.dumps(bad))
        assert b"generation_config.json" in generate(copy, *words, status=4).stderr


def test_repetition_and_min_p(folder):
    """A min-p of 1 leaves the most likely alone; a penalty as large as can be keeps a greedy text from any letter it had."""
    words = ("--prompt", "the oars", "--tokens", 20, "--ignore-end")
    assert generate(folder, *words, "--min-p", 1).stdout == generate(folder, *words, "--temperature", 0).stdout
    text = generate(folder, "--prompt", "qx", "--tokens", 5, *GREEDY, "--repetition-penalty", 100).stdout[:-1]
    assert text != generate(folder, "--prompt", "qx", "--tokens", 5, *GREEDY).stdout[:-1] or len(set(text)) == len(text)


def rendered(messages):
    """TEMPLATE, whose blocks stand alone on no line, so that no white space is taken away."""
    return "".join(f"[{m['role']}]{m['content']}~\n" for m in messages) + "[assistant]"


@pytest.mark.parametrize("system", [None, "Be a ship."])
def test_chat(folder, system):
    """Each answer is the model's continuation of the rendered conversation, up to the template's end of a turn."""
    said, messages, expected = ["ahoy", "row", "sea"], [], []
    if system is not None:
        messages.append(dict(role="system", content=system))
    for text in said:
        messages.append(dict(role="user", content=text))
        if len(rendered(messages)) + 8 > POSITIONS and len(messages) > 2:
            while len(rendered(messages)) + min(10, POSITIONS // 4) > POSITIONS and len(messages) > (3 if system else 2):
                del messages[(1 if system else 0) : (3 if system else 2)]
        answer = first_stop(text_of(folder, rendered(messages), 10, *GREEDY), ["~"])[0]
        messages.append(dict(role="assistant", content=answer))
        expected.append(answer)
    words = ["--chat", "--tokens", 10, *GREEDY] + ([] if system is None else ["--system", system])
    given = "\n".join(said[:1] + [""] + said[1:]).encode() + b"\n/quit\nnever read\n"
    done = generate(folder, *words, input=given)
    assert done.stdout.decode() == "".join(answer + "\n" for answer in expected)
    assert [line["text"] for line in lines_of(generate(folder, *words, "--json", input=given))] == expected
    assert generate(folder, *words, input="\n".join(said).encode()).stdout == done.stdout


def test_chat_options(folder, tmp_path):
    assert b"go with --chat" in generate(folder, "--prompt", "a", "--system", "b", status=2).stderr
    for words, said in {
        ("--chat", "--samples", 2): b"--samples needs --prompt",
        ("--chat", "--dry-run"): b"are not for a conversation",
        ("--chat", "-n", 2): b"a conversation has one text at a time",
        ("--chat", "--prompt", "a" * POSITIONS): b"leaves no room for an answer",
    }.items():
        assert said in generate(folder, *words, status=2, input=b"a\n").stderr
    bare = tmp_path / "bare"
    bare.mkdir()
    for file in folder.iterdir():
        if file.name != "chat_template.jinja":
            (bare / file.name).write_bytes(file.read_bytes())
    said = generate(bare, "--chat", status=4, input=b"a\n").stderr
    assert b"there is no chat template" in said and b"--chat-template none" not in said  # which a conversation cannot go by
    assert b"give one with --chat-template NAME" in generate(bare, "--chat", "--chat-template", "none", status=2, input=b"a\n").stderr


@pytest.mark.parametrize("more", [[], ["--batch", 1], ["-n", 2]], ids=["batch", "one", "ranks"])
def test_conversations_as_prompts(folder, tmp_path, more):
    """Messages in a file go through the template, and each answer is that of the rendered prompt. With --chat a text is a message."""
    def user(text):
        return dict(role="user", content=text)

    def rendered(messages):
        return "".join(f"{m['role'][0]}{m['content']}~" for m in messages) + "a"

    (tmp_path / "short.jinja").write_text("{% for m in messages %}{{ m.role[0] }}{{ m.content }}~{% endfor %}{% if add_generation_prompt %}a{% endif %}")
    more = ["--chat-template", tmp_path / "short.jinja", *more]
    lists = [[user("ahoy")], [dict(role="system", content="brief"), user("row"), dict(role="assistant", content="sea"), user("deck")], [user("mast")]]
    file = tmp_path / "chats.jsonl"
    file.write_text(json.dumps(dict(messages=lists[0])) + "\n" + json.dumps(dict(prompt=lists[1])) + "\n" + json.dumps("ship") + "\n" + json.dumps(dict(messages=lists[2], id=3)) + "\n")
    prompts = [rendered(lists[0]), rendered(lists[1]), "ship", rendered(lists[2])]
    done = generate(folder, "--prompts", file, "--tokens", 8, "--samples", 2, "--json", "--logprobs", 2, *more)
    assert b"`id` is not part of the text" in done.stderr
    got = lines_of(done)
    assert [line["prompt"] for line in got] == [prompt for prompt in prompts for _ in range(2)]
    assert [line.get("message") for line in got] == [message for message in ["ahoy", "deck", None, "mast"] for _ in range(2)]
    for line in got:
        (alone,) = [other for other in lines_of(generate(folder, "--prompt", line["prompt"], "--tokens", 8, "--samples", 2, "--json")) if other["sample"] == line["sample"]]
        whole = alone["text"] if line["prompt"] == "ship" else first_stop(alone["text"], ["~"])[0]
        assert line["text"] == whole
    (one,) = lines_of(generate(folder, "--chat", "--prompt", "mast", "--tokens", 8, "--json", "--logprobs", 2, *more))
    assert one == dict(got[6], number=0)
    shown = generate(folder, "--chat", "--prompt", "mast", "--tokens", 8, *more).stdout
    assert shown.decode() == one["text"] + "\n"
    several = generate(folder, "--chat", "--system", "brief", "--prompts", "-", "--tokens", 8, "--json", *more, input=b"mast\nship\n")
    assert [line["prompt"] for line in lines_of(several)] == [rendered([dict(role="system", content="brief"), user(text)]) for text in ("mast", "ship")]


def test_conversations_that_cannot_be_answered(folder, tmp_path):
    file = tmp_path / "chats.jsonl"
    user = dict(role="user", content="a")
    for record, status, said in [
        (dict(messages=[user, dict(role="assistant", content="b")]), 4, "line 1: the last message is the assistant's"), (dict(messages=[]), 4, "the list of messages is empty"),
        (dict(messages="x"), 4, "line 1: no prompt: write"), (dict(messages=[dict(role="user", content=5)]), 4, "`content` is a number"), (["a"], 4, "no prompt: write"),
        ("plain", 2, "has no conversations"),
    ]:
        file.write_text(json.dumps(record) + "\n")
        more = ["--system", "x"] if record == "plain" else []
        assert said in generate(folder, "--prompts", file, *more, status=status).stderr.decode()


# ---- log-probabilities, caches and plans ----------------------------------------------------------------------------------------


def logits_of(folder, ids):
    """[ids, vocabulary], of the folder's model, in double."""
    import models
    from safetensors.torch import load_file

    model = dict(MODEL, norm_eps=1e-5)
    tensors = {f"transformer.{name.removeprefix('transformer.')}": tensor.double() for name, tensor in load_file(str(folder / "model.safetensors")).items()}
    with torch.no_grad():
        return models.logits(model, tensors, torch.tensor([ids]))[0]


@pytest.mark.parametrize("more", [(), ("--temperature", 0.7, "--top-k", 9), ("--temperature", 0), ("--stop", " "), ("--samples", 3)])
def test_log_probabilities(folder, more):
    """Aligned with the ids one to one: of the model at temperature 1, and of what was sampled from."""
    words = ("--prompt", "the oars ", "--tokens", 12, "--json", "--ignore-end", "--logprobs", 4, "--device", "reference", "--precision", "fp64")
    for line in lines_of(generate(folder, *words, *more)):
        prompt, ids, given = line["prompt_ids"], line["ids"], line["logprobs"]
        assert prompt == list(b"the oars ") and len(given["model"]) == len(given["sampled"]) == len(given["top"]) == len(ids)
        expected = torch.log_softmax(logits_of(folder, prompt + ids), -1)
        of_model = [expected[len(prompt) - 1 + i, token].item() for i, token in enumerate(ids)]
        assert given["model"] == pytest.approx(of_model, abs=1e-10)
        entropies = -(expected.exp() * expected).sum(-1)[len(prompt) - 1 : -1]
        assert given["entropy"] == pytest.approx(entropies.tolist(), abs=1e-10)
        assert given["prompt"][0] is None
        assert given["prompt"][1:] == pytest.approx([expected[i, token].item() for i, token in enumerate(prompt[1:])], abs=1e-10)
        for i, top in enumerate(given["top"]):
            values, tokens = expected[len(prompt) - 1 + i].topk(4)
            assert [likely["id"] for likely in top] == tokens.tolist()
            assert [likely["logprob"] for likely in top] == pytest.approx(values.tolist(), abs=1e-10)
        if "--top-k" in more:
            kept = (logits_of(folder, prompt + ids)[len(prompt) - 1 : -1] / 0.7).topk(9)
            shares = [torch.log_softmax(values, -1)[tokens.tolist().index(token)].item() for values, tokens, token in zip(*kept, ids)]
            assert given["sampled"] == pytest.approx(shares, abs=1e-10)
        elif more == ("--temperature", 0):
            assert given["sampled"] == [0] * len(ids)
        else:
            assert given["sampled"] == pytest.approx(of_model, abs=1e-10)
        if "--stop" in more:
            assert line["finish"] == "stop" and " " not in line["text"] and ids[-1] == ord(" ")


def test_the_token_that_ends_a_text_is_among_its_ids(folder, tmp_path):
    """With its log-probability, and not in the text."""
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    (other / "generation_config.json").write_text(json.dumps({"eos_token_id": ord(" ")}))
    line = lines_of(generate(other, "--prompt", "the oa", "--tokens", 50, "--temperature", 0, "--json", "--logprobs", 0))[0]
    assert line["finish"] == "end" and " " not in line["text"] and line["ids"][-1] == ord(" ")
    assert len(line["ids"]) == line["tokens"] + 1 == len(line["logprobs"]["model"])
    assert line["logprobs"]["top"] is None


def test_small_caches_write_the_same(folder, tmp_path):
    """For any size of the cache: if it is full, texts are read again later."""
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("".join(f"the {word} of\n" for word in ("sea", "oars", "trireme", "time", "dark and wide", "oars are pulled in time")))
    words = ("--prompts", prompts, "--samples", 3, "--tokens", 16, "--json", "--logprobs", 2, "--ignore-end")
    whole = generate(folder, *words).stdout
    page = 2 * 64 * 2 * 32 * 4  # keys and values, positions, layers, width, fp32
    for cache, batch in ((page, 8), (2 * page, 5), (3 * page, 40)):
        assert generate(folder, *words, "--cache", cache, "--batch", batch).stdout == whole
    for threads in (1, 3):
        assert generate(folder, *words, "--threads", threads, "--batch", 300).stdout == whole


@pytest.fixture(scope="module")
def draft(folder):
    """A smaller model of the same bytes."""
    made = folder.parent
    run = dict(model=dict(MODEL, num_layers=1, max_sequence=20), data=dict(train=str(made / "corpus/train"), sequence=20), layout=dict(micro_batch=4),
               optimizer=dict(global_batch=4, steps=150, lr=1e-2), checkpoint=dict(every=150), output=str(made / "small"))
    (made / "small.yaml").write_text(yaml_of(run))
    trireme("train", made / "small.yaml")
    return made / "small"


@pytest.mark.parametrize("sampling", [("--temperature", 0), (), ("--top-k", 9, "--repetition-penalty", 1.1)])
@pytest.mark.parametrize("batch", [1, 5])
def test_guesses_write_the_same(folder, draft, tmp_path, sampling, batch):
    """Lookup and a draft model change no byte of the texts nor of their probabilities, also beyond the positions and in a small cache."""
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("the oars of the oars of\nthe sea is wide and\nthe\n")
    words = ("--prompts", prompts, "--samples", 2, "--tokens", 40, "--json", "--logprobs", 2, "--stop", "zz", "--batch", batch, *sampling)
    plain = generate(folder, *words).stdout
    for more in (("--prompt-lookup", 16), ("--prompt-lookup", 1), ("--draft", draft), ("--draft", draft, "--draft-tokens", 9), ("--draft", folder, "--cache", 2 * 2 * 64 * 2 * 32 * 4)):
        done = generate(folder, *words, *more)
        assert done.stdout == plain
        if batch > 1:  # all prompts are there from the first step on, in which guesses are tried
            right, guessed = map(int, re.search(rb"(\d+) of (\d+) guessed tokens were right", done.stderr).groups())
            assert 0 < right <= guessed


def test_guesses_that_cannot_be(folder, draft, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    tokenizer = json.loads((other / "tokenizer.json").read_text())
    tokenizer["pre_tokenizer"]["use_regex"] = not tokenizer["pre_tokenizer"].get("use_regex", True)
    (other / "tokenizer.json").write_text(json.dumps(tokenizer))
    for words, status, message in (
        (("--draft", other), 3, "fingerprint .{8}.; a draft model needs the same one"),
        (("--draft", tmp_path / "none"), 4, "--draft: .*none"),
        (("--draft", draft, "--prompt-lookup", 3), 2, "--prompt-lookup or --draft, one of them"),
        (("--draft-tokens", 3), 2, "--draft-tokens goes with --draft FOLDER"),
        (("--draft", draft, "--draft-tokens", 17), 2, "--draft-tokens must be from 1 to 16, not 17"),
        (("--prompt-lookup", 0), 2, "--prompt-lookup must be from 1 to 16, not 0"),
    ):
        done = subprocess.run([TRIREME, "generate", folder, "--prompt", "a", *map(str, words)], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert re.search(message, done.stderr), done.stderr
        assert done.returncode == status, done.stderr


def test_dry_run(folder, draft):
    with_draft = generate(folder, "--prompt", "the ", "--draft", draft, "--dry-run").stdout.decode()
    assert int(re.search(r"draft model +(\d+) bytes", with_draft)[1]) > 0
    plan = generate(folder, "--prompt", "the ", "--samples", 4, "--tokens", 28, "--dry-run").stdout.decode()
    assert "4 texts, 4 side by side, of 32 positions at most" in plan and "6 pages of 64 positions" in plan
    page = 2 * 64 * 2 * 32 * 4
    assert f"{6 * page} bytes" in next(line for line in plan.splitlines() if line.strip().startswith("cache"))


def test_refusals(folder):
    for words, message in (
        (("--cache", 100), "--cache: 100 bytes are too few for a page of 64 positions, which takes 32768"),
        (("--cache", "99999999TiB"), "--cache: 99999999TiB is more than any memory"),
        (("--cache", "-1GiB"), "--cache must be at least a byte, not -1GiB"),
        (("--cache", "much"), "--cache takes a number of bytes, as 512MiB or 4GiB, not `much`"),
        (("--logprobs", 3), "--logprobs 3 are printed as JSON: give --json, too"),
        (("--logprobs", 21, "--json"), "--logprobs must be from 0 to 20, not 21"),
    ):
        assert message in generate(folder, "--prompt", "a", *words, status=2).stderr.decode()
    long = "the oars " * 9
    assert "of 81 tokens were requested, but only 32 positions are available" in generate(folder, "--prompt", long, "--json", "--logprobs", 0, status=2).stderr.decode()


def test_an_interrupted_run_writes_what_is_there(folder):
    """The texts that are being written end there; those that wait have no token."""
    words = ("--prompt", "the oars ", "--tokens", 2000, "--ignore-end", "--samples", 50, "--batch", 1, "--json")
    with subprocess.Popen([TRIREME, "generate", folder, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        first = json.loads(run.stdout.readline())
        run.send_signal(signal.SIGINT)
        rest, said = run.communicate(timeout=60)
    lines = [json.loads(line) for line in rest.splitlines()]
    complete = 1 + sum(line["finish"] == "length" for line in lines)
    assert first["finish"] == "length" and complete < 50
    assert [line["sample"] for line in lines] == list(range(1, 50))
    assert all(line["finish"] == "cancelled" and line["tokens"] < 2000 for line in lines[complete - 1 :])
    assert f"interrupted: {complete} of 50 texts are complete" in said and run.returncode == 130


def test_a_closed_pipe_is_said(folder):
    """A command whose output is not read any more ends with a message."""
    for tokens, more in ((100000, ()), (30, ("--json", "--samples", 3))):
        writing = subprocess.Popen([TRIREME, "generate", str(folder), "--prompt", "the ", "--tokens", str(tokens), *map(str, more)],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        writing.stdout.read(1) if not more else None
        writing.stdout.close()
        said = writing.stderr.read().decode()
        assert writing.wait(timeout=100) != 0 and "cannot write to standard output" in said, said

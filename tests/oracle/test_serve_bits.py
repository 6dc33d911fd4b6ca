"""trireme serve under a load of 500 requests of all kinds. Clients come at unequal times, and some leave. Each answer has letter for letter the
texts that `trireme generate` writes after the same prompts alone. `generate` has no options for biases and for penalties that count: such requests
are compared with the answers of an idle server that has other limits. Log-probabilities are compared to the bit. The requests are a function of a
seed, which a failure prints."""
import asyncio
import collections
import dataclasses
import itertools
import json
import pathlib
import random
import sys

import choice_models
import pytest
from drawn import drawn_count, turn
from parity import trireme
from serving import Server, make_model, skip_without_server

sys.path.append(str(pathlib.Path(__file__).parent.parent / "soak"))
from serve_load import DEPARTURES, Client, Load, Request  # noqa: E402

REQUESTS, CLIENTS, GROUPS, MOST = 500, 16, 24, 4  # MOST: samples of a prompt
TEMPLATE = "{% for m in messages %}{{ m['role'] }} {{ m['content'] }}ord{% endfor %}{% if add_generation_prompt %}line {% endif %}"
TURN_END = "ord"  # an answer ends before it, since the template prints it after an answer
SETTINGS = [
    {}, dict(temperature=0), dict(temperature=0.7), dict(temperature=2), dict(top_k=20), dict(top_k=1), dict(top_p=0.9), dict(min_p=0.05, temperature=1.5),
    dict(repetition_penalty=1.3), dict(temperature=0.8, top_k=30, top_p=0.95, min_p=0.01, repetition_penalty=1.1), dict(temperature=0, repetition_penalty=1.5),
]
STOPS = [(), (), (" t",), ("e", "9"), ("ord", "or some", "\n")]
NOT_OF_GENERATE = [dict(frequency_penalty=1.5), dict(presence_penalty=-1, temperature=0), dict(logit_bias={"101": 5, "32": -100}), dict(logit_bias={"122": 4}, frequency_penalty=0.5)]
TEXTS = ["", "l", "line 12", "line 7 of some", "words\nline 90 of", "größer als 日本 ", "some text, and more words\n" * 3, "line 3 of some text, and " * 9, "x" * 63, "y" * 64, "z" * 65]
# The options of a server, and those of generate that write the same texts.
ARRANGEMENTS = {
    "two ranks": (("-n", 2), ()),
    "tensor": (("-n", 2, "--tensor", 2), ("-n", 2, "--tensor", 2)),
    "bf16": (("--precision", "bf16"), ("--precision", "bf16")),
    "guesses": (("--prompt-lookup", 4), ()),
}


END = "<|endoftext|>"  # in both models
PATHS = ["/v1/completions", "/v1/chat/completions"]


class Bytes:
    """The tokenizer of serving.make_model: a token for each byte, and one that ends a text."""

    def ids(self, text):
        return list(text.encode())

    def bytes_of(self, id):
        return END.encode() if id == 256 else bytes([id])


class Pairs:
    """A tokenizer of byte pairs: a token may have a part of a character, or parts of two."""

    def __init__(self, document):
        import tokenizers
        from tokenizers.pre_tokenizers import ByteLevel

        self.tokenizer = tokenizers.Tokenizer.from_str(json.dumps(document))
        letters, printed = sorted(ByteLevel.alphabet()), set([*range(33, 127), *range(161, 173), *range(174, 256)])
        self.byte_of = dict(zip((chr(byte) for byte in sorted(printed)), sorted(printed)))
        self.byte_of.update(zip([letter for letter in letters if letter not in self.byte_of], [byte for byte in range(256) if byte not in printed]))

    def ids(self, text):
        return self.tokenizer.encode(text).ids

    def bytes_of(self, id):
        token = self.tokenizer.id_to_token(id) or ""  # the model has a few ids that the tokenizer has not
        return token.encode() if token == END else bytes(self.byte_of[letter] for letter in token)


# ---- drawing


@dataclasses.dataclass
class Group:
    """What one `generate` can do for many requests."""

    fields: dict
    ignores_end: bool
    chat: bool
    likeliest: int

    @classmethod
    def draw(cls, chance, number):
        fields = dict(chance.choice(SETTINGS), seed=chance.choice([0, 1, 77, 1 << 40]), max_tokens=chance.choice([1, 2, 9, 33, 70, 120]))
        if stops := chance.choice(STOPS):
            fields["stop"] = list(stops) if len(stops) > 1 else stops[0]
        return cls(fields, chance.random() < 0.3, number % 4 == 3, chance.randrange(4))

    def options(self):
        stop = self.fields.get("stop", [])
        stops = [stop] if isinstance(stop, str) else stop
        stops = stops + [TURN_END] * (self.chat and not self.ignores_end)
        given = {name.replace("_", "-"): value for name, value in self.fields.items() if name not in ("max_tokens", "stop")}
        options = [word for name, value in dict(given, tokens=self.fields["max_tokens"], logprobs=self.likeliest).items() for word in (f"--{name}", value)]
        return options + ["--ignore-end"] * self.ignores_end + [word for text in stops for word in ("--stop", text)]


@dataclasses.dataclass
class Drawn(Request):
    """A request, and what its answer depends on."""

    fields: dict = dataclasses.field(default_factory=dict)
    group: int = -1  # number of its group; -1: `generate` has no such option
    prompts: tuple = ()  # texts
    delay_s: float = 0  # before it is sent


def messages_of(chance):
    said = [dict(role=role, content=chance.choice([text for text in TEXTS if len(text) < 100])) for role in ("system", "user", "assistant", "user")]
    return said[chance.choice([0, 1, 3]):]


def rendered(messages):
    return "".join(f"{message['role']} {message['content']}ord" for message in messages) + "line "


def prompt_forms(chance, texts, tokenizer):
    """A prompt as JSON. The empty text has no ids."""
    as_ids = chance.random() < 0.4 and all(texts)
    forms = [tokenizer.ids(text) if as_ids else text for text in texts]
    return forms[0] if len(forms) == 1 and chance.random() < 0.7 else forms


def draw_completion(chance, fields, body, tokenizer):
    texts = [chance.choice(TEXTS) for _ in range(chance.choice([1, 1, 1, 1, 2, 3]))]
    body.update(fields, prompt=prompt_forms(chance, texts, tokenizer))
    if chance.random() < 0.2 and "stream" not in body:
        body["best_of"] = chance.randrange(body["n"], MOST + 1)
    if chance.random() < 0.2:
        body["echo"] = True
    return texts


def draw_chat(chance, fields, body, _):
    body.update(fields, messages=messages_of(chance))
    return [rendered(body["messages"])]


def draw_one(chance, groups, tokenizer):
    other = chance.random() < 0.12
    number = -1 if other else chance.randrange(len(groups))
    group = Group.draw(chance, chance.randrange(8)) if other else groups[number]
    body = dict(n=chance.choice([1, 1, 1, 2, 3]), return_token_ids=True)
    if chance.random() < 0.4:
        body.update(stream=True, stream_options=dict(include_usage=True))
    if group.ignores_end:
        body["ignore_eos"] = True
    fields = {**group.fields, **(chance.choice(NOT_OF_GENERATE) if other else {})}
    texts = (draw_chat if group.chat else draw_completion)(chance, fields, body, tokenizer)
    if chance.random() < 0.4:
        body.update(dict(logprobs=True, top_logprobs=group.likeliest) if group.chat else dict(logprobs=group.likeliest))
    drawn = Drawn(PATHS[group.chat], json.dumps(body).encode(), (200,), streams="stream" in body, fields=body, group=number, prompts=tuple(texts),
                  delay_s=chance.choice([0, 0, 0, chance.expovariate(50), chance.expovariate(10)]))
    if chance.random() < 0.2:
        drawn.departure, drawn.resets, drawn.wait_s = chance.choice(DEPARTURES), chance.random() < 0.5, chance.choice([0, 0.005, 0.02, 0.1])
    return drawn


class Arrivals(Load):
    """These requests. A client waits for a moment before it sends one."""

    def __init__(self, server, drawn):
        super().__init__(0, CLIENTS, port=server.port, key=server.key)
        self.drawn = drawn

    def request(self, number):
        return self.drawn[number]

    async def ask(self, client, request):
        await asyncio.sleep(request.delay_s)
        return await super().ask(client, request)


# ---- answers


def joined(events):
    """The choices of a stream, as they are in a whole answer."""
    found = {}
    for part in (choice for event in events for choice in event["choices"]):
        choice = found.setdefault(part["index"], dict(text="", ids=[], logprobs=None, prompt=None))
        choice["text"] += part["delta"].get("content", "") if "delta" in part else part["text"]
        choice["ids"] += part.get("token_ids", [])
        choice["prompt"] = choice["prompt"] or part.get("prompt_token_ids")
        choice["finish"] = part["finish_reason"]
        for name, values in (part["logprobs"] or {}).items():
            choice["logprobs"] = choice["logprobs"] or collections.defaultdict(list)
            choice["logprobs"][name] += values
    return [found[index] for index in sorted(found)]


def whole(choice):
    text = choice["message"]["content"] if "message" in choice else choice["text"]
    return dict(text=text, ids=choice["token_ids"], logprobs=choice["logprobs"], prompt=choice["prompt_token_ids"], finish=choice["finish_reason"])


def read(request, answer):
    """Choices and usage of an answer."""
    if not request.streams:
        document = json.loads(answer)
        assert [choice["index"] for choice in document["choices"]] == list(range(len(document["choices"])))
        return [whole(choice) for choice in document["choices"]], document["usage"]
    events = [json.loads(event[len("data: "):]) for event in answer.decode().split("\n\n") if event.startswith("data: {")]
    return joined(events), events[-1]["usage"]


# ---- what `generate` writes


class Written:
    """The texts of a group: `generate` writes MOST samples of each prompt of its requests, in one process."""

    def __init__(self, run, folder, group, requests, options):
        prompts = sorted({text for request in requests for text in request.prompts})
        (folder / "prompts.jsonl").write_text("".join(json.dumps(dict(prompt=text)) + "\n" for text in prompts))
        words = ("generate", run, "--prompts", folder / "prompts.jsonl", "--json", "--samples", MOST, *group.options(), *options)
        lines = [json.loads(line) for line in trireme(*words).stdout.strip("\n").split("\n")]  # splitlines() ends lines at U+2028, too
        assert len(lines) == MOST * len(prompts)
        self.lines = {(prompts[line["number"]], line["sample"]): line for line in lines}

    def choices(self, request, tokenizer):
        """Returns the expected choices and usage of a request."""
        fields, out, written = request.fields, [], 0
        for prompt in request.prompts:
            lines = [self.lines[prompt, sample] for sample in range(fields.get("best_of", fields["n"]))]
            written += sum(len(line["ids"]) for line in lines)
            if len(lines) > fields["n"]:
                lines.sort(key=mean, reverse=True)  # equal ones stay in their order
            out += [choice_of(line, fields, "messages" in fields, tokenizer) for line in lines[:fields["n"]]]
        read = sum(len(self.lines[prompt, 0]["prompt_ids"]) for prompt in request.prompts)
        return out, dict(prompt_tokens=read, completion_tokens=written, total_tokens=read + written)


def mean(line):
    total = 0.0
    for value in line["logprobs"]["model"]:  # in this order: newer Pythons' sum() rounds otherwise
        total += value
    return total / len(line["logprobs"]["model"])


def token_name(tokenizer, id):
    """The text of a token, as the server writes it."""
    try:
        return tokenizer.bytes_of(id).decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in tokenizer.bytes_of(id))


def named(tokenizer, top, own):
    """The likeliest tokens under their texts. If a text has NUL or is another token's, the key has the id. The token itself, `own`, keeps its text."""
    out = {}
    for id, value in top.items():
        name = token_name(tokenizer, id)
        taken = "\0" in name or name in out or id != own and name == token_name(tokenizer, own)
        out[f"token_id:{id}" if taken else name] = value
    return out


def top_of(line, place):
    """Ids and log-probabilities of the likeliest tokens. The token itself has one number everywhere."""
    own, value = line["ids"][place], line["logprobs"]["model"][place]
    return {other["id"]: value if other["id"] == own else other["logprob"] for other in (line["logprobs"]["top"] or [[]] * len(line["ids"]))[place]}


def chat_token(tokenizer, id, value):
    return dict(token=token_name(tokenizer, id), logprob=value, bytes=list(tokenizer.bytes_of(id)))


def offsets(tokenizer, ids):
    """Characters before each token. Each character is counted at its first byte."""
    begun = [sum(byte < 0x80 or byte >= 0xC0 for byte in tokenizer.bytes_of(id)) for id in ids]
    return [0, *itertools.accumulate(begun)][:-1]


def log_probs_of(line, fields, chat, tokenizer):
    if fields.get("logprobs") is None:
        return None
    ids, values, tops = line["ids"], line["logprobs"]["model"], [top_of(line, place) for place in range(len(line["ids"]))]
    if chat:
        likeliest = [[chat_token(tokenizer, *likely) for likely in top.items()] for top in tops]
        return dict(content=[dict(chat_token(tokenizer, id, value), top_logprobs=top) for id, value, top in zip(ids, values, likeliest)])
    tops = [named(tokenizer, {**top, id: value}, id) for top, id, value in zip(tops, ids, values)]
    if fields.get("echo"):
        ids, values = line["prompt_ids"] + ids, line["logprobs"]["prompt"] + values
    return dict(tokens=[token_name(tokenizer, id) for id in ids], token_logprobs=values, top_logprobs=tops, text_offset=offsets(tokenizer, ids))


def choice_of(line, fields, chat, tokenizer):
    finish = "length" if line["finish"] == "length" else "stop"
    text = line["prompt"] * fields.get("echo", False) + line["text"]
    return dict(text=text, ids=line["ids"], logprobs=log_probs_of(line, fields, chat, tokenizer), prompt=line["prompt_ids"], finish=finish)


def without_prompt_tops(choice):
    """`generate` has no likeliest tokens of a prompt."""
    found = choice["logprobs"]
    if not found or "content" in found:
        return choice
    assert {len(values) for values in found.values()} == {len(found["tokens"])}
    for token, value, top in zip(found["tokens"], found["token_logprobs"], found["top_logprobs"]):
        assert top is None or "\0" in token or top[token] == value
    return dict(choice, logprobs=dict(found, top_logprobs=found["top_logprobs"][len(found["tokens"]) - len(choice["ids"]):]))


# ---- the tests


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    skip_without_server()
    run = make_model(tmp_path_factory.mktemp("serve"))
    (run.parent / "ord.jinja").write_text(TEMPLATE)
    return run


@pytest.fixture(scope="module")
def pairs(run):
    """A Hugging Face folder with random weights, and its tokenizer."""
    tokenizer = json.loads((pathlib.Path(__file__).parent / "choice_cases.json").read_text(encoding="utf-8"))["tokenizers"]["gpt2"]
    return choice_models.write_model(run.parent / "pairs", "gpt2", tokenizer, n_positions=512), Pairs(tokenizer)


async def answers(server, drawn):
    load = Arrivals(server, drawn)
    pages = (await load.metrics())["cache_pages_free"]
    await load.run(0, len(drawn))
    found = await load.check_rest(pages)
    assert load.departed + len(load.answers) == len(drawn) and found["requests_failed_total"] == 0
    return load.answers


async def ask_alone(server, requests):
    load = Arrivals(server, requests)
    client = Client(load)
    await client.connect()
    found = [await Load.ask(load, client, request) for request in requests]
    await client.leave(False)
    return found


def check(run, folder, seed, count, serve=(), generate=(), tokenizer=Bytes()):
    print(f"the requests are those of seed {seed}")  # of TRIREME_TEST_TURN
    chance = random.Random(seed)
    groups = [Group.draw(chance, number) for number in range(GROUPS)]
    drawn = [draw_one(chance, groups, tokenizer) for _ in range(count)]
    template = ("--chat-template", run.parent / "ord.jinja")
    with Server(run, *template, "--batch", 4, "--cache", "320KiB", *serve) as server:
        answered = {number: read(drawn[number], answer) for number, answer in asyncio.run(answers(server, drawn)).items()}
    assert len(answered) > 0.7 * count
    for number, group in enumerate(groups):
        mine = [i for i in answered if drawn[i].group == number]
        written = Written(run, folder, group, [drawn[i] for i in mine], generate) if mine else None
        for i in mine:
            choices, usage = answered[i]
            expected = written.choices(drawn[i], tokenizer)
            assert ([without_prompt_tops(choice) for choice in choices], usage) == expected, f"request {i}: {drawn[i].body}"
    others = [i for i in answered if drawn[i].group < 0]
    with Server(run, *template, "--batch", 1, *serve) as server:
        for i, answer in zip(others, asyncio.run(ask_alone(server, [drawn[i] for i in others]))):
            assert answered[i] == read(drawn[i], answer), f"request {i}: {drawn[i].body}"
    return answered, drawn


def test_answers_are_what_generate_writes(run, tmp_path):
    answered, drawn = check(run, tmp_path, turn(), REQUESTS)
    finished = [choice["finish"] for choices, _ in answered.values() for choice in choices]
    assert {"stop", "length"} == set(finished) and sum(drawn[i].streams for i in answered) > 50


def test_parts_of_characters(pairs, tmp_path):
    check(pairs[0], tmp_path, turn(), 150, tokenizer=pairs[1])


def test_of_another_arrangement(run, tmp_path):
    """Several ranks, shared matrices, another type, guesses: one of them in each turn, all in tests/full."""
    for name in drawn_count(sorted(ARRANGEMENTS), 1, "arrangements"):
        serve, generate = ARRANGEMENTS[name]
        check(run, tmp_path, turn(), 80, serve, generate)

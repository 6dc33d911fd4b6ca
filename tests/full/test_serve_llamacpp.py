"""The same requests to `trireme serve` and to llama.cpp's server (PyPI's xllamacpp) with one model: keys and types of answers, of the events of
streams and of errors, and greedy texts with their log-probabilities in fp32. Differences are in tables, with their reasons."""
import json
import pathlib
import subprocess
import sys

import pytest

xllamacpp = pytest.importorskip("xllamacpp")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "oracle"))

if __name__ != "__main__":
    from parity import trireme
    from serving import Server, make_model
else:
    Server = object

SLOTS, POSITIONS, KEY = 4, 512, "a-key-of-this-test"
COMPLETIONS, CHATS = "/v1/completions", "/v1/chat/completions"


# ---- llama.cpp's server


def serve_llamacpp(path, template, key):
    """All is computed and stored in fp32. Its usual cache has f16, and its flash attention sums in f16."""
    params = xllamacpp.CommonParams()
    params.model.path, params.port, params.n_ctx, params.n_parallel = path, 0, POSITIONS * SLOTS, SLOTS
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    params.chat_template, params.use_jinja, params.api_keys = pathlib.Path(template).read_text(), True, [key] if key else []
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()


class LlamaCpp(Server):
    def __init__(self, path, template, key=""):
        words = [sys.executable, __file__, path, template, key]
        self.process = subprocess.Popen(list(map(str, words)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.address = self.process.stdout.readline().strip()
        self.port, self.key = int(self.address.rsplit(":", 1)[1]), key


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Returns a run's output. The same model as GGUF and the chat template are next to it."""
    run = make_model(tmp_path_factory.mktemp("serve"))
    trireme("export", run, run.parent / "model.gguf")
    return run


@pytest.fixture(scope="module")
def servers(model):
    template = model.parent / "chat.jinja"
    with Server(model, "--chat-template", template, "--no-token") as ours, LlamaCpp(model.parent / "model.gguf", template) as theirs:
        yield ours, theirs


# ---- the forms of answers


def forms(value, path=""):
    """{path of a member: name of its type}"""
    if isinstance(value, dict) and value:
        return {name: kind for key, member in value.items() for name, kind in forms(member, f"{path}.{key}" if path else key).items()}
    if isinstance(value, list) and value:
        return {name: kind for member in value for name, kind in forms(member, f"{path}[]").items()}
    return {path: type(value).__name__}


def found_in(table, path):
    return [name for name in table if path == name or name.endswith("*") and path.startswith(name[:-1])]


# Members that only one of the servers has; `*` is any end.
OURS = {
    "seed": "with it the answer can be repeated",
    "step": "the checkpoint that wrote it",
    "choices[].logprobs": "OpenAI's: null if a chat did not ask for them",
    "choices[].stop_reason": "vLLM's: the string that ended the text",
    "data[].max_model_len": "vLLM's number of positions",
    "count": "vLLM's answer of /tokenize", "max_model_len": "vLLM's answer of /tokenize", "token_strs": "vLLM's answer of /tokenize",
    "prompt": "vLLM's answer of /detokenize, beside llama-server's `content`",
    "choices[].logprobs.tokens*": "OpenAI's form of a completion's log-probabilities; llama.cpp answers in the form of a chat's",
    "choices[].logprobs.token_logprobs*": "the same", "choices[].logprobs.top_logprobs*": "the same", "choices[].logprobs.text_offset*": "the same",
}
THEIRS = {
    "timings*": "how fast it was: /metrics has times",
    "usage.prompt_tokens_details*": "cached tokens: /metrics has their number",
    "models*": "Ollama's form of the list",
    "data[].aliases*": "a model has one name here", "data[].tags*": "llama.cpp's own", "data[].architecture*": "llama.cpp's own", "data[].meta*": "llama.cpp's own",
    "choices[].logprobs.content*": "a completion's, as above",
    "choices[].logprobs.content[].id": "llama.cpp's own; `return_token_ids` is vLLM's way to get them", "choices[].logprobs.content[].top_logprobs[].id": "the same",
}
MESSAGES = [dict(role="system", content="be brief"), dict(role="user", content="line 7")]
ANSWERS = {
    "text": (COMPLETIONS, dict(prompt="line 12 of")),
    "stop": (COMPLETIONS, dict(prompt="line 12 of", stop=["e", "o"])),
    "ids": (COMPLETIONS, dict(prompt=list(b"line 7"))),
    "texts": (COMPLETIONS, dict(prompt=["line 7", "some"])),
    "n": (COMPLETIONS, dict(prompt="line 7", n=2)),
    "log-probabilities": (COMPLETIONS, dict(prompt="line 7", logprobs=2)),
    "chat": (CHATS, dict(messages=MESSAGES)),
    "chat, parts": (CHATS, dict(messages=[dict(role="user", content=[dict(type="text", text="a"), dict(type="text", text="b")])])),
    "chat, n": (CHATS, dict(messages=MESSAGES, n=2)),
    "chat, log-probabilities": (CHATS, dict(messages=MESSAGES, logprobs=True, top_logprobs=2)),
    "models": ("/v1/models", None),
    "tokenize": ("/tokenize", dict(content="hé 日本")),
    "detokenize": ("/detokenize", dict(tokens=[104, 195, 169])),
}


def greedy(body):
    return body and dict(body, max_tokens=8, temperature=0)


def test_forms_of_answers(servers):
    used = set()
    for name, (path, body) in ANSWERS.items():
        ours, theirs = (forms(server.json(path, greedy(body))) for server in servers)
        only_ours, only_theirs = ({path for path in one if path not in other} for one, other in ((ours, theirs), (theirs, ours)))
        assert [path for path in only_ours if not found_in(OURS, path)] == [] == [path for path in only_theirs if not found_in(THEIRS, path)], name
        assert {path: kind for path, kind in ours.items() if theirs.get(path, kind) != kind} == {}, name
        used |= {key for path in only_ours for key in found_in(OURS, path)} | {key for path in only_theirs for key in found_in(THEIRS, path)}
    assert used == {*OURS, *THEIRS}  # no reason is left of an older version


def test_values_of_answers(servers):
    """Those that both have and that are not drawn."""
    for name, (path, body) in ANSWERS.items():
        if path not in (COMPLETIONS, CHATS):
            continue
        answers = [server.json(path, greedy(body)) for server in servers]
        for member in ("object", "usage", "choices"):
            ours, theirs = (answer[member] for answer in answers)
            if member == "choices":
                ours, theirs = ([{key: choice[key] for key in ("index", "finish_reason", "text", "message") if key in choice} for choice in choices] for choices in (ours, theirs))
            if member == "usage":
                if name in ("texts", "n", "chat, n"):
                    continue  # llama.cpp counts the first text alone
                theirs = {key: value for key, value in theirs.items() if key in ours}
            assert ours == theirs, name
    for server in servers:
        assert server.json("/v1/models")["object"] == "list" and [one["object"] for one in server.json("/v1/models")["data"]] == ["model"]
    for text in ("", "hé 日本", "a  b\n\n\tc", "<|endoftext|>", "it's <|endoftext|>\r\n"):
        ours, theirs = (server.json("/tokenize", dict(content=text))["tokens"] for server in servers)
        assert ours == theirs, text
        # Special tokens are left out by us, as by vLLM.
        ids = [id for id in ours if id != 256]
        assert servers[0].json("/detokenize", dict(tokens=ids))["content"] == servers[1].json("/detokenize", dict(tokens=ids))["content"] == text.replace("<|endoftext|>", "")


# ---- streams


@pytest.mark.parametrize("name", [name for name, (path, _) in ANSWERS.items() if path in (COMPLETIONS, CHATS)])
@pytest.mark.parametrize("usage", [False, True], ids=["", "usage"])
def test_streams(servers, name, usage):
    path, body = ANSWERS[name]
    body = dict(greedy(body), **({"stream_options": dict(include_usage=True)} if usage else {}))
    found = []
    for server, ours in zip(servers, (True, False)):
        whole, events = server.json(path, body), [event for event in server.events(path, body) if event or ours]  # of several prompts llama.cpp sends `null` first
        # llama.cpp writes the usage of a completion into the event of its last text, whether it is asked or not. OpenAI's API has an event
        # without choices for it, which llama.cpp has for a chat.
        if usage and (ours or path == CHATS):
            last = events.pop()
            assert last["choices"] == [] and (not ours or last["usage"] == whole["usage"])
        if ours:  # OpenAI's API: null in all events but the last
            assert all(event.get("usage", 0) == (None if usage else 0) for event in events)
        kind = {COMPLETIONS: "text_completion", CHATS: "chat.completion.chunk"}[path]
        assert {(event["object"], event["id"], event["model"]) for event in events} == {(kind, events[0]["id"], whole["model"])}
        found.append(parts_of(events, path == CHATS))
        assert {index: (part["text"], part["finish"]) for index, part in found[-1].items()} == {
            choice["index"]: (choice["message"]["content"] if path == CHATS else choice["text"], choice["finish_reason"]) for choice in whole["choices"]}
    ours, theirs = found
    assert {index: (part["text"], part["finish"], part["roles"]) for index, part in ours.items()} == {index: (part["text"], part["finish"], part["roles"]) for index, part in theirs.items()}
    kinds = [{key for part in one.values() for key in part["forms"]} for one in found]
    assert {path for path in kinds[0] - kinds[1] if not found_in(OURS, path)} == set() == {path for path in kinds[1] - kinds[0] if not found_in(THEIRS, path)}


def parts_of(events, chat):
    """{index of a choice: its text, where it ends, how often its role is said, and the forms of its events}"""
    found = {}
    for event in events:
        for choice in event["choices"]:
            part = found.setdefault(choice["index"], dict(text="", finish=None, roles=[], forms=set()))
            assert part["finish"] is None  # no event comes after the last one of a choice
            said = choice["delta"].get("content") if chat else choice["text"]
            part["text"] += said or ""  # llama.cpp: null in a chat's first event, where OpenAI's API has ""
            part["finish"] = choice["finish_reason"]
            part["roles"] += [choice["delta"]["role"]] if chat and "role" in choice["delta"] else []
            # The last event of a chat: no delta in llama.cpp, and the rest of the text here, which may be "".
            part["forms"] |= {name for name in forms(dict(event, choices=[choice])) if name != "choices[].delta" and not name.startswith("usage")}
    return found


# ---- errors


LONG = "x" * (POSITIONS + 88)
USER = dict(role="user", content="a")
BOTH_REFUSE = [
    (COMPLETIONS, "{"), (COMPLETIONS, "[1]"), (COMPLETIONS, ""), (COMPLETIONS, b'{"prompt": "\xff"}'), (COMPLETIONS, dict()), (COMPLETIONS, dict(prompt=3)),
    (COMPLETIONS, dict(prompt=[])), (COMPLETIONS, dict(prompt=[1, -1])), (COMPLETIONS, dict(prompt=[1, 257])), (COMPLETIONS, dict(prompt=LONG)),
    (COMPLETIONS, dict(prompt="x", n=0)), (COMPLETIONS, dict(prompt="x", n=200)), (COMPLETIONS, dict(prompt="x", n=1 << 40)), (COMPLETIONS, dict(prompt="x", temperature="a")),
    (COMPLETIONS, dict(prompt="x", top_p="a")), (COMPLETIONS, dict(prompt="x", stop=[3])), (COMPLETIONS, dict(prompt="x", seed="1")), (COMPLETIONS, dict(prompt="x", stream=1)),
    (COMPLETIONS, dict(prompt="x", max_tokens="a")), (COMPLETIONS, dict(prompt="x", grammar="root ::= nothing")),
    (CHATS, dict()), (CHATS, dict(messages=3)), (CHATS, dict(messages=[3])), (CHATS, dict(messages=[dict(role="user")])), (CHATS, dict(messages=[dict(role="user", content=3)])),
    (CHATS, dict(messages=[dict(role="user", content=[dict(type="other")])])), (CHATS, dict(messages=[USER], top_logprobs=3)), (CHATS, dict(messages=[USER], stream=True, n=0)),
    (CHATS, dict(messages=[USER], response_format=dict(type="nothing"))), (CHATS, dict(messages=[dict(role="user", content=LONG)])),
    ("/tokenize", "{"), ("/tokenize", dict(content=3)), ("/detokenize", "{"), ("/detokenize", dict(tokens=3)), ("/detokenize", dict(tokens=["a"])),
    ("/nowhere", dict()), ("/nowhere", None), (COMPLETIONS, None), ("/v1/models", dict()),
]
# Our status and llama.cpp's.
OTHERWISE = [
    # llama.cpp ignores or changes a value that it cannot use. Here a mistake of the client is said.
    *((400, 200, COMPLETIONS, dict(prompt="x", **fields)) for fields in (
        dict(n=1.5), dict(temperature=-1), dict(top_p=2), dict(logprobs=21), dict(logprobs=-1), dict(stop=3), dict(stop=""), dict(logit_bias=[1]), dict(logit_bias={"a": 1}), dict(seed=-1),
        dict(stream_options=[]), dict(model=3), dict(presence_penalty=3))),
    (400, 200, COMPLETIONS, '{"prompt": "x", "prompt": "y"}'), (400, 200, COMPLETIONS, dict(prompt=[[]])),
    *((400, 200, CHATS, dict(dict(messages=[USER]), **fields)) for fields in (dict(messages=[]), dict(logprobs=3), dict(tool_choice=3), dict(chat_template_kwargs=3))),
    (400, 200, "/tokenize", dict()), (400, 200, "/detokenize", dict()),
    # It writes nothing, or as many tokens as there are positions left.
    (400, 200, COMPLETIONS, dict(prompt="x", max_tokens=0)), (400, 200, CHATS, dict(messages=[USER], max_tokens=0)), (400, 200, COMPLETIONS, dict(prompt="x", max_tokens=5000)),
    # It takes lists in which ids and texts are mixed.
    (400, 200, COMPLETIONS, dict(prompt=[1, "x"])),
    # Any model is its only one.
    (404, 200, COMPLETIONS, dict(prompt="x", model="other")),
    # Fields that it ignores in a completion and has for a chat, and fields that are not supported here.
    (400, 200, COMPLETIONS, dict(prompt="x", suffix="y")), (400, 200, COMPLETIONS, dict(prompt="x", json_schema=3)), (400, 200, CHATS, dict(messages=[USER], max_tokens=1, response_format=dict(type="json_object"))),
    # Mistakes of the client that it takes for its own.
    *((400, 500, CHATS, dict(messages=[message])) for message in (
        dict(content="a"), dict(role="user", content=[dict(type="text")]), dict(role="user", content=[dict(type="image_url", image_url=dict(url="x"))]))),
    (400, 500, CHATS, dict(messages=[USER], tools=[{}])), (400, 500, CHATS, dict(messages=[USER], tools=3)), (400, 500, "/detokenize", dict(tokens=[257])),
    # It can, with another option.
    (404, 501, "/v1/embeddings", dict(input="a")),
    # It has no more choices than slots, at which texts wait here.
    (200, 400, COMPLETIONS, dict(prompt="x", n=SLOTS + 1)),
]


def check_error(document, status, ours):
    error = document["error"]
    assert list(document) == ["error"] and error["code"] == status and isinstance(error["message"], str) and error["message"]
    assert set(error) == ({"message", "type", "code", "param"} if ours else {"message", "type", "code"})  # llama.cpp has no `param`, which OpenAI's API has
    return error["type"]


@pytest.mark.parametrize("path,body", BOTH_REFUSE, ids=lambda value: str(value)[:60])
def test_both_refuse(servers, path, body):
    answers = [server.ask(path, body) for server in servers]
    documents = [json.loads(text) for _, _, text in answers]
    assert answers[0][0] == answers[1][0] and all(headers["Content-Type"].startswith("application/json") for _, headers, _ in answers)
    for name in ("n_prompt_tokens", "n_ctx"):  # our message has both numbers
        assert (documents[1]["error"].pop(name, None) is None) == (LONG not in json.dumps(body if isinstance(body, dict) else ""))
    ours, theirs = (check_error(document, answer[0], i == 0) for i, (document, answer) in enumerate(zip(documents, answers)))
    assert ours == ("invalid_request_error" if theirs == "exceed_context_size_error" else theirs)


@pytest.mark.parametrize("ours,theirs,path,body", OTHERWISE, ids=lambda value: str(value)[:60])
def test_one_refuses(servers, ours, theirs, path, body):
    answers = [server.ask(path, body) for server in servers]
    assert [status for status, _, _ in answers] == [ours, theirs]
    for i, (status, _, text) in enumerate(answers):
        if status != 200:
            check_error(json.loads(text), status, i == 0)


def test_keys(model):
    """`/health` needs none."""
    (model.parent / "keys").write_text(KEY + "\n")
    template = model.parent / "chat.jinja"
    with Server(model, "--api-key-file", model.parent / "keys") as ours, LlamaCpp(model.parent / "model.gguf", template, KEY) as theirs:
        for server in (ours, theirs):
            assert server.ask("/health", key=False)[0] == 200
            server.key = KEY
            assert server.ask(COMPLETIONS, dict(prompt="x"))[0] == 200
            for headers in ({}, {"Authorization": "Bearer other"}):
                status, _, text = server.ask(COMPLETIONS, dict(prompt="x"), key=False, headers=headers)
                assert status == 401 and check_error(json.loads(text), 401, server is ours) == "authentication_error"
            assert server.ask("/v1/models", key=False)[0] == 401


# ---- greedy texts


PROMPTS = ["line 12 of", "line 3", "s", "some text, and more words\nline 99", "Größe 日本", "line 7 of some text, and " * 9, "words" * 40, "\n\n"]


def name_of(token):
    """Returns the name that `token` has in our log-probabilities of a completion. llama.cpp's have the bytes, too."""
    try:
        return bytes(token["bytes"]).decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in token["bytes"])


def tokens_of(choice):
    """[(token, log-probability, log-probabilities of the likeliest tokens, in order)]"""
    found = choice["logprobs"]
    if "content" not in found:
        return [(token, value, sorted(top.values())) for token, value, top in zip(found["tokens"], found["token_logprobs"], found["top_logprobs"])]
    return [(name_of(one), one["logprob"], sorted(top["logprob"] for top in one["top_logprobs"])) for one in found["content"]]


@pytest.mark.parametrize("prompt", PROMPTS, ids=lambda text: repr(text)[:20])
@pytest.mark.parametrize("chat", [False, True], ids=["completion", "chat"])
def test_greedy_texts(servers, prompt, chat):
    asked = dict(messages=[dict(role="user", content=prompt)], logprobs=True, top_logprobs=5) if chat else dict(prompt=prompt, logprobs=5)
    ours, theirs = (server.json(CHATS if chat else COMPLETIONS, dict(asked, max_tokens=80, temperature=0))["choices"][0] for server in servers)
    assert (ours["message"] if chat else ours["text"]) == (theirs["message"] if chat else theirs["text"])
    assert ours["finish_reason"] == theirs["finish_reason"]
    for mine, other in zip(tokens_of(ours), tokens_of(theirs), strict=True):
        assert mine[0] == other[0]
        assert (mine[1], *mine[2]) == pytest.approx((other[1], *other[2]), abs=1e-4, rel=0)


@pytest.mark.parametrize("fields", [dict(top_k=1, temperature=1), dict(logit_bias={"122": 100}), dict(logit_bias={"101": -100, "32": -100}), dict(stop=["e", "9"]), dict(stop="nothing"),
                                    dict(stop=[" of", "or"])], ids=str)
def test_settings(servers, fields):
    for prompt in PROMPTS:
        answers = [server.json(COMPLETIONS, dict(dict(prompt=prompt, max_tokens=40, temperature=0), **fields)) for server in servers]
        ours, theirs = ((answer["choices"][0]["text"], answer["choices"][0]["finish_reason"]) for answer in answers)
        assert ours == theirs, prompt


if __name__ == "__main__":
    serve_llamacpp(*sys.argv[1:])

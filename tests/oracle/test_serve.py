"""trireme serve: its answers beside `trireme generate`, its errors, its limits, and clients that misbehave. The clients are Python's HTTP
client, raw sockets and OpenAI's own."""
import json
import shutil
import signal
import socket
import subprocess
import time

import pytest
from browser import Browser, needs_chromium
from parity import trireme, words_of
from serving import Server, make_model, skip_without_server, wait_for


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_model(tmp_path_factory.mktemp("serve"))


@pytest.fixture(scope="module")
def server(run):
    skip_without_server()
    with Server(run, "--chat-template", run.parent / "chat.jinja", "--batch", 4, "--cache", "256KiB") as server:
        yield server


def generated(run, *arguments):
    """The lines that `generate --json` prints."""
    return [json.loads(line) for line in trireme("generate", run, "--json", *arguments).stdout.splitlines()]


SETTINGS = [
    dict(temperature=0.0), dict(temperature=0.7, top_k=20), dict(top_p=0.9), dict(min_p=0.05, repetition_penalty=1.2), dict(repetition_penalty=1.1, top_k=5),
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_choices_are_samples_of_generate(run, server, settings):
    options = [word for name, value in settings.items() for word in (f"--{name.replace('_', '-')}", value)]
    lines = generated(run, "--prompt", "line 12", "--tokens", 30, "--samples", 3, "--seed", 77, *options)
    answer = server.complete("line 12", max_tokens=30, n=3, seed=77, **settings)
    assert [choice["text"] for choice in answer["choices"]] == [line["text"] for line in lines]
    assert answer["seed"] == 77 and answer["usage"]["prompt_tokens"] == 7
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2]


def test_an_answer_does_not_depend_on_the_others(server):
    """Requests of unequal kinds at once, of more texts than there are places and pages, are answered as each one alone."""
    bodies = [
        dict(prompt=f"line {i} of" * (1 + i % 5), max_tokens=3 + 7 * (i % 9), seed=i, n=1 + i % 3, temperature=(i % 4) / 2, top_k=10 * (i % 3),
             logprobs=i % 3 if i % 2 else None, stop=[" t"] if i % 5 == 0 else None)
        for i in range(60)
    ]
    alone = [server.json("/v1/completions", body) for body in bodies]
    for at_once in (5, 30):
        together = server.all_at_once(bodies, at_once)
        assert [answer["choices"] for answer in together] == [answer["choices"] for answer in alone]
    assert server.metric("trireme_requests_running") == 0 and server.metric("trireme_requests_waiting") == 0


def test_prompts_in_all_forms(server):
    ids = list(b"line 7")
    text = server.complete("line 7", max_tokens=9, seed=3)["choices"][0]["text"]
    assert server.complete(ids, max_tokens=9, seed=3)["choices"][0]["text"] == text
    many = server.complete(["line 7", "some"], max_tokens=9, seed=3, n=2)
    assert [c["index"] for c in many["choices"]] == [0, 1, 2, 3] and many["choices"][0]["text"] == text
    assert server.complete([ids, ids], max_tokens=9, seed=3)["choices"][1]["text"] == text
    assert many["usage"]["prompt_tokens"] == 10


def test_log_probs_of_prompt_and_text(run, server):
    """As lm-eval asks for them: with echo, and one token written."""
    line = generated(run, "--prompt", "line 3 of", "--tokens", 1, "--temperature", 0, "--logprobs", 2)[0]["logprobs"]
    answer = server.complete("line 3 of", max_tokens=1, temperature=0, logprobs=2, echo=True)["choices"][0]
    found = answer["logprobs"]
    assert answer["text"].startswith("line 3 of")
    assert found["token_logprobs"] == [*line["prompt"], *line["model"]] and found["token_logprobs"][0] is None
    assert len(found["tokens"]) == len(found["top_logprobs"]) == 10 and found["text_offset"] == list(range(10))
    for token, value, top in list(zip(found["tokens"], found["token_logprobs"], found["top_logprobs"]))[1:]:
        assert top[token] == value and len(top) in (2, 3) and max(top.values()) >= value
    one = server.complete("line 3 of", max_tokens=1, temperature=0, logprobs=1, echo=True)["choices"][0]["logprobs"]
    assert one["token_logprobs"] == found["token_logprobs"]
    for alone, more in zip(one["top_logprobs"][1:], found["top_logprobs"][1:]):
        assert max(alone.values()) == pytest.approx(max(more.values()), abs=1e-12)
    assert one["token_logprobs"][-1] == max(one["top_logprobs"][-1].values())
    only = server.complete("line 3 of", max_tokens=0, logprobs=1, echo=True)["choices"][0]
    assert only["text"] == "line 3 of" and only["logprobs"]["token_logprobs"] == one["token_logprobs"][:-1]


def test_prompt_log_probs_as_vllm(server):
    choice = server.complete("line", max_tokens=1, prompt_logprobs=3, return_token_ids=True)["choices"][0]
    assert choice["prompt_token_ids"] == list(b"line") and len(choice["token_ids"]) == 1
    assert choice["prompt_logprobs"][0] is None
    for id, row in zip(b"ine", choice["prompt_logprobs"][1:]):
        assert str(id) in row and sorted(e["rank"] for e in row.values() if e["rank"]) == [1, 2, 3]


@pytest.mark.parametrize("path,body", [
    ("/v1/completions", dict(prompt="line 4", max_tokens=40, seed=9, n=2, logprobs=1)),
    ("/v1/completions", dict(prompt=["line 4", "some"], max_tokens=20, seed=9, echo=True, logprobs=0)),
    ("/v1/completions", dict(prompt="line 4", max_tokens=40, seed=9, stop=["e", "of s"])),
    ("/v1/chat/completions", dict(messages=[dict(role="user", content="hi")], max_tokens=30, seed=1, n=2, logprobs=True, top_logprobs=2)),
], ids=["logprobs", "echo", "stop", "chat"])
def test_a_stream_is_the_whole_answer_in_pieces(server, path, body):
    whole = server.json(path, body)
    events = server.events(path, dict(body, stream_options=dict(include_usage=True)))
    assert {event["id"][:5] for event in events} == {whole["id"][:5]} and {event["seed"] for event in events} == {body["seed"]}
    assert events[-1]["usage"] == whole["usage"] and events[-1]["choices"] == []
    for choice in whole["choices"]:
        parts = [c for event in events[:-1] for c in event["choices"] if c["index"] == choice["index"]]
        chat = "message" in choice
        text = "".join(part["delta"].get("content", "") if chat else part["text"] for part in parts)
        assert text == (choice["message"]["content"] if chat else choice["text"])
        assert [part["finish_reason"] for part in parts][-1] == choice["finish_reason"]
        if choice["logprobs"]:
            for name in choice["logprobs"]:
                assert sum((part["logprobs"][name] for part in parts if part["logprobs"]), []) == choice["logprobs"][name]


def test_chats(server):
    messages = [dict(role="system", content="be brief"), dict(role="user", content=[dict(type="text", text="a"), dict(type="text", text="b")], type="message")]
    said = server.json("/tokenize", dict(messages=messages))["tokens"]
    assert bytes(said).decode() == "<|system|>\nbe brief\n<|user|>\na\nb\n<|assistant|>\n"
    chat = server.json("/v1/chat/completions", dict(messages=messages, max_completion_tokens=20, seed=5))
    alone = server.complete(said, max_tokens=20, seed=5, stop=["<|user|>"])
    assert chat["choices"][0]["message"]["content"].rstrip() == alone["choices"][0]["text"].rstrip()
    assert chat["choices"][0]["message"]["role"] == "assistant" and chat["object"] == "chat.completion"
    kwargs = server.json("/tokenize", dict(messages=messages[:1], chat_template_kwargs=dict(note="N"), add_generation_prompt=False))["tokens"]
    assert bytes(kwargs).decode() == "<|system|>\nbe brief\nN"
    going = server.json("/tokenize", dict(messages=[messages[0], dict(role="assistant", content="I am ")], continue_final_message=True))["tokens"]
    assert bytes(going).decode() == "<|system|>\nbe brief\n<|assistant|>\nI am"


def test_tokens(server):
    assert server.json("/tokenize", dict(prompt="hé")) == dict(count=3, max_model_len=512, tokens=[104, 195, 169], token_strs=None)
    assert server.json("/tokenize", dict(content="hi", add_special=True))["tokens"] == [104, 105]
    assert server.json("/detokenize", dict(tokens=[104, 195, 169]))["prompt"] == "hé"
    assert server.json("/detokenize", dict(tokens=[]))["prompt"] == "" == server.json("/detokenize", dict(tokens=[256]))["prompt"].strip("<|endoftext|>")
    assert "element 1 of `tokens` should be a token id, from 0 to 256, not 257" in server.json("/detokenize", dict(tokens=[1, 257]), status=400)["error"]["message"]
    echoed = server.complete(list("hé".encode()), max_tokens=0, echo=True)["choices"][0]["text"]
    assert echoed == "hé"
    info = server.json("/tokenizer_info")
    assert info["vocab_size"] == 257 and "assistant" in json.dumps(info["chat_template"])
    assert server.json("/v1/models")["data"][0]["id"] == "run"


def test_penalties_and_bias(server):
    assert server.complete("line", max_tokens=5, temperature=0, logit_bias={"122": 100})["choices"][0]["text"] == "zzzzz"
    plain = server.complete("line", max_tokens=60, temperature=0)["choices"][0]["text"]
    varied = server.complete("line", max_tokens=60, temperature=0, frequency_penalty=2, presence_penalty=2)["choices"][0]["text"]
    assert len(set(varied)) > len(set(plain))


def test_best_of(server):
    every = server.complete("line", max_tokens=8, n=4, best_of=4, seed=2, logprobs=0)["choices"]
    best = server.complete("line", max_tokens=8, n=1, best_of=4, seed=2)["choices"]
    means = [sum(c["logprobs"]["token_logprobs"]) / len(c["logprobs"]["token_logprobs"]) for c in every]
    assert [c["text"] for c in best] == [every[means.index(max(means))]["text"]]


REFUSED = [
    (dict(prompt="x", n=0), 400, "`n` is 0, but should be 1 to 128"), (dict(prompt="x", n=1.5), 400, "`n` should be an integer"), (dict(prompt="x", n=129), 400, "n"),
    (dict(prompt="x", temperature=-1), 400, "`temperature` is -1"), (dict(prompt="x", top_p=2), 400, "top_p"), (dict(prompt="x", logprobs=21), 400, "logprobs"),
    (dict(prompt="x", max_tokens=0), 400, "with `echo` only"), (dict(prompt="x", max_tokens=5000), 400, "512 positions"), (dict(prompt="x" * 600), 400, "the prompt has 600 tokens"),
    (dict(prompt=[]), 400, "empty list"), (dict(prompt=[[]]), 400, "empty list of token ids"), (dict(prompt=[1, 257]), 400, "0 to 256"), (dict(prompt=[1, -1]), 400, "0 to 256"),
    (dict(prompt=[1, "x"]), 400, "not a string"), (dict(prompt=3), 400, "`prompt` has a number"), (dict(), 400, "`prompt` should be"), (dict(prompt=""), 200, ""),
    (dict(prompt="x", model="other"), 404, "the model's name is `run`"), (dict(prompt="x", model="a" + "é" * 110), 404, "the model's name is `run`"), (dict(prompt="x", model=3), 400, "model"), (dict(prompt="x", model="run"), 200, ""),
    (dict(prompt="x", stop=""), 400, "empty string"), (dict(prompt="x", stop=["a"] * 17), 400, "more than 16"), (dict(prompt="x", stop=[3]), 400, "`stop` should be"), (dict(prompt="x", stop="é" * 200), 400, "256"),
    (dict(prompt="x", logit_bias={"a": 1}), 400, "not a token id"), (dict(prompt="x", logit_bias={"257": 1}), 400, "0 to 256"), (dict(prompt="x", logit_bias={"01": 1}), 400, "0 to 256"), (dict(prompt="x", logit_bias={"é" * 30: 1}), 400, "0 to 256"), (dict(prompt="x", logit_bias={"3": 101}), 400, "-100 to 100"), (dict(prompt="x", logit_bias=[1]), 400, "an object"),
    (dict(prompt="x", seed=-1), 400, "seed"), (dict(prompt="x", seed="1"), 400, "seed"), (dict(prompt="x", stream=1), 400, "true or false"), (dict(prompt="x", stream_options=[]), 400, "stream_options"),
    (dict(prompt="x", best_of=2, stream=True), 400, "best_of"), (dict(prompt="x", n=3, best_of=2), 400, "less than `n`"), (dict(prompt=["x"] * 100, n=2), 400, "more than 128"),
    (dict(prompt="x", suffix="y"), 400, "`suffix` is not supported"), (dict(prompt="x", suffix=""), 200, ""), (dict(prompt="x", tools=[]), 200, ""), (dict(prompt="x", tools=[{}]), 400, "--ignore tools"),
    (dict(prompt="x", response_format=dict(type="text")), 200, ""), (dict(prompt="x", response_format=dict(type="json_object")), 400, "`response_format` is not supported"),
    (dict(prompt="x", tool_choice="none"), 200, ""), (dict(prompt="x", presence_penalty=3), 400, "presence_penalty"), (dict(prompt="x", user="me", frequency_penalty=0), 200, ""),
    ('{"prompt": "x", "temperature": NaN}', 400, "not valid JSON"), ('{"prompt": "x", "temperature": 1e400}', 400, "not valid JSON"), ('{"prompt": "x", "n": 99999999999999999999}', 400, "not valid JSON"),
    ("[" * 70, 400, "nested more than 64"), ("[1]", 400, "should be a JSON object"), ("", 400, "not valid JSON"), ('{"prompt": "x", "prompt": "y"}', 400, "duplicate"),
    (b'{"prompt": "\xff\xfe"}', 400, "not valid JSON"), ('{"prompt": "\\ud800"}', 400, "not valid JSON"), ('{"prompt": "a\\u0000b", "max_tokens": 1}', 200, ""),
]


@pytest.mark.parametrize("body,status,said", REFUSED, ids=lambda value: str(value)[:40])
def test_bodies(server, body, status, said):
    got, _, text = server.ask("/v1/completions", body)
    assert got == status, text
    if status != 200:
        error = json.loads(text)["error"]
        assert said in error["message"] and error["code"] == status and error["type"] in ("invalid_request_error", "not_found_error")
    server.complete("still there", max_tokens=1)


REFUSED_CHATS = [
    (dict(), "`messages` should be a list"), (dict(messages=[]), "empty list"), (dict(messages=[3]), "messages"), (dict(messages=[dict(role="user", content=[dict(type="image_url", image_url=dict(url="x"))])]), "type image_url"),
    (dict(messages=[dict(role="user", content="a")], logprobs=3), "`logprobs` should be true or false"), (dict(messages=[dict(role="user", content="a")], top_logprobs=3), "needs `logprobs`"),
    (dict(messages=[dict(role="user", content="a")], continue_final_message=True, add_generation_prompt=True), "exclude each other"), (dict(messages=[dict(role="user", content="a")], chat_template_kwargs=3), "an object"),
    (dict(messages=[dict(role="user", content="a")], max_tokens=0), "max_tokens"),
]


@pytest.mark.parametrize("body,said", REFUSED_CHATS, ids=lambda value: str(value)[:40])
def test_chat_bodies(server, body, said):
    error = server.json("/v1/chat/completions", body, status=400)["error"]
    assert said in error["message"]


def test_unknown_fields_are_named(server):
    _, headers, _ = server.ask("/v1/completions", dict(prompt="x", max_tokens=1, mystery=1, other=2))
    assert sorted(headers["X-Ignored-Fields"].split(",")) == ["mystery", "other"]


def test_access(run, server):
    body = dict(prompt="x", max_tokens=1)
    assert server.ask("/v1/completions", body, key=False)[0] == 401
    assert server.ask("/v1/completions", body, key=False, headers={"Authorization": "Bearer " + server.key[:-1]})[0] == 401
    assert server.ask("/v1/completions?token=" + server.key, body, key=False)[0] == 200
    assert server.ask("/metrics", key=False)[0] == 401 and server.ask("/tokenizer_info", key=False)[0] == 401
    assert server.ask("/health", key=False)[2] == "alive\n" and server.ask("/ready", key=False)[2] == "ready\n"
    assert server.ask("/v1/models", headers={"Host": "evil.example"})[0] == 421
    assert server.ask("/v1/completions", body, headers={"Content-Type": "text/plain"})[0] == 415
    assert server.ask("/v1/models", method="DELETE")[0] == 405 and server.ask("/v1/embeddings", body)[0] == 404
    assert "Access-Control-Allow-Origin" not in server.ask("/v1/models")[1]
    assert server.ask("/v1/completions", "x" * (5 << 20))[0] == 413


def raw(server, head, body=b"", close=False):
    """Sends bytes, and returns the socket."""
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    key = f"Authorization: Bearer {server.key}\r\n"
    connection.sendall((head + key + "\r\n").encode() + body)
    return connection


POST = "POST /v1/completions HTTP/1.1\r\nHost: localhost:{port}\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_is_noticed(server, stream):
    body = json.dumps(dict(prompt="line", max_tokens=450, n=8, stream=stream, ignore_eos=True)).encode()
    before, free = server.metric("trireme_requests_cancelled_total"), server.metric("trireme_cache_pages_free")
    connections = [raw(server, POST.format(port=server.port) + f"Content-Length: {len(body)}\r\n", body) for _ in range(6)]
    wait_for(lambda: server.metric("trireme_requests_running") > 0)
    for connection in connections:
        connection.close()
    wait_for(lambda: server.metric("trireme_requests_cancelled_total") == before + 6)
    assert server.metric("trireme_requests_running") == 0 == server.metric("trireme_requests_waiting")
    assert server.metric("trireme_cache_pages_free") == free


def test_chunked_slow_and_broken_requests(server):
    body = json.dumps(dict(prompt="line", max_tokens=2, seed=1)).encode()
    wanted = server.complete("line", max_tokens=2, seed=1)["choices"]
    chunked = raw(server, POST.format(port=server.port) + "Transfer-Encoding: chunked\r\nConnection: close\r\n")
    for i in range(0, len(body), 7):
        part = body[i:i + 7]
        chunked.sendall(b"%x\r\n%s\r\n" % (len(part), part))
        time.sleep(0.01)
    chunked.sendall(b"0\r\n\r\n")
    answer = b"".join(iter(lambda: chunked.recv(65536), b""))
    assert b"200 OK" in answer and json.loads(answer[answer.index(b"{"):answer.rindex(b"}") + 1])["choices"] == wanted
    too_long = raw(server, POST.format(port=server.port) + "Content-Length: 99999999999\r\n")
    assert b" 413 " in too_long.recv(100)
    short = raw(server, POST.format(port=server.port) + f"Content-Length: {len(body) + 9}\r\n", body)
    short.close()
    nothing = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(50)]
    raw(server, "NONSENSE\r\n").close()
    assert server.complete("line", max_tokens=2, seed=1)["choices"] == wanted
    for connection in nothing:
        connection.close()


def test_a_full_queue_and_the_end(run):
    with Server(run, "--batch", 1, "--queue", 2, "--no-token", "--ping", 0.1) as server:
        assert server.key == ""
        body = json.dumps(dict(prompt="line", max_tokens=480, ignore_eos=True, stream=True)).encode()
        connections = []
        for i in range(3):
            connections.append(raw(server, POST.format(port=server.port) + f"Content-Length: {len(body)}\r\nConnection: close\r\n", body))
            wait_for(lambda: server.metric("trireme_requests_accepted_total") == i + 1)
        status, headers, _ = server.ask("/v1/completions", dict(prompt="x"))
        if server.metric("trireme_requests_waiting") == 2:  # the texts may have ended meanwhile
            assert status == 429 and headers["Retry-After"] == "1" and server.ask("/ready")[0] == 503
        server.process.send_signal(signal.SIGTERM)
        answers = [b"".join(iter(lambda: connection.recv(65536), b"")) for connection in connections]
        assert server.process.wait(30) == 130
        assert b"[DONE]" in answers[0] and all(b"[DONE]" in answer or b"the server ends" in answer for answer in answers)
    assert "the server has ended" in server.err


def test_a_key_file_an_origin_and_a_socket(run, tmp_path):
    (tmp_path / "keys").write_text("# keys\nfirst-key\n second-key \n")
    with Server(run, "--api-key-file", tmp_path / "keys", "--origin", "https://chat.example") as server:
        assert server.key == "" and server.ask("/v1/models")[0] == 401
        for key in ("first-key", "second-key"):
            assert server.ask("/v1/models", headers={"Authorization": f"Bearer {key}"})[0] == 200
        status, headers, _ = server.ask("/v1/models", headers={"Authorization": "Bearer first-key"})
        assert headers["Access-Control-Allow-Origin"] == "https://chat.example"
        assert server.ask("/v1/completions", method="OPTIONS")[0] == 204
    with Server(run, "--socket", tmp_path / "socket", port=False) as server:
        assert (tmp_path / "socket").stat().st_mode & 0o777 == 0o600
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(str(tmp_path / "socket"))
        connection.sendall(b"GET /v1/models HTTP/1.0\r\n\r\n")
        assert b'"id":"run"' in connection.recv(4096)
    assert not (tmp_path / "socket").exists()


def test_cached_prompts_of_another_key_are_not_found(run, tmp_path):
    (tmp_path / "keys").write_text("one\ntwo\n")
    with Server(run, "--api-key-file", tmp_path / "keys") as server:
        def found(key):
            server.key = key
            before = server.metric("trireme_cached_tokens_total")
            server.complete("some text and more words " * 8, max_tokens=1)
            return server.metric("trireme_cached_tokens_total") - before
        assert [found(key) for key in ("one", "one", "two", "two", "one")] == [0, 192, 0, 192, 192]


@pytest.mark.parametrize("ranks", [1, 2])
def test_following_a_run(run, tmp_path, ranks):
    """Newer weights are loaded, each answer is that of the step that it names, and a damaged checkpoint is passed over."""
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    config = str(tmp_path / "run.yaml")
    (tmp_path / "run.yaml").write_text((run.parent / "run.yaml").read_text().replace(str(run), str(folder)))
    with Server(folder, "--follow", "--no-token", *(["-n", ranks] if ranks > 1 else [])) as server:
        first = server.complete("line 5", max_tokens=20, seed=1)
        assert first["step"] == 60
        trireme("train", config, "--set", "optimizer.steps=70", "--set", "checkpoint.every=10")
        wait_for(lambda: server.complete("line 5", max_tokens=20, seed=1)["step"] == 70)
        second = server.complete("line 5", max_tokens=20, seed=1)
        line = generated(folder, "--prompt", "line 5", "--tokens", 20, "--seed", 1)[0]
        assert second["choices"][0]["text"] == line["text"] and second["system_fingerprint"] != first["system_fingerprint"]
        checkpoints = folder / "checkpoints"
        broken = checkpoints / "step-00000090"
        shutil.copytree(checkpoints / "step-00000070", tmp_path / "broken")
        damaged = tmp_path / "broken/model.safetensors"
        damaged.write_bytes(damaged.read_bytes()[:-100])
        (tmp_path / "broken").rename(broken)
        time.sleep(2.5)
        assert server.complete("line 5", max_tokens=20, seed=1)["choices"] == second["choices"]
    assert "the weights of step 70 replace those of step 60" in server.err and "step-00000090" in server.err


@pytest.mark.parametrize("words,said", [
    ([], "name one checkpoint"), (["{run}", "--no-token", "--token"], "--no-token goes with"), (["{run}", "--socket", "x", "--port", 1], "one of them"), (["{run}", "--host", "0.0.0.0", "--no-token", "--port", 0], "--no-token is for 127.0.0.1 only"),
    (["{run}", "--api-key-file", "{empty}"], "has no key"), (["{run}", "--origin", "https://a\nX: y"], "without spaces"), (["{run}", "--queue", 0], "--queue"), (["{run}", "{run}"], "one run or model at a time"), (["{run}", "--draft-tokens", 3], "--draft FOLDER"),
], ids=lambda value: str(value)[:30])
def test_wrong_options(run, tmp_path, words, said):
    (tmp_path / "empty").write_text("\n# nothing\n")
    done = subprocess.run(words_of("serve", *[str(word).format(run=run, empty=tmp_path / "empty") for word in words]), capture_output=True, text=True, timeout=60)
    assert done.returncode in (2, 4) and said in done.stderr


def test_the_memory_of_dry_run(run):
    said = trireme("serve", run, "--dry-run", "--batch", 4).stdout
    assert "4 texts side by side, of 512 positions at most" in said and "memory plan:" in said


def test_two_ranks_write_the_same(run, server):
    bodies = [dict(prompt=f"line {i}", max_tokens=20, seed=i, n=1 + i % 2, logprobs=2, echo=i % 3 == 0) for i in range(12)]
    wanted = [server.json("/v1/completions", body)["choices"] for body in bodies]
    with Server(run, "-n", 2) as other:
        assert [answer["choices"] for answer in other.all_at_once(bodies)] == wanted


@needs_chromium
def test_the_page(server, tmp_path):
    with Browser(tmp_path) as browser:
        browser.open(server.address)
        browser.wait("document.getElementById('model').textContent === 'run' && document.getElementById('chat').checked")
        browser.value("document.getElementById('text').value = 'hi <b>'; document.getElementById('seed').value = 5; document.getElementById('tokens').value = 30;"
                    "document.getElementById('form').requestSubmit()")
        browser.wait("document.getElementById('status').textContent.includes('30 tokens')")
        said = browser.value("document.querySelector('#log .answer').textContent")
        assert browser.value("document.querySelector('#log .user').textContent") == "hi <b>"
    chat = server.json("/v1/chat/completions", dict(messages=[dict(role="user", content="hi <b>")], max_tokens=30, seed=5))
    assert said == chat["choices"][0]["message"]["content"]


def test_the_official_client(server):
    openai = pytest.importorskip("openai", reason="SKIPPED: the Python package openai is not installed")
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key=server.key, max_retries=0)
    text = client.completions.create(model="run", prompt="line 1", max_tokens=10, seed=4, n=2, logprobs=1)
    assert [c.text for c in text.choices] == [c["text"] for c in server.complete("line 1", max_tokens=10, seed=4, n=2)["choices"]]
    assert text.usage.completion_tokens == 20 and len(text.choices[0].logprobs.tokens) == 10
    messages = [dict(role="user", content="hi")]
    chat = client.chat.completions.create(model="run", messages=messages, max_tokens=10, seed=4, logprobs=True, top_logprobs=3)
    stream = client.chat.completions.create(model="run", messages=messages, max_tokens=10, seed=4, stream=True, stream_options=dict(include_usage=True))
    parts = list(stream)
    assert "".join(p.choices[0].delta.content or "" for p in parts if p.choices) == chat.choices[0].message.content
    assert parts[-1].usage.completion_tokens == chat.usage.completion_tokens and len(chat.choices[0].logprobs.content[0].top_logprobs) == 3
    with pytest.raises(openai.BadRequestError, match="`n` is 0"):
        client.completions.create(model="run", prompt="x", n=0)
    with pytest.raises(openai.NotFoundError):
        client.completions.create(model="other", prompt="x")
    with pytest.raises(openai.AuthenticationError):
        openai.OpenAI(base_url=client.base_url, api_key="wrong", max_retries=0).models.list()
    before = server.metric("trireme_requests_cancelled_total")
    left = client.completions.create(model="run", prompt="x", max_tokens=450, n=8, stream=True, extra_body=dict(ignore_eos=True))
    next(iter(left))
    left.close()
    wait_for(lambda: server.metric("trireme_requests_cancelled_total") == before + 1)
    assert [model.id for model in client.models.list()] == ["run"]

"""A model and a server for tests: `Server` starts `trireme serve` at a free port and asks it with Python's own HTTP client."""
import concurrent.futures
import http.client
import json
import os
import re
import signal
import subprocess
import time
import urllib.parse

import pytest
from parity import trireme, words_of, yaml_of

MODEL = dict(family="llama", num_layers=2, hidden_size=64, num_heads=4, num_kv_heads=2, ffn_size=128, vocab_size=257, max_sequence=512, tied=True)
TEMPLATE = (
    "{% for m in messages %}<|{{ m['role'] }}|>\n{{ m['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}{% if note is defined %}{{ note }}{% endif %}"
)


def skip_without_server():
    done = subprocess.run(words_of("serve", "no-such-run", "--host", "no-such-host.invalid"), capture_output=True, text=True)
    if "was built without libmicrohttpd" in done.stderr:
        pytest.skip("SKIPPED: this trireme was built without libmicrohttpd")


def make_model(folder):
    """A run whose model has learnt a little, so that its texts are neither constant nor all noise."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "text.txt").write_text("".join(f"line {i} of some text, and more words\n" for i in range(4000)))
    trireme("prepare", "--tokenizer", "bytes", "--validation", 0, "--out", folder / "text", folder / "text.txt")
    run = dict(model=MODEL, data=dict(train=str(folder / "text/train"), sequence=64), optimizer=dict(global_batch=8, steps=60, lr=3e-3), output=str(folder / "run"))
    (folder / "run.yaml").write_text(yaml_of(run))
    trireme("train", folder / "run.yaml", "--resume", "never")
    (folder / "chat.jinja").write_text(TEMPLATE)
    return folder / "run"


def post(port, body, more=""):
    return f"POST /v1/completions HTTP/1.1\r\nHost: localhost:{port}\r\nContent-Type: application/json\r\n{more}Content-Length: {len(body)}\r\n\r\n".encode() + body


def wait_for(what, seconds=30):
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until
        time.sleep(0.02)


class Server:
    """Use it in a `with` statement. `key`: the key that was drawn; "" if none was."""

    def __init__(self, *arguments, port=True):
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        words = words_of("serve", *arguments, *(["--port", 0] if port else []))
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        self.address = self.process.stdout.readline().strip()
        assert self.address, self.process.stderr.read()
        parts = urllib.parse.urlsplit(self.address)
        self.port, self.key = parts.port, dict(urllib.parse.parse_qsl(parts.query)).get("token", "")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.err = self.process.communicate(timeout=60)[1]
        print(f"status {self.process.returncode} of the server, which said:\n{self.err}")  # pytest prints it if the test fails

    def ask(self, path, body=None, headers=None, key=True, method=None):
        """Status, headers and body as text. A body that is a dict is sent as JSON."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        sent = {"Authorization": f"Bearer {self.key}"} if key and self.key else {}
        if body is not None:
            sent["Content-Type"] = "application/json"
        data = json.dumps(body) if isinstance(body, dict) else body
        connection.request(method or ("GET" if body is None else "POST"), path, data, {**sent, **(headers or {})})
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, dict(answer.getheaders()), text

    def json(self, path, body=None, status=200, **more):
        got, _, text = self.ask(path, body, **more)
        assert got == status, text
        return json.loads(text)

    def complete(self, prompt, **fields):
        return self.json("/v1/completions", dict(prompt=prompt, **fields))

    def events(self, path, body):
        """The events of a stream, without the last one, which is [DONE]."""
        status, headers, text = self.ask(path, dict(body, stream=True))
        assert status == 200 and headers["Content-Type"].startswith("text/event-stream"), text
        events = [part[len("data: "):] for part in text.split("\n\n") if part.startswith("data: ")]
        assert events[-1] == "[DONE]"
        return [json.loads(event) for event in events[:-1]]

    def metric(self, name):
        return float(re.search(rf"^{name} (\S+)$", self.ask("/metrics")[2], re.M)[1])

    def all_at_once(self, bodies, at_once=16, path="/v1/completions", ask=None):
        with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
            return list(pool.map(ask or (lambda body: self.json(path, body)), bodies))

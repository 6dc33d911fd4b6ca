"""A load for `trireme serve`: requests of all kinds, and clients of which a third leave at a random moment. Standard library only."""
import asyncio
import contextlib
import dataclasses
import json
import os
import random
import re
import socket
import struct

LIMIT_S = 120  # no answer takes so long
DEPARTURES = ["in the body", "after the body", "in the answer", "one side"]


class Violation(Exception):
    """A promise that was not kept."""


@dataclasses.dataclass
class Request:
    path: str
    body: bytes  # b"": GET
    statuses: tuple  # that the answer may have
    departure: str = ""  # "": the client stays
    resets: bool = False  # leaves with a reset instead of an end
    wait_s: float = 0  # before it leaves
    streams: bool = False


# ---- drawing


def draw_settings(chance):
    fields = dict(seed=chance.randrange(1 << 40), max_tokens=chance.choice([1, 3, 12, 40, 120]), temperature=chance.choice([0, 0.7, 1, 2]), n=chance.choice([1, 1, 2, 3]))
    for name, values in dict(top_k=[1, 20], top_p=[0.5, 0.9], min_p=[0.1], repetition_penalty=[1.2], frequency_penalty=[1], stop=[" t", ["e", "9"]], ignore_eos=[True]).items():
        if chance.random() < 0.2:
            fields[name] = chance.choice(values)
    return fields


def draw_completion(chance):
    fields = draw_settings(chance)
    text = f"line {chance.randrange(99)} of some text" * chance.randrange(1, 5)
    fields["prompt"] = chance.choice([text, text[:7], list(text.encode()), [text, "some"], [[108, 105], [110]], ""])
    if chance.random() < 0.3:
        fields.update(logprobs=chance.randrange(6), echo=chance.random() < 0.7)
    if chance.random() < 0.1:
        fields["best_of"] = fields["n"] + 2
    return "/v1/completions", fields


def draw_chat(chance):
    fields = draw_settings(chance)
    fields["messages"] = [dict(role="user", content=f"line {chance.randrange(99)}"), dict(role="assistant", content="of"), dict(role="user", content="some")][:chance.choice([1, 3])]
    if chance.random() < 0.3:
        fields.update(logprobs=True, top_logprobs=chance.randrange(4))
    return "/v1/chat/completions", fields


BAD = [b" ", b"{", b"[]", b'{"prompt": 3}', b'{"prompt": "x", "n": 0}', b'{"prompt": "x", "tools": [1]}', b"[" * 5000, b'{"prompt": "\xff"}', b'{"prompt": "' + b"x" * 9000 + b'"}', b'{"messages": [3]}']


def draw_request(chance, chats):
    """`chats`: whether the server has a chat template."""
    kind = chance.random()
    if kind < 0.08:
        return Request(chance.choice(["/v1/completions", "/v1/chat/completions"]), chance.choice(BAD), (400,))
    if kind < 0.2:
        path, fields = chance.choice([("/tokenize", dict(prompt="some text" * 50)), ("/detokenize", dict(tokens=[108] * 200)), ("/v1/models", None), ("/health", None), ("/metrics", None)])
        return Request(path, b"" if fields is None else json.dumps(fields).encode(), (200,))
    path, fields = draw_chat(chance) if chats and kind < 0.5 else draw_completion(chance)
    if chance.random() < 0.4 and "best_of" not in fields:
        fields.update(stream=True, stream_options=dict(include_usage=chance.random() < 0.5))
    request = Request(path, json.dumps(fields).encode(), (200,), streams="stream" in fields)
    if chance.random() < 0.4:  # a third of all
        request.departure, request.resets, request.wait_s = chance.choice(DEPARTURES), chance.random() < 0.5, chance.choice([0, 0, 0.01, 0.1])
    return request


# ---- a client


class Client:
    """One connection. It serves several requests, one after the other."""

    def __init__(self, load):
        self.load, self.reader, self.writer = load, None, None

    async def connect(self):
        load = self.load
        self.reader, self.writer = await (asyncio.open_unix_connection(load.socket) if load.socket else asyncio.open_connection("127.0.0.1", load.port))

    async def send(self, request):
        head = f"{'POST' if request.body else 'GET'} {request.path} HTTP/1.1\r\nHost: localhost:{self.load.port}\r\nAuthorization: Bearer {self.load.key}\r\n"
        if request.body:
            head += f"Content-Type: application/json\r\nContent-Length: {len(request.body)}\r\n"
        if request.departure == "in the body":
            self.writer.write(head.encode() + b"\r\n" + request.body[:-1 - len(request.body) // 3])
        else:
            self.writer.write(head.encode() + b"\r\n" + request.body)
        await self.writer.drain()

    async def receive(self):
        """Status and body of an answer."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode().lower()
        status = int(head.split()[1])
        if "connection: close" in head:
            raise Violation(f"the server ends the connection after {head!r}")
        length = re.search(r"content-length: (\d+)", head)
        if length:
            return status, await self.reader.readexactly(int(length[1]))
        if "transfer-encoding: chunked" not in head:
            return status, await self.reader.read(-1)
        parts = []
        while True:
            size = int((await self.reader.readuntil(b"\r\n")).strip(), 16)
            parts.append((await self.reader.readexactly(size + 2))[:-2])
            if size == 0:
                return status, b"".join(parts)

    async def leave(self, reset):
        if self.writer is None:
            return
        if reset:
            self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.writer.transport.abort()
        self.writer.close()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()
        self.reader = self.writer = None

    async def depart(self, request):
        """Leaves at the request's moment. Who closes only the sending side has to get an answer or the end."""
        if request.departure == "in the answer":
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self.reader.read(200), 0.05)
        await asyncio.sleep(request.wait_s)
        if request.departure == "one side":
            with contextlib.suppress(OSError):  # the server may have ended the connection
                self.writer.write_eof()
                await self.reader.read(-1)
        await self.leave(request.resets)


# ---- the load


class Load:
    """Asks a server. `answers`: what the clients that stayed have got, by the number of the request."""

    def __init__(self, seed, at_once, port=0, key="", socket=None, chats=True):
        self.seed, self.at_once, self.port, self.key, self.socket, self.chats = seed, at_once, port, key, socket, chats
        self.answers, self.departed = {}, 0

    def request(self, number):
        return draw_request(random.Random(self.seed * 1000003 + number), self.chats)

    async def ask(self, client, request):
        """The answer of a client that stays; None: it has left."""
        if client.writer is None:
            await client.connect()
        await client.send(request)
        if request.departure:
            await client.depart(request)
            return None
        status, body = await client.receive()
        if status not in request.statuses:
            raise Violation(f"status {status} for {request.path} {request.body[:300]!r}: {body[:300]!r}")
        if request.streams and status == 200 and not body.endswith(b"data: [DONE]\n\n"):
            raise Violation(f"the stream of {request.body[:300]!r} ends with {body[-100:]!r}")
        return body

    async def work(self, numbers):
        client = Client(self)
        for number in numbers:
            request = self.request(number)
            try:
                answer = await asyncio.wait_for(self.ask(client, request), LIMIT_S)
            except (OSError, asyncio.IncompleteReadError, asyncio.TimeoutError) as fault:
                raise Violation(f"request {number}, {request.path} {request.body[:300]!r}, has no answer: {fault!r}") from fault
            if answer is None:
                self.departed += 1
            else:
                self.answers[number] = answer
            if number % 3 == 0:
                await client.leave(False)  # others keep the connection for the next request
        await client.leave(False)

    async def run(self, first, count, at_once=None):
        numbers = iter(range(first, first + count))  # shared: each client fetches the next
        await asyncio.gather(*(self.work(numbers) for _ in range(at_once or self.at_once)))

    async def one(self, path, body=b""):
        client = Client(self)
        await client.connect()
        await client.send(Request(path, body, (200,)))
        status, text = await asyncio.wait_for(client.receive(), LIMIT_S)
        await client.leave(False)
        return status, text.decode()

    async def metrics(self):
        """{name without trireme_: value}"""
        return {name: float(value) for name, value in re.findall(r"^trireme_(\w+) (\S+)$", (await self.one("/metrics"))[1], re.M)}

    # ---- checks

    async def check_alone(self, count):
        """A share of the answers is what the same requests get when each is asked alone."""
        numbers = [number for number in sorted(self.answers) if self.request(number).path.startswith("/v1/c") and self.request(number).statuses == (200,)]
        for number in random.Random(self.seed).sample(numbers, min(count, len(numbers))):
            request = self.request(number)
            alone = await self.ask(client := Client(self), request)
            await client.leave(False)
            if texts_of(request, alone) != texts_of(request, self.answers[number]):
                raise Violation(f"{request.body[:300]!r} has another answer alone: {texts_of(request, alone)!r}, before {texts_of(request, self.answers[number])!r}")

    async def check_rest(self, pages):
        """No request is in progress, all are counted, and all pages are free. The end of a departed client's request is noticed within a step."""
        for _ in range(500):
            found = await self.metrics()
            if found["requests_running"] == found["requests_waiting"] == 0:
                break
            await asyncio.sleep(0.02)
        if found["requests_running"] != 0 or found["requests_waiting"] != 0:
            raise Violation(f"at rest {found['requests_running']:g} requests run and {found['requests_waiting']:g} wait")
        ended = found["requests_completed_total"] + found["requests_cancelled_total"] + found["requests_failed_total"]
        if found["requests_accepted_total"] != ended:
            raise Violation(f"{found['requests_accepted_total']:g} requests were accepted, and {ended:g} ended")
        if found["cache_pages_free"] != pages:
            raise Violation(f"{found['cache_pages_free']:g} pages are free, and at the start {pages:g} were")
        return found


def texts_of(request, answer):
    """What may not differ between two answers to a request. A stream: text and end of each choice."""
    if not request.streams:
        return json.loads(answer)["choices"]
    found = {}
    for event in answer.decode().split("\n\n"):
        if event.startswith("data: {"):
            for choice in json.loads(event[len("data: "):])["choices"]:
                text = choice["text"] if "text" in choice else choice["delta"].get("content", "")
                before, _ = found.get(choice["index"], ("", None))
                found[choice["index"]] = before + text, choice["finish_reason"]
    return found


# ---- the process


@dataclasses.dataclass
class Held:
    """What a process holds of the system."""

    files: int
    threads: int
    resident_kib: int


def held_by(pid):
    with open(f"/proc/{pid}/status") as file:
        status = dict(line.split(":", 1) for line in file)
    return Held(len(os.listdir(f"/proc/{pid}/fd")), int(status["Threads"]), int(status["VmRSS"].split()[0]))


async def check_held(pid, before, more_kib):
    """The process holds no more than before; its connections end a moment after their clients."""
    for _ in range(250):
        now = held_by(pid)
        if now.files <= before.files:
            break
        await asyncio.sleep(0.02)
    if now.files > before.files or now.threads > before.threads or now.resident_kib > before.resident_kib + more_kib:
        raise Violation(f"the process holds {now}, after the first requests {before}")
    return now


async def check_end(load, process, count):
    """SIGTERM while `count` requests run and wait: each is answered in full or with 503, and the server ends."""
    body = json.dumps(dict(prompt="line", max_tokens=200, seed=1, n=2, ignore_eos=True)).encode()
    before = (await load.metrics())["requests_accepted_total"]
    asked = [asyncio.ensure_future(load.one("/v1/completions", body)) for _ in range(count)]
    while (await load.metrics())["requests_accepted_total"] < before + count:
        await asyncio.sleep(0.01)
    process.terminate()
    answers = await asyncio.gather(*asked, return_exceptions=True)
    wrong = [answer for answer in answers if not isinstance(answer, tuple) or answer[0] not in (200, 503)]
    if wrong:
        raise Violation(f"{len(wrong)} of {count} accepted requests were not answered at the end; the first: {str(wrong[0])[:300]}")
    for _ in range(1000):
        if process.poll() is not None:
            break
        await asyncio.sleep(0.02)
    if process.poll() != 130:
        raise Violation(f"the server ended with status {process.poll()}")
    return sum(answer[0] == 200 for answer in answers)

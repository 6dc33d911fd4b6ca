"""trireme serve under a small load (tests/soak/serve.py has a large one). A third of the clients leave. Connections must neither stay
open nor be closed too early."""
import asyncio
import json
import os
import pathlib
import signal
import socket
import sys
import time

import pytest
from serving import Server, make_model, post, skip_without_server

sys.path.append(str(pathlib.Path(__file__).parent.parent / "soak"))
from serve_load import Client, Load, Request, check_end, check_held, held_by  # noqa: E402


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    skip_without_server()
    return make_model(tmp_path_factory.mktemp("serve"))


@pytest.fixture(scope="module")
def server(run):
    with Server(run, "--chat-template", run.parent / "chat.jinja", "--batch", 4, "--cache", "256KiB", "--no-token") as server:
        yield server


def files_of(server):
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))


def wait_for_files(server, count, seconds=20):
    until = time.monotonic() + seconds
    while files_of(server) > count:
        assert time.monotonic() < until, f"{files_of(server)} files, at first {count}"
        time.sleep(0.02)


def test_a_third_of_the_clients_leave(run):
    async def disturb(server):
        load = Load(3, 40, port=server.port, key=server.key)
        pages = (await load.metrics())["cache_pages_free"]
        await load.run(0, 100)
        await load.check_rest(pages)
        before = await check_held(server.process.pid, held_by(server.process.pid), 0)
        await load.run(100, 200)
        found = await load.check_rest(pages)
        assert load.departed > 60 and found["requests_cancelled_total"] > 20
        await load.check_alone(20)
        await check_held(server.process.pid, before, 1 << 20)  # a sanitizer keeps freed memory; the soak test checks it
        assert await check_end(load, server.process, 40) > 0

    with Server(run, "--chat-template", run.parent / "chat.jinja", "--batch", 4, "--cache", "256KiB") as server:
        asyncio.run(disturb(server))
    assert "the server has ended" in server.err


def test_two_ranks_finish_what_runs(run):
    async def end(server):
        return await check_end(Load(3, 40, port=server.port, key=server.key), server.process, 40)

    with Server(run, "-n", 2) as server:
        assert asyncio.run(end(server)) > 0
    assert "the requests that run are finished first" in server.err and "the server has ended" in server.err


@pytest.mark.parametrize("leaves", ["wholly", "one side"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_the_connection_of_a_client_that_leaves_is_closed(server, stream, leaves):
    """Not only the texts are cancelled: a suspended connection would stay open until the server ends."""
    server.complete("line", max_tokens=1)
    before = files_of(server)
    body = json.dumps(dict(prompt="line", max_tokens=450, n=8, stream=stream, ignore_eos=True)).encode()
    connections = []
    for _ in range(12):
        connections.append(socket.create_connection(("127.0.0.1", server.port), timeout=60))
        connections[-1].sendall(post(server.port, body))
    for connection in connections:
        connection.close() if leaves == "wholly" else connection.shutdown(socket.SHUT_WR)
    for connection in connections if leaves == "one side" else []:
        while connection.recv(65536):
            pass
        connection.close()
    wait_for_files(server, before)
    asyncio.run(Load(1, 1, port=server.port).check_rest(server.metric("trireme_cache_pages")))


@pytest.mark.parametrize("missing", [1, 30, 90])
def test_an_end_before_the_bytes_ahead_of_it_are_read(server, missing):
    """The server reads a part of a request when its client is already gone."""
    server.complete("line", max_tokens=1)
    before = files_of(server)
    server.process.send_signal(signal.SIGSTOP)
    for _ in range(20):
        connection = socket.create_connection(("127.0.0.1", server.port))
        connection.sendall(post(server.port, b'{"prompt": "line"}')[:-missing])
        connection.close()
    server.process.send_signal(signal.SIGCONT)
    wait_for_files(server, before)


def test_a_long_queue_leaves_connections_for_others(run):
    """There are more connections than the queue has places."""
    with Server(run, "--queue", 700, "--no-token") as server:
        body = json.dumps(dict(prompt="line", max_tokens=400, n=8, ignore_eos=True)).encode()
        waiting = []
        for _ in range(600):
            waiting.append(socket.create_connection(("127.0.0.1", server.port), timeout=60))
            waiting[-1].sendall(post(server.port, body))
        until = time.monotonic() + 20
        while server.metric("trireme_requests_waiting") < 550:
            assert time.monotonic() < until
        assert server.ask("/health")[0] == 200
        for connection in waiting:
            connection.close()


def test_a_connection_serves_many_requests(server):
    """`receive` fails if an answer says that the connection is closed."""
    asked = [Request(path, b"", ()) for path in ("/health", "/v1/models", "/metrics", "/nowhere")]
    asked += [Request("/v1/completions", body, ()) for body in (b'{"prompt": "line", "max_tokens": 2}', b"{", b'{"prompt": "line", "stream": true}')]

    async def ask():
        client = Client(Load(1, 1, port=server.port))
        await client.connect()
        for request in [*asked, *asked]:
            await client.send(request)
            yield (await client.receive())[0]
        await client.leave(False)

    async def statuses():
        return [status async for status in ask()]

    assert asyncio.run(statuses()) == [200, 200, 200, 404, 200, 400, 200] * 2

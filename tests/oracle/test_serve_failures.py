"""Failures of a part of the server: logits that are not finite end one request only, and a lost rank ends the job, with an
answer to each open request."""
import json
import os
import pathlib
import re
import signal
import socket

import numpy
import pytest
from parity import trireme, yaml_of
from safetensors.numpy import load_file, save_file
from serving import Server, make_model, post, skip_without_server, wait_for

BAD_POSITION = 40  # its embedding is so large that the layer norms overflow


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    skip_without_server()
    return make_model(tmp_path_factory.mktemp("serve"))


def find_rank(run, rank):
    """The process of a rank, and whether Open MPI started it."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            around, words = (pathlib.Path(f"/proc/{name}/{of}").read_bytes().split(b"\0") for of in ("environ", "cmdline"))
        except OSError:
            continue
        openmpi = f"OMPI_COMM_WORLD_RANK={rank}".encode() in around
        if str(run).encode() in words and (openmpi or f"PMI_RANK={rank}".encode() in around):
            return int(name), openmpi
    raise AssertionError(f"rank {rank} was not found")


def receive_all(connection):
    received = b""
    try:
        while part := connection.recv(65536):
            received += part
    except ConnectionResetError:
        pass
    return received.decode()


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_lost_rank_ends_the_job(run, stream):
    """Its name is in the message, and each open request is answered with 503, a stream with an error event. (MPICH kills the other ranks
    at once: their connections end.) Rank 1 is stopped first, so that its texts are in progress when it is lost."""
    body = json.dumps(dict(prompt="line", max_tokens=480, n=8, ignore_eos=True, stream=stream)).encode()
    with Server(run, "-n", 2) as server:
        lost, openmpi = find_rank(run, 1)
        os.kill(lost, signal.SIGSTOP)
        asked = []
        for _ in range(10):
            asked.append(socket.create_connection(("127.0.0.1", server.port), timeout=60))
            asked[-1].sendall(post(server.port, body, f"Authorization: Bearer {server.key}\r\nConnection: close\r\n"))
        wait_for(lambda: server.metric("trireme_requests_completed_total") > 0 and server.metric("trireme_requests_accepted_total") == 10)
        os.kill(lost, signal.SIGKILL)
        answers = [receive_all(connection) for connection in asked]
        assert server.process.wait(60) == 9
    assert "rank 1" in server.err and "killed by signal 9" in server.err
    if openmpi:
        broken = [answer for answer in answers if ("[DONE]" if stream else '"usage"') not in answer]
        assert broken and all('"message":"the server ended before the answer"' in answer for answer in broken)
        assert stream or all("503 Service Unavailable" in answer for answer in broken)


@pytest.fixture(scope="module")
def bad_from_40_on(run, tmp_path_factory):
    """A GPT-2 whose texts have logits that are not finite once they reach position 40."""
    folder = tmp_path_factory.mktemp("bad")
    model = dict(family="gpt2", num_layers=2, hidden_size=64, num_heads=4, vocab_size=257, max_sequence=128)
    made = dict(model=model, data=dict(train=str(run.parent / "text/train"), sequence=64), optimizer=dict(global_batch=8, steps=2, lr=3e-3), output=str(folder / "run"))
    (folder / "run.yaml").write_text(yaml_of(made))
    trireme("train", folder / "run.yaml", "--resume", "never")
    trireme("export", folder / "run", folder / "hf")
    (weights,) = (folder / "hf").glob("*.safetensors")
    tensors = load_file(weights)
    (name,) = (name for name in tensors if name.endswith("wpe.weight"))
    tensors[name] = numpy.array(tensors[name])
    tensors[name][BAD_POSITION] = 3e38
    save_file(tensors, weights, metadata=dict(format="pt"))
    return folder / "hf"


@pytest.mark.parametrize("more", [[], ["-n", 2], ["-n", 2, "--tensor", 2]], ids=["one rank", "two ranks", "tensor"])
def test_only_the_request_fails_whose_logits_are_not_finite(bad_from_40_on, more):
    """The others have the texts that they have alone, before, meanwhile and afterwards."""
    bodies = [dict(prompt="p" * length, max_tokens=tokens, seed=length, ignore_eos=True, **fields)
              for length, tokens, fields in [(10, 12, {}), (60, 5, {}), (20, 8, {}), (30, 40, dict(n=3)), (12, 9, dict(n=2, logprobs=2)), (45, 0, dict(echo=True, logprobs=1)), (33, 3, dict(best_of=2)),
                                             (60, 4, dict(n=4)), (39, 1, {}), (41, 1, {}), (10, 5, dict(temperature=0)), (30, 60, dict(temperature=0, logprobs=3))]]
    with Server(bad_from_40_on, "--batch", 4, *more) as server:
        def ask(body):
            return server.ask("/v1/completions", body)
        alone = [ask(body) for body in bodies]
        fails = [status for status, *_ in alone]
        assert fails == [200, 500, 200, 500, 200, 500, 200, 500, 200, 500, 200, 500], fails
        for (status, _, text), body in zip(alone, bodies):
            if status == 500:
                error = json.loads(text)["error"]
                assert error["type"] == "server_error" and re.match(r"after \d+ tokens the model's logits are not finite", error["message"]), error
        together = server.all_at_once(bodies * 3, ask=ask)
        for (status, _, text), (wanted, _, text_alone) in zip(together, alone * 3):
            assert status == wanted
            if status == 200:
                assert json.loads(text)["choices"] == json.loads(text_alone)["choices"]
        status, _, text = server.ask("/v1/completions", dict(prompt="p" * 30, max_tokens=60, seed=1, stream=True, ignore_eos=True))
        assert status == 200 and "[DONE]" not in text and "are not finite" in json.loads(text.rstrip().rsplit("data: ", 1)[1])["error"]["message"]
        assert server.metric("trireme_requests_failed_total") == fails.count(500) * 4 + 1 and server.metric("trireme_requests_running") == 0
        assert server.metric("trireme_cache_pages_free") == server.metric("trireme_cache_pages")
        assert server.complete("p" * 10, max_tokens=12, seed=10, ignore_eos=True)["choices"] == json.loads(alone[0][2])["choices"]
    assert "the server has ended" in server.err

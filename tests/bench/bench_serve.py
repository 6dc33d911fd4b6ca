#!/usr/bin/env python3
"""`trireme serve` beside `trireme generate` and llama.cpp's server, in one run, in turns: bench_serve.py FOLDER [--gguf FILE] [--rounds N]
[--threads N] [--precision P]. FOLDER is a model; FILE the same model for llama.cpp (bench_generate_llamacpp.py --keep writes both), which needs
a Python with xllamacpp.

Measures eight streams of 500 tokens together beside the tokens/s of `generate`; the first token of a prompt of 1,000 tokens alone and behind
eight texts; 1,000 requests of one token, eight at a time; and the processor time of an idle server."""
import argparse
import concurrent.futures
import http.client
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRIREME = os.environ.get("TRIREME", str(ROOT / "build/trireme"))
PROMPTS = ["The capital of France is", "Water boils when", "Once upon a time", "The largest planet is", "In the morning she", "A computer is", "To bake bread", "My favourite"]
TOKENS, LONG, REQUESTS = 500, 1000, 1000


class Server:
    def __init__(self, words, port=None):
        self.process = subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.port = port or int(re.search(r":(\d+)", self.process.stdout.readline())[1])
        self.local = threading.local()

    def connection(self):
        if not hasattr(self.local, "connection"):
            self.local.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        return self.local.connection

    def ask(self, **body):
        """Seconds to the first byte of a text and to the end of the answer."""
        begin, first = time.monotonic(), None
        self.connection().request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        answer = self.connection().getresponse()
        assert answer.status == 200, answer.read()
        while line := answer.readline():
            if first is None and b'"text":' in line:
                first = time.monotonic() - begin
        answer.read()  # Python's client needs the end of the body to be seen
        return first, time.monotonic() - begin

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def streams(server):
    """The clients are curl's, which take less of the two cores than Python."""
    begin, clients = time.monotonic(), []
    for prompt in PROMPTS:
        body = json.dumps(dict(prompt=prompt, max_tokens=TOKENS, stream=True, ignore_eos=True, seed=1, temperature=1))
        words = ["curl", "-sN", "-o", "/dev/null", "-H", "Content-Type: application/json", "-d", body, f"http://127.0.0.1:{server.port}/v1/completions"]
        clients.append(subprocess.Popen(words))
    assert all(client.wait() == 0 for client in clients)
    return 8 * TOKENS / (time.monotonic() - begin)


def generated(arguments, folder):
    (folder / "prompts.txt").write_text("\n".join(PROMPTS) + "\n")
    done = subprocess.run([TRIREME, "generate", *arguments, "--prompts", folder / "prompts.txt", "--tokens", str(TOKENS), "--ignore-end", "--json", "--seed", "1", "--temperature", "1"],
                          capture_output=True, text=True)
    return float(re.search(r"([\d.]+) tokens/s", done.stderr)[1])


def first_tokens(server):
    """Seconds to the first token of a long prompt, alone and while eight texts are written. Prompts differ, so that none is cached."""
    ids = lambda seed: [(seed * 7919 + i * 104729) % 40000 + 100 for i in range(LONG)]  # noqa: E731
    first_tokens.seed = getattr(first_tokens, "seed", 0) + 2
    alone = server.ask(prompt=ids(first_tokens.seed), max_tokens=2, stream=True)[0]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        others = [pool.submit(server.ask, prompt=prompt, max_tokens=TOKENS, stream=True, ignore_eos=True) for prompt in PROMPTS]
        time.sleep(1.5)
        behind = server.ask(prompt=ids(first_tokens.seed + 1), max_tokens=2, stream=True)[0]
        for other in others:
            other.result()
    return alone, behind


def requests(server):
    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: server.ask(prompt=f"{PROMPTS[i % 8]} {i}", max_tokens=1, temperature=0), range(REQUESTS)))
    return REQUESTS / (time.monotonic() - begin)


def serve_llamacpp(path, threads, port):
    import xllamacpp
    params = xllamacpp.CommonParams()
    params.model.path, params.port, params.n_ctx, params.n_parallel = path, port, 2048 * 8, 8
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--gguf", default="")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--llamacpp", type=int, default=0, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.llamacpp:
        return serve_llamacpp(given.folder, given.threads, given.llamacpp)
    arguments = [given.folder, "--threads", str(given.threads), "--precision", given.precision]
    ours = Server([TRIREME, "serve", *arguments, "--port", 0, "--no-token", "--batch", 16, "--context", 2048])
    rates, delays, counts = [], [], []
    with tempfile.TemporaryDirectory() as temporary:
        for _ in range(given.rounds):
            rates.append((streams(ours), generated([*arguments, "--batch", "8"], pathlib.Path(temporary))))
            delays.append(first_tokens(ours))
            counts.append([requests(ours)])
    time.sleep(2)
    before = cpu_seconds(ours.process.pid)
    time.sleep(20)
    idle = (cpu_seconds(ours.process.pid) - before) / 20
    ours.end()
    if given.gguf:
        other = Server([sys.executable, __file__, given.gguf, "--threads", given.threads, "--llamacpp", 18080], 18080)
        other.process.stdout.readline()
        for row in counts:
            row.append(requests(other))
        other.process.kill()
    middle = statistics.median
    print(f"eight streams: {middle(a for a, _ in rates):.1f} tokens/s, generate {middle(b for _, b in rates):.1f}; ratio {middle(a / b for a, b in rates):.3f}")
    print(f"first token of {LONG} tokens: alone {middle(a for a, _ in delays):.2f} s, behind eight texts {middle(b for _, b in delays):.2f} s; ratio {middle(b / a for a, b in delays):.2f}")
    print(f"requests of one token: {middle(row[0] for row in counts):.1f} per second" + (f", llama.cpp {middle(row[1] for row in counts):.1f}" if given.gguf else ""))
    print(f"idle: {100 * idle:.3f} % of a core")


if __name__ == "__main__":
    main()

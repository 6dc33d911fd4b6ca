#!/usr/bin/env python3
"""Asks one server for thousands of texts, by clients of which a third leave at a random moment: serve.py [--requests N]
[--at-once N] [--seed S] [-n RANKS] [--socket].

A client leaves before or after the whole body, in the middle of the answer, with an end or a reset, or closes only its sending
side. All others must be answered, and a share of the answers is compared with those to the same requests asked alone. At the end
no request is in progress, all are counted, all pages are free, and the process has the file descriptors, threads and memory that
it had after the first requests. Then SIGTERM comes under load."""
import argparse
import asyncio
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.parse

from serve_load import Load, Violation, check_end, check_held, held_by

TRIREME = os.environ.get("TRIREME", "build/trireme")
WARM_UP, ALONE, MORE_KIB = 500, 200, 8 << 10
MODEL = dict(family="llama", num_layers=2, hidden_size=64, num_heads=4, num_kv_heads=2, ffn_size=128, vocab_size=257, max_sequence=512, tied=True)
TEMPLATE = "{% for m in messages %}<|{{ m['role'] }}|>\n{{ m['content'] }}\n{% endfor %}<|assistant|>\n"


def make_model(folder):
    (folder / "text.txt").write_text("".join(f"line {i} of some text, and more words\n" for i in range(4000)))
    (folder / "chat.jinja").write_text(TEMPLATE)
    run = dict(model=MODEL, data=dict(train=str(folder / "text/train"), sequence=64), optimizer=dict(global_batch=8, steps=60, lr=3e-3), output=str(folder / "run"))
    (folder / "run.yaml").write_text(json.dumps(run))
    for words in (["prepare", "--tokenizer", "bytes", "--validation", "0", "--out", folder / "text", folder / "text.txt"], ["train", folder / "run.yaml"]):
        subprocess.run([TRIREME, *words], check=True, capture_output=True)


def start_server(folder, given, said):
    words = [TRIREME, "serve", folder / "run", "--chat-template", folder / "chat.jinja", "--cache", "256KiB", "--queue", max(256, 2 * given.at_once)]
    words += ["-n", given.ranks] if given.ranks > 1 else []
    words += ["--socket", folder / "socket"] if given.socket else ["--port", 0]
    process = subprocess.Popen([*map(str, words)], stdout=subprocess.PIPE, stderr=said, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    address = process.stdout.readline().strip()
    if not address:
        raise SystemExit((folder / "said.txt").read_text())
    parts = urllib.parse.urlsplit(address)
    key = dict(urllib.parse.parse_qsl(parts.query)).get("token", "")
    return process, Load(given.seed, given.at_once, port=parts.port or 0, key=key, socket=str(folder / "socket") if given.socket else None)


def serving_process(process, folder):
    """The process that listens: with several ranks, the first of the launcher's."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            around = pathlib.Path(f"/proc/{name}/environ").read_bytes().split(b"\0")
            words = pathlib.Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if str(folder / "run").encode() in words and {b"OMPI_COMM_WORLD_RANK=0", b"PMI_RANK=0"} & set(around):
            return int(name)
    return process.pid


async def disturb(given, process, load, folder):
    pages, pid = (await load.metrics())["cache_pages_free"], serving_process(process, folder)
    await load.run(0, min(WARM_UP, given.requests))
    await load.check_rest(pages)
    before = await check_held(pid, held_by(pid), 0)
    begun = time.monotonic()
    await load.run(WARM_UP, given.requests - WARM_UP)
    seconds = time.monotonic() - begun
    found = await load.check_rest(pages)
    await load.check_alone(ALONE)
    now = await check_held(pid, before, MORE_KIB)
    print(f"{given.requests} requests, {given.at_once} at once: {load.departed} clients left, {found['requests_cancelled_total']:g} requests were cancelled, "
          f"{found['requests_completed_total']:g} completed; {seconds:.1f} s without the first {WARM_UP}")
    print(f"the process after {WARM_UP} requests: {before}\nat the end:                     {now}")
    whole = await check_end(load, process, given.at_once)
    print(f"SIGTERM with {given.at_once} requests in progress: {whole} were answered in full, the others with 503")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=10000)
    parser.add_argument("--at-once", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-n", "--ranks", type=int, default=1)
    parser.add_argument("--socket", action="store_true", help="at a socket of the file system instead of a port")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="trireme-soak-serve-") as name:
        folder = pathlib.Path(name)
        make_model(folder)
        with open(folder / "said.txt", "w") as said:
            process, load = start_server(folder, given, said)
        try:
            asyncio.run(disturb(given, process, load, folder))
        except Violation as violation:
            words = " ".join(sys.argv)
            print(f"VIOLATION: {violation}\nrepeat it: {words}{'' if '--seed' in words else f' --seed {given.seed}'}\nthe server said:\n{(folder / 'said.txt').read_text()[-3000:]}")
            return 1
        finally:
            process.kill()
            process.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())

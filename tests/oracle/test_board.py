"""trireme board: its answers and errors over HTTP, and its page in a browser while runs and studies are in progress."""
import concurrent.futures
import contextlib
import http.client
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest
from browser import Browser, needs_chromium
from parity import TRIREME, trireme, yaml_of

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


@pytest.fixture(autouse=True, scope="module")
def is_built():
    done = subprocess.run([TRIREME, "board", ".", "--host", "no-such-host.invalid"], capture_output=True, text=True)
    if "was built without libmicrohttpd" in done.stderr:
        pytest.skip("SKIPPED: this trireme was built without libmicrohttpd")


def line_of(step, **more):
    values = dict(step=step, loss=1 + 8 / step, grad_norm=1 / step, lr=1e-3, tokens=512 * step, tokens_per_s=2048.0, step_s=0.25,
                  mfu=0.5, peak_bytes=2**30, bad_steps=0)
    return json.dumps({**values, **more}) + "\n"


def make_run(folder, steps, **more):
    folder.mkdir(parents=True)
    (folder / "metrics.jsonl").write_text("".join(line_of(step, **more) for step in range(1, steps + 1)))
    return folder / "metrics.jsonl"


class Board:
    def __init__(self, url, process):
        parts = urllib.parse.urlsplit(url)
        self.url, self.process, self.port, self.query = url, process, parts.port, dict(urllib.parse.parse_qsl(parts.query))

    def get(self, path, method="GET", token=True, headers=None, **values):
        """Status, headers and body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        query = urllib.parse.urlencode({**values, **(self.query if token else {})})
        connection.putrequest(method, path + ("?" + query if query else ""), skip_host=headers is not None)
        for name, value in (headers or {}).items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer.status, dict(answer.getheaders()), body

    def json(self, path, **values):
        status, _, body = self.get(path, **values)
        assert status == 200, body
        return json.loads(body)

    def runs(self):
        return {run["name"]: run for run in self.json("/api/list")["runs"]}

    def wait(self, condition, seconds=30):
        until = time.monotonic() + seconds
        while True:
            found = self.json("/api/list")
            if condition(found):
                return found
            assert time.monotonic() < until, found
            time.sleep(0.05)


@contextlib.contextmanager
def board(*folders, more=()):
    process = subprocess.Popen([TRIREME, "board", *map(str, folders), "--port", "0", *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
    try:
        yield Board(process.stdout.readline().strip(), process)
        assert process.poll() is None, process.communicate()
    finally:
        process.send_signal(signal.SIGINT)
        out, said = process.communicate(timeout=30)
    assert process.returncode == 130 and "closed" in said, said


def contents_of(folder):
    return {path.relative_to(folder): (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else None) for path in folder.rglob("*")}


# ---- answers


def test_runs(tmp_path):
    """The numbers of a run are those of its file; the board does not change folders."""
    make_run(tmp_path / "a/one", 100, validation_loss=3.0)
    make_run(tmp_path / "a/checkpoints/hidden", 3)
    make_run(tmp_path / "a/one/checkpoints.old-1", 3)
    make_run(tmp_path / "a/.hidden", 3)
    os.symlink("/etc", tmp_path / "a/link")
    for step, marks in ((50, ["COMPLETE"]), (100, ["COMPLETE", "BEST"]), (70, [])):
        (tmp_path / f"a/one/checkpoints/step-{step:08}").mkdir(parents=True)
        for mark in marks:
            (tmp_path / f"a/one/checkpoints/step-{step:08}" / mark).write_text("")
    (tmp_path / "a/one/summary.json").write_text(json.dumps(dict(model="m", ranks=2, share=dict(compute=0.75, bubble=0.25, steps=3))))
    (tmp_path / "a/one/failures.txt").write_text("rank 1: out of memory\n")
    (tmp_path / "a/one/config.yaml").write_text("model: gpt2\n")
    before = contents_of(tmp_path)
    with board(tmp_path / "a") as b:
        b.wait(lambda found: len(found["runs"]) == 1 and found["runs"][0]["step"] == 100)
        run = b.runs()["one"]
        assert run["state"] == "finished" and run["failed"] and run["reason"] is None and run["share"]["compute"] == 0.75
        assert run["loss"] == pytest.approx(1.08) and run["tokens"] == 51200 and run["seconds"] == pytest.approx(25) and run["peak_bytes"] == pytest.approx(2**30)
        assert [(c["step"], c["best"]) for c in run["checkpoints"]] == [(50, False), (100, True)]
        words = b.json("/api/run", id=run["id"])
        assert words["failures"] == "rank 1: out of memory\n" and words["config"] == "model: gpt2\n"
        for axis, place in (("step", lambda s: s), ("tokens", lambda s: 512 * s), ("time", lambda s: s / 4)):
            curve = b.json("/api/series", runs=run["id"], x=axis, points=4000)["runs"][0]
            assert curve["x"] == [place(step) for step in range(1, 101)] and curve["loss"] == pytest.approx([1 + 8 / step for step in range(1, 101)])
            assert [c[:2] for c in curve["checkpoints"]] == [[50, place(50)], [100, place(100)]]
        few = b.json("/api/series", runs=run["id"], points=10, **{"from": 1, "to": 100})["runs"][0]
        assert few["range"] == [1, 100] and few["steps"] == [10] * 10 and few["loss"][0] == pytest.approx([1.8, 9, sum(1 + 8 / s for s in range(1, 11)) / 10])
    assert contents_of(tmp_path) == before


def test_a_run_goes_on(tmp_path):
    """It is appended to, half a line at a time; then killed, and gone on with from an earlier step."""
    path = make_run(tmp_path / "out", 10)
    (tmp_path / "out/LOCK").write_text("")
    with board(tmp_path) as b:
        b.wait(lambda found: found["runs"][0]["step"] == 10)
        assert b.runs()["out"]["state"] == "running"
        with path.open("a") as file:
            file.write(line_of(11)[:40])
            file.flush()
            time.sleep(1.2)
            assert b.runs()["out"]["step"] == 10
            file.write(line_of(11)[40:])
            file.flush()
            b.wait(lambda found: found["runs"][0]["step"] == 11)
        path.write_text("".join(line_of(step) for step in range(1, 6)) + line_of(6, loss=None, bad_steps=1))
        found = b.wait(lambda found: found["runs"][0]["step"] == 6)["runs"][0]
        assert found["rewinds"] == 1 and found["bad_steps"] == 1
        assert b.json("/api/series", runs=found["id"])["runs"][0]["bad"] == [[6, 6]]
        shutil.rmtree(tmp_path / "out")
        b.wait(lambda found: found["runs"] == [])
        assert b.get("/api/run", id=found["id"])[0] == 404
        make_run(tmp_path / "later/deep/down", 3)
        b.wait(lambda found: [run["name"] for run in found["runs"]] == ["later/deep/down"])


CONFIG = "# A run: `steps: 7`\nmodel:\n  name: inline   # steps: 3\n  steps: 5\n# optimizer:\noptimizer:       # the optimizer\n  steps: {steps}   # of the whole run\n  lr: {lr}\nseed: 1\n"
BAD = "the loss or gradient was NaN or infinite in steps 19 to 20, so the run stops; nothing was saved in them; no good checkpoint"

STATES = {  # name: (files of a run of 20 steps, in the order of their times; its state; the reason)
    "running": (dict(config=CONFIG, lock=""), "running", None),
    "killed": (dict(config=CONFIG), "interrupted", None),
    "without a configuration": ({}, "interrupted", None),
    "signal": (dict(config=CONFIG, summary=dict(steps=20, ended_early=False)), "interrupted", None),
    "finished": (dict(config=CONFIG.replace("{steps}", "20"), summary=dict(steps=20, ended_early=False)), "finished", None),
    "by epochs": (dict(config=CONFIG.replace("  steps: {steps}", "  # steps: 20"), summary=dict(steps=20)), "finished", None),
    "early": (dict(config=CONFIG, summary=dict(steps=20, ended_early=True)), "ended early", None),
    "diverged": (dict(config=CONFIG, failures=f"rank 0: {BAD}\n"), "diverged", BAD.split(";")[0]),
    "several failures": (dict(config=CONFIG, failures="rank 3: first\nrank 0: rank 0 (pipeline 1), at step 3: out of memory: 3.5 GiB. Take less\nor more\n"), "failed", "out of memory: 3.5 GiB"),
    "of a job": (dict(config=CONFIG, failures="job of 4 ranks: rank 2 (data 1), at step 3: the disk is full; make room\n"), "failed", "the disk is full"),
    "killed": (dict(config=CONFIG, failures="job of 2 ranks: rank 1 (data 1) on vm was killed by signal 9 (Killed) (if no user did, the system did, because memory ran out: see dmesg there), at step 29; the job of 2 ranks is ended\n"), "failed",
               "rank 1 (data 1) on vm was killed by signal 9 (Killed) (if no user did, the system did, because memory ran out: see dmesg there), at step 29"),
    "rank in a message": (dict(config=CONFIG, failures="rank 1: rank 0 is gone: it was killed\n"), "failed", "rank 0 is gone: it was killed"),
    "went on": (dict(config=CONFIG, failures=f"rank 0: {BAD}\n", metrics=None), "interrupted", None),
    "went on to its end": (dict(config=CONFIG, failures=f"rank 0: {BAD}\n", metrics=None, summary=dict(steps=20)), "interrupted", None),
    "failed when it was to go on": (dict(config=CONFIG, summary=dict(steps=20), failures="rank 0: there is no room\n"), "failed", "there is no room"),
    "odd": (dict(config="optimizer:\n  steps: many\n", summary=dict(steps="x"), failures="\0\xff\n"), "finished", None),
}


def test_states(tmp_path):
    """The board finds the state of a run, and the reason of its end, from the files in its folder."""
    names = dict(config="config.yaml", lock="LOCK", summary="summary.json", failures="failures.txt", metrics="metrics.jsonl")
    for name, (files, _, _) in STATES.items():
        make_run(tmp_path / name, 20)
        for i, (kind, text) in enumerate(files.items()):
            path = tmp_path / name / names[kind]
            if kind == "config":
                text = text.replace("{steps}", "1500").replace("{lr}", "0.1")
            if text is not None:
                path.write_text(json.dumps(text) if kind == "summary" else text)
            now = time.time_ns() - 30 * 10**9 + i * 10**9
            os.utime(path, ns=(now, now))
        if "metrics" not in files:
            os.utime(tmp_path / name / "metrics.jsonl", ns=(time.time_ns() - 60 * 10**9,) * 2)
    with board(tmp_path) as b:
        b.wait(lambda found: len(found["runs"]) == len(STATES) and all(run["step"] == 20 for run in found["runs"]))
        runs = b.runs()
        assert {name: (run["state"], run["reason"]) for name, run in runs.items()} == {name: (state, reason) for name, (_, state, reason) in STATES.items()}
        assert [runs[name]["planned_steps"] for name in ("running", "finished", "by epochs", "without a configuration", "odd")] == [1500, 20, 20, None, None]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    draw = random.Random(5)
    for name in ("a", "b"):
        (folder / "text.txt").write_text("\n".join("".join(draw.choice("abcdefgh ") for _ in range(200)) for _ in range(60)) + "\n")
        trireme("prepare", "--tokenizer", "bytes", "--validation", 0, "--out", folder / name, folder / "text.txt")
    return folder


def write_run(folder, corpus, **changes):
    run = dict(model=dict(family="gpt2", num_layers=1, hidden_size=16, num_heads=2, vocab_size=257, max_sequence=32), data=dict(train=str(corpus / "a/train"), sequence=16), layout=dict(micro_batch=2), threads=1,
               optimizer=dict(global_batch=2, steps=1000000, lr=1e-3, warmup=0, max_bad_steps=2), checkpoint=dict(every=0), evaluation=dict(every=0), seed=3, output=str(folder / "run"))
    folder.mkdir()
    (folder / "run.yaml").write_text(yaml_of({**run, **changes}))
    return folder / "run.yaml"


def test_real_runs(tmp_path, corpus):
    """A run is interrupted, resumes, fails (with a line in failures.txt, also on one rank) and resumes again; shares of time appear before the summary."""
    path, failures = write_run(tmp_path / "one", corpus), tmp_path / "one/run/failures.txt"
    with board(tmp_path) as b:
        def shown(condition):
            return b.wait(lambda found: found["runs"] and condition(found["runs"][0]))["runs"][0]

        def interrupt(behind, during=None):
            process = subprocess.Popen([TRIREME, "train", path], stderr=subprocess.DEVNULL)
            run = shown(lambda run: run["state"] == "running" and run["step"] > behind)
            if during:
                during()
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 130
            return run, shown(lambda run: run["summary"] and run["step"] == run["summary"]["steps"])

        going, run = interrupt(20)
        assert going["planned_steps"] == 1000000 and going["summary"] is None and going["reason"] is None
        assert going["share"]["steps"] == 8 and sum(going["share"][name] for name in ("compute", "optimizer", "bubble")) == pytest.approx(1, abs=1e-4)
        assert run["state"] == "interrupted" and run["step"] > 20 and not failures.exists()
        trireme("train", path, "--set", "optimizer.lr=1e10", status=8)
        run = shown(lambda run: run["state"] == "diverged")
        assert re.match(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d\d\dZ rank 0: the loss or gradient was NaN or infinite in steps ", failures.read_text()) and failures.read_text().count("\n") == 1
        assert re.fullmatch(r"the loss or gradient was NaN or infinite in steps \d+ to \d+, so the run stops", run["reason"]) and str(run["step"]) in run["reason"]
        # A start that is refused because a run uses the folder does not count as a failure, and neither does a signal.
        size = failures.stat().st_size
        going, run = interrupt(run["step"] + 20, lambda: trireme("train", path, status=10))
        assert going["reason"] is run["reason"] is None and run["state"] == "interrupted" and failures.stat().st_size == size
        assert sum("share" in json.loads(line) for line in (tmp_path / "one/run/metrics.jsonl").open()) == 2


# ---- whom it answers


def test_hosts(tmp_path):
    """Another site's name that was bound to this machine's address learns nothing."""
    with board(tmp_path) as b:
        for host in (f"127.0.0.1:{b.port}", f"localhost:{b.port}", f"LOCALHOST:{b.port}"):
            status, headers, _ = b.get("/", headers={"Host": host})
            assert status == 200 and "default-src 'none'" in headers["Content-Security-Policy"]
        for host in ("evil.example", f"evil.example:{b.port}", f"localhost.evil.example:{b.port}", f"127.0.0.1:{b.port + 1}", "127.0.0.1", f"127.0.0.1:{b.port}.evil.example"):
            for path in ("/", "/api/list", "/board.js"):
                assert b.get(path, headers={"Host": host})[0] == 421, host
        assert b.get("/", headers={})[0] in (400, 421)
        for method in ("POST", "PUT", "DELETE", "OPTIONS"):
            assert b.get("/api/list", method=method)[0] == 405
        status, headers, body = b.get("/api/list", method="HEAD")
        assert status == 200 and body == b"" and "Access-Control-Allow-Origin" not in headers


def test_its_own_address(tmp_path):
    """The board answers at the address that it prints, also at another loopback address or name."""
    with board(tmp_path, more=("--host", "127.0.0.2")) as b:
        assert b.url == f"http://127.0.0.2:{b.port}/" and urllib.request.urlopen(b.url, timeout=30).status == 200
        for host in (f"127.0.0.3:{b.port}", f"127.0.0.2:{b.port + 1}", "127.0.0.2", "evil.example"):
            with pytest.raises(urllib.error.HTTPError, match="421"):
                urllib.request.urlopen(urllib.request.Request(b.url, headers={"Host": host}), timeout=30)


def test_paths(tmp_path):
    """Nothing is named by a path, and nothing but the page and the items is there."""
    make_run(tmp_path / "in/out", 3)
    (tmp_path / "secret").write_text("secret words")
    os.symlink(tmp_path / "secret", tmp_path / "in/out/config.yaml.x")
    with board(tmp_path / "in") as b:
        b.wait(lambda found: len(found["runs"]) == 1)
        for path in ("/secret", "/../secret", "/..%2fsecret", "/%2e%2e/secret", "//etc/passwd", "/board.js/../../secret", "/api/../secret", "/out/metrics.jsonl", "/api", "/api/",
                     "/" + "a" * 5000):
            status, _, body = b.get(path)
            assert status in (404, 414) and b"secret words" not in body, path
        for number in ("0x1", "-1", "1e9", "99", "../0", "", "nan", "1e400", "0;", "18446744073709551616"):
            for path in ("/api/run", "/api/study", "/api/timeline", "/api/picture"):
                assert b.get(path, id=number)[0] == 404, (path, number)
        assert b.get("/api/study", id=0)[0] == 404  # a run's
        for query in (dict(runs="0,0,0"), dict(runs="0,x"), dict(runs=",".join(["0"] * 3000)), dict(runs="-5,7"), dict(runs="0", points="1e9"), dict(runs="0", points="nan"),
                      dict(runs="0", x="y"), {"runs": "0", "from": "5", "to": "1"}, {"runs": "0", "from": "-1e300", "to": "1e300"}, dict(runs="0", smoothing="0"), {}):
            b.json("/api/series", **query)


SECRET = "secret words of somebody else"


def make_outside(folder):
    """Makes a folder outside of the board's root, with each kind of file that the board shows; its words must not appear through a link."""
    folder.mkdir()
    (folder / "config.yaml").write_text(f"model: {SECRET}\n")
    (folder / "failures.txt").write_text(f"{SECRET}\n")
    (folder / "samples.jsonl").write_text(json.dumps(dict(step=1, prompt=SECRET, text=SECRET)) + "\n")
    (folder / "summary.json").write_text(json.dumps(dict(model=SECRET)))
    (folder / "metrics.jsonl").write_text(line_of(7, loss=0.7654321))
    (folder / "LOCK").write_text("")
    (folder / "checkpoints/step-00000007").mkdir(parents=True)
    for mark in ("COMPLETE", "BEST", "PROVEN"):
        (folder / "checkpoints/step-00000007" / mark).write_text("")
    (folder / "t.json").write_text('{"displayTimeUnit":"ms","traceEvents":[\n{"ph":"M","pid":0,"name":"process_name","args":{"name":"' + SECRET + '"}}\n]}\n')
    (folder / "t.svg").write_text(f"<svg>{SECRET}</svg>")
    store = sqlite3.connect(folder / "study.db")
    store.execute("CREATE TABLE study (id INTEGER PRIMARY KEY, text TEXT, file TEXT)")
    store.execute("INSERT INTO study VALUES (1, ?, '')", ("study " + SECRET + "\n",))
    store.execute("CREATE TABLE trials (number INTEGER PRIMARY KEY, point, state, value, memory, reason, seconds, node_s, layout, began)")
    store.execute("CREATE TABLE members (member, round, parent, state, params, loss, reason, seconds, began)")
    store.commit()
    store.close()
    return folder


def everything_of(b):
    """All that the board says of all it has found."""
    found = b.json("/api/list")
    answers = [json.dumps(found).encode()]
    for kind, paths in (("runs", ["/api/run"]), ("studies", ["/api/study"]), ("timelines", ["/api/timeline", "/api/picture"])):
        for item in found[kind]:
            answers += [b.get(path, id=item["id"])[2] for path in paths]
    for run in found["runs"]:
        answers.append(b.get("/api/series", runs=run["id"])[2])
    return found, b"\n".join(answers)


@pytest.mark.parametrize("lead", ["links", "relative links", "folders"])
def test_links_lead_nowhere(tmp_path, lead):
    """Links below a shown folder are as if nothing were there: of each file of a run, of a run, and of the folders on the way."""
    outside = make_outside(tmp_path / "outside")
    shown = tmp_path / "shown"
    make_run(shown / "run", 3)
    if lead == "folders":
        os.symlink(outside, shown / "linked")
        os.symlink(tmp_path, shown / "run/above")
    else:
        for path in outside.iterdir():
            target = path if lead == "links" else pathlib.Path("../../outside", path.name)
            if path.name != "metrics.jsonl":
                os.symlink(target, shown / "run" / path.name)
        (shown / "other").mkdir()
        os.symlink(outside / "metrics.jsonl", shown / "other/metrics.jsonl")
        shutil.copy(outside / "t.json", shown / "own.json")
        os.symlink(outside / "t.svg", shown / "own.svg")
    with board(shown) as b:
        b.wait(lambda found: found["runs"] and found["runs"][0]["step"] == 3)
        found, said = everything_of(b)
        assert SECRET.encode() not in said and b"0.7654" not in said
        assert [run["name"] for run in found["runs"]] == ["run"] and found["studies"] == found["timelines"] == []
        run = found["runs"][0]
        assert run["summary"] is None and not run["failed"] and run["samples"] == 0 and run["checkpoints"] == [] and run["state"] == "interrupted" and run["planned_steps"] is run["reason"] is None
        words = b.json("/api/run", id=run["id"])
        assert words["config"] is words["failures"] is words["samples"] is None


def test_a_shown_folder_may_be_a_link(tmp_path):
    """It was named by who started the board; so was a folder on the way to it."""
    outside = make_outside(tmp_path / "outside")
    os.symlink(outside, tmp_path / "link")
    os.symlink(tmp_path, tmp_path / "way")
    for shown in (tmp_path / "link", tmp_path / "way/outside"):
        with board(shown) as b:
            b.wait(lambda found: found["runs"] and found["runs"][0]["step"] == 7)
            found, _ = everything_of(b)
            assert found["runs"][0]["summary"]["model"] == SECRET and found["runs"][0]["checkpoints"] == [dict(step=7, best=True, proven=True)]
            assert SECRET in b.json("/api/run", id=found["runs"][0]["id"])["config"] and b.json("/api/study", id=found["studies"][0]["id"])["study"] == SECRET
            assert SECRET.encode() in b.get("/api/picture", id=found["timelines"][0]["id"])[2]
            assert [rank["label"] for rank in b.json("/api/timeline", id=found["timelines"][0]["id"])["ranks"]] == [SECRET]


def test_links_that_come_later(tmp_path):
    """Files and folders that were shown become links, pipes and devices' names."""
    outside = make_outside(tmp_path / "outside")
    shown = tmp_path / "shown"
    shutil.copytree(outside, shown / "run")
    for path in (shown / "run").iterdir():
        if path.is_file() and path.suffix != ".db":
            path.write_text(path.read_text().replace(SECRET, "own words").replace("0.7654321", "0.5"))
    (shown / "run/study.db").write_bytes((outside / "study.db").read_bytes().replace(SECRET.encode(), b"w" * len(SECRET)))
    with board(shown) as b:
        found = b.wait(lambda found: found["runs"] and found["runs"][0]["step"] == 7)
        assert SECRET.encode() not in everything_of(b)[1]
        numbers = dict(run=found["runs"][0]["id"], study=found["studies"][0]["id"], timeline=found["timelines"][0]["id"], picture=found["timelines"][0]["id"])

        def all_say_nothing():
            for kind, number in numbers.items():
                began = time.monotonic()
                status, _, said = b.get("/api/" + kind, id=number)
                assert status in (200, 404, 503) and SECRET.encode() not in said and time.monotonic() - began < 10, (kind, said)
            assert SECRET.encode() not in b.get("/api/list")[2]

        os.rename(shown / "run", shown / ".kept")
        os.symlink(outside, shown / "run")
        all_say_nothing()
        os.unlink(shown / "run")
        os.rename(shown / ".kept", shown / "run")
        for make in (lambda path: os.symlink(outside / path.name, path), os.mkfifo, lambda path: os.symlink("/dev/zero", path), os.mkdir):
            for path in (shown / "run").iterdir():
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
                make(path)
            all_say_nothing()
            b.wait(lambda found: found["runs"] == found["studies"] == found["timelines"] == [])
            all_say_nothing()


def test_token(tmp_path):
    for more in (["--token"], ["--host", "0.0.0.0"]):
        with board(tmp_path, more=more) as b:
            assert len(b.query["token"]) >= 32
            for path in ("/", "/api/list", "/api/run", "/nothing"):
                assert b.get(path, token=False)[0] == 403
                assert b.get(path + "?token=" + b.query["token"][:-1] + "x", token=False)[0] == 403
            assert b.get("/")[0] == 200 and b.get("/api/list")[0] == 200 and b.get("/board.js", token=False)[0] == 200


def test_usage(tmp_path):
    def said(*arguments, status):
        done = subprocess.run([TRIREME, "board", *map(str, arguments)], capture_output=True, text=True, timeout=30)
        assert done.returncode == status, done.stderr
        return done.stderr
    assert "which folders" in said(status=2)
    assert "there is no folder" in said(tmp_path / "none", status=4)
    assert "--port must be" in said(tmp_path, "--port", 70000, status=2)
    assert "not an address of this machine" in said(tmp_path, "--host", "192.0.2.7", status=2)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        words = said(tmp_path, "--port", other.getsockname()[1], status=10)
        assert "is in use" in words and "--port 0" in words
    assert "--host ADDRESS" in subprocess.run([TRIREME, "board", "--help"], capture_output=True, text=True, check=True).stdout


def test_many_at_once(tmp_path):
    """Many who ask while a file grows, and who go away in the middle."""
    path = make_run(tmp_path / "out", 2000)
    with board(tmp_path) as b, path.open("a") as file, concurrent.futures.ThreadPoolExecutor(16) as pool:
        b.wait(lambda found: found["runs"] and found["runs"][0]["step"] == 2000)

        def ask(i):
            if i % 5 == 0:
                with socket.create_connection(("127.0.0.1", b.port)) as gone:
                    gone.sendall(b"GET /api/series?runs=0 HTTP/1.1\r\nHost: 127.0.0.1"[:random.Random(i).randrange(1, 50)])
                return None
            if i % 3 == 0:
                return b.json("/api/list")["runs"][0]["step"]
            curve = b.json("/api/series", runs=0, x=random.Random(i).choice(["step", "tokens", "time"]), points=1 + i)["runs"][0]
            return sum(curve["steps"])

        asked = []
        for step in range(2001, 2201):
            file.write(line_of(step))
            file.flush()
            asked.append(pool.submit(ask, step))
        assert {2000 <= answer.result() <= 2200 for answer in asked if answer.result() is not None} == {True}
        b.wait(lambda found: found["runs"][0]["step"] == 2200)


def test_slow_clients(tmp_path):
    """Who sends a byte now and then, or takes nothing of an answer, keeps no other client out, however many connections they hold."""
    make_run(tmp_path / "out", 20000)
    with board(tmp_path) as b, contextlib.ExitStack() as stack:
        b.wait(lambda found: found["runs"] and found["runs"][0]["step"] == 20000)
        host = f"Host: 127.0.0.1:{b.port}\r\n".encode()
        slow = []
        for i in range(150):
            slow.append(stack.enter_context(socket.create_connection(("127.0.0.1", b.port), timeout=30)))
            slow[-1].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            with contextlib.suppress(OSError):
                slow[-1].sendall([b"G", b"GET /api/list HTTP/1.1\r\n" + host + b"X: ", b"GET /api/series?runs=0&points=4000 HTTP/1.1\r\n" + host + b"\r\n"][i % 3])
            if i % 10 == 9:
                for one in slow:
                    with contextlib.suppress(OSError):
                        one.send(b"x")
                assert b.runs()["out"]["step"] == 20000
        with contextlib.suppress(ConnectionResetError):
            assert slow[0].recv(1) == b""  # it has made room for others


# ---- studies and timelines

STUDY = dict(name="small", model="frontier-22b", cluster="frontier", devices=16, global_batch=64, trials=12,
             space=[dict(name="pipeline", values="1 2 4 8"), dict(name="tensor", values="1 2 4 8"), dict(name="micro_batch", low=1, high=4)])


def tune(folder, trials):
    (folder / "study.yaml").write_text(yaml_of({**STUDY, "trials": trials}))
    subprocess.run([TRIREME, "tune", str(folder / "study.yaml"), "--json"], capture_output=True, check=True, env=ENVIRONMENT)


def trials_in(b, found):
    return b.json("/api/study", id=found["studies"][0]["id"])["trials"]


def test_a_study(tmp_path):
    """Its trials as they come; a store is neither locked nor written."""
    tune(tmp_path, 3)
    before = contents_of(tmp_path)
    with board(tmp_path) as b:
        found = b.wait(lambda found: len(found["studies"]) == 1)
        first = trials_in(b, found)
        study = b.json("/api/study", id=found["studies"][0]["id"])
        assert study["study"] == "small" and study["model"] == "frontier-22b" and study["unit"].startswith("TFLOP/s") and len(first) == 3
        assert {t["state"] for t in first} <= {"done", "failed"} and all((t["value"] > 0) == (t["state"] == "done") for t in first if t["value"] is not None)
        assert contents_of(tmp_path) == before
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            going = pool.submit(tune, tmp_path, 12)
            seen = []
            while not going.done():  # asked as often as it can be while it is written
                seen.append(len(trials_in(b, found)))
            going.result()
        assert seen == sorted(seen) and seen[0] >= 3
        assert len(trials_in(b, found)) == 12 and trials_in(b, found)[:3] == first
        (tmp_path / "study.db").write_bytes((tmp_path / "study.db").read_bytes()[:5000])  # half of it
        assert b.get("/api/study", id=found["studies"][0]["id"])[0] == 503


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS id, i AS number, i AS member, i AS text FROM n"


def change(store, *statements):
    """Changes a store in ways that no tuner does."""
    with contextlib.closing(sqlite3.connect(store)) as of:
        of.execute("PRAGMA journal_mode = DELETE")
        for statement in statements:
            of.execute(statement) if isinstance(statement, str) else of.execute(*statement)
        of.commit()


BAD_STORES = {
    **{f"view {table}": ([f"DROP TABLE {table}", f"CREATE VIEW {table} AS {ENDLESS}"], f"`{table}` is a view") for table in ("study", "trials", "members")},
    "named a table": (["DROP TABLE trials", f"CREATE VIEW trials AS {ENDLESS}", "PRAGMA writable_schema = ON", "UPDATE sqlite_schema SET type = 'table' WHERE name = 'trials'"],
                      "`trials` is a view or virtual table|malformed database schema"),  # SQLite finds some
    "trigger": ([f"CREATE TRIGGER t BEFORE UPDATE ON trials BEGIN SELECT * FROM ({ENDLESS}); END"], "`t` is a trigger"),
    "trial 0": (["UPDATE trials SET number = 0 WHERE number = 1"], "trial 0 is not a valid number; trials are numbered from 1"),
    "trial -5": (["UPDATE trials SET number = -5 WHERE number = 1"], "trial -5 is not a valid number; trials are numbered from 1"),
    "a million letters": ([("UPDATE trials SET point = ? WHERE number = 1", ("p" * 1000000,)), ("UPDATE study SET text = ?", ("study " + "s" * 900000,))], None),
    "two million letters": ([("UPDATE trials SET layout = ? WHERE number = 1", ("p" * 2000000,))], "too big"),
    "blobs": (["UPDATE trials SET reason = zeroblob(900000)"] + [f"INSERT INTO trials (point, state, reason) VALUES ('p{i}', 2, printf('%.*c', 900000, 'x'))" for i in range(40)],
              "more than is shown"),
    "odd values": (["UPDATE trials SET value = 9e999, state = 77, seconds = 'x', layout = x'00ff', began = 3 WHERE number = 1",
                    "UPDATE study SET text = 'objective 99'"], None),
}


@pytest.mark.parametrize("name", BAD_STORES)
def test_bad_stores(tmp_path, name):
    """Each is said in words or shown, soon and in little memory."""
    statements, said = BAD_STORES[name]
    tune(tmp_path, 3)
    change(tmp_path / "study.db", *statements)
    with board(tmp_path) as b:
        found = b.wait(lambda found: len(found["studies"]) == 1)
        began = time.monotonic()
        status, _, body = b.get("/api/study", id=found["studies"][0]["id"])
        assert time.monotonic() - began < 10
        assert status == (200 if said is None else 503) and re.search(said or "", body.decode()), body[:500]
        peak = int(re.search(r"VmHWM:\s+(\d+)", pathlib.Path(f"/proc/{b.process.pid}/status").read_text()).group(1))
        assert peak < 300 * 1024 or "/asan/" in TRIREME or "/tsan/" in TRIREME


def make_timeline(folder):
    subprocess.run([TRIREME, "simulate", "--model", "frontier-22b", "--cluster", "frontier", "--devices", "16", "--layout", "tensor=4,pipeline=4", "--global-batch", "16",
                    "--timeline", str(folder / "t.json")], capture_output=True, check=True, env=ENVIRONMENT)
    subprocess.run([TRIREME, "simulate", "--model", "frontier-22b", "--cluster", "frontier", "--devices", "16", "--layout", "tensor=4,pipeline=4", "--global-batch", "16",
                    "--timeline", str(folder / "t.svg")], capture_output=True, check=True, env=ENVIRONMENT)


def waits_of(path):
    """By rank and axis, from the whole file at once."""
    sums = {}
    for event in json.loads(path.read_text())["traceEvents"]:
        if event["ph"] == "X" and event["tid"] == 0 and event["args"].get("waited_us", 0) > 0:
            sums.setdefault(event["pid"], {}).setdefault(event["args"]["axis"], []).append(event["args"]["waited_us"])
    return {rank: {axis: sum(all_of) / 1e6 for axis, all_of in axes.items()} for rank, axes in sums.items()}


def test_a_timeline(tmp_path):
    make_timeline(tmp_path)
    with board(tmp_path) as b:
        item = b.wait(lambda found: len(found["timelines"]) == 1)["timelines"][0]
        status, headers, body = b.get("/api/picture", id=item["id"])
        assert status == 200 and headers["Content-Type"] == "image/svg+xml" and body == (tmp_path / "t.svg").read_bytes()
        ranks = b.json("/api/timeline", id=item["id"])["ranks"]
        found = {rank["rank"]: rank["waits_s"] for rank in ranks if rank["waits_s"]}
        wanted = waits_of(tmp_path / "t.json")
        assert found.keys() == wanted.keys() and all(found[rank] == pytest.approx(wanted[rank]) for rank in wanted) and len(ranks) == 4


def test_a_timeline_with_odd_numbers(tmp_path):
    """Events with impossible numbers are ignored, and the others are shown."""
    make_timeline(tmp_path)
    path = tmp_path / "t.json"
    wanted, good = waits_of(path), path.read_text().splitlines()
    odd = [dict(ph="X", pid=0, tid=0, name="x", cat="y", ts=1.0, dur=1.0, args=dict(step=1, axis="all", waited_us=1.0)) for _ in range(9)]
    for event, changes in zip(odd, [dict(ts=1e308), dict(ts=-1e308), dict(dur=1e308), dict(dur=-5.0), dict(ts=1e308, dur=1e308)]):
        event.update(changes)
    for event, number in zip(odd[5:], [1e308, -1.0, 10**18, 1e16]):
        event["args"]["waited_us"] = number
    lines = [json.dumps(event) + "," for event in odd + odd]
    path.write_text("\n".join([*good[:2], '{"ph":"X","pid":0,"tid":0,"ts":1e999},', *lines, *good[2:]]) + "\n")
    with board(tmp_path) as b:
        item = b.wait(lambda found: len(found["timelines"]) == 1)["timelines"][0]
        shown = b.json("/api/timeline", id=item["id"])
        found = {rank["rank"]: rank["waits_s"] for rank in shown["ranks"] if rank["waits_s"]}
        assert 0 < shown["seconds"] < 1e4
        assert found.keys() == wanted.keys() and all(found[rank] == pytest.approx(wanted[rank]) for rank in wanted)
        with path.open("a") as file:
            file.truncate(2 << 30)  # a hole, which takes no room on the disk
        assert b.get("/api/timeline", id=item["id"])[0] == 503 and b"more than is shown" in b.get("/api/timeline", id=item["id"])[2]


def resident_bytes(process):
    return 1024 * int(re.search(r"VmHWM:\s*(\d+)", pathlib.Path(f"/proc/{process.pid}/status").read_text())[1])


def test_huge_files(tmp_path):
    """Of files of hundreds of megabytes no more is held than is shown."""
    path = make_run(tmp_path / "out", 100)
    line = json.dumps(dict(step=1, prompt="p", text="t" * 900)) + "\n"
    for name, text in (("samples.jsonl", line), ("config.yaml", "key: " + "v" * 100 + "\n"), ("failures.txt", "rank 0: " + "f" * 90 + "\n"), ("summary.json", " ")):
        with (tmp_path / "out" / name).open("w") as file:
            file.truncate(300 << 20)
            file.seek(0, 2)
            file.write("\n" + text * 12000)
    with path.open("a") as file:
        file.truncate(path.stat().st_size + (300 << 20))
        file.seek(0, 2)
        file.write("\n" + line_of(101))
    with board(tmp_path) as b:
        b.wait(lambda found: found["runs"] and found["runs"][0]["step"] == 101)
        shown = b.json("/api/run", id=0)
        assert shown["config"].endswith("v\n") and shown["samples"].endswith(line) and shown["failures"].endswith("f\n")
        assert sum(len(text) for text in shown.values()) < 3 << 20
        assert resident_bytes(b.process) < 150 << 20


# ---- the page


@needs_chromium
def test_names_of_javascript(tmp_path):
    """Runs, numbers and shares of time that are called as members of every object are."""
    names = ("constructor", "__proto__", "toString")
    for name in names:
        path = make_run(tmp_path / "all" / name, 20)
        path.write_text("".join(line_of(step, **{f"{group}/margin": step / 7 for group in names}) for step in range(1, 21)))
        (path.parent / "summary.json").write_text(json.dumps(dict(model="m", ranks=1, share=dict(compute=0.5, steps=3, **{kind: 0.1 for kind in names}))))
    with board(tmp_path / "all") as b, Browser(tmp_path / "profile") as browser:
        b.wait(lambda found: len(found["runs"]) == 3 and all(run["step"] == 20 for run in found["runs"]))
        browser.open(b.url)
        browser.wait("document.querySelectorAll('#chart-loss .curve').length === 3 && document.querySelectorAll('#shares .keys .swatch').length >= 4")
        titles = browser.value("[...document.querySelectorAll('#charts .card:not([hidden]) h3')].map(e => e.textContent)")
        assert set(names) < set(titles), titles
        assert "function" not in browser.value("document.documentElement.outerHTML") and browser.said == []


@needs_chromium
def test_the_page(tmp_path):
    """The page shows all parts and follows changes; its console is silent, and it sends no request to other hosts."""
    runs = tmp_path / "all"
    path = make_run(runs / "first", 200)
    make_run(runs / "second", 100, validation_loss=2.5)
    (runs / "second/summary.json").write_text(json.dumps(dict(model="m", ranks=2, device="cpu", precision="fp32", share=dict(compute=0.75, pipeline=0.2, bubble=0.05, steps=3))))
    (runs / "first/LOCK").write_text("")
    (runs / "first/<img src=x onerror=alert(1)>").mkdir()
    shutil.copytree(runs / "second", runs / "first/<img src=x onerror=alert(1)>/<b>")
    tune(runs, 3)
    make_timeline(runs)
    with board(runs) as b, Browser(tmp_path / "profile") as browser:
        b.wait(lambda found: len(found["runs"]) == 3 and all(run["step"] >= 100 for run in found["runs"]))
        browser.open(b.url)
        browser.wait("document.querySelectorAll('.picture').length === 1 && document.querySelector('.picture').naturalWidth > 0")
        shown = browser.value("[...document.querySelectorAll('#charts .card:not([hidden]) h3')].map(e => e.textContent)")
        assert shown == ["Loss", "Throughput", "Share of the peak (MFU)", "Memory of a rank", "Gradient norm", "Validation loss", "Learning rate", "Time of a step"]
        assert browser.value("document.querySelectorAll('#chart-loss .curve').length") == 3
        assert browser.value("[...document.querySelectorAll('#table tbody tr')].map(r => r.cells[2].textContent)").count("100") == 2
        text = browser.value("document.body.innerText")
        for words in ("Where time goes", "Who waits", "Studies", "Timelines", "3 runs, 1 running", "<img src=x onerror=alert(1)>/<b>", "study.db"):
            assert words in text, words
        assert "NaN" not in browser.value("document.documentElement.outerHTML") and "undefined" not in text and "Infinity" not in text

        # It moves: a run and a study go on.
        curve = browser.value("document.querySelector('#chart-loss .curve[data-run]').getAttribute('d')")
        with path.open("a") as file:
            file.write("".join(line_of(step) for step in range(201, 301)) + line_of(301, loss=None, bad_steps=1) + line_of(302)[:30])
        tune(runs, 6)
        browser.wait("[...document.querySelectorAll('#table tbody tr')].some(r => r.cells[2].textContent === '301')")
        browser.wait(f"document.querySelector('#chart-loss .curve[data-run]').getAttribute('d') !== {json.dumps(curve)}")
        browser.wait("document.querySelectorAll('#studies tbody tr').length === 6")
        browser.wait("document.querySelectorAll('#chart-loss .bad').length === 1 && !document.querySelector('#chart-bad_steps').hidden")

        # Another axis, a mean, a logarithm, a closer look, one run alone, the keyboard.
        browser.value("document.querySelector('[value=tokens]').click()")
        browser.wait("document.querySelector('#chart-loss .note').textContent.includes('tokens')")
        browser.value("document.querySelector('#log').click()")
        assert "logarithmic" in browser.value("document.querySelector('#chart-loss .note').textContent")
        browser.value("document.querySelector('#chart-loss svg').focus()")
        for _ in range(3):
            browser.call("Input.dispatchKeyEvent", type="keyDown", key="ArrowRight", code="ArrowRight")
        tip = browser.value("document.querySelector('#tip').hidden ? '' : document.querySelector('#tip').innerText")
        assert "tokens" in tip and "first" in tip
        box = browser.value("(() => { const b = document.querySelector('#chart-loss svg').getBoundingClientRect(); return [b.left, b.top, b.width] })()")
        for kind, share in (("mousePressed", 0.3), ("mouseMoved", 0.5), ("mouseReleased", 0.6)):
            browser.call("Input.dispatchMouseEvent", type=kind, x=box[0] + share * box[2], y=box[1] + 100, button="left", buttons=1, clickCount=1)
        browser.wait("!document.querySelector('#whole').hidden")
        browser.value("document.querySelector('#whole').click()")
        browser.value("document.querySelector('#none').click(); document.querySelector('#runs button').click()")
        browser.wait("document.querySelectorAll('#chart-loss .curve').length === 1")
        browser.value("document.querySelector('#theme').click()")
        browser.value("document.querySelectorAll('#words details').forEach(d => d.open = true)")
        browser.wait("document.querySelector('#words .note') !== null")
        assert browser.said == []
        assert {urllib.parse.urlsplit(url).netloc for url in browser.asked if not url.startswith("data:")} == {f"127.0.0.1:{b.port}"}
    assert b.process.returncode == 130


@needs_chromium
def test_samples(tmp_path):
    """Samples are shown by prompt, the newest first; bad lines of the file are ignored, and markup in a text is not interpreted."""
    make_run(tmp_path / "runs/one", 20)
    lines = [dict(step=step, number=n, sample=0, prompt=prompt, text=f" text of {step}\n</script><b onclick=alert(1)>&amp;", tokens=3, finish="length")
             for step in (10, 20) for n, prompt in enumerate(("Once", "<i>Twice"))]
    path = tmp_path / "runs/one/samples.jsonl"
    whole = "".join(json.dumps(line) + "\n" for line in lines)
    path.write_text('{"step": 1, "pro\n[1]\nnull\n{"text": 5, "prompt": "x"}\n' + whole + '{"step": 30, "prompt": "Once", "te')
    with board(tmp_path / "runs") as b, Browser(tmp_path / "profile") as browser:
        b.wait(lambda found: len(found["runs"]) == 1)
        browser.open(b.url)
        browser.wait("document.querySelectorAll('#samples .sample').length === 4")
        shown = browser.value("[...document.querySelectorAll('#samples .card > div > .sample')].map(e => e.textContent)")
        assert shown == [line["prompt"] + line["text"] for line in lines[2:]]
        assert browser.value("[...document.querySelectorAll('#samples .card > div > .note')].map(e => e.textContent)") == ["step 20"] * 2
        assert browser.value("[...document.querySelectorAll('#samples details > .note')].map(e => e.textContent)") == ["step 10"] * 2
        with path.open("a") as file:
            file.write('xt": " more"}\n')
        browser.wait("document.querySelector('#samples .sample').textContent === 'Once more'")
        # Only the end of a large file is read.
        path.write_text((json.dumps(dict(lines[0], text="old " * 200)) + "\n") * 1000 + whole)
        browser.wait("document.querySelectorAll('#samples .sample')[0].textContent === " + json.dumps(lines[2]["prompt"] + lines[2]["text"]))
        path.unlink()
        browser.wait("document.querySelector('#samples-part').hidden")
        assert browser.said == []


@needs_chromium
def test_chat_samples(tmp_path):
    """A sample of a chat prompt shows the message and the answer, without the text of the template."""
    make_run(tmp_path / "runs/one", 20)
    lines = [dict(step=step, number=0, prompt="<|user|>What?\nNow<|assistant|>", message="What?\nNow", text=f"That <b>{step}</b>") for step in (10, 20)]
    (tmp_path / "runs/one/samples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with board(tmp_path / "runs") as b, Browser(tmp_path / "profile") as browser:
        b.wait(lambda found: len(found["runs"]) == 1)
        browser.open(b.url)
        browser.wait("document.querySelectorAll('#samples .sample').length === 2")
        assert browser.value("[...document.querySelectorAll('#samples .sample .message')].map(e => e.textContent)") == ["What?\nNow"] * 2
        assert browser.value("[...document.querySelectorAll('#samples .sample .answer')].map(e => e.textContent)") == ["That <b>20</b>", "That <b>10</b>"]
        assert "assistant" not in browser.value("document.body.textContent") and browser.said == []


@needs_chromium
def test_many_runs_on_the_page(tmp_path):
    """Each has a colour of its own and keeps it; what differs between them; states in words; no table is wider than a usual window."""
    runs = tmp_path / "runs"
    for i in range(14):
        make_run(runs / f"run-{i:02}", 20, validation_loss=2.5)
        (runs / f"run-{i:02}/config.yaml").write_text(CONFIG.replace("{steps}", "1500").replace("{lr}", f"{0.1 * (i + 1):g}" + ("" if i else "  # the highest")))
        (runs / f"run-{i:02}/summary.json").write_text(json.dumps(dict(steps=20, ranks=8, device="cpu avx512", precision="bf16")))
    (runs / "run-03/config.yaml").write_text("optimizer:\n  # steps: 20\n  epochs: 2\n  lr: 0.1\nseed: 1\nmodel:\n  name: inline\n  steps: 5\ndata:\n  train:\n    - path: a\n      weight: 1\n    - path: \"b # c\"   # the second\n")
    (runs / "run-05/summary.json").unlink()
    (runs / "run-00/checkpoints/step-00000020").mkdir(parents=True)
    (runs / "run-00/checkpoints/step-00000020/COMPLETE").write_text("")
    (runs / "run-05/failures.txt").write_text(f"rank 0: {BAD}\n")
    (runs / "run-06/summary.json").write_text(json.dumps(dict(steps=20, ended_early=True)))
    tune(runs, 6)
    colours = "Object.fromEntries([...document.querySelectorAll('#runs li')].map(e => [e.querySelector('.name').textContent, getComputedStyle(e.querySelector('.swatch')).color]))"
    with board(runs) as b, Browser(tmp_path / "profile", width=1200) as browser:
        b.wait(lambda found: len(found["runs"]) == 14 and all(run["step"] == 20 for run in found["runs"]))
        browser.open(b.url)
        browser.wait("document.querySelectorAll('#chart-loss .curve').length === 14 && !!document.querySelector('#differences table') && !!document.querySelector('#studies table')")
        states = dict(browser.value("[...document.querySelectorAll('#table tbody tr')].map(r => [r.cells[0].textContent.trim(), r.cells[1].textContent])"))
        assert [states[f"run-{i:02}"] for i in (0, 3, 5, 6)] == ["interrupted at 20 of 1,500", "finished, 20 steps", f"diverged at step 20: {BAD.split(';')[0]}", "ended early at 20 of 1,500"]

        # What differs: of the first twelve, and of those shown.
        rows = browser.value("[...document.querySelectorAll('#differences tr')].map(r => [...r.cells].map(c => c.textContent.trim()))")
        assert rows[0] == ["key", *(f"run-{i:02}" for i in range(12))]
        found = {row[0]: row[1:] for row in rows[1:]}
        assert found.keys() == {"optimizer.lr", "optimizer.steps", "optimizer.epochs", "data.train.1.path", "data.train.1.weight", "data.train.2.path"}
        assert found["optimizer.lr"] == [f"{0.1 * (1 if i == 3 else i + 1):g}" for i in range(12)] and found["optimizer.epochs"] == ["–"] * 3 + ["2"] + ["–"] * 8
        assert found["data.train.2.path"][3] == '"b # c"'
        assert "the first 12 of the 14" in browser.value("document.querySelector('#differences').textContent")
        for _ in range(2):
            for table in ("#table", "#studies table", "#differences table"):
                wide = browser.value(f"(t => [t.offsetWidth, t.parentNode.clientWidth])(document.querySelector('{table}'))")
                assert table.startswith("#diff") or wide[0] <= wide[1], (table, wide)
            assert browser.value("document.documentElement.scrollWidth <= innerWidth")

            # Colours.
            before = browser.value(colours)
            assert len(set(before.values())) == 14
            browser.value("document.querySelector('#theme').click()")
        before = browser.value(colours)
        browser.value("document.querySelectorAll('#runs button')[4].click()")
        browser.wait("document.querySelectorAll('#chart-loss .curve').length === 13")
        make_run(runs / "a-new-one", 20)
        browser.wait("document.querySelectorAll('#chart-loss .curve').length === 14")
        after = browser.value(colours)
        assert {name: colour for name, colour in after.items() if name not in ("a-new-one", "run-04")} == {name: colour for name, colour in before.items() if name != "run-04"}
        assert after["a-new-one"] == before["run-04"] != after["run-04"]
        browser.value("[...document.querySelectorAll('#runs li')].filter(e => /run-(0[3-9]|1.)/.test(e.textContent)).forEach(e => e.firstChild.getAttribute('aria-pressed') === 'true' && e.firstChild.click())")
        browser.wait("document.querySelectorAll('#differences tr').length === 2 && document.querySelectorAll('#differences th[scope=col]').length === 4")
        assert browser.said == []


@needs_chromium
def test_a_study_by_halving(tmp_path, corpus):
    """Is drawn by trial over its steps, with a row for each trial."""
    model = dict(family="llama", num_layers=1, hidden_size=16, num_heads=2, ffn_size=16, vocab_size=257, max_sequence=32)
    (tmp_path / "run.yaml").write_text(yaml_of(dict(model=model, data=dict(train=str(corpus / "a/train"), validation=str(corpus / "b/train"), sequence=16), threads=1,
                                                    layout=dict(micro_batch=1), optimizer=dict(steps=16, global_batch=1, lr=1e-2), evaluation=dict(batches=1), output=str(tmp_path / "runs"))))
    (tmp_path / "study.yaml").write_text(yaml_of(dict(name="rates", run=str(tmp_path / "run.yaml"), objective="validation_loss", method="halving",
                                                      space=[dict(name="optimizer.lr", values="1e-3 3e-3 1e-2 3e-2")])))
    (tmp_path / "shown").mkdir()
    trireme("tune", tmp_path / "study.yaml", "--store", tmp_path / "shown/study.db")
    with board(tmp_path / "shown") as b, Browser(tmp_path / "profile") as browser:
        found = b.wait(lambda found: len(found["studies"]) == 1)
        members = b.json("/api/study", id=found["studies"][0]["id"])["members"]
        assert b.json("/api/study", id=found["studies"][0]["id"])["steps"] == 16 and len(members) == 4 + 2 + 1 + 1
        browser.open(b.url)
        browser.wait("!!document.querySelector('#studies svg.halving')")
        assert browser.value("[...document.querySelectorAll('#studies .curve.trial')].map(e => e.getAttribute('d').split('L').length)") == [sum(m["member"] == n for m in members) for n in (1, 2, 3, 4)]
        assert browser.value("document.querySelectorAll('#studies circle.done').length") == len(members)
        texts = browser.value("[...document.querySelectorAll('#studies svg.halving text')].map(e => e.textContent)")
        assert {"2 steps", "4", "8", "16"} < set(texts)
        rows = browser.value("[...document.querySelectorAll('#studies tbody tr')].map(r => [...r.cells].map(c => c.textContent))")
        best = members[-1]
        assert len(rows) == 4 and rows[0][:4] == [str(best["member"]), best["params"], "done", "16"] and float(rows[0][4]) == pytest.approx(best["loss"], rel=1e-5)
        assert browser.value("document.querySelector('#studies .counts').textContent") == "4 done, 0 failed" and browser.said == []


@needs_chromium
def test_fifteen_runs_of_two_objectives(tmp_path):
    """Losses of two objectives have charts of their own; a run whose loss rose to 22 is outside of the scale without outliers; the table shows all
    runs without scrolling, and no number of it is on two lines."""
    draw = random.Random(4)
    for i in range(15):
        folder = tmp_path / f"runs/run-{i:02}"
        folder.mkdir(parents=True)
        lines = [json.loads(line_of(step)) for step in range(1, 61)]
        for line in lines:
            line["loss"] = 0.7 - line["step"] / 100 if i in (3, 4) else 3 + 19 * line["step"] / 60 if i == 7 else 2 + 4 / line["step"] + draw.random() / 10
            line["validation_loss"] = line["loss"] + 0.1
        (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        (folder / "config.yaml").write_text(PREFERENCES.format(name="dpo", beta=0.1) if i in (3, 4) else CONFIG.replace("{steps}", "60").replace("{lr}", "0.1"))
        (folder / "summary.json").write_text(json.dumps(dict(steps=60, ranks=8, device="cpu avx512", precision="bf16")))
    with board(tmp_path / "runs") as b, Browser(tmp_path / "profile", width=1400) as browser:
        b.wait(lambda found: len(found["runs"]) == 15 and all(run["step"] == 60 for run in found["runs"]))
        browser.open(b.url)
        browser.wait("document.querySelectorAll('[id=\"chart-loss\"] .curve').length === 13 && document.querySelectorAll('[id=\"chart-loss:2\"] .curve').length === 2")
        titles = "[...document.querySelectorAll('#charts .card:not([hidden])')].map(e => e.querySelector('h3').textContent)"
        assert browser.value(titles)[:2] == ["Loss (next token)", "Loss (dpo)"] and {"Validation loss (next token)", "Validation loss (dpo)"} < set(browser.value(titles))
        highest = "Number(/to ([\\d.]+)$/.exec(document.querySelector('#chart-loss svg').getAttribute('aria-label'))[1])"
        assert browser.value(highest) > 21
        browser.value("document.querySelector('#usual').click()")
        assert browser.value(highest) < 7 and "1 run outside of the scale" in browser.value("document.querySelector('#chart-loss .note').textContent")
        browser.value("document.querySelector('#usual').click()")
        assert browser.value(highest) > 21

        # The table: as high as its rows, one line each, the first column stays.
        table = browser.value("(t => [t.offsetHeight, t.parentNode.clientHeight, t.offsetWidth, t.parentNode.clientWidth])(document.querySelector('#table'))")
        assert table[0] <= table[1] and table[2] <= table[3], table
        rows = browser.value("[...document.querySelectorAll('#table tbody tr')].map(r => r.offsetHeight)")
        assert len(rows) == 15 and max(rows) < 30, rows
        assert browser.value("getComputedStyle(document.querySelector('#table tbody td')).position") == "sticky"

        # One objective alone has no other name.
        browser.value("[...document.querySelectorAll('#runs li')].filter(e => /run-0[34]/.test(e.textContent)).forEach(e => e.firstChild.click())")
        browser.wait("!document.querySelector('[id=\"chart-loss:2\"]:not([hidden])')")
        assert browser.value(titles)[0] == "Loss" and browser.said == []


@needs_chromium
def test_experts_and_sources(tmp_path):
    """Charts of what the lines of such runs have; none of runs without."""
    runs = tmp_path / "runs"
    experts = [dict(layer=layer, max_over_mean=load, entropy=0.75, rounds=1, load=[3, 1]) for layer, load in ((1, 1.5), (3, 2.5))]
    make_run(runs / "experts", 20, router_loss=0.25, experts=experts)
    make_run(runs / "mixed", 20, sources=[dict(share=0.7, tokens=7, epochs=0.1), dict(share=0.3, tokens=3, epochs=0.2)])
    (runs / "mixed/config.yaml").write_text('data:\n  train:    # what\n    - path: books/train   # one\n      weight: 7\n    - path: "the web/train"\n      weight: 3\n')
    make_run(runs / "plain", 20)
    with board(runs) as b, Browser(tmp_path / "profile") as browser:
        found = b.wait(lambda found: len(found["runs"]) == 3 and all(run["step"] == 20 for run in found["runs"]))
        ids = {run["name"]: run["id"] for run in found["runs"]}
        curves = {name: b.json("/api/series", runs=number)["runs"][0] for name, number in ids.items()}
        assert curves["experts"]["expert_load"] == [2] * 20 and curves["experts"]["expert_evenness"] == [0.75] * 20 and curves["experts"]["router_loss"] == [0.25] * 20
        assert curves["mixed"]["source_1"] == pytest.approx([0.7] * 20) and curves["mixed"]["source_2"] == pytest.approx([0.3] * 20) and "source_3" not in curves["mixed"]
        assert not {"expert_load", "source_1", "router_loss"} & set(curves["plain"])
        browser.open(b.url)
        browser.wait("document.querySelector('#chart-sources .keys').textContent.includes('books/train')")
        assert browser.value("[...document.querySelectorAll('#charts .card:not([hidden]) h3')].map(e => e.textContent).slice(-4)") == ["Shares of sources so far", "Busiest expert's load", "Evenness of experts' loads", "Router loss"]
        assert [browser.value(f"document.querySelectorAll('#chart-{name} .curve').length") for name in ("sources", "expert_load", "router_loss", "loss")] == [2, 1, 1, 3]
        assert browser.value("[...document.querySelectorAll('#chart-sources .keys span')].map(e => e.textContent.trim())") == ["books/train", "the web/train"]
        browser.value("document.querySelector('#chart-sources svg').focus()")
        browser.call("Input.dispatchKeyEvent", type="keyDown", key="ArrowRight", code="ArrowRight")
        tip = browser.value("document.querySelector('#tip').innerText")
        assert "mixed: books/train" in tip and "70 %" in tip and "30 %" in tip
        browser.value("[...document.querySelectorAll('#runs button')].forEach(e => e.textContent.includes('plain') || e.click())")
        browser.wait("document.querySelector('#chart-sources').hidden && document.querySelector('#chart-expert_load').hidden && !document.querySelector('#chart-loss').hidden")
        assert browser.said == []


@needs_chromium
def test_names_that_a_run_makes(tmp_path):
    """Numbers whose names come from a run file: of one part, or grouped by the first of several; a member of the answers themselves is not taken for one."""
    rewards = {f"rewards/reward.{i}-with_a_name_of_its_own/mean": i / 2 for i in range(64)}
    others = {"reward": 3, "entropy": 0.5, "wait_s": 2, "completions/mean_length": 90, "completions/max_length": 100, "completions/clipped_ratio": 0.25}
    path = make_run(tmp_path / "runs/rl", 9, **rewards, **others, x=1, id=2, range=3, bad=4, share=5)
    with path.open("a") as file:
        file.write(line_of(10, **others, **{"validation/reward": 1, "validation/rewards/reward.9-with_a_name_of_its_own/mean": 2}))
    with board(tmp_path / "runs") as b, Browser(tmp_path / "profile") as browser:
        run, = b.wait(lambda found: [run["step"] for run in found["runs"]] == [10])["runs"]
        assert run["named"] == {**rewards, **others, "validation/reward": 1, "validation/rewards/reward.9-with_a_name_of_its_own/mean": 2}
        curves = b.json("/api/series", runs=run["id"], points=4000)["runs"][0]
        assert curves["reward"] == [3] * 10 and curves["validation/reward"] == [None] * 9 + [1] and curves["steps"] == [1] * 10 and curves["id"] == run["id"]
        assert curves["rewards/reward.63-with_a_name_of_its_own/mean"] == [31.5] * 9 + [None]
        browser.open(b.url)
        browser.wait("document.querySelectorAll('#charts .card[id^=chart-named]').length === 13")
        titles = browser.value("[...document.querySelectorAll('#charts .card:not([hidden])[id^=chart-named] h3')].map(e => e.textContent)")
        assert sorted(titles) == ["Rewards", *(f"Rewards ({i})" for i in range(2, 9)), "completions", "completions/clipped_ratio", "entropy", "reward", "wait_s"]
        count = {name: browser.value(f"document.querySelectorAll('[id=\"chart-named-{name}\"] .curve').length") for name in ("rewards", "rewards:2", "rewards:8", "completions", "completions/clipped_ratio", "reward")}
        assert count == {"rewards": 8, "rewards:2": 9, "rewards:8": 8, "completions": 2, "completions/clipped_ratio": 1, "reward": 2}
        keys = browser.value("[...document.querySelectorAll('[id=\"chart-named-rewards:2\"] .keys span')].map(e => e.textContent.trim())")
        assert keys == [f"reward.{i}-with_a_name_of_its_own/mean" for i in range(8, 16)] + ["reward.9-with_a_name_of_its_own/mean, held out"]
        assert browser.said == []


PREFERENCES = "objective:\n  name: {name}\n  beta: {beta}\noptimizer:\n  steps: 20\n"


def preference_lines(steps, every):
    """Lines of a run on pairs, as training writes them, with held-out numbers every few steps."""
    for step in range(1, steps + 1):
        named = {"rewards/chosen": step / 10, "rewards/rejected": -step / 10, "rewards/margins": step / 5, "rewards/accuracies": min(1, step / 16), "logps/chosen": -30.0, "logps/rejected": -50.0}
        if step % every == 0:
            named.update({"validation/" + name: value / 2 for name, value in named.items()}, validation_loss=0.5)
        yield line_of(step, **named)


@needs_chromium
def test_preferences(tmp_path):
    """All numbers with names of the form a/b have charts, next to those of the held-out data; runs on preferences show their objective and held-out accuracy, other runs do not."""
    runs = tmp_path / "runs"
    for name, beta in (("dpo", 0.1), ("ipo", 0.3)):
        path = make_run(runs / name, 1)
        path.write_text("".join(preference_lines(20, 5)))
        (runs / name / "config.yaml").write_text(PREFERENCES.format(name=name, beta=beta))
    make_run(runs / "plain", 20)
    (runs / "plain/config.yaml").write_text(PREFERENCES.format(name="cross_entropy", beta=0.1))
    later = make_run(runs / "later", 20, **{"a/b/accuracy": 0.25, "a/b/speed": 7, "<img src=x onerror=alert(1)>/x": 1, "n/" + "x" * 130: 1, "/": 1, "a/": 1, "sources/1": 1, "loss/loss": 3, "kl": 0.5})
    with later.open("a") as file:
        file.write(line_of(21, **{f"many/{i}": i for i in range(50)}) + '{"step": 22, "new/one": 1' + "\n" + line_of(23, **{"a/b/speed": "x", "a/b/accuracy": None}))
    with board(runs) as b, Browser(tmp_path / "profile") as browser:
        found = b.wait(lambda found: len(found["runs"]) == 4 and sorted(run["step"] for run in found["runs"]) == [20, 20, 20, 23])
        listed = {run["name"]: run for run in found["runs"]}
        assert {name: run["objective"] for name, run in listed.items()} == dict(dpo="dpo", ipo="ipo", plain=None, later=None)
        assert listed["dpo"]["named"]["validation/rewards/accuracies"] == 0.5 and listed["dpo"]["named"]["rewards/margins"] == 4 and "named" not in listed["plain"]
        assert listed["later"]["odd_lines"] == 1 and len(listed["later"]["named"]) == 54
        assert {"a/b/accuracy", "a/b/speed", "sources/1", "loss/loss", "many/0", "many/49"} <= set(listed["later"]["named"]) and not any("<" in name or "xx" in name for name in listed["later"]["named"])
        curves = {name: b.json("/api/series", runs=run["id"], points=4000)["runs"][0] for name, run in listed.items()}
        assert curves["dpo"]["rewards/chosen"] == pytest.approx([step / 10 for step in range(1, 21)])
        assert curves["dpo"]["validation/logps/chosen"] == [-15 if step % 5 == 0 else None for step in range(1, 21)]
        assert not any("/" in key for key in curves["plain"]) and curves["later"]["kl"][:20] == [0.5] * 20

        browser.open(b.url)
        browser.wait("document.querySelectorAll('#charts .card[id^=chart-named]').length === 14")
        titles = browser.value("[...document.querySelectorAll('#charts .card:not([hidden])[id^=chart-named] h3')].map(e => e.textContent)")
        assert sorted(titles) == ["Accuracy of rewards", "Log-probabilities of answers", "Rewards", "a", "a/b/accuracy", "loss", "many", *(f"many ({i})" for i in range(2, 8)), "sources"]
        count = {name: browser.value(f"document.querySelectorAll('[id=\"chart-named-{name}\"] .curve').length") for name in ("rewards", "rewards/accuracies", "logps", "a", "a/b/accuracy", "many", "many:7")}
        assert count == {"rewards": 12, "rewards/accuracies": 4, "logps": 8, "a": 1, "a/b/accuracy": 1, "many": 8, "many:7": 2}
        assert browser.value("document.querySelectorAll('[id=\"chart-named-rewards\"] circle.mark').length") == 2 * 3 * 4
        keys = browser.value("[...document.querySelectorAll('#chart-named-rewards .keys span')].map(e => e.textContent.trim())")
        assert keys == ["chosen", "rejected", "margins", "chosen, held out", "rejected, held out", "margins, held out"]
        browser.value("document.querySelector('[id=\"chart-named-rewards/accuracies\"] svg').focus()")
        browser.call("Input.dispatchKeyEvent", type="keyDown", key="ArrowRight", code="ArrowRight")
        tip = browser.value("document.querySelector('#tip').innerText")
        assert "dpo: accuracies" in tip and "%" in tip

        head = browser.value("[...document.querySelectorAll('#table th')].map(e => e.textContent)")
        assert "objective" in head and "val. accuracy" in head
        rows = {row[0]: row for row in browser.value("[...document.querySelectorAll('#table tbody tr')].map(r => [...r.cells].map(c => c.textContent.trim()))")}
        assert [rows[name][head.index("objective")] for name in ("dpo", "ipo", "plain")] == ["dpo", "ipo", ""]
        assert [rows[name][head.index("val. accuracy")] for name in ("dpo", "ipo", "plain")] == ["50 %", "50 %", "–"]
        names = "[...document.querySelectorAll('#differences th[scope=row]')].map(e => e.textContent)"
        browser.wait(f"['objective.name', 'objective.beta'].every(name => {names}.includes(name))")

        # Of runs without them there are no such charts and columns.
        browser.value("[...document.querySelectorAll('#runs button')].forEach(e => e.textContent.includes('plain') || e.click())")
        browser.wait("document.querySelectorAll('#charts .card:not([hidden])[id^=chart-named]').length === 0 && !document.querySelector('#chart-loss').hidden")
        for name in ("dpo", "ipo", "later"):
            shutil.rmtree(runs / name)
        browser.wait("document.querySelectorAll('#table tbody tr').length === 1 && ![...document.querySelectorAll('#table th')].some(e => /objective|accuracy/.test(e.textContent))")
        assert browser.said == []


@needs_chromium
def test_the_page_with_a_token(tmp_path):
    make_run(tmp_path / "runs/one", 20)
    with board(tmp_path / "runs", more=["--token"]) as b, Browser(tmp_path / "profile") as browser:
        browser.open(b.url)
        browser.wait("document.querySelectorAll('#chart-loss .curve').length === 1")
        assert browser.said == []
        browser.value("fetch('api/list').then(answer => answer.status)")  # without it: the console is heard
        browser.wait("1")
        assert [event["params"]["entry"]["text"] for event in browser.said if event["method"] == "Log.entryAdded"][0].endswith("403 (Forbidden)")

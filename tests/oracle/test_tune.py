"""`trireme tune` from the user's side: studies, stores, methods, real trials, kills, bad input."""
import json
import os
import pathlib
import re
import shutil
import signal
import sqlite3
import subprocess
import time

import pytest

TRIREME = os.environ["TRIREME"]
ROOT = pathlib.Path(__file__).resolve().parents[2]
SPACE = [dict(name="pipeline", values="1 2 4 8"), dict(name="tensor", values="1 2 4 8"), dict(name="micro_batch", low=1, high=4),
         dict(name="zero", values="0 1"), dict(name="schedule", values="1f1b interleaved"),
         dict(name="virtual_stages", values="1 2 3", when="schedule = interleaved")]
STUDY = dict(name="small", model="frontier-22b", cluster="frontier", devices=16, global_batch=64, trials=24, space=SPACE,
             constraints=[dict(rule="tensor * pipeline <= devices"), dict(rule="tensor <= 8")])


def write(path, value):
    path.write_text(json.dumps(value))
    return path


def tune(folder, study, *more, status=0):
    done = subprocess.run([TRIREME, "tune", str(write(folder / "study.yaml", study)), *map(str, more)], capture_output=True, text=True, timeout=300)
    assert done.returncode == status, done.stderr
    return done


def trials_of(folder, study, *more):
    return json.loads(tune(folder, study, "--json", *more).stdout)


def test_methods_find_the_same_space(tmp_path):
    """Exhaustive search tries every legal point once; the others a part of them, none twice, and no better one."""
    every = trials_of(tmp_path, STUDY, "--store", tmp_path / "a.db", "--method", "exhaustive")
    points = {t["point"] for t in every["trials"]}
    assert len(points) == len(every["trials"]) > 100
    for point in points:
        p = dict(word.split("=") for word in point.split(","))
        assert int(p["tensor"]) * int(p["pipeline"]) <= 16
        assert p["schedule"] == "interleaved" or p["virtual_stages"] == "1"
    values = {t["point"]: t.get("value") for t in every["trials"]}
    for method in ("gaussian", "random", "grid"):
        some = trials_of(tmp_path, STUDY, "--store", tmp_path / f"{method}.db", "--method", method)
        assert len(some["trials"]) == 24 and len({t["point"] for t in some["trials"]}) == 24
        for t in some["trials"]:
            assert values[t["point"]] == pytest.approx(t.get("value"), rel=1e-12) if "value" in t else t["reason"] == "out of memory"
        if method == "gaussian":
            assert some["best"]["value"] >= 0.9 * every["best"]["value"]


def test_best_layout_is_the_simulators(tmp_path):
    out = tune(tmp_path, STUDY, "--trials", 12).stdout
    best = re.search(r"^ +1 +trial \d+ +(\S+)", out, re.M)[1]
    layout = re.search(r"^layout: \{(.*)\}$", out, re.M)[1].replace(": ", "=").replace(", ", ",")
    found = json.loads(subprocess.run([TRIREME, "simulate", "--model", "frontier-22b", "--cluster", "frontier", "--devices", "16", "--global-batch",
                                       "64", "--layout", layout, "--json"], capture_output=True, text=True, check=True).stdout)
    assert found["tflops_per_device"] == pytest.approx(float(best), abs=1e-4)


def test_it_goes_on_after_a_kill(tmp_path):
    """Killed at any moment and started again, a study has the trials that it would have had."""
    whole = trials_of(tmp_path, STUDY, "--store", tmp_path / "whole.db")
    study = write(tmp_path / "study.yaml", STUDY)
    for delay in (0.02, 0.05, 0.1, 0.15):
        process = subprocess.Popen([TRIREME, "tune", str(study), "--store", str(tmp_path / "killed.db")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.wait()
    again = trials_of(tmp_path, STUDY, "--store", tmp_path / "killed.db")
    assert len(again["trials"]) == 24 and not [t for t in again["trials"] if t["state"] == "running"]
    assert len({t["point"] for t in again["trials"]}) == 24
    assert again["best"]["value"] >= 0.9 * whole["best"]["value"]


def test_several_tuners_share_a_study(tmp_path):
    study = write(tmp_path / "study.yaml", dict(STUDY, method="random", trials=60))
    tuners = [subprocess.Popen([TRIREME, "tune", str(study), "--seed", str(seed)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for seed in (1, 2, 3)]
    assert [tuner.wait(120) for tuner in tuners] == [0, 0, 0]
    rows = sqlite3.connect(tmp_path / "study.db").execute("SELECT point, state FROM trials").fetchall()
    assert 60 <= len(rows) <= 62 and len({point for point, _ in rows}) == len(rows) and all(state for _, state in rows)


def test_importance_adds_up(tmp_path):
    """Of a study in which one parameter alone matters, it is first, and one that does nothing is last with nothing."""
    cluster = dict(node_devices=8, peak_bf16=1e14, vector_flops=1e14, memory_bytes=1e15, memory_bandwidth=1e13,
                   links=[dict(name="all", bandwidth=1e9, latency=0)], efficiency=dict(matmul=1, matmul_half=0, attention=1, memory=1, link=1, launch=0))
    space = [dict(name="tensor", values="1 2 4 8"), dict(name="bucket_bytes", values="10000000 20000000 40000000")]
    study = dict(name="one", model="gpt2-124m", cluster=str(write(tmp_path / "cluster.yaml", cluster)), devices=8, global_batch=8, space=space,
                 method="exhaustive")
    found = trials_of(tmp_path, study)
    assert [i["parameter"] for i in found["importance"]] == ["tensor", "bucket_bytes"]
    assert found["importance"][1]["importance"] < 0.05 * found["importance"][0]["importance"]


def test_page(tmp_path):
    tune(tmp_path, STUDY, "--html", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert page.startswith("<!doctype html>") and "<script" not in page and "http" not in page
    assert page.count("<svg") == 2 and "What mattered" in page and page.count('class="winner"') == 1
    for tag in ("svg", "table", "h2", "body", "html"):
        assert len(re.findall(f"<{tag}[ >]", page)) == page.count(f"</{tag}>"), tag
    again = subprocess.run([TRIREME, "tune", "report", str(tmp_path / "study.yaml")], capture_output=True, text=True, check=True).stdout
    assert "24 trials" in again and "what mattered" in again


@pytest.mark.skipif(shutil.which("mpiexec") is None, reason="SKIPPED: there is no mpiexec")
def test_real_trials(tmp_path):
    """Short runs of their own: measured, failed for want of memory, out of time; nothing stays behind."""
    (tmp_path / "text.txt").write_text("".join(f"Oar {i} of {i * 7919 % 1000}.\n" for i in range(3000)))
    subprocess.run([TRIREME, "prepare", "--tokenizer", "bytes", "--out", str(tmp_path / "data"), str(tmp_path / "text.txt")], check=True, capture_output=True)
    model = dict(family="gpt2", num_layers=4, hidden_size=64, num_heads=4, vocab_size=257, max_sequence=64)
    run = dict(model=model, data=dict(train=str(tmp_path / "data/train"), sequence=64), optimizer=dict(global_batch=8, steps=100, lr=1e-3),
               output=str(tmp_path / "unused"))
    study = dict(name="real", run=str(write(tmp_path / "run.yaml", run)), devices=2, objective="tokens_per_s", trials=6, initial=3,
                 trial=dict(warmup=1, steps=4, minutes=1, worse=1000),
                 space=[dict(name="tensor", values="1 2"), dict(name="pipeline", values="1 2"), dict(name="micro_batch", values="1 2 4")])
    found = trials_of(tmp_path, study)
    assert found["done"] == 6 and found["failed"] == 0, found
    assert all(t["value"] > 0 for t in found["trials"]) and found["best"]["value"] == max(t["value"] for t in found["trials"])
    assert not list((tmp_path / "study.db.trials").iterdir()) and not (tmp_path / "unused").exists()
    study["trial"]["minutes"] = 0.0005
    late = trials_of(tmp_path, dict(study, name="late", trials=1), "--store", tmp_path / "late.db")
    assert late["trials"][0]["reason"] == "out of time"
    run["data"]["train"] = "nowhere"
    write(tmp_path / "run.yaml", run)
    study["trial"]["minutes"] = 1
    bad = trials_of(tmp_path, dict(study, name="bad", trials=1), "--store", tmp_path / "bad.db")
    assert bad["trials"][0]["reason"].startswith("failed: ") and "nowhere" in bad["trials"][0]["reason"]


@pytest.mark.parametrize("change,status,said", [
    (dict(space=[dict(name="tensors", values="1 2")]), 3, r"`tensors` is no parameter; there are nodes, accumulation, tensor"),
    (dict(space=[dict(name="tensor")]), 3, r"`tensor` has no values"),
    (dict(space=[dict(name="tensor", values="5 7")], constraints=[]), 3, r"the space of small has no legal point; the first of 2 points: layout"),
    (dict(constraints=[dict(rule="tensor <=")]), 3, r"`tensor <=` is no comparison"),
    (dict(constraints=[dict(rule="speed <= 4")]), 3, r"`speed <= 4` is no comparison"),
    (dict(constraints=[dict(rule="tensor > 8")]), 3, r"no legal point; no point obeys the constraints"),
    (dict(space=[*SPACE, dict(name="nodes", low=1, high=2, when="speed = 4")]), 3, r"`when: speed = 4` of `nodes` must be PARAMETER = VALUE"),
    (dict(cluster=""), 3, r"`cluster` is missing"),
    (dict(model="gpt5"), 3, r"`gpt5` is not a model preset"),
    (dict(objective="speed"), 3, r"`objective`.*must be one of tflops, tokens_per_s, cost"),
    (dict(spaces=[]), 3, r"`spaces` is not a key of a study file at line 1 of \S+; did you mean `space`"),
])
def test_bad_studies(tmp_path, change, status, said):
    assert re.search(said, tune(tmp_path, {**STUDY, **change}, status=status).stderr, re.S)
    assert not (tmp_path / "study.db").exists()


def test_bad_stores(tmp_path):
    tune(tmp_path, STUDY, "--trials", 3)
    before = (tmp_path / "study.db").read_bytes()
    other = dict(STUDY, global_batch=128)
    assert re.search(r"study.db holds another study: the file says `global_batch 128`, the store `global_batch 64`", tune(tmp_path, other, status=3).stderr)
    assert (tmp_path / "study.db").read_bytes() == before
    (tmp_path / "text.db").write_text("this is no database, however long one looks at it\n" * 40)
    assert "text.db: cannot open it: file is not a database; it is damaged or no study" in tune(tmp_path, STUDY, "--store", tmp_path / "text.db", status=4).stderr
    assert (tmp_path / "text.db").read_text().startswith("this is no database")
    assert "there is no store" in subprocess.run([TRIREME, "tune", "report", str(tmp_path / "study.yaml"), "--store", str(tmp_path / "no.db")],
                                                 capture_output=True, text=True).stderr
    assert "which study?" in subprocess.run([TRIREME, "tune"], capture_output=True, text=True).stderr
    assert "it can be gaussian, random, grid, exhaustive or pbt" in tune(tmp_path, STUDY, "--method", "magic", status=2).stderr

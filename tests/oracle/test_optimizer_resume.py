"""Checkpoints of every optimizer: a killed run resumes with the same bits; another optimizer is refused, or starts over if that is allowed;
error messages about optimizers in run files name the key, the value and a fix."""
import json
import os
import re
import shutil
import signal
import subprocess

import numpy
import optimizers
import pytest
import torch
from optimizer_runs import (LLAMA, MIXTRAL, batches_of, check_weights, close, corpus_of, lines_of, newest_of, ranks_words, skip_without, start_from, states_of,
                            weights_of, write_run)
from parity import TRIREME, trireme
from test_ranks import wait_for_step


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return corpus_of(tmp_path_factory.mktemp("corpus"))


# ---- killed ----------------------------------------------------------------------------------------------------------

KILLED = {
    "muon": dict(name="muon"), "lion": dict(name="lion"), "sgd": dict(name="sgd", sgd=dict(nesterov=True)), "adafactor": dict(name="adafactor"),
    "schedule_free": dict(name="schedule_free", warmup=30, schedule_free=dict(r=1.0)),
    "groups": dict(name="muon", embeddings=dict(name="schedule_free", lr_scale=0.5), vectors=dict(name="sgd"), routers=dict(name="lion")),
    "galore": dict(name="galore", galore=dict(rank=4, every=7)), "fira": dict(name="fira", fira=dict(rank=4, every=7)),
    "adamw in 8 bits": dict(state="int8"), "adamw in bf16": dict(state="bf16"), "muon in 8 bits": dict(name="muon", state="int8"),
}
LONG = 240


def write_long_run(folder, corpus, keys, **more):
    return write_run(folder, corpus, {**keys, "steps": LONG}, model=MIXTRAL, evaluation=dict(every=4, batches=1), checkpoint=dict(every=3, keep=0), **more)


def ended(folder):
    """The course of a run, and all of its last checkpoint that another step would begin with."""
    newest = newest_of(folder / "run")
    assert newest.name == f"step-{LONG:08d}"
    lines = lines_of(folder / "run")
    assert [line["step"] for line in lines] == list(range(1, LONG + 1))
    files = {path.name: path.read_bytes() for path in sorted(newest.glob("*.safetensors"))}
    return [(line["loss"], line["grad_norm"], line.get("validation_loss")) for line in lines], files


def kill_after(folder, path, step):
    """Whether it came to that: a run may be through before."""
    process = subprocess.Popen([TRIREME, "train", path], stderr=subprocess.DEVNULL)
    wait_for_step(folder, process, step)
    process.send_signal(signal.SIGKILL)
    return process.wait() == -signal.SIGKILL


@pytest.mark.parametrize("name", KILLED)
def test_killed_and_gone_on(tmp_path, corpus, name):
    skip_without(KILLED[name])
    alone = tmp_path / "alone"
    trireme("train", write_long_run(alone, corpus, KILLED[name]))
    for attempt in range(20):
        folder = tmp_path / f"killed-{attempt}"
        path = write_long_run(folder, corpus, KILLED[name])
        kills = [kill_after(folder, path, 8), kill_after(folder, path, 20)]
        trireme("train", path)
        assert ended(folder) == ended(alone)
        if all(kills):
            return
    raise AssertionError("no run was ever killed in time")


def test_looks_at_held_out_text_change_no_bit(tmp_path, corpus):
    """For them schedule-free weights are made those that are evaluated, and then those that are trained again."""
    ends = []
    for every in (1, 0):
        folder = tmp_path / str(every)
        keys = dict(name="schedule_free", steps=12)
        trireme("train", write_run(folder, corpus, keys, evaluation=dict(every=every, batches=1), checkpoint=dict(every=5 * every, keep=0)))
        ends.append([{name: values.tobytes() for name, values in of(folder / "run").items()} for of in (weights_of, states_of)])
    assert ends[0] == ends[1]


MANY = [(2, dict(data=2, zero=3)), (4, dict(tensor=2, data=2, zero=1)), (4, dict(pipeline=2, data=2, zero=2, schedule="zero-bubble")),
        (4, dict(context=2, expert=2, zero=1)), (4, dict(tensor=2, sequence_parallel=True, expert_tensor=2, zero=3))]


@pytest.mark.skipif(shutil.which("mpiexec") is None, reason="SKIPPED: there is no mpiexec")
@pytest.mark.parametrize("name", ["muon", "schedule_free", "groups", "adafactor", "fira"])
def test_runs_of_many_ranks(tmp_path, corpus, name):
    """From the user's side: losses of steps and of held-out text as of one rank, and every rank's memory as it was predicted."""
    skip_without(KILLED[name])
    keys, courses = {**KILLED[name], "steps": 7, "warmup": 2, "global_batch": 8}, {}
    for ranks, layout in [(1, {}), *MANY]:
        folder = tmp_path / "-".join(map(str, [ranks, *layout.items()]))
        path = write_run(folder, corpus, keys, model=MIXTRAL, precision="fp64", layout={**layout, "micro_batch": 1}, evaluation=dict(every=3, batches=1000))
        trireme("train", path, *ranks_words(ranks))
        courses[ranks, str(layout)] = [line[key] for line in lines_of(folder / "run") for key in ("loss", "grad_norm", "validation_loss") if key in line]
        summary = json.load(open(folder / "run/summary.json"))
        assert summary["peak_bytes_predicted"] == summary["peak_bytes_measured"], (layout, summary["peak_bytes_predicted"], summary["peak_bytes_measured"])
    expected = courses.pop((1, "{}"))
    for layout, found in courses.items():
        assert len(found) == len(expected), layout
        close(found, expected)


# ---- another optimizer -----------------------------------------------------------------------------------------------

def check(done, *texts):
    lines = [line for line in done.stderr.splitlines() if line.startswith("trireme: ")]
    assert len(lines) == 1, done.stderr
    for text in texts:
        assert re.search(text, lines[0]), (text, lines[0])
    return lines[0]


@pytest.mark.parametrize("before, after", [("adamw", "lion"), ("lion", "adamw"), ("adamw", "muon"), ("muon", "sgd"), ("sgd", "schedule_free"),
                                           ("schedule_free", "adamw"), ("adamw", "adafactor")])
def test_another_optimizer(tmp_path, corpus, before, after):
    """Refused by name; where it is meant, all states start from zero, and with them the count of updates: as in plain PyTorch from the weights
    that are there (of schedule-free ones those that are evaluated)."""
    skip_without(dict(name=after))
    first, steps = 5, 10
    keys = dict(lr=1e-2 if "sgd" in (before, after) else 1e-3)
    path = write_run(tmp_path, corpus, {**keys, "name": before, "steps": first}, precision="fp64")
    trireme("train", path)
    there = weights_of(tmp_path / "run")
    path = write_run(tmp_path, corpus, {**keys, "name": after, "steps": steps}, precision="fp64")
    refused = check(trireme("train", path, status=3), f"step-{first:08d}", rf"optimizer\.name is {before} \(\w+\) there and {after}\b", "allow_change=optimizer.name")
    assert newest_of(tmp_path / "run").name == f"step-{first:08d}" and refused
    done = trireme("train", path, "--set", "allow_change=optimizer.name")
    assert re.search(rf"optimizer.name changes from {before} \(\w+\) to {after}\b", done.stderr), done.stderr
    parameters = {name: torch.tensor(values, requires_grad=True) for name, values in there.items()}
    optimizer = json.loads(path.read_text())["optimizer"]
    expected = optimizers.train(LLAMA, parameters, batches_of(tmp_path, corpus, LLAMA, steps)[first:], optimizer, first)
    lines = lines_of(tmp_path / "run")[first:]
    close([line["loss"] for line in lines], expected["loss"])
    check_weights(weights_of(tmp_path / "run"), expected["weights"])
    trireme("train", write_run(tmp_path, corpus, {**keys, "name": after, "steps": steps + 2}, precision="fp64"))  # nothing is to be allowed any more


def test_another_optimizer_of_a_group(tmp_path, corpus):
    """The message has the word that allows it."""
    trireme("train", write_run(tmp_path, corpus, dict(name="adamw", steps=3)))
    path = write_run(tmp_path, corpus, dict(name="adamw", steps=6, vectors=dict(name="lion")))
    said = check(trireme("train", path, status=3), r"adamw \(vectors\) there and lion", r"allow_change=optimizer\.")
    trireme("train", path, "--set", "allow_change=" + re.search(r"allow_change=(\S+)", said)[1])
    assert newest_of(tmp_path / "run").name == "step-00000006"


def test_numbers_of_an_optimizer_may_change(tmp_path, corpus):
    trireme("train", write_run(tmp_path, corpus, dict(name="muon", steps=3)))
    trireme("train", write_run(tmp_path, corpus, dict(name="muon", steps=6, muon=dict(momentum=0.9), embeddings=dict(lr_scale=0.1), weight_decay=0.0)),
            "--set", "allow_change=optimizer.weight_decay,optimizer.muon.momentum,optimizer.embeddings.lr_scale")
    assert newest_of(tmp_path / "run").name == "step-00000006"


@pytest.mark.parametrize("before, after", [("schedule_free", "adamw"), ("adamw", "schedule_free"), ("schedule_free", "schedule_free"), ("lion", "muon")])
def test_weights_of_a_run_begin_another(tmp_path, corpus, before, after):
    """`init` takes the weights alone, of schedule-free runs those that are evaluated, as any reader of model.safetensors; nothing is to
    be allowed. With a rate of 0 they stay what they are."""
    trireme("train", write_run(tmp_path / "a", corpus, dict(name=before, steps=6), precision="fp64"))
    there = weights_of(tmp_path / "a/run")
    trireme("train", write_run(tmp_path / "b", corpus, dict(name=after, steps=1, lr=0.0), precision="fp64", init=str(tmp_path / "a/run")))
    check_weights(weights_of(tmp_path / "b/run"), there, 1e-15)


@pytest.mark.parametrize("name", ["muon", "schedule_free"])
def test_a_folder_that_no_optimizer_made(tmp_path, corpus, name):
    """Weights alone belong to no optimizer: any optimizer begins with them, and nothing is to be allowed."""
    start, weights = start_from(tmp_path, LLAMA)
    path = write_run(tmp_path, corpus, dict(name=name, steps=4), precision="fp64")
    trireme("train", path, "--resume", start)
    optimizer = json.loads(path.read_text())["optimizer"]
    expected = optimizers.train(LLAMA, weights.tensors(), batches_of(tmp_path, corpus, LLAMA, 4), optimizer)
    check_weights(weights_of(tmp_path / "run"), expected["weights"])


def test_a_state_that_is_missing(tmp_path, corpus):
    """A checkpoint whose optimizer's tensors lack one, with all sums as they should be, is not taken for whole."""
    path = write_run(tmp_path, corpus, dict(name="muon", steps=3))
    trireme("train", path)
    newest = newest_of(tmp_path / "run")
    file = newest / "optimizer.safetensors"
    raw = file.read_bytes()
    file.write_bytes(raw.replace(b"momentum_buffer", b"momentum_bufgone"[:15], 1))
    done = trireme("train", write_run(tmp_path, corpus, dict(name="muon", steps=6)), status=4)
    assert "optimizer.safetensors" in done.stderr


# ---- mistakes --------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("changes, said", [
    ("name=adam", ["name", "did you mean `adamw`"]),
    ("name=moun", ["name", "did you mean `muon`"]),
    ("name=shampoo", ["name", "adamw.*muon.*schedule_free.*lion.*sgd"]),
    ("matrices.name=lyon", ["matrices", "did you mean `lion`"]),
    ("embeddings.name=muon", ["embeddings", "muon", "matrices"]),
    ("vectors.name=galore galore.rank=4", ["vectors", "galore", "matrices"]),
    ("routers.name=fira fira.rank=4", ["routers", "fira", "matrices"]),
    ("muon.momentum=-0.1", ["momentum", "-0.1"]),
    ("muon.momentum=1.5 name=muon", ["momentum", "1.5"]),
    ("sgd.momentum=-1", ["momentum", "-1"]),
    ("muon.iterations=0 name=muon", ["iterations", "0", "1"]),
    ("muon.iterations=-5", ["iterations", "-5"]),
    ("muon.scale=kelly", ["scale", "did you mean `keller`"]),
    ("name=lion betas=[1.0,0.99]", ["betas"]),
    ("name=schedule_free betas=[0.0,0.99]", ["betas", "0"]),  # x = y + (1 - 1/beta1) (z - y)
    ("adafactor.beta2_decay=0.8", ["beta2_decay", "0.8"]),
    ("adafactor.d=0", ["adafactor.d|`d`", "0"]),
    ("schedule_free.weight_lr_power=-1", ["weight_lr_power", "-1"]),
    ("name=galore galore.rank=33", ["rank", "33", "16|32"]),
    ("name=fira fira.rank=100000", ["rank", "100000"]),
    ("name=galore", ["rank"]),
    ("name=galore galore.rank=0", ["rank", "0"]),
    ("name=galore galore.rank=4 galore.every=0", ["every", "0"]),
    ("state=fp8", ["state", "fp32, bf16.* int8|fp32|int8"]),
    ("matrices.lr_scale=-1", ["lr_scale", "-1"]),
    ("vectors.weight_decay_scale=-0.1", ["weight_decay", "-0.1"]),
    ("vectors.weight_decay_scale=some", ["weight_decay", "some"]),
    ("matrixes.lr_scale=1", ["matrixes", r"did you mean `(optimizer\.)?matrices`"]),
    ("muon.nestrov=true", ["nestrov", r"did you mean `(optimizer\.muon\.)?nesterov`"]),
])
def test_wrong_keys(tmp_path, corpus, changes, said):
    for name in ("adafactor", "galore", "fira"):
        if name in changes:
            skip_without(dict(name=name))
    words = [word for change in changes.split() for word in ("--set", f"optimizer.{change}")]
    line = check(trireme("train", write_run(tmp_path, corpus, {}), "--dry-run", *words, status=3), *said)
    assert "is not a key" not in line or "matrixes" in changes or "nestrov" in changes, line  # it is the value that is wrong
    assert not (tmp_path / "run").exists()


def test_a_word_for_allow_change(tmp_path, corpus):
    check(trireme("train", write_run(tmp_path, corpus, {}), "--dry-run", "--set", "allow_change=optimizer.nam", status=3), "allow_change", "did you mean `optimizer.name`")


def test_the_keys_of_optimizers_are_told():
    """`train --keys` is where people look."""
    keys = trireme("train", "--keys").stdout
    for key in ("name", "state", "muon.momentum", "muon.nesterov", "muon.scale", "muon.iterations", "sgd.momentum", "sgd.nesterov", "schedule_free.r",
                "schedule_free.weight_lr_power", "adafactor.beta2_decay", "adafactor.eps", "adafactor.d", "galore.rank", "galore.every", "galore.scale",
                "fira.rank", "fira.every", "fira.scale",
                *(f"{group}.{what}" for group in optimizers.GROUPS for what in ("name", "lr_scale", "weight_decay_scale"))):
        assert re.search(rf"optimizer\.{re.escape(key)}\s", keys), key


def test_what_a_step_costs(tmp_path, corpus):
    """The plans of two optimizers differ by the bytes of their states."""
    start, weights = start_from(tmp_path, LLAMA)
    elements = sum(numpy.prod(p["shape"]) for p in weights.table["parameters"])
    peaks = {}
    for name in ("adamw", "lion", "sgd"):
        trireme("train", write_run(tmp_path / name, corpus, dict(name=name, steps=1, sgd=dict(momentum=0.0)), init=str(start)))
        peaks[name] = json.load(open(tmp_path / name / "run/summary.json"))["peak_bytes_predicted"]
    assert 0.9 * 4 * elements <= peaks["adamw"] - peaks["lion"] <= 1.5 * 4 * elements, (peaks, elements)
    assert peaks["sgd"] <= peaks["lion"], peaks


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, *os.sys.argv[1:]]))

"""Runs on preferences as users start, kill and mistype them: adapters, kills while reference numbers are computed and afterwards, files of
such numbers that are gone or others', and what a run file can get wrong."""
import json
import os
import shutil
import signal
import subprocess
import time

import pytest
import preference_runs as runs
from optimizer_runs import lines_of, newest_of, ranks_words
from parity import TRIREME, trireme
from test_bad_input import check

DPO, KTO = runs.OBJECTIVES["dpo"], runs.OBJECTIVES["kto"]
MANY = 600  # pairs, where a run must not be through at once


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return runs.write_all(tmp_path_factory.mktemp("made"))


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """So many pairs that reference numbers take a while."""
    folder = runs.write_all(tmp_path_factory.mktemp("many"))
    some = runs.lines()
    lines = [(*some[i % len(some)][:2], some[(i + 1 + i // len(some)) % len(some)][2]) for i in range(MANY)]
    runs.write_lines(folder / "pairs.jsonl", runs.records(lines))
    return folder


def ended(folder):
    """What a run leaves: losses and metrics of all steps, and the bits of the newest checkpoint."""
    lines = lines_of(folder / "run")
    assert [line["step"] for line in lines] == list(range(1, len(lines) + 1))
    kept = [{key: value for key, value in line.items() if key in ("step", "loss", "grad_norm", "lr", "kl", "validation_loss") or "/" in key} for line in lines]
    newest = newest_of(folder / "run")
    assert newest.name == f"step-{len(lines):08d}"
    return kept, {path.name: path.read_bytes() for path in sorted(newest.glob("*.safetensors"))}


# ---- adapters --------------------------------------------------------------------------------------------------------

# Rows of whole blocks of 64, for four bits.
WIDE = dict(family="llama", num_layers=2, hidden_size=64, num_heads=4, num_kv_heads=2, ffn_size=64, vocab_size=23, max_sequence=64, init_std=0.1)
ADAPTERS = {"lora": dict(rank=4, alpha=8, targets="all-linear"), "qlora": dict(rank=4, alpha=8, targets="all-linear", quantise="nf4"),
            "lora, trained beside": dict(rank=4, alpha=8, targets=["q_proj", "v_proj"], train=["*norm.weight"])}


@pytest.fixture(scope="module")
def wide(tmp_path_factory, made):
    """A model that four bits fit, exported from a run of one step, with the tokenizer of letters."""
    folder = tmp_path_factory.mktemp("wide")
    (folder / "text.txt").write_text("".join(runs.text_of(p + c) + "\n" for p, c, _ in runs.lines()))
    trireme("prepare", "--tokenizer", made / "model", "--out", folder / "corpus", folder / "text.txt")
    run = dict(model=WIDE, data=dict(train=str(folder / "corpus/train"), sequence=16), optimizer=dict(global_batch=2, steps=1, lr=1e-9), output=str(folder / "base"))
    (folder / "base.yaml").write_text(json.dumps(run))
    trireme("train", folder / "base.yaml")
    trireme("export", folder / "base", folder / "model")
    shutil.copy(made / "pairs.jsonl", folder / "pairs.jsonl")
    return folder


@pytest.mark.parametrize("precision", ["fp64", "fp32"])
@pytest.mark.parametrize("name", ADAPTERS)
def test_adapters(tmp_path, wide, name, precision):
    """The reference is the base: first rewards are exactly 0, the loss falls, and a run that was interrupted ends with the same bits."""
    more = dict(adapter=ADAPTERS[name], precision=precision, optimizer=dict(steps=12, lr=2e-2, warmup=0), checkpoint=dict(every=4))
    lines = runs.train(tmp_path / "whole", wide, DPO, **more)
    assert all(lines[0][f"rewards/{what}"] == 0 for what in ("chosen", "rejected", "margins", "accuracies"))
    assert abs(lines[0]["loss"] - 0.6931471805599453) <= (1e-15 if precision == "fp64" else 1e-7)
    assert lines[-1]["loss"] < 0.9 * lines[0]["loss"] and lines[-1]["rewards/accuracies"] > 0.5
    runs.train(tmp_path / "parts", wide, DPO, ["--stop-at", 5], **more)
    runs.train(tmp_path / "parts", wide, DPO, **more)
    assert ended(tmp_path / "parts") == ended(tmp_path / "whole")


def test_an_adapter_goes_on_from_factors(tmp_path, wide):
    """With `adapter.from` the reference is the base and those factors."""
    more = dict(optimizer=dict(steps=4, lr=2e-2, warmup=0))
    runs.train(tmp_path / "first", wide, DPO, adapter=ADAPTERS["lora"], **more)
    lines = runs.train(tmp_path / "second", wide, DPO, adapter=dict(ADAPTERS["lora"], **{"from": str(tmp_path / "first/run")}), **more)
    before = lines_of(tmp_path / "first/run")
    assert lines[0]["rewards/chosen"] == lines[0]["rewards/rejected"] == 0
    assert lines[0]["logps/chosen"] != before[0]["logps/chosen"] and lines[0]["logps/rejected"] != before[0]["logps/rejected"]


def test_begins_with_a_run(tmp_path, made):
    """The reference is that run's model, of its newest checkpoint."""
    first = runs.train(tmp_path / "first", made, DPO, optimizer=dict(steps=4))
    second = runs.train(tmp_path / "second", made, DPO, optimizer=dict(steps=4), init=str(tmp_path / "first/run"))
    assert second[0]["rewards/chosen"] == 0 and second[0]["logps/rejected"] != first[0]["logps/rejected"]


# ---- what a run leaves -------------------------------------------------------------------------------------------------

def test_what_a_run_leaves(tmp_path, made):
    """TensorBoard has the numbers of metrics.jsonl under their names, summary.json the last accuracies; of another run there are none."""
    lines = runs.train(tmp_path / "pairs", made, DPO, data=dict(validation_preferences=str(made / "pairs.jsonl")), evaluation=dict(every=4), optimizer=dict(steps=6))
    summary = json.loads((tmp_path / "pairs/run/summary.json").read_text())
    assert summary["rewards/accuracies"] == lines[-1]["rewards/accuracies"]
    assert summary["validation/rewards/accuracies"] == lines[-1]["validation/rewards/accuracies"] and "validation/rewards/accuracies" not in lines[4]
    named = {key for line in lines for key in line if "/" in key}
    assert len(named) == 12
    runs.train(tmp_path / "answers", made, KTO, data=dict(validation_preferences=str(made / "pairs.jsonl")), evaluation=dict(every=1), optimizer=dict(steps=1, warmup=0))
    assert not any("accuracies" in key for key in json.loads((tmp_path / "answers/run/summary.json").read_text()))
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = accumulator.EventAccumulator(str(tmp_path / "pairs/run"), size_guidance={accumulator.SCALARS: 0})
    events.Reload()
    assert {tag for tag in events.Tags()["scalars"] if "/" in tag} == named
    for tag in named:
        assert {scalar.step: scalar.value for scalar in events.Scalars(tag)} == pytest.approx({line["step"]: line[tag] for line in lines if tag in line}, rel=1e-6)


# ---- kills -----------------------------------------------------------------------------------------------------------

def long_run(folder, many, objective, **more):
    return runs.write_run(folder, many, objective, optimizer=dict(steps=8), checkpoint=dict(every=2, keep=0), **more)


def killed_in_reference(path, number=signal.SIGKILL, words=()):
    """Status and messages of a run that gets the signal once some reference numbers are there, not all of them."""
    process = subprocess.Popen([TRIREME, "train", path, *words], stderr=subprocess.PIPE, text=True)
    said = []
    for line in process.stderr:
        said.append(line)
        if "reference log-probabilities of" in line:
            process.send_signal(number)
            break
    rest = process.stderr.read()
    return process.wait(timeout=60), "".join(said) + rest


def killed_after(folder, path, step):
    process, metrics = subprocess.Popen([TRIREME, "train", path], stderr=subprocess.DEVNULL), folder / "run/metrics.jsonl"
    while process.poll() is None and (not metrics.exists() or metrics.read_text().count("\n") < step):
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    return process.wait() == -signal.SIGKILL


@pytest.mark.parametrize("name", ["dpo", "kto", "adapter"])
def test_killed_and_gone_on(tmp_path, many, name):
    objective, more = KTO if name == "kto" else DPO, dict(adapter=ADAPTERS["lora"]) if name == "adapter" else {}
    trireme("train", long_run(tmp_path / "alone", many, objective, **more))
    alone, killed = ended(tmp_path / "alone"), {"reference": False, "steps": False}
    for attempt in range(10):
        folder = tmp_path / str(attempt)
        path = long_run(folder, many, objective, **more)
        status, said = killed_in_reference(path)
        killed["reference"] |= status == -signal.SIGKILL and not (folder / "run/reference.bin").exists()
        killed["steps"] |= killed_after(folder, path, 1 + attempt % 6)
        trireme("train", path)
        assert ended(folder) == alone
        assert (folder / "run/reference.bin").read_bytes()[1024:] == (tmp_path / "alone/run/reference.bin").read_bytes()[1024:]
        if all(killed.values()):
            return
    raise AssertionError(f"no run was ever killed in time: {killed}")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1], ids=["SIGTERM", "SIGUSR1"])
def test_asked_to_stop_while_reference_numbers_are_computed(tmp_path, many, number):
    """The one ends the run there, the other asks for it."""
    path = long_run(tmp_path, many, DPO)
    status, said = killed_in_reference(path, number)
    assert status == 130, said
    assert ("interrupted before the first step; nothing is lost" if number == signal.SIGTERM else "stopped while reference.bin was computed; it begins again") in said
    assert not (tmp_path / "run/reference.bin").exists() and not (tmp_path / "run/failures.txt").exists()
    trireme("train", path)
    assert len(lines_of(tmp_path / "run")) == 8


def test_two_ranks_are_asked_to_stop(tmp_path, many):
    path = long_run(tmp_path, many, DPO)
    status, said = killed_in_reference(path, signal.SIGTERM, ["-n", "2"])
    assert status in (130, -signal.SIGTERM), said
    trireme("train", path, "-n", "2")
    assert len(lines_of(tmp_path / "run")) == 8


# ---- the file of reference numbers -----------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def gone_on(tmp_path_factory, made):
    """A run that has made 4 of 8 steps."""
    folder = tmp_path_factory.mktemp("gone on")
    trireme("train", runs.write_run(folder, made, DPO, optimizer=dict(steps=8), checkpoint=dict(every=2)), "--stop-at", 4)
    return folder


def changed(line, other):
    def change(raw):
        head = raw[:1024].split(b"\0")[0].decode().splitlines()
        head = [f"{line} {other}" if said.split()[0] == line else said for said in head]
        return ("\n".join(head) + "\n").encode().ljust(1024, b"\0") + raw[1024:]
    return change


GONE = "begin a new run with `init` in a new output"
FILES = {
    "missing": (lambda raw: None, ["/reference.bin is missing: it has the log-probabilities of the reference, the model as this run began, and 4 updates have been made since; bring it back, or " + GONE]),
    "cut off": (lambda raw: raw[:-8], ["/reference.bin is not of this run and its data (it has not the 4680 bytes that it should have); bring back the file of this run, or " + GONE]),
    "longer": (lambda raw: raw + b"\0", ["(it has not the 4680 bytes that it should have)"]),
    "empty": (lambda raw: b"", ["/reference.bin is not of this run and its data (it is cut off)", GONE]),
    "other numbers": (lambda raw: raw[:-16] + bytes(16), ["/reference.bin is not of this run and its data (its numbers are damaged); bring back"]),
    "something else": (lambda raw: b"text\n" * 1000, ["/reference.bin is not of this run and its data (it says `text`)"]),
    "another run's": (changed("run", "0123456789abcdef0123456789abcdef"), ["/reference.bin is not of this run and its data (it says `run 0123456789abcdef0123456789abcdef`); bring back the file of this run, or " + GONE]),
    "of other data": (changed("data", "0123456789abcdef0123456789abcdef"), ["(it says `data 0123456789abcdef0123456789abcdef`)"]),
    "of another length": (changed("sequence", 99), ["(it says `sequence 99`)"]),
    "of fewer sequences": (changed("sequences", "8 of pairs"), ["(it says `sequences 8 of pairs`)"]),
}


@pytest.mark.parametrize("name", FILES)
def test_wrong_files_after_steps(tmp_path, gone_on, name):
    change, said = FILES[name]
    shutil.copytree(gone_on, tmp_path / "here")
    path, file = tmp_path / "here/run.yaml", tmp_path / "here/run/reference.bin"
    path.write_text(path.read_text().replace(str(gone_on), str(tmp_path / "here")))
    raw = change(file.read_bytes())
    file.unlink() if raw is None else file.write_bytes(raw)
    check(trireme("train", path, status=4), *said)
    shutil.copy(gone_on / "run/reference.bin", file)
    trireme("train", path)
    assert len(lines_of(tmp_path / "here/run")) == 8


@pytest.mark.parametrize("name", FILES)
def test_wrong_files_before_the_first_update(tmp_path, made, name):
    """They are computed again."""
    path = runs.write_run(tmp_path, made, DPO, optimizer=dict(steps=2))
    trireme("train", path)
    expected, file = ended(tmp_path), tmp_path / "run/reference.bin"
    shutil.rmtree(tmp_path / "run/checkpoints")
    right = file.read_bytes()
    raw = FILES[name][0](right)
    file.unlink() if raw is None else file.write_bytes(raw)
    trireme("train", path)
    assert file.read_bytes() == right and ended(tmp_path) == expected


def test_more_samples_before_the_first_update(tmp_path, made):
    """Numbers of some of the sequences are not taken for those of all."""
    path = runs.write_run(tmp_path, made, DPO, optimizer=dict(steps=3))
    trireme("train", path, "--set", "data.max_samples=8")
    shutil.rmtree(tmp_path / "run/checkpoints")
    trireme("train", path)
    trireme("train", runs.write_run(tmp_path / "other", made, DPO, optimizer=dict(steps=3)))
    assert ended(tmp_path) == ended(tmp_path / "other")

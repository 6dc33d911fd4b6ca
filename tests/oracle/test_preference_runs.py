"""Runs on preferences as users start, kill and mistype them: adapters, kills while reference numbers are computed and afterwards, files of
such numbers that are gone or others', and what a run file can get wrong."""
import json
import os
import re
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
    """Returns the results of a run: losses and metrics of all steps, and the bits of the newest checkpoint."""
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
            "everywhere": dict(rank=4, alpha=8, targets=["q_proj", "embed_tokens", "lm_head"]),
            "pissa": dict(rank=4, alpha=8, targets="all-linear", init="pissa"),
            "dora": dict(rank=4, alpha=8, targets="all-linear", magnitude=True),
            "dora over four bits": dict(rank=4, alpha=8, targets="all-linear", magnitude=True, quantise="nf4"),
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
    """The reference is the base: first rewards are exactly 0 (but for rounding where factors do not begin as nothing), the loss falls, and a run that was interrupted ends with the same bits."""
    steps = 6 if precision == "fp64" else 12
    more = dict(adapter=ADAPTERS[name], precision=precision, optimizer=dict(steps=steps, lr=2e-2, warmup=0, decay="constant"), checkpoint=dict(every=4))
    lines = runs.train(tmp_path / "whole", wide, DPO, **more)
    near = 0 if name != "pissa" and "dora" not in name else 1e-13 if precision == "fp64" else 1e-5
    assert all(abs(lines[0][f"rewards/{what}"]) <= near for what in ("chosen", "rejected", "margins")) and (near or lines[0]["rewards/accuracies"] == 0)
    assert abs(lines[0]["loss"] - 0.6931471805599453) <= near + (1e-15 if precision == "fp64" else 1e-7)
    assert min(line["loss"] for line in lines[-3:]) < 0.9 * lines[0]["loss"] and lines[-1]["rewards/accuracies"] > 0.5
    runs.train(tmp_path / "parts", wide, DPO, ["--stop-at", 5], **more)
    runs.train(tmp_path / "parts", wide, DPO, **more)
    assert ended(tmp_path / "parts") == ended(tmp_path / "whole")


@pytest.mark.parametrize("name", ["lora", "qlora", "everywhere", "pissa", "dora", "dora over four bits"])
def test_reference_numbers_of_an_adapter_are_computed_again(tmp_path, wide, name):
    """The base is there as long as nothing else is trained: with factors skipped its numbers have the bits of before."""
    more = dict(adapter=ADAPTERS[name], precision="fp32", optimizer=dict(steps=4, lr=2e-2, warmup=0))
    runs.train(tmp_path, wide, DPO, ["--stop-at", 2], **more)
    before = (tmp_path / "run/reference.bin").read_bytes()
    (tmp_path / "run/reference.bin").unlink()
    said = trireme("train", tmp_path / "run.yaml").stderr
    assert "reference.bin is missing; it is computed again, from the base of the adapter" in said
    assert (tmp_path / "run/reference.bin").read_bytes() == before


def test_what_is_trained_beside_an_adapter_is_no_reference(tmp_path, wide):
    more = dict(adapter=ADAPTERS["lora, trained beside"], precision="fp32", optimizer=dict(steps=4, lr=2e-2, warmup=0))
    runs.train(tmp_path, wide, DPO, ["--stop-at", 2], **more)
    (tmp_path / "run/reference.bin").unlink()
    check(trireme("train", tmp_path / "run.yaml", status=4), "/reference.bin is missing: it has the log-probabilities of the reference")


def test_an_adapter_goes_on_from_factors(tmp_path, wide):
    """With `adapter.from` the reference is the base and those factors."""
    more = dict(optimizer=dict(steps=4, lr=2e-2, warmup=0))
    runs.train(tmp_path / "first", wide, DPO, adapter=ADAPTERS["lora"], **more)
    lines = runs.train(tmp_path / "second", wide, DPO, adapter=dict(ADAPTERS["lora"], **{"from": str(tmp_path / "first/run")}), **more)
    before = lines_of(tmp_path / "first/run")
    assert lines[0]["rewards/chosen"] == lines[0]["rewards/rejected"] == 0
    assert lines[0]["logps/chosen"] != before[0]["logps/chosen"] and lines[0]["logps/rejected"] != before[0]["logps/rejected"]


@pytest.mark.parametrize("name, layout", [("lora", dict()), ("lora", dict(tensor=2)), ("lora", dict(pipeline=2, micro_batch=2)), ("lora", dict(zero=3)), ("everywhere", dict(tensor=2)), ("everywhere", dict(pipeline=2)), ("qlora", dict()),
                                          ("qlora", dict(pipeline=2)), ("qlora", dict(zero=3))])
def test_adapters_on_two_ranks(tmp_path, wide, name, layout):
    """The base without factors has the bits of the base with factors whose product is 0."""
    line, = runs.train(tmp_path, wide, DPO, ranks_words(2), adapter=ADAPTERS[name], layout=layout, precision="fp32", optimizer=dict(steps=1, warmup=0))
    assert line["rewards/chosen"] == line["rewards/rejected"] == line["rewards/accuracies"] == 0


def test_begins_with_a_run(tmp_path, made):
    """The reference is that run's model, of its newest checkpoint."""
    first = runs.train(tmp_path / "first", made, DPO, optimizer=dict(steps=4))
    second = runs.train(tmp_path / "second", made, DPO, optimizer=dict(steps=4), init=str(tmp_path / "first/run"))
    assert second[0]["rewards/chosen"] == 0 and second[0]["logps/rejected"] != first[0]["logps/rejected"]


# ---- results of a run --------------------------------------------------------------------------------------------------

def test_what_a_run_leaves(tmp_path, made):
    """TensorBoard has the numbers of metrics.jsonl with their names, and summary.json the last accuracies; other runs have no accuracies."""
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


@pytest.mark.parametrize("words", [[], ["-n", "2"]], ids=["one rank", "two ranks"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1], ids=["SIGTERM", "SIGUSR1"])
def test_asked_to_stop_while_reference_numbers_are_computed(tmp_path, many, number, words):
    """The numbers computed so far are kept, and the next start continues with them. The final file has the same bits."""
    objective = KTO if words else DPO
    path = long_run(tmp_path, many, objective)
    status, said = killed_in_reference(path, number, words)
    assert status == 130, said
    done, count = map(int, re.search(r"interrupted after (\d+) of (\d+) sequences of \S+/reference.bin; the log-probabilities computed so far are kept", said).groups())
    assert 0 < done < count and not (tmp_path / "run/reference.bin").exists() and not (tmp_path / "run/failures.txt").exists()
    part = (tmp_path / "run/reference.bin.part").read_bytes()
    assert b"\ndone %d\n" % done in part[:1024]
    said = trireme("train", path, *words).stderr
    assert len(lines_of(tmp_path / "run")) == 8 and not (tmp_path / "run/reference.bin.part").exists()
    trireme("train", long_run(tmp_path / "alone", many, objective), *words)
    assert (tmp_path / "run/reference.bin").read_bytes()[1024:] == (tmp_path / "alone/run/reference.bin").read_bytes()[1024:]


@pytest.mark.parametrize("damage", ["a number", "the head", "shorter", "other weights"])
def test_a_damaged_part_is_not_used(tmp_path, many, damage):
    shutil.copytree(many / "model", tmp_path / "model")
    path = long_run(tmp_path, many, DPO, init=str(tmp_path / "model"))
    assert killed_in_reference(path, signal.SIGTERM)[0] == 130
    part = tmp_path / "run/reference.bin.part"
    data = bytearray(part.read_bytes())
    if damage == "other weights":
        weights = tmp_path / "model/model.safetensors"
        values = bytearray(weights.read_bytes())
        values[-3] ^= 1
        weights.write_bytes(values)
    elif damage == "shorter":
        del data[-8:]
    else:
        data[1030 if damage == "a number" else 3] ^= 1
    part.write_bytes(data)
    trireme("train", path)
    trireme("train", long_run(tmp_path / "alone", many, DPO, init=str(tmp_path / "model")))
    assert (tmp_path / "run/reference.bin").read_bytes()[1024:] == (tmp_path / "alone/run/reference.bin").read_bytes()[1024:]


def test_two_ranks_are_killed(tmp_path, many):
    """The parent, one time while reference numbers are computed; its ranks end with it."""
    trireme("train", long_run(tmp_path / "alone", many, DPO), "-n", 2)
    path = long_run(tmp_path / "killed", many, DPO)
    killed_in_reference(path, words=["-n", "2"])
    for _ in range(600):
        done = subprocess.run([TRIREME, "train", path, "-n", "2"], capture_output=True, text=True)
        if done.returncode == 0:
            break
        assert "/LOCK" in done.stderr or "is in use" in done.stderr or "holds" in done.stderr or "running" in done.stderr, done.stderr
        time.sleep(0.1)
    assert ended(tmp_path / "killed") == ended(tmp_path / "alone")


@pytest.mark.parametrize("name", ["dpo", "kto"])
def test_another_batch_goes_on_with_the_next_answers(tmp_path, made, name):
    """Nothing is learnt, so that metrics tell which answers a step had, and which reference numbers."""
    objective = runs.OBJECTIVES[name]
    more = dict(optimizer=dict(lr=1e-30, warmup=0, weight_decay=0, steps=4), checkpoint=dict(every=1))
    runs.train(tmp_path / "two", made, objective, ["--stop-at", 2], **more)
    there = runs.train(tmp_path / "two", made, objective, ["--set", "optimizer.global_batch=4", "--set", "optimizer.steps=6"], **more)
    whole = runs.train(tmp_path / "one", made, objective, ["--set", "optimizer.global_batch=4", "--set", "optimizer.steps=8"], **more)
    for number in range(4):
        for key in ("logps/chosen", "logps/rejected", "loss"):
            assert there[2 + number].get(key) == pytest.approx(whole[4 + number].get(key), rel=1e-12), (number, key)


def test_accuracies_beside_each_other(tmp_path, made):
    """Those of the last step and of the last look at held-out pairs; a run without has an empty place, and a comparison without them no column."""
    held_out = dict(data=dict(validation_preferences=str(made / "pairs.jsonl")), evaluation=dict(every=2), optimizer=dict(steps=3))
    lines = {name: runs.train(tmp_path / name, made, runs.OBJECTIVES[name], **(held_out if name == "dpo" else dict(optimizer=dict(steps=2)))) for name in ("dpo", "orpo", "kto")}
    folders = [tmp_path / name / "run" for name in lines]
    found = json.loads(trireme("compare", *folders, "--json").stdout)
    trained, looks = lines["dpo"][-1]["rewards/accuracies"], [line["validation/rewards/accuracies"] for line in lines["dpo"] if "validation/rewards/accuracies" in line]
    assert found[0]["rewards/accuracies"] == trained and found[0]["validation/rewards/accuracies"] == looks[-1] and len(looks) == 2
    assert found[1]["rewards/accuracies"] == lines["orpo"][-1]["rewards/accuracies"] and "validation/rewards/accuracies" not in found[1]
    assert "rewards/accuracies" not in found[2]
    table = trireme("compare", *folders, "--html", tmp_path / "page.html").stdout.splitlines()
    assert table[0].endswith("  accuracy  held-out accuracy") and table[1].split()[-2:] == [f"{trained:.4f}", f"{looks[-1]:.4f}"]
    assert table[2].split()[-1] == "-" and table[3].split()[-2:] == ["-", "-"]
    assert f"<td>{trained:.4f}</td><td>{looks[-1]:.4f}</td></tr>" in (tmp_path / "page.html").read_text()
    trireme("compare", folders[2], "--html", tmp_path / "page.html")
    assert "accuracy" not in trireme("compare", folders[2]).stdout + (tmp_path / "page.html").read_text()


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
    "of other data": (changed("data", "0123456789abcdef0123456789abcdef"), ["`data.preferences`: ", "/reference.bin has the reference's log-probabilities of other data (it says `data 0123456789abcdef0123456789abcdef`), and the reference is the model as this run began, before 4 updates; restore the earlier `data` and `objective`, or " + GONE]),
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


def test_wrong_files_of_held_out_pairs(tmp_path, made):
    """They are found, too, and said by their own name."""
    path = runs.write_run(tmp_path, made, DPO, optimizer=dict(steps=4), checkpoint=dict(every=2), data=dict(validation_preferences=str(made / "pairs.jsonl")),
                          evaluation=dict(every=2))
    trireme("train", path, "--stop-at", 2)
    file = tmp_path / "run/reference-validation.bin"
    right = file.read_bytes()
    file.write_bytes(right[:-1] + b"!")
    check(trireme("train", path, status=4), "/reference-validation.bin is not of this run and its data (its numbers are damaged); bring back")
    file.unlink()
    check(trireme("train", path, status=4), "`data.validation_preferences`: ", "/reference-validation.bin is missing, ", "; if not, bring the file back")
    file.write_bytes(right)
    trireme("train", path)


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


# ---- mistakes of a run file ------------------------------------------------------------------------------------------

def typed(folder, *sets, status=0, words=()):
    """Runs the run file of the manual in the folder of `model` and `pairs.jsonl`, with --set for each of `sets`."""
    if not (folder / "run.yaml").exists():
        (folder / "run.yaml").write_text("init: model\ndata: {preferences: pairs.jsonl, sequence: 34}\nobjective: {name: dpo, beta: 0.1}\n"
                                         "optimizer: {global_batch: 8, steps: 2, lr: 1.0e-3}\noutput: out\n")
    given = [word for one in sets for word in ("--set", one)]
    return trireme("train", "run.yaml", *given, *words, status=status, cwd=folder)


@pytest.fixture
def here(tmp_path, made):
    (tmp_path / "model").symlink_to(made / "model")
    shutil.copy(made / "pairs.jsonl", tmp_path / "pairs.jsonl")
    return tmp_path


REFUSED = {
    "an unknown loss": (["objective.name=dpoo"], "--set objective.name=dpoo: `name` under `objective:` must be one of cross_entropy, grpo, dpo, ipo, hinge,", "not `dpoo`; did you mean `dpo`?"),
    "beta of 0": (["objective.beta=0"], "--set objective.beta=0: `objective.beta` is 0, and with dpo it must be above 0; try 0.1"),
    "beta below 0": (["objective.beta=-0.1"], "`beta` under `objective:` must be at least 0, not -0.1"),
    "beta that is no number": (["objective.beta=nan"], "`beta` under `objective:` must be a number, not `nan`"),
    "label_smoothing": (["objective.label_smoothing=0.1"], "`objective.label_smoothing` goes with robust, cpo, simpo and exo_pair, and objective.name is dpo; leave it out"),
    "label_smoothing of a half": (["objective.name=robust", "objective.label_smoothing=0.5"], "`label_smoothing` under `objective:` must be at least 0 and below 0.5, not 0.5"),
    "exo_pair without label_smoothing": (["objective.name=exo_pair"], "`objective.label_smoothing` must be above 0 with exo_pair; try 0.001"),
    "sft_weight beside cpo": (["objective.name=cpo", "objective.sft_weight=0.1"], "`objective.sft_weight` goes with losses of pairs but cpo and simpo, which have cpo_alpha, and orpo, which has its own, and objective.name is cpo; leave it out"),
    "sft_weight beside orpo": (["objective.name=orpo", "objective.sft_weight=0.1"], "and objective.name is orpo; leave it out"),
    "cpo_alpha beside dpo": (["objective.cpo_alpha=0.5"], "`objective.cpo_alpha` goes with cpo and simpo; other losses of pairs have sft_weight, and objective.name is dpo; leave it out"),
    "desirable_weight": (["objective.desirable_weight=2"], "`objective.desirable_weight` goes with kto and apo_zero_unpaired, and objective.name is dpo; leave it out"),
    "nothing weighs": (["objective.name=kto", "objective.desirable_weight=0", "objective.undesirable_weight=0"], "`objective.desirable_weight` and objective.undesirable_weight are both 0: nothing is learned"),
    "TRL's loss_type": (["objective.loss_type=sigmoid"], "`loss_type` under `objective:` must be one of dapo, grpo, dr_grpo, cispo, not `sigmoid`; a loss of preferences is objective.name (sigmoid is dpo)"),
    "TRL's loss_weights": (["objective.loss_weights=1"], "loss_weights is dpo with objective.sft_weight"),
    "TRL's ref_model": (["ref_model=x"], "the reference is the model as the run begins"),
    "TRL's f_divergence_type": (["objective.f_divergence_type=js_divergence"], "divergences other than the reverse KL are not supported"),
    "no objective": (["objective.name=cross_entropy", "objective.beta=0.1"], "`data.preferences` needs a loss of preferences: set objective.name, for example to dpo, or name text in data.train (line 2 of run.yaml)"),
    "no preferences": (["data.preferences="], "`objective.name` is dpo, a loss of preferences, and data.preferences is empty; name a corpus of `trireme prepare --preferences`, or JSON lines (line 3 of run.yaml)"),
    "data.train": (["data.train=text/train"], "--set data.train=text/train: `data.train` and data.preferences are both given; a run learns from one of them"),
    "data.validation": (["data.validation=text/train"], "`data.validation` and data.preferences are both given; a run learns from one of them, and held-out pairs are data.validation_preferences"),
    "ignore_token": (["data.ignore_token=3"], "`data.ignore_token` does not go with data.preferences; leave it out"),
    "too_long: cut": (["data.too_long=cut"], "`data.too_long` cut cannot be used with data.preferences, because answers are never cut; use refuse, drop or truncate_prompt (cuts the beginning of prompts)"),
    "packing": (["data.packing=windows"], "--set data.packing=windows: `data.packing` windows cannot be used with data.preferences, because its texts are complete"),
    "documents": (["data.documents=joined"], "`data.documents` joined cannot be used with data.preferences, because its texts are complete and do not see each other; leave it out"),
    "dropout": (["adapter.rank=4", "adapter.dropout=0.1"], "`adapter.dropout` is 0.1: dropout makes the log-probabilities noisy that objective.name dpo compares; set it to 0, or allow it with objective.allow_dropout"),
    "all too long": (["data.sequence=17", "data.too_long=drop"], "preferences/train: all 24 pairs are longer than data.sequence, 17 tokens; raise data.sequence"),
    "too long": (["data.sequence=24"], "out/preferences/train: pair ", " tokens with its prompts, and data.sequence is 24; raise data.sequence, or set data.too_long to truncate_prompt (cuts the beginning of prompts) or drop"),
}
MISSING = {
    "a missing file": (["data.preferences=nosuch.jsonl"], "`data.preferences`: cannot find the file nosuch.jsonl"),
    "a missing held-out file": (["data.validation_preferences=nosuch.jsonl"], "`data.validation_preferences`: cannot find the file nosuch.jsonl"),
    "a missing corpus": (["data.preferences=nosuch"], "cannot open nosuch.idx: No such file or directory (a corpus is named without .bin or .idx; `trireme prepare` makes one)"),
}


@pytest.mark.parametrize("name", [*REFUSED, *MISSING])
def test_refused(here, name):
    sets, *said = (REFUSED | MISSING)[name]
    check(typed(here, *sets, status=3 if name in REFUSED else 4), *said)
    assert not (here / "out/checkpoints").exists() and not (here / "out/reference.bin").exists()


def test_a_line_of_the_file_is_named(here):
    (here / "run.yaml").write_text("init: model\ndata: {preferences: pairs.jsonl, sequence: 34}\nobjective:\n  name: dpo\n  label_smoothing: 0.1\n"
                                   "optimizer: {global_batch: 8, steps: 2, lr: 1.0e-3}\noutput: out\n")
    check(typed(here, status=3), "`objective.label_smoothing` goes with robust", "run.yaml", "line 5")


def test_other_corpora(here):
    """A corpus of text, and one of labels where pairs are wanted; a run on text with a corpus of preferences."""
    (here / "text.txt").write_text("abc abd\ncde\n" * 100)
    trireme("prepare", "--tokenizer", "model", "--validation", 0, "--out", "text", "text.txt", cwd=here)
    check(typed(here, "data.preferences=text/train", status=4), "text/train is not a corpus of preferences, which `trireme prepare --preferences` makes; texts and conversations are named in data.train")
    runs.write_lines(here / "labels.jsonl", runs.labelled())
    labels = "has answers with labels, and `objective.name` is a loss of pairs; use kto or apo_zero_unpaired, or prepare data that has chosen and rejected"
    check(typed(here, "data.preferences=labels.jsonl", status=3), labels)
    check(typed(here, "data.validation_preferences=labels.jsonl", "evaluation.every=1", status=3), labels)
    trireme("prepare", "--preferences", "--tokenizer", "model", "--validation", 0, "--out", "pairs", "pairs.jsonl", cwd=here)
    check(typed(here, "objective.name=cross_entropy", "data.preferences=", "data.train=pairs/train", status=4), "pairs/train is a corpus of preferences; name it in data.preferences")
    typed(here, "data.preferences=pairs/train")
    assert len(lines_of(here / "out")) == 2


def test_no_tokenizer(here):
    (here / "bare").mkdir()
    for name in ("config.json", "model.safetensors"):
        shutil.copy(here / "model" / name, here / "bare" / name)
    check(typed(here, "init=bare", status=3), "`data.preferences`: pairs.jsonl is text, but the run has no tokenizer; set data.tokenizer to a tokenizer.json or its folder, or begin with a model")
    check(typed(here, "init=bare", "data.tokenizer=nosuch", status=3), "`data.tokenizer`: cannot find nosuch; name a tokenizer.json or its folder")
    typed(here, "init=bare", "data.tokenizer=model")
    assert len(lines_of(here / "out")) == 2


def test_a_bad_record(here):
    some = runs.records()
    some[4]["rejected"] = some[4]["chosen"]
    runs.write_lines(here / "pairs.jsonl", some)
    check(typed(here, status=4), "pairs.jsonl line 5: `chosen` and `rejected` are the same answer", "or give --skip-bad to `trireme prepare --preferences`, whose corpus data.preferences may name, too")


def test_too_long_is_counted(here):
    """So that a mistake in data.sequence is seen; nothing of an answer is cut."""
    rows = [2 * len(p) + len(c) + len(r) for p, c, r in runs.lines()]
    over = sum(row > 24 for row in rows)
    assert 0 < over < len(rows)
    said = typed(here, "data.sequence=24", "data.too_long=drop").stderr
    assert f"{over} pairs are longer than a sequence of 24 tokens and left out (data.too_long: drop)" in said and f"objective dpo: {len(rows) - over} pairs in " in said
    said = typed(here, "data.sequence=24", "data.too_long=truncate_prompt", "output=cut").stderr
    assert f"{over} pairs are longer than a sequence: the beginning of the prompts is cut (data.too_long: truncate_prompt)" in said
    assert f"objective dpo: {len(rows)} pairs in " in said


@pytest.mark.parametrize("beginning", [False, True])
def test_prompts_of_a_pair_are_cut_alike(here, beginning):
    """Both answers follow the same tokens, as if the file had the shorter prompt; the first token of texts is kept."""
    if beginning:
        (here / "model").unlink()
        runs.write_folder(here / "model")
        tokenizer = json.loads((here / "model/tokenizer.json").read_text())
        special = {"<pad>": dict(id="<pad>", ids=[0], tokens=["<pad>"])}
        single = [dict(SpecialToken=dict(id="<pad>", type_id=0)), dict(Sequence=dict(id="A", type_id=0))]
        tokenizer["post_processor"] = dict(type="TemplateProcessing", single=single, pair=single + [dict(Sequence=dict(id="B", type_id=1))], special_tokens=special)
        (here / "model/tokenizer.json").write_text(json.dumps(tokenizer))
    prompt, chosen, rejected = "abcdefghij", "klmno", "pq"
    over = 2 * (len(prompt) + beginning) + len(chosen) + len(rejected) - 24
    cut, found = (over + 1) // 2, []
    assert over % 2 == 1
    for name, text in (("cut", prompt), ("short", prompt[cut:])):
        runs.write_lines(here / "pairs.jsonl", [dict(prompt=text, chosen=chosen, rejected=rejected)])
        said = typed(here, "data.sequence=24", "data.too_long=truncate_prompt", f"output={name}").stderr
        assert ("the beginning of the prompts is cut" in said) == (name == "cut")
        found.append([lines_of(here / name)[0][f"logps/{side}"] for side in ("chosen", "rejected")])
    assert found[0] == found[1]


def test_too_long_answers_of_kto_are_named(here):
    """An answer is longest behind the prompt of the next line, or one of a pair."""
    labels = [dict(prompt="ab", completion="cdefgh", label=True), dict(prompt="abcdefghijkl", completion="c", label=False)]
    runs.write_lines(here / "pairs.jsonl", labels)
    check(typed(here, "objective.name=kto", "data.sequence=16", status=3),
          "answer 1 takes 18 tokens with the prompt of the next line, with which KTO compares it, and data.sequence is 16")
    runs.write_lines(here / "pairs.jsonl", [dict(prompt="abcd", chosen="e", rejected="f"), dict(prompt="ab", chosen="c", rejected="defghijklmnopqrst")])
    check(typed(here, "objective.name=kto", "data.sequence=16", "output=pairs", status=3), "the rejected answer of pair 2 takes 21 tokens with the prompt of the next line")


def test_dropout_that_is_allowed(here):
    typed(here, "adapter.rank=4", "adapter.dropout=0.1", "objective.allow_dropout=true")
    assert len(lines_of(here / "out")) == 2


def test_kto_takes_pairs_and_labels(here):
    said = typed(here, "objective.name=kto").stderr
    assert f"objective kto: {2 * runs.LINES} answers in " in said
    first = lines_of(here / "out")[0]
    assert first["kl"] == 0 and "rewards/accuracies" not in first
    runs.write_lines(here / "labels.jsonl", runs.labelled())
    said = typed(here, "objective.name=kto", "data.preferences=labels.jsonl", "output=labels").stderr
    assert f"objective kto: {runs.LINES} answers in " in said


@pytest.mark.parametrize("loss", ["dpo", "kto", "orpo"])
def test_held_out(here, loss):
    """Losses and metrics of held-out pairs. For the pairs of training they equal those of training before the first step."""
    shutil.copy(here / "pairs.jsonl", here / "held.jsonl")
    said = typed(here, f"objective.name={loss}", "data.validation_preferences=held.jsonl", "evaluation.every=1", "evaluation.sequences=1000", "optimizer.lr=1e-30", "optimizer.steps=3",
                 "optimizer.weight_decay=0", "data.sequence=34" if loss != "kto" else "data.sequence=17", "optimizer.global_batch=24" if loss != "kto" else "optimizer.global_batch=48").stderr
    assert "data.validation_preferences has the same content as out/preferences/train" in said
    for line in lines_of(here / "out"):
        assert line["validation_loss"] == pytest.approx(line["loss"], rel=1e-5)
        for key in ("rewards/chosen", "rewards/rejected", "rewards/margins", "logps/chosen", "logps/rejected"):
            assert line["validation/" + key] == pytest.approx(line[key], rel=1e-5, abs=1e-9), key
    assert (here / "out/reference-validation.bin").exists() == (loss != "orpo")


@pytest.mark.parametrize("ranks", [1, 2])
def test_dry_runs(here, ranks):
    """Nothing is written, and the memory is what a run takes."""
    said = typed(here, words=["--dry-run", "--verbose", *ranks_words(ranks)]).stdout
    assert "step program" in said and not (here / "out").exists()
    typed(here, words=ranks_words(ranks))
    assert len(lines_of(here / "out")) == 2


def test_two_ranks_end_where_one_does(here):
    """-n 2 on the same files, messages of one rank alone."""
    check(typed(here, "data.preferences=nosuch.jsonl", status=4, words=["-n", 2]), "`data.preferences`: cannot find the file nosuch.jsonl")
    typed(here, "precision=fp64", "device=reference", words=["-n", 2])
    typed(here, "precision=fp64", "device=reference", "output=one")
    for mine, other in zip(lines_of(here / "out"), lines_of(here / "one")):
        assert mine["loss"] == pytest.approx(other["loss"], rel=1e-12)


def test_what_changes_is_said(here):
    """Between the steps of a run: a setting of the loss, and other data, which are refused by their own key."""
    typed(here)
    said = typed(here, "objective.beta=0.3", "optimizer.steps=3", "allow_change=objective.beta").stderr
    assert "objective.beta was 0.1 and is 0.3 from here on" in said
    runs.write_lines(here / "pairs.jsonl", runs.records()[:20])
    step = "out/checkpoints/step-00000003"
    gone = (f"; the reference is the model at the beginning of the run, before 3 updates, and log-probabilities of other answers cannot be computed without it; make the keys "
            f"equal, or begin a new run in another `output`, with `init: {step}`")
    left = {name: (here / "out" / name).read_bytes() for name in ("reference.bin", "metrics.jsonl", "run.json", "config.yaml")}
    for allowed in ([], ["allow_change=data.preferences"]):
        said = typed(here, "optimizer.steps=4", *allowed, status=3)
        check(said, f"{step} does not match this run: data.preferences is out/preferences/train (", gone)
        assert "allow_change" not in said.stderr
    runs.write_lines(here / "pairs.jsonl", runs.records())
    check(typed(here, "optimizer.steps=4", "data.max_samples=9", "allow_change=data.max_samples", status=3), "data.max_samples is 0 there and 9 in this run", gone)
    assert left == {name: (here / "out" / name).read_bytes() for name in left}
    typed(here, "optimizer.steps=4", "objective.beta=0.3")
    typed(here, f"init={step}", "output=next", "data.max_samples=9")


@pytest.mark.parametrize("name", ["orpo", "adapter"])
def test_other_pairs_between_steps(here, name):
    """If the run has no reference, or it can still be computed, an allowed change is made, and the numbers of the new pairs are computed."""
    more = [f"objective.name={name}"] if name == "orpo" else ["adapter.rank=2"]
    typed(here, *more)
    runs.write_lines(here / "pairs.jsonl", runs.records()[:20])
    check(typed(here, *more, "optimizer.steps=4", status=3), "allow it by name: --set allow_change=data.preferences")
    said = typed(here, *more, "optimizer.steps=4", "allow_change=data.preferences").stderr
    assert "data.preferences changes from out/preferences/train (" in said and len(lines_of(here / "out")) == 4
    if name == "orpo":
        return
    assert "out/reference.bin is not of this run and its data; it is computed again, from the base of the adapter" in said
    typed(here, *more, "output=alone")
    assert (here / "out/reference.bin").read_bytes()[1024:] == (here / "alone/reference.bin").read_bytes()[1024:]


def test_the_last_line(tmp_path, made):
    """It has the last accuracy, margin and log-probability, of the step and of held-out pairs; an answer that becomes less likely is named."""
    common = dict(data=dict(validation_preferences=str(made / "pairs.jsonl")), evaluation=dict(every=20))
    said = trireme("train", runs.write_run(tmp_path, made, DPO, optimizer=dict(steps=20), **common)).stderr
    last = lines_of(tmp_path / "run")[-1]
    of = lambda prefix: f"accuracy {last[prefix + 'rewards/accuracies']:.3f}, margin {last[prefix + 'rewards/margins']:.3f}, logps/chosen {last[prefix + 'logps/chosen']:.2f}"
    assert f"loss {last['loss']:.4f}, validation loss {last['validation_loss']:.4f}; {of('')}; held-out pairs: {of('validation/')}\n" in said
    assert re.search(r"objective dpo: \d+ pairs in \d+ sequences of \d+ tokens, about \d+ pairs a step\n", said) and "less likely" not in said
    said = trireme("train", runs.write_run(tmp_path / "high", made, DPO, optimizer=dict(steps=20, lr=1.0, clip=0.0), **common)).stderr
    chosen = [line["logps/chosen"] for line in lines_of(tmp_path / "high/run")]
    assert f"the chosen answers have become less likely: logps/chosen was {chosen[0]:.2f} in the first step and {sum(chosen[-2:]) / 2:.2f} in the last 2 (mean)" in said


def test_held_out_pairs_are_named_late(here):
    typed(here)
    left = {name: (here / "out" / name).read_bytes() for name in ("reference.bin", "metrics.jsonl", "run.json", "config.yaml")}
    late = ["optimizer.steps=4", "data.validation_preferences=pairs.jsonl", "evaluation.every=1"]
    check(typed(here, *late, status=4), "`data.validation_preferences`: out/reference-validation.bin is missing, which would have the log-probabilities of these pairs",
          "the model as this run began, and 2 updates have been made since; if they are new to the run, leave the key out, or begin a new run")
    assert left == {name: (here / "out" / name).read_bytes() for name in left}
    typed(here, "optimizer.steps=3")
    typed(here, "output=lora", "adapter.rank=2")
    assert "validation/rewards/margins" in (typed(here, *late, "output=lora", "adapter.rank=2") and lines_of(here / "lora")[-1])


@pytest.mark.parametrize("changes, key", [(dict(objective=dict(name="ipo", beta=0.05)), "objective.name"), (dict(objective=dict(beta=0.5)), "objective.beta")], ids=["ipo", "beta"])
def test_another_objective_is_another_measure(tmp_path, made, changes, key):
    """The lowest validation loss and early stopping start over with the new loss."""
    common = dict(data=dict(validation_preferences=str(made / "pairs.jsonl")), evaluation=dict(every=2, stop_after=2), checkpoint=dict(every=0, best=True))
    trireme("train", runs.write_run(tmp_path, made, DPO, optimizer=dict(steps=4), **common))
    objective = {**runs.run_of(tmp_path, made, DPO)["objective"], **changes["objective"]}
    done = trireme("train", runs.write_run(tmp_path, made, objective, optimizer=dict(steps=10), allow_change="objective.name objective.beta", **common))
    assert done.stderr.count(f"with another {key} validation losses do not compare: the lowest so far, ") == 1
    later = {line["step"]: line["validation_loss"] for line in lines_of(tmp_path / "run") if line["step"] > 4 and "validation_loss" in line}
    assert os.readlink(tmp_path / "run/checkpoints/best") == f"step-{min(later, key=later.get):08d}"

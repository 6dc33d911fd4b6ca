"""`evaluation.stop_after` and `checkpoint.best`, beside the rule applied to the losses of a run that goes on to its end."""
import json
import os
import random
import signal
import subprocess

import pytest
from drawn import drawn
from parity import TRIREME, trireme, yaml_of
from test_layouts import needs_launcher

MODEL = dict(family="gpt2", num_layers=1, hidden_size=32, num_heads=2, vocab_size=257, max_sequence=32)
STEPS, AFTER = 60, 3


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Little to learn by heart, and other text to judge by: the validation loss falls, and rises again."""
    folder = tmp_path_factory.mktemp("corpus")
    draw = random.Random(3)
    words = ["".join(draw.choice("abcdefgh") for _ in range(5)) for _ in range(60)]
    for name, first in (("train", 0), ("validation", 20)):
        (folder / f"{name}.txt").write_text(" ".join(draw.choice(words[first:first + 40]) for _ in range(60)) + "\n")
        trireme("prepare", "--tokenizer", "bytes", "--validation", 0, "--out", folder / name, folder / f"{name}.txt")
    return folder


def write_run(folder, corpus, checkpoint=(), **changes):
    run = dict(model=MODEL, data=dict(train=str(corpus / "train/train"), validation=str(corpus / "validation/train"), sequence=32),
               layout=dict(micro_batch=2), optimizer=dict(global_batch=4, steps=STEPS, lr=2e-2, warmup=4), threads=1,
               evaluation=dict(every=2, batches=8, stop_after=AFTER), checkpoint=dict(dict(every=5, keep=1, best=True), **dict(checkpoint)),
               seed=5, output=str(folder / "run"))
    run.update(changes)
    path = folder / "run.yaml"
    path.write_text(yaml_of(run))
    return path


def lines_of(folder):
    return [json.loads(line) for line in open(folder / "run/metrics.jsonl")]


def looks_of(lines):
    return [(line["step"], line["validation_loss"]) for line in lines if "validation_loss" in line]


def rule(looks, after):
    """The step of the best look, and that after which the run ends."""
    best, waited = None, 0
    for step, loss in looks:
        if best is None or loss < best[1]:
            best, waited = (step, loss), 0
        else:
            waited += 1
        if waited == after:
            return best[0], step
    return best[0], None


def state_of(folder):
    lines, root = lines_of(folder), folder / "run/checkpoints"
    kept = sorted(path.name for path in root.glob("step-*"))
    weights = {name: [(root / name / file).read_bytes() for file in ("model.safetensors", "optimizer.safetensors")] for name in kept}
    summary = json.loads((folder / "run/summary.json").read_text())
    return (weights, os.readlink(root / "best"), [line["loss"] for line in lines], looks_of(lines),
            [summary[key] for key in ("steps", "ended_early", "best_validation_step", "best_validation_loss")])


@pytest.fixture(scope="module")
def whole(tmp_path_factory, corpus):
    """The looks of a run that nothing stops."""
    folder = tmp_path_factory.mktemp("whole")
    trireme("train", write_run(folder, corpus, dict(best=False), evaluation=dict(every=2, batches=8)))
    assert json.loads((folder / "run/summary.json").read_text())["ended_early"] is False
    assert not (folder / "run/checkpoints/best").exists()
    return looks_of(lines_of(folder))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, corpus):
    folder = tmp_path_factory.mktemp("undisturbed")
    trireme("train", write_run(folder, corpus))
    return state_of(folder)


def test_the_rule(tmp_path, corpus, whole):
    best, end = rule(whole, AFTER)
    assert best < end < STEPS - 10, whole  # else this tests nothing
    done = trireme("train", write_run(tmp_path, corpus))
    assert f"ended early, after step {end}: the validation loss of {AFTER} evaluations has not been below" in done.stderr and f"of step {best} " in done.stderr
    assert f"more steps: the same command with --set evaluation.stop_after={2 * AFTER}, or 0 to make all of the {STEPS} steps" in done.stderr
    lines, root = lines_of(tmp_path), tmp_path / "run/checkpoints"
    assert [line["step"] for line in lines] == list(range(1, end + 1)) and looks_of(lines) == [look for look in whole if look[0] <= end]
    assert sorted(path.name for path in root.glob("step-*")) == [f"step-{best:08d}", f"step-{end:08d}"]  # keep 1, and the best
    assert os.readlink(root / "best") == f"step-{best:08d}" and (root / f"step-{best:08d}/BEST").exists()
    assert not (root / f"step-{end:08d}/BEST").exists()
    state = json.loads((root / f"step-{end:08d}/state.json").read_text())["progress"]
    assert (state["best_step"], state["not_better"]) == (best, AFTER) and state["best_loss"] == min(whole[:end // 2], key=lambda look: look[1])[1]
    done = trireme("train", write_run(tmp_path, corpus))
    assert f"has ended early, after {end} steps already; raise evaluation.stop_after to continue" in done.stderr
    assert len(lines_of(tmp_path)) == end
    more = rule(whole, AFTER + 2)[1] or STEPS
    trireme("train", write_run(tmp_path, corpus, evaluation=dict(every=2, batches=8, stop_after=AFTER + 2)))
    assert len(lines_of(tmp_path)) == more


LAYOUTS = [dict(micro_batch=1), dict(micro_batch=4), dict(micro_batch=2, data=2), dict(micro_batch=1, data=2, zero=2), dict(micro_batch=1, pipeline=2),
           dict(micro_batch=2, pipeline=2, schedule="gpipe"), dict(micro_batch=1, tensor=2, sequence_parallel=True), dict(micro_batch=2, context=2)]


@needs_launcher
def test_no_layout_changes_what_is_chosen(tmp_path, corpus):
    """Looks, the best step, the last step and the texts are those of one rank, however many sequences a micro-batch has."""
    found = {}
    for i, layout in enumerate([dict(micro_batch=2), *drawn(LAYOUTS, 2, "layouts of an evaluation")]):
        folder = tmp_path / str(i)
        folder.mkdir()
        ranks = layout.get("data", 1) * layout.get("pipeline", 1) * layout.get("tensor", 1) * layout.get("context", 1)
        path = write_run(folder, corpus, layout=layout, precision="fp64", device="reference", evaluation=dict(every=2, sequences=11, stop_after=AFTER),
                         samples=dict(prompts=["ab", ""], tokens=5))
        trireme("train", path, "-n", ranks)
        samples = [json.loads(line) for line in open(folder / "run/samples.jsonl")]
        summary = json.loads((folder / "run/summary.json").read_text())
        found[i] = (layout, looks_of(lines_of(folder)), [(sample["step"], sample["text"]) for sample in samples],
                    os.readlink(folder / "run/checkpoints/best"), [summary[key] for key in ("steps", "ended_early", "best_validation_step")])
    _, looks, *rest = found[0]
    assert rest[-1][1] is True  # else nothing was chosen
    for layout, other, *others in list(found.values())[1:]:
        assert [step for step, _ in other] == [step for step, _ in looks], layout
        assert all(abs(mine / theirs - 1) < 1e-9 for (_, mine), (_, theirs) in zip(other, looks)), layout
        assert others == rest, layout


@needs_launcher
def test_single_precision(tmp_path, corpus):
    """The same looks in fp32, to 1e-6."""
    looks = []
    for i, layout in enumerate([dict(micro_batch=1), dict(micro_batch=4), dict(micro_batch=1, pipeline=2, data=2)]):
        folder = tmp_path / str(i)
        folder.mkdir()
        path = write_run(folder, corpus, dict(best=False), layout=layout, optimizer=dict(global_batch=4, steps=6, lr=1e-3), evaluation=dict(every=3))
        trireme("train", path, "-n", 4 if i == 2 else 1)
        looks.append([loss for _, loss in looks_of(lines_of(folder))])
    assert all(abs(mine / theirs - 1) < 1e-6 for other in looks[1:] for mine, theirs in zip(other, looks[0]))


def test_batches_are_sequences(tmp_path, corpus):
    """The older key counts micro-batches of the file: said, and written as sequences, which other layouts then keep."""
    done = trireme("train", write_run(tmp_path, corpus, dict(best=False), evaluation=dict(every=2, batches=3), optimizer=dict(global_batch=4, steps=2, lr=1e-3)))
    assert "evaluation.batches 3: an evaluation reads 6 sequences; `evaluation.sequences: 6` says the same" in done.stderr
    resolved = (tmp_path / "run/config.yaml").read_text()
    assert "  sequences: 6 " in resolved and "  batches: auto " in resolved
    first = looks_of(lines_of(tmp_path))
    trireme("train", tmp_path / "run/config.yaml", "--set", "layout.micro_batch=1", "--resume", "never", "--set", f"output={tmp_path / 'again'}")
    again = [json.loads(line)["validation_loss"] for line in open(tmp_path / "again/metrics.jsonl") if "validation_loss" in line]
    assert abs(again[0] / first[0][1] - 1) < 1e-6
    said = trireme("train", write_run(tmp_path, corpus, evaluation=dict(every=2, batches=3, sequences=6)), status=3).stderr
    assert "evaluation.batches` 3 and evaluation.sequences 6 both set the length of an evaluation; keep only sequences" in said


def test_the_best_is_a_model(tmp_path, corpus):
    trireme("train", write_run(tmp_path, corpus))
    root = tmp_path / "run/checkpoints"
    best, last = sorted(root.glob("step-*"))
    found = [trireme("eval", at, corpus / "validation/train", "--json").stdout for at in (root / "best", best, last)]
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("snapshots", [0, 3])
def test_kill_and_go_on(tmp_path, corpus, undisturbed, ranks, background, snapshots):
    """After kills and restarts, the kept checkpoints and the reason and step of the end are those of a run that was not killed."""
    chance = random.Random(ranks + 2 * background + snapshots)
    number, longest_s = 0, 1.0
    while number < 2:
        folder = tmp_path / f"{number}-{longest_s:.3f}"
        folder.mkdir()
        path = write_run(folder, corpus, {"async": background, "snapshot_every": snapshots})
        words, killed = [TRIREME, "train", path] + (["-n", str(ranks)] if ranks > 1 else []), 0
        for _ in range(5):
            process = subprocess.Popen(words, stderr=subprocess.DEVNULL, start_new_session=True)
            try:
                process.wait(timeout=chance.uniform(0.05, longest_s))
                break
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                killed += 1
        if killed == 0:
            longest_s *= 0.8
            continue
        subprocess.run(words, check=True, stderr=subprocess.DEVNULL)
        found = state_of(folder)
        more = sorted(set(found[0]) - set(undisturbed[0]))  # killed right behind the last save: what that would have removed is there
        assert len(more) <= 1 and all(name < max(undisturbed[0]) for name in more), more
        kept = {name: found[0].get(name) for name in undisturbed[0]}
        if ranks == 1:
            assert (kept, *found[1:]) == undisturbed
        else:  # two ranks add up losses in another order
            assert None not in kept.values() and (found[1], found[4][:3]) == (undisturbed[1], undisturbed[4][:3])
        number += 1


def test_going_back_takes_the_best_along(tmp_path, corpus, undisturbed):
    """Checkpoints after the branch are put aside, the best among them: the link follows."""
    path = write_run(tmp_path, corpus, dict(keep=0, every=2))
    trireme("train", path)
    root = tmp_path / "run/checkpoints"
    best = os.readlink(root / "best")
    older = sorted(at.parent.name for at in root.glob("step-*/BEST"))[-2]
    (tmp_path / "stop.yaml").write_text(path.read_text())
    trireme("train", path, "--resume", root / older, "--set", f"optimizer.steps={int(older[5:]) + 1}", "--set", "optimizer.warmup=1")
    assert best != older and os.readlink(root / "best") in (older, f"step-{int(older[5:]) + 1:08d}")
    assert (root / "best/COMPLETE").exists()


@pytest.mark.parametrize("changes, words", [
    (dict(evaluation=dict(every=0, stop_after=2)), ("`evaluation.stop_after`", "evaluation.every is 0", "try 100")),
    (dict(evaluation=dict(every=0)), ("`checkpoint.best`", "evaluation.every is 0")),
    (dict(data="train"), ("`evaluation.stop_after`", "name a corpus in data.validation")),
    (dict(evaluation=dict(stop_after=-1)), ("`stop_after` under `evaluation:`", "between 0 and")),
])
def test_bad_input(tmp_path, corpus, changes, words):
    if changes.get("data") == "train":
        changes = dict(data=dict(train=str(corpus / "train/train"), sequence=32))
    done = subprocess.run([TRIREME, "train", write_run(tmp_path, corpus, **changes)], capture_output=True, text=True)
    assert done.returncode == 3 and all(word in done.stderr for word in words), done.stderr


# ---- --stop-at

def test_stop_at(tmp_path, corpus):
    """A run that is stopped at steps and goes on is the run that was not, to the bit; at each of them it was looked at and saved."""
    plain = dict(evaluation=dict(every=10, batches=8), checkpoint=dict(every=0, keep=0, best=False))
    for name in "ab":
        (tmp_path / name).mkdir()
    whole = write_run(tmp_path / "a", corpus, optimizer=dict(global_batch=4, steps=40, lr=2e-2, warmup=4), **plain)
    trireme("train", whole)
    run = write_run(tmp_path / "b", corpus, optimizer=dict(global_batch=4, steps=40, lr=2e-2, warmup=4), **plain)
    first = trireme("train", run, "--stop-at", 7).stderr
    assert "the rest of the 40 steps: the same command without --stop-at" in first and "7 steps in " in first
    again = trireme("train", run, "--stop-at", 7).stderr
    assert "has made its 7 steps already; raise --stop-at to continue" in again
    trireme("train", run, "--stop-at", 20)
    summary = json.loads((tmp_path / "b/run/summary.json").read_text())
    assert summary["steps"] == 20 and summary["ended_early"] is False
    assert "--stop-at 400: this run has 40 steps, and ends with the last of them" in trireme("train", run, "--stop-at", 400).stderr  # behind the last step: nothing stops it
    assert [path.name for path in sorted((tmp_path / "b/run/checkpoints").glob("step-*"))] == ["step-00000007", "step-00000020", "step-00000040"]
    assert [step for step, _ in looks_of(lines_of(tmp_path / "b"))] == [7, 10, 20, 30, 40]
    whole_lines, lines = lines_of(tmp_path / "a"), lines_of(tmp_path / "b")
    assert [(line["step"], line["loss"], line["lr"]) for line in lines] == [(line["step"], line["loss"], line["lr"]) for line in whole_lines]
    for file in ("model.safetensors", "optimizer.safetensors"):
        assert (tmp_path / "a/run/checkpoints/step-00000040" / file).read_bytes() == (tmp_path / "b/run/checkpoints/step-00000040" / file).read_bytes()


@pytest.mark.parametrize("step", ["0", "-3", "soon", "1.5"])
def test_stop_at_takes_a_step(tmp_path, corpus, step):
    assert "--stop-at" in trireme("train", write_run(tmp_path, corpus), f"--stop-at={step}", status=2).stderr

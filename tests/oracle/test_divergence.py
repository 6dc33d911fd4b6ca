"""A run whose weights are ruined loses no good checkpoint, saves nothing that is ruined, and can be resumed."""
import json
import subprocess

import pytest
from parity import trireme, words_of, yaml_of

MODEL = dict(family="gpt2", num_layers=2, hidden_size=32, num_heads=2, vocab_size=257, max_sequence=32)
ALLOWED = ["--set", "allow_change=optimizer.lr,optimizer.min_lr,optimizer.decay"]  # the runs are finished
HUGE = ["--set", "optimizer.lr=1e10", "--set", "optimizer.steps=100", *ALLOWED]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "text.txt").write_text("".join(f"Line {i}: {i * 7919 % 1000} pulls.\n" for i in range(2000)))
    trireme("prepare", "--tokenizer", "bytes", "--out", folder / "data", folder / "text.txt")
    return folder / "data"


def write_run(folder, corpus, every, keep, steps=12, **more):
    run = dict(model=MODEL, data=dict(train=str(corpus / "train"), sequence=32), layout=dict(micro_batch=2),
               optimizer=dict(global_batch=4, steps=steps, lr=1e-3), output=str(folder / "run"),
               checkpoint=dict(every=every, keep=keep, **more))
    path = folder / "run.yaml"
    path.write_text(yaml_of(run))
    return path


def checkpoints(folder):
    return {int(path.name[5:]): path for path in (folder / "run/checkpoints").glob("step-*")}


def bytes_of(path):
    return {name: (path / name).read_bytes() for name in ("model.safetensors", "optimizer.safetensors")}


@pytest.mark.parametrize("ranks", [[], ["-n", "2"]])
@pytest.mark.parametrize("background", [False, True])
def test_nothing_good_is_pushed_out(tmp_path, corpus, ranks, background):
    path = write_run(tmp_path, corpus, every=3, keep=3, **{"async": background})
    trireme("train", path, *ranks)
    good = {step: bytes_of(at) for step, at in checkpoints(tmp_path).items()}
    assert sorted(good) == [6, 9, 12]
    done = trireme("train", path, *ranks, *HUGE, status=8)
    assert "the loss or gradient was NaN or infinite in steps 14 to 23, so the run stops; nothing was saved in them" in done.stderr
    assert "the last good checkpoint is " + str(tmp_path / "run/checkpoints/step-00000012") in done.stderr
    assert {step: bytes_of(at) for step, at in checkpoints(tmp_path).items()} == good
    done = trireme("train", path, *ranks, *ALLOWED, "--set", "optimizer.steps=15")
    assert "after step 12" in done.stderr and max(checkpoints(tmp_path)) == 15


@pytest.mark.parametrize("background", [False, True])
def test_finite_and_ruined(tmp_path, corpus, background):
    """One step at a huge rate leaves finite weights from which no step is finite: they are saved, found out, and passed
    over; with keep 1 the good ones before them stay. In the background the save may still be in progress when they are found out."""
    path = write_run(tmp_path, corpus, every=1, keep=1, **{"async": background})
    trireme("train", path)
    good = bytes_of(checkpoints(tmp_path)[12])
    done = trireme("train", path, *HUGE, status=8)
    assert "the last good checkpoint is " + str(tmp_path / "run/checkpoints/step-00000012") in done.stderr
    found = checkpoints(tmp_path)
    assert sorted(found) == [12, 13] and bytes_of(found[12]) == good
    assert (found[12] / "PROVEN").exists() and (found[13] / "DISPROVED").exists()
    assert not (found[13] / "PROVEN").exists()
    done = trireme("train", path, *ALLOWED, "--set", "optimizer.steps=16")
    assert "passing over the checkpoint" in done.stderr and "step-00000013: every step that followed it was bad" in done.stderr
    assert "after step 12" in done.stderr
    # The last one is not proven yet, so the one before it stays too.
    assert sorted(checkpoints(tmp_path)) == [15, 16]


def test_killed_between_the_ruin_and_its_proof(tmp_path, corpus):
    """The ruined one is not marked: the run says which one to go back to, and going back works."""
    path = write_run(tmp_path, corpus, every=1, keep=2)
    trireme("train", path)
    trireme("train", path, *HUGE[:2], "--set", "optimizer.steps=13", "--set", "optimizer.decay=constant", *ALLOWED)
    assert not (checkpoints(tmp_path)[13] / "PROVEN").exists()
    done = trireme("train", path, *ALLOWED, "--set", "optimizer.steps=100", status=8)
    proven = str(tmp_path / "run/checkpoints/step-00000012")
    assert "the last good checkpoint is " + proven in done.stderr
    done = trireme("train", path, *ALLOWED, "--resume", proven, "--set", "optimizer.steps=14")
    assert sorted(checkpoints(tmp_path))[-1] == 14 and (checkpoints(tmp_path)[13] / "PROVEN").exists()


def test_an_evaluation_proves(tmp_path, corpus):
    path = write_run(tmp_path, corpus, every=4, keep=1)
    trireme("train", path, "--set", f"data.validation={corpus / 'validation'}")
    assert sorted(checkpoints(tmp_path)) == [12] and (checkpoints(tmp_path)[12] / "PROVEN").exists()


def test_ends_among_bad_steps(tmp_path, corpus):
    path = write_run(tmp_path, corpus, every=3, keep=3)
    trireme("train", path)
    done = trireme("train", path, *ALLOWED, "--set", "optimizer.lr=1e10", "--set", "optimizer.steps=15", status=8)
    assert "the run ends after step 15, among 2 bad steps in a row, whose state is not saved" in done.stderr
    assert "step-00000012" in done.stderr and sorted(checkpoints(tmp_path)) == [6, 9, 12]


def test_no_label_counts(tmp_path):
    """Nothing was learnt, so nothing is saved, and the status says so."""
    (tmp_path / "text.txt").write_text("a" * 20000)
    trireme("prepare", "--tokenizer", "bytes", "--out", tmp_path / "data", tmp_path / "text.txt")
    path = write_run(tmp_path, tmp_path / "data", every=1, keep=3)
    done = trireme("train", path, "--set", "data.ignore_token=97", status=8)
    assert "step 1 is skipped: none of its labels counts" in done.stderr
    assert "no label counted in the first 10 steps, so the run stops; data.ignore_token is 97" in done.stderr
    assert not (tmp_path / "run/checkpoints").exists()


def test_steps_without_labels(tmp_path):
    """They are not bad: more than max_bad_steps of them in the middle and at the end of a run change nothing, and the run is saved."""
    (tmp_path / "text.txt").write_text("the rowers pull together, then r" + "a" * 32 * 15 + "a" * 20)
    trireme("prepare", "--tokenizer", "bytes", "--validation", 0, "--out", tmp_path / "data", tmp_path / "text.txt")
    path = write_run(tmp_path, tmp_path / "data", every=0, keep=1)
    more = ["optimizer.steps=16", "optimizer.global_batch=1", "optimizer.max_bad_steps=2", "data.ignore_token=97", "layout.micro_batch=1"]
    for seed in range(1, 100):
        done = subprocess.run(words_of("train", path, "--resume", "never", *(word for key in [*more, f"seed={seed}"] for word in ("--set", key))), capture_output=True, text=True)
        lines = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
        if lines[0]["loss"] is not None:
            break
        assert done.returncode == 8 and "no label counted in the first 2 steps, so the run stops" in done.stderr or lines[1]["loss"] is not None
    assert done.returncode == 0, done.stderr
    empty = [line["step"] for line in lines if line["loss"] is None]
    assert len(lines) == 16 and len(empty) == 15 and lines[-1]["bad_steps"] == 0
    assert done.stderr.count("is skipped: none of its labels counts") == len(empty) and sorted(checkpoints(tmp_path)) == [16]

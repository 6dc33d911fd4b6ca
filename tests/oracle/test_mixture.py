"""Training on several corpora with weights (data.train: [{path, weight}, ...]), through the program: the reported counts, exact resuming, and
refusals."""
import glob
import json
import shutil

import numpy
import pytest
from parity import trireme, yaml_of

MODEL = dict(family="gpt2", num_layers=1, hidden_size=16, num_heads=2, vocab_size=300, max_sequence=32)
TEXTS = {
    "web": "".join(f"pull the oars {i * 7919 % 1000} times\n" for i in range(600)),
    "code": "".join(f"for (int i = 0; i < {i * 104729 % 1000}; i++)\n" for i in range(300)),
    "books": "".join(f"chapter {i}: the three banks of {i * 31 % 97} rowers\n" for i in range(100)),
}
WEIGHTS = {"web": 0.5, "code": 0.3, "books": 0.2}
BATCH, SEQUENCE = 4, 16


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpora")
    for name, text in TEXTS.items():
        (folder / f"{name}.txt").write_text(text)
        trireme("prepare", "--tokenizer", "bytes", "--documents", "line", "--validation", "0.1", "--out", folder / name, folder / f"{name}.txt")
    return folder


def mixture(corpora, weights=WEIGHTS):
    return [dict(path=str(corpora / name / "train"), weight=weight) for name, weight in weights.items()]


def write_run(folder, train, steps=10, name="run", **changes):
    data = dict(train=train, sequence=SEQUENCE, **changes.pop("data", {}))
    run = dict(model=MODEL, data=data, layout=dict(micro_batch=2), optimizer=dict(global_batch=BATCH, steps=steps, lr=1e-3, decay="constant"),
               checkpoint=dict(every=5), evaluation=dict(every=0), device="reference", precision="fp64", seed=3, output=str(folder / name))
    run.update(changes)
    path = folder / f"{name}.yaml"
    path.write_text(yaml_of(run))
    return path


def lines_of(folder):
    return [json.loads(line) for line in open(folder / "metrics.jsonl")]


def losses_of(folder):
    return [(line["step"], line["loss"], line["grad_norm"]) for line in lines_of(folder)]


def failure(done):
    lines = [line for line in done.stderr.splitlines() if line.startswith("trireme: ")]
    assert len(lines) == 1, done.stderr
    return lines[0]


def windows_of(corpora, name):
    tokens = json.loads((corpora / name / "train.corpus.json").read_text())["tokens"]
    return (tokens - 1) // SEQUENCE


def test_shares_seen_are_said(tmp_path, corpora):
    done = trireme("train", write_run(tmp_path, mixture(corpora)))
    assert f" 30.00 % of the sequences from {corpora}/code/train: " in done.stderr, done.stderr
    for line in lines_of(tmp_path / "run"):
        samples = line["step"] * BATCH
        assert sum(s["tokens"] for s in line["sources"]) == line["tokens"] == samples * SEQUENCE
        for source, (name, weight) in zip(line["sources"], WEIGHTS.items(), strict=True):
            assert abs(source["tokens"] / SEQUENCE - weight * samples) < 1, line
            assert source["share"] == source["tokens"] / line["tokens"]
            assert source["epochs"] == pytest.approx(source["tokens"] / SEQUENCE / windows_of(corpora, name), rel=1e-12)
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    assert [(s["path"], s["share"], s["tokens"]) for s in summary["sources"]] == [
        (str(corpora / name / "train"), weight, weight * 10 * BATCH * SEQUENCE) for name, weight in WEIGHTS.items()]
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = accumulator.EventAccumulator(str(tmp_path / "run"), size_guidance={accumulator.SCALARS: 0})
    events.Reload()
    for number, (name, weight) in enumerate(WEIGHTS.items(), 1):
        seen = events.Scalars(f"source tokens/{number} {corpora}/{name}/train")
        assert [s.step for s in seen] == list(range(1, 11)) and seen[-1].value == weight * 10 * BATCH * SEQUENCE
        assert events.Scalars(f"source share/{number} {corpora}/{name}/train")[-1].value == pytest.approx(weight)


def test_mixes_by_size(tmp_path, corpora):
    """Sources without weights: an epoch reads each sequence of each corpus once, in any order of ranks, and goes on exactly."""
    by_size = [str(corpora / name / "train") for name in WEIGHTS]
    windows = {name: windows_of(corpora, name) for name in WEIGHTS}
    steps = -(-sum(windows.values()) // BATCH)
    length = dict(global_batch=BATCH, lr=1e-3, decay="constant")
    done = trireme("train", write_run(tmp_path, by_size, optimizer=dict(length, epochs=1), checkpoint=dict(every=100)))
    assert f"{steps} steps = 1 epoch of {sum(windows.values())} sequences" in done.stderr, done.stderr
    lines = lines_of(tmp_path / "run")
    assert len(lines) == steps
    for source, count in zip(lines[-1]["sources"], windows.values(), strict=True):
        assert abs(source["epochs"] - 1) * count < BATCH, source
    for line in lines:  # the shares hold from the first step on
        for source, count in zip(line["sources"], windows.values(), strict=True):
            assert abs(source["tokens"] / SEQUENCE - count / sum(windows.values()) * line["step"] * BATCH) < 1
    # It is the mixture of these weights; resumed and on two ranks it is the same run.
    trireme("train", write_run(tmp_path, mixture(corpora, windows), name="weights"))
    assert losses_of(tmp_path / "weights") == losses_of(tmp_path / "run")[:10]
    trireme("train", write_run(tmp_path, by_size, steps=5, name="parts"))
    trireme("train", write_run(tmp_path, by_size, steps=10, name="parts", layout=dict(micro_batch=2, data=2)), "-n", 2)
    assert numpy.allclose(losses_of(tmp_path / "parts"), losses_of(tmp_path / "weights"), rtol=1e-12, atol=0)
    again = write_run(tmp_path, mixture(corpora), steps=12, name="parts")
    said = failure(trireme("train", again, status=3))
    assert "data.train is mixed by size there and mixed by weights in this run" in said
    said = failure(trireme("train", write_run(tmp_path, by_size, steps=12, name="weights"), status=3))
    assert "data.train is mixed by weights there and mixed by size in this run" in said


def test_one_source_says_nothing_of_sources(tmp_path, corpora):
    """Written as a path or as a list of one it is the same run."""
    path = str(corpora / "web/train")
    trireme("train", write_run(tmp_path, path, name="plain"))
    trireme("train", write_run(tmp_path, [dict(path=path, weight=0.25)], name="listed"))
    assert losses_of(tmp_path / "plain") == losses_of(tmp_path / "listed")
    assert all("sources" not in line for line in lines_of(tmp_path / "listed"))
    assert "sources" not in json.loads((tmp_path / "listed/summary.json").read_text())
    assert f"  train: {path} " in (tmp_path / "listed/config.yaml").read_text()


def test_long_paths_are_tags_of_events(tmp_path, corpora):
    """An event of TensorBoard has the path of a source in each of three tags."""
    far = tmp_path.joinpath(*6 * ["x" * 240])
    shutil.copytree(corpora / "code", far)
    trireme("train", write_run(tmp_path, [dict(path=str(corpora / "web/train"), weight=1), dict(path=str(far / "train"), weight=1)], steps=2))
    assert len(lines_of(tmp_path / "run")) == 2


@pytest.mark.parametrize("data", [{}, dict(documents="masked"), dict(documents="masked", packing="documents")], ids=["windows", "masked", "packed"])
def test_goes_on_exactly(tmp_path, corpora, data):
    """Five steps and then five are ten at once, also on two ranks; printed and read back it is the same run."""
    trireme("train", write_run(tmp_path, mixture(corpora), name="whole", data=data))
    trireme("train", write_run(tmp_path, mixture(corpora), steps=5, name="parts", data=data))
    trireme("train", write_run(tmp_path, mixture(corpora), steps=10, name="parts", data=data))
    assert losses_of(tmp_path / "whole") == losses_of(tmp_path / "parts")
    trireme("train", "-n", 2, write_run(tmp_path, mixture(corpora), name="ranks", data=data, layout=dict(micro_batch=2, data=2)))
    one, two = (numpy.array(losses_of(tmp_path / name)) for name in ("whole", "ranks"))
    assert numpy.allclose(one, two, rtol=1e-12, atol=0)
    trireme("train", tmp_path / "whole/config.yaml", "--set", f"output={tmp_path}/again")
    assert losses_of(tmp_path / "whole") == losses_of(tmp_path / "again")


def test_another_mixture_is_refused_by_name(tmp_path, corpora):
    run = write_run(tmp_path, mixture(corpora), steps=5)
    trireme("train", run)
    shutil.copytree(tmp_path / "run", tmp_path / "kept")

    def go_on(train, status=3, **changes):
        shutil.rmtree(tmp_path / "run")
        shutil.copytree(tmp_path / "kept", tmp_path / "run")
        return trireme("train", write_run(tmp_path, train, steps=10, **changes), status=status)

    said = failure(go_on(mixture(corpora, {**WEIGHTS, "code": 0.5})))
    assert "data.train is shares of 0.5, 0.3, 0.2 there and shares of 0.4167, 0.4167, 0.1667 in this run" in said
    assert "--set allow_change=data.train" in said
    said = failure(go_on(mixture(corpora, dict(web=0.5, books=0.2, code=0.3))))
    assert f"data.train is source 2 of 3, {corpora}/code/train (" in said and f" there and {corpora}/books/train (" in said
    said = failure(go_on(mixture(corpora, dict(web=0.5, code=0.3))))
    assert "data.train is 3 sources there and 2 in this run" in said
    said = failure(go_on(str(corpora / "web/train")))
    assert "data.train is 3 sources there and 1 in this run" in said
    # The same shares in other numbers are the same run; a change that is meant can be made.
    go_on(mixture(corpora, dict(web=5, code=3, books=2)), status=0)
    assert len(lines_of(tmp_path / "run")) == 10
    done = go_on(mixture(corpora, dict(web=1, code=1, books=1)), status=0, allow_change="data.train")
    assert "data.train changes from shares of 0.5, 0.3, 0.2 to shares of 0.3333, 0.3333, 0.3333, as `allow_change` allows" in done.stderr


def test_a_run_of_one_corpus_is_not_one_of_several(tmp_path, corpora):
    trireme("train", write_run(tmp_path, str(corpora / "web/train"), steps=5))
    said = failure(trireme("train", write_run(tmp_path, mixture(corpora)), status=3))
    assert "data.train is 1 source there and 3 in this run" in said
    said = failure(trireme("train", write_run(tmp_path, str(corpora / "code/train")), status=3))
    assert f"data.train is {corpora}/web/train (" in said and f" there and {corpora}/code/train (" in said


def test_corpora_that_do_not_go_together_are_refused(tmp_path, corpora):
    shutil.copytree(corpora / "code", tmp_path / "copy")
    both = mixture(corpora) + [dict(path=str(tmp_path / "copy/train"), weight=0.125)]
    said = failure(trireme("train", write_run(tmp_path, both), status=3))
    assert said.endswith(f"`data.train` lists one corpus twice: {corpora}/code/train and {tmp_path}/copy/train have the same content; name it once, "
                         "with weight 0.425")
    missing = mixture(corpora) + [dict(path=str(corpora / "none/train"), weight=1)]
    said = failure(trireme("train", write_run(tmp_path, missing), status=4))
    assert f"{corpora}/none/train.idx" in said and "No such file" in said
    # Of another tokenizer: with the one beside the first corpus, and without any.
    trireme("prepare", "--tokenizer", "train:270", "--documents", "line", "--out", tmp_path / "other", corpora / "web.txt")
    other = mixture(corpora, dict(code=1)) + [dict(path=str(tmp_path / "other/train"), weight=1)]
    said = failure(trireme("train", write_run(tmp_path, other), status=4))
    assert f"the corpus {tmp_path}/other/train was made with another tokenizer (270 tokens, " in said and f"than {corpora}/code/tokenizer.json (257" in said
    for name in "copy", "other":
        (tmp_path / name / "tokenizer.json").unlink()
    without = [dict(path=str(tmp_path / name / "train"), weight=1) for name in ("copy", "other")]
    said = failure(trireme("train", write_run(tmp_path, without), status=4))
    assert f"the corpora {tmp_path}/other/train (270 tokens, " in said and f" and {tmp_path}/copy/train (257 tokens, " in said
    # Too short for one sample, and without boundaries.
    (tmp_path / "short.txt").write_text("ship\n")
    trireme("prepare", "--tokenizer", "bytes", "--validation", "0", "--out", tmp_path / "short", tmp_path / "short.txt")
    short = mixture(corpora) + [dict(path=str(tmp_path / "short/train"), weight=1)]
    said = failure(trireme("train", write_run(tmp_path, short), status=3))
    assert f"{tmp_path}/short/train has 6 tokens, fewer than the 17 of one sample (data.sequence 16 and its last label); prepare more text or lower" in said
    (tmp_path / "one.txt").write_text("the oars " * 100)
    trireme("prepare", "--tokenizer", "bytes", "--validation", "0", "--out", tmp_path / "one", tmp_path / "one.txt")
    one = mixture(corpora) + [dict(path=str(tmp_path / "one/train"), weight=1)]
    said = failure(trireme("train", write_run(tmp_path, one, data=dict(documents="masked")), status=4))
    assert f"{tmp_path}/one/train has no boundary between documents" in said

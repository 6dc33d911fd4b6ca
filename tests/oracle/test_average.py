"""`average`: the average of the weights over a run, beside torch.optim.swa_utils.AveragedModel fed with the weights of every step's
checkpoint; the same under every layout, after a kill, in a run's memory plan; exported, evaluated and generated with; and what is
wrong is answered by key and what to do."""
import json
import shutil
import signal
import subprocess

import numpy
import pytest
import torch
from optimizer_runs import (GPT2, LLAMA, MIXTRAL, SMALL, check_weights, corpus_of, newest_of, ranks_words, start_from, states_of, tensors_of, weights_of, write_run)
from parity import TRIREME, trireme, words_of
from test_ranks import wait_for_step
from torch.optim.swa_utils import AveragedModel

SUFFIX = ".average"
IN_DOUBLE = ("--precision", "fp64", "--device", "reference")
needs_ranks = pytest.mark.skipif(shutil.which("mpiexec") is None, reason="SKIPPED: there is no mpiexec")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return corpus_of(tmp_path_factory.mktemp("corpus"))


def fails(*words):
    done = subprocess.run(words_of(*words), capture_output=True, text=True)
    assert done.returncode not in (0, -11), done
    return done.stderr


def averages_of(folder):
    return {name[: -len(SUFFIX)]: values for name, values in states_of(folder).items() if name.endswith(SUFFIX)}


class Tensors(torch.nn.Module):
    def __init__(self, arrays):
        super().__init__()
        self.names = sorted(arrays)
        self.values = torch.nn.ParameterList(torch.nn.Parameter(torch.tensor(arrays[name])) for name in self.names)


def theirs(history, every, decay, after):
    """Returns PyTorch's average of the weights in `history`: the initial ones, then those after each update."""
    ema = (lambda average, weights, taken: decay * average + (1 - decay) * weights) if decay > 0 else None
    average = AveragedModel(Tensors(history[0]), avg_fn=ema)
    for update, arrays in enumerate(history, 1):
        if update > after and (update - after) % every == 0:
            average.update_parameters(Tensors(arrays))
    return {name: value.detach().numpy() for name, value in zip(average.module.names, average.module.values)}


# ---- beside PyTorch --------------------------------------------------------------------------------------------------

CASES = {
    "ema": dict(every=1, decay=0.9), "some": dict(every=3, decay=0.75), "mean": dict(every=1, decay=0), "late mean": dict(every=2, decay=0, after=5),
    "as it comes": dict(every=1),
}


@pytest.mark.parametrize("optimizer", [{}, dict(name="muon"), dict(name="lion")], ids=["adamw", "muon", "lion"])
@pytest.mark.parametrize("name", CASES)
def test_beside_torch(tmp_path, corpus, name, optimizer):
    keys = CASES[name]
    trireme("train", write_run(tmp_path, corpus, {**optimizer, "steps": 14}, precision="fp64", average=keys, checkpoint=dict(every=1, keep=0)))
    history = [tensors_of(folder.glob("model*.safetensors")) for folder in sorted((tmp_path / "run/checkpoints").glob("step-*")) if folder.name != "step-00000000"]
    assert len(history) == 14
    expected = theirs(history, keys["every"], keys.get("decay", 0.999), keys.get("after", 0))
    check_weights(averages_of(tmp_path / "run"), expected, 1e-12)


def test_before_the_first(tmp_path, corpus):
    """It is the weights that the run began with."""
    start, _ = start_from(tmp_path, LLAMA)
    trireme("train", write_run(tmp_path, corpus, dict(steps=3), precision="fp64", average=dict(every=1, after=5), init=str(start)))
    check_weights(averages_of(tmp_path / "run"), tensors_of(start.glob("*.safetensors")), 1e-15)


def test_nothing_that_trains_sees_it(tmp_path, corpus):
    for name, more in (("with", dict(average=dict(every=1))), ("without", {})):
        trireme("train", write_run(tmp_path / name, corpus, dict(steps=8), **more))
    with_it, without = (tmp_path / name / "run" for name in ("with", "without"))
    assert (newest_of(with_it) / "model.safetensors").read_bytes() == (newest_of(without) / "model.safetensors").read_bytes()
    mine, others = states_of(with_it), states_of(without)
    assert set(mine) - set(others) == {name + SUFFIX for name in weights_of(with_it)}
    assert all(mine[name].tobytes() == others[name].tobytes() for name in others)


# ---- layouts ---------------------------------------------------------------------------------------------------------

LAYOUTS = {
    "zero 1": (2, dict(data=2, zero=1)), "zero 2": (2, dict(data=2, zero=2)), "zero 3": (2, dict(data=2, zero=3)), "tensor 2": (2, dict(tensor=2)),
    "pipeline 2": (2, dict(pipeline=2)), "tensor 2, zero 3": (4, dict(tensor=2, data=2, zero=3)), "pipeline 2, zero 1": (4, dict(pipeline=2, data=2, zero=1)),
    "context 2": (2, dict(context=2)), "expert 2": (2, dict(data=2, expert=2)), "expert 2, zero 1": (4, dict(data=4, expert=2, zero=1, micro_batch=1)),
}
MODELS = {"gpt2": {**GPT2, "num_heads": 4}, "llama": LLAMA, "mixtral": MIXTRAL}
GRID = [(model, layout, optimizer) for model in MODELS for layout in LAYOUTS for optimizer in ("adamw", "muon") if "expert" not in layout or model == "mixtral"]


@needs_ranks
@pytest.mark.parametrize("model,layout,optimizer", GRID)
def test_layouts(tmp_path, corpus, model, layout, optimizer):
    ranks, keys = LAYOUTS[layout]
    batch = dict(steps=6, global_batch=4 if ranks < 4 else 8, name=optimizer)
    found = []
    for name, count, where in (("one", 1, {}), ("many", ranks, keys)):
        path = write_run(tmp_path / name, corpus, batch, model=MODELS[model], precision="fp64", layout=where, average=dict(every=2, decay=0.8))
        trireme("train", path, *ranks_words(count))
        found.append(averages_of(tmp_path / name / "run"))
        summary = json.loads((tmp_path / name / "run/summary.json").read_text())
        assert summary["peak_bytes_predicted"] == summary["peak_bytes_measured"]
    check_weights(found[1], found[0])


@needs_ranks
def test_taken_up_under_another_layout(tmp_path, corpus):
    """The second half of a run, under another one: the same average as one rank's."""
    for name, halves in (("one", [(1, {})]), ("two", [(2, dict(tensor=2)), (2, dict(data=2, zero=3))])):
        for part, (ranks, layout) in enumerate(halves):
            steps = 8 if len(halves) == 1 or part == 1 else 4
            trireme("train", write_run(tmp_path / name, corpus, dict(steps=steps, global_batch=4), precision="fp64", layout=layout, average=dict(every=1, decay=0)), *ranks_words(ranks))
    check_weights(averages_of(tmp_path / "two/run"), averages_of(tmp_path / "one/run"))


# ---- going on --------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("state", ["fp32", "int8"])
def test_killed_and_gone_on(tmp_path, corpus, state):
    files = {}
    for name in ("whole", "killed"):
        path = write_run(tmp_path / name, corpus, dict(steps=200, state=state), average=dict(every=3, decay=0), checkpoint=dict(every=7, keep=2))
        if name == "killed":
            process = subprocess.Popen([TRIREME, "train", path], stderr=subprocess.DEVNULL)
            wait_for_step(tmp_path / name, process, 60)
            process.send_signal(signal.SIGKILL)
            process.wait()
        trireme("train", path)
        files[name] = {file.name: file.read_bytes() for file in newest_of(tmp_path / name / "run").glob("*.safetensors")}
    assert files["whole"] == files["killed"]


def test_begun_and_ended_in_the_middle(tmp_path, corpus):
    """Turned on, the average begins there; turned off, a line says so; turned on again, it starts over."""
    def go_on(steps, **more):
        return trireme("train", write_run(tmp_path, corpus, dict(steps=steps), precision="fp64", checkpoint=dict(every=1, keep=0), allow_change="average.every,average.decay", **more)).stderr

    def weights_after(step):
        return tensors_of((tmp_path / f"run/checkpoints/step-{step:08d}").glob("model*.safetensors"))

    mean = dict(average=dict(every=1, decay=0))
    go_on(3)
    assert "has no average of the weights, so the average begins here (`average.every`)" in go_on(6, **mean)
    check_weights(averages_of(tmp_path / "run"), theirs([weights_after(step) for step in (4, 5, 6)], 1, 0, 0), 1e-12)
    assert "has an average of the weights, which ends here: the run has average.every 0" in go_on(8)
    assert not averages_of(tmp_path / "run")
    assert "the average begins here" in go_on(10, **mean)
    check_weights(averages_of(tmp_path / "run"), theirs([weights_after(step) for step in (9, 10)], 1, 0, 0), 1e-12)


# ---- used ------------------------------------------------------------------------------------------------------------

def evaluated(folder, corpus, *options):
    return json.loads(trireme("eval", folder, corpus / "validation", "--sequence", 20, *IN_DOUBLE, "--json", *options).stdout)["loss"]


HEADS = dict(hidden_size=24, num_heads=4, ffn_size=38)
FAMILIES = {
    **MODELS, "phi3": dict(family="phi3", **SMALL, **HEADS, num_kv_heads=2), "gpt_neox": dict(family="gpt_neox", **SMALL, **HEADS, rotary_fraction=0.34),
    "falcon": dict(family="falcon", **SMALL, **HEADS, num_kv_heads=2), "gemma2": dict(family="gemma2", **SMALL, **HEADS, num_kv_heads=2, tied=True),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_exported_and_evaluated(tmp_path, corpus, family):
    """The exported average equals the one in the checkpoint and the evaluated one, also for families whose tensors contain several parameters."""
    run = write_run(tmp_path, corpus, dict(steps=6), model=FAMILIES[family], precision="fp64", average=dict(every=1, decay=0))
    trireme("train", run)
    trireme("export", tmp_path / "run", tmp_path / "out", "--average")
    exported, averages, weights = tensors_of((tmp_path / "out").glob("*.safetensors")), averages_of(tmp_path / "run"), weights_of(tmp_path / "run")
    assert set(exported) == set(averages) == set(weights)
    for name, values in averages.items():
        assert values.shape == weights[name].shape and exported[name].tobytes() == values.astype(numpy.float32).tobytes()
    # Every part of the tensors has moved, and is not the weights.
    assert all(numpy.abs(averages[name] - weights[name]).max() > 0 for name in averages)
    mine, last = evaluated(tmp_path / "run", corpus, "--average"), evaluated(tmp_path / "run", corpus)
    assert abs(mine - evaluated(tmp_path / "out", corpus)) < 1e-6 < abs(mine - last)
    text = [trireme("generate", folder, "--prompt", "The 7 oars", "--tokens", 8, "--temperature", 0, "--device", "reference", *more, errors="replace").stdout
            for folder, more in ((tmp_path / "run", ["--average"]), (tmp_path / "out", []))]
    assert text[0] == text[1]


def test_frozen_and_adapters(tmp_path, corpus):
    """Frozen weights have no average and are exported as they are; the averages of factors are exported for PEFT, or merged."""
    start, _ = start_from(tmp_path, LLAMA)
    mean = dict(average=dict(every=1, decay=0), precision="fp64", init=str(start))
    trireme("train", write_run(tmp_path / "frozen", corpus, dict(steps=4), freeze=["*.mlp.*"], **mean))
    assert all(".mlp." not in name for name in averages_of(tmp_path / "frozen/run"))
    trireme("export", tmp_path / "frozen/run", tmp_path / "frozen/out", "--average")
    exported, first = tensors_of((tmp_path / "frozen/out").glob("*.safetensors")), tensors_of(start.glob("*.safetensors"))
    assert {name for name in first if numpy.array_equal(exported[name], first[name].astype(exported[name].dtype))} == {name for name in first if ".mlp." in name}

    trireme("train", write_run(tmp_path / "lora", corpus, dict(steps=4), adapter=dict(rank=3, alpha=6), **mean))
    averages = averages_of(tmp_path / "lora/run")
    assert averages and all("lora_" in name for name in averages)
    trireme("export", tmp_path / "lora/run", tmp_path / "lora/out", "--average")
    factors = tensors_of((tmp_path / "lora/out").glob("adapter_model.safetensors"))
    assert {name.removeprefix("base_model.model."): values.tobytes() for name, values in factors.items()} == {
        name: values.astype(numpy.float32).tobytes() for name, values in averages.items()}
    trireme("export", tmp_path / "lora/run", tmp_path / "lora/merged", "--merge", "--average")
    assert abs(evaluated(tmp_path / "lora/run", corpus, "--average") - evaluated(tmp_path / "lora/merged", corpus)) < 1e-6


# ---- mistakes --------------------------------------------------------------------------------------------------------

def test_refused(tmp_path, corpus):
    def said(keys, **more):
        return fails("train", write_run(tmp_path, corpus, keys, **more), "--dry-run")

    assert "`average.every` 1: schedule_free averages its points by itself; leave `average` out" in said(dict(name="schedule_free"), average=dict(every=1))
    assert "`decay` under `average:`" in said({}, average=dict(every=1, decay=1)) and "`every` under `average:`" in said({}, average=dict(every=-1))
    trireme("train", write_run(tmp_path, corpus, dict(steps=2)))
    for words in (["export", tmp_path / "run", tmp_path / "out"], ["eval", tmp_path / "run", corpus / "validation"], ["generate", tmp_path / "run", "--prompt", "a"]):
        answer = fails(*words, "--average")
        assert "has no average of the weights; set average.every in the run (for example 1) to keep one, or leave out --average to use the weights themselves" in answer
    assert not (tmp_path / "out").exists()
    assert "import: --merge, --base, --average and --quantised are options of export" in fails("import", tmp_path / "run", tmp_path / "in", "--average")


def test_damaged(tmp_path, corpus):
    """A bit of an average that is not as it was written is found by who reads it, and not by who reads the weights alone."""
    trireme("train", write_run(tmp_path, corpus, dict(steps=2), average=dict(every=1)))
    path = newest_of(tmp_path / "run") / "optimizer.safetensors"
    raw = bytearray(path.read_bytes())
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    name = next(name for name in header if name.endswith(SUFFIX))
    raw[8 + length + header[name]["data_offsets"][0] + 2] ^= 1
    path.write_bytes(raw)
    checkpoint = newest_of(tmp_path / "run")
    assert name in fails("export", checkpoint, tmp_path / "out", "--average")
    trireme("export", checkpoint, tmp_path / "weights")
    assert "not compared" in trireme("export", checkpoint, tmp_path / "taken", "--average", "--no-verify").stderr

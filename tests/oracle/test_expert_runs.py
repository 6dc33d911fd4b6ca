"""Runs of models with experts, as a user sees them: metrics of the routers, memory if the experts are not balanced, resuming after a kill
under another layout, error messages."""
import json
import math
import os
import re
import shutil
import signal
import subprocess

import expert_cases
import expert_models
import models
import numpy
import pytest
import safetensors.numpy
import torch
from parity import TRIREME, Weights, tool, trireme, yaml_of
from test_documents import write_corpus
from test_ranks import pid_of_ranks, wait_for_step, wait_until_gone

pytestmark = pytest.mark.skipif(shutil.which("mpiexec") is None, reason="SKIPPED: there is no mpiexec")
COMMON = dict(num_layers=3, hidden_size=32, num_heads=4, num_kv_heads=2, vocab_size=257, max_sequence=32)
MIXTRAL = dict(family="mixtral", **COMMON, num_experts=5, experts_per_token=2, expert_ffn_size=24, balance="sequence", balance_rate=0.01, z_loss=0.001)
DOTS1 = dict(family="dots1", **COMMON, num_experts=7, experts_per_token=2, expert_ffn_size=12, shared_experts=1, ffn_size=40, dense_layers=1,
             balance="bias", balance_rate=0.01)
SPARSE = dict(family="olmoe", **COMMON, num_experts=8, experts_per_token=1, expert_ffn_size=16)
BATCH, SEQUENCE = 8, 16


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return make_corpus(tmp_path_factory.mktemp("corpus"), "".join(f"Line {i}: the rowers pull {i * 7919 % 1000} times.\n" for i in range(2000)))


def make_corpus(folder, text):
    (folder / "text.txt").write_text(text)
    trireme("prepare", "--tokenizer", "bytes", "--out", folder / "data", folder / "text.txt")
    return folder / "data"


def write_run(folder, corpus, model=MIXTRAL, steps=12, precision="fp32", **layout):
    folder.mkdir(exist_ok=True)
    run = dict(model=model, data=dict(train=str(corpus / "train"), validation=str(corpus / "validation"), sequence=SEQUENCE),
               layout=dict(micro_batch=1, **layout), optimizer=dict(global_batch=BATCH, steps=steps, lr=1e-3, decay="constant"), threads=1,
               device="reference" if precision == "fp64" else "cpu", precision=precision, evaluation=dict(every=6, batches=2),
               checkpoint=dict(every=2, keep=0), seed=5, output=str(folder / "run"))
    (folder / "run.yaml").write_text(yaml_of(run))
    return folder / "run.yaml"


def lines_of(folder):
    return [json.loads(line) for line in open(folder / "run/metrics.jsonl")]


def course(folder):
    return [(line["step"], line["loss"], line["router_loss"], line["grad_norm"]) for line in lines_of(folder)]


def weights_at(folder, step):
    newest = folder / f"run/checkpoints/step-{step:08d}"
    return [(newest / name).read_bytes() for name in ("model.safetensors", "optimizer.safetensors")]


def start_from(folder, model, change):
    """A folder as of transformers, of drawn weights that `change` ({name: array}) changes."""
    weights = Weights(folder, model)
    given = {p["name"]: weights.get(weights.flat, p).copy() for p in weights.table["parameters"]}
    weights.replace(change(given) or given)
    weights.save_hugging_face(folder / "start", expert_cases.hugging_face_config(model))
    return folder / "start", weights


# ---- metrics ---------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("model", [MIXTRAL, DOTS1], ids=["mixtral", "dots1"])
@pytest.mark.parametrize("ranks, layout", [(1, {}), (4, dict(tensor=2, expert=4)), (4, dict(pipeline=2, expert=2)), (2, dict(context=2, expert=2))],
                         ids=["one", "tensor 2, expert 4", "pipeline 2", "context 2"])
def test_metrics(tmp_path, corpus, model, ranks, layout):
    """Loads, their maximum relative to the mean, and entropies equal those of a plain PyTorch model on the same samples."""
    start, weights = start_from(tmp_path, model, lambda w: None)
    path = write_run(tmp_path, corpus, model, steps=1, **layout)
    trireme("train", path, "--resume", start, *(["-n", ranks] if ranks > 1 else []))
    told = lines_of(tmp_path)[0]
    tool("samples", corpus / "train", SEQUENCE, model["vocab_size"], 5, BATCH, tmp_path / "samples.bin", "joined", "windows", -1)
    ids, labels, _ = torch.tensor(numpy.fromfile(tmp_path / "samples.bin", numpy.int32).reshape(BATCH, 3, SEQUENCE).astype(numpy.int64)).unbind(1)
    seen = []
    loss, added = models.losses(model, weights.tensors(), ids, labels, watch=seen)
    assert abs(told["loss"] / loss.item() - 1) < 1e-5 and abs(told["router_loss"] - float(added)) <= 1e-5 * abs(float(added))
    m = expert_models.complete(model)
    layers = [layer for layer in range(m["num_layers"]) if expert_models.has_experts(m, layer)]
    assert [at["layer"] for at in told["experts"]] == layers
    for at, one in zip(told["experts"], seen):
        load = expert_models.counts_of(m, one["experts"]).double()
        share = load[load > 0] / load.sum()
        entropy = float(-(share * share.log()).sum() / math.log(m["num_experts"]))
        assert at["load"] == load.tolist()
        assert abs(at["max_over_mean"] / float(load.max() / load.mean()) - 1) < 1e-5
        assert abs(at["entropy"] - entropy) < 1e-5


PACKED = [(1, {}), (2, dict(expert=2, expert_capacity=0.25)), (4, dict(tensor=2, expert=4)), (2, dict(context=2, expert=2))]


@pytest.mark.parametrize("documents", ["masked", "joined"])
@pytest.mark.parametrize("model", [{**MIXTRAL, "balance_rate": 0.5, "z_loss": 0.1}, {**DOTS1, "z_loss": 0.1}], ids=["mixtral", "dots1"])
def test_metrics_of_packed_documents(tmp_path, model, documents):
    """Loads are the tokens of documents times the experts that each goes to, and no more: what sequences are filled up with is not a token. Biases follow what such a PyTorch model counts; bytes are as predicted, whatever the layout."""
    chance = numpy.random.default_rng(4)
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for part in ("train", "validation"):
        write_corpus(corpus / part, [chance.integers(0, 257, length) for length in chance.choice([3, 9, 11, 12, 13, 16], 200)])
    start, weights = start_from(tmp_path, model, lambda w: None)
    tool("samples", corpus / "train", SEQUENCE, model["vocab_size"], 5, BATCH, tmp_path / "samples.bin", documents, "documents", -1)
    samples = numpy.fromfile(tmp_path / "samples.bin", numpy.int32).reshape(BATCH, 3, SEQUENCE).astype(numpy.int64)
    lengths = (samples[:, 1] != -2).sum(1)
    assert BATCH * SEQUENCE / 2 < sum(lengths) < 0.95 * BATCH * SEQUENCE and (samples[:, 1] == -1).any()
    seen = []
    for (ids, _, positions), length in zip(samples, lengths):
        models.whole(model, weights.tensors(), torch.tensor(ids[None, :length]), torch.tensor(positions[None, :length]), watch=seen)
    m, loads, courses = expert_models.complete(model), {}, []
    for one in seen:
        loads[one["prefix"]] = loads.get(one["prefix"], 0) + expert_models.counts_of(m, one["experts"]).double()
    for number, (ranks, layout) in enumerate(PACKED):
        folder = tmp_path / str(number)
        path = write_run(folder, corpus, model, steps=1, **layout)
        trireme("train", path, "--resume", start, *(["-n", ranks] if ranks > 1 else []),
                "--set", f"data.documents={documents}", "--set", "data.packing=documents")
        told, summary = lines_of(folder), json.load(open(folder / "run/summary.json"))
        assert summary["peak_bytes_predicted"] == summary["peak_bytes_measured"]
        assert [at["load"] for at in told[0]["experts"]] == [load.tolist() for load in loads.values()]
        assert all(sum(at["load"]) == sum(lengths) * model["experts_per_token"] for at in told[0]["experts"])
        assert all(at["rounds"] > 1 or "expert_capacity" not in layout for at in told[0]["experts"]), told[0]["experts"]
        courses.append([(line["loss"], line["router_loss"], line["grad_norm"]) for line in told])
        if model["balance"] == "bias":
            after = safetensors.numpy.load_file(folder / "run/checkpoints/step-00000001/model.safetensors")
            for prefix, load in loads.items():
                name = prefix + "gate.e_score_correction_bias"
                step = after[name] - weights.tensors()[name].detach().numpy()
                assert numpy.abs(step - model["balance_rate"] * torch.sign(load.mean() - load).numpy()).max() < 1e-6, name
    assert numpy.abs(numpy.array(courses[1:]) - numpy.array(courses[0])).max() <= 2e-5 * numpy.abs(courses[0]).max()


# ---- memory ----------------------------------------------------------------------------------------------------------

# Bytes whose numbers modulo 8 are all, every second, one.
TEXTS = {1: "abcdefgh", 2: "bdfh", 8: "h"}
LAYOUTS = {"one": (1, {}), "expert2": (2, dict(expert=2)), "expert4": (4, dict(expert=4, zero=1)),
           "tensor2-expert2": (2, dict(tensor=2, expert=2, sequence_parallel=True)), "context2": (4, dict(context=2, expert=4, recompute="full"))}


@pytest.fixture(scope="module")
def leaning(tmp_path_factory):
    """Makes corpora for which a router with steered weights has maximum loads of 1, 2 and 8 times the mean."""
    return {times: make_corpus(tmp_path_factory.mktemp(f"corpus-{times}"), letters * (40000 // len(letters))) for times, letters in TEXTS.items()}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_memory_and_losses_whatever_the_router_does(tmp_path, leaning, layout):
    """Memory is as predicted, with maximum loads of 1, 2 and 8 times the mean and capacities of 1.0, 1.5 and 8.0; the losses are the same."""
    def steer(weights):
        return expert_cases.steered(table["parameters"], SPARSE)
    table = Weights(tmp_path, SPARSE).table
    start, _ = start_from(tmp_path, SPARSE, steer)
    ranks, keys = LAYOUTS[layout]
    for times, corpus in leaning.items():
        told = {}
        for capacity in (1.0, 1.5, 8.0):
            folder = tmp_path / f"{times}-{capacity}"
            path = write_run(folder, corpus, SPARSE, steps=3, precision="fp64", expert_capacity=capacity, **keys)
            trireme("train", path, "--resume", start, *(["-n", ranks] if ranks > 1 else []), "--set", "evaluation.every=0", "--set", "checkpoint.every=0")
            summary = json.load(open(folder / "run/summary.json"))
            predicted, measured = summary["peak_bytes_predicted"], summary["peak_bytes_measured"]
            assert predicted == measured, (times, capacity, predicted, measured)
            lines = lines_of(folder)
            told[capacity] = [(line["loss"], line["grad_norm"]) for line in lines], predicted
            for at in lines[0]["experts"]:
                assert abs(at["max_over_mean"] - times) < 0.05 * times + 0.3, (times, at)
                rounds = at["rounds"]
                assert rounds >= 1 and (capacity < 8 or rounds == 1) and (layout != "one" or rounds == 1), (times, capacity, at)
                if times == 8 and capacity == 1.0 and layout != "one":
                    assert rounds > 1, at
        for capacity in (1.5, 8.0):
            assert numpy.abs(numpy.array(told[capacity][0]) / numpy.array(told[1.0][0]) - 1).max() <= 1e-10
        assert told[1.0][1] < told[8.0][1] or layout == "one"


def test_a_first_round_without_other_ranks(tmp_path):
    """Two experts of the first rank get all tokens, and in some micro-batches its own rows fill their room: it waits for no other in that
    round, and begins the next one, of other rows, while its device may still read what was noted for the first."""
    start, _ = start_from(tmp_path, SPARSE, lambda w: expert_cases.steered(Weights(tmp_path, SPARSE).table["parameters"], SPARSE))
    (tmp_path / "corpus").mkdir()
    corpus, courses = make_corpus(tmp_path / "corpus", "hbbbb" * 8000), {}
    for device in ("reference", "guarded"):
        path = write_run(tmp_path / device, corpus, SPARSE, steps=6, expert=2, expert_capacity=0.25)
        trireme("train", path, "--resume", start, "-n", 2, "--set", f"device={device}", "--set", "evaluation.every=0")
        assert lines_of(tmp_path / device)[0]["experts"][0]["rounds"] == 8
        courses[device] = numpy.array(course(tmp_path / device))
    assert numpy.abs(courses["guarded"] - courses["reference"]).max() <= 1e-5 * numpy.abs(courses["reference"]).max()


# ---- going on --------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("model", [MIXTRAL, DOTS1], ids=["mixtral", "dots1"])
def test_kill_and_go_on(tmp_path, corpus, model):
    """A rank is killed while tokens are on their way to experts: the next start goes on to the bit, the routers' biases among what
    was saved."""
    ends = []
    for name, kills in (("alone", False), ("killed", True)):
        folder = tmp_path / name
        path = write_run(folder, corpus, model, steps=40, expert=2, zero=2)
        process = subprocess.Popen([TRIREME, "train", path, "-n", "2"], stderr=subprocess.PIPE, text=True)
        if kills:
            wait_for_step(folder, process, 9)
            os.kill(pid_of_ranks(folder)[1], signal.SIGKILL)
        _, errors = process.communicate(timeout=120)
        assert process.returncode == (9 if kills else 0), errors
        if kills:
            assert re.search(r"rank 1 \(.*\) on \S+ was killed by signal 9 \(Killed\).* at step \d+", errors), errors
            wait_until_gone(folder)
            trireme("train", path, "-n", 2)
        ends.append((course(folder), weights_at(folder, 40)))
    assert ends[0] == ends[1]


def test_another_layout_goes_on(tmp_path, corpus):
    """A run with experts that no number of ranks divides resumes under layouts that split them differently."""
    layouts = [(1, {}), (2, dict(expert=2)), (3, dict(context=3, expert=3)), (4, dict(expert=4, zero=3)), (4, dict(tensor=2, expert_tensor=2, expert=2)),
               (4, dict(pipeline=2, expert_tensor=2, schedule="zero-bubble"))]
    for model in (MIXTRAL, DOTS1):
        one = tmp_path / model["family"]
        trireme("train", write_run(one, corpus, model, precision="fp64"))
        expected = numpy.array(course(one))
        folder = tmp_path / f"{model['family']}-changing"
        for i, (ranks, layout) in enumerate(layouts):
            path = write_run(folder, corpus, model, precision="fp64", steps=2 * (i + 1), **layout)
            trireme("train", path, *(["-n", ranks] if ranks > 1 else []))
        assert numpy.abs(numpy.array(course(folder)) - expected).max() <= 1e-9 * numpy.abs(expected[:, 1:]).max()


# ---- mistakes --------------------------------------------------------------------------------------------------------

def check(done, *texts):
    lines = [line for line in done.stderr.splitlines() if line.startswith("trireme: ")]
    assert len(lines) == 1, done.stderr
    for text in texts:
        assert re.search(text, lines[0]), (text, lines[0])


@pytest.mark.parametrize("model, ranks, changes, said", [
    (MIXTRAL, 1, "model.experts_per_token=6", ["experts_per_token", "6", "5"]),
    (MIXTRAL, 1, "model.experts_per_token=0", ["`experts_per_token` is missing; mixtral needs it"]),
    (MIXTRAL, 1, "model.num_experts=0", ["`num_experts` is missing; mixtral needs it"]),
    (SPARSE, 1, "model.expert_ffn_size=0", ["`expert_ffn_size` is missing; olmoe needs it"]),
    (MIXTRAL, 1, "model.num_experts=-1", ["num_experts"]),
    (MIXTRAL, 1, "model.num_experts=100000", ["num_experts", "1024"]),
    (DOTS1, 1, "model.num_experts=7 model.router_groups=2", ["router_groups", "2", "7"]),
    (DOTS1, 1, "model.num_experts=8 model.router_groups=4 model.router_kept_groups=5", ["router_kept_groups", "5", "4"]),
    (DOTS1, 1, "model.num_experts=8 model.router_groups=4 model.router_kept_groups=2 model.experts_per_token=5", ["experts_per_token", "5", "4"]),
    (DOTS1, 1, "model.dense_layers=4", ["dense_layers", "4", "3"]),
    (SPARSE, 1, "model.router_quota=true model.router_groups=4 model.experts_per_token=6", ["router_quota|experts_per_token", "6", "4"]),
    (SPARSE, 1, "model.router_quota=true model.router_groups=4 model.experts_per_token=12", ["experts_per_token", "12", "8"]),
    (MIXTRAL, 6, "layout.expert=6 optimizer.global_batch=6", ["layout.expert 6", "5"]),
    (MIXTRAL, 4, "layout.expert=3", ["layout.expert", "3", "4"]),
    (MIXTRAL, 4, "layout.expert=2 layout.expert_tensor=4", ["expert_tensor 4 x expert 2 = 8 does not divide the 4 ranks of a stage"]),
    (DOTS1, 5, "layout.expert_tensor=5 optimizer.global_batch=5", ["layout.expert_tensor 5", "12"]),
    (MIXTRAL, 2, "layout.expert=2 layout.expert_capacity=0", ["expert_capacity"]),
    (MIXTRAL, 2, "layout.expert=2 layout.expert_capacity=-1", ["expert_capacity"]),
    (DOTS1, 4, "layout.tensor=4 model.expert_ffn_size=3", ["layout.tensor 4 leaves ranks without a row", r"the MLP \(3\)"]),
    (MIXTRAL, 2, "layout.expert=0", ["expert", "1"]),
    (MIXTRAL, 1, "model.balance=batch", ["balance", "none, sequence, bias"]),
    (MIXTRAL, 1, "model.z_loss=-1", ["z_loss"]),
])
def test_wrong_numbers(tmp_path, corpus, model, ranks, changes, said):
    """The error message names the key, the requested value and the possible ones."""
    sets = [word for change in changes.split() for word in ("--set", change)]
    check(trireme("train", write_run(tmp_path, corpus, model), "--dry-run", "-n", ranks, *sets, status=3), *said)
    assert not (tmp_path / "run").exists()


def test_ranks_of_a_dry_run_with_experts(tmp_path, corpus):
    """Without -n, a dry run has the fewest replicas that allow the split of the experts."""
    for tensor, expert, ranks in ((1, 4, 4), (2, 4, 4), (2, 2, 2)):
        sets = ["--set", f"layout.tensor={tensor}", "--set", f"layout.expert={expert}"]
        assert trireme("train", write_run(tmp_path, corpus), "--dry-run", "--verbose", *sets).stdout.split("\n\n")[1].startswith(f"rank 0 of {ranks}: ")


def test_dry_run_of_dense_and_expert_layers(tmp_path, corpus):
    """The operations of a layer are printed if they are not those of the layer before it: here of layer 0, which is dense, and of layer 1."""
    model = {**DOTS1, "num_layers": 4}
    printed = trireme("train", write_run(tmp_path, corpus, model), "--dry-run", "--verbose").stdout.split("\n")
    same = printed.index("  ... and the same for layers 2 to 3")
    assert sum("route" in line for line in printed[:same]) == 1 and not any("route(" in line for line in printed[same + 1 : same + 5])


def test_experts_for_a_dense_model(tmp_path, corpus):
    dense = dict(family="llama", **COMMON, ffn_size=40)
    for ranks, key, value, said in ((2, "expert", 2, "layout.expert is 2, and the model has no experts; set layout.expert to 1"),
                                    (1, "expert_capacity", 2, "layout.expert_capacity is 2, and the model has no experts; leave it out"),
                                    (1, "capacity_drop", "true", "layout.capacity_drop is true, and the model has no experts; leave it out"),
                                    (1, "recompute", "experts", "layout.recompute is experts, and the model has none")):
        check(trireme("train", write_run(tmp_path, corpus, dense), "--dry-run", "-n", ranks, "--set", f"layout.{key}={value}", status=3), said)
    trireme("train", write_run(tmp_path, corpus, dense), "--dry-run", "--set", "layout.expert_capacity=1.5")


@pytest.mark.parametrize("layers", [3, 2], ids=["two biases", "one"])
def test_what_is_left_out_is_said(tmp_path, corpus, layers):
    """A run resumes without its routers' biases if `allow_change` permits it. The log names the tensors that are left out, if there are any."""
    model = {**DOTS1, "num_layers": layers}
    trireme("train", write_run(tmp_path, corpus, model, steps=2))
    without = write_run(tmp_path, corpus, {**model, "router_bias": False, "balance": "none", "balance_rate": 0.0}, steps=4, expert=2)
    check(trireme("train", without, "-n", 2, status=3), "model.router_bias is true there and false in this run", "its weights do not fit such a model")
    done = trireme("train", without, "-n", 2, "--set", "allow_change=model.router_bias")
    assert "model.router_bias changes from true to false, as `allow_change` allows" in done.stderr
    first = "model.layers.1.mlp.gate.e_score_correction_bias"
    many = f"2 of its tensors are left out, which this run's model does not have: {first} and others"
    one = f"1 of its tensors is left out, which this run's model does not have: {first}"
    said = [line for line in done.stderr.splitlines() if "left out" in line]
    assert len(said) == 1 and said[0].endswith(f"step-00000002: {many if layers == 3 else one}"), said
    assert lines_of(tmp_path)[-1]["step"] == 4
    again = trireme("train", without, "-n", 2, "--set", "optimizer.steps=6")
    assert "left out" not in again.stderr and "resuming from" in again.stderr


def test_a_checkpoint_with_other_experts_than_its_config_says(tmp_path, corpus):
    start, _ = start_from(tmp_path, MIXTRAL, lambda w: None)
    path = write_run(tmp_path / "r", corpus, MIXTRAL)
    config = json.loads((start / "config.json").read_text())
    for experts in (4, 6):
        (start / "config.json").write_text(json.dumps({**config, "num_local_experts": experts}))
        done = trireme("train", path, "--resume", start, "--set", f"model.num_experts={experts}", status=4)
        wanted = {4: r"no place for the tensor `model.layers.0.block_sparse_moe.experts.4.w1", 6: r"shape \[5, 32\], but the model\'s has \[6, 32\] \(num_local_experts 6\); config.json and"}
        check(done, wanted[experts])
        check(trireme("import", start, tmp_path / f"imported-{experts}", status=4), wanted[experts])
        assert not (tmp_path / f"imported-{experts}").exists()
    (start / "config.json").write_text(json.dumps(config))
    check(trireme("train", path, "--resume", start, "--set", "model.num_experts=4", status=3), "model.num_experts is 5 there and 4 in this run")


@pytest.mark.parametrize("ranks, layout", [(1, {}), (2, dict(expert=2)), (2, dict(pipeline=2)), (2, dict(tensor=2, expert_tensor=2, zero=1))],
                         ids=["one", "expert 2", "pipeline 2", "tensor 2"])
def test_nan_in_a_router(tmp_path, corpus, ranks, layout):
    """Logits that are not numbers: every token still goes somewhere, no rank waits for another, the step is skipped, and the layer
    named; the weights stay as they were."""
    def spoil(weights):
        weights["model.layers.1.block_sparse_moe.gate.weight"][:] = 3e38
    start, _ = start_from(tmp_path, MIXTRAL, spoil)
    path = write_run(tmp_path, corpus, MIXTRAL, **layout)
    done = trireme("train", path, "--resume", start, *(["-n", ranks] if ranks > 1 else []), "--set", "optimizer.max_bad_steps=3", status=8, timeout=120)
    assert "step 1 is skipped" in done.stderr
    assert re.search(r"router of layer 1\b", done.stderr), done.stderr
    assert not re.search(r"router of layer [02]\b", done.stderr), done.stderr
    assert lines_of(tmp_path)[-1]["bad_steps"] == 3 and lines_of(tmp_path)[-1]["loss"] is None


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, *os.sys.argv[1:]]))

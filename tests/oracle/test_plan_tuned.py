"""`simulate`, `plan` and `tune` of runs that train a part of a model, or by other optimizers than AdamW: a run's own memory, closed
forms of time and of what is reduced, and what is wrong."""
import json
import re
import shutil
import subprocess

import pytest
from optimizer_runs import LLAMA, corpus_of, ranks_words, start_from, write_run
from parity import trireme
from test_plan import IDEAL, MODEL, TRIREME, run, simulate, write

needs_ranks = pytest.mark.skipif(shutil.which("mpiexec") is None, reason="SKIPPED: there is no mpiexec")
ADAPTER = dict(rank=4, alpha=8, targets="all-linear")
CPU = dict(IDEAL, device="cpu", peak_fp32=1e11)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return corpus_of(tmp_path_factory.mktemp("corpus"))


# ---- memory ----------------------------------------------------------------------------------------------------------

RUNS = [
    (1, dict(), dict(adapter=ADAPTER), dict()),
    (2, dict(tensor=2), dict(adapter=dict(ADAPTER, dropout=0.1)), dict(name="muon")),
    (2, dict(pipeline=2), dict(adapter=dict(ADAPTER, targets=["q_proj", "down_proj"])), dict(state="int8")),
    (2, dict(zero=1), dict(adapter=dict(ADAPTER, train=["*norm.weight"])), dict(name="lion")),
    (2, dict(tensor=2), dict(adapter=dict(ADAPTER, init="pissa", dropout=0.1)), dict()),
    (2, dict(pipeline=2, recompute="full"), dict(adapter=dict(ADAPTER, init="pissa", targets=["q_proj", "down_proj"])), dict()),
    (4, dict(tensor=2, zero=3), dict(adapter=ADAPTER), dict()),
    (2, dict(zero=3, bucket_bytes=2000), dict(adapter=dict(ADAPTER, quantise="nf4")), dict()),
    (4, dict(tensor=2, zero=3, bucket_bytes=2000, recompute="full"), dict(adapter=dict(ADAPTER, quantise="nf4")), dict()),
    (2, dict(zero=3, bucket_bytes=1), dict(freeze=["model.embed_tokens.*", "model.layers.0.*"]), dict(name="muon")),
    (4, dict(pipeline=2, virtual_stages=1, schedule="zero-bubble", zero=2), dict(adapter=ADAPTER), dict(name="adafactor")),
    (2, dict(pipeline=2), dict(freeze=["model.embed_tokens.*", "model.layers.0.*"]), dict()),
    (2, dict(zero=1, recompute="full"), dict(freeze=["*mlp*"]), dict(name="muon")),
]


@needs_ranks
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("ranks, layout, tuned, optimizer", RUNS, ids=str)
def test_memory_of_a_run(tmp_path, corpus, ranks, layout, tuned, optimizer, precision):
    """The bytes that the simulator says of the first rank are those that the run has held."""
    start, _ = start_from(tmp_path, LLAMA)
    keys = dict(optimizer, steps=2, global_batch=8)
    trireme("train", write_run(tmp_path, corpus, keys, model=LLAMA, precision=precision, layout=dict(dict(micro_batch=1), **layout), init=str(start), **tuned),
            *ranks_words(ranks))
    cluster = write(tmp_path / "cluster.yaml", dict(CPU, node_devices=ranks))
    found = json.loads(run("simulate", "--against", tmp_path / "run", "--cluster", cluster, "--json"))
    assert found["peak_bytes"]["predicted"] == found["peak_bytes"]["measured"]


def sizes_of(model):
    """Elements of each layer's matrices, [out, in] of each, and those of all that is not a matrix of a layer."""
    h, ffn, layers = model["hidden_size"], 4 * model["hidden_size"], model["num_layers"]
    matrices = [(3 * h, h), (h, h), (ffn, h), (h, ffn)]
    vectors = layers * (4 * h + 3 * h + h + ffn + h) + 2 * h
    return matrices, (model["vocab_size"] + model["max_sequence"]) * h, vectors


def test_memory_in_parts(tmp_path):
    """In fp32, of four bytes each: all values; gradients and two moments of the factors alone."""
    found = simulate(tmp_path, MODEL, CPU, 1, 4, "--precision", "fp32", "--set", "adapter.rank=8", tensor=1)["memory"]
    matrices, embedded, vectors = sizes_of(MODEL)
    factors = MODEL["num_layers"] * sum(8 * (out + inside) for out, inside in matrices)
    weights = MODEL["num_layers"] * sum(out * inside for out, inside in matrices) + embedded + vectors
    assert found["gradients"] == pytest.approx(4 * factors, rel=0.01) and found["optimizer"] == pytest.approx(8 * factors, rel=0.01)
    buffers = found["parameters"] - 4 * (weights + factors)  # copies of factors that products read packed
    assert 0 <= buffers <= 4 * 4 * factors
    half = simulate(tmp_path, MODEL, CPU, 1, 4, "--set", "adapter.rank=8", tensor=1)["memory"]
    assert half["parameters"] < 0.6 * found["parameters"]


# ---- time ------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("kind, element", [("none", 2), ("nf4", 0.5 + 1 / 64 + 4 / 64 / 256)])
def test_gathers_of_frozen_weights(tmp_path, kind, element):
    """Under ZeRO 3 of four replicas, with links so slow that nothing else counts: forward and backward gather three quarters of all frozen weights in the type in which
    they are stored, vectors and positions in four bytes; factors, too, whose gradients are reduced. Below ZeRO 3 what is frozen does not pass."""
    slow = dict(IDEAL, links=[dict(name="all", bandwidth=1e6, latency=0)])
    words = ["--set", "adapter.rank=1", "--set", f"adapter.quantise={kind}"]
    h, layers = MODEL["hidden_size"], MODEL["num_layers"]
    found = {zero: simulate(tmp_path, MODEL, slow, 4, 4, *words, tensor=1, data=4, zero=zero, micro_batch=1)["time"]["data"] for zero in (2, 3)}
    factors, vectors = 4 * layers * 16 * h, 4 * (layers * 13 * h + MODEL["max_sequence"] * h + 2 * h)
    assert found[2] == pytest.approx(0.75 / 1e6 * 2 * factors, rel=0.01)
    assert found[3] == pytest.approx(0.75 / 1e6 * (2 * (layers * 12 * h * h * element + vectors) + 3 * factors), rel=0.01)


@pytest.mark.parametrize("rank", [1, 8, 64])
def test_gemm_choices(tmp_path, rank):
    """A frozen matrix has two of three products. The products of factors are small, and that with A is recomputed for the gradients. The first matrix, that
    of q, k and v, computes no gradient of its input, because nothing before it is trained."""
    found = simulate(tmp_path, MODEL, IDEAL, 1, 1, "--set", f"adapter.rank={rank}", tensor=1)["time"]["compute"]
    h, s, layers, vocabulary = MODEL["hidden_size"], MODEL["max_sequence"], MODEL["num_layers"], MODEL["vocab_size"]
    factors = sum(2 * s * rank * (3 * inside + 4 * out) for out, inside in sizes_of(MODEL)[0])
    layer = 2 * s * 24 * h * h + 7 * s * (s + 1) * h + factors
    first = 2 * s * (3 * h * h + rank * (h + 3 * h))
    assert found == pytest.approx((layers * layer - first + 2 * 2 * s * h * vocabulary) / 1e14, rel=1e-3)


@pytest.mark.parametrize("words", ["adapter.rank=8", "adapter.magnitude=true", "freeze=[transformer.h.0.*, transformer.w?e.*]"])
def test_a_search_simulates_few_layouts(tmp_path, words):
    """Lower bounds count the gradients that pass through what is frozen, so that they rule out most layouts here, too."""
    more = ["--set", "adapter.rank=8"] if words.startswith("adapter.m") else []
    said = run("plan", "--model", write(tmp_path / "model.yaml", MODEL), "--cluster", write(tmp_path / "cluster.yaml", dict(IDEAL, peak_bf16=1e13, memory_bandwidth=1e12)),
               "--devices", 64, "--global-batch", 64, *more, "--set", words)
    valid, simulated = map(int, re.search(r"(\d+) valid layouts; (\d+) simulated", said.replace(",", "")).groups())
    assert simulated < 0.1 * valid, (valid, simulated)


def test_norms_of_magnitudes(tmp_path):
    """On a device whose memory alone takes time, they are made once a step: each matrix is read, widened, gets its product and is squared. Under ZeRO 3, where weights
    are gathered for each use, with each micro-batch."""
    memory = dict(IDEAL, peak_bf16=1e30, memory_bandwidth=1e12, links=[dict(name="all", bandwidth=1e30, latency=0)])
    norms = sum((2 + 4 * 4) * out * inside for out, inside in sizes_of(MODEL)[0]) * MODEL["num_layers"] / 1e12

    def found(magnitude, micro_batches, **layout):
        words = ["--set", "adapter.rank=8", "--set", f"adapter.magnitude={magnitude}"]
        return simulate(tmp_path, MODEL, memory, layout.get("data", 1), micro_batches, *words, micro_batch=1, **layout)["step_s"]

    def more(micro_batches, **layout):
        return found("true", micro_batches, **layout) - found("false", micro_batches, **layout)

    assert (4 * more(1, tensor=1) - more(4, tensor=1)) / 3 == pytest.approx(norms, rel=0.02)
    assert more(4, data=2, zero=3) - more(4, data=2, zero=2) == pytest.approx(norms, rel=0.02)


def test_frozen_layers_have_no_gradients(tmp_path):
    """Half of the layers frozen by their numbers: as many products fewer, wherever stages cut them."""
    patterns = json.dumps([f"transformer.h.{i}.*" for i in range(8)])
    h, s = MODEL["hidden_size"], MODEL["max_sequence"]
    for layout in (dict(tensor=1), dict(pipeline=2, balance="layers")):
        devices = layout.get("pipeline", 1)
        whole = simulate(tmp_path, MODEL, IDEAL, devices, 4, **layout)["time"]["compute"]
        half = simulate(tmp_path, MODEL, IDEAL, devices, 4, "--set", f"freeze={patterns}", **layout)["time"]["compute"]
        assert whole - half == pytest.approx(4 * 8 * s * 24 * h * h / 1e14 / devices, rel=0.01)


def test_gradients_end_at_the_lowest_trained_layer(tmp_path):
    """If the embedding is frozen, too, the lower half of the layers has only a forward."""
    patterns = json.dumps(["transformer.w?e.*"] + [f"transformer.h.{i}.*" for i in range(8)])
    h, s = MODEL["hidden_size"], MODEL["max_sequence"]
    whole = simulate(tmp_path, MODEL, IDEAL, 1, 4, tensor=1)["time"]["compute"]
    half = simulate(tmp_path, MODEL, IDEAL, 1, 4, "--set", f"freeze={patterns}", tensor=1)["time"]["compute"]
    backward = 2 * 2 * s * 12 * h * h + 5 * s * (s + 1) * h  # FLOPs of a layer: products of its matrices, and attention's
    assert whole - half == pytest.approx(4 * 8 * backward / 1e14, rel=0.01)


def test_reductions(tmp_path):
    """Two replicas add up the gradients of what is trained: where nothing else takes time, in proportion to its elements."""
    slow = dict(IDEAL, peak_bf16=1e30, links=[dict(name="all", bandwidth=1e6, latency=0)])
    whole = simulate(tmp_path, MODEL, slow, 2, 2, data=2)
    tuned = simulate(tmp_path, MODEL, slow, 2, 2, "--set", "adapter.rank=8", data=2)
    matrices, embedded, vectors = sizes_of(MODEL)
    factors = MODEL["num_layers"] * sum(8 * (out + inside) for out, inside in matrices)
    everything = MODEL["num_layers"] * sum(out * inside for out, inside in matrices) + embedded + vectors
    assert tuned["step_s"] / whole["step_s"] == pytest.approx(factors / everything, rel=0.01)
    assert tuned["time"]["data"] / tuned["step_s"] == pytest.approx(1, rel=1e-3)


def test_flops(tmp_path):
    """On a machine that reaches its peak, and computes half of attention's square, MFU counts what is computed, and its whole square."""
    for more in ([], ["--set", "adapter.rank=8"], ["--set", 'freeze=["*mlp*"]']):
        found = simulate(tmp_path, dict(MODEL, max_sequence=16, num_layers=4), IDEAL, 1, 1, *more, tensor=1)
        assert found["mfu"] == pytest.approx(1, rel=0.03), more
        assert found["hfu"] == found["mfu"]


@pytest.mark.parametrize("words", [["adapter.rank=16"], ["adapter.rank=4", "adapter.targets=[q_proj, v_proj]"], ['freeze=["model.layers.1?.*"]'],
                                   ["optimizer.name=muon"], ["optimizer.state=int8", "optimizer.embeddings.name=sgd"]], ids=str)
def test_best_of_all(words):
    """The search leaves out nothing that is better."""
    sets = [word for value in words for word in ("--set", value)]
    common = ["plan", "--model", "llama-3-8b", "--cluster", "dgx-h100", "--devices", 4, "--global-batch", 8, "--sequence", 2048, *sets, "--top", 3, "--json"]
    best, brute = json.loads(run(*common)), json.loads(run(*common, "--exhaustive"))
    assert [a["step_s"] for a in best] == [a["step_s"] for a in brute]


# ---- keys ------------------------------------------------------------------------------------------------------------

def test_optimizer_by_either_option(tmp_path):
    by = [simulate(tmp_path, MODEL, IDEAL, 1, 4, *words, tensor=1)
          for words in (["--optimizer", "galore:32"], ["--set", "optimizer.name=galore", "--set", "optimizer.galore.rank=32"],
                        ["--optimizer", "galore", "--set", "optimizer.galore.rank=32"])]
    assert by[0] == by[1] == by[2]
    assert simulate(tmp_path, MODEL, IDEAL, 1, 4, "--set", "optimizer.state=bf16", tensor=1)["memory"]["optimizer"] < by[0]["memory"]["parameters"]


@pytest.mark.parametrize("words, said", [
    (["adapter.rank=100000"], "adapter.rank"),
    (["adapter.rank=600"], "use at most 512"),
    (["adapter.rank=8", "adapter.targets=[query]"], "query is not a module of the model; choose from"),
    (["adapter.targets=[c_attn]"], "`adapter.rank` is 0"),
    (["freeze=[nothing]"], "nothing matches no tensor"),
    (["freeze=[\"*\"]"], "leaves nothing to train"),
    (["adapter.rank=8", "freeze=[\"*wte*\"]"], "`freeze` is not for runs with an adapter"),
    (["optimizer.nam=muon"], "did you mean"),
    (["optimizer.name=muo"], "did you mean"),
    (["optimizer.name=galore"], "galore.rank"),
], ids=str)
def test_refused(tmp_path, words, said):
    sets = [word for value in words for word in ("--set", value)]
    done = subprocess.run([TRIREME, "simulate", "--model", str(write(tmp_path / "model.yaml", MODEL)), "--cluster", str(write(tmp_path / "c.yaml", IDEAL)),
                           "--devices", "1", "--global-batch", "4", "--layout", "tensor=1", *sets], capture_output=True, text=True)
    assert done.returncode in (2, 3) and said in done.stderr and len(done.stderr.strip().splitlines()) == 1, done.stderr


# ---- studies ---------------------------------------------------------------------------------------------------------

def study_of(folder, **more):
    study = dict(name="small", model=str(write(folder / "model.yaml", MODEL)), cluster=str(write(folder / "cluster.yaml", dict(IDEAL, memory_bandwidth=1e12))),
                 devices=2, global_batch=8, method="exhaustive", trials=64, objective="tokens_per_s",
                 space=[dict(name="zero", values="0 1"), dict(name="optimizer.name", values="adamw muon lion"), dict(name="optimizer.state", values="fp32 int8")])
    return write(folder / "study.yaml", {**study, **more})


def test_study_of_optimizers(tmp_path):
    """Each trial is what `simulate` says of its layout and its optimizer."""
    found = json.loads(run("tune", study_of(tmp_path, adapter=dict(rank=8)), "--json"))
    trials = found["trials"]
    assert len(trials) == 12
    for trial in trials:
        point = dict(word.split("=") for word in trial["point"].split(",")) if isinstance(trial["point"], str) else trial["point"]
        alone = json.loads(run("simulate", "--model", tmp_path / "model.yaml", "--cluster", tmp_path / "cluster.yaml", "--devices", 2, "--global-batch", 8,
                               "--layout", f"zero={point['zero']}", "--set", "adapter.rank=8", "--set", f"optimizer.name={point['optimizer.name']}",
                               "--set", f"optimizer.state={point['optimizer.state']}", "--json"))
        assert trial["value"] == pytest.approx(alone["tokens_per_s"], rel=1e-9), point
    by = {trial["value"] for trial in trials}
    assert len(by) > 4


@pytest.mark.parametrize("more, said", [
    (dict(space=[dict(name="optimizer.name", values="adamw muo")]), "cannot be muo: it is one of adamw, muon"),
    (dict(space=[dict(name="optimizer.name", values="adamw galore")]), "galore.rank"),
    (dict(space=[dict(name="optimizer.lr", values="1 2")]), "optimizer.name, optimizer.state"),
    (dict(adapter=dict(rank=8, targets=["query"])), "query is not a module"),
    (dict(optimizer=dict(name="muon", lr=1)), "lr"),
], ids=str)
def test_refused_studies(tmp_path, more, said):
    done = subprocess.run([TRIREME, "tune", str(study_of(tmp_path, **more))], capture_output=True, text=True)
    assert done.returncode == 3 and said in done.stderr and "study.yaml" in done.stderr, done.stderr

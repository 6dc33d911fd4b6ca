"""Products in FP8, activations in the host's memory and exchanges beside another micro-batch, as properties of other systems."""
import json
import subprocess

import pytest

from test_plan import IDEAL, ROOT, TRIREME, run, write

MODEL = dict(family="llama", num_layers=8, hidden_size=512, num_heads=8, num_kv_heads=8, ffn_size=1536, vocab_size=16, max_sequence=256)
OTHER = dict(planned=False, weight_bytes=2, gradient_bytes=4, state_bytes=12, kernels=0)
EACH = ["--global-batch", 4, "--sequence", 256]


def simulate(folder, system, cluster, *more, devices=1, layout="micro_batch=1", model=MODEL):
    return json.loads(run("simulate", "--model", write(folder / "model.yaml", model), "--cluster", write(folder / "cluster.yaml", cluster), "--system",
                          write(folder / "system.yaml", system), "--devices", devices, *EACH, "--layout", layout, "--json", *more))


def refused(*words):
    done = subprocess.run([TRIREME, *map(str, words)], capture_output=True, text=True)
    assert done.returncode != 0, done.stdout
    return done.stderr


def test_products_of_layers_take_half(tmp_path):
    """A device that multiplies twice as fast in FP8 saves half of the time of the layers' products; attention and the output layer
    take what they took. 6 FLOPs a parameter of a product and token."""
    cluster = dict(IDEAL, peak_fp8=2e14)
    bf16, fp8 = (simulate(tmp_path, dict(OTHER, **more), cluster)["step_s"] for more in (dict(), dict(fp8_products=True)))
    products = 8 * (4 * 512 * 512 + 3 * 512 * 1536)
    assert bf16 - fp8 == pytest.approx(6 * products * 4 * 256 / 1e14 / 2, rel=1e-6)


def test_conversions_move_bytes(tmp_path):
    """The inputs of products are converted, in the forward and in the backward; weights are converted once in each step."""
    cluster = dict(IDEAL, peak_fp8=2e14, memory_bandwidth=1e12)
    free, paid = (simulate(tmp_path, dict(OTHER, fp8_products=True, fp8_conversion=bytes_), cluster)["step_s"] for bytes_ in (0, 6))
    inputs = 512 + 512 + 2 * 512 + 1536  # q, k and v together; the output projection; gate and up; down
    gradients = 3 * 512 + 512 + 2 * 1536 + 512
    once = 8 * (4 * 512 * 512 + 3 * 512 * 1536 + 2 * 512) + 2 * 16 * 512 + 512
    expected = 6 * (8 * (inputs + gradients) * 4 * 256 + once) / 1e12
    assert paid - free == pytest.approx(expected, rel=0.15)


def test_offload(tmp_path):
    """Kept activations leave the device; where the link is slower than the computation, a layer waits for it both ways."""
    slow, fast = (dict(IDEAL, host_bandwidth=bandwidth) for bandwidth in (1e9, 1e18))
    layout = "micro_batch=2"
    kept = simulate(tmp_path, OTHER, slow, layout=layout)
    moved = {name: simulate(tmp_path, dict(OTHER, offload_activations=1.0), cluster, layout=layout) for name, cluster in (("slow", slow), ("fast", fast))}
    half = simulate(tmp_path, dict(OTHER, offload_activations=0.5), slow, layout=layout)
    assert moved["fast"]["step_s"] == pytest.approx(kept["step_s"], rel=1e-9)
    saved = kept["memory"]["activations"] - moved["slow"]["memory"]["activations"]
    assert 0.5 < saved / kept["memory"]["activations"] < 1
    assert kept["memory"]["activations"] - half["memory"]["activations"] == pytest.approx(saved / 2, rel=1e-6)
    assert moved["slow"]["memory"]["activations"] == moved["fast"]["memory"]["activations"]
    # six of eight layers' bytes are gone: two are on the device, one at work and one on its way
    bytes_ = saved / 6 * 8
    assert moved["slow"]["step_s"] == pytest.approx(2 * 2 * bytes_ / 1e9, rel=0.1)
    assert half["step_s"] == pytest.approx(2 * 2 * bytes_ / 2e9, rel=0.1)


def test_rows_go_beside_another_micro_batch(tmp_path):
    model = dict(MODEL, family="mixtral", num_experts=8, experts_per_token=2, expert_ffn_size=1536)
    cluster = dict(IDEAL, links=[dict(name="all", bandwidth=1e9, latency=0)])
    layout = "expert=4,micro_batch=1"
    words = dict(devices=4, layout=layout, model=model)
    other = dict(OTHER, overlap_reductions=False, overlap_gathers=False)
    plain = simulate(tmp_path, other, cluster, **words)
    beside = simulate(tmp_path, dict(other, overlap_batches=True), cluster, **words)
    fewer = simulate(tmp_path, dict(other, expert_row_share=0.25), cluster, **words)
    assert 0 < beside["time"]["expert"] < plain["time"]["expert"]
    assert plain["time"]["expert"] == pytest.approx(4 * fewer["time"]["expert"], rel=1e-3)
    # as long as the forward and the gradients of inputs are computed: two thirds of the computation
    assert plain["step_s"] - beside["step_s"] == pytest.approx(plain["time"]["compute"] * 2 / 3, rel=0.1)


def test_stragglers(tmp_path):
    """All wait for the slowest: of 4 nodes of 2 devices, each slow with probability 1/4, some are in 1 - (3/4)^4 of the cases."""
    slow = dict(IDEAL, node_devices=2, slow_nodes=0.25, slow_by=0.5)
    none, some = (simulate(tmp_path, OTHER, cluster, devices=8, layout="pipeline=4,data=2,micro_batch=1")["time"]["compute"] for cluster in (dict(IDEAL, node_devices=2), slow))
    assert some / none == pytest.approx(1 + 0.5 * (1 - 0.75**4), rel=1e-6)
    alone, one = (simulate(tmp_path, OTHER, cluster, devices=1)["time"]["compute"] for cluster in (dict(IDEAL, node_devices=2), slow))
    assert one / alone == pytest.approx(1 + 0.5 * 0.25, rel=1e-6)
    path = write(tmp_path / "half.yaml", dict(IDEAL, slow_nodes=0.25))
    assert "`slow_nodes` is set and `slow_by` is not" in refused("plan", "--model", "gpt2-124m", "--cluster", path, "--devices", 1, "--global-batch", 4)


@pytest.mark.parametrize("words, said", [
    (["--system", "megatron-core-fp8-2025", "--cluster", "selene-a100-80"], "computes products in FP8, but the cluster selene-a100-80 has no `peak_fp8`"),
    (["--system", "megatron-core-offload-2025", "--cluster", "leonardo"], "keeps activations in the host's memory, but the bandwidth to the host is missing in the cluster leonardo"),
    (["--system", "torchtitan-float8", "--precision", "fp32", "--cluster", "dgx-h100"], "computes products in FP8 and bf16, but --precision is fp32; leave --precision out"),
    (["--precision", "fp8", "--cluster", "dgx-h100"], "--precision fp8: Trireme computes no product in FP8, use precision: bf16; plans for programs that do: trireme plan --system megatron-core-fp8-2025"),
])
def test_refused(words, said):
    for command in (["plan"], ["simulate", "--layout", "micro_batch=1"]):
        assert said in refused(*command, "--model", "llama-3-8b", "--devices", 8, "--global-batch", 8, "--sequence", 8192, *words)


@pytest.mark.parametrize("key, said", [("fp8_products: true", "`fp8_products` is not possible with `planned: true`"), ("offload_activations: 0.5", "`offload_activations` is not possible with `planned: true`")])
def test_the_engine_has_neither(tmp_path, key, said):
    own = (ROOT / "configs/systems/trireme.yaml").read_text()
    (tmp_path / "mine.yaml").write_text(own + f"{key}\n")
    assert said in refused("plan", "--model", "llama-3-8b", "--cluster", "dgx-h100", "--devices", 8, "--global-batch", 8, "--sequence", 8192, "--system", tmp_path / "mine.yaml")


@pytest.mark.parametrize("option, said", [("precision=fp8", "Trireme computes no product in FP8"), ("fp8=true", "Trireme computes no product in FP8"), ("layout.cpu_offload=true", "never moved to the host")])
def test_words_of_run_files(option, said):
    assert said in refused("train", ROOT / "configs/runs/shakespeare.yaml", "--dry-run", "--set", option)


def test_published_rows():
    """Nothing is fitted to them."""
    found = {row["name"]: row for part in json.loads(run("validate", "--json")) for row in part["rows"]}
    for name, most in (("8B FP8 on 8", 0.05), ("70B FP8 on 64", 0.1), ("405B FP8 on 1024", 0.05), ("8B Float8 on 8", 0.15), ("340B on 6144", 0.08)):
        assert abs(found[name]["error"]) < most, (name, found[name])
    assert "671B with ordinary attention on 2048" in found

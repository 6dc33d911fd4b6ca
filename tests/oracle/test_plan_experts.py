"""`simulate`, `plan`, `tune` and `validate` of models with experts, beside closed forms, brute force and published runs."""
import json
import os
import random
import re
import subprocess

import pytest

TRIREME = os.environ["TRIREME"]


def run(*arguments, status=0):
    done = subprocess.run([TRIREME, *map(str, arguments)], capture_output=True, text=True, timeout=300)
    assert done.returncode == status, (arguments, done.stderr)
    return done.stdout if status == 0 else done.stderr


def write(path, value):
    path.write_text(json.dumps(value))  # JSON is YAML
    return path


LAYERS, WIDTH, FFN, EXPERTS, CHOSEN, TOKENS = 8, 1024, 512, 16, 4, 512
MODEL = dict(family="qwen3_moe", num_layers=LAYERS, hidden_size=WIDTH, num_heads=8, num_experts=EXPERTS, experts_per_token=CHOSEN,
             expert_ffn_size=FFN, vocab_size=16, max_sequence=TOKENS)
SHARED = dict(family="dots1", num_layers=LAYERS, hidden_size=WIDTH, num_heads=8, num_experts=EXPERTS, experts_per_token=CHOSEN,
              expert_ffn_size=FFN, shared_experts=2, vocab_size=16, max_sequence=TOKENS)
BANDWIDTH, PEAK = 1e10, 1e14


def machine(**changes):
    """Nothing takes time but products and what passes."""
    return dict(dict(hypothetical=True, node_devices=8, peak_bf16=PEAK, vector_flops=1e30, memory_bytes=64e9, memory_bandwidth=1e30,
                     links=[dict(name="all", bandwidth=BANDWIDTH, latency=0)], beside=1,
                     efficiency=dict(matmul=1, matmul_half=0, attention=1, memory=1, link=1, launch=0)), **changes)


def simulate(folder, model, cluster, devices, batch, *more, **layout):
    words = ",".join(f"{key}={str(value).lower()}" for key, value in layout.items())
    return json.loads(run("simulate", "--model", write(folder / "model.yaml", model), "--cluster", write(folder / "cluster.yaml", cluster),
                          "--devices", devices, "--global-batch", batch, "--layout", words, "--json", *more))


# ---- what passes ----------------------------------------------------------------------------------------------------

ROW = WIDTH * 2  # bytes, bf16
PAIRS = TOKENS * CHOSEN


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_rows_pass(tmp_path, ranks):
    """Each rank's pairs go to the ranks of their experts and back, forward and backward: of what it has, all but its own share."""
    found = simulate(tmp_path, MODEL, machine(), 8, 8, expert=ranks)
    rows = 4 * LAYERS * PAIRS * ROW * (ranks - 1) / ranks / BANDWIDTH
    assert found["time"]["expert"] == pytest.approx(rows, rel=0.01)
    assert simulate(tmp_path, MODEL, machine(), 8, 8)["time"]["expert"] == 0


def test_ranks_that_split_an_expert_get_all_its_rows(tmp_path):
    """Two ranks for each expert: every row goes to both."""
    whole = simulate(tmp_path, MODEL, machine(), 8, 8, expert=4)
    split = simulate(tmp_path, MODEL, machine(), 8, 8, expert=4, expert_tensor=2)
    assert split["time"]["expert"] == pytest.approx(whole["time"]["expert"] * 2 * (7 / 8) / (3 / 4), rel=0.01)
    assert split["time"]["compute"] == pytest.approx(whole["time"]["compute"], rel=0.01)


def test_a_node_is_nearer_than_others(tmp_path):
    """Rows that stay in a node take its links; what crosses goes through the node's ports."""
    links = [dict(name="inside", spans=4, bandwidth=100 * BANDWIDTH, latency=0), dict(name="across", per=4, ports=4, bandwidth=BANDWIDTH, latency=0)]
    nodes = machine(node_devices=4, links=links)
    inside, across = (simulate(tmp_path, MODEL, nodes, 16, 16, expert=ranks)["time"]["expert"] for ranks in (4, 16))
    assert inside == pytest.approx(4 * LAYERS * PAIRS * ROW * 3 / 4 / (100 * BANDWIDTH), rel=0.01)
    assert across == pytest.approx(4 * LAYERS * PAIRS * ROW * 12 / 16 / BANDWIDTH, rel=0.01)


def test_shared_experts_hide_rows_on_their_way(tmp_path):
    """Half of the passings go on beside the products of what all tokens meet: forward, and both of the backward's."""
    system = tmp_path / "system.yaml"
    exposed = {}
    for overlaps in (True, False):
        write(system, dict(overlap_experts=overlaps))
        found = simulate(tmp_path, SHARED, machine(), 8, 8, "--system", system, expert=8)
        exposed[overlaps] = found["time"]["expert"]
        assert sum(found["time"].values()) == pytest.approx(found["step_s"], rel=1e-6)
    shared = LAYERS * 3 * 2 * TOKENS * 3 * WIDTH * 2 * FFN / PEAK
    assert shared < exposed[False] / 2
    assert exposed[False] - exposed[True] == pytest.approx(shared, rel=0.01)


def test_gathered_by_those_that_split_an_expert(tmp_path):
    """A system that sends rows once: its pairs to the four ranks of its part, and the other half from the neighbour."""
    system = write(tmp_path / "system.yaml", dict(gathers_experts=True))
    found = simulate(tmp_path, MODEL, machine(), 8, 8, "--system", system, expert=4, expert_tensor=2)
    each = PAIRS * ROW * 3 / 4 / BANDWIDTH + 2 * PAIRS * ROW / 2 / BANDWIDTH
    assert found["time"]["expert"] == pytest.approx(4 * LAYERS * each, rel=0.01)


def test_gradients_are_added_over_their_own_replicas(tmp_path):
    """Of 8 data ranks with expert 2, four have the same experts; what all tokens meet is the same on eight."""
    system = write(tmp_path / "system.yaml", dict(overlap_reductions=False))
    found = {ranks: simulate(tmp_path, MODEL, machine(), 8, 8, "--system", system, expert=ranks)["time"]["data"] for ranks in (1, 2, 8)}
    experts = LAYERS * EXPERTS * 3 * WIDTH * FFN * 4
    rest = found[8]  # all of it is dense
    for ranks in (1, 2):
        replicas = 8 // ranks
        assert found[ranks] - rest == pytest.approx(2 * (replicas - 1) / replicas * experts / ranks / BANDWIDTH, rel=0.01)


def test_zero_shares_out_experts_among_their_replicas(tmp_path):
    """Moments: of experts over two ranks, of the rest over eight."""
    whole, shared = (simulate(tmp_path, MODEL, machine(), 8, 8, expert=4, zero=zero)["memory"]["optimizer"] for zero in (0, 1))
    experts = LAYERS * EXPERTS / 4 * 3 * WIDTH * FFN * 8
    assert shared == pytest.approx(experts / 2 + (whole - experts) / 8, rel=0.01)


# ---- imbalance ------------------------------------------------------------------------------------------------------

UNIT = LAYERS * 2 * PAIRS * WIDTH * FFN / PEAK  # one of an expert's three products with one matrix, of all layers


def test_imbalance(tmp_path):
    """Twice the rows on the busiest rank: twice the products of experts, and rows that come; room and memory stay."""
    at = dict(expert=8, expert_capacity=4)
    even, uneven = (simulate(tmp_path, MODEL, machine(), 8, 8, *more, **at) for more in ((), ("--expert-imbalance", 2)))
    assert uneven["time"]["compute"] - even["time"]["compute"] == pytest.approx(9 * UNIT, rel=0.01)
    assert uneven["time"]["expert"] == pytest.approx(2 * even["time"]["expert"], rel=0.01)
    assert even["memory"] == uneven["memory"]
    assert even["experts"] == dict(imbalance=1, rows=PAIRS, room=4 * PAIRS, rounds=1)
    assert uneven["experts"] == dict(imbalance=2, rows=2 * PAIRS, room=4 * PAIRS, rounds=1)
    assert simulate(tmp_path, MODEL, machine(), 8, 8, **at, capacity_drop=True)["step_s"] == pytest.approx(even["step_s"], rel=1e-6)


def test_no_more_rows_than_there_are(tmp_path):
    """A token meets an expert once: the report says how many times the even rows the busiest rank has, not what was asked for."""
    words = ["simulate", "--model", write(tmp_path / "model.yaml", MODEL), "--cluster", write(tmp_path / "cluster.yaml", machine()), "--devices", 8,
             "--global-batch", 8, "--layout", "expert=8"]
    most = MODEL["num_experts"] / CHOSEN
    assert f"({most:g} times those of equally busy ones)" in run(*words, "--expert-imbalance", 1000)
    assert "(1.5 times those of equally busy ones)" in run(*words, "--expert-imbalance", 1.5)


@pytest.mark.parametrize("imbalance,rounds", [(1, 1), (1.5, 2), (2, 2), (3, 3)])
def test_rounds(tmp_path, imbalance, rounds):
    """Rows beyond the capacity are recomputed in both backwards: 3, 5 and 6 products instead of 3, 3 and 3."""
    at = dict(expert=8, expert_capacity=1)
    even = simulate(tmp_path, MODEL, machine(), 8, 8, **at)
    found = simulate(tmp_path, MODEL, machine(), 8, 8, "--expert-imbalance", imbalance, **at)
    assert found["experts"]["rounds"] == rounds and found["experts"]["room"] == PAIRS
    assert found["memory"] == even["memory"]
    assert found["time"]["compute"] - even["time"]["compute"] == pytest.approx((imbalance - 1) * 14 * UNIT, rel=0.01)
    # Rows: there and back forward; there, their gradients, and back; there and their gradients for the weights.
    assert found["time"]["expert"] / even["time"]["expert"] == pytest.approx(1 + (imbalance - 1) * (2 + 3 + 2) / 4, rel=0.02)


def test_dropped_rows_take_no_time(tmp_path):
    at = dict(expert=8, expert_capacity=1, capacity_drop=True)
    even, uneven = (simulate(tmp_path, MODEL, machine(), 8, 8, *more, **at) for more in ((), ("--expert-imbalance", 3)))
    assert uneven["step_s"] == pytest.approx(even["step_s"], rel=1e-9) and uneven["experts"]["rounds"] == 1


def test_one_rank_has_all_rows_whatever_the_balance(tmp_path):
    even, uneven = (simulate(tmp_path, MODEL, machine(), 8, 8, *more) for more in ((), ("--expert-imbalance", 3)))
    assert uneven["step_s"] == even["step_s"]


def test_uneven_holders(tmp_path):
    """16 experts on 3 ranks: one has 6, and is waited for."""
    model = dict(MODEL, num_layers=6)
    found = simulate(tmp_path, model, machine(node_devices=6), 6, 6, expert=3)
    assert found["experts"]["rows"] == pytest.approx(3 * PAIRS * 6 / 16)


def test_studies_say_it(tmp_path):
    study = dict(name="experts", model=str(write(tmp_path / "model.yaml", MODEL)), cluster=str(write(tmp_path / "cluster.yaml", machine())), devices=8,
                 global_batch=8, objective="tokens_per_s", method="grid", space=[dict(name="expert", values="8"), dict(name="data", values="8")])
    found = {}
    for imbalance in (1, 2):
        file = write(tmp_path / f"study{imbalance}.yaml", dict(study, expert_imbalance=imbalance))
        run("tune", file)
        best = json.loads(run("tune", "report", tmp_path / f"study{imbalance}.db", "--json"))["best"]
        found[imbalance] = best[0]["value"] if isinstance(best, list) else best["value"]
    for imbalance in (1, 2):
        more = ("--expert-imbalance", imbalance)
        assert found[imbalance] == pytest.approx(simulate(tmp_path, MODEL, machine(), 8, 8, *more, expert=8)["tokens_per_s"], rel=1e-6)
    dense = {key: value for key, value in MODEL.items() if "expert" not in key} | dict(family="llama", ffn_size=512)
    file = write(tmp_path / "dense.yaml", dict(study, model=str(write(tmp_path / "model.yaml", dense)), expert_imbalance=2, space=study["space"][1:]))
    assert re.search(r"`expert_imbalance` is for models with experts, and model has none; leave it out", run("tune", file, status=3))


@pytest.mark.parametrize("model,given,said", [
    ("llama-3-8b", 2, r"--expert-imbalance is for models with experts, and llama-3-8b has none"),
    ("mixtral-8x7b", 0.5, r"--expert-imbalance"),
    ("mixtral-8x7b", "much", r"--expert-imbalance"),
])
def test_bad_imbalance(model, given, said):
    words = ["--model", model, "--cluster", "dgx-h100", "--devices", 8, "--global-batch", 8, "--sequence", 4096, "--layout", "tensor=8"]
    assert re.search(said, run("simulate", *words, "--expert-imbalance", given, status=2))


def test_against_a_run(tmp_path):
    """A run's own loads are priced, and the bytes predicted for it are those that it held."""
    (tmp_path / "text.txt").write_text("".join(f"Oar {i} of {i * 7919 % 1000}.\n" for i in range(2000)))
    run("prepare", "--tokenizer", "bytes", "--out", tmp_path / "data", tmp_path / "text.txt")
    model = dict(family="dots1", num_layers=3, hidden_size=64, num_heads=4, num_experts=5, experts_per_token=2, expert_ffn_size=48, shared_experts=1,
                 dense_layers=1, ffn_size=96, vocab_size=257, max_sequence=64)
    config = dict(model=model, data=dict(train=str(tmp_path / "data/train"), sequence=64), layout=dict(tensor=2, expert=2, expert_tensor=2, micro_batch=2),
                  optimizer=dict(global_batch=4, steps=3, lr=1e-3), evaluation=dict(every=0), output=str(tmp_path / "run"))
    run("train", write(tmp_path / "run.yaml", config), "-n", 4)
    cluster = write(tmp_path / "cluster.yaml", machine(device="cpu", node_devices=4, peak_fp32=1e11))
    found = json.loads(run("simulate", "--against", tmp_path / "run", "--cluster", cluster, "--json"))
    assert found["peak_bytes"]["predicted"] == found["peak_bytes"]["measured"]
    ratios = []
    for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines():
        for layer in json.loads(line).get("experts", []):
            load = layer["load"]
            ratios.append(max(sum(load[:3]), sum(load[3:])) / (sum(load) * 3 / 5))  # the first has three of the five
    assert len(ratios) == 6 and found["expert_imbalance"] == pytest.approx(max(1, sum(ratios) / len(ratios)), rel=1e-9)
    assert f"had {found['expert_imbalance']:.2f} times the rows of equally busy experts" in run("simulate", "--against", tmp_path / "run", "--cluster", cluster)


# ---- reports and the search -----------------------------------------------------------------------------------------

def test_reports(tmp_path):
    words = ["--model", write(tmp_path / "model.yaml", MODEL), "--cluster", write(tmp_path / "cluster.yaml", machine()), "--devices", 8, "--global-batch", 8,
             "--layout", "expert=8,expert_capacity=1.25"]
    drawing = tmp_path / "step.json"
    said = run("simulate", *words, "--expert-imbalance", 1.5, "--timeline", drawing)
    assert re.search(r"^  expert +\d", said, re.M)
    assert "experts: 3.1K rows of a micro-batch on the busiest rank (1.5 times those of equally busy ones), in 2 rounds of up to 2.6K" in said
    assert '"expert"' in drawing.read_text()
    assert json.loads(run("simulate", *words, "--json"))["layout"]["expert_capacity"] == 1.25


@pytest.mark.parametrize("seed", range(6))
def test_search_beside_brute_force(tmp_path, seed):
    chance = random.Random(700 + seed)
    model = dict(chance.choice([MODEL, SHARED]), num_layers=chance.choice([2, 3, 4]), num_experts=chance.choice([4, 6, 8]), max_sequence=128)
    if model["family"] == "dots1":
        model |= dict(dense_layers=chance.choice([0, 1]), ffn_size=1024) if chance.random() < 0.7 else {}
        if not model.get("dense_layers"):
            model.pop("ffn_size", None)
    links = [dict(name="inside", spans=4, bandwidth=10 ** chance.uniform(10, 12), latency=1e-6),
             dict(name="across", per=4, ports=chance.choice([1, 4]), bandwidth=10 ** chance.uniform(9, 11), latency=5e-6)]
    cluster = machine(node_devices=4, links=links, memory_bytes=10 ** chance.uniform(8.5, 9.5), beside=chance.choice([1, 0.8]), memory_bandwidth=1e12)
    words = ["plan", "--model", write(tmp_path / "model.yaml", model), "--cluster", write(tmp_path / "cluster.yaml", cluster), "--devices", chance.choice([4, 8]),
             "--global-batch", 8, "--top", 4, "--expert-imbalance", chance.choice([1, 2]), "--json"]
    done = [subprocess.run([TRIREME, *map(str, words), *more], capture_output=True, text=True) for more in ([], ["--exhaustive"])]
    assert done[0].returncode == done[1].returncode, [d.stderr for d in done]
    if done[0].returncode == 0:
        pruned, brute = (json.loads(d.stdout) for d in done)
        assert [a["step_s"] for a in pruned] == pytest.approx([a["step_s"] for a in brute], rel=1e-9)
    else:
        assert "no layout of" in done[0].stderr


def test_search_finds_folded_layouts(tmp_path):
    """Experts that do not fit one rank, on a machine whose nodes have 8: they are shared out where rows pass quickly."""
    found = json.loads(run("plan", "--model", "mixtral-8x7b", "--cluster", "dgx-h100", "--devices", 64, "--global-batch", 256, "--sequence", 4096, "--json"))
    best = found[0]["layout"]
    assert best["expert"] > 1 and best["expert"] * best["expert_tensor"] <= 8
    said = run("plan", "--model", "mixtral-8x7b", "--cluster", "dgx-h100", "--devices", 64, "--global-batch", 256, "--sequence", 4096)
    assert re.search(r"^  expert +[0-9.]+ s ", said, re.M) and re.search(r"^experts: .* rows of a micro-batch on the busiest rank", said, re.M)


# ---- published runs -------------------------------------------------------------------------------------------------

def test_published_foldings():
    """Nothing was fitted to them."""
    found = json.loads(run("validate", "--set", "folding", "--json"))[0]
    assert len(found["rows"]) == 10 and not any(row["fitted"] for row in found["rows"])
    assert found["mean_error"] < 0.10
    for apart, folded in zip(found["rows"][::2], found["rows"][1::2]):
        assert folded["predicted_tflops"] > apart["predicted_tflops"], (apart["name"], folded["name"])

"""A run's timeline and the simulator's of the same layout: both say of each instruction that it is the same kind of thing,
and the parts of the simulated step are what its events add up to."""
import collections
import json
import shutil

import pytest
from parity import trireme, yaml_of

MODEL = dict(family="gpt2", num_layers=2, hidden_size=32, num_heads=4, vocab_size=257, max_sequence=32)
CLUSTER = dict(device="cpu", node_devices=4, peak_bf16=1e12,  # in bf16, since in fp32 nothing is packed for products
               vector_flops=1e11, memory_bytes=1e12, memory_bandwidth=1e10,
               links=[dict(name="all", bandwidth=1e9, latency=1e-6)],
               efficiency=dict(matmul=1, matmul_half=0, attention=1, memory=1, link=1, launch=0))
LAYOUTS = {
    "one-stage-tied": {},
    "one-stage-untied": dict(tied=False),
    "two-stages-tied": dict(pipeline=2),
    "two-stages-zero-bubble": dict(pipeline=2, schedule="zero-bubble"),
    "tensor": dict(tensor=2, sequence_parallel=True),
    "data": dict(data=2),
    "zero1": dict(data=2, zero=1),
    "zero2": dict(data=2, zero=2),
    "zero3-two-stages": dict(data=2, zero=3, pipeline=2),
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "text.txt").write_text("".join(f"Line {i}: the rowers pull {i * 7919 % 1000} times.\n" for i in range(2000)))
    trireme("prepare", "--tokenizer", "bytes", "--out", folder / "data", folder / "text.txt")
    return folder / "data"


def events_of(path):
    return [e for e in json.loads(path.read_text())["traceEvents"] if e["ph"] == "X"]


def category(event):
    return "axis " + event["args"]["axis"] if event["cat"] == "communication" else event["cat"]


def measured_categories(events):
    """Returns {instruction: its category}, and {instruction: its category and those of the communication in it}."""
    alone, inside = collections.defaultdict(set), collections.defaultdict(set)
    for rank in {e["pid"] for e in events}:
        of_rank = [e for e in events if e["pid"] == rank]
        communicated = [e for e in of_rank if e["cat"] == "communication"]
        for event in of_rank:
            alone[event["name"]].add(category(event))
            inside[event["name"]] |= {category(e) for e in communicated
                                      if event["ts"] <= e["ts"] and e["ts"] + e["dur"] <= event["ts"] + event["dur"]}
            inside[event["name"]].add(category(event))
    return alone, inside


@pytest.mark.parametrize("name", LAYOUTS)
def test_categories(tmp_path, corpus, name):
    layout = dict(LAYOUTS[name])
    model = dict(MODEL, tied=layout.pop("tied", True))
    ranks = layout.get("tensor", 1) * layout.get("data", 1) * layout.get("pipeline", 1)
    if ranks > 1 and shutil.which("mpiexec") is None:
        pytest.skip("SKIPPED: there is no mpiexec")
    run = dict(model=model, data=dict(train=str(corpus / "train"), sequence=32), layout=dict(layout, micro_batch=1, bucket_bytes=20000),
               optimizer=dict(global_batch=4, steps=4, lr=1e-3), evaluation=dict(every=0), output=str(tmp_path / "run"))
    (tmp_path / "run.yaml").write_text(yaml_of(run))
    trireme("train", tmp_path / "run.yaml", "-n", ranks, "--timeline", tmp_path / "measured.json")
    alone, inside = measured_categories(events_of(tmp_path / "measured.json"))

    (tmp_path / "model.yaml").write_text(yaml_of(model))
    (tmp_path / "cluster.yaml").write_text(yaml_of(CLUSTER))
    words = ",".join(f"{key}={str(value).lower()}" for key, value in run["layout"].items())
    found = json.loads(trireme("simulate", "--model", tmp_path / "model.yaml", "--cluster", tmp_path / "cluster.yaml", "--devices", ranks,
                               "--global-batch", 4, "--sequence", 32, "--precision", "bf16", "--layout", words, "--json",
                               "--timeline", tmp_path / "simulated.json").stdout)
    simulated = events_of(tmp_path / "simulated.json")

    names = {e["name"] for e in simulated}
    assert {"forward", "clip", "update"} <= names and ("sum_tied" in names) == model["tied"]
    assert ("prepare" in names) == (layout.get("zero") != 3), "weights gathered for each pass are not packed ahead"
    for event in simulated:
        allowed = inside if event["cat"] == "communication" else alone
        assert category(event) in allowed[event["name"]], (event, alone[event["name"]], inside[event["name"]])

    parts, stages = collections.Counter(), layout.get("pipeline", 1)
    part_of = {"optimizer": "optimizer", "axis all": "optimizer", "axis tensor": "tensor", "axis data": "data", "axis pipeline": "pipeline"}
    threads = {(e["pid"], e["tid"]) for e in json.loads((tmp_path / "simulated.json").read_text())["traceEvents"]
               if e["name"] == "thread_name" and e["args"]["name"].startswith("compute")}
    for event in simulated:
        if (event["pid"], event["tid"]) in threads:
            parts[part_of.get(category(event), "compute")] += (event["dur"] - event["args"].get("waited_us", 0)) / 1e6 / stages
    for part in ("compute", "optimizer", "tensor", "data", "pipeline"):
        assert found["time"][part] == pytest.approx(parts[part], abs=1e-7), part

"""Prices of collectives and messages on networks of several levels, as a user sees them: hops, shares, protocols, and overlap with computation.
Each is compared with a result by hand for a machine on which nothing else takes time."""
import json
import os
import subprocess

import pytest

TRIREME = os.environ["TRIREME"]
LAYERS, WIDTH, SEQUENCE = 6, 256, 128
MODEL = dict(family="gpt2", num_layers=LAYERS, hidden_size=WIDTH, num_heads=8, vocab_size=64, max_sequence=SEQUENCE)
IDEAL = dict(hypothetical=True, node_devices=4, peak_bf16=1e30, vector_flops=1e30, memory_bytes=64e9, memory_bandwidth=1e30,
             efficiency=dict(matmul=1, attention=1, memory=1, link=1, launch=0))
SYSTEM = dict(name="some", planned=True, levels=False)


def run(folder, cluster, system=SYSTEM, devices=8, batch=1, timeline=None, status=0, **layout):
    for name, value in (("model", MODEL), ("cluster", cluster), ("system", system)):
        (folder / f"{name}.yaml").write_text(json.dumps(value))
    words = ",".join(f"{key}={str(value).lower()}" for key, value in dict(layout, zero=layout.get("zero", 0)).items())
    command = [TRIREME, "simulate", "--model", folder / "model.yaml", "--cluster", folder / "cluster.yaml", "--system",
               folder / "system.yaml", "--devices", str(devices), "--global-batch", str(batch), "--layout", words, "--json"]
    command += ["--timeline", timeline] if timeline else []
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == status, done.stderr
    return json.loads(done.stdout) if status == 0 else done.stderr


def link(name, bandwidth=1e30, latency=0, **more):
    return dict(name=name, bandwidth=bandwidth, latency=latency, **more)


def network(*links, **more):
    return dict(IDEAL, links=list(links), **more)


def tensor_s(folder, cluster, **more):
    return run(folder, cluster, tensor=8, **more)["time"]["tensor"]


def starts(folder, **more):
    """How many collectives a step of tensor 8 has: ranks come late to each by a second in the mean, and the last of eight by 1/2 +
    ... + 1/8 more."""
    cluster = network(link("all"), efficiency=dict(IDEAL["efficiency"], start=1))
    count = tensor_s(folder, cluster, **more) / sum(1 / n for n in range(2, 9))
    assert count == pytest.approx(round(count), rel=1e-3)
    return round(count)


def test_hops(tmp_path):
    """All-reduces of 8 in two nodes of 4 by trees: two hops up in a node and one across, and down again. Gathers by rings: six hops
    of seven within a node."""
    near = network(link("near", latency=1, spans=4), link("far"))
    far = network(link("near", spans=4), link("far", latency=1, per=4, ports=4))
    count = starts(tmp_path)
    assert tensor_s(tmp_path, near) == pytest.approx(count * 2 * 2)
    assert tensor_s(tmp_path, far) == pytest.approx(count * 2 * 1)
    within, across, count = [f(tmp_path, *of, sequence_parallel=True) for f, *of in ((tensor_s, near), (tensor_s, far), (starts,))]
    reductions = across - count  # across = gathers + 2 reductions, within = 6 gathers + 4 reductions
    assert within == pytest.approx(6 * (count - reductions) + 4 * reductions)
    assert count - reductions >= 8 * LAYERS, "a gather and a scatter for each of a layer's four all-reduces"


def test_protocols(tmp_path):
    """A protocol that waits a fifth as long at each hop takes a fifth where only hops take time, nothing where none do, and no
    collective is slower for it."""
    quick = dict(protocols=[dict(name="LL", share=0.25, latency=0.2)])
    hops, bytes_, both = link("all", latency=1e-5), link("all", 1e9), link("all", 1e9, latency=1e-5)
    assert tensor_s(tmp_path, network(hops, **quick)) == pytest.approx(0.2 * tensor_s(tmp_path, network(hops)))
    assert tensor_s(tmp_path, network(bytes_, **quick)) == pytest.approx(tensor_s(tmp_path, network(bytes_)))
    parts = tensor_s(tmp_path, network(hops)) + tensor_s(tmp_path, network(bytes_))
    found = tensor_s(tmp_path, network(both, **quick))
    assert tensor_s(tmp_path, network(bytes_)) < found < tensor_s(tmp_path, network(both)) <= parts * 1.2
    worse = dict(protocols=[dict(name="bad", share=0.1, latency=1.0)])
    assert tensor_s(tmp_path, network(both, **worse)) == tensor_s(tmp_path, network(both))


def test_shares(tmp_path):
    """A ring through two switches of four devices each is as slow as what is left of its port between them; eight ranks in one
    switch do not notice."""
    def tree(share, spans=4):
        return network(link("leaf", 1e9, spans=spans), link("spine", 1e9, per=spans, ports=1, share=share))
    whole = tensor_s(tmp_path, tree(1))
    assert tensor_s(tmp_path, network(link("all", 1e9))) == pytest.approx(whole)
    assert tensor_s(tmp_path, tree(0.25)) == pytest.approx(4 * whole)
    assert tensor_s(tmp_path, tree(0.25, spans=8)) == pytest.approx(whole)


def test_groups_share_links(tmp_path):
    """Four data groups of two, each with a member on either side of links that leave half of the ports' bandwidth, take twice as
    long as with all of it."""
    def between(share):
        return network(link("leaf", 1e30, spans=4), link("spine", 1e9, per=4, ports=4, share=share))
    times = [run(tmp_path, between(share), dict(SYSTEM, overlap_reductions=False), tensor=4, data=2, batch=2)["time"] for share in (1, 0.5)]
    assert times[1]["data"] == pytest.approx(2 * times[0]["data"]) and times[0]["data"] > 0


def test_messages_take_the_slowest_way(tmp_path):
    """A pipeline that goes on in the next node is held up there, though most of its neighbours are in one node."""
    blocking = dict(SYSTEM, overlap_messages=False)
    layout = dict(pipeline=6, devices=6, batch=8)
    mixed = network(link("near", spans=3), link("far", 1e9), node_devices=3)
    assert run(tmp_path, mixed, blocking, **layout)["step_s"] == run(tmp_path, network(link("all", 1e9), node_devices=3), blocking, **layout)["step_s"]
    inside = run(tmp_path, network(link("near", spans=6), link("far", 1e9), node_devices=6), blocking, **layout)
    assert inside["step_s"] < 1e-9


def beside_of(path):
    """Seconds that the first stage computes while something is under way in the background."""
    events = [e for e in json.loads(path.read_text())["traceEvents"] if e["ph"] == "X"]
    lanes = {e["tid"] for e in events}
    assert len(lanes) == 2, lanes
    background = [e for e in events if e["tid"] == max(lanes)]
    working = [e for e in events if e["tid"] == min(lanes) and e["cat"] != "communication"]
    return sum(max(0, min(a["ts"] + a["dur"], b["ts"] + b["dur"]) - max(a["ts"], b["ts"])) for a in background for b in working) / 1e6


@pytest.mark.parametrize("bandwidth", [1e9, 1e10, 1e11])
@pytest.mark.parametrize("zero", [0, 3])
def test_beside(tmp_path, bandwidth, zero):
    """While gradients are reduced and parameters gathered, computation loses its share and nothing else does."""
    def step(beside):
        cluster = dict(network(link("all", bandwidth)), peak_bf16=1e12, beside=beside)
        return run(tmp_path, cluster, devices=2, data=2, batch=2, zero=zero, bucket_bytes=1000000,
                   timeline=tmp_path / "t.json")["time"]["compute"]
    alone, slowed = step(1.0), step(0.75)
    overlapped = beside_of(tmp_path / "t.json")
    assert overlapped > 0.1 * alone or bandwidth > 1e10
    assert slowed - alone == pytest.approx(0.25 * overlapped, rel=1e-4)


@pytest.mark.parametrize("changes,words", [
    (dict(links=[dict(name="all", bandwidth=1e9, latency=0, share=1.5)]), "share"),
    (dict(protocols=[dict(name="LL", share=0.5)]), "`protocols.latency` is missing"),
    (dict(protocols=[dict(name="LL", share=0, latency=0.2)]), "share"),
    (dict(beside=0), "beside"),
])
def test_refused(tmp_path, changes, words):
    assert words in run(tmp_path, dict(network(link("all")), **changes), status=3, tensor=8)

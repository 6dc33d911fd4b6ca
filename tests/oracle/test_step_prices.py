"""Prices of the parts of a step, as a user sees them: the host, the starts of collectives, tiles. Each is compared with a result by hand for a
machine on which nothing else takes time."""
import json
import os
import random
import subprocess

import pytest

TRIREME = os.environ["TRIREME"]
LAYERS, WIDTH, SEQUENCE = 6, 256, 128
MODEL = dict(family="gpt2", num_layers=LAYERS, hidden_size=WIDTH, num_heads=4, vocab_size=64, max_sequence=SEQUENCE)
IDEAL = dict(hypothetical=True, node_devices=8, peak_bf16=1e30, vector_flops=1e30, memory_bytes=64e9, memory_bandwidth=1e30,
             links=[dict(name="all", bandwidth=1e30, latency=0)],
             efficiency=dict(matmul=1, attention=1, memory=1, link=1, launch=0))
SYSTEM = dict(name="some", planned=True)


def simulate(folder, cluster, system=SYSTEM, devices=1, batch=8, **layout):
    for name, value in (("model", MODEL), ("cluster", cluster), ("system", system)):
        (folder / f"{name}.yaml").write_text(json.dumps(value))
    words = ",".join(f"{key}={str(value).lower()}" for key, value in dict(layout, zero=layout.get("zero", 0)).items())
    done = subprocess.run([TRIREME, "simulate", "--model", folder / "model.yaml", "--cluster", folder / "cluster.yaml", "--system",
                           folder / "system.yaml", "--devices", str(devices), "--global-batch", str(batch), "--layout", words, "--json"],
                          capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def with_constants(**changes):
    return dict(IDEAL, efficiency=dict(IDEAL["efficiency"], **changes))


def test_host(tmp_path):
    """If only starts of kernels take time, a step takes the time of one start for each kernel in each micro-batch; a recorded step takes none."""
    once = simulate(tmp_path, with_constants(launch=1e-5), batch=1)["step_s"]
    kernels = once / 1e-5
    assert kernels == pytest.approx(round(kernels), abs=1e-3)
    assert 20 * LAYERS <= kernels <= 60 * LAYERS, "forward and both backwards of some ten operations a layer"
    assert simulate(tmp_path, with_constants(launch=1e-5), batch=8)["step_s"] == pytest.approx(8 * once)
    assert simulate(tmp_path, with_constants(launch=1e-5), dict(SYSTEM, kernels=3), batch=8)["step_s"] == pytest.approx(24 * once)
    assert simulate(tmp_path, with_constants(launch=1e-5), dict(SYSTEM, kernels=0), batch=8)["step_s"] < 1e-9


def test_host_ahead(tmp_path):
    """Host and device work at the same time. With one stage, whose host never waits, a step takes the time of the slower of the two, plus the delay
    of the other at the beginning; not the sum of both, and not that of the slower one in each pass."""
    chance = random.Random(5)
    for _ in range(30):
        rate = 10 ** chance.uniform(11, 14)
        launch = 10 ** chance.uniform(-6, -3)
        micro_batches = chance.choice([1, 3, 20])
        device = simulate(tmp_path, dict(IDEAL, peak_bf16=rate), batch=micro_batches)["step_s"]
        host = simulate(tmp_path, with_constants(launch=launch), batch=micro_batches)["step_s"]
        both = simulate(tmp_path, dict(with_constants(launch=launch), peak_bf16=rate), batch=micro_batches)["step_s"]
        assert max(device, host) * (1 - 1e-9) <= both <= max(device, host) + min(device, host) / micro_batches


def test_host_waits_for_messages(tmp_path):
    """A host that blocks in messages is ahead of nothing when they have come: stages that are host-bound alone are so together."""
    cluster = dict(with_constants(launch=1e-4), peak_bf16=1e13)
    alone = simulate(tmp_path, cluster, batch=8)["step_s"]
    two = simulate(tmp_path, cluster, devices=2, batch=8, pipeline=2)
    assert two["step_s"] >= alone / 2 * (1 + 1 / 8) * 0.95, "the bubble of two stages"
    assert sum(two["time"].values()) == pytest.approx(two["step_s"], rel=1e-9)


@pytest.mark.parametrize("sequence_parallel", [False, True])
def test_starts(tmp_path, sequence_parallel):
    """With tensor parallelism a layer has four collectives (Shoeybi et al. 2019), with sequence parallelism eight (Korthikanti et
    al. 2022: a gather and a scatter for each of them); the later of two ranks whose delays have exponential tails is half
    their mean behind the average."""
    layout = dict(devices=2, tensor=2, sequence_parallel=sequence_parallel)
    free = simulate(tmp_path, with_constants(start=0), **layout)
    charged, fewer = [simulate(tmp_path, with_constants(start=1e-3), batch=batch, **layout) for batch in (8, 4)]
    more = (charged["time"]["tensor"] - fewer["time"]["tensor"]) / 0.5e-3 / 4  # for each micro-batch
    assert more == pytest.approx(round(more), rel=2e-3)
    of_layers = LAYERS * (8 if sequence_parallel else 4)
    assert of_layers <= more <= of_layers + 8, "and those of the embedding, the loss and norms"
    assert charged["time"]["compute"] == pytest.approx(free["time"]["compute"])


def test_tiles(tmp_path):
    """Tiles at edges and incomplete waves cost as much as complete ones."""
    tiled = dict(IDEAL, peak_bf16=1e13, processors=16, tile_fill=0, tiles=[dict(rows=128, columns=128)])
    whole = simulate(tmp_path, tiled)["step_s"]
    ideal = simulate(tmp_path, dict(IDEAL, peak_bf16=1e13))["step_s"]
    assert whole > ideal * 1.05, "tiles stand over edges, and waves are not full"
    finer = dict(tiled, tiles=[dict(rows=128, columns=128), dict(rows=16, columns=16)])
    assert ideal * (1 - 1e-9) <= simulate(tmp_path, finer)["step_s"] <= whole
    halved = simulate(tmp_path, dict(tiled, tiles=[dict(rows=128, columns=128, share=0.5)]))["step_s"]
    assert whole < halved <= 2 * whole


def test_whole_heads(tmp_path):
    """An output layer that no tensor ranks split may be slower than its product; split, it is not."""
    cluster = dict(IDEAL, peak_bf16=1e12)
    slow = dict(SYSTEM, whole_head_share=0.25)
    head = 6 * 8 * SEQUENCE * WIDTH * 64 / 1e12
    more = simulate(tmp_path, cluster, slow)["step_s"] - simulate(tmp_path, cluster)["step_s"]
    assert more == pytest.approx(3 * head, rel=0.02)
    assert simulate(tmp_path, cluster, slow, devices=2, tensor=2)["step_s"] == simulate(tmp_path, cluster, devices=2, tensor=2)["step_s"]


@pytest.mark.parametrize("changes,words", [
    (dict(tiles=[dict(rows=128, columns=128)]), "`tiles` needs `processors`, the number that a device has; set it"),
    (dict(processors=4, tiles=[dict(rows=0, columns=128)]), "rows"),
    (dict(processors=4, tiles=[dict(rows=128, columns=128, share=1.5)]), "share"),
    (dict(processors=-1), "processors"),
])
def test_refused(tmp_path, changes, words):
    (tmp_path / "model.yaml").write_text(json.dumps(MODEL))
    (tmp_path / "cluster.yaml").write_text(json.dumps(dict(IDEAL, **changes)))
    done = subprocess.run([TRIREME, "simulate", "--model", tmp_path / "model.yaml", "--cluster", tmp_path / "cluster.yaml", "--devices",
                           "1", "--global-batch", "8", "--layout", "zero=0"], capture_output=True, text=True, timeout=100)
    assert done.returncode == 3 and words in done.stderr, done.stderr

"""ZeRO 2 and 3 of other systems: gradients that are whole until the last micro-batch, or a reduction for each micro-batch; and the stages that a system has. The
expected numbers are sums by hand."""
import json
import os
import subprocess

import pytest
import yaml

TRIREME = os.environ["TRIREME"]
GIB = 2**30
DEVICES, LINK = 8, 450e9 * 0.75  # dgx-h100: bytes a second of NVLink, and the share of it that collectives reach
PARAMETERS = 8030261248  # of Llama 3 8B


def predict(folder, batch, status=0, layout="tensor=1,data=8,zero=2,micro_batch=1,recompute=full", model="llama-3-8b", devices=DEVICES, sequence=1024, system=None, **keys):
    """Predicts with a system that reduces gradients in fp32 beside nothing, or with a preset."""
    if system is None:
        system = folder / "system.yaml"
        system.write_text(yaml.safe_dump(dict(dict(name="some", planned=False, weight_bytes=2, gradient_bytes=4, state_bytes=12, reduce_bytes=4, gather_bytes=2, levels=False), **keys)))
    command = ["simulate", "--model", model, "--cluster", "dgx-h100", "--devices", devices, "--layout", layout, "--global-batch", batch, "--sequence", sequence, "--system", system, "--json"]
    done = subprocess.run([TRIREME, *map(str, command)], capture_output=True, text=True, timeout=60)
    assert done.returncode == status, done.stderr
    return json.loads(done.stdout) if status == 0 else done.stderr


def reduction_s(batches):
    return batches * PARAMETERS * 4 * (DEVICES - 1) / DEVICES / LINK


@pytest.mark.parametrize("batches", [1, 2, 3, 8, 64])
def test_reductions_and_gradients(tmp_path, batches):
    """Whole gradients cost one reduction a step and 4 bytes a parameter; sharded ones cost a reduction a micro-batch. A step of one micro-batch has both."""
    gather_s = PARAMETERS * 2 * (DEVICES - 1) / DEVICES / LINK
    whole, each = (predict(tmp_path, DEVICES * batches, overlap_reductions=False, overlap_gathers=False, whole_gradients=value) for value in (True, False))
    assert whole["time"]["data"] == pytest.approx(reduction_s(1) + gather_s, rel=0.06)
    assert each["time"]["data"] == pytest.approx(reduction_s(batches) + gather_s, rel=0.06)
    assert each["memory"]["gradients"] == pytest.approx(PARAMETERS * 4 / DEVICES, rel=1e-3)
    assert whole["memory"]["gradients"] == pytest.approx(PARAMETERS * 4 / (DEVICES if batches == 1 else 1), rel=1e-3)
    assert each["step_s"] - whole["step_s"] == pytest.approx(reduction_s(batches - 1), rel=0.06, abs=1e-6)


def test_reductions_overlap_with_the_next_micro_batch(tmp_path):
    """They take no time of their own, but slow the computation to 0.82 of its rate (`beside`)."""
    for zero in (2, 3):
        alone, beside = (predict(tmp_path, DEVICES * 8, layout=f"tensor=1,data=8,zero={zero},micro_batch=1", sequence=8192, whole_gradients=False, overlap_reductions=overlap)
                         for overlap in (False, True))
        assert beside["step_s"] < alone["step_s"] - 0.75 * reduction_s(7)


def test_published_numbers(tmp_path):
    """Llama 3 405B on 8,192 devices keeps 4 bytes a parameter of a stage (1/16 of the layers, 1/8 of each), under ZeRO 2 as under ZeRO 1."""
    found = predict(tmp_path, 2048, layout="tensor=8,pipeline=16,virtual_stages=8,schedule=interleaved,sequence_parallel=true,recompute=selective,micro_batch=1", model="llama-3-405b", devices=8192, sequence=8192,
                    system="llama3-2024")
    assert found["layout"]["zero"] == 2
    assert found["memory"]["gradients"] == pytest.approx(11.88 * GIB, rel=1e-3)


@pytest.mark.parametrize("system, zero, stages", [("megatron-core-2025", 2, "[0,1]"), ("megatron-core-2025", 3, "[0,1]"), ("torchtitan-eager", 0, "[3]"), ("llama3-2024", 1, "[2]"), ("megatron-lm-2021", 1, "[0]")])
def test_stages_that_a_system_lacks(tmp_path, system, zero, stages):
    said = predict(tmp_path, 64, status=3, layout=f"tensor=1,zero={zero}", system=system)
    assert f"layout.zero is {zero}, but the system {system} has only the stages {stages} of ZeRO; set one of these, or choose another --system" in said
    assert predict(tmp_path, 64, layout="tensor=1", system=system)["layout"]["zero"] == json.loads(stages)[0]


def test_a_search_tries_the_stages_of_the_system():
    for system, stages in (("megatron-core-2025", {0, 1}), ("torchtitan-compiled", {3}), ("llama3-2024", {2})):
        command = ["plan", "--model", "llama-3-8b", "--cluster", "dgx-h100", "--devices", 16, "--global-batch", 64, "--sequence", 2048, "--system", system, "--top", 20, "--json"]
        rows = json.loads(subprocess.run([TRIREME, *map(str, command)], capture_output=True, text=True, timeout=300, check=True).stdout)
        assert {row["layout"]["zero"] for row in rows} <= stages


def test_bad_stages(tmp_path):
    assert "zero" in predict(tmp_path, 64, status=3, zero=[4])
    assert "zero" in predict(tmp_path, 64, status=3, zero="two")

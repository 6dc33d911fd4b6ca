"""A cluster's file that was written from data sheets: keys that it leaves out have the values of the presets, so that a prediction for it equals the one for the
preset of the same machine."""
import json
import os
import pathlib
import subprocess

import pytest
import yaml

TRIREME = os.environ["TRIREME"]
CLUSTERS = pathlib.Path(__file__).parents[2] / "configs/clusters"
LEFT_OUT = ("tiles", "processors", "beside")
RUNS = {"405B": ["--model", "llama-3-405b", "--devices", 8192, "--global-batch", 2048, "--sequence", 8192, "--system", "megatron-core-2025",
                 "--layout", "tensor=8,pipeline=16,virtual_stages=8,schedule=interleaved,sequence_parallel=true,zero=1,micro_batch=1"],
        "8B, ZeRO 3": ["--model", "llama-3-8b", "--devices", 64, "--global-batch", 512, "--sequence", 8192, "--layout", "zero=3,micro_batch=1"],
        "Qwen3 30B": ["--model", "qwen3-30b-a3b", "--devices", 16, "--global-batch", 512, "--sequence", 4096, "--layout", "pipeline=2,expert=8,micro_batch=1"]}


def simulate(cluster, words, json_too=True):
    command = ["simulate", "--cluster", cluster, *words] + (["--json"] if json_too else [])
    done = subprocess.run([TRIREME, *map(str, command)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) if json_too else done.stdout


def sheet(folder, preset="dgx-h100", left_out=LEFT_OUT, start=False, **more):
    """The file of a preset without some keys."""
    keys = {key: value for key, value in yaml.safe_load((CLUSTERS / f"{preset}.yaml").read_text()).items() if key not in (*left_out, "also")}
    keys["efficiency"] = {key: value for key, value in keys["efficiency"].items() if start or key != "start"}
    (folder / "sheet.yaml").write_text(yaml.safe_dump(dict(keys, name="sheet", **more)))
    return folder / "sheet.yaml"


@pytest.mark.parametrize("run", RUNS)
def test_as_the_preset(tmp_path, run):
    said = simulate(sheet(tmp_path), RUNS[run], False)
    assert "\nnot in the file of the cluster, so taken from presets: beside 0.82, efficiency.start 20 us, tiles and processors of the chip of " in said
    assert simulate(tmp_path / "sheet.yaml", RUNS[run])["step_s"] == pytest.approx(simulate("dgx-h100", RUNS[run])["step_s"], rel=1e-12)


def test_what_is_there_stays(tmp_path):
    words = RUNS["8B, ZeRO 3"]
    assert "taken from presets" not in simulate("dgx-h100", words, False)
    assert "taken from presets: tiles of the chip of dgx-h100\n" in simulate(sheet(tmp_path, left_out=("tiles",), start=True), words, False)
    assert "taken from presets: beside 0.82\n" in simulate(sheet(tmp_path, left_out=("beside",), start=True), words, False)
    ideal = simulate(sheet(tmp_path, hypothetical=True), words)
    assert ideal["step_s"] < 0.95 * simulate("dgx-h100", words)["step_s"]
    assert "taken from presets" not in simulate(tmp_path / "sheet.yaml", words, False)


def test_presets_without_tiles(tmp_path, monkeypatch):
    """Presets of a user that lack the keys, too, are passed over as chips."""
    (tmp_path / "clusters").mkdir()
    for name in ("one", "two"):
        (tmp_path / f"clusters/{name}.yaml").write_text(sheet(tmp_path).read_text().replace("sheet", name))
    monkeypatch.setenv("TRIREME_CONFIGS", str(tmp_path))
    assert "tiles and processors of the chip of dgx-h100" in simulate("one", RUNS["8B, ZeRO 3"], False)

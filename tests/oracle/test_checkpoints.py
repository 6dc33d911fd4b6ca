"""Promise 3: every checkpoint is universal. It is saved under each of fourteen layouts and resumed under each of fourteen (some of the pairs,
drawn.py); the same for eight layouts with and without context parallelism, and for nine that distribute experts unevenly. The losses
continue as those of one rank that was never stopped, with equal bits if the layout is the same. The contents of the files do not depend on
the layout, and are plain safetensors."""
import json
import os
import shutil
import subprocess

import numpy
import pytest
from drawn import drawn
from parity import yaml_of
from test_layouts import launcher

TOOL = os.path.join(os.environ["TRIREME_TOOLS"], "checkpoint_tool")
STEPS = 3
GPT2 = dict(family="gpt2", num_layers=4, hidden_size=24, num_heads=4, ffn_size=50, vocab_size=61, max_sequence=8, tied=True,
            init_std=0.1)
LLAMA = dict(family="llama", num_layers=4, hidden_size=32, num_heads=4, num_kv_heads=2, ffn_size=42, vocab_size=43,
             max_sequence=8, tied=False, init_std=0.1)
COMMON = dict(num_layers=3, hidden_size=24, num_heads=4, num_kv_heads=2, vocab_size=43, max_sequence=8, init_std=0.1)
MIXTRAL = dict(family="mixtral", **COMMON, num_experts=5, experts_per_token=2, expert_ffn_size=14, balance="sequence", balance_rate=0.1)
DOTS1 = dict(family="dots1", **COMMON, num_experts=7, experts_per_token=3, expert_ffn_size=10, shared_experts=1, ffn_size=30, dense_layers=1,
             balance="bias", balance_rate=0.02)
LAYOUTS = {  # ranks, keys
    "one": (1, {}),
    "recompute": (1, dict(recompute="full", micro_batch=2)),
    "data2": (2, dict(data=2)),
    "zero1": (2, dict(data=2, zero=1, bucket_bytes=3000)),
    "zero3": (2, dict(data=2, zero=3, micro_batch=4, bucket_bytes=3000)),
    "tensor2": (2, dict(tensor=2, sequence_parallel="true")),
    "pipeline2": (2, dict(pipeline=2, schedule="zero-bubble")),
    "zero2-of-3": (3, dict(pipeline=3, micro_batch=2, schedule="gpipe")),
    "tensor2-zero1": (4, dict(tensor=2, data=2, zero=1)),
    "pipeline2-zero3": (4, dict(pipeline=2, data=2, zero=3, micro_batch=2)),
    "interleaved": (4, dict(pipeline=2, virtual_stages=2, schedule="interleaved", data=2, zero=2)),
    "embedding-alone": (2, dict(pipeline=2, balance="layers", embedding_as_layers=9)),
    "both-alone": (4, dict(pipeline=2, virtual_stages=3, schedule="interleaved", data=2, zero=3, micro_batch=2)),
    "stage-layers": (2, dict(pipeline=2, stage_layers="[1,3]")),
    "stage-layers-zero3": (4, dict(pipeline=2, data=2, zero=3, stage_layers="[0,4]", micro_batch=2)),
    "stage-layers-interleaved": (2, dict(pipeline=2, virtual_stages=2, schedule="interleaved", stage_layers="[2,1,1,0]")),
    "regather": (4, dict(tensor=2, pipeline=2, sequence_parallel="true", sequence_regather="true", schedule="zero-bubble")),
    "all": (8, dict(tensor=2, pipeline=2, data=2, zero=1, sequence_parallel="true", micro_batch=2)),
}
SHARED = {  # sequences, by several ranks
    "ring4": (4, dict(context=4, context_exchange="ring")),
    "heads2": (2, dict(context=2, context_exchange="heads", zero=1)),
    "both4": (4, dict(context=4, context_inner=2, zero=2, micro_batch=8, bucket_bytes=3000)),
    "tensor2-context2": (4, dict(tensor=2, context=2, sequence_parallel="true")),
    "context3-pipeline2": (6, dict(context=3, pipeline=2, schedule="zero-bubble")),
    "context2-zero3": (4, dict(context=2, data=2, zero=3, context_exchange="ring", bucket_bytes=3000)),
    "data4": (4, dict(data=4)),
}
EXPERTS = {  # over the ranks of a stage
    "expert2": (2, dict(data=2, expert=2)),
    "expert4-zero3": (4, dict(data=4, expert=4, zero=3, bucket_bytes=3000)),
    "expert2-zero1": (4, dict(data=4, expert=2, zero=1, bucket_bytes=2000)),
    "split2": (2, dict(data=2, expert_tensor=2, micro_batch=2)),
    "tensor2-expert2": (2, dict(tensor=2, expert=2, sequence_parallel="true", expert_capacity=1.0)),
    "folded4": (4, dict(tensor=2, data=2, expert=2, expert_tensor=2, zero=2)),
    "context3-expert3": (3, dict(context=3, expert=3, context_exchange="ring")),
    "pipeline2-expert2": (4, dict(pipeline=2, data=2, expert=2, schedule="zero-bubble", zero=3)),
}
pytestmark = pytest.mark.skipif(shutil.which(os.environ.get("TRIREME_MPIEXEC", "mpiexec")) is None, reason="SKIPPED: there is no mpiexec")


def run_tool(folder, run, names, mode, steps, saved=(), **more):
    """{(layout, saved or None): losses}; one job for each number of ranks."""
    answers = {}
    path = folder / "run.yaml"
    path.write_text(yaml_of(run))
    layouts = {**LAYOUTS, **SHARED, **EXPERTS}
    for ranks in sorted({layouts[name][0] for name in names}):
        lines = [" ".join([name, *(f"layout.{k}={v}" for k, v in layouts[name][1].items()), *(f"{k}={v}" for k, v in more.items())])
                 for name in names if layouts[name][0] == ranks]
        (folder / "layouts").write_text("\n".join(lines) + "\n")
        command = [TOOL, path, folder / "layouts", mode, folder / "saved", steps, *saved]
        command = [*launcher(), "-n", ranks, *command] if ranks > 1 else command
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=900)
        assert done.returncode == 0, (ranks, done.stderr[:1500])
        for line in done.stdout.splitlines():
            answer = json.loads(line)
            answers[answer["layout"], answer["from"]] = numpy.array(answer["losses"])
    return answers


def run_of(model, folder, precision):
    return dict(model=model, data=dict(train="none", sequence=8), layout=dict(micro_batch=1),
                optimizer=dict(global_batch=8, steps=100, lr=1e-2), precision=precision, device="cpu",
                checkpoint=dict(keep=0, shard_bytes=6000), output=str(folder))


@pytest.mark.parametrize("precision,tolerance", [("fp32", 1e-5), ("bf16", 2e-2)])
@pytest.mark.parametrize("model", [GPT2, LLAMA], ids=["gpt2", "llama"])
def test_every_pair(tmp_path, model, precision, tolerance):
    others = [name for name in LAYOUTS if name != "one"]
    check_pairs(tmp_path, run_of(model, tmp_path, precision), ["one", *drawn(others, 3, f"pairs {model['family']} {precision}")], tolerance)


def test_every_pair_that_shares_sequences(tmp_path):
    check_pairs(tmp_path, run_of(GPT2, tmp_path, "fp32"), ["one", *drawn(SHARED, 2, "pairs that share")], 1e-5)


@pytest.mark.parametrize("model", [MIXTRAL, DOTS1], ids=["mixtral", "dots1"])
def test_every_pair_of_experts(tmp_path, model):
    check_pairs(tmp_path, run_of(model, tmp_path, "fp32"), ["one", *drawn(EXPERTS, 2, f"pairs {model['family']}")], 1e-5)


def test_experts_on_disk(tmp_path):
    """Each expert by its own names, whole, whichever rank held which part of it: the same bytes in the same files as from one rank that
    saw the same rows; a router's bias has no moments."""
    run = run_of(DOTS1, tmp_path, "fp32")
    run_tool(tmp_path, run, ["one", *EXPERTS], "save", 1)
    folders = {name: tmp_path / f"saved/{name}/checkpoints/step-00000001" for name in ["one", *EXPERTS]}
    one = tensors_of(folders["one"])
    place = "model.layers.{}.mlp."
    for layer in (1, 2):
        for e in range(7):
            for kind, shape in (("gate", (10, 24)), ("up", (10, 24)), ("down", (24, 10))):
                assert one[f"{place.format(layer)}experts.{e}.{kind}_proj.weight"].shape == shape
        bias = [name for name in one if name.endswith(f"layers.{layer}.mlp.gate.e_score_correction_bias")]
        assert bias == [place.format(layer) + "gate.e_score_correction_bias"]
        steps = one[bias[0]] / 0.02
        assert numpy.abs(steps - numpy.round(steps)).max() < 1e-5 and (numpy.abs(numpy.round(steps)) <= 1).all() and (steps != 0).any()
    assert not any("layers.0.mlp.experts" in name or "layers.0.mlp.gate." in name for name in one)
    for name in EXPERTS:
        found = tensors_of(folders[name])
        assert set(found) == set(one)
        for tensor, values in one.items():
            assert numpy.abs(found[tensor] - values).max() <= 1e-3 * max(numpy.abs(values).max(), 1e-6) + 1e-5, (name, tensor)


def check_pairs(tmp_path, run, names, tolerance):
    through = run_tool(tmp_path / ".", {**run, "output": str(tmp_path / "x")}, names, "save", 2 * STEPS)
    shutil.rmtree(tmp_path / "saved")
    run_tool(tmp_path, run, names, "save", STEPS, **{"checkpoint.async": "true"})
    answers = run_tool(tmp_path, run, names, "resume", STEPS, names)
    assert len(answers) == len(names) ** 2
    expected = through["one", None][STEPS:]
    for (layout, saved), losses in answers.items():
        assert numpy.abs(losses / expected - 1).max() <= tolerance, (layout, saved, losses, expected)
        if layout == saved:
            assert (losses == through[layout, None][STEPS:]).all(), (layout, "differs in bits from the run that was not stopped")


def tensors_of(folder):
    """Returns {name: array} of a folder's safetensors, read without our own code."""
    found = {}
    for path in sorted(folder.glob("*.safetensors")):
        raw = path.read_bytes()
        length = int.from_bytes(raw[:8], "little")
        for name, facts in json.loads(raw[8 : 8 + length]).items():
            if name == "__metadata__":
                continue
            begin, end = (8 + length + at for at in facts["data_offsets"])
            assert facts["dtype"] == "F32"
            found[name] = numpy.frombuffer(raw[begin:end], numpy.float32).reshape(facts["shape"])
    return found


def test_files(tmp_path):
    """One step under layouts whose sums are the same: the same bytes in the same files, whichever ranks wrote them, at once or in
    the background, and the indices say where everything is."""
    run = run_of(GPT2, tmp_path, "fp32")
    names = ["data2", "zero1", "interleaved", "pipeline2-zero3"]
    same = ["data2", "zero1"]
    run_tool(tmp_path, run, names, "save", 1)
    folders = {name: tmp_path / f"saved/{name}/checkpoints/step-00000001" for name in names}
    for name in names:
        files = {path.name for path in folders[name].iterdir()}
        assert {"config.json", "state.json", "COMPLETE", "model.safetensors.index.json", "optimizer.safetensors.index.json"} <= files
        for stem in ("model", "optimizer"):
            index = json.loads((folders[name] / f"{stem}.safetensors.index.json").read_text())["weight_map"]
            shards = sorted(set(index.values()))
            assert len(shards) > 2 and shards == sorted(f for f in files if f.startswith(f"{stem}-0"))
            assert all(shard.endswith(f"-of-{len(shards):05d}.safetensors") for shard in shards)
        assert set(tensors_of(folders[name])) == set(tensors_of(folders["data2"]))
    for path in folders["data2"].glob("*.safetensors"):
        assert path.read_bytes() == (folders["zero1"] / path.name).read_bytes(), (path.name, same)
    (tmp_path / "again").mkdir()
    run_tool(tmp_path / "again", run, same, "save", 1, **{"checkpoint.async": "true"})
    for name in same:
        other = tmp_path / f"again/saved/{name}/checkpoints/step-00000001"
        for path in folders[name].glob("*.safetensors"):
            assert path.read_bytes() == (other / path.name).read_bytes()
        sums = [json.loads((folder / "state.json").read_text())["files"] for folder in (folders[name], other)]
        assert sums[0] == sums[1]


def mix(z):
    """The finalizer of splitmix64."""
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


def test_checksums(tmp_path):
    """The checksums in state.json equal those computed from the files by their definition."""
    run_tool(tmp_path, run_of(LLAMA, tmp_path, "fp32"), ["all"], "save", 1)
    folder = tmp_path / "saved/all/checkpoints/step-00000001"
    recorded = {}
    for facts in json.loads((folder / "state.json").read_text())["files"].values():
        recorded.update(facts.get("tensors", {}))
    tensors = tensors_of(folder)
    assert set(recorded) == set(tensors)
    for name in list(tensors)[::7]:
        bits = tensors[name].view(numpy.uint32).ravel().tolist()
        total = sum(mix((bit + (i + 1) * 0x9E3779B97F4A7C15) % 2**64) for i, bit in enumerate(bits)) % 2**64
        assert f"{total:016x}" == recorded[name], name

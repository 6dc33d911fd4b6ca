"""Promise 3: every checkpoint is universal. Saved under each of fourteen layouts, resumed under each of fourteen: the losses
go on as those of one rank that was never stopped; to the bit where the layout is the same. What is in the files is the
same, whoever wrote it, and plain safetensors."""
import json
import os
import shutil
import subprocess

import numpy
import pytest
from parity import yaml_of
from test_layouts import launcher

TOOL = os.path.join(os.environ["TRIREME_TOOLS"], "checkpoint_tool")
STEPS = 3
GPT2 = dict(family="gpt2", num_layers=4, hidden_size=24, num_heads=4, ffn_size=50, vocab_size=61, max_sequence=8, tied=True,
            init_std=0.1)
LLAMA = dict(family="llama", num_layers=4, hidden_size=32, num_heads=4, num_kv_heads=2, ffn_size=42, vocab_size=43,
             max_sequence=8, tied=False, init_std=0.1)
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
    "all": (8, dict(tensor=2, pipeline=2, data=2, zero=1, sequence_parallel="true", micro_batch=2)),
}
pytestmark = pytest.mark.skipif(shutil.which(os.environ.get("TRIREME_MPIEXEC", "mpiexec")) is None, reason="SKIPPED: there is no mpiexec")


def run_tool(folder, run, names, mode, steps, saved=(), **more):
    """{(layout, saved or None): losses}; one job for each number of ranks."""
    answers = {}
    path = folder / "run.yaml"
    path.write_text(yaml_of(run))
    for ranks in sorted({LAYOUTS[name][0] for name in names}):
        lines = [" ".join([name, *(f"layout.{k}={v}" for k, v in LAYOUTS[name][1].items()), *(f"{k}={v}" for k, v in more.items())])
                 for name in names if LAYOUTS[name][0] == ranks]
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
    run = run_of(model, tmp_path, precision)
    names = list(LAYOUTS)
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
    """Name: array, read by somebody else's library where there is one."""
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
    """One step under layouts whose sums are the same: the same bytes in the same files, whoever wrote them, at once or in
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
    """What state.json records, made again from the files by its definition."""
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

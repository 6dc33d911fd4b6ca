"""import, export and inspect: weights are copied from folder to folder, and bad folders are refused with a message."""
import json
import shutil

import numpy
import pytest
from parity import trireme, yaml_of

MODELS = {
    "gpt2": dict(family="gpt2", num_layers=2, hidden_size=32, num_heads=4, vocab_size=257, max_sequence=32, tied=True),
    "llama": dict(family="llama", num_layers=2, hidden_size=32, num_heads=4, num_kv_heads=2, ffn_size=48, vocab_size=257,
                  max_sequence=32, tied=False),
}


def read_file(path):
    """Header, and {name: bytes}."""
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    header.pop("__metadata__", None)
    return header, {n: raw[8 + length + f["data_offsets"][0] : 8 + length + f["data_offsets"][1]] for n, f in header.items()}


def read_folder(folder, stem="model"):
    header, tensors = {}, {}
    for path in sorted(folder.glob(f"{stem}*.safetensors")):
        more, found = read_file(path)
        header.update(more)
        tensors.update(found)
    return header, tensors


def write_file(path, header, tensors):
    offset, new = 0, {}
    for name, raw in tensors.items():
        new[name] = {**header[name], "data_offsets": [offset, offset + len(raw)]}
        offset += len(raw)
    text = json.dumps(new).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(tensors.values()))


@pytest.fixture(scope="module", params=MODELS)
def made(tmp_path_factory, request):
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "text.txt").write_text("".join(f"Line {i}: pull {i * 7919 % 1000} times.\n" for i in range(500)))
    trireme("prepare", "--tokenizer", "bytes", "--out", folder / "data", folder / "text.txt")
    (folder / "run.yaml").write_text(yaml_of(dict(
        model=MODELS[request.param], data=dict(train=str(folder / "data/train"), sequence=16), layout=dict(micro_batch=2),
        optimizer=dict(global_batch=4, steps=2, lr=1e-2), output=str(folder / "run"))))
    trireme("train", folder / "run.yaml")
    trireme("export", folder / "run", folder / "exported")
    return folder


def test_there_and_back(tmp_path, made):
    checkpoint = made / "run/checkpoints/step-00000002"
    assert read_folder(made / "exported")[1] == read_folder(checkpoint)[1]
    files = {path.name for path in (made / "exported").iterdir()}
    assert files == {"config.json", "tokenizer.json", "model.safetensors", "tokenizer_config.json", "generation_config.json"}
    trireme("import", made / "exported/", tmp_path / "back/", "--shard-bytes", 9000)
    assert read_folder(tmp_path / "back")[1] == read_folder(checkpoint)[1]
    assert (tmp_path / "back/model.safetensors.index.json").exists() and (tmp_path / "back/COMPLETE").exists()
    assert "every size and checksum agrees" in trireme("inspect", tmp_path / "back", "--verify").stdout
    assert "tensors are equal" in trireme("inspect", made / "exported", tmp_path / "back").stdout
    before = [p.stat().st_mtime_ns for p in sorted((tmp_path / "back").iterdir())]
    done = trireme("train", made / "run.yaml", "--resume", tmp_path / "back", "--set", f"output={tmp_path}/run")
    assert "after step 0" in done.stderr
    assert [p.stat().st_mtime_ns for p in sorted((tmp_path / "back").iterdir())] == before
    mine = [trireme("eval", folder, made / "data/train", "--sequence", 16).stdout for folder in (tmp_path / "back", made / "run")]
    assert mine[0] and mine[0].splitlines()[-1] == mine[1].splitlines()[-1]


def test_bf16(tmp_path, made):
    """Rounded to nearest even, as numpy does it with integers."""
    trireme("export", made / "run", tmp_path / "half", "--precision", "bf16")
    header, half = read_folder(tmp_path / "half")
    _, whole = read_folder(made / "exported")
    assert set(half) == set(whole) and all(facts["dtype"] == "BF16" for facts in header.values())
    for name, raw in whole.items():
        bits = numpy.frombuffer(raw, numpy.uint32).astype(numpy.uint64)
        rounded = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(numpy.uint16)
        assert rounded.tobytes() == half[name], name
    assert json.loads((tmp_path / "half/config.json").read_text())["torch_dtype"] == "bfloat16"
    trireme("export", made / "run", tmp_path / "in their words", "--dtype", "bfloat16")
    assert read_folder(tmp_path / "in their words") == (header, half)
    trireme("import", tmp_path / "half", tmp_path / "ours")
    done = trireme("inspect", tmp_path / "ours", made / "exported", status=1)
    assert "differs in" in done.stdout and "tensors differ" in done.stderr
    assert "tensors are equal" in trireme("inspect", tmp_path / "ours", tmp_path / "half").stdout


def test_inspect(tmp_path, made):
    shown = trireme("inspect", made / "run").stdout
    assert "step 2, 8 samples" in shown and "saved under the layout" in shown and "micro_batch: 2" in shown
    facts = json.loads(trireme("inspect", made / "run", "--json", "--verify").stdout)
    assert facts["step"] == 2 and facts["verified"] is True
    header, _ = read_folder(made / "run/checkpoints/step-00000002")
    assert {t["name"]: t["shape"] for t in facts["tensors"] if ".exp_avg" not in t["name"]} == {n: f["shape"] for n, f in header.items()}
    done = trireme("inspect", made / "run", made / "exported", status=1)
    assert "exp_avg_sq is in the first alone" in done.stdout
    broken = tmp_path / "broken"
    shutil.copytree(made / "run/checkpoints/step-00000002", broken)
    raw = bytearray((broken / "optimizer.safetensors").read_bytes())
    raw[-5] ^= 4
    (broken / "optimizer.safetensors").write_bytes(raw)
    done = trireme("inspect", broken, "--verify", status=4)
    assert "optimizer.safetensors: tensor `" in done.stderr and "is damaged" in done.stderr
    done = trireme("inspect", made / "exported", "--verify", status=4)
    assert f"{made / 'exported'} has no checksums to compare" in done.stderr


def test_wrong_folders(tmp_path, made):
    good = made / "exported"

    def spoiled(name):
        folder = tmp_path / name
        shutil.copytree(good, folder)
        return folder

    done = trireme("import", good, good, status=2)
    assert "already exists" in done.stderr
    assert "is not a folder" in trireme("import", good / "config.json", tmp_path / "x", status=4).stderr
    header, tensors = read_file(good / "model.safetensors")
    name = next(n for n in tensors if n.endswith("weight") and len(header[n]["shape"]) == 2 and "0" in n)
    missing = spoiled("missing")
    write_file(missing / "model.safetensors", header, {n: raw for n, raw in tensors.items() if n != name})
    done = trireme("import", missing, tmp_path / "x", status=4)
    assert f"has no tensor `{name}`" in done.stderr
    extra = spoiled("extra")
    write_file(extra / "model.safetensors", {**header, "adapter.weight": header[name]}, {**tensors, "adapter.weight": tensors[name]})
    assert "no place for the tensor `adapter.weight`" in trireme("import", extra, tmp_path / "x", status=4).stderr
    empty = spoiled("empty")  # transformers writes shared experts like this if a model has none
    write_file(empty / "model.safetensors", {**header, "adapter.weight": {**header[name], "shape": [0, 8]}}, {**tensors, "adapter.weight": b""})
    trireme("import", empty, tmp_path / "taken")
    shape = spoiled("shape")
    turned = {**header, name: {**header[name], "shape": header[name]["shape"] + [1]}}
    write_file(shape / "model.safetensors", turned, tensors)
    assert "has shape" in trireme("import", shape, tmp_path / "x", status=4).stderr
    cut = spoiled("cut")
    (cut / "model.safetensors").write_bytes((good / "model.safetensors").read_bytes()[:-100])
    assert "model.safetensors" in trireme("import", cut, tmp_path / "x", status=4).stderr
    other = spoiled("other")
    config = json.loads((good / "config.json").read_text())
    (other / "config.json").write_text(json.dumps({**config, "model_type": "mamba", "architectures": ["MambaForCausalLM"]}))
    assert "mamba" in trireme("import", other, tmp_path / "x", status=7).stderr
    assert "--precision is fp32 or bf16" in trireme("export", made / "run", tmp_path / "x", "--precision", "int8", status=2).stderr
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("x")]

"""Folders of PEFT's that are made by hand here: evaluated, written, merged and refused. What adapters are to a training
run is test_lora.py's."""
import json
import math
import pathlib
import re
import shutil
import subprocess

import models
import numpy
import pytest
import torch
from parity import trireme, words_of, yaml_of
from safetensors.numpy import load_file, save_file

MODELS = {
    "gpt2": dict(family="gpt2", num_layers=2, hidden_size=16, num_heads=2, vocab_size=257, max_sequence=32),
    "llama": dict(family="llama", num_layers=2, hidden_size=16, num_heads=4, num_kv_heads=2, ffn_size=24, vocab_size=257,
                  max_sequence=32),
    "qwen3": dict(family="qwen3", num_layers=2, hidden_size=16, num_heads=4, num_kv_heads=2, head_dim=8, ffn_size=24,
                  vocab_size=257, max_sequence=32),
}
TARGETS = {"gpt2": ["c_attn", "c_proj", "c_fc"], "llama": ["q_proj", "v_proj", "down_proj"], "qwen3": ["k_proj", "o_proj", "up_proj"]}
RANK, ALPHA = 3, 6


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A base of each family, a checkpoint of ours and the Hugging Face folder that comes of it, and a text."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "text.txt").write_text("".join(f"Oars {i} of {i * 7919 % 1000}.\n" for i in range(60)))
    trireme("prepare", "--tokenizer", "bytes", "--out", folder / "data", folder / "text.txt")
    for name, model in MODELS.items():
        (folder / f"{name}.yaml").write_text(yaml_of(dict(
            model=model, data=dict(train=str(folder / "data/train"), sequence=16), layout=dict(micro_batch=2),
            optimizer=dict(global_batch=2, steps=1, lr=1e-2), evaluation=dict(every=0), output=str(folder / f"run-{name}"))))
        trireme("train", folder / f"{name}.yaml")
        trireme("export", folder / f"run-{name}", folder / name)
    return folder


def drawn(shape, seed):
    """Of few bits, so that sums of products with them are exact in fp64."""
    return numpy.random.default_rng(seed).integers(-32, 33, shape).astype(numpy.float64) / 64


def matrices(weights, family):
    """Names of modules, with the sizes in and out of each."""
    for name, value in sorted(weights.items()):
        module = name.removesuffix(".weight")
        if value.ndim == 2 and module.split(".")[-1] in TARGETS[family]:
            size = value.shape if family == "gpt2" else value.shape[::-1]
            yield module, size


def factors_of(weights, family, seed=5):
    out = {}
    for k, (module, (into, outof)) in enumerate(matrices(weights, family)):
        out[f"{module}.lora_A.weight"] = drawn((RANK, into), seed + 2 * k)
        out[f"{module}.lora_B.weight"] = drawn((outof, RANK), seed + 2 * k + 1)
    return out


def settings(family, base, **more):
    """As PEFT 0.14 writes them."""
    return dict(dict(
        alpha_pattern={}, auto_mapping=None, base_model_name_or_path=base, bias="none", corda_config=None, eva_config=None,
        exclude_modules=None, fan_in_fan_out=family == "gpt2", inference_mode=True, init_lora_weights=True,
        layer_replication=None, layers_pattern=None, layers_to_transform=None, loftq_config={}, lora_alpha=ALPHA,
        lora_bias=False, lora_dropout=0.05, megatron_config=None, megatron_core="megatron.core", modules_to_save=None,
        peft_type="LORA", r=RANK, rank_pattern={}, revision=None, target_modules=TARGETS[family], task_type="CAUSAL_LM",
        use_dora=False, use_rslora=False), **more)


def write_adapter(path, family, base, extra=None, drop=(), dtype=numpy.float32, **more):
    weights = load_file(pathlib.Path(base) / "model.safetensors")
    tensors = {**factors_of(weights, family), **(extra or {})}
    path.mkdir()
    save_file({f"base_model.model.{name}": value.astype(dtype) for name, value in tensors.items() if name not in drop},
              path / "adapter_model.safetensors", metadata={"format": "pt"})
    (path / "adapter_config.json").write_text(json.dumps(settings(family, str(base), **more)))
    return path


def merged(weights, family, seed=5):
    factors = factors_of(weights, family, seed)
    out = {name: value.astype(numpy.float64) for name, value in weights.items()}
    for module, _ in matrices(weights, family):
        product = ALPHA / RANK * (factors[f"{module}.lora_B.weight"] @ factors[f"{module}.lora_A.weight"])
        out[f"{module}.weight"] += product.T if family == "gpt2" else product
    return out


def refused(*arguments):
    ended = subprocess.run(words_of(*arguments), capture_output=True, text=True)
    assert ended.returncode != 0, ended.stdout
    return ended.stderr


def read_bf16(path):
    """The values of a file of bf16 tensors, as fp64."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header, out = json.loads(data[8:8 + length]), {}
    for name, facts in header.items():
        if name == "__metadata__":
            continue
        assert facts["dtype"] == "BF16"
        begin, end = facts["data_offsets"]
        bits = numpy.frombuffer(data[8 + length + begin:8 + length + end], numpy.uint16).astype(numpy.uint32) << 16
        out[name] = bits.view(numpy.float32).astype(numpy.float64).reshape(facts["shape"])
    return out


def nearest_bf16(values):
    """Of fp64: rounded once, to the even one of two that are as near."""
    exponent = numpy.frexp(values)[1] - 8
    return numpy.ldexp(numpy.rint(numpy.ldexp(values, -exponent)), exponent)


@pytest.mark.parametrize("family", MODELS)
def test_export_merge(made, tmp_path, family):
    adapter = write_adapter(tmp_path / "adapter", family, made / family)
    weights = load_file(made / family / "model.safetensors")
    trireme("export", adapter, tmp_path / "single", "--merge")
    trireme("export", adapter, tmp_path / "half", "--merge", "--precision", "bf16")
    expected, single = merged(weights, family), load_file(tmp_path / "single/model.safetensors")
    half = read_bf16(tmp_path / "half/model.safetensors")
    assert single.keys() == half.keys() == weights.keys()
    changed = 0
    for name, value in expected.items():
        assert numpy.array_equal(single[name], value.astype(numpy.float32)), name
        assert numpy.array_equal(half[name], nearest_bf16(value)), name
        changed += not numpy.array_equal(single[name], weights[name])
    assert changed == len(list(matrices(weights, family)))
    config = json.loads((tmp_path / "single/config.json").read_text())
    assert config == json.loads((made / family / "config.json").read_text())
    assert (tmp_path / "single/tokenizer.json").read_bytes() == (made / family / "tokenizer.json").read_bytes()
    assert not (tmp_path / "single/adapter_config.json").exists()
    trireme("export", tmp_path / "single", tmp_path / "again")


def eval_loss(folder, made, *options):
    out = trireme("eval", folder, made / "data/train", "--sequence", 16, "--batch", 2, "--precision", "fp64", "--device",
                  "reference", "--json", *options).stdout
    return json.loads(out)["loss"]


@pytest.mark.parametrize("family", MODELS)
def test_eval(made, tmp_path, family):
    """The mean loss of PyTorch's model in fp64 with the products added; and what is generated is what the merged model does."""
    adapter = write_adapter(tmp_path / "adapter", family, made / family)
    w = {name: torch.tensor(value) for name, value in merged(load_file(made / family / "model.safetensors"), family).items()}
    ids = torch.tensor(numpy.fromfile(made / "data/train.bin", numpy.uint16).astype(numpy.int64))
    total = count = 0
    for first in range(0, len(ids) - 1, 16):
        part = ids[first:first + 17]
        total += float(models.loss(models.complete(MODELS[family]), w, part[None, :-1], part[None, 1:])) * (len(part) - 1)
        count += len(part) - 1
    assert eval_loss(adapter, made) == pytest.approx(total / count, rel=1e-12)
    assert eval_loss(adapter, made, "--base", made / f"run-{family}") == pytest.approx(total / count, rel=1e-12)
    assert abs(eval_loss(made / family, made) - total / count) > 1e-4
    trireme("export", adapter, tmp_path / "merged", "--merge")
    words = ["--prompt", "Oars", "--tokens", 5, "--temperature", 0, "--tokenizer", made / f"run-{family}/checkpoints/step-00000001/tokenizer.json"]
    written = [trireme("generate", path, *words, errors="replace").stdout for path in (adapter, tmp_path / "merged", made / family)]
    assert written[0] == written[1] != written[2]


@pytest.mark.parametrize("family", MODELS)
def test_export_adapter(made, tmp_path, family):
    adapter = write_adapter(tmp_path / "adapter", family, made / family)
    trireme("export", adapter, tmp_path / "copy")
    assert {path.name for path in (tmp_path / "copy").iterdir()} == {"adapter_model.safetensors", "adapter_config.json"}
    before, after = (load_file(path / "adapter_model.safetensors") for path in (adapter, tmp_path / "copy"))
    assert before.keys() == after.keys() and all(numpy.array_equal(before[name], after[name]) for name in before)
    assert (tmp_path / "copy/adapter_config.json").read_text() == (adapter / "adapter_config.json").read_text()
    assert eval_loss(tmp_path / "copy", made) == eval_loss(adapter, made)


def test_saved_modules(made, tmp_path):
    """What PEFT's modules_to_save has goes before the base's."""
    weights = load_file(made / "llama/model.safetensors")
    norm, name = weights["model.norm.weight"] * 2, "model.norm.weight"
    adapter = write_adapter(tmp_path / "adapter", "llama", made / "llama", {name: norm}, modules_to_save=["norm"])
    trireme("export", adapter, tmp_path / "merged", "--merge")
    assert numpy.array_equal(load_file(tmp_path / "merged/model.safetensors")[name], norm)
    assert eval_loss(adapter, made) != eval_loss(made / "llama", made)


def test_inspect(made, tmp_path):
    adapter = write_adapter(tmp_path / "adapter", "llama", made / "llama")
    text = trireme("inspect", adapter).stdout
    assert "an adapter (LoRA) of rank 3, alpha 6, dropout 0.05, on q_proj, v_proj, down_proj" in text
    assert f"its base: {made / 'llama'}" in text
    said = json.loads(trireme("inspect", adapter, "--json").stdout)
    assert said["adapter"]["rank"] == 3 and said["adapter"]["base"] == str(made / "llama")
    assert "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight" in [t["name"] for t in said["tensors"]]
    assert said["adapter"]["scaling"] == "lora" and said["adapter"]["init"] == "kaiming" and said["adapter"]["magnitude"] is False
    assert said["adapter"]["rank_pattern"] == {} and said["adapter"]["ensure_weight_tying"] is False
    weights = load_file(made / "llama/model.safetensors")
    magnitudes = {f"{module}.lora_magnitude_vector": numpy.ones(weights[f"{module}.weight"].shape[0], numpy.float32) for module, _ in matrices(weights, "llama")}
    adapter = write_adapter(tmp_path / "more", "llama", made / "llama", magnitudes, use_rslora=True, use_dora=True, init_lora_weights="gaussian", rank_pattern={"q_proj": RANK},
                            alpha_pattern={"v_proj": 5})
    assert "rank 3, alpha 6 over the root of the rank (rsLoRA), rank 3 at q_proj, alpha 5 at v_proj, with magnitudes (DoRA), dropout" in trireme("inspect", adapter).stdout
    said = json.loads(trireme("inspect", adapter, "--json").stdout)["adapter"]
    assert (said["scaling"], said["init"], said["magnitude"], said["rank_pattern"], said["alpha_pattern"]) == ("rslora", "gaussian", True, {"q_proj": 3}, {"v_proj": 5})


def test_magnitudes_that_do_not_belong(made, tmp_path):
    """use_dora of adapter_config.json must agree with the tensors, and magnitudes need factors."""
    q, gate = (f"model.layers.0.{module}.lora_magnitude_vector" for module in ("self_attn.q_proj", "mlp.gate_proj"))
    rows = load_file(made / "llama/model.safetensors")["model.layers.0.self_attn.q_proj.weight"].shape[0]
    length = numpy.ones(rows, numpy.float32)
    said = refused("eval", write_adapter(tmp_path / "a", "llama", made / "llama", use_dora=True), made / "data/train")
    assert "has no magnitudes of `model.layers.0." in said and "`use_dora` of adapter_config.json is true" in said
    said = refused("eval", write_adapter(tmp_path / "b", "llama", made / "llama", {q: length}), made / "data/train")
    assert "has magnitudes of `model.layers.0.self_attn.q_proj.weight`, but `use_dora` of adapter_config.json is false" in said
    said = refused("eval", write_adapter(tmp_path / "c", "llama", made / "llama", {gate: length}, use_dora=True), made / "data/train")
    assert "magnitudes of `model.layers.0.mlp.gate_proj.weight`, but no factors" in said or "has no magnitudes of" in said


def signature_of(made, family, tmp_path):
    """Refusals name it."""
    adapter = write_adapter(tmp_path / "asked", family, made / family, trireme={"base": "0" * 16})
    words = refused("eval", adapter, made / "data/train")
    shutil.rmtree(adapter)
    return words.split(" is ")[-1].split(";")[0].split()[0]


def test_signature(made, tmp_path):
    """Another base is refused by name with both signatures; values are compared where both have checksums."""
    own = signature_of(made, "llama", tmp_path)
    assert len(own) == 16 and own != signature_of(made, "qwen3", tmp_path)
    good = write_adapter(tmp_path / "good", "llama", made / "llama", trireme={"base": own})
    eval_loss(good, made)
    other = tmp_path / "other"
    shutil.copytree(made / "llama", other)
    config = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps({**config, "rope_theta": 500000.0}))
    words = refused("eval", good, made / "data/train", "--base", other)
    assert own in words and str(made / "llama") in words and str(other) in words and "--base" in words
    (other / "config.json").write_text(json.dumps({**config, "attention_dropout": 0.1, "initializer_range": 0.5}))
    eval_loss(good, made, "--base", other)
    values = write_adapter(tmp_path / "values", "llama", made / "llama", trireme={"base": own, "base_values": "0" * 16})
    eval_loss(values, made)
    assert "(values 0000000000000000)" in refused("eval", values, made / "data/train", "--base", made / "run-llama")
    eval_loss(values, made, "--base", made / "run-llama", "--no-verify")


BAD_SETTINGS = {
    "use_rslora": (dict(use_rslora=1), "use_rslora"), "use_dora": (dict(use_dora=True), "use_dora"),
    "rank_pattern": (dict(rank_pattern={"q_proj": RANK + 1}), "rank `rank_pattern`"), "bias": (dict(bias="lora_only"), "bias"),
    "alpha_pattern": (dict(alpha_pattern={"q_proj": "4"}), "alpha_pattern"), "peft_type": (dict(peft_type="IA3"), "peft_type"),
    "task_type": (dict(task_type="SEQ_CLS"), "task_type"), "pissa": (dict(init_lora_weights="pissa_niter_4"), "init_lora_weights"),
    "new": (dict(a_new_kind=[1]), "a_new_kind"), "rank": (dict(r=1 << 30), "`r`"), "no rank": (dict(r=None), "`r`"),
    "below": (dict(r=0), "`r`"), "word": (dict(r="8"), "`r`"), "no alpha": (dict(lora_alpha=None), "lora_alpha"),
    "alpha": (dict(lora_alpha=-1), "lora_alpha"), "dropout": (dict(lora_dropout=1.5), "lora_dropout"),
    "targets": (dict(target_modules=[3]), "target_modules"), "other rank": (dict(r=2), "rank `r`"),
    "signature": (dict(trireme={"base": "x"}), "base"), "no base": (dict(base_model_name_or_path=None), "--base"),
    "absent base": (dict(base_model_name_or_path="meta-llama/Llama-3.2-1B"), "meta-llama/Llama-3.2-1B.*--base"),
}


DEFAULTS = json.loads((pathlib.Path(__file__).parent / "peft_defaults.json").read_text())


def test_absent_settings(made, tmp_path):
    """A key that adapter_config.json lacks means what it means to PEFT: its default (make_peft_defaults.py), written into the file, makes the same
    adapter as the file without the key. A file without rank or alpha is refused."""
    without_default, faults = {"r", "lora_alpha", "peft_type", "base_model_name_or_path", "target_modules"}, []
    for key in sorted({*DEFAULTS, *settings("llama", "")} - without_default):
        said = []
        for name, more in (("absent", {}), ("written", {key: DEFAULTS.get(key)})):
            adapter = write_adapter(tmp_path / f"{key}-{name}", "llama", made / "llama")
            config = {other: value for other, value in settings("llama", str(made / "llama")).items() if other != key}
            (adapter / "adapter_config.json").write_text(json.dumps({**config, **more}))
            ended = subprocess.run(words_of("export", adapter, tmp_path / "merged", "--merge", "--force"), capture_output=True, text=True)
            said.append((ended.returncode, ended.stderr.replace(adapter.name, ""),
                         (tmp_path / "merged/model.safetensors").read_bytes() if ended.returncode == 0 else b"",
                         {k: v for k, v in json.loads(trireme("inspect", adapter, "--json").stdout)["adapter"].items() if k != "path"}))
        if said[0] != said[1]:
            faults.append((key, DEFAULTS.get(key), said[0][1], said[1][1]))
    assert not faults, faults
    for key in ("r", "lora_alpha"):
        adapter = write_adapter(tmp_path / f"no-{key}", "llama", made / "llama")
        config = {other: value for other, value in settings("llama", str(made / "llama")).items() if other != key}
        (adapter / "adapter_config.json").write_text(json.dumps(config))
        assert f"`{key}`" in refused("eval", adapter, made / "data/train")


@pytest.mark.parametrize("case", BAD_SETTINGS)
def test_bad_settings(made, tmp_path, case):
    change, words = BAD_SETTINGS[case]
    adapter = write_adapter(tmp_path / "adapter", "llama", made / "llama", **change)
    said = refused("eval", adapter, made / "data/train")
    assert re.search(words, said, re.DOTALL), said
    assert not (tmp_path / "out").exists()


def test_bad_folders(made, tmp_path):
    data = made / "data/train"
    adapter = write_adapter(tmp_path / "adapter", "llama", made / "llama")
    for text in ("", "{", "[]", '{"r": 8, "r": 9}', "\xff", "{}"):
        bad = tmp_path / "bad"
        shutil.copytree(adapter, bad)
        (bad / "adapter_config.json").write_text(text, encoding="latin-1")
        assert "adapter_config.json" in refused("eval", bad, data)
        shutil.rmtree(bad)
    module = "model.layers.1.self_attn.q_proj"
    cases = {
        "one factor": (dict(drop=[f"{module}.lora_B.weight"]), "one of the two factors of `model.layers.1.self_attn.q_proj.weight`"),
        "no place": (dict(extra={"score.weight": drawn((2, 2), 1)}), "no place for the tensor `base_model.model.score.weight`"),
        "shape": (dict(extra={f"{module}.lora_B.weight": drawn((5, RANK), 1)}), "has shape \\[5, 3\\]"),
        "no rank": (dict(extra={f"{module}.lora_B.weight": drawn((16, RANK + 1), 1)}), "have shapes \\[3, 16\\] and \\[16, 4\\], which are not those of one rank"),
        "another rank": (dict(r=RANK + 1), "has shape \\[3, 24\\], but the rank `r` of adapter_config.json is 4"),
        "no factor": (dict(extra={f"{module}.lora_C.weight": drawn((2, 2), 1)}), "lora_C.weight` is neither a factor"),
        "not a number": (dict(extra={f"{module}.lora_B.weight": numpy.full((16, RANK), math.nan)}), "NaN"),
    }
    for name, (change, words) in cases.items():
        bad = write_adapter(tmp_path / f"bad {name}", "llama", made / "llama", **change)
        for command in (["eval", bad, data], ["export", bad, tmp_path / "out", "--merge"], ["export", bad, tmp_path / "out"]):
            said = refused(*command)
            assert re.search(words, said), said
            assert not (tmp_path / "out").exists()
    bad = write_adapter(tmp_path / "empty", "llama", made / "llama")
    save_file({}, bad / "adapter_model.safetensors")
    for command in (["eval", bad, data], ["export", bad, tmp_path / "out", "--merge"], ["export", bad, tmp_path / "out"], ["inspect", bad]):
        assert f"{bad} is an adapter without tensors" in refused(*command)
    bad = write_adapter(tmp_path / "rank", "llama", made / "llama", r=RANK + 1)
    done = trireme("inspect", bad, status=4)
    assert "q_proj.lora_B.weight" in done.stdout and "but the rank `r`" in done.stderr  # the contents are printed before the fault
    away = write_adapter(tmp_path / "away", "llama", made / "llama")
    (away / "adapter_config.json").write_text(json.dumps(settings("llama", "nobody/nothing")))
    assert "the tensors were not compared with the base" in trireme("export", away, tmp_path / "copied").stderr
    assert "is itself an adapter, not a base" in refused("eval", adapter, data, "--base", adapter)
    assert "is not an adapter" in refused("eval", made / "llama", data, "--base", made / "llama")
    assert "--merge is for an adapter" in refused("export", made / "llama", tmp_path / "out", "--merge")
    assert "--base goes with --merge" in refused("export", adapter, tmp_path / "out", "--base", made / "llama")
    assert "is an adapter" in refused("import", adapter, tmp_path / "out")
    assert "adapter" in refused("inspect", "--model", adapter)


def run_file(made, family, output, **more):
    return yaml_of(dict(dict(
        model=str(made / family), init=str(made / f"run-{family}"), adapter=dict(rank=RANK, alpha=ALPHA, targets=TARGETS[family]),
        data=dict(train=str(made / "data/train"), sequence=16), layout=dict(micro_batch=2),
        optimizer=dict(global_batch=2, steps=4, lr=1e-2), checkpoint=dict(every=2), evaluation=dict(every=0),
        output=str(output)), **more))


def train(tmp_path, text, *options, name="run.yaml"):
    (tmp_path / name).write_text(text)
    return trireme("train", tmp_path / name, *options)


@pytest.mark.parametrize("family", MODELS)
def test_run(made, tmp_path, family):
    """A run saves a PEFT folder, which is evaluated, exported and merged like others."""
    train(tmp_path, run_file(made, family, tmp_path / "run"))
    saved = tmp_path / "run/checkpoints/step-00000004"
    base = made / f"run-{family}/checkpoints/step-00000001"
    weights, factors = load_file(made / family / "model.safetensors"), load_file(saved / "adapter_model.safetensors")
    assert {name: value.shape for name, value in factors.items()} == {
        f"base_model.model.{name}": value.shape for name, value in factors_of(weights, family).items()}
    assert not (saved / "model.safetensors").exists() and (saved / "config.json").exists()
    config = json.loads((saved / "adapter_config.json").read_text())
    for key in ("r", "lora_alpha", "fan_in_fan_out", "peft_type", "task_type", "bias", "target_modules", "inference_mode"):
        assert config[key] == settings(family, "")[key], key
    assert config["base_model_name_or_path"] == str(base)
    state = json.loads((saved / "state.json").read_text())["progress"]["identity"]["base"]
    assert state == {"path": str(base), "signature": config["trireme"]["base"], "values": config["trireme"]["base_values"]}
    trireme("inspect", saved, "--verify")
    trireme("export", tmp_path / "run", tmp_path / "peft")
    copied = load_file(tmp_path / "peft/adapter_model.safetensors")
    assert all(numpy.array_equal(copied[name], value) for name, value in factors.items()) and len(copied) == len(factors)
    trireme("export", tmp_path / "run", tmp_path / "merged", "--merge")
    whole = load_file(tmp_path / "merged/model.safetensors")
    for module, _ in matrices(weights, family):
        a, b = (factors[f"base_model.model.{module}.lora_{which}.weight"].astype(numpy.float64) for which in "AB")
        expected = weights[f"{module}.weight"] + (ALPHA / RANK * (b @ a)).T if family == "gpt2" else weights[
            f"{module}.weight"] + ALPHA / RANK * (b @ a)
        assert numpy.abs(whole[f"{module}.weight"] - expected).max() <= 2e-7 * numpy.abs(expected).max()
        assert numpy.abs(b).max() > 0
    loss = eval_loss(tmp_path / "run", made)
    assert loss < eval_loss(made / family, made)
    assert eval_loss(tmp_path / "peft", made) == loss
    assert eval_loss(tmp_path / "merged", made) == pytest.approx(loss, rel=1e-6)


def losses_of(output):
    lines = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    return {line["step"]: line["loss"] for line in lines if "loss" in line and "step" in line}


def test_run_goes_on(made, tmp_path):
    """From its own checkpoint to the bit; on another base it does not."""
    train(tmp_path, run_file(made, "llama", tmp_path / "whole"))
    train(tmp_path, run_file(made, "llama", tmp_path / "parts"))
    shutil.rmtree(tmp_path / "parts/checkpoints/step-00000004")
    train(tmp_path, run_file(made, "llama", tmp_path / "parts"))
    name = "checkpoints/step-00000004/adapter_model.safetensors"
    assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "parts" / name).read_bytes()
    other = tmp_path / "other"
    train(tmp_path, yaml_of(dict(model=MODELS["llama"], data=dict(train=str(made / "data/train"), sequence=16), seed=7,
                                 layout=dict(micro_batch=2), optimizer=dict(global_batch=2, steps=1, lr=1e-2),
                                 evaluation=dict(every=0), output=str(other))), name="other.yaml")
    (tmp_path / "run.yaml").write_text(run_file(made, "llama", tmp_path / "whole", init=str(other)))
    said = refused("train", tmp_path / "run.yaml", "--set", "optimizer.steps=6")
    signature = json.loads((tmp_path / "whole/checkpoints/step-00000004/adapter_config.json").read_text())["trireme"]
    assert "adapter" in said and signature["base_values"] in said and str(other) in said, said


def test_run_begins_with_factors(made, tmp_path):
    """adapter.from a folder of PEFT's: a run of no steps' loss is that of the folder."""
    adapter = write_adapter(tmp_path / "adapter", "llama", made / "llama")
    keys = dict(rank=RANK, alpha=ALPHA, targets=TARGETS["llama"])
    optimizer = dict(global_batch=2, steps=1, lr=1e-12)
    train(tmp_path, run_file(made, "llama", tmp_path / "run", adapter={**keys, "from": str(adapter)}, optimizer=optimizer))
    before, after = (load_file(path / "adapter_model.safetensors")
                     for path in (adapter, tmp_path / "run/checkpoints/step-00000001"))
    assert before.keys() == after.keys() and all(numpy.abs(before[name] - after[name]).max() < 1e-6 for name in before)
    for change, words in (({"rank": 2}, "rank"), ({"alpha": 3}, "alpha"), ({"from": str(made / "llama")}, "adapter")):
        (tmp_path / "bad.yaml").write_text(run_file(made, "llama", tmp_path / "bad", optimizer=optimizer,
                                                    adapter={**keys, "from": str(adapter), **change}))
        assert words in refused("train", tmp_path / "bad.yaml")
    (tmp_path / "bad.yaml").write_text(run_file(made, "llama", tmp_path / "bad", init=str(tmp_path / "run")))
    assert "is an adapter, not a base model" in refused("train", tmp_path / "bad.yaml")


def test_run_with_more_trained(made, tmp_path):
    """adapter.train is PEFT's modules_to_save."""
    keys = dict(rank=RANK, alpha=ALPHA, targets=TARGETS["llama"], train=["*norm.weight"])
    train(tmp_path, run_file(made, "llama", tmp_path / "run", adapter=keys))
    saved = tmp_path / "run/checkpoints/step-00000004"
    config, tensors = json.loads((saved / "adapter_config.json").read_text()), load_file(saved / "adapter_model.safetensors")
    modules = {name.removeprefix("base_model.model.").removesuffix(".weight") for name in tensors if "lora_" not in name}
    assert set(config["modules_to_save"]) == modules and "model.layers.0.input_layernorm" in modules and "model.norm" in modules
    assert eval_loss(saved, made) < eval_loss(made / "llama", made)

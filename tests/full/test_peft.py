"""Compares adapters with those of PEFT: first the plain adapters of tests/oracle/lora.py, which all tests of adapters use, then the
program. The gradients of A and B agree to 1e-10; each of the two programs loads the files of the other and finds the same loss, merged
or not. All is in double: the models of transformers compute norms, angles and softmax in single precision, which
transformers_models.py changes to double. Four bits are compared with bitsandbytes."""
import json
import os
import re
import sys

import numpy
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
peft = pytest.importorskip("peft")
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "oracle"))

import lora  # noqa: E402
import make_peft_everywhere  # noqa: E402
import make_peft_ties  # noqa: E402
import make_pissa  # noqa: E402
import models  # noqa: E402
import optimizer_runs as runs  # noqa: E402
import peft_everywhere  # noqa: E402
import peft_ties  # noqa: E402
import test_peft_everywhere  # noqa: E402
import transformers_models as theirs_of  # noqa: E402
from parity import trireme  # noqa: E402

QWEN3 = dict(family="qwen3", **runs.SMALL, hidden_size=24, num_heads=4, num_kv_heads=2, head_dim=10, ffn_size=42, tied=True)
MODELS = {"gpt2": runs.GPT2, "llama": runs.LLAMA, "qwen3": QWEN3}
# `targets` of a run file, which target_modules takes as well.
CASES = {"gpt2": [["c_attn"], ["c_proj", "c_fc"], "all-linear"], "llama": [["q_proj", "v_proj"], ["k_proj", "o_proj", "down_proj"], "all-linear"],
         "qwen3": [["q_proj", "up_proj"], "all-linear"]}
# Other keys of an adapter, for each family.
WITH = {
    "rslora": dict(scaling="rslora"),
    "magnitudes": dict(magnitude=True),
    "magnitudes with rslora": dict(magnitude=True, scaling="rslora"),
    "patterns": dict(rank_pattern={r"1\..*(c_proj|k_proj)": 5, "c_attn": 1, "c_proj|v_proj": 2, r".*\.gate_proj": 4},
                     alpha_pattern={"0.attn.c_attn": 2, r"layers\.1\.self_attn\.[kv]_proj": 9, "k_proj|c_fc": 1}),
}
WITH["patterns with rslora, gaussian"] = dict(WITH["patterns"], scaling="rslora", init="gaussian")
ALL = [(name, targets) for name in MODELS for targets in CASES[name]] + [(name, kind) for name in MODELS for kind in WITH]
IN_DOUBLE = ("--precision", "fp64", "--device", "reference")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return runs.corpus_of(tmp_path_factory.mktemp("corpus"))


def skip_without(*keys):
    there = {line.split()[0] for line in trireme("train", "--keys").stdout.splitlines() if line.split()}
    for key in keys:
        if key not in there:
            pytest.skip(f"SKIPPED: this trireme has no key {key}")
    if "--merge" not in trireme("export", "--help").stdout:
        pytest.skip("SKIPPED: this trireme has no export --merge")


def start_from(folder, model):
    """A folder that transformers loads, and its weights."""
    folder.mkdir(parents=True, exist_ok=True)
    start, weights = runs.start_from(folder, model)
    return start, {name: values.detach().numpy() for name, values in weights.tensors().items()}


def base_of(folder):
    """Built in double, angles and all; files are read as they are."""
    config = transformers.AutoConfig.from_pretrained(folder, attn_implementation="eager")
    with theirs_of.in_double():
        theirs = transformers.AutoModelForCausalLM.from_config(config).double().eval()
    found = theirs.load_state_dict({name: torch.tensor(values.astype(float)) for name, values in runs.tensors_of(folder.glob("model*.safetensors")).items()}, strict=False)
    assert not found.unexpected_keys and set(found.missing_keys) <= {"lm_head.weight"}
    theirs.tie_weights()
    return theirs


def adapted(start, adapter, factors=None):
    """PEFT's model of a folder; with these factors, where there are some."""
    config = peft.LoraConfig(r=adapter["rank"], lora_alpha=adapter["alpha"], lora_dropout=adapter.get("dropout", 0.0), target_modules=adapter["targets"],
                             use_rslora=adapter.get("scaling") == "rslora", use_dora=bool(adapter.get("magnitude")), rank_pattern=adapter.get("rank_pattern", {}),
                             alpha_pattern=adapter.get("alpha_pattern", {}), init_lora_weights="gaussian" if adapter.get("init") == "gaussian" else True,
                             task_type="CAUSAL_LM", fan_in_fan_out="gpt2" in (start / "config.json").read_text())
    theirs = peft.get_peft_model(base_of(start), config, autocast_adapter_dtype=False)
    if factors is not None:
        missing = peft.set_peft_model_state_dict(theirs, {name: torch.tensor(values) for name, values in factors.items()})
        assert not missing.unexpected_keys
    return theirs.double().eval()


def loss_of(theirs, ids, labels):
    with theirs_of.in_double():
        logits = theirs(input_ids=ids).logits
    return torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))


def gradients_of(theirs, ids, labels):
    loss = loss_of(theirs, ids, labels)
    loss.backward()
    return float(loss.detach()), {name.replace(".default", "").replace(lora.MAGNITUDE + ".weight", lora.MAGNITUDE): p.grad.numpy() for name, p in theirs.named_parameters() if p.requires_grad}


def check_gradients(found, expected, tolerance=1e-10):
    assert set(found) == set(expected), set(found) ^ set(expected)
    for name, values in expected.items():
        error = numpy.linalg.norm(found[name] - values) / numpy.linalg.norm(values)
        assert error <= tolerance, (name, error)


def adapter_of(name, targets):
    """The adapter of the matrices `targets`; if `targets` is a name, of all matrices, with those settings of WITH under that name
    that this family has."""
    adapter = dict(rank=3, alpha=7, targets="all-linear" if isinstance(targets, str) else targets)
    there = "c_attn c_proj c_fc" if name == "gpt2" else "q_proj k_proj v_proj gate_proj"
    for key, value in WITH.get(targets if isinstance(targets, str) else None, {}).items():
        adapter[key] = value if isinstance(value, (str, bool)) else {pattern: number for pattern, number in value.items() if set(re.findall(r"[a-z]+_[a-z]+", pattern)) & set(there.split()) or "[kv]" in pattern and name != "gpt2"}
    return adapter


@pytest.mark.parametrize("name, targets", ALL, ids=str)
def test_plain_adapters(tmp_path, name, targets):
    """Ours in PyTorch: the names and shapes of factors, the loss, gradients."""
    start, base = start_from(tmp_path, MODELS[name])
    adapter = adapter_of(name, targets)
    factors = lora.drawn_factors(base, adapter)
    theirs = adapted(start, adapter, factors)
    there = {key: tuple(values.shape) for key, values in peft.get_peft_model_state_dict(theirs).items()}
    assert there == lora.factor_shapes(base, adapter)
    ids, labels = torch.tensor(numpy.random.default_rng(1).integers(0, 257, (2, 3, 12)))
    loss, expected = gradients_of(theirs, ids, labels)
    mine, found = lora.gradients(MODELS[name], base, factors, lora.scale_of(adapter), ids, labels)
    assert abs(mine / loss - 1) < 1e-12
    check_gradients(found, expected)


@pytest.mark.parametrize("name, targets", ALL, ids=str)
def test_plain_files(tmp_path, name, targets):
    """What lora.py writes PEFT loads, and the other way round."""
    start, base = start_from(tmp_path, MODELS[name])
    adapter = adapter_of(name, targets)
    factors = lora.drawn_factors(base, adapter)
    lora.write_peft(tmp_path / "mine", MODELS[name], adapter, factors)
    theirs = peft.PeftModel.from_pretrained(base_of(start), tmp_path / "mine", autocast_adapter_dtype=False).eval()
    ids, labels = torch.tensor(numpy.random.default_rng(1).integers(0, 257, (2, 3, 12)))
    expected = models.loss(MODELS[name], lora.merged(tensors(base), tensors(factors), lora.scale_of(adapter)), ids, labels)
    assert abs(float(loss_of(theirs, ids, labels).detach()) / float(expected) - 1) < 1e-12
    theirs.save_pretrained(tmp_path / "theirs")
    back, others, config = lora.read_peft(tmp_path / "theirs")
    assert not others and all((back[key] == factors[key]).all() for key in factors) and len(back) == len(factors)
    expected_config = lora.peft_config(MODELS[name], adapter)
    assert all(config[key] == expected_config[key] for key in ("r", "lora_alpha", "fan_in_fan_out", "bias", "peft_type", "task_type", "use_rslora", "use_dora", "rank_pattern", "alpha_pattern"))


def tensors(arrays):
    return {name: torch.tensor(values) for name, values in arrays.items()}


# ---- the program -----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("name, targets", ALL, ids=str)
def test_gradients(tmp_path, corpus, name, targets):
    """A step of plain descent at a rate of 1 changes a factor by its gradient; it begins with PEFT's files."""
    skip_without("adapter.from")
    start, base = start_from(tmp_path, MODELS[name])
    adapter = adapter_of(name, targets)
    factors = lora.drawn_factors(base, adapter)
    theirs = adapted(start, adapter, factors)
    theirs.save_pretrained(tmp_path / "theirs")
    keys = dict(name="sgd", lr=1.0, steps=1, clip=0, weight_decay=0.0, sgd=dict(momentum=0.0))
    trireme("train", runs.write_run(tmp_path, corpus, keys, model=MODELS[name], precision="fp64", init=str(start),
                                    adapter={**adapter, "from": str(tmp_path / "theirs")}))
    (batch,) = runs.batches_of(tmp_path, corpus, MODELS[name], 1)
    loss, expected = gradients_of(theirs, *batch)
    after = lora.read_peft(runs.newest_of(tmp_path / "run"))[0]
    assert abs(runs.lines_of(tmp_path / "run")[0]["loss"] / loss - 1) < 1e-10
    check_gradients({key: factors[key] - after[key] for key in factors}, expected)


def evaluated(folder, corpus, *words):
    return json.loads(trireme("eval", folder, corpus / "validation", *words, "--sequence", runs.SEQUENCE, *IN_DOUBLE, "--json").stdout)["loss"]


def trained(folder, corpus, name, adapter, **more):
    start, base = start_from(folder, MODELS[name])
    trireme("train", runs.write_run(folder, corpus, dict(steps=5, lr=1e-2), model=MODELS[name], precision="fp64", init=str(start), adapter=adapter, **more))
    return start, base


@pytest.mark.parametrize("name, targets", ALL, ids=str)
def test_they_load_ours(tmp_path, corpus, name, targets):
    """A checkpoint, and what `export` makes of it: the loss on held-out text; merged by them, and by us."""
    skip_without("adapter.rank")
    start, _ = trained(tmp_path, corpus, name, adapter_of(name, targets))
    trireme("export", tmp_path / "run", tmp_path / "peft")
    trireme("export", "--merge", tmp_path / "run", tmp_path / "merged")
    windows, mine = runs.windows_of(corpus / "validation"), evaluated(tmp_path / "run", corpus)
    for folder, limit in ((runs.newest_of(tmp_path / "run"), 1e-10), (tmp_path / "peft", 1e-6)):  # the second may be in single
        theirs = peft.PeftModel.from_pretrained(base_of(start), folder, autocast_adapter_dtype=False).double().eval()
        with torch.no_grad():
            assert abs(float(loss_of(theirs, *windows)) / mine - 1) < limit, folder
            joined = theirs.merge_and_unload()
            assert abs(float(loss_of(joined, *windows)) / mine - 1) < limit, folder
    ours = base_of(tmp_path / "merged")
    with torch.no_grad():
        assert abs(float(loss_of(ours, *windows)) / mine - 1) < 1e-6
        assert abs(float(loss_of(ours, *windows)) / evaluated(tmp_path / "merged", corpus) - 1) < 1e-10


@pytest.mark.parametrize("name", MODELS)
def test_they_train_on(tmp_path, corpus, name):
    """Our folder, trained there by a step, begins a run here."""
    skip_without("adapter.from")
    adapter = adapter_of(name, CASES[name][0])
    start, base = trained(tmp_path / "a", corpus, name, adapter)
    theirs = peft.PeftModel.from_pretrained(base_of(start), runs.newest_of(tmp_path / "a/run"), is_trainable=True, autocast_adapter_dtype=False).double()
    ids, labels = torch.tensor(numpy.random.default_rng(1).integers(0, 257, (2, 3, 12)))
    optimizer = torch.optim.AdamW([p for p in theirs.parameters() if p.requires_grad], lr=1e-2)
    loss_of(theirs, ids, labels).backward()
    optimizer.step()
    theirs.save_pretrained(tmp_path / "theirs")
    (tmp_path / "b").mkdir()
    trireme("train", runs.write_run(tmp_path / "b", corpus, dict(steps=1, lr=0.0), model=MODELS[name], precision="fp64", init=str(start),
                                    adapter={**adapter, "from": str(tmp_path / "theirs")}))
    found, expected = lora.read_peft(runs.newest_of(tmp_path / "b/run"))[0], lora.read_peft(tmp_path / "theirs")[0]
    assert set(found) == set(expected) and all(numpy.abs(found[key] - expected[key]).max() < 1e-15 for key in found)


# ---- four bits -------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("shape", [(128, 128), (192, 128), (7, 64), (300, 333)], ids=str)
def test_plain_four_bits(shape):
    """Ours beside theirs, which rounds scales to single on the way, and on a CPU takes a scale's neighbour in the map now and then."""
    functional = pytest.importorskip("bitsandbytes.functional")
    values = torch.tensor(numpy.random.default_rng(2).normal(0, 0.08, shape), dtype=torch.float32)
    codes, state = functional.quantize_4bit(values, blocksize=64, compress_statistics=True, quant_type="nf4")
    theirs, mine = functional.dequantize_4bit(codes, state).double().numpy(), lora.through_nf4(values.double().numpy())
    apart = numpy.abs(theirs - mine) > 1e-6 * numpy.abs(theirs).max()
    assert apart.mean() < 1e-2 and numpy.abs(theirs - mine).max() < 0.02 * numpy.abs(theirs).max(), apart.mean()


# ---- factors that begin as parts of the base ------------------------------------------------------------------------

def test_stored_pissa(tmp_path):
    """What pissa.json has is what PEFT finds."""
    with open(os.path.join(os.path.dirname(make_pissa.__file__), "pissa.json")) as stored:
        expected = json.load(stored)
    found = make_pissa.found_in(tmp_path)
    assert {key: found[key] for key in ("loss", "as_plain")} == pytest.approx({key: expected[key] for key in ("loss", "as_plain")}, rel=1e-6)
    for key in ("products", "rslora"):
        for module, theirs in expected[key].items():
            assert found[key][module]["norm"] == pytest.approx(theirs["norm"], rel=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_pissa(tmp_path, corpus, name):
    """Our checkpoint and its plain export in PEFT; PEFT's folder here."""
    pattern = "c_proj" if name == "gpt2" else "v_proj"  # one, since PEFT sorts them when it saves
    adapter = dict(adapter_of(name, "all-linear"), init="pissa", rank_pattern={pattern: 2}, alpha_pattern={pattern: 9})
    start, _ = trained(tmp_path, corpus, name, adapter)
    trireme("export", tmp_path / "run", tmp_path / "plain")
    windows, mine = runs.windows_of(corpus / "validation"), evaluated(tmp_path / "run", corpus)
    for folder in (runs.newest_of(tmp_path / "run"), tmp_path / "plain"):
        base = base_of(start).float()  # PEFT decomposes single
        theirs = peft.PeftModel.from_pretrained(base, folder, autocast_adapter_dtype=False).double().eval()
        with torch.no_grad():
            assert abs(float(loss_of(theirs, *windows)) / mine - 1) < 1e-5, folder
        if folder.name != "plain":
            theirs.save_pretrained(tmp_path / "theirs")
    assert abs(evaluated(tmp_path / "theirs", corpus, "--base", start) / mine - 1) < 1e-6


def test_ties(tmp_path):
    """What peft_ties.json has is what PEFT finds; and an adapter of ours that trains two tied tensors as one is that in PEFT."""
    with open(os.path.join(os.path.dirname(make_peft_ties.__file__), "peft_ties.json")) as stored:
        expected = json.load(stored)
    found = make_peft_ties.all_losses(tmp_path)
    assert found == pytest.approx(expected, rel=1e-6)
    peft_ties.write_window(tmp_path / "window")
    (tmp_path / "run.yaml").write_text(json.dumps(dict(
        model=str(tmp_path / "base"), init=str(tmp_path / "base"), adapter=dict(rank=2, alpha=4, targets=["q_proj"], train=["*embed_tokens*"]), threads=1,
        data=dict(train=str(tmp_path / "window"), sequence=peft_ties.LENGTH), optimizer=dict(global_batch=1, steps=3, lr=1e-2), output=str(tmp_path / "run"))))
    trireme("train", tmp_path / "run.yaml")
    trireme("export", tmp_path / "run", tmp_path / "adapter")
    ours = json.loads(trireme("eval", tmp_path / "run", tmp_path / "window", "--json").stdout)["loss"]
    assert make_peft_ties.loss_of(tmp_path / "base", tmp_path / "adapter") == pytest.approx(ours, rel=1e-6)


def test_everywhere(tmp_path):
    """What peft_everywhere.json has is what PEFT finds; and folders of ours are the same model there."""
    with open(os.path.join(os.path.dirname(make_peft_ties.__file__), "peft_everywhere.json")) as stored:
        expected = json.load(stored)
    (tmp_path / "theirs").mkdir()
    for family, values in make_peft_everywhere.families_found(tmp_path / "theirs").items():
        for kind in peft_everywhere.KINDS:
            assert values[kind].pop("loss") == pytest.approx(expected["families"][family][kind].pop("loss"), rel=1e-6)
        assert values == expected["families"][family]
    found = make_peft_everywhere.all_found(tmp_path / "theirs")
    for name, values in expected["cases"].items():
        assert found[name]["loss"] == pytest.approx(values["loss"], rel=1e-12)
        assert found[name]["gradients"].keys() == values["gradients"].keys()
        for key, probes in values["gradients"].items():
            assert found[name]["gradients"][key] == pytest.approx(probes, abs=1e-12 * probes[0])
    for tied in (False, True):
        peft_everywhere.write_base(tmp_path / f"base-{tied}", tied)
    peft_ties.write_window(tmp_path / "window")
    for name, (tied, *_) in peft_everywhere.CASES.items():
        folder = tmp_path / name.replace(" ", "-")
        folder.mkdir()
        start = test_peft_everywhere.adapter_of(tmp_path, folder / "adapter", name)
        trireme("train", test_peft_everywhere.run_of(tmp_path, folder, name, start, rate=0.1))
        trireme("export", folder / "run", folder / "exported")
        ours = test_peft_everywhere.loss(tmp_path, folder / "exported", "--precision", "fp64", "--device", "reference")
        assert make_peft_everywhere.loss_of(make_peft_everywhere.load(tmp_path / f"base-{tied}", folder / "exported")).item() == pytest.approx(ours, rel=1e-12)


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, *sys.argv[1:]]))

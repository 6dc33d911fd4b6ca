"""Models whose matrices are in 4 bits in the file: what `export --quantised` writes beside bitsandbytes' numbers (four_bits.json, which
make_four_bits.py wrote), what is read of folders that bitsandbytes writes beside transformers' losses, and runs that begin with either."""
import base64
import json
import os
import re
import subprocess
import zlib

import expert_cases
import four_bits
import numpy
import peft_ties
import pytest
from four_bits import MATRICES
from optimizer_runs import GPT2, SMALL, corpus_of, lines_of, newest_of, ranks_words, write_run
from parity import trireme, words_of
from test_lora import exported_start, needs_ranks

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "four_bits.json")) as stored_file:
    STORED = json.load(stored_file)
STATE = ".quant_state.bitsandbytes__nf4"
QUANTISED = dict(rank=2, alpha=4, targets="all-linear", quantise="nf4")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    four_bits.write_folder(folder / "base")
    trireme("export", folder / "base", folder / "ours", "--quantised")
    for name, (kind, _, double) in four_bits.KINDS.items():
        four_bits.write_folder(folder / name, of_bitsandbytes(name), kind, bnb_4bit_use_double_quant=double)
    peft_ties.write_window(folder / "window")
    return folder


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return corpus_of(tmp_path_factory.mktemp("corpus"))


def of_bitsandbytes(name):
    return four_bits.unpacked(zlib.decompress(base64.b64decode(STORED["files"][name])))


def tensors_in(folder):
    return four_bits.unpacked((folder / "model.safetensors").read_bytes())


def loss(made, folder, *words):
    return json.loads(trireme("eval", folder, made / "window", "--sequence", four_bits.LENGTH, "--json", *words).stdout)["loss"]


def state_of(tensors, name, kind="nf4"):
    return json.loads(tensors[f"{name}.quant_state.bitsandbytes__{kind}"].tobytes())


def magnitudes_of(tensors, name, state):
    absmax = tensors[name + ".absmax"]
    if "nested_blocksize" not in state:
        return absmax
    scales = tensors[name + ".nested_absmax"].repeat(state["nested_blocksize"])[:len(absmax)]
    return tensors[name + ".nested_quant_map"][absmax] * scales + numpy.float32(state["nested_offset"])


def values_of(tensors, name, kind="nf4"):
    """By the definition: each product and the sum rounded to fp32."""
    state, codes = state_of(tensors, name, kind), tensors[name].reshape(-1)
    numbers = tensors[name + ".quant_map"][numpy.stack([codes >> 4, codes & 15], axis=1).reshape(-1)]
    return (numbers * magnitudes_of(tensors, name, state).repeat(state["blocksize"])[:len(numbers)]).reshape(state["shape"])


# ---- writing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MATRICES)
def test_written_bits_are_bitsandbytes(made, name):
    tensors, theirs, stored = tensors_in(made / "ours"), of_bitsandbytes("as here"), STORED["matrices"][name]
    assert tensors[name].tobytes().hex() == stored["codes"] == theirs[name].tobytes().hex() and tensors[name].shape == theirs[name].shape
    assert tensors[name + ".absmax"].tobytes().hex() == stored["absmax"]
    assert tensors[name + ".nested_absmax"].tobytes().hex() == stored["nested_absmax"]
    state, their_state = state_of(tensors, name), state_of(theirs, name)
    assert state["nested_offset"] == stored["nested_offset"] and abs(state.pop("nested_offset") / their_state.pop("nested_offset") - 1) < 1e-6
    assert state == their_state and (tensors[name + ".quant_map"] == theirs[name + ".quant_map"]).all()
    assert (abs(tensors[name + ".nested_quant_map"] - theirs[name + ".nested_quant_map"]) <= 3e-7 * abs(theirs[name + ".nested_quant_map"])).all()
    # The magnitudes that the codes are for.
    matrix = four_bits.base_tensors({name: MATRICES[name]})[name]
    assert abs(matrix.reshape(-1, 64)).max(axis=1).tobytes().hex() == stored["magnitudes"]
    assert {key for key in theirs if key.startswith(name)} == {key for key in tensors if key.startswith(name)}


def test_what_else_is_written(made):
    tensors, base = tensors_in(made / "ours"), tensors_in(made / "base")
    assert all((tensors[name] == base[name]).all() for name in four_bits.OTHERS)
    config = json.loads((made / "ours/config.json").read_text())["quantization_config"]
    assert config == dict(quant_method="bitsandbytes", load_in_4bit=True, load_in_8bit=False, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True,
                          bnb_4bit_compute_dtype="float32", bnb_4bit_quant_storage="uint8", llm_int8_skip_modules=["lm_head"])


def test_in_bf16_and_in_shards(made, tmp_path):
    trireme("export", made / "base", tmp_path / "narrow", "--quantised", "--precision", "bf16", "--shard-bytes", 3000)
    assert len(list((tmp_path / "narrow").glob("*.safetensors"))) > 5
    config = json.loads((tmp_path / "narrow/config.json").read_text())
    assert config["quantization_config"]["bnb_4bit_compute_dtype"] == config["torch_dtype"] == "bfloat16"
    trireme("export", tmp_path / "narrow", tmp_path / "wide", "--precision", "fp32")
    wide, ours = tensors_in(tmp_path / "wide"), tensors_in(made / "ours")
    assert all((wide[name] == values_of(ours, name)).all() for name in MATRICES)


def refused(*arguments, said):
    done = subprocess.run(words_of(*arguments), capture_output=True, text=True)
    assert done.returncode in (4, 7), (done.returncode, done.stderr)  # a file that is bad, or asks for what is not supported
    assert all(re.search(text, done.stderr) for text in said), done.stderr


def test_what_transformers_does_not_load(tmp_path, corpus):
    start = exported_start(tmp_path, corpus, GPT2)
    refused("export", start, tmp_path / "out", "--quantised", said=[r"transformer.h.0.attn.c_attn.weight", r"\[in, out\]", "without --quantised"])
    (tmp_path / "experts").mkdir()
    start = exported_start(tmp_path / "experts", corpus, {**expert_cases.MODELS["mixtral"], "vocab_size": 257, "max_sequence": 24})
    refused("export", start, tmp_path / "out", "--quantised", said=[r"experts", "does not load experts in 4 bits", "without --quantised"])
    assert not (tmp_path / "out").exists()


def test_quantised_once(made, tmp_path):
    done = trireme("export", made / "ours", tmp_path / "out", "--quantised", status=2)
    assert "q_proj" in done.stderr and "already in 4 bits" in done.stderr and not (tmp_path / "out").exists()


# ---- reading ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", four_bits.KINDS)
def test_folders_of_bitsandbytes(made, tmp_path, name):
    """transformers' loss, and the values: to the last bits, since the numbers of bitsandbytes' map are the machine's there."""
    kind = four_bits.KINDS[name][0]
    own = STORED["losses"].get(name, loss(made, made / name, "--precision", "fp32"))
    assert abs(loss(made, made / name, "--precision", "fp32") / own - 1) < 2e-6
    assert abs(own / STORED["losses"]["the base"] - 1) > 1e-4, "this test sees nothing"
    trireme("export", made / name, tmp_path / "values")
    theirs, values = of_bitsandbytes(name), tensors_in(tmp_path / "values")
    assert "quantization_config" not in json.loads((tmp_path / "values/config.json").read_text()) and set(values) == set(MATRICES) | set(four_bits.OTHERS)
    for matrix in MATRICES:
        expected = values_of(theirs, matrix, kind)
        assert (abs(values[matrix] - expected) <= 1e-6 * abs(expected)).all()
    trireme("import", made / name, tmp_path / "checkpoint")
    assert abs(loss(made, tmp_path / "checkpoint", "--precision", "fp32") / own - 1) < 2e-6


def train(folder, corpus, init, layout=(), **more):
    """Trains a model on the corpus of bytes, whose vocabulary it has. Returns the losses and the adapter's file."""
    ranks = int(numpy.prod([*dict(layout).values(), 1]))
    trireme("train", write_run(folder, corpus, dict(steps=3, lr=1e-2), model=str(init), init=str(init), layout=layout, **{**dict(adapter=QUANTISED), **more}), *ranks_words(ranks))
    return [line["loss"] for line in lines_of(folder / "run")], (newest_of(folder / "run") / "adapter_model.safetensors").read_bytes()


WIDE = dict(family="llama", **SMALL, hidden_size=24, num_heads=12, num_kv_heads=12, ffn_size=62)
CUT = {"llama": WIDE, "phi3": dict(WIDE, family="phi3"), "gpt_neox": dict(family="gpt_neox", **SMALL, hidden_size=24, num_heads=12, ffn_size=62, rotary_fraction=1.0)}


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("name", CUT)
@needs_ranks
def test_runs_begin_with_it(tmp_path, corpus, name, precision):
    """A run on quantised weights has the same bits as one that quantises the base itself, on one rank and on three that split blocks; so has the
    merged model."""
    start = exported_start(tmp_path, corpus, CUT[name])
    trireme("export", start, tmp_path / "quantised", "--quantised")
    for layout in (dict(), dict(tensor=3)):
        base, ours = (train(tmp_path / f"{kind}{len(layout)}", corpus, folder, layout, precision=precision) for kind, folder in (("base", start), ("ours", tmp_path / "quantised")))
        assert base == ours
    for kind in ("base", "ours"):
        trireme("export", "--merge", tmp_path / f"{kind}0/run", tmp_path / f"{kind} merged", "--precision", "fp32")
    assert (tmp_path / "base merged/model.safetensors").read_bytes() == (tmp_path / "ours merged/model.safetensors").read_bytes()


@needs_ranks
@pytest.mark.parametrize("device", ["guarded", "emulated"])
def test_on_devices(tmp_path, corpus, device):
    """Memory that the host does not reach, and kernels of GPUs; a run that goes on takes the same codes again."""
    start = exported_start(tmp_path, corpus, WIDE)
    trireme("export", start, tmp_path / "quantised", "--quantised")
    for layout in (dict(), dict(tensor=2)):
        base, ours = (train(tmp_path / f"{kind}{len(layout)}", corpus, folder, layout, device=device) for kind, folder in (("base", start), ("ours", tmp_path / "quantised")))
        assert base == ours
    common = dict(model=str(tmp_path / "quantised"), init=str(tmp_path / "quantised"), adapter=QUANTISED, device=device)
    trireme("train", write_run(tmp_path / "more", corpus, dict(steps=2, lr=1e-2), **common))
    trireme("train", write_run(tmp_path / "more", corpus, dict(steps=3, lr=1e-2), **common))
    assert [line["loss"] for line in lines_of(tmp_path / "more/run")] == train(tmp_path / "at once", corpus, start, device=device)[0]


@needs_ranks
def test_runs_without_quantise(tmp_path, corpus):
    """Its values are those of any other base."""
    start = exported_start(tmp_path, corpus, WIDE)
    trireme("export", start, tmp_path / "quantised", "--quantised")
    trireme("export", tmp_path / "quantised", tmp_path / "values")
    plain = dict(QUANTISED, quantise="none")
    for layout in (dict(), dict(tensor=3)):
        ours, values = (train(tmp_path / f"{kind}{len(layout)}", corpus, tmp_path / kind, layout, adapter=plain) for kind in ("quantised", "values"))
        assert ours == values


# ---- refusals --------------------------------------------------------------------------------------------------------


def run_of(made, folder, init):
    return write_run(folder, made, dict(steps=1), model=str(init), init=str(init), adapter=QUANTISED, evaluation=dict(every=0),
                     data=dict(train=str(made / "window"), sequence=four_bits.LENGTH), optimizer=dict(global_batch=1, steps=1, lr=1e-3), layout=dict(micro_batch=1))


@pytest.mark.parametrize("name", [name for name in four_bits.KINDS if name != "as here"])
def test_kinds_that_runs_do_not_keep(made, tmp_path, name):
    """A base in four bits of another block size, or of other numbers, or without double quantisation."""
    kind, block, double = four_bits.KINDS[name]
    nested = "scales are for 256 blocks each" if double else "without double quantisation"
    refused("train", run_of(made, tmp_path, made / name), said=[f"`{re.escape(four_bits.AT)}.*_proj.weight`", f"{kind}, blocks of {block} elements, .*{nested}",
                                                                 "name the original model", "leave out adapter.quantise"])


def test_a_run_on_bitsandbytes_folder(made, tmp_path):
    trireme("train", run_of(made, tmp_path, made / "as here"))
    assert abs(lines_of(tmp_path / "run")[0]["loss"] / STORED["losses"]["as here"] - 1) < 2e-6


def test_transposed(tmp_path, corpus):
    """transformers transposes GPT-2's matrices before it quantises them."""
    start = exported_start(tmp_path, corpus, GPT2)
    tensors, name = dict(tensors_in(start)), "transformer.h.0.attn.c_attn.weight"
    blocks = tensors[name].size // 64
    state = dict(quant_type="nf4", blocksize=64, dtype="float32", shape=list(tensors[name].shape[::-1]))
    tensors |= {name: numpy.zeros((blocks * 32, 1), numpy.uint8), name + ".absmax": numpy.ones(blocks, numpy.float32), name + ".quant_map": numpy.zeros(16, numpy.float32),
                name + STATE: numpy.frombuffer(json.dumps(state).encode(), numpy.uint8)}
    (start / "model.safetensors").write_bytes(four_bits.packed(tensors))
    refused("export", start, tmp_path / "out", said=["c_attn.weight", "in 4 bits and transposed", "name the original model"])


def test_inspected(made):
    listed = {tensor["name"]: tensor for tensor in json.loads(trireme("inspect", made / "ours", "--json").stdout)["tensors"]}
    assert set(listed) == set(MATRICES) | set(four_bits.OTHERS)
    assert all(listed[name]["dtype"] == "nf4" and listed[name]["shape"] == list(shape) for name, shape in MATRICES.items())


METHODS = {"gptq": dict(quant_method="gptq", bits=4), "awq": dict(quant_method="awq", bits=4), "8 bits": dict(quant_method="bitsandbytes", load_in_8bit=True),
           "fp8": dict(quant_method="fp8"), "nothing": dict()}


@pytest.mark.parametrize("name", METHODS)
def test_other_methods(made, tmp_path, name):
    folder = four_bits.write_folder(tmp_path / "model")
    config = four_bits.CONFIG | dict(quantization_config=METHODS[name])
    (folder / "config.json").write_text(json.dumps(config))
    said = [r"model/config.json", "quant_method", METHODS[name].get("quant_method", "not given"), "except bitsandbytes' in 4 bits", "name the folder of the model"]
    for words in (["eval", folder, made / "window"], ["export", folder, tmp_path / "out"], ["import", folder, tmp_path / "out"], ["train", run_of(made, tmp_path, folder)]):
        refused(*words, said=said)


def changed(tensors, **changes):
    state = state_of(tensors, Q) | changes
    return tensors | {Q + STATE: numpy.frombuffer(json.dumps({k: v for k, v in state.items() if v is not None}).encode(), numpy.uint8)}


Q = four_bits.AT + "self_attn.q_proj.weight"
BROKEN = {
    "no magnitudes": (lambda t: {k: v for k, v in t.items() if k != Q + ".absmax"}, r"the tensor `.*q_proj.weight.absmax` is missing"),
    "no codes": (lambda t: {k: v for k, v in t.items() if k != Q}, r"but not `.*q_proj.weight`, the codes that it describes"),
    "too few codes": (lambda t: t | {Q: t[Q][:-1]}, r"has 2047 numbers of type U8, not 2048"),
    "too few scales": (lambda t: t | {Q + ".nested_absmax": t[Q + ".nested_absmax"][:0]}, r"has 0 numbers of type F32, not 1"),
    "magnitudes of another type": (lambda t: t | {Q + ".absmax": t[Q + ".absmax"].astype(numpy.float32)}, r"of type F32, not 64 of type U8"),
    "another shape": (lambda t: changed(t, shape=[64, 63]), r"has 2048 numbers of type U8, not 2016"),
    "a shape that overflows": (lambda t: changed(t, shape=[2**40, 2**40]), "wrong `shape`"),
    "no shape": (lambda t: changed(t, shape=None), "no `shape`"),
    "no blocks": (lambda t: changed(t, blocksize=0), "no `blocksize` that is a power of 2"),
    "no offset": (lambda t: changed(t, nested_offset=None), "no `nested_offset`"),
    "a type": (lambda t: changed(t, dtype="int8"), "no `dtype` that is float32"),
    "another kind": (lambda t: changed(t, quant_type="fp4"), "another `quant_type`"),
    "no JSON": (lambda t: t | {Q + STATE: numpy.frombuffer(b"{", numpy.uint8)}, "model.safetensors"),
    "a long text": (lambda t: t | {Q + STATE: numpy.zeros(5000, numpy.uint8)}, "not a text of at most 4096 bytes"),
    "codes of another type": (lambda t: t | {Q: numpy.zeros(512, numpy.float32)}, "stored as F32; only those with bnb_4bit_quant_storage uint8"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken(made, tmp_path, name):
    change, said = BROKEN[name]
    folder = four_bits.write_folder(tmp_path / "model", change(of_bitsandbytes("as here")))
    refused("eval", folder, made / "window", said=[said, r"model/model.safetensors"])

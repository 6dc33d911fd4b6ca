"""Compares every family with the results of transformers for tiny models (family_cases.json, written by make_family_cases.py): loss, logits and
all gradients in double to 1e-10, twenty steps of AdamW; reading and writing of folders; generated texts; folders that contradict their
config.json. Weights are computed by a formula, so only results are stored. tests/full/test_families.py runs transformers itself, and
test_layouts.py tests the most unusual families under many layouts."""
import json
import math
import os
import shutil
import struct
import subprocess

import families
import numpy
import pytest
from families import BATCH, KEPT, LENGTH, STEPS, FamilyWeights
from parity import TRIREME, device_for, trireme, yaml_of
from test_layouts import name_of, needs_launcher, run_on

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "family_cases.json")) as stored:
    STORED = json.load(stored)
CASES = STORED["cases"]
# device, precision, largest relative error of any gradient and of the loss
DEVICES = [("reference", "fp64", 1e-10), ("cpu", "fp32", 1e-4)]
DEVICES = [(device_for(device, precision), precision, limit) for device, precision, limit in DEVICES]


def tensors_of(case, gradients=None):
    kind = case["config"]["model_type"]
    return {name: families.tensor_of(kind, name, shape) for name, (shape, *_) in (gradients or case["gradients"]).items()}


def weights_of(folder, name):
    return FamilyWeights(folder, CASES[name]["config"], tensors_of(CASES[name]))


@pytest.mark.parametrize("name", CASES)
def test_stored_results(tmp_path, name):
    case = CASES[name]
    mine = weights_of(tmp_path, name)
    assert mine.names() == {parameter: shape for parameter, (shape, _, _) in case["gradients"].items()}
    ids, labels = families.tokens_of(case["config"]["vocab_size"], BATCH, LENGTH)
    whole = math.hypot(*(norm for _, norm, _ in case["gradients"].values()))
    for device, precision, limit in DEVICES:
        got, found = mine.gradients(device, precision, ids, labels, 1)
        assert abs(got["loss"] / case["loss"] - 1) <= limit, (device, precision)
        assert abs(got["grad_norm"] / whole - 1) <= limit, (device, precision)
        for parameter, (_, norm, product) in case["gradients"].items():
            gradient = found[parameter].reshape(-1)
            probe = families.probe_of(parameter, gradient.size)
            least = max(norm, 1e-3 * whole)  # a gradient that is only rounding (k's bias cancels in the softmax) is compared with the size of the others
            assert abs(numpy.linalg.norm(gradient) - norm) <= limit * least, (device, precision, parameter)
            assert abs(probe @ gradient - product) <= limit * least * numpy.linalg.norm(probe), (device, precision, parameter)
        for piece in (1, 5, LENGTH):
            logits = mine.logits(device, precision, piece, ids[0])
            for at, expected in zip(KEPT, case["logits"]):
                if (at + 1) % piece == 0 or at + 1 == LENGTH:
                    error = numpy.abs(logits[at // piece, : len(expected)] - expected).max()
                    assert error <= limit * numpy.abs(case["logits"]).max(), (device, precision, piece, at)


def distance(found, expected):
    """Returns the norm of the errors of all gradients together, relative to the norm of the expected ones."""
    whole = math.hypot(*(numpy.linalg.norm(g) for g in expected.values()))
    return math.hypot(*(numpy.linalg.norm(found[name] - g) for name, g in expected.items())) / whole


@pytest.mark.parametrize("name", CASES)
def test_bf16(tmp_path, name):
    """Compares with double as test_documents.py does for gpt2 and llama, but with a bound for each model: rounding the weights to bf16 changes the
    gradients of models this small by up to a tenth (gemma3), even if all arithmetic is in double. So the bound is three times the change in
    double for weights with random errors of that size."""
    case, chance = CASES[name], numpy.random.default_rng(1)
    mine, tensors = weights_of(tmp_path, name), tensors_of(CASES[name])
    ids, labels = families.tokens_of(case["config"]["vocab_size"], BATCH, LENGTH)
    double = device_for("reference", "fp64")
    _, expected = mine.gradients(double, "fp64", ids, labels, 1)
    got, found = mine.gradients(device_for("cpu", "bf16"), "bf16", ids, labels, 1)
    mine.replace({key: tensor * (1 + chance.uniform(-(2**-8), 2**-8, tensor.shape)) for key, tensor in tensors.items()})
    _, moved = mine.gradients(double, "fp64", ids, labels, 1)
    assert abs(got["loss"] / case["loss"] - 1) <= 2.5e-2
    assert distance(found, expected) <= max(2.5e-2, 3 * distance(moved, expected))


@pytest.mark.parametrize("name", CASES)
def test_twenty_steps(tmp_path, name):
    case = CASES[name]
    mine = weights_of(tmp_path, name)
    tokens = numpy.array([families.tokens_of(case["config"]["vocab_size"], BATCH, LENGTH, seed) for seed in range(STEPS)])
    answer = run_on(tmp_path, (tmp_path / "model.yaml").read_text(), [{}], tokens, weights=mine.in_order())["one"]
    assert numpy.abs(answer[2][:, 0] / case["losses"] - 1).max() <= 1e-10


def write_window(prefix, ids, labels):
    """A corpus of one window of tokens."""
    tokens = numpy.concatenate([ids[0], labels[0, -1:]]).astype(numpy.int32)
    prefix.with_suffix(".bin").write_bytes(tokens.tobytes())
    prefix.with_suffix(".idx").write_bytes(b"MMIDIDX\0\0" + struct.pack("<QBQQiqqq", 1, 4, 1, 2, len(tokens), 0, 0, 1))


@needs_launcher
@pytest.mark.parametrize("name", STORED["adafactor"])
def test_adafactor(tmp_path, name):
    """A tensor that is several of our matrices is one to torch.optim.Adafactor, on however many ranks."""
    case, stored = CASES[name], STORED["adafactor"][name]
    folder = write_folder(tmp_path / "theirs", case["config"], tensors_of(case))
    write_window(tmp_path / "window", *families.window_of(case["config"]["vocab_size"]))
    run = dict(model=str(folder), init=str(folder), data=dict(train=str(tmp_path / "window"), sequence=LENGTH), precision="fp64", device="reference",
               optimizer=dict(name="adafactor", global_batch=2, steps=families.ADAFACTOR_STEPS, lr=families.ADAFACTOR_LR, decay="constant", clip=0, weight_decay=0,
                              adafactor=dict(eps=list(families.ADAFACTOR_EPS))),
               layout=dict(micro_batch=1), output=str(tmp_path / "run"), checkpoint=dict(keep=0))
    (tmp_path / "run.yaml").write_text(yaml_of(run))
    for ranks, options in ((1, []), (2, ["layout.tensor=2", "layout.sequence_parallel=true"]), (2, ["layout.data=2", "layout.zero=1"]),
                           (4, ["layout.tensor=2", "layout.data=2", "layout.zero=3"])):
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
        trireme("train", tmp_path / "run.yaml", "-n", ranks, *[word for option in options for word in ("--set", option)])
        losses = [json.loads(line)["loss"] for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines() if "grad_norm" in line]
        assert numpy.abs(numpy.array(losses) / stored["losses"] - 1).max() <= 1e-10, (options, losses, stored["losses"])
        newest = sorted((tmp_path / "run/checkpoints").glob("step-*"))[-1]
        tensors, states = tensors_in(newest.glob("model*.safetensors")), tensors_in(newest.glob("optimizer*.safetensors"))
        for key, (norm, product) in stored["tensors"].items():
            found = tensors[key].reshape(-1)
            assert abs(numpy.linalg.norm(found) / norm - 1) <= 1e-10, (options, key)
            assert abs(families.probe_of(key, found.size) @ found - product) <= 1e-9 * norm, (options, key)
            shapes = {".variance": tensors[key].shape} if tensors[key].ndim == 1 else {".row_var": (len(tensors[key]), 1), ".col_var": (1, tensors[key].shape[1])}
            assert {suffix: states[key + suffix].shape for suffix in shapes} == shapes


def test_adafactor_of_parts(tmp_path):
    """A run whose states are of the parts, as they were before, is refused by name."""
    case = CASES["phi3"]
    folder = write_folder(tmp_path / "theirs", case["config"], tensors_of(case))
    write_window(tmp_path / "window", *families.window_of(case["config"]["vocab_size"]))
    run = dict(model=str(folder), data=dict(train=str(tmp_path / "window"), sequence=LENGTH), output=str(tmp_path / "run"),
               optimizer=dict(name="adafactor", global_batch=1, steps=1, lr=1e-2), device="reference", layout=dict(micro_batch=1))
    (tmp_path / "run.yaml").write_text(yaml_of(run))
    trireme("train", tmp_path / "run.yaml")
    newest = sorted((tmp_path / "run/checkpoints").glob("step-*"))[-1]
    path = next(newest.glob("optimizer*.safetensors"))
    raw = path.read_bytes()
    end = 8 + struct.unpack("<Q", raw[:8])[0]
    former = raw[8:end].replace(b"layers.1.self_attn.qkv_proj.weight.col_var", b"layers.1.self_attn.qkv_proj.weight.k.col_var").rstrip(b" ")
    former += b" " * (-len(former) % 8)
    path.write_bytes(struct.pack("<Q", len(former)) + former + raw[end:])
    for manifest in newest.glob("*.json"):
        assert "optimizer" not in manifest.name
    done = subprocess.run([TRIREME, "train", str(tmp_path / "run.yaml"), "--resume", str(newest), "--set", "optimizer.steps=2"], capture_output=True, text=True)
    assert done.returncode != 0 and "layers.1.self_attn.qkv_proj.weight.k.col_var" in done.stderr, done.stderr
    assert "is one tensor" in done.stderr and f"init: {newest}" in done.stderr


@pytest.mark.parametrize("name", STORED["readings"])
def test_what_is_left_out(tmp_path, name):
    """Keys that a config.json has not are what transformers takes for them, and keys of others do what they do there."""
    case = STORED["readings"][name]
    kind = case["config"]["model_type"]
    mine = FamilyWeights(tmp_path, case["config"], {key: families.tensor_of(kind, key, shape) for key, shape in case["shapes"].items()})
    assert mine.names() == {key: list(shape) for key, shape in case["shapes"].items()}
    ids, labels = families.tokens_of(case["config"]["vocab_size"], BATCH, LENGTH)
    got, _ = mine.gradients(*DEVICES[0][:2], ids, labels, 1)
    assert abs(got["loss"] / case["loss"] - 1) <= 1e-10


# As far as heads allow: those that two do not divide are as many as ranks of a layer.
LAYOUTS = [dict(), dict(pipeline=2), dict(data=2, zero=3), dict(pipeline=2, virtual=2, schedule="interleaved", recompute="full"), dict(context=2),
           dict(context=2, exchange="ring", recompute="full")]


def layouts_of(config):
    heads = config["num_attention_heads"]
    some = [dict(tensor=2), dict(tensor=2, sequence_parallel=1), dict(tensor=2, context=2, sequence_parallel=1, recompute="selective")]
    return LAYOUTS + (some if heads % 2 == 0 else [dict(tensor=heads, sequence_parallel=1)])


@needs_launcher
@pytest.mark.parametrize("name", CASES)
def test_layouts(tmp_path, name):
    """Losses of twenty steps and the first step's gradients are those that transformers found, however ranks share the model."""
    case = CASES[name]
    mine = weights_of(tmp_path, name)
    layouts = [layout for layout in layouts_of(case["config"]) if mine_fits(layout, case["config"])]
    tokens = numpy.array([families.tokens_of(case["config"]["vocab_size"], 4, LENGTH, seed) for seed in range(5)])
    answers = run_on(tmp_path, (tmp_path / "model.yaml").read_text(), layouts, tokens, weights=mine.in_order())
    for layout in layouts:
        gradients, values, steps, memory = answers[name_of(layout)]
        error = numpy.linalg.norm(gradients - answers["one"][0]) / numpy.linalg.norm(answers["one"][0])
        assert error <= 1e-10, (layout, error)
        assert numpy.abs(steps / answers["one"][2] - 1).max() <= 1e-10, layout
        assert all(predicted == measured for predicted, measured in memory), (layout, memory)


def mine_fits(layout, config):
    """Stages: the layers, the embedding and the head."""
    return layout.get("pipeline", 1) * layout.get("virtual", 1) <= config["num_hidden_layers"] + 2


# ---- folders ---------------------------------------------------------------------------------------------------------

def write_folder(folder, config, tensors):
    """As transformers would: config.json and model.safetensors, in single."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    header, data, at = {}, [], 0
    for name, tensor in tensors.items():
        raw = tensor.astype(numpy.float32).tobytes()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [at, at + len(raw)]}
        data.append(raw)
        at += len(raw)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data))
    return folder


def tensors_in(paths):
    """{name: tensor} of files, in double."""
    found = {}
    for path in paths:
        raw = path.read_bytes()
        end = 8 + struct.unpack("<Q", raw[:8])[0]
        for name, about in json.loads(raw[8:end]).items():
            if name != "__metadata__":
                first, last = about["data_offsets"]
                found[name] = numpy.frombuffer(raw[end + first : end + last], {"F32": numpy.float32, "F64": numpy.float64}[about["dtype"]]).reshape(about["shape"])
    return found


def read_folder(folder):
    """{name: tensor} of all of a folder's files."""
    found = {}
    for path in sorted(folder.glob("*.safetensors")):
        raw = path.read_bytes()
        end = 8 + struct.unpack("<Q", raw[:8])[0]
        for name, about in json.loads(raw[8:end]).items():
            if name != "__metadata__":
                first, last = about["data_offsets"]
                kind = {"F32": numpy.float32, "BF16": numpy.uint16}[about["dtype"]]
                found[name] = numpy.frombuffer(raw[end + first : end + last], kind).reshape(about["shape"])
    return found


@pytest.mark.parametrize("name", CASES)
def test_there_and_back(tmp_path, name):
    """In whole, out in shards: the same tensors, and a config.json that says the same."""
    tensors = tensors_of(CASES[name])
    theirs = write_folder(tmp_path / "theirs", CASES[name]["config"], tensors)
    trireme("import", theirs, tmp_path / "ours", "--shard-bytes", 20000)
    trireme("export", tmp_path / "ours", tmp_path / "back", "--shard-bytes", 15000)
    found = read_folder(tmp_path / "back")
    assert found.keys() == tensors.keys()
    for key, tensor in tensors.items():
        assert numpy.array_equal(found[key], tensor), key
    said = [[line for line in families.describe(folder).splitlines() if not line.startswith("name:")] for folder in (theirs, tmp_path / "back")]
    assert said[0] == said[1]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "text.txt").write_text("".join(f"Line {i}: the rowers pull {i * 7919 % 1000} times.\n" for i in range(300)))
    trireme("prepare", "--tokenizer", "bytes", "--out", folder / "data", folder / "text.txt")
    return folder / "data"


def of_bytes(name):
    """A case's configuration with a vocabulary of bytes, and its weights."""
    case = CASES[name]
    vocab = case["config"]["vocab_size"]
    longer = {key: [[257 if size == vocab else size for size in shape]] for key, (shape, *_) in case["gradients"].items()}
    return {**case["config"], "vocab_size": 257}, tensors_of(case, longer)


@needs_launcher
@pytest.mark.parametrize("name", ["gpt_neox", "phi3", "falcon, 40B", "gemma2", "falcon, 7B"])
def test_ranks_share_fused_tensors(tmp_path, corpus, name):
    """Trained from a folder by `train` on one rank and on four, which each read and write their part of the tensors on disk."""
    folder = write_folder(tmp_path / "theirs", *of_bytes(name))
    run = dict(model=str(folder), data=dict(train=str(corpus / "train"), sequence=16), optimizer=dict(global_batch=4, steps=3, lr=1e-3),
               layout=dict(micro_batch=1), output=str(tmp_path / "run"), device="reference")
    (tmp_path / "run.yaml").write_text(yaml_of(run))
    answers = []
    for ranks, options in ((1, []), (4, ["layout.tensor=2", "layout.pipeline=2"]), (4, ["layout.tensor=2", "layout.zero=3", "layout.sequence_parallel=true"])):
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
        trireme("train", tmp_path / "run.yaml", "-n", ranks, "--resume", folder, *[word for option in options for word in ("--set", option)])
        losses = [json.loads(line)["loss"] for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        trireme("export", tmp_path / "run", tmp_path / "out")
        answers.append((losses, read_folder(tmp_path / "out")))
    for losses, tensors in answers[1:]:
        assert numpy.allclose(losses, answers[0][0], rtol=1e-5, atol=0)
        assert tensors.keys() == answers[0][1].keys()
        for key, tensor in tensors.items():
            assert numpy.abs(tensor - answers[0][1][key]).max() <= 1e-4, key
    moved = {key: numpy.abs(tensor - tensors_of(CASES[name], {key: [tensor.shape]})[key]).max() for key, tensor in answers[0][1].items()}
    assert all(far > 1e-4 for far in moved.values()), moved


def tensor_ranks_of(config):
    """The least number of ranks, above one, that the heads can be split over."""
    heads = config.get("num_attention_heads") or config["n_head"]
    keys = config.get("num_key_value_heads") or config.get("num_kv_heads") or (1 if config.get("multi_query") else heads)
    return next(ranks for ranks in range(2, heads + 1) if heads % ranks == 0 and (keys % ranks == 0 or ranks % keys == 0))


@pytest.mark.parametrize("name", STORED["written"])
def test_generation(tmp_path, corpus, name):
    """Prompts of unequal length side by side, three at a time: of each the tokens that transformers' generate() took as the most likely, of it alone."""
    case = STORED["written"][name]
    kind, prompts, count = case["config"]["model_type"], *families.prompts_of(case["config"])
    tensors = {key: families.writing_tensor_of(kind, case["seed"], key, shape) for key, shape in case["shapes"].items()}
    folder = write_folder(tmp_path / "theirs", case["config"], tensors)
    (tmp_path / "prompts.jsonl").write_text("".join(json.dumps(dict(prompt=prompt)) + "\n" for prompt in prompts))
    found = {}
    for device, precision, _ in DEVICES:
        done = trireme("generate", folder, "--tokenizer", corpus / "tokenizer.json", "--prompts", tmp_path / "prompts.jsonl", "--batch", 3, "--tokens", count,
                       "--temperature", 0, "--ignore-end", "--json", "--logprobs", 0, "--precision", precision, "--device", device)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        assert [line["prompt_ids"] for line in lines] == [list(prompt.encode()) for prompt in prompts]
        assert [line["ids"] for line in lines] == case["texts"], (device, precision)
        found[precision] = lines
    ranks = tensor_ranks_of(case["config"])
    done = trireme("generate", folder, "--tokenizer", corpus / "tokenizer.json", "--prompts", tmp_path / "prompts.jsonl", "--batch", 2, "--tokens", count,
                   "--temperature", 0, "--ignore-end", "--json", "--logprobs", 0, "--precision", "fp64", "--device", "reference", "--tensor", ranks)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["ids"] for line in lines] == case["texts"], ranks
    for line, alone in zip(lines, found["fp64"]):
        for key in ("model", "entropy"):
            assert numpy.allclose(line["logprobs"][key], alone["logprobs"][key], rtol=0, atol=1e-12), (ranks, key)


# ---- bad input -------------------------------------------------------------------------------------------------------

NO_TENSOR, NO_PLACE = "has no tensor `%s`, which the model of its config.json needs", "the model of config.json has no place for the tensor `%s`"
SHAPE = "tensor `%s` has shape %s, but the model's has %s"
GATE_UP, QKV = "model.layers.0.mlp.gate_up_proj.weight", "gpt_neox.layers.0.attention.query_key_value.weight"
C_FC = "model.layers.0.mlp.c_fc"
# (case, changed keys of config.json, tensors that are missing or have fewer rows, texts of the message)
FAULTS = [
    ("gemma", {}, {"model.norm.weight": None}, [NO_TENSOR % "model.norm.weight"]),
    ("gemma2", {}, {"model.layers.1.pre_feedforward_layernorm.weight": None}, [NO_TENSOR % "model.layers.1.pre_feedforward_layernorm.weight"]),
    ("gemma2", {"layer_types": ["sliding_attention"]}, {}, ["`layer_types` is not a list of 4 (num_hidden_layers)"]),
    ("gemma3", {"use_bidirectional_attention": True}, {}, ["`use_bidirectional_attention` is true", "not supported"]),
    ("gemma3", {"head_dim": 10}, {}, [SHAPE % ("model.layers.0.self_attn.q_proj.weight", "[32, 20]", "[40, 20]") + " (num_attention_heads 4, head_dim 10); "]),
    ("gemma3", {"rope_parameters": {"full_attention": {"rope_type": "proportional"}}}, {}, ["`rope_parameters` is of type `proportional`", "longrope"]),
    ("phi", {}, {"lm_head.bias": None}, [NO_TENSOR % "lm_head.bias"]),
    ("phi", {"qk_layernorm": True}, {}, ["`qk_layernorm` is true", "not supported"]),
    ("phi3", {}, {"model.layers.0.self_attn.qkv_proj.weight": None}, [NO_TENSOR % "model.layers.0.self_attn.qkv_proj.weight"]),
    ("phi3, longrope", {"rope_parameters": {"rope_type": "longrope", "short_factor": [1] * 6}}, {}, ["`rope_parameters` of type longrope has no `long_factor`"]),
    ("phi3, longrope", {"rope_parameters": {"rope_type": "longrope", "short_factor": [1] * 6, "long_factor": [1] * 5}}, {},
     ["`rope_scaling.long_factor` has 5 numbers and needs 6, one for each pair of the 12 components of a head that rotate"]),
    ("phi3", {}, {GATE_UP: 73}, [SHAPE % (GATE_UP, "[73, 24]", "[74, 24]")]),
    ("phi3", {"num_key_value_heads": 4}, {}, [SHAPE % ("model.layers.0.self_attn.qkv_proj.weight", "[48, 24]", "[72, 24]")]),
    ("gpt_neox", {}, {"gpt_neox.layers.1.attention.query_key_value.bias": None}, [NO_TENSOR % "gpt_neox.layers.1.attention.query_key_value.bias"]),
    ("gpt_neox", {}, {QKV: 96}, [SHAPE % (QKV, "[96, 48]", "[144, 48]")]),
    ("gpt_neox", {"num_attention_heads": 5}, {}, ["`num_attention_heads` 5 does not divide hidden_size 48", "try num_attention_heads"]),
    ("olmo2", {}, {"model.layers.0.self_attn.q_norm.weight": 6}, [SHAPE % ("model.layers.0.self_attn.q_norm.weight", "[6]", "[24]")]),
    ("smollm3", {"no_rope_layers": [1, 1, 0]}, {}, ["`no_rope_layers` is not a list of 5 (num_hidden_layers)"]),
    ("smollm3", {"no_rope_layers": [1, 1, 0, 2, 1]}, {}, ["`no_rope_layers` has values other than 0 and 1"]),
    ("smollm3", {"no_rope_layers": [0] * 5}, {}, ["`no_rope_layers` leaves no layer with rotary positions"]),
    ("falcon, 7B", {"multi_query": False}, {}, [SHAPE % ("transformer.h.0.self_attention.query_key_value.weight", "[48, 36]", "[108, 36]")]),
    ("falcon, 7B", {"alibi": True}, {}, ["`alibi` is true", "not supported"]),
    ("falcon, 40B", {"num_ln_in_parallel_attn": 1}, {}, [NO_PLACE % "transformer.h.0.ln_attn.weight"]),
    ("falcon, 11B", {"num_kv_heads": 3}, {}, ["`num_kv_heads` 3 does not divide num_attention_heads 4; try 2"]),
    ("stablelm", {"use_qkv_bias": False}, {}, [NO_PLACE % "model.layers.0.self_attn.q_proj.bias" + " (use_qkv_bias false); "]),
    ("granite", {"residual_multiplier": 0}, {}, ["`residual_multiplier` is 0, but should be a number above 0"]),
    ("granite", {"intermediate_size": 38}, {}, [SHAPE % ("model.layers.0.mlp.gate_proj.weight", "[37, 24]", "[38, 24]")]),
    ("opt", {"max_position_embeddings": 42}, {}, [SHAPE % ("model.decoder.embed_positions.weight", "[42, 28]", "[44, 28]")]),
    ("opt", {"word_embed_proj_dim": 14}, {}, ["`word_embed_proj_dim` 14 is not hidden_size 28", "not supported"]),
    ("opt", {"do_layer_norm_before": False}, {}, ["`do_layer_norm_before` is false", "not supported"]),
    ("starcoder2", {}, {C_FC + ".bias": None}, [NO_TENSOR % (C_FC + ".bias")]),
    ("starcoder2", {}, {C_FC + ".weight": 30}, [SHAPE % (C_FC + ".weight", "[30, 24]", "[37, 24]")]),
    ("starcoder2", {"num_hidden_layers": 2}, {}, [NO_PLACE % "model.layers.2.self_attn.q_proj.weight" + " (num_hidden_layers 2); "]),
    ("starcoder2", {"use_bias": False}, {}, [NO_PLACE % "model.layers.0.self_attn.q_proj.bias" + " (use_bias false); "]),
    ("qwen3", {}, {"model.layers.0.self_attn.k_norm.weight": None}, [NO_TENSOR % "model.layers.0.self_attn.k_norm.weight" + " (model_type qwen3); "]),
]


@pytest.mark.parametrize("name, config, tensors, said", FAULTS, ids=[f"{fault[0]}-{number}" for number, fault in enumerate(FAULTS)])
def test_folders_that_are_not_what_they_say(tmp_path, name, config, tensors, said):
    kept = {key: tensor[: tensors.get(key, len(tensor))] for key, tensor in tensors_of(CASES[name]).items() if tensors.get(key, 1) is not None}
    folder = write_folder(tmp_path / "theirs", {**CASES[name]["config"], **config}, kept)
    done = subprocess.run([TRIREME, "import", str(folder), str(tmp_path / "ours")], capture_output=True, text=True)
    assert done.returncode in (4, 7), done.stderr
    assert done.stderr.startswith(f"trireme: {folder}") and not (tmp_path / "ours").exists(), done.stderr
    if any("has no tensor" in words or "no place" in words or "has shape" in words for words in said):
        said = [*said, "config.json and the weights are not of one model: take both from the same folder, or correct config.json"]
    for words in said:
        assert words in done.stderr, done.stderr


@pytest.mark.parametrize("same", [True, False])
def test_an_output_projection_that_is_tied_and_there(tmp_path, same):
    """transformers keeps both where they differ; the model is not tied then, and a line says so."""
    tensors = tensors_of(CASES["gemma"])
    embedding = tensors["model.embed_tokens.weight"]
    folder = write_folder(tmp_path / "theirs", CASES["gemma"]["config"], {**tensors, "lm_head.weight": embedding if same else embedding * 1.5})
    done = subprocess.run([TRIREME, "import", str(folder), str(tmp_path / "ours")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert ("`lm_head.weight` and `model.embed_tokens.weight` differ, so they are not tied" in done.stderr) == (not same), done.stderr
    assert (b'"lm_head.weight"' in (tmp_path / "ours/model.safetensors").read_bytes()) == (not same)


def test_the_example_of_the_documentation():
    """The family's file that docs/families.md prints equals the file in src."""
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
    with open(os.path.join(root, "docs/families.md")) as page, open(os.path.join(root, "src/model/starcoder2.c")) as file:
        assert page.read().split("```c\n")[1].split("```")[0] == file.read()


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, *os.sys.argv[1:]]))

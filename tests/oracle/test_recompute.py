"""Recomputation changes no bit, for every family, whatever is frozen: what runs again must find in its inputs what it found going
forward. An input that nothing keeps (frozen products need none for their backward, nor do operations between tensor ranks) may have
been written over by then, and gradients are silently wrong. ops/recompute.c checks the list; this trains with it."""
import json
import re
import shutil

import families
import pytest
from parity import tool, trireme, yaml_of
from expert_cases import DOTS1, MIXTRAL, OLMOE

needs_launcher = pytest.mark.skipif(shutil.which("mpiexec") is None, reason="SKIPPED: there is no mpiexec")
GPT2 = dict(family="gpt2", num_layers=2, hidden_size=16, num_heads=4, vocab_size=257, max_sequence=32, dropout=0.1)
LLAMA = dict(family="llama", num_layers=2, hidden_size=16, num_heads=4, ffn_size=24, vocab_size=257, max_sequence=32)
EXPERTS = {"mixtral": MIXTRAL, "olmoe": OLMOE, "dots1": DOTS1}
# The first model of each family, and those whose layers are put together in another way.
OF_CONFIGS = [name for name in families.MODELS if "," not in name] + ["falcon, 7B", "falcon, 40B", "gemma2, no caps, odd layers"]
MODELS = ["gpt2", "llama", *EXPERTS, *OF_CONFIGS]
RECOMPUTE = [dict(recompute="selective"), dict(recompute="full"), dict(recompute="full", recompute_every=2)]


def model_of(folder, name):
    """Path of a model's file."""
    path = folder / "model.yaml"
    if name in OF_CONFIGS:
        (folder / "config.json").write_text(json.dumps({**families.config_of(name), "vocab_size": 257}))
        path.write_text(families.describe(folder))
    else:
        path.write_text(yaml_of({"gpt2": GPT2, "llama": LLAMA, **EXPERTS}[name] | {"vocab_size": 257}))
    return path


# Products that begin a branch of a layer: those of them that are one product are frozen together.
FIRST = re.compile(r"\b((q|k|v|qkv|gate|up|gate_up)_proj|query_key_value|c_attn|fc1|c_fc|dense_h_to_4h|w1|w3)\b")


def frozen_parts(path):
    """Lists of tensors to freeze: none, the products that begin a branch, the others, all of them."""
    parameters = tool("table", path)["parameters"]
    matrices = {re.sub(r"\.\d+\.", ".*.", p["name"]) for p in parameters if len(p["shape"]) > 1 and any(part.isdigit() for part in p["name"].split("."))}
    first = {name for name in matrices if FIRST.search(name)}
    assert first and first != matrices
    return [[], sorted(first), sorted(matrices - first), sorted(matrices)]


def steps_of(folder, model, corpus, ranks, layout, freeze):
    run = dict(model=str(model), data=dict(train=str(corpus), sequence=12), layout=dict(micro_batch=1, **layout), threads=1, seed=3,
               optimizer=dict(global_batch=2, steps=2, lr=1e-3, decay="constant"), precision="fp64", device="reference", freeze=freeze,
               checkpoint=dict(at_end=False), output=str(folder / "run"))
    (folder / "run.yaml").write_text(yaml_of(run))
    shutil.rmtree(folder / "run", ignore_errors=True)
    trireme("train", folder / "run.yaml", *(["-n", ranks] if ranks > 1 else []))
    return [(row["loss"], row["grad_norm"]) for row in map(json.loads, open(folder / "run/metrics.jsonl"))]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "text.jsonl").write_text("".join(json.dumps({"text": f"{i * 7919 % 97}" * 9}) + "\n" for i in range(60)))
    trireme("prepare", "--tokenizer", "bytes", "--out", folder / "data", "--validation", 0, folder / "text.jsonl")
    return folder / "data/train"


@pytest.mark.parametrize("name", MODELS)
def test_one_rank(tmp_path, corpus, name):
    model = model_of(tmp_path, name)
    for freeze in frozen_parts(model):
        usual = steps_of(tmp_path, model, corpus, 1, {}, freeze)
        for layout in RECOMPUTE:
            assert steps_of(tmp_path, model, corpus, 1, layout, freeze) == usual, (freeze, layout)


@needs_launcher
@pytest.mark.parametrize("name", [name for name in MODELS if name not in ("falcon, 7B", "gemma2, no caps, odd layers")])
def test_tensor_ranks(tmp_path, corpus, name):
    model = model_of(tmp_path, name)
    for layout in (dict(tensor=2), dict(tensor=2, sequence_parallel=True)):
        usual = steps_of(tmp_path, model, corpus, 2, layout, [])
        for more in RECOMPUTE[:2]:
            assert steps_of(tmp_path, model, corpus, 2, {**layout, **more}, []) == usual, (layout, more)

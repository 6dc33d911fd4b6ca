"""Functions shared by the tests of optimizers: models, runs of the program from given weights, the contents of checkpoints, and the same
steps in plain PyTorch (optimizers.py)."""
import functools
import json

import expert_cases
import models
import numpy
import pytest
from parity import Weights, tool, trireme, yaml_of

SMALL = dict(num_layers=2, vocab_size=257, max_sequence=24, init_std=0.1)
GPT2 = dict(family="gpt2", **SMALL, hidden_size=24, num_heads=3, ffn_size=38)
LLAMA = dict(family="llama", **SMALL, hidden_size=32, num_heads=4, num_kv_heads=2, ffn_size=42)
MIXTRAL = dict(family="mixtral", **SMALL, hidden_size=24, num_heads=4, num_kv_heads=2, num_experts=5, experts_per_token=2, expert_ffn_size=14,
               balance="sequence", balance_rate=0.1, z_loss=0.01)
MODELS = {"gpt2": GPT2, "llama": LLAMA, "mixtral": MIXTRAL}
BATCH, SEQUENCE, STEPS, SEED = 6, 20, 20, 7


def corpus_of(folder):
    """Prepares a corpus of bytes. One evaluation reads all windows of its held-out part."""
    text = "".join(f"The {i} oars of the trireme pull in time, and {i * i % 97} waves pass.\n" for i in range(300))
    (folder / "text.txt").write_text(text)
    trireme("prepare", "--tokenizer", "bytes", "--out", folder / "corpus", folder / "text.txt")
    return folder / "corpus"


def run_of(folder, corpus, keys, model=LLAMA, precision="fp32", layout=(), **more):
    optimizer = dict(global_batch=BATCH, steps=STEPS, lr=3e-3, decay="constant", clip=0.5)
    run = dict(model=model, data=dict(train=str(corpus / "train"), validation=str(corpus / "validation"), sequence=SEQUENCE),
               layout=dict(dict(micro_batch=2), **dict(layout)), optimizer={**optimizer, **keys}, precision=precision,
               device="reference" if precision == "fp64" else "cpu", threads=1, seed=SEED,
               evaluation=dict(every=0), checkpoint=dict(every=0), output=str(folder / "run"))
    return {**run, **more}


@functools.lru_cache
def optimizers_there_are():
    """Names that this program knows, as it lists them itself."""
    row = next(line for line in trireme("train", "--keys").stdout.splitlines() if line.split()[:1] == ["optimizer.name"])
    return row.split()[1].split("|")


def skip_without(keys):
    """Skips the test if its run names an optimizer that this program does not have."""
    groups = [value for value in keys.values() if isinstance(value, dict)]
    for name in [keys.get("name"), *(group.get("name") for group in groups)]:
        if name is not None and name not in optimizers_there_are():
            pytest.skip(f"SKIPPED: this trireme has no optimizer {name}")


def write_run(folder, corpus, keys, **more):
    folder.mkdir(exist_ok=True)
    (folder / "run.yaml").write_text(yaml_of(run_of(folder, corpus, keys, **more)))
    return folder / "run.yaml"


def hugging_face_config(model):
    m = models.complete(model)
    if m["family"] == "gpt2":
        return dict(model_type="gpt2", architectures=["GPT2LMHeadModel"], n_layer=m["num_layers"], n_embd=m["hidden_size"], n_head=m["num_heads"],
                    n_positions=m["max_sequence"], vocab_size=m["vocab_size"], n_inner=m["ffn_size"], activation_function="gelu_new",
                    layer_norm_epsilon=m["norm_eps"], tie_word_embeddings=m["tied"], resid_pdrop=0.0)
    if m["family"] in ("llama", "olmo2"):
        return dict(model_type=m["family"], architectures=[m["family"].capitalize() + "ForCausalLM"], num_hidden_layers=m["num_layers"], hidden_size=m["hidden_size"],
                    num_attention_heads=m["num_heads"], num_key_value_heads=m["num_kv_heads"], intermediate_size=m["ffn_size"],
                    max_position_embeddings=m["max_sequence"], vocab_size=m["vocab_size"], rms_norm_eps=m["norm_eps"], rope_theta=m["rope_theta"],
                    tie_word_embeddings=m["tied"])
    return expert_cases.hugging_face_config(model)


def start_from(folder, model):
    """Drawn weights, and a folder that has them, as transformers would save it."""
    weights = Weights(folder, model)
    weights.save_hugging_face(folder / "start", hugging_face_config(model))
    return folder / "start", weights


def batches_of(folder, corpus, model, steps=STEPS):
    """[(ids, labels)] of each step of a run."""
    import torch
    out = folder / "samples.bin"
    tool("samples", corpus / "train", SEQUENCE, model["vocab_size"], SEED, steps * BATCH, out, "joined", "windows", -1)
    samples = torch.tensor(numpy.fromfile(out, numpy.int32).astype(numpy.int64)).reshape(steps, BATCH, 3, SEQUENCE)
    return [(one[:, 0], one[:, 1]) for one in samples]


def windows_of(prefix):
    """All windows of a corpus in their order, as an evaluation looks at them: ids and labels [windows, sequence]."""
    import torch
    tokens = numpy.fromfile(f"{prefix}.bin", numpy.uint16).astype(numpy.int64)
    count = (len(tokens) - 1) // SEQUENCE
    return torch.tensor(tokens[: count * SEQUENCE].reshape(count, SEQUENCE)), torch.tensor(tokens[1 : count * SEQUENCE + 1].reshape(count, SEQUENCE))


def lines_of(folder):
    return [json.loads(line) for line in open(folder / "metrics.jsonl")]


def newest_of(folder):
    return sorted((folder / "checkpoints").glob("step-*"))[-1]


def tensors_of(paths):
    """{name: array} of safetensors files: in double where they are, and codes of 8 bits as they are."""
    types = {"F64": numpy.float64, "F32": numpy.float32, "U8": numpy.uint8, "I8": numpy.int8, "BF16": numpy.uint16}
    found = {}
    for path in paths:
        raw = path.read_bytes()
        length = int.from_bytes(raw[:8], "little")
        for name, facts in json.loads(raw[8 : 8 + length]).items():
            if name != "__metadata__":
                begin, end = (8 + length + at for at in facts["data_offsets"])
                values = numpy.frombuffer(raw[begin:end], types[facts["dtype"]])
                if facts["dtype"] == "BF16":
                    values = (values.astype(numpy.uint32) << 16).view(numpy.float32)
                found[name] = values.reshape(facts["shape"])
    return found


def weights_of(folder):
    return tensors_of(newest_of(folder).glob("model*.safetensors"))


def states_of(folder):
    return tensors_of(newest_of(folder).glob("optimizer*.safetensors"))


def seen(name, values):
    """Returns the part of a tensor whose gradient is not only rounding. The bias of all keys cancels in the softmax, so its gradient in GPT-2 is
    rounding, and Lion uses the sign of that."""
    values = numpy.asarray(values)
    return numpy.delete(values.reshape(3, -1), 1, axis=0) if name.endswith("c_attn.bias") else values


def check_weights(found, expected, tolerance=1e-10):
    """Each tensor by itself, by its norm."""
    assert set(found) == set(expected), set(found) ^ set(expected)
    for name in expected:
        mine, theirs = seen(name, found[name]), seen(name, expected[name])
        error = numpy.linalg.norm(mine - theirs) / max(numpy.linalg.norm(theirs), 1e-30)
        assert error <= tolerance, (name, error)


def close(found, expected, tolerance=1e-10):
    found, expected = numpy.asarray(found, float), numpy.asarray(expected, float)
    assert found.shape == expected.shape, (found, expected)
    worst = numpy.abs(found - expected).max() / numpy.abs(expected).max()
    assert worst <= tolerance, (worst, found, expected)


def ranks_words(ranks):
    return ["-n", ranks] if ranks > 1 else []


"""Loss, logits, every gradient and the course of training against plain PyTorch models (models.py) in double."""
import json
import os

import models
import numpy
import pytest
import torch
from parity import Weights, device_for, relative, tool, trireme, yaml_of

GPT2 = dict(family="gpt2", num_layers=2, hidden_size=48, num_heads=3, vocab_size=101, max_sequence=80)
LLAMA = dict(family="llama", num_layers=2, hidden_size=48, num_heads=4, num_kv_heads=1, ffn_size=72, vocab_size=97,
             max_sequence=80)
STRETCH = dict(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_sequence=32)

LINEAR = dict(type="linear", factor=3.0)
DYNAMIC = dict(type="dynamic", factor=2.0, original_max_sequence=20)
YARN = dict(type="yarn", factor=4.0, original_max_sequence=24)
# As DeepSeek's models have it, and with every other key.
YARN_DEEPSEEK = dict(type="yarn", factor=40.0, original_max_sequence=32, mscale=0.707, mscale_all_dim=1.0, beta_fast=16.0, beta_slow=2.0)
YARN_GIVEN = dict(type="yarn", factor=2.5, original_max_sequence=40, attention_factor=1.3, truncate=False, mscale=2.0)
LONG = dict(type="longrope", factor=4.0, original_max_sequence=24, short_factor=[1 + 0.05 * i for i in range(6)], long_factor=[1.5 + i * i for i in range(6)])

# name, model, batch, sequence, micro_batch
CASES = [
    ("gpt2 tied", GPT2, 4, 33, 2),
    ("gpt2 untied, erf", {**GPT2, "tied": False, "activation": "gelu_erf"}, 2, 17, 1),
    ("gpt2 silu", {**GPT2, "activation": "silu"}, 2, 17, 1),
    ("gpt2 relu", {**GPT2, "activation": "relu"}, 2, 17, 1),
    *[(f"gpt2 {name}", {**GPT2, "activation": name}, 2, 17, 1) for name in ("quick_gelu", "relu2", "mish", "tanh")],
    ("gpt2 one head, one layer", {**GPT2, "num_layers": 1, "num_heads": 1, "hidden_size": 7}, 3, 5, 3),
    ("gpt2 one position", GPT2, 5, 1, 5),
    ("gpt2 odd width", {**GPT2, "hidden_size": 33, "num_heads": 3, "ffn_size": 19}, 2, 65, 2),
    ("gpt2 long", {**GPT2, "num_layers": 1, "max_sequence": 300, "hidden_size": 64, "num_heads": 1}, 1, 300, 1),
    ("gpt2 large vocabulary", {**GPT2, "num_layers": 1, "vocab_size": 5003}, 2, 40, 2),
    ("llama 4:1", LLAMA, 4, 33, 2),
    ("llama 4:2 tied", {**LLAMA, "num_kv_heads": 2, "tied": True}, 2, 64, 2),
    ("llama 4:4 biases, stretched", {**LLAMA, "num_kv_heads": 4, "attention_bias": True, "rope_scaling": STRETCH}, 3, 48, 3),
    ("llama biases on all products", {**LLAMA, "attention_bias": True, "output_bias": True, "mlp_bias": True}, 4, 33, 2),
    ("llama one head", {**LLAMA, "num_heads": 1, "num_kv_heads": 1, "hidden_size": 18, "ffn_size": 35}, 2, 9, 1),
    ("llama head size apart", {**LLAMA, "head_dim": 20, "rope_theta": 500000.0}, 2, 31, 2),
    ("llama one position", LLAMA, 3, 1, 1),
    ("llama linear", {**LLAMA, "rope_scaling": LINEAR}, 2, 33, 1),
    ("llama dynamic", {**LLAMA, "rope_scaling": DYNAMIC}, 2, 47, 1),
    ("llama dynamic, short", {**LLAMA, "rope_scaling": DYNAMIC}, 2, 20, 1),
    ("llama yarn", {**LLAMA, "rope_scaling": YARN}, 2, 47, 1),
    ("llama yarn, mscale", {**LLAMA, "head_dim": 32, "rope_scaling": YARN_DEEPSEEK}, 2, 33, 1),
    ("llama yarn, given", {**LLAMA, "head_dim": 20, "rope_theta": 500.0, "rope_scaling": YARN_GIVEN}, 2, 33, 2),
    ("llama longrope", {**LLAMA, "rope_scaling": LONG}, 2, 25, 1),
    ("llama longrope, short", {**LLAMA, "rope_scaling": {**LONG, "attention_factor": 1.25}}, 2, 24, 2),
    ("llama window of 7", {**LLAMA, "window": 7}, 4, 33, 2),
    ("llama window of 1", {**LLAMA, "window": 1, "num_kv_heads": 2}, 2, 20, 1),
    ("llama window in the last layers", {**LLAMA, "num_layers": 3, "window": 16, "window_layers": "1-"}, 2, 75, 2),
    ("llama window in every other layer", {**LLAMA, "num_layers": 4, "window": 5, "window_layers": "1 of 2"}, 2, 18, 2),
    ("llama window longer than the sequence", {**LLAMA, "window": 40}, 2, 33, 2),
]
IDS = [case[0] for case in CASES]
# device, precision, largest relative error of any gradient and of the loss
DEVICES = [("reference", "fp64", 1e-10), ("reference", "fp32", 1e-5), ("cpu", "fp32", 1e-5), ("cpu", "bf16", 2.5e-2)]
DEVICES = [(device_for(device, precision), precision, limit) for device, precision, limit in DEVICES]


def tokens_of(model, batch, sequence):
    generator = numpy.random.default_rng(1)
    ids = generator.integers(0, model["vocab_size"], (batch, sequence))
    labels = generator.integers(0, model["vocab_size"], (batch, sequence))
    labels[generator.random((batch, sequence)) < 0.2] = -1  # do not count
    labels[0, 0] = 1
    return ids, labels


def expected_of(weights, model, ids, labels):
    tensors = weights.tensors()
    loss = models.loss(model, tensors, torch.tensor(ids), torch.tensor(labels))
    loss.backward()
    return loss.item(), {name: t.grad.numpy() for name, t in tensors.items()}


@pytest.mark.parametrize("name, model, batch, sequence, micro_batch", CASES, ids=IDS)
def test_gradients(tmp_path, name, model, batch, sequence, micro_batch):
    weights = Weights(tmp_path, model)
    ids, labels = tokens_of(model, batch, sequence)
    loss, gradients = expected_of(weights, model, ids, labels)
    whole = numpy.concatenate([g.reshape(-1) for g in gradients.values()])
    for device, precision, limit in DEVICES:
        if precision == "bf16" and model.get("activation") == "relu":
            continue  # what rounding moves across 0 has another slope
        got, found = weights.gradients(device, precision, ids, labels, micro_batch)
        assert abs(got["loss"] - loss) <= limit * abs(loss), (device, precision)
        for parameter, gradient in gradients.items():
            # A gradient that is all rounding (k's bias: softmax does not see it) is held to the size of the others.
            scale = max(numpy.linalg.norm(gradient), 1e-3 * numpy.linalg.norm(whole))
            error = numpy.linalg.norm(found[parameter] - gradient) / scale
            assert error <= limit, f"{device} {precision}: {parameter} is off by {error:.3g}"
        assert abs(got["grad_norm"] - numpy.linalg.norm(whole)) <= limit * numpy.linalg.norm(whole)


@pytest.mark.parametrize("schedule", ["gpipe", "zero-bubble"])
@pytest.mark.parametrize("model", [{**GPT2, "tied": False}, LLAMA], ids=["gpt2", "llama"])
def test_schedules_give_the_same_bits(tmp_path, model, schedule):
    weights = Weights(tmp_path, model)
    ids, labels = tokens_of(model, 6, 33)
    for device, precision in [("reference", "fp64"), ("cpu", "fp32"), ("cpu", "bf16")]:
        one, first = weights.gradients(device, precision, ids, labels, 2)
        two, second = weights.gradients(device, precision, ids, labels, 2, schedule)
        assert one == two
        for name in first:
            assert numpy.array_equal(first[name], second[name]), (device, precision, name)


@pytest.mark.parametrize("name, model, batch, sequence, micro_batch", CASES, ids=IDS)
def test_logits_through_the_cache(tmp_path, name, model, batch, sequence, micro_batch):
    weights = Weights(tmp_path, model)
    ids, _ = tokens_of(model, 1, sequence)
    tokens, out = tmp_path / "ids.bin", tmp_path / "logits.bin"
    ids.astype(numpy.int32).tofile(tokens)
    dynamic = (model.get("rope_scaling") or {}).get("type") == "dynamic"
    for device, precision, limit in DEVICES:
        for piece in {1, sequence} if dynamic else {1, 5, sequence}:
            if device == "reference" and piece != 5 and not dynamic:
                continue
            with torch.no_grad():
                given = {**model, "token_by_token": piece == 1}
                expected = models.logits(given, weights.tensors(), torch.tensor(ids))[0].numpy()
            tool("logits", weights.model_file, device, precision, piece, sequence, weights.file, tokens, out)
            got = numpy.fromfile(out).reshape(-1, model["vocab_size"])
            last = [min(first + piece, sequence) - 1 for first in range(0, sequence, piece)]
            assert relative(got, expected[last]) <= limit, (device, precision, piece)


def hugging_face_config(m):
    m = models.complete(m)
    if m["family"] == "gpt2":
        return dict(model_type="gpt2", architectures=["GPT2LMHeadModel"], n_layer=m["num_layers"], n_embd=m["hidden_size"],
                    n_head=m["num_heads"], n_positions=m["max_sequence"], vocab_size=m["vocab_size"],
                    n_inner=m["ffn_size"], activation_function="gelu_new", layer_norm_epsilon=m["norm_eps"],
                    tie_word_embeddings=m["tied"], resid_pdrop=0.0)
    return dict(model_type="llama", architectures=["LlamaForCausalLM"], num_hidden_layers=m["num_layers"],
                hidden_size=m["hidden_size"], num_attention_heads=m["num_heads"], num_key_value_heads=m["num_kv_heads"],
                intermediate_size=m["ffn_size"], max_position_embeddings=m["max_sequence"], vocab_size=m["vocab_size"],
                rms_norm_eps=m["norm_eps"], rope_theta=m["rope_theta"], tie_word_embeddings=m["tied"])


@pytest.mark.parametrize("precision, limit", [("fp32", 1e-4), ("bf16", 2e-2)])
@pytest.mark.parametrize("model", [{**GPT2, "vocab_size": 257}, {**LLAMA, "vocab_size": 257}], ids=["gpt2", "llama"])
def test_twenty_steps(tmp_path, model, precision, limit):
    """The program itself, from a Hugging Face folder's weights, beside torch.optim.AdamW on the same samples."""
    text = "".join(f"The {i} oars of the trireme pull in time, and {i * i % 97} waves pass.\n" for i in range(400))
    (tmp_path / "text.txt").write_text(text)
    trireme("prepare", "--tokenizer", "bytes", "--out", tmp_path / "corpus", tmp_path / "text.txt")
    weights = Weights(tmp_path, model)
    weights.save_hugging_face(tmp_path / "start", hugging_face_config(model))
    sequence, batch, steps, lr, decay = 24, 6, 20, 3e-3, 0.1
    run = dict(
        model=weights.model_file, data=dict(train=str(tmp_path / "corpus/train"), sequence=sequence),
        layout=dict(micro_batch=2),
        optimizer=dict(global_batch=batch, steps=steps, lr=lr, warmup=5, decay="constant", betas=[0.9, 0.95], eps=1e-8,
                       weight_decay=decay, clip=1.0),
        precision=precision, seed=7, output=str(tmp_path / "run"),
    )
    (tmp_path / "run.yaml").write_text(yaml_of(run))
    trireme("train", tmp_path / "run.yaml", "--resume", tmp_path / "start")
    losses = [json.loads(line)["loss"] for line in open(tmp_path / "run/metrics.jsonl")]

    samples = tmp_path / "samples.bin"
    tool("samples", tmp_path / "corpus/train", sequence, model["vocab_size"], 7, batch * steps, samples, "joined",
         "windows", -1)
    samples = torch.tensor(numpy.fromfile(samples, numpy.int32).reshape(steps, batch, 3, sequence).astype(numpy.int64))
    tensors = weights.tensors(torch.float32)
    optimizer = torch.optim.AdamW(
        [dict(params=[t for t in tensors.values() if t.dim() == 2], weight_decay=decay),
         dict(params=[t for t in tensors.values() if t.dim() == 1], weight_decay=0.0)],
        lr=lr, betas=(0.9, 0.95), eps=1e-8)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = lr * min(1, (step + 1) / 5)
        optimizer.zero_grad()
        loss = models.loss(model, tensors, samples[step, :, 0], samples[step, :, 1])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(list(tensors.values()), 1.0)
        optimizer.step()
        assert abs(losses[step] - loss.item()) <= limit * abs(loss.item()), f"step {step + 1}"
    assert losses[-1] < losses[0]


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, *os.sys.argv[1:]]))

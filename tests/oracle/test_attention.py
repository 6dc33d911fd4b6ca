"""Attention on every device beside PyTorch's own matrices, tanh and softmax in fp64, as Gemma 2's and Granite's models in
transformers write it out (eager): a scale of its own, scores with a cap before the mask, documents that do not see each other,
windows, and heads that share keys. Out, the log of the sums, and the gradients of q, k and v by its autograd."""
import math
import os
import pathlib
import subprocess

import numpy
import pytest
import torch

TOOL = pathlib.Path(os.environ["TRIREME_TOOLS"]) / "attention_tool"
# Largest error of a result, relative to the largest element: fp32 sums in a different order, and results rounded to bf16.
OFF = {"fp64": 1e-12, "fp32": 5e-6, "bf16": 2e-2}
DEVICES = [("reference", "fp64"), ("guarded", "fp64"), ("cpu", "fp32"), ("cpu", "bf16"), ("cpu:baseline", "fp32"), ("emulated:warp=32", "fp64"),
           ("emulated:warp=64", "fp32"), ("emulated:warp=32", "bf16")]
# heads, of keys, size of a head, scale (None: as usual), cap, window, documents
CASES = {
    "scale": (4, 4, 16, 0.37, 0, 0, [70]),
    "gemma-2": (4, 2, 32, 1 / math.sqrt(24), 50.0, 0, [131]),
    "gemma-2 alternate": (4, 2, 32, 1 / math.sqrt(24), 50.0, 33, [131]),
    "granite": (6, 2, 24, 0.0078125, 0, 0, [40, 1, 90]),
    "among the scores": (6, 1, 40, None, 1.3, 0, [64, 66, 3]),
    "at the cap": (2, 2, 16, 4.0, 0.5, 9, [65, 30]),
    "neither": (3, 3, 17, None, 0, 0, [50, 20]),
}


def visible(lengths, window):
    """Who sees whom: the last `window` tokens of the own document."""
    document = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    i, j = torch.arange(len(document))[:, None], torch.arange(len(document))[None, :]
    return (document[:, None] == document[None, :]) & (j <= i) & (j > i - (window or len(document)))


def eager(rows, gradient, heads, kv_heads, head_dim, scale, cap, seen):
    rows = rows.clone().requires_grad_()
    q, k, v = rows.split([heads * head_dim, kv_heads * head_dim, kv_heads * head_dim], dim=1)
    q, k, v = (x.view(len(rows), -1, head_dim).transpose(0, 1) for x in (q, k, v))
    k, v = (x.repeat_interleave(heads // kv_heads, dim=0) for x in (k, v))
    scores = torch.matmul(q, k.transpose(1, 2)) * scale
    if cap:
        scores = cap * torch.tanh(scores / cap)
    scores = scores.masked_fill(~seen, -math.inf)
    out = torch.matmul(torch.softmax(scores, dim=-1), v).transpose(0, 1).reshape(len(rows), -1)
    out.backward(gradient)
    return out.detach(), torch.logsumexp(scores, dim=-1).detach(), rows.grad


@pytest.mark.parametrize("device,kind", DEVICES)
@pytest.mark.parametrize("name", CASES)
def test_eager(name, device, kind):
    heads, kv_heads, head_dim, scale, cap, window, lengths = CASES[name]
    scale = scale or 1 / math.sqrt(head_dim)
    random = torch.Generator().manual_seed(5)
    rows = torch.randn(sum(lengths), (heads + 2 * kv_heads) * head_dim, generator=random).bfloat16().double()
    rows[:, :heads * head_dim] *= 4  # so that caps have something to do
    gradient = torch.randn(sum(lengths), heads * head_dim, generator=random).bfloat16().double()
    words = [TOOL, device, kind, heads, kv_heads, head_dim, scale, cap, window, *lengths]
    result = subprocess.run([str(w) for w in words], input=rows.numpy().tobytes() + gradient.numpy().tobytes(), capture_output=True)
    assert result.returncode == 0, result.stderr.decode()
    expected = eager(rows, gradient, heads, kv_heads, head_dim, scale, cap, visible(lengths, window))
    got = numpy.frombuffer(result.stdout, numpy.float64)
    assert len(got) == sum(x.numel() for x in expected)
    for what, x in zip(("out", "log_sum_exp", "gradients"), expected):
        mine, got = got[:x.numel()], got[x.numel():]
        off = abs(mine - x.numpy().reshape(-1)).max() / abs(x).max().item()
        assert off <= OFF[kind], f"{what} is off by {off}"

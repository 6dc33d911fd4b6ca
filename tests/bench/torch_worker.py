"""PyTorch's side of the benchmark: a plain GPT-2 of our own writing, trained as one would. Reads "N" from standard input,
makes N steps and answers with a JSON list of their seconds; runs until its input ends.

torch_worker.py LAYERS WIDTH HEADS VOCAB BATCH SEQUENCE fp32|bf16 eager|compiled [cpu|cuda]

On cuda the attention is cuDNN's where this PyTorch has it, which on Hopper is faster than the default."""
import contextlib
import json
import resource
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def attention(self, x):
        batch, length, width = x.shape
        q, k, v = (p.view(batch, length, self.heads, -1).transpose(1, 2) for p in self.qkv(x).split(width, 2))
        if hasattr(F, "scaled_dot_product_attention"):
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = q @ k.transpose(-1, -2) / (width // self.heads) ** 0.5
            mask = torch.triu(torch.ones(length, length, dtype=torch.bool), 1)
            y = torch.softmax(scores.masked_fill(mask, float("-inf")), -1) @ v
        return self.out(y.transpose(1, 2).reshape(batch, length, width))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self, layers, width, heads, vocab, length):
        super().__init__()
        self.token, self.position = nn.Embedding(vocab, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocab, bias=False)
        for p in self.parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02)
        self.head.weight = self.token.weight

    def forward(self, ids, labels):
        x = self.token(ids) + self.position.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]).float(), labels.view(-1))


def optimizer_of(model):
    groups = [dict(params=[p for p in model.parameters() if p.dim() == 2], weight_decay=0.1),
              dict(params=[p for p in model.parameters() if p.dim() < 2], weight_decay=0.0)]
    for options in (dict(fused=True), dict(foreach=True), {}):  # the fastest that this version has on CPUs
        with contextlib.suppress(Exception):
            optimizer = torch.optim.AdamW(groups, lr=1e-4, betas=(0.9, 0.95), **options)
            probe = nn.Parameter(torch.zeros(2))
            probe.grad = torch.zeros(2)
            torch.optim.AdamW([probe], **options).step()
            return optimizer
    raise RuntimeError("no AdamW")


def main():
    layers, width, heads, vocab, batch, length = map(int, sys.argv[1:7])
    precision, mode = sys.argv[7:9]
    device = sys.argv[9] if len(sys.argv) > 9 else "cpu"
    torch.manual_seed(1)
    model = GPT(layers, width, heads, vocab, length).to(device)
    attention = contextlib.nullcontext
    if device == "cuda":
        from torch.nn.attention import SDPBackend, sdpa_kernel
        attention = lambda: sdpa_kernel([SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION], set_priority=True)
    optimizer = optimizer_of(model)
    call = torch.compile(model) if mode == "compiled" else model
    cast = torch.autocast(device, dtype=torch.bfloat16) if precision == "bf16" else contextlib.nullcontext()
    ids = torch.randint(0, vocab, (batch, length + 1), device=device)
    for line in sys.stdin:
        seconds = []
        for _ in range(int(line)):
            begin = time.perf_counter()
            with cast, attention():
                loss = call(ids[:, :-1], ids[:, 1:].contiguous())
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            loss.item()
            seconds.append(time.perf_counter() - begin)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps(dict(seconds=seconds, peak_bytes=peak, torch=torch.__version__)), flush=True)


if __name__ == "__main__":
    main()

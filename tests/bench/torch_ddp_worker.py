"""One process of PyTorch's DistributedDataParallel over gloo, bound to one core: the same model as torch_worker.py's.

torch_ddp_worker.py LAYERS WIDTH HEADS VOCAB BATCH SEQUENCE eager|compiled RANK CORE STEPS"""
import json
import os
import sys
import time

rank, core, steps = map(int, sys.argv[8:11])
os.sched_setaffinity(0, {core})  # before there are threads

import torch  # noqa: E402
from torch import distributed  # noqa: E402

from torch_worker import GPT, optimizer_of  # noqa: E402


def main():
    layers, width, heads, vocab, batch, length = map(int, sys.argv[1:7])
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", rank=rank, world_size=2)
    torch.manual_seed(1)
    model = torch.nn.parallel.DistributedDataParallel(GPT(layers, width, heads, vocab, length), bucket_cap_mb=100,
                                                      gradient_as_bucket_view=True, static_graph=True)
    optimizer = optimizer_of(model)
    call = torch.compile(model) if sys.argv[7] == "compiled" else model
    torch.manual_seed(2 + rank)
    ids = torch.randint(0, vocab, (batch, length + 1))
    seconds = []
    for _ in range(steps + 2):
        distributed.barrier()
        begin = time.perf_counter()
        loss = call(ids[:, :-1], ids[:, 1:].contiguous())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss.item()
        seconds.append(time.perf_counter() - begin)
    print(json.dumps(dict(seconds=seconds[2:])), flush=True)
    distributed.destroy_process_group()


main()

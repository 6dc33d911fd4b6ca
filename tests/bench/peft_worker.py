"""PEFT's side of bench_adapter.py: LoRA of a Llama of SmolLM2 135M's shape, with PyTorch's AdamW. Reads "N" from standard input, does N steps and prints a
JSON list of their seconds.

peft_worker.py BATCH SEQUENCE fp32|bf16 RANK THREADS

In bf16 the frozen weights are bf16, the factors fp32 (PEFT's default), and autocast computes in bf16."""
import contextlib
import json
import os
import sys
import time
import warnings

os.environ["CUDA_VISIBLE_DEVICES"] = ""
warnings.filterwarnings("ignore")
import torch  # noqa: E402
from peft import LoraConfig, get_peft_model  # noqa: E402
from transformers import LlamaConfig, LlamaForCausalLM  # noqa: E402


def main():
    batch, length, rank, threads = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[4]), int(sys.argv[5])
    precision = sys.argv[3]
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    config = LlamaConfig(vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9, num_key_value_heads=3,
                         max_position_embeddings=2048, tie_word_embeddings=True)
    model = LlamaForCausalLM(config)
    if precision == "bf16":
        model = model.to(torch.bfloat16)
    names = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    model = get_peft_model(model, LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=names, task_type="CAUSAL_LM"))
    model.train()
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1)
    mixed = torch.autocast("cpu", torch.bfloat16) if precision == "bf16" else contextlib.nullcontext()
    ids = torch.randint(0, config.vocab_size, (batch, length))
    for line in sys.stdin:
        seconds = []
        for _ in range(int(line)):
            begin = time.perf_counter()
            with mixed:
                loss = model(input_ids=ids, labels=ids).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(trained, 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            seconds.append(time.perf_counter() - begin)
        print(json.dumps(seconds), flush=True)


main()

"""TRL's side of bench_preference.py: DPO of a GPT-2 of 124M parameters with given reference log-probabilities, with
DPOTrainer's own loss and PyTorch's AdamW. Reads "N" from standard input, does N steps and prints a JSON list of their seconds.

trl_worker.py PAIRS PROMPT ANSWER fp32|bf16 full|lora THREADS"""
import contextlib
import json
import os
import sys
import time
import warnings

os.environ["CUDA_VISIBLE_DEVICES"] = ""
warnings.filterwarnings("ignore")
import torch  # noqa: E402
from datasets import Dataset  # noqa: E402
from tokenizers import Tokenizer, models, pre_tokenizers  # noqa: E402
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast  # noqa: E402
from trl import DPOConfig, DPOTrainer  # noqa: E402


def main():
    pairs, prompt, answer, threads = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[6])
    precision, kind = sys.argv[4], sys.argv[5]
    torch.set_num_threads(threads)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel({str(i): i for i in range(64)}, unk_token="0")), pad_token="0",
                                        eos_token="1")
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    torch.manual_seed(1)
    model = GPT2LMHeadModel(GPT2Config(attn_pdrop=0, embd_pdrop=0, resid_pdrop=0))
    if kind == "lora":
        from peft import LoraConfig, get_peft_model
        model = get_peft_model(model, LoraConfig(r=16, lora_alpha=32, target_modules=["c_attn", "c_proj", "c_fc"], task_type="CAUSAL_LM"))
    args = DPOConfig(output_dir="/tmp/trl-out", use_cpu=True, bf16=False, gradient_checkpointing=False, report_to=[],
                     per_device_train_batch_size=pairs)
    data = Dataset.from_dict({"prompt": ["2 3"] * pairs, "chosen": ["4 5"] * pairs, "rejected": ["6"] * pairs})
    unused = None if kind == "lora" else GPT2LMHeadModel(GPT2Config(n_layer=1, n_embd=12, vocab_size=64))
    trainer = DPOTrainer(model=model, ref_model=unused, args=args, train_dataset=data, processing_class=tokenizer)
    trainer.precompute_ref_logps, trainer.ref_model = True, None  # as after its own first pass
    model = trainer.model
    model.train()
    ids = torch.randint(2, 50257, (2 * pairs, prompt + answer))
    ids[pairs:, :prompt] = ids[:pairs, :prompt]
    answers = torch.zeros_like(ids)
    answers[:, prompt:] = 1
    inputs = dict(input_ids=ids, attention_mask=torch.ones_like(ids), completion_mask=answers, ref_chosen_logps=torch.full((pairs,), -1000.0),
                  ref_rejected_logps=torch.full((pairs,), -1000.0))
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-6, betas=(0.9, 0.95), weight_decay=0.1)
    mixed = torch.autocast("cpu", torch.bfloat16) if precision == "bf16" else contextlib.nullcontext()
    for line in sys.stdin:
        seconds = []
        for _ in range(int(line)):
            begin = time.perf_counter()
            with mixed:
                loss = trainer._compute_loss(model, inputs, False)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(trained, 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            seconds.append(time.perf_counter() - begin)
        print(json.dumps(seconds), flush=True)


main()

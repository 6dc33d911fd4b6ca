"""TRL's side of bench_reinforcement.py.

grpo_worker.py model FOLDER CONFIG: writes a Llama with random weights and its tokenizer to FOLDER/model.
grpo_worker.py train FOLDER PROMPTS SIZE LONGEST THREADS STEPS: trains it with GRPOTrainer and prints a JSON list of the seconds of each step but the first."""
import json
import os
import sys
import time
import warnings

os.environ["CUDA_VISIBLE_DEVICES"], os.environ["HF_HUB_OFFLINE"] = "", "1"
warnings.filterwarnings("ignore")
import torch  # noqa: E402
from tokenizers import Tokenizer, decoders, models  # noqa: E402
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, TrainerCallback  # noqa: E402


def write_model(folder, config):
    tokenizer = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate([*"0123456789+=", "?"])}, merges=[], unk_token="?"))
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens([";", "_"])
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=";", pad_token="_").save_pretrained(folder + "/model")
    torch.manual_seed(0)
    ids = dict(eos_token_id=13, pad_token_id=14, bos_token_id=None)
    LlamaForCausalLM(LlamaConfig(max_position_embeddings=512, tie_word_embeddings=True, **ids, **config)).save_pretrained(folder + "/model")


def train(folder, prompts, size, longest, threads, steps):
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer
    torch.set_num_threads(threads)
    times = []

    class Clock(TrainerCallback):
        def on_step_end(self, *_, **__):
            times.append(time.perf_counter())

    def reward(completions, answer, **_):
        return [float(given == right) for given, right in zip(completions, answer)]

    with open(folder + "/prompts.jsonl") as lines:
        data = Dataset.from_list([json.loads(line) for line in lines])
    args = GRPOConfig(output_dir=folder + "/trl", use_cpu=True, bf16=False, gradient_checkpointing=False, report_to=[], per_device_train_batch_size=prompts * size,
                      num_generations=size, max_completion_length=longest, max_steps=steps + 1, learning_rate=3e-4, logging_steps=1000, save_strategy="no",
                      disable_tqdm=True)
    GRPOTrainer(model=LlamaForCausalLM.from_pretrained(folder + "/model", dtype=torch.float32), reward_funcs=reward, args=args, train_dataset=data,
                processing_class=AutoTokenizer.from_pretrained(folder + "/model"), callbacks=[Clock()]).train()
    print(json.dumps([after - before for before, after in zip(times, times[1:])]))


if __name__ == "__main__":
    if sys.argv[1] == "model":
        write_model(sys.argv[2], json.loads(sys.argv[3]))
    else:
        train(sys.argv[2], *map(int, sys.argv[3:]))

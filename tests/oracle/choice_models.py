"""Tiny models with the same weights everywhere, and questions about nothing: what test_choices.py and make_choice_cases.py share."""
import json
import random

import numpy
from safetensors.numpy import save_file

# Of two families, with odd shapes; the second has a token that every text begins with.
CONFIGS = {
    "gpt2": dict(architectures=["GPT2LMHeadModel"], model_type="gpt2", vocab_size=515, n_embd=40, n_layer=2, n_head=4, n_inner=96, n_positions=72,
                 activation_function="gelu_new", layer_norm_epsilon=1e-5, bos_token_id=0, eos_token_id=0),
    "llama": dict(architectures=["LlamaForCausalLM"], model_type="llama", vocab_size=515, hidden_size=48, num_hidden_layers=2, num_attention_heads=6,
                  num_key_value_heads=2, intermediate_size=80, max_position_embeddings=64, rms_norm_eps=1e-5, rope_theta=10000.0, hidden_act="silu",
                  tie_word_embeddings=False, bos_token_id=1, eos_token_id=0),
}
WORDS = ("the ship sails over a cold sea while birds watch small boats near stone walls and old men sing of storms that never came to rest "
         "Über naïve Äpfel wächst 日本 nothing; where's that?").split()


def shapes(config):
    """Names and shapes in Hugging Face's files."""
    if config["model_type"] == "gpt2":
        width, inner = config["n_embd"], config["n_inner"]
        yield "transformer.wte.weight", (config["vocab_size"], width)
        yield "transformer.wpe.weight", (config["n_positions"], width)
        for i in range(config["n_layer"]):
            for norm in ("ln_1", "ln_2"):
                yield f"transformer.h.{i}.{norm}.weight", (width,)
                yield f"transformer.h.{i}.{norm}.bias", (width,)
            for name, rows, columns in (("attn.c_attn", width, 3 * width), ("attn.c_proj", width, width), ("mlp.c_fc", width, inner),
                                        ("mlp.c_proj", inner, width)):
                yield f"transformer.h.{i}.{name}.weight", (rows, columns)
                yield f"transformer.h.{i}.{name}.bias", (columns,)
        yield "transformer.ln_f.weight", (width,)
        yield "transformer.ln_f.bias", (width,)
        return
    width, inner = config["hidden_size"], config["intermediate_size"]
    head = width // config["num_attention_heads"]
    yield "model.embed_tokens.weight", (config["vocab_size"], width)
    for i in range(config["num_hidden_layers"]):
        for name, rows, columns in (("self_attn.q_proj", width, width), ("self_attn.k_proj", head * config["num_key_value_heads"], width),
                                    ("self_attn.v_proj", head * config["num_key_value_heads"], width), ("self_attn.o_proj", width, width),
                                    ("mlp.gate_proj", inner, width), ("mlp.up_proj", inner, width), ("mlp.down_proj", width, inner)):
            yield f"model.layers.{i}.{name}.weight", (rows, columns)
        for norm in ("input_layernorm", "post_attention_layernorm"):
            yield f"model.layers.{i}.{norm}.weight", (width,)
    yield "model.norm.weight", (width,)
    yield "lm_head.weight", (config["vocab_size"], width)


def write_model(folder, family, tokenizer, seed=0, **changes):
    """A Hugging Face folder. The legacy generator draws the same numbers in every version of numpy. `changes`: other keys of config.json."""
    folder.mkdir(parents=True, exist_ok=True)
    draw, config = numpy.random.RandomState(seed + len(family)), dict(CONFIGS[family], **changes)
    tensors = {}
    for name, shape in shapes(config):
        values = draw.standard_normal(shape)
        norm = len(shape) == 1 and name.endswith("weight")
        tensors[name] = (1 + 0.1 * values if norm else 0.3 * values).astype(numpy.float32)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "tokenizer_config.json").write_text(json.dumps(dict(tokenizer_class="PreTrainedTokenizerFast", bos_token="<s>" if family == "llama" else "<|endoftext|>",
                                                                  eos_token="<|endoftext|>")))
    return folder


def write_lines(path, lines):
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
    return path


def questions(count=200, seed=7):
    """Made up: contexts that end in spaces, are empty, or longer than the models' positions; choices of one to nine words."""
    draw = random.Random(seed)

    def some(least, most):
        return " ".join(draw.choice(WORDS) for _ in range(draw.randint(least, most)))
    for i in range(count):
        context = "" if i % 40 == 11 else some(1, 60 if i % 20 == 3 else 14) + ("", "", "?", ":", " ", "\n", "  ", "\u3000")[i % 8]
        choices = []
        while len(choices) < 2 + i % 4:
            choice = some(1, 9) + ("", ".", "!")[i % 3]
            if choice not in choices:
                choices.append(choice)
        yield dict(question=context, choices=choices, answer=draw.randrange(len(choices)))

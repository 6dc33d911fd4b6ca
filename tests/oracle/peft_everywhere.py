"""Adapters as PEFT writes them with factors beside the embedding and the output projection, and with magnitudes (DoRA): bases and factors follow from a formula.
make_peft_everywhere.py stores PEFT's losses and gradients, and test_peft_everywhere.py compares ours."""
import json

import families
import numpy
import peft_ties
from families import tensor_of
from lora import MAGNITUDE
from peft_ties import CONFIG, EMBEDDING, HEAD, VOCAB

RANK, ALPHA, WIDTH = 3, 7, CONFIG["hidden_size"]
LAYER, UP, DOWN = "model.layers.1.self_attn.q_proj", "model.layers.0.mlp.up_proj", "model.layers.1.mlp.down_proj"
PREFIX = "base_model.model."
# Whether the base is tied; the targets as the file has them, and modules that have factors in it; ensure_weight_tying, and other settings
CASES = {
    "output projection": (False, ["lm_head"], ["lm_head"], False, {}),
    "embedding": (False, ["embed_tokens"], ["model.embed_tokens"], False, {}),
    "both and a layer": (False, ["model.embed_tokens", "lm_head", LAYER], ["model.embed_tokens", "lm_head", LAYER], False, {}),
    "patterns": (False, ["embed_tokens", "lm_head"], ["model.embed_tokens", "lm_head"], False,
                 dict(rank_pattern={"lm_head": 5, "embed_tokens": 2}, alpha_pattern={"embed_tokens": 3}, use_rslora=True)),
    "the embedding of two": (True, ["embed_tokens"], ["model.embed_tokens"], False, {}),
    "the output projection of two": (True, ["lm_head"], ["lm_head"], False, {}),
    "each by itself": (True, ["embed_tokens", "lm_head"], ["model.embed_tokens", "lm_head"], False, {}),
    "both as one": (True, ["model.embed_tokens"], ["model.embed_tokens", "lm_head"], True, {}),
    "both as one, and a layer": (True, ["embed_tokens", "model.embed_tokens", LAYER], ["model.embed_tokens", "lm_head", LAYER], True, {}),
    "magnitudes": (False, [LAYER, UP, DOWN], [LAYER, UP, DOWN], False, dict(use_dora=True)),
    "magnitudes, rslora and patterns": (True, [LAYER, UP, DOWN], [LAYER, UP, DOWN], False,
                                        dict(use_dora=True, use_rslora=True, rank_pattern={"up_proj": 2, "down_proj": 5}, alpha_pattern={"q_proj": 3})),
}
# Cases in which PEFT also writes the matrix of the base model (save_embedding_layers: auto)
WITH_BASE = ["both and a layer", "each by itself", "both as one, and a layer"]


def write_base(folder, tied):
    if tied:
        return peft_ties.write_base(folder)
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG | dict(tie_word_embeddings=False)))
    peft_ties.write_tensors(folder / "model.safetensors", peft_ties.base_tensors() | {HEAD: tensor_of("llama", HEAD, (VOCAB, WIDTH))})
    return folder


def rank_of(name, module):
    ranks = CASES[name][4].get("rank_pattern", {})
    return ranks.get(module.split(".")[-1], RANK)


def factors_of(name):
    """By our names. Of two that are tied those of the output projection are the embedding's, transposed."""
    _, _, modules, ensure, settings = CASES[name]
    shapes = {weight.removesuffix(".weight"): values.shape for weight, values in peft_ties.base_tensors().items()} | {"lm_head": (VOCAB, WIDTH)}
    found = {}
    for module in modules:
        rank, embedding, (outputs, inputs) = rank_of(name, module), module == "model.embed_tokens", shapes[module]
        a, b = ((rank, outputs), (inputs, rank)) if embedding else ((rank, inputs), (outputs, rank))
        ends = (".lora_embedding_A", ".lora_embedding_B") if embedding else (".lora_A.weight", ".lora_B.weight")
        found |= {module + end: tensor_of("llama", module + end, shape) for end, shape in zip(ends, (a, b))}
        if settings.get("use_dora"):
            found[module + MAGNITUDE] = numpy.float32(0.25 + numpy.abs(tensor_of("llama", module + MAGNITUDE, (outputs,))))
    if ensure:
        found["lm_head.lora_A.weight"] = found["model.embed_tokens.lora_embedding_B"].T
        found["lm_head.lora_B.weight"] = found["model.embed_tokens.lora_embedding_A"].T
    return found


def write_adapter(folder, base, name, **changes):
    tied, targets, modules, ensure, settings = CASES[name]
    tensors = {PREFIX + key: numpy.ascontiguousarray(values) for key, values in factors_of(name).items()}
    if name in WITH_BASE:
        weights = peft_ties.base_tensors() | ({} if tied else {HEAD: tensor_of("llama", HEAD, (VOCAB, WIDTH))})
        weights.setdefault(HEAD, weights[EMBEDDING])
        tensors |= {f"{PREFIX}{module}.base_layer.weight": weights[f"{module}.weight"] for module in modules if module != LAYER}
    folder.mkdir()
    peft_ties.write_tensors(folder / "adapter_model.safetensors", tensors)
    (folder / "adapter_config.json").write_text(json.dumps(dict(
        base_model_name_or_path=str(base), bias="none", fan_in_fan_out=False, inference_mode=True, init_lora_weights=True, lora_alpha=ALPHA, lora_dropout=0.0,
        modules_to_save=None, peft_type="LORA", r=RANK, target_modules=targets, task_type="CAUSAL_LM", ensure_weight_tying=ensure) | settings | changes))
    return folder


def probes(values):
    """Returns numbers that depend on all elements of a tensor: its norm, and its products with four waves, scaled to that size."""
    flat = numpy.asarray(values, numpy.float64).reshape(-1)
    waves = [numpy.cos((k + 1) * (numpy.arange(flat.size) * 0.7 + k)) for k in range(4)]
    return [float(numpy.linalg.norm(flat)), *(float(flat @ wave) / flat.size**0.5 for wave in waves)]


# ---- every family ----------------------------------------------------------------------------------------------------

# family: (model of families.py, its embedding, its norms). Adapters have factors for all modules, and modules_to_save with these names.
FAMILIES = {"dots1": ("dots1", "embed_tokens", ["input_layernorm", "norm"]), "falcon": ("falcon, 7B, biases", "word_embeddings", ["input_layernorm", "ln_f"]),
            "gemma": ("gemma, untied", "embed_tokens", ["input_layernorm", "norm"]), "gemma2": ("gemma2, biases", "embed_tokens", ["pre_feedforward_layernorm", "norm"]),
            "gemma3": ("gemma3, stretched", "embed_tokens", ["post_feedforward_layernorm", "norm"]), "gpt2": ("gpt2", "wte", ["ln_1", "ln_f"]),
            "gpt_neox": ("gpt_neox, no biases of attention", "embed_in", ["input_layernorm", "final_layer_norm"]), "granite": ("granite, biases", "embed_tokens", ["input_layernorm", "norm"]),
            "llama": ("llama, all biases", "embed_tokens", ["input_layernorm", "norm"]), "mixtral": ("mixtral", "embed_tokens", ["input_layernorm", "norm"]),
            "olmo2": ("olmo2, biases", "embed_tokens", ["post_attention_layernorm", "norm"]), "olmoe": ("olmoe", "embed_tokens", ["q_norm", "norm"]),
            "opt": ("opt, untied", "embed_tokens", ["self_attn_layer_norm", "final_layer_norm"]), "phi": ("phi", "embed_tokens", ["input_layernorm", "final_layernorm"]),
            "phi3": ("phi3", "embed_tokens", ["input_layernorm", "norm"]), "qwen3": ("qwen3", "embed_tokens", ["k_norm", "norm"]), "qwen3_moe": ("qwen3_moe", "embed_tokens", ["input_layernorm", "norm"]),
            "smollm3": ("smollm3, windows", "embed_tokens", ["input_layernorm", "norm"]), "stablelm": ("stablelm", "embed_tokens", ["input_layernorm", "norm"]),
            "starcoder2": ("starcoder2", "embed_tokens", ["input_layernorm", "norm"])}
KINDS = ("factors", "saved")


def is_mixture(family):
    return family in ("dots1", "mixtral", "olmoe", "qwen3_moe")


def config_of(family):
    """Returns the configuration of the family's model, with the fewest layers that show all of its features."""
    config = families.config_of(FAMILIES[family][0])
    return config | ({"n_layer": 1} if family == "gpt2" else {} if is_mixture(family) or "layer_types" in config or "no_rope_layers" in config else {"num_hidden_layers": 1})


def write_folder(folder, file, family, config, kind, shapes, prefix=""):
    """A model, or an adapter with PEFT's names: its tensors follow from their names."""
    folder.mkdir()
    tensors = {prefix + name: tensor_of(FAMILIES[family][0].split(",")[0], kind + name, shape) for name, shape in shapes.items()}
    peft_ties.write_tensors(folder / f"{file}.safetensors", tensors)
    (folder / ("config.json" if kind == "" else "adapter_config.json")).write_text(json.dumps(config))
    return folder


def write_family(folder, family, found):
    return write_folder(folder, "model", family, config_of(family), "", found["base"])


def write_kind(folder, base, family, kind, found):
    config = dict(base_model_name_or_path=str(base), bias="none", inference_mode=True, lora_alpha=ALPHA, lora_dropout=0.0, peft_type="LORA", r=2, task_type="CAUSAL_LM")
    return write_folder(folder, "adapter_model", family, config | found[kind]["config"], kind, found[kind]["tensors"], PREFIX)

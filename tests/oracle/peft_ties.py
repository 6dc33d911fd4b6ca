"""A base whose output projection is tied to its embedding, and adapters as PEFT writes them that train one of the two, or both:
weights follow from a formula. make_peft_ties.py stores PEFT's losses, and test_peft_ties.py compares ours."""
import json
import struct

import numpy
from families import PLAIN, rope, sizes, tensor_of

HEAD, EMBEDDING, LENGTH, VOCAB, RANK = "lm_head.weight", "model.embed_tokens.weight", 23, 61, 2
CONFIG = dict(PLAIN, model_type="llama", architectures=["LlamaForCausalLM"], tie_word_embeddings=True, **sizes(2, 24, 4, 37, VOCAB, kv=2), **rope())
# modules_to_save, ensure_weight_tying, and the tensors that PEFT writes for them
CASES = {
    "the embedding": (["embed_tokens"], False, [EMBEDDING]),
    "the output projection": (["lm_head"], False, [HEAD]),
    "each by itself": (["embed_tokens", "lm_head"], False, [EMBEDDING, HEAD]),
    "both as one": (["embed_tokens", "model.embed_tokens"], True, [EMBEDDING, HEAD]),
    "neither": (None, False, []),
    # as save_embedding_layers has them in the file: written over the base's
    "over the base's embedding": (None, False, [EMBEDDING]),
    "over the base's output projection": (None, False, [HEAD]),
    "over both": (None, False, [EMBEDDING, HEAD]),
    "over one, and the other by itself": (["lm_head"], False, [EMBEDDING, HEAD]),
}
UNTIED = [name for name, (modules, ensure, _) in CASES.items() if modules and not ensure]
# Changes of adapter_config.json that leave out factors of the file, which PEFT then ignores, with the key that does it; and changes that
# leave out none of them.
LEAVES_OUT = {
    "another module": (dict(target_modules=["v_proj"]), "target_modules"),
    "the end of another name": (dict(target_modules=["proj", "v_proj"]), "target_modules"),
    "one layer by its name": (dict(target_modules=["model.layers.1.self_attn.q_proj"]), "target_modules"),
    "a pattern": (dict(target_modules=r".*layers\.0\..*(?:q|v)_proj"), "target_modules"),
    "excluded": (dict(exclude_modules=["1.self_attn.q_proj"]), "exclude_modules"),
    "excluded by a pattern": (dict(exclude_modules=r"(?:.*?)layers\.[0]+?\.self_attn\.\w+"), "exclude_modules"),
    "the first layer": (dict(layers_to_transform=[0]), "layers_to_transform"),
    "the second layer": (dict(layers_to_transform=1, layers_pattern="layers"), "layers_to_transform"),
    "more modules": (dict(target_modules=["q_proj", "k_proj"]), None),
    "by whole names": (dict(target_modules=[f"model.layers.{layer}.self_attn.q_proj" for layer in (0, 1)], layers_to_transform=[0]), None),
    "a pattern of all": (dict(target_modules=r"(?:.*?\.)*layers\.[\d]{1,}\.(?:self_attn|mlp)\.(?:q_proj|up_proj)"), None),
    "excluded others": (dict(exclude_modules=["v_proj", "proj"]), None),
    "by their parameters": (dict(target_modules=[], target_parameters=["q_proj.weight"]), None),
    "one parameter": (dict(target_modules=[], target_parameters=["1.self_attn.q_proj.weight"]), "target_modules"),
    "all layers": (dict(layers_to_transform=[0, 1], layers_pattern="layers"), None),
}


def write_tensors(path, tensors):
    header, data = {}, b""
    for name, tensor in tensors.items():
        content = tensor.astype("<f4").tobytes()
        header[name] = dict(dtype="F32", shape=list(tensor.shape), data_offsets=[len(data), len(data) + len(content)])
        data += content
    text = json.dumps(header | dict(__metadata__=dict(format="pt"))).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def base_tensors():
    d, f, kv, v = CONFIG["hidden_size"], CONFIG["intermediate_size"], 12, VOCAB
    shapes = {EMBEDDING: (v, d), "model.norm.weight": (d,)}
    for layer in range(CONFIG["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        shapes |= {at + "input_layernorm.weight": (d,), at + "post_attention_layernorm.weight": (d,), at + "self_attn.q_proj.weight": (d, d),
                   at + "self_attn.k_proj.weight": (kv, d), at + "self_attn.v_proj.weight": (kv, d), at + "self_attn.o_proj.weight": (d, d),
                   at + "mlp.gate_proj.weight": (f, d), at + "mlp.up_proj.weight": (f, d), at + "mlp.down_proj.weight": (d, f)}
    return {name: tensor_of("llama", name, shape) for name, shape in shapes.items()}


def write_base(folder):
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    write_tensors(folder / "model.safetensors", base_tensors())
    return folder


def write_adapter(folder, base, name, **settings):
    modules, ensure, trained = CASES[name]
    tensors, d = {}, CONFIG["hidden_size"]
    for layer in range(CONFIG["num_hidden_layers"]):
        module = f"base_model.model.model.layers.{layer}.self_attn.q_proj"
        tensors[module + ".lora_A.weight"] = tensor_of("llama", module + "A", (RANK, d))
        tensors[module + ".lora_B.weight"] = tensor_of("llama", module + "B", (d, RANK))
    for k, tensor in enumerate(trained):
        tensors["base_model.model." + tensor] = tensor_of("llama", "trained" if ensure else f"trained {k}", (VOCAB, d))
    folder.mkdir()
    write_tensors(folder / "adapter_model.safetensors", tensors)
    (folder / "adapter_config.json").write_text(json.dumps(dict(
        base_model_name_or_path=str(base), bias="none", fan_in_fan_out=False, inference_mode=True, init_lora_weights=True, lora_alpha=4, lora_dropout=0.0,
        modules_to_save=modules, peft_type="LORA", r=RANK, target_modules=["q_proj"], task_type="CAUSAL_LM", ensure_weight_tying=ensure) | settings))
    return folder


def tokens():
    return ((numpy.arange(LENGTH + 1) * 17 + 5) % VOCAB).astype(numpy.int32)


def write_window(prefix):
    """A corpus of these tokens."""
    prefix.with_suffix(".bin").write_bytes(tokens().astype("<i4").tobytes())
    prefix.with_suffix(".idx").write_bytes(b"MMIDIDX\0\0" + struct.pack("<QBQQiqqq", 1, 4, 1, 2, LENGTH + 1, 0, 0, 1))

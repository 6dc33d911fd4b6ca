"""A small Llama whose weights follow from a formula, and folders of it whose matrices are in 4 bits, as bitsandbytes writes them.
make_four_bits.py stores what bitsandbytes and transformers make of them, and test_four_bits.py compares ours. Rows are of whole blocks
of 64: where they are not of whole blocks, bitsandbytes' kernel for CPUs does not undo what it has made."""
import json
import struct

import numpy
import peft_ties
from families import PLAIN, rope, sizes, tensor_of

WIDTH, VOCAB, LENGTH = 64, peft_ties.VOCAB, peft_ties.LENGTH
CONFIG = dict(PLAIN, model_type="llama", architectures=["LlamaForCausalLM"], tie_word_embeddings=False, **sizes(1, WIDTH, 2, WIDTH, VOCAB, kv=1), **rope())
AT = "model.layers.0."
MATRICES = {AT + f"self_attn.{name}_proj.weight": (WIDTH // 2 if name in "kv" else WIDTH, WIDTH) for name in "qkvo"}
MATRICES |= {AT + f"mlp.{name}_proj.weight": (WIDTH, WIDTH) for name in ("gate", "up", "down")}
OTHERS = {"model.embed_tokens.weight": (VOCAB, WIDTH), "lm_head.weight": (VOCAB, WIDTH), "model.norm.weight": (WIDTH,),
          AT + "input_layernorm.weight": (WIDTH,), AT + "post_attention_layernorm.weight": (WIDTH,)}
# quant_type, blocksize, double quantisation
KINDS = {"as here": ("nf4", 64, True), "without double quantisation": ("nf4", 64, False), "fp4": ("fp4", 64, True), "blocks of 128": ("nf4", 128, True)}
TYPES = {"F32": "<f4", "U8": "u1"}


def base_tensors(names=None):
    return {name: tensor_of("llama", name, shape).astype(numpy.float32) for name, shape in (names or OTHERS | MATRICES).items()}


def packed(tensors):
    """A safetensors file of fp32 numbers and bytes."""
    header, data = {}, b""
    for name, tensor in sorted(tensors.items(), key=lambda pair: -pair[1].itemsize):
        content = tensor.tobytes()
        header[name] = dict(dtype="U8" if tensor.itemsize == 1 else "F32", shape=list(tensor.shape), data_offsets=[len(data), len(data) + len(content)])
        data += content
    text = json.dumps(header | dict(__metadata__=dict(format="pt"))).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def unpacked(raw):
    length, = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8:8 + length])
    return {name: numpy.frombuffer(raw, TYPES[entry["dtype"]], (entry["data_offsets"][1] - entry["data_offsets"][0]) // int(TYPES[entry["dtype"]][-1]),
                                   8 + length + entry["data_offsets"][0]).reshape(entry["shape"]) for name, entry in header.items() if name != "__metadata__"}


def write_folder(folder, quantised=None, kind="nf4", **more):
    """The model; or, with `quantised`, these tensors in the place of its matrices."""
    folder.mkdir()
    method = dict(quant_method="bitsandbytes", load_in_4bit=True, bnb_4bit_quant_type=kind, bnb_4bit_compute_dtype="float32", llm_int8_skip_modules=["lm_head"])
    config = CONFIG if quantised is None else CONFIG | dict(quantization_config=method | more)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").write_bytes(packed(base_tensors() if quantised is None else base_tensors(OTHERS) | quantised))
    return folder

"""Tiny models of all families that llama.cpp has, as Hugging Face folders, for tests of GGUF files: names, config.json and weights of families.py, and
more of the model types that are not there."""
import json
import pathlib

import families
import numpy
from families import EXPERTS, GEMMA3_ROPE, LLAMA3, PLAIN, longrope, rope, sizes
from safetensors.numpy import save_file

SILU, GELU = dict(hidden_act="silu", rms_norm_eps=1e-5), dict(hidden_activation="gelu_pytorch_tanh", rms_norm_eps=1e-6)
LLAMA = sizes(3, 24, 4, 37, 257, kv=2, **SILU)
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=10)
LINEAR = dict(rope_type="linear", factor=3.0)
GPT2 = dict(n_layer=2, n_embd=24, n_head=3, n_positions=40, vocab_size=257, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, layer_norm_epsilon=1e-5)
GEMMA2 = dict(sizes(4, 28, 4, 33, 83, kv=2), **GELU, head_dim=10, query_pre_attn_scalar=10, sliding_window=5, attn_logit_softcapping=1.5,
              final_logit_softcapping=2.0)
GEMMA3 = dict(sizes(7, 20, 4, 27, 71, kv=2), **GELU, head_dim=8, query_pre_attn_scalar=8, sliding_window=4)
DOTS = dict(dict(EXPERTS, num_key_value_heads=4), **SILU, n_routed_experts=6, n_shared_experts=2, n_group=3, topk_group=2, routed_scaling_factor=1.5,
            first_k_dense_replace=1, head_dim=8, sliding_window=None, max_window_layers=2)
GRANITE = dict(LLAMA, embedding_multiplier=3.5, residual_multiplier=0.3, attention_multiplier=0.21, logits_scaling=1.7)
MIXTRAL = dict(sizes(2, 24, 4, 37, 257, kv=2), **SILU, num_local_experts=5, num_experts_per_tok=2, sliding_window=None)
MORE = {
    "gpt2": ("gpt2", dict(GPT2)),
    "gpt2, untied": ("gpt2", dict(GPT2, n_inner=50, tie_word_embeddings=False)),
    "llama, llama3": ("llama", dict(LLAMA, rope_parameters=dict(LLAMA3, rope_theta=5000.0))),
    "llama, tied": ("llama", dict(LLAMA, tie_word_embeddings=True, **rope(700.0))),
    "llama, yarn": ("llama", dict(LLAMA, **rope(3000.0, attention_factor=1.4, **YARN))),
    "llama, linear": ("llama", dict(LLAMA, **rope(3000.0, **LINEAR))),
    "mistral": ("mistral", dict(LLAMA, head_dim=10, sliding_window=None, **rope())),
    "qwen2": ("qwen2", dict(LLAMA, use_sliding_window=False, **rope(**YARN))),
    "granite, llama3": ("granite", dict(GRANITE, head_dim=10, rope_parameters=dict(LLAMA3, rope_theta=5000.0))),
    "mixtral": ("mixtral", dict(MIXTRAL, **rope())),
    "qwen3_moe": ("qwen3_moe", dict(EXPERTS, **SILU, num_experts=5, head_dim=10, decoder_sparse_step=1, mlp_only_layers=[])),
    "olmoe": ("olmoe", dict(sizes(2, 24, 4, 19, 257), **SILU, num_experts=5, num_experts_per_tok=3, norm_topk_prob=False, **rope())),
    "dots1": ("dots1", dict(DOTS)),
    "gemma2, windows": ("gemma2", dict(GEMMA2, **rope())),
    "gemma3, windows": ("gemma3_text", dict(GEMMA3, rope_parameters=GEMMA3_ROPE)),
    "gemma3, yarn": ("gemma3_text", dict(GEMMA3, rope_parameters=dict(GEMMA3_ROPE, full_attention=dict(YARN, rope_theta=3000.0)))),
    "phi3, longrope, 512": ("phi3", dict(sizes(2, 24, 2, 29, 53, kv=1, longest=2048), **SILU, resid_pdrop=0.0, embd_pdrop=0.0, sliding_window=None,
                                         original_max_position_embeddings=512, **rope(500.0, **longrope(6)))),
}
OF_FAMILIES = {name: case["config"] | dict(shapes={tensor: shape for tensor, (shape, *_) in case["gradients"].items()})
               for name, case in json.loads((pathlib.Path(__file__).parent / "family_cases.json").read_text())["cases"].items()}
NAMES = [*OF_FAMILIES, *MORE]


def model_of(name, folder):
    """{key: value} of config.json, and {name: tensor}."""
    if name in OF_FAMILIES:
        config = dict(OF_FAMILIES[name])
        shapes = config.pop("shapes")
    else:
        config = dict(PLAIN, model_type=MORE[name][0], **MORE[name][1])
        shapes = Shapes(folder / "shapes", config).names()
    return config, {tensor: numpy.ascontiguousarray(families.tensor_of(config["model_type"], tensor, shape), numpy.float32)
                    for tensor, shape in shapes.items()}


class Shapes(families.FamilyWeights):
    def __init__(self, folder, config):
        super().__init__(folder, config, {})

    def replace(self, tensors):
        pass


def write_model(name, folder, tokenizer):
    """Writes a folder with the tokenizer.json at `tokenizer`; returns config and tensors."""
    config, tensors = model_of(name, folder.parent)
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_bytes(tokenizer.read_bytes())
    save_file(tensors, folder / "model.safetensors")
    return config, tensors


def write_tokenizer(path):
    """A byte-level vocabulary of 40 bytes and the end of a text, small enough for all models."""
    letters = {chr(code): code - 33 for code in range(33, 73)}
    path.write_text(json.dumps(dict(
        version="1.0", normalizer=None, post_processor=None, pre_tokenizer=dict(type="ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=True),
        decoder=dict(type="ByteLevel", add_prefix_space=True, trim_offsets=True, use_regex=True),
        added_tokens=[dict(id=40, content="<|endoftext|>", single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)],
        model=dict(type="BPE", dropout=None, unk_token=None, continuing_subword_prefix="", end_of_word_suffix="", fuse_unk=False, byte_fallback=False,
                   ignore_merges=False, vocab=letters, merges=[]))))
    return path

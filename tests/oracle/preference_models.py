"""Tiny Llamas and answers about nothing, of numbers that follow from a formula (families.py), and such a Llama written down in
numpy: what test_preference_losses.py and make_preference_cases.py share.

Its forward also takes complex numbers. With i h v added to a tensor, what it finds has h times its derivative along v as imaginary
part, to the last bits where h is small enough: a gradient's product with v, without a backward."""
import families
import numpy

CONFIG = dict(architectures=["LlamaForCausalLM"], model_type="llama", vocab_size=23, hidden_size=16, intermediate_size=24, num_hidden_layers=2,
              num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=64, rms_norm_eps=1e-6, rope_theta=10000.0, hidden_act="silu",
              tie_word_embeddings=False, bos_token_id=None, eos_token_id=1, pad_token_id=0)
MODELS = ("one", "two")  # either may be trained, and the other one its reference
PROBES = 3

# Lengths of [prompt, chosen, rejected] and of [prompt, completion].
PAIRS = ((3, 7, 3), (1, 4, 7), (4, 2, 5), (2, 9, 1))
COMPLETIONS = ((2, 5), (3, 1), (1, 7), (4, 3), (2, 6), (3, 2))
DESIRABLE = (True, False, True, True, False, True)


def shapes():
    width, inner, vocab = CONFIG["hidden_size"], CONFIG["intermediate_size"], CONFIG["vocab_size"]
    kv = width // CONFIG["num_attention_heads"] * CONFIG["num_key_value_heads"]
    yield "model.embed_tokens.weight", (vocab, width)
    for i in range(CONFIG["num_hidden_layers"]):
        for name, rows, columns in (("self_attn.q_proj", width, width), ("self_attn.k_proj", kv, width), ("self_attn.v_proj", kv, width),
                                    ("self_attn.o_proj", width, width), ("mlp.gate_proj", inner, width), ("mlp.up_proj", inner, width),
                                    ("mlp.down_proj", width, inner)):
            yield f"model.layers.{i}.{name}.weight", (rows, columns)
        for norm in ("input_layernorm", "post_attention_layernorm"):
            yield f"model.layers.{i}.{norm}.weight", (width,)
    yield "model.norm.weight", (width,)
    yield "lm_head.weight", (vocab, width)


def names():
    return [name for name, _ in shapes()]


def tensors_of(model):
    return {name: families.tensor_of("llama", f"{model} {name}", shape) for name, shape in shapes()}


def probe_of(number, name, shape):
    """Returns the array whose product with a gradient is stored."""
    return families.probe_of(f"{number} {name}", int(numpy.prod(shape))).reshape(shape)


def texts_of(kind):
    """Ids of every line's parts; neither of the two that have a meaning is drawn."""
    lines = []
    for number, lengths in enumerate(dict(pairs=PAIRS, completions=COMPLETIONS)[kind]):
        lines.append([(2 + (families.mixed(f"{kind} {number} {part}", length) + 1) / 2 * (CONFIG["vocab_size"] - 2)).astype(int).tolist()
                      for part, length in enumerate(lengths)])
    return lines


# ---- the model -------------------------------------------------------------------------------------------------------

def normed(x, weight):
    return x / numpy.sqrt((x * x).mean(axis=-1, keepdims=True) + CONFIG["rms_norm_eps"]) * weight


def turned(x):
    """Positions' angles, on the halves of a head [time, heads, width]."""
    half = x.shape[-1] // 2
    angles = numpy.arange(x.shape[0])[:, None] / CONFIG["rope_theta"] ** (numpy.arange(half) / half)
    cos, sin = numpy.cos(angles)[:, None], numpy.sin(angles)[:, None]
    low, high = x[..., :half], x[..., half:]
    return numpy.concatenate([low * cos - high * sin, high * cos + low * sin], axis=-1)


def softmax_parts(x):
    """exp(x - most), their sum, and most; by the real part, where x is complex."""
    most = x.real.max(axis=-1, keepdims=True)
    e = numpy.exp(x - most)
    return e, e.sum(axis=-1, keepdims=True), most


def attended(q, k, v):
    heads, time = q.shape[1], q.shape[0]
    k, v = (numpy.repeat(t, heads // t.shape[1], axis=1) for t in (k, v))
    scores = numpy.einsum("qhd,khd->hqk", q, k) / numpy.sqrt(q.shape[-1])
    scores = numpy.where(numpy.tril(numpy.ones((time, time), bool)), scores, -1e30)
    e, total, _ = softmax_parts(scores)
    return numpy.einsum("hqk,khd->qhd", e / total, v).reshape(time, -1)


def log_probs(tensors, ids):
    """Returns the log probability of each token but the first, given the tokens before it."""
    head = CONFIG["hidden_size"] // CONFIG["num_attention_heads"]
    x = tensors["model.embed_tokens.weight"][ids]
    for i in range(CONFIG["num_hidden_layers"]):
        def weight(name, layer=i):
            return tensors[f"model.layers.{layer}.{name}.weight"]
        y = normed(x, weight("input_layernorm"))
        q, k, v = ((y @ weight(f"self_attn.{part}_proj").T).reshape(len(ids), -1, head) for part in "qkv")
        x = x + attended(turned(q), turned(k), v) @ weight("self_attn.o_proj").T
        y = normed(x, weight("post_attention_layernorm"))
        gate = y @ weight("mlp.gate_proj").T
        x = x + (gate / (1 + numpy.exp(-gate)) * (y @ weight("mlp.up_proj").T)) @ weight("mlp.down_proj").T
    logits = normed(x, tensors["model.norm.weight"]) @ tensors["lm_head.weight"].T
    e, total, most = softmax_parts(logits)
    at = numpy.arange(len(ids) - 1)
    return (logits - most - numpy.log(total))[at, ids[1:]]


def sums_of(tensors, prompt, completion):
    """Returns the sum of the completion's log probabilities, and the sum of those of all tokens but the first."""
    found = log_probs(tensors, numpy.array(prompt + completion))
    return found[len(prompt) - 1:].sum(), found.sum()


def derivatives_of(model, texts):
    """[text, tensor, probe, 2]: of both sums of each (prompt, completion), along each probe of each tensor."""
    tensors, step, rows = tensors_of(model), 1e-60, []
    for name, shape in shapes():
        for number in range(PROBES):
            moved = dict(tensors, **{name: tensors[name] + 1j * step * probe_of(number, name, shape)})
            rows.append([[part.imag / step for part in sums_of(moved, *text)] for text in texts])
    return numpy.array(rows).reshape(-1, PROBES, len(texts), 2).transpose(2, 0, 1, 3)

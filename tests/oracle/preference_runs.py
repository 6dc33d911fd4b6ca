"""Runs of the program on preferences: a folder with the tiny Llama of preference_models.py and a tokenizer of letters, and pairs that each fill a
sequence. Shared by test_preference_training.py, test_preference_runs.py and make_preference_training.py."""
import functools
import json
import os
import subprocess

import families
import numpy
import preference_models as pm
from parity import trireme, yaml_of

LETTERS = "abcdefghijklmnopqrstu"  # their ids are 2 and more, behind <pad> and </s>
END, LINES, BATCH, STEPS, SEED = 1, 24, 8, 10, 7
# A pair takes 18 to 32 tokens, and an answer behind any prompt 9 to 16.
SEQUENCE = dict(pairs=34, answers=17)
LR, WARMUP, DECAY = 1e-2, 2, 0.1

# The section `objective` for each loss.
OBJECTIVES = {
    "dpo": dict(name="dpo", beta=0.1),
    "ipo": dict(name="ipo", beta=0.1),
    "kto": dict(name="kto", beta=0.3, desirable_weight=1.25, undesirable_weight=0.75),
    "simpo": dict(name="simpo", beta=2.0, simpo_gamma=0.5, cpo_alpha=0.5),
    "orpo": dict(name="orpo", beta=0.1),
}


def lines():
    """(prompt, chosen, rejected) as ids, without the token that ends an answer."""
    lengths = ((families.mixed("lengths of preferences", 3 * LINES).reshape(LINES, 3) + 1) / 2 * (3, 6, 6)).astype(int) + (3, 6, 6)
    found = []
    for number, row in enumerate(lengths):
        found.append(tuple((2 + (families.mixed(f"line {number} {part}", length) + 1) / 2 * len(LETTERS)).astype(int).tolist() for part, length in enumerate(row)))
    return found


def text_of(ids):
    return "".join(LETTERS[i - 2] for i in ids)


def records(some=None):
    return [dict(prompt=text_of(p), chosen=text_of(c), rejected=text_of(r)) for p, c, r in some or lines()]


def labelled():
    return [dict(prompt=text_of(p), completion=text_of((c, r)[i % 2]), label=i % 2 == 0) for i, (p, c, r) in enumerate(lines())]


def write_lines(path, some):
    path.write_text("".join(json.dumps(one) + "\n" for one in some))
    return path


def weights_of_folder():
    """In double, of numbers that are single."""
    return {name: tensor.astype(numpy.float32).astype(numpy.float64) for name, tensor in pm.tensors_of("one").items()}


def write_folder(folder):
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(pm.CONFIG))
    head, blob = {}, b""
    for name, tensor in weights_of_folder().items():
        raw = tensor.astype(numpy.float32).tobytes()
        head[name] = dict(dtype="F32", shape=list(tensor.shape), data_offsets=[len(blob), len(blob) + len(raw)])
        blob += raw
    said = json.dumps(head).encode()
    said += b" " * (-len(said) % 8)
    (folder / "model.safetensors").write_bytes(len(said).to_bytes(8, "little") + said + blob)
    special = [dict(id=i, content=word, single_word=False, lstrip=False, rstrip=False, normalized=False, special=True) for i, word in enumerate(("<pad>", "</s>"))]
    vocab = {"<pad>": 0, "</s>": END} | {letter: 2 + i for i, letter in enumerate(LETTERS)}
    model = dict(type="BPE", dropout=None, unk_token="<pad>", continuing_subword_prefix=None, end_of_word_suffix=None, fuse_unk=False, byte_fallback=False,
                 vocab=vocab, merges=[])
    (folder / "tokenizer.json").write_text(json.dumps(dict(version="1.0", truncation=None, padding=None, added_tokens=special, normalizer=None,
                                                           pre_tokenizer=None, post_processor=None, decoder=None, model=model)))
    (folder / "tokenizer_config.json").write_text(json.dumps(dict(eos_token="</s>", pad_token="<pad>")))
    return folder


def write_all(folder):
    """Writes the model's folder, and the file of pairs next to it."""
    write_folder(folder / "model")
    write_lines(folder / "pairs.jsonl", records())
    return folder


def kind_of(objective):
    return "answers" if objective["name"] in ("kto", "apo_zero_unpaired") else "pairs"


def run_of(folder, made, objective, **changes):
    """A run file's content; `made`: where the model and the pairs are."""
    run = dict(init=str(made / "model"), data=dict(preferences=str(made / "pairs.jsonl"), sequence=SEQUENCE[kind_of(objective)]), objective=objective,
               optimizer=dict(global_batch=BATCH, steps=STEPS, lr=LR, warmup=WARMUP, betas=[0.9, 0.95], eps=1e-8, weight_decay=DECAY, clip=1.0),
               precision="fp64", device="reference", threads=1, seed=SEED, evaluation=dict(every=0), checkpoint=dict(every=0), output=str(folder / "run"))
    if changes.get("precision", "fp64") != "fp64":
        run["device"] = "cpu"
    for key, value in changes.items():
        run[key] = {**run[key], **value} if isinstance(run.get(key), dict) and key != "objective" else value
    return run


def write_run(folder, made, objective, **changes):
    folder.mkdir(exist_ok=True)
    (folder / "run.yaml").write_text(yaml_of(run_of(folder, made, objective, **changes)))
    return folder / "run.yaml"


def train(folder, made, objective, words=(), **changes):
    """The lines of metrics.jsonl."""
    trireme("train", write_run(folder, made, objective, **changes), *words)
    return metrics_of(folder)


def metrics_of(folder):
    return [json.loads(line) for line in open(folder / "run/metrics.jsonl")]


def samples_of(folder, objective, count=STEPS * BATCH):
    """[[(side, prompt, answer)]]: the answers of each sample in the order of training; an answer has the token that ends it."""
    tool = os.path.join(os.environ["TRIREME_TOOLS"], "preference_tool")
    words = [tool, "samples", folder / "run/preferences/train", SEQUENCE[kind_of(objective)], pm.CONFIG["vocab_size"], SEED, objective["name"], count]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [[(side, ids[:prompt], ids[prompt:]) for side, prompt, ids in json.loads(line)] for line in done.stdout.splitlines()]


@functools.cache
def numbers_of_units(kind):
    """{sample: its number}: of pairs, or of answers, the chosen ones of all lines and then the rejected ones."""
    def unit(*sides):
        return repr([(side, prompt, [*answer, END]) for side, prompt, answer in sides])
    if kind == "pairs":
        return {unit((0, p, c), (1, p, r)): i for i, (p, c, r) in enumerate(lines())}
    return {unit((0, p, c)): i for i, (p, c, _) in enumerate(lines())} | {unit((1, p, r)): LINES + i for i, (p, _, r) in enumerate(lines())}


def order_of(folder, objective):
    """Number of the unit of each sample: every sequence has one."""
    numbers = numbers_of_units(kind_of(objective))
    return [numbers[repr(sample)] for sample in samples_of(folder, objective)]


def texts_of_unit(kind, number):
    """[(prompt, answer)] of a pair, chosen first, or of one answer."""
    p, c, r = lines()[number % LINES]
    sides = (c, r) if kind == "pairs" else (c,) if number < LINES else (r,)
    return [(p, [*answer, END]) for answer in sides]


def mismatched_of_unit(number):
    """An answer behind the prompt of the next one's."""
    prompt = lines()[(number + 1) % (2 * LINES) % LINES][0]
    return prompt, texts_of_unit("answers", number)[0][1]


def rate_of(step):
    """Of steps from 0 on: warmup, and then a cosine to 0."""
    if step < WARMUP:
        return LR * (step + 1) / WARMUP
    return LR * 0.5 * (1 + numpy.cos(numpy.pi * (step + 1 - WARMUP) / (STEPS - WARMUP)))

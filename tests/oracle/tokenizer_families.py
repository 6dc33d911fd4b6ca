"""Small tokenizers in the form of each family's published tokenizer.json, learnt here from generated and shared text."""

import functools
import json

from test_tokenizer_hf import LLAMA3, QWEN2, byte_level, learn, split, training_texts
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

MARK = "▁"
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
BOS = {"single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]}


def added(content, **flags):
    names = ("single_word", "lstrip", "rstrip", "normalized", "special")
    return {"content": content, **{name: flags.get(name, False) for name in names}}


def with_added(document, *tokens):
    """The document with more added tokens: those of the vocabulary keep their ids, the others get the next."""
    vocabulary, listed = document["model"]["vocab"], document["added_tokens"]
    taken = len(vocabulary) + sum(1 for entry in listed if entry["content"] not in vocabulary)
    for token in tokens:
        known = vocabulary.get(token["content"])
        listed.append({"id": taken if known is None else known, **token})
        taken += known is None
    listed.sort(key=lambda entry: entry["id"])
    return document


# ---- vocabularies of characters ------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=None)
def learn_characters(across, specials=("<unk>", "<s>", "</s>")):
    """As text; `across`: merges know no words, so that tokens hold spaces inside."""
    reference = Tokenizer(models.BPE(unk_token=specials[0], fuse_unk=True, byte_fallback=True))
    reference.normalizer = normalizers.Replace(" ", MARK)
    if not across:
        reference.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=True)
    trainer = trainers.BpeTrainer(
        vocab_size=2200,
        show_progress=False,
        special_tokens=[*specials, *BYTES],
        limit_alphabet=400,
        max_token_length=12,
    )
    reference.train_from_iterator(training_texts(), trainer)
    document = json.loads(reference.to_str())
    document["normalizer"] = document["pre_tokenizer"] = None
    document["added_tokens"] = [entry for entry in document["added_tokens"] if entry["content"] in specials]
    return json.dumps(document)


def replace(pattern, content):
    return {"type": "Replace", "pattern": {"String": pattern}, "content": content}


def sequence(kind, *members):
    return {"type": "Sequence", kind: list(members)}


DECODER = [replace(MARK, " "), {"type": "ByteFallback"}, {"type": "Fuse"}]
STRIP = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
PREPEND = {"type": "Prepend", "prepend": MARK}


def characters(across=False, specials=("<unk>", "<s>", "</s>"), model=(), **members):
    document = json.loads(learn_characters(across, specials))
    document["model"].update(model)
    document["decoder"] = sequence("decoders", *DECODER, STRIP)
    document.update(members)
    return document


def metaspace(**members):
    return {"type": "Metaspace", "replacement": MARK, **members}


def llama2(**flags):
    document = characters(normalizer=sequence("normalizers", PREPEND, replace(" ", MARK)))
    document["post_processor"] = {
        "type": "TemplateProcessing",
        **BOS,
        "pair": [*BOS["single"], {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}},
    }
    for entry in document["added_tokens"]:
        entry.update(flags)
    return document


def mistral():
    document = characters(pre_tokenizer=metaspace(prepend_scheme="first", split=False))
    return with_added(
        document, *(added(name, special=True) for name in ("[INST]", "[/INST]", "[TOOL_CALLS]", "[control_1]"))
    )


def gemma():
    document = characters(
        specials=("<pad>", "<eos>", "<bos>", "<unk>"),
        model={"unk_token": "<unk>"},
        normalizer=replace(" ", MARK),
        pre_tokenizer={"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False},
        decoder=sequence("decoders", *DECODER),
    )
    names = ("<start_of_turn>", "<end_of_turn>", "[multimodal]")
    runs = ["\n" * n for n in range(2, 6)] + [MARK * n for n in range(2, 6)] + ["<table>"]
    return with_added(document, *(added(name, special=True) for name in names), *(added(run) for run in runs))


def phi3():
    document = llama2()
    for entry in document["added_tokens"]:
        entry.update(rstrip=entry["content"] == "</s>", special=entry["content"] != "</s>")
    names = ("<|assistant|>", "<|system|>", "<|end|>", "<|user|>")
    return with_added(
        document, added("<|endoftext|>", special=True), *(added(n, special=True, rstrip=True) for n in names)
    )


def unknown(model, drop=()):
    document = llama2()
    document["model"].update(model)
    names = {entry["content"] for entry in document["added_tokens"]} | set(BYTES)
    kept = {name: id for name, id in document["model"]["vocab"].items() if not any(c in name for c in drop) or name in names}
    lost = set(document["model"]["vocab"]) - set(kept)
    merges = document["model"]["merges"]
    document["model"]["merges"] = [m for m in merges if not lost & {m[0], m[1], m[0] + m[1]}]
    ids = {name: place for place, name in enumerate(sorted(kept, key=kept.get))}
    document["model"]["vocab"] = ids
    return document


def without_bytes(document, lost):
    """Some bytes have no token: their names are spelled otherwise in the vocabulary."""
    vocabulary = document["model"]["vocab"]
    document["model"]["vocab"] = {(f"({name})" if name in lost else name): id for name, id in vocabulary.items()}
    return document


# ---- byte-level vocabularies ---------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=None)
def learn_bytes(name):
    kinds = {
        "gpt2": lambda: learn(byte_level()),
        "llama3": lambda: learn(
            pre_tokenizers.Sequence([split(LLAMA3), byte_level(use_regex=False)]), ignore_merges=True
        ),
        "qwen2": lambda: learn(
            pre_tokenizers.Sequence([split(QWEN2), byte_level(use_regex=False)]), normalizer=normalizers.NFC()
        ),
        "neox": lambda: learn(byte_level(), normalizer=normalizers.NFC()),
        "cl100k": lambda: learn(pre_tokenizers.Sequence([split(LLAMA3, "removed", True), byte_level(use_regex=False)])),
        "granite": lambda: learn(
            pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level()])
        ),
        "falcon": lambda: learn(
            pre_tokenizers.Sequence(
                [
                    pre_tokenizers.Punctuation("contiguous"),
                    byte_level(),
                    pre_tokenizers.Digits(individual_digits=False),
                    split("[0-9][0-9][0-9]"),
                ]
            )
        ),
    }
    return kinds[name]().to_str()


def bytes_of(name, *tokens, **members):
    document = json.loads(learn_bytes(name))
    document.update(members)
    return with_added(document, *tokens)


def spaces(first, last, **flags):
    return [added(" " * n, **{"normalized": True, **flags}) for n in range(last, first - 1, -1)]


def names(*contents, **flags):
    return [added(content, special=True, **flags) for content in contents]


ROBERTA = {
    "type": "RobertaProcessing",
    "sep": ["</s>", 2],
    "cls": ["<s>", 0],
    "trim_offsets": True,
    "add_prefix_space": False,
}

FAMILIES = {
    "llama2": llama2,
    "llama2_normalized": lambda: llama2(normalized=True),
    "mistral": mistral,
    "mistral_older": lambda: with_added(llama2(), added("<|im_start|>"), added("<|im_end|>", special=True)),
    "gemma": gemma,
    "phi3": phi3,
    "metaspace": lambda: characters(pre_tokenizer=metaspace(), decoder=metaspace()),
    "metaspace_older": lambda: characters(
        pre_tokenizer=metaspace(str_rep=MARK, add_prefix_space=True), decoder=metaspace(add_prefix_space=True)
    ),
    "metaspace_never": lambda: characters(
        pre_tokenizer=metaspace(prepend_scheme="never", split=True), decoder=metaspace(prepend_scheme="never")
    ),
    "metaspace_first": lambda: with_added(
        characters(pre_tokenizer=metaspace(prepend_scheme="first", split=True), decoder=metaspace()),
        added("<x>", normalized=True),
        added("<y>"),
    ),
    "across": lambda: characters(across=True, normalizer=sequence("normalizers", PREPEND, replace(" ", MARK))),
    "across_split": lambda: characters(across=True, pre_tokenizer=metaspace(prepend_scheme="always", split=True)),
    "digits": lambda: characters(
        pre_tokenizer=sequence(
            "pretokenizers",
            metaspace(prepend_scheme="always", split=False),
            {"type": "Digits", "individual_digits": True},
            {"type": "Punctuation", "behavior": "Isolated"},
        )
    ),
    "ignore_merges": lambda: characters(
        model={"ignore_merges": True}, pre_tokenizer=metaspace(prepend_scheme="always", split=True)
    ),
    "unknown": lambda: unknown({"byte_fallback": False, "fuse_unk": False}, drop="zqé"),
    "unknown_fused": lambda: unknown({"byte_fallback": False, "fuse_unk": True}, drop="zq,é" + MARK),
    "unknown_bytes": lambda: without_bytes(llama2(), {"<0xC3>", "<0xE4>", "<0xF0>"}),
    "unknown_bytes_alone": lambda: without_bytes(unknown({"fuse_unk": False}), {"<0xC3>", "<0xE4>", "<0xF0>"}),
    "gpt2": lambda: bytes_of("gpt2"),
    "opt": lambda: bytes_of("gpt2", *names("<s>", "<pad>", "</s>", "<unk>", normalized=True), post_processor=ROBERTA),
    "neox": lambda: bytes_of("neox", *names("<|padding|>"), *spaces(2, 24)),
    "phi2": lambda: bytes_of("gpt2", *spaces(2, 31), *(added("\t" * n, normalized=True) for n in range(9, 1, -1))),
    "qwen3": lambda: bytes_of("qwen2", *names("<|im_start|>", "<|im_end|>"), added("<think>"), added("</think>")),
    "smollm3": lambda: bytes_of("llama3", *names("<|begin_of_text|>", "<|eot_id|>"), added("<think>")),
    "olmo2": lambda: bytes_of("cl100k", *names("<|pad|>"), *spaces(2, 24)),
    "stablelm": lambda: bytes_of("cl100k", *names("<|fim_prefix|>", normalized=True)),
    "granite": lambda: bytes_of("granite", *names("<fim_prefix>", "<commit_msg>")),
    "falcon": lambda: bytes_of(
        "falcon", *names(">>TITLE<<", ">>ABSTRACT<<", ">>QUESTION<<", normalized=True), *spaces(2, 4)
    ),
}

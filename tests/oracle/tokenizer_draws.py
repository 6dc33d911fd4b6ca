"""Random tokenizer.json files over all forms that Hugging Face's `tokenizers` reads, and texts for each of them."""

from tokenizers import pre_tokenizers

MARK = "▁"
BYTE_LETTERS = sorted(pre_tokenizers.ByteLevel.alphabet())
SPACES = [" ", "  ", "   ", "\n", "\n\n", "\t", "\r\n", "\u00a0", "\u2009", "\u3000", "\u0085", "\u200b"]
LETTERS = ["a", "b", "c", "ab", "abc", "The", "word", "x", "A", "É", "é", "e\u0301", "ß", "中", "文", "🙂", "ﬁ", "①", "\u0301", "\u200d"]
SIGNS = ["1", "12", "123", "٣", ",", "..", "!", "'s", "'", "_", "-", "«", "<", ">", "<0x41>", "<unk>", "<s>", "Ġ", "Ċ", MARK, MARK * 2, "▂", "\x00"]
CONTENTS = ["<s>", "</s>", "<|x|>", "<|x", "x|>", "s>", "[INST]", "word", "a", "ab", "b c", "é", "e\u0301", "É", "中", "12", ",", "ĠĠ", MARK, MARK * 2,
            "<0x41>", "_", "1", " a", "a ", "Ġa", "\u0301", "ﬁ", "'s", "", *SPACES]
PATTERNS = [r"\s+", r"\p{L}+|\p{N}{1,3}|\s+|[^\s\p{L}\p{N}]+", r" ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+", r"\w+|[^\w\s]+", "a|b", r"\d",
            r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+", ".", "^", "x*", "(?i:'s)|."]
BEHAVIORS = [*["Isolated"] * 5, "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"]


def chance(r, share):
    return r.random() < share


def sequence(kind, members):
    return {"type": "Sequence", kind: members}


def draw_pattern(r):
    if chance(r, 0.5):
        return {"String": r.choice([" ", "a", "ab", ",", MARK, "  ", ".", "é", "" if chance(r, 0.2) else "b"])}
    return {"Regex": r.choice(PATTERNS)}


# ---- models --------------------------------------------------------------------------------------------------------------


def draw_merges(r, letters, tokens, count):
    merges = []
    for _ in range(count):
        pair = r.choices(letters + tokens[-8:], k=2)
        if pair in merges and not chance(r, 0.05):
            continue
        merges.append(pair)
        if pair[0] + pair[1] not in tokens:
            tokens.append(pair[0] + pair[1])
    return merges


def draw_bpe(r, byte_level):
    if byte_level:
        lacking = r.choice((0, 0, 0, 3, 100))
        letters = r.sample(BYTE_LETTERS, 256 - lacking)
        common = [c for c in "abcĠĊÃ©ĠTheword12,.'âĸģ" if c in letters]
    else:
        letters = r.sample(["a", "b", "c", "d", "é", "É", MARK, "中", "🙂", ",", "1", "2", " ", "T", "h", "e", "\u0301", "\n"], r.randrange(3, 18))
        letters += [f"<0x{byte:02X}>" for byte in range(256)] if chance(r, 0.7) else []
        common = [c for c in letters if len(c) == 1]
    named = r.sample(["<unk>", "<s>", "</s>", "<|x|>", "word", "ab", "The", *([] if byte_level else [" a", "  "])], r.randrange(5))
    tokens = list(dict.fromkeys([*named, *letters] if chance(r, 0.5) else [*letters, *named]))
    merges = draw_merges(r, common or letters, tokens, r.randrange(25))
    ids = list(range(len(tokens)))
    if chance(r, 0.3):
        r.shuffle(ids)
    if chance(r, 0.05):
        ids[r.randrange(len(ids))] += r.randrange(1, 5)  # ids with a gap, or twice
    unknown = r.choice([None, None, "<unk>", "<unk>", *named]) if "<unk>" in tokens else r.choice([None, None, None, *named, "a"])
    if not byte_level and "<0x41>" not in letters and chance(r, 0.9):
        unknown = r.choice(tokens)
    prefix = r.choice([None] * 30 + ["", "##"])
    if prefix:
        merges = []  # `tokenizers` takes it off the right side without a look, and aborts
    return {
        "type": "BPE",
        "dropout": r.choice([None] * 30 + [0.0, 0.1]),
        "unk_token": unknown if not byte_level or chance(r, 0.5) else None,
        "continuing_subword_prefix": prefix,
        "end_of_word_suffix": r.choice([None] * 30 + ["", "</w>"]),
        "fuse_unk": chance(r, 0.5),
        "byte_fallback": chance(r, 0.1 if byte_level else 0.7),
        "ignore_merges": chance(r, 0.25),
        "vocab": dict(zip(tokens, ids)),
        "merges": merges if chance(r, 0.7) and not any(" " in a + b for a, b in merges) else [list(m) for m in merges],
    }


def draw_model(r, byte_level):
    if chance(r, 0.97):
        model = draw_bpe(r, byte_level)
        if chance(r, 0.2) and not any(" " in a + b for a, b in model["merges"]):
            model["merges"] = [" ".join(pair) for pair in model["merges"]]
        for key in ("fuse_unk", "byte_fallback", "ignore_merges", "type"):
            if chance(r, 0.05):
                del model[key]
        return model
    words = {"<unk>": 0, "a": 1, "b": 2, "##c": 3, "word": 4}
    return r.choice([
        {"type": "Unigram", "unk_id": 0, "vocab": [[word, -1.5] for word in words], "byte_fallback": False},
        {"type": "WordPiece", "unk_token": "<unk>", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": words},
        {"type": "WordLevel", "unk_token": "<unk>", "vocab": words},
    ])


# ---- what surrounds the model --------------------------------------------------------------------------------------------


def draw_normalizer(r, depth=0):
    if chance(r, 0.1):
        return r.choice([
            *({"type": name} for name in ("NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt", "ByteLevel")),
            {"type": "Strip", "strip_left": chance(r, 0.5), "strip_right": chance(r, 0.5)},
            {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True},
            {"type": "Replace", "pattern": {"Regex": r.choice(PATTERNS)}, "content": "x"},
        ])
    if chance(r, 0.4) and depth < 2:
        return sequence("normalizers", [draw_normalizer(r, depth + 1) for _ in range(r.randrange(4))])
    find, put = r.choice([" ", "a", "é", "  ", "\n", "É", "ab", "e", "12", MARK]), r.choice([MARK, "", "b", "aa", " ", "\u0301", "é"])
    return r.choice([{"type": "NFC"}, {"type": "Replace", "pattern": {"String": find}, "content": put}, {"type": "Prepend", "prepend": r.choice([MARK, " ", "a", "", "e"])}])


def draw_metaspace(r):
    space = {"type": "Metaspace", "replacement": r.choice([MARK] * 6 + ["_", " ", "中"]), "prepend_scheme": r.choice(["always", "first", "never"]), "split": chance(r, 0.5)}
    if chance(r, 0.2):
        space = {"type": "Metaspace", "replacement": MARK, "add_prefix_space": chance(r, 0.7)}
    return space


def draw_cutter(r, byte_level):
    kind = r.choice(["Split", "Split", "Digits", "Punctuation", "other" if chance(r, 0.2) else "Split"])
    if not byte_level and chance(r, 0.5):
        kind = "Metaspace"
    if kind == "Metaspace":
        return draw_metaspace(r)
    if kind == "Split":
        return {"type": "Split", "pattern": draw_pattern(r), "behavior": r.choice(BEHAVIORS), "invert": chance(r, 0.2)}
    if kind == "Digits":
        return {"type": "Digits", "individual_digits": chance(r, 0.5)}
    if kind == "Punctuation":
        return {"type": "Punctuation", **({"behavior": r.choice(BEHAVIORS)} if chance(r, 0.9) else {})}
    return r.choice([{"type": name} for name in ("Whitespace", "WhitespaceSplit", "BertPreTokenizer", "UnicodeScripts")]
                    + [{"type": "CharDelimiterSplit", "delimiter": "a"}, {"type": "FixedLength", "length": 2}, draw_metaspace(r)])


def draw_byte_level(r):
    return {"type": "ByteLevel", "add_prefix_space": chance(r, 0.3), "trim_offsets": chance(r, 0.5), **({"use_regex": chance(r, 0.6)} if chance(r, 0.9) else {})}


def draw_pre_tokenizer(r, byte_level):
    if not byte_level and chance(r, 0.3):
        return None
    members = [draw_cutter(r, byte_level) for _ in range(r.choice((0, 0, 1, 1, 2, 3)))]
    if byte_level:
        members.insert(r.randrange(len(members) + 1) if chance(r, 0.3) else len(members), draw_byte_level(r))
        if chance(r, 0.03):
            members.append(draw_byte_level(r))
    if len(members) == 1 and chance(r, 0.7):
        return members[0]
    if len(members) > 1 and chance(r, 0.1):
        members = [sequence("pretokenizers", members[:1]), *members[1:]]
    return sequence("pretokenizers", members)


def draw_template(r, size):
    names = {"<s>": [r.randrange(size)], "</s>": [r.randrange(size) if chance(r, 0.9) else size + 7], "two": [0, r.randrange(size)]}

    def special():
        return {"SpecialToken": {"id": r.choice(list(names)), "type_id": 0}}

    def text(name):
        return {"Sequence": {"id": name, "type_id": 0 if name == "A" else 1}}

    before, behind = ([special() for _ in range(r.choice((0, 1, 1, 2)))] for _ in range(2))
    middle = r.choice([[text("A")]] * 8 + [[text("A"), text("A")], [], [text("A"), special(), text("A")], [text("B")], [text("B"), text("A")]])
    pair = r.choice([[text("A"), text("B")], [*before, text("A"), special(), text("B")], [text("A")], []])
    tokens = {name: {"id": name, "ids": ids, "tokens": [name] * len(ids)} for name, ids in names.items()}
    if chance(r, 0.05):
        del tokens["<s>"]
    return {"type": "TemplateProcessing", "single": before + middle + behind, "pair": pair, "special_tokens": tokens}


def draw_post_processor(r, size, depth=0):
    if chance(r, 0.35):
        return None if depth == 0 else {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    kind = r.randrange(5)
    sep, cls = ["</s>", r.randrange(size)], ["<s>", r.randrange(size) if chance(r, 0.95) else size + 3]
    if kind == 0:
        return {"type": "ByteLevel", "add_prefix_space": chance(r, 0.5), "trim_offsets": chance(r, 0.5), "use_regex": chance(r, 0.5)}
    if kind == 1:
        return {"type": "BertProcessing", "sep": sep, "cls": cls}
    if kind == 2:
        return {"type": "RobertaProcessing", "sep": sep, "cls": cls, "trim_offsets": chance(r, 0.5), "add_prefix_space": chance(r, 0.5)}
    if kind == 3 and depth < 2:
        return sequence("processors", [draw_post_processor(r, size, depth + 1) for _ in range(r.randrange(3))])
    return draw_template(r, size)


def draw_decoder_part(r):
    return r.choice([
        {"type": "Replace", "pattern": draw_pattern(r), "content": r.choice([" ", "", "x"])},
        {"type": "Fuse"}, {"type": "ByteFallback"}, {"type": "Strip", "content": r.choice([" ", "a", MARK]), "start": r.randrange(3), "stop": r.choice((0, 0, 1))},
        {"type": "ByteLevel"}, draw_metaspace(r), {"type": "WordPiece", "prefix": "##", "cleanup": True}, {"type": "BPEDecoder", "suffix": "</w>"},
        {"type": "CTC", "pad_token": "<pad>", "word_delimiter_token": "|", "cleanup": True},
    ])


def draw_decoder(r, byte_level):
    if chance(r, 0.06):
        return None
    if byte_level and chance(r, 0.85):
        one = {"type": "ByteLevel", "add_prefix_space": chance(r, 0.5), "trim_offsets": chance(r, 0.5), "use_regex": chance(r, 0.5)}
        return one if chance(r, 0.9) else sequence("decoders", [one, {"type": "Fuse"}])
    if chance(r, 0.15):
        return draw_decoder_part(r)
    if chance(r, 0.15):
        return sequence("decoders", [draw_decoder_part(r) for _ in range(r.randrange(5))])
    if chance(r, 0.3):
        return draw_metaspace(r)
    parts = [{"type": "Replace", "pattern": {"String": r.choice([MARK, MARK, "a"])}, "content": r.choice([" ", " ", "bc"])}, {"type": "ByteFallback"}, {"type": "Fuse"},
             {"type": "Strip", "content": " ", "start": r.choice((1, 1, 0, 2)), "stop": 0}]
    return sequence("decoders", [part for part in parts if chance(r, 0.85)])


def draw_added(r, vocabulary):
    contents = list(dict.fromkeys(r.choice(CONTENTS if chance(r, 0.8) else list(vocabulary)) for _ in range(r.randrange(8))))
    taken, listed = len(vocabulary), []
    for content in contents:
        known = vocabulary.get(content)
        entry = {"id": taken if known is None else known, "content": content}
        taken += known is None and content != ""
        entry.update({name: chance(r, 0.35) for name in ("single_word", "lstrip", "rstrip", "normalized", "special")})
        listed.append(entry)
    if listed and chance(r, 0.03):
        r.choice(listed)["id"] += 1
    if chance(r, 0.7):
        listed.sort(key=lambda entry: entry["id"])
    return listed


def draw_document(r):
    byte_level = chance(r, 0.5)
    model = draw_model(r, byte_level)
    words = model["vocab"] if isinstance(model["vocab"], dict) else {word: place for place, (word, _) in enumerate(model["vocab"])}
    added = draw_added(r, words)
    document = {
        "version": "1.0",
        "truncation": None if chance(r, 0.8) else {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0},
        "padding": None if chance(r, 0.8) else
        {"strategy": {"Fixed": 9}, "direction": "Left", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0, "pad_token": "<pad>"},
        "added_tokens": added,
        "normalizer": None if chance(r, 0.4) else draw_normalizer(r),
        "pre_tokenizer": draw_pre_tokenizer(r, byte_level),
        "post_processor": draw_post_processor(r, len(words)),
        "decoder": draw_decoder(r, byte_level),
        "model": model,
    }
    return document


# ---- texts ---------------------------------------------------------------------------------------------------------------


def draw_texts(r, document, count):
    contents = [entry["content"] for entry in document["added_tokens"] if entry["content"]]
    parts = SPACES + LETTERS * 2 + SIGNS + contents * 4 + [content[:-1] for content in contents] + [" ", " ", "a", "b"] * 4
    return ["", " ", *("".join(r.choices(parts, k=r.randrange(1, r.choice((3, 8, 25))))) for _ in range(count))]


def draw_ids(r, size, count):
    return [[r.randrange(size) for _ in range(r.randrange(1, 12))] for _ in range(count)]

"""A key that config.json lacks means what it means to transformers: each config class' value of each key (config_defaults.json, which
make_config_defaults.py wrote), written into the file, makes the same model as the file without the key. A member that tokenizer.json
lacks means what it means to tokenizers."""
import copy
import json
import os
import pathlib
import subprocess

import config_keys
import pytest
from parity import TOOLS
from test_config_keys import describe

STORED = json.loads((pathlib.Path(__file__).parent / "config_defaults.json").read_text())


@pytest.mark.parametrize("model_type", STORED)
def test_absent_keys(tmp_path, model_type):
    faults = []
    for key, theirs in STORED[model_type].items():
        without = {name: value for name, value in config_keys.config_of(model_type, {}).items() if name != key}
        absent = describe(tmp_path / "model", without)
        if isinstance(theirs, dict) and "refused" in theirs or f"`{key}` is missing" in absent.stderr:
            continue
        written = describe(tmp_path / "model", {**without, key: theirs})
        if (absent.returncode, absent.stdout) != (written.returncode, written.stdout):
            lines = set(absent.stdout.splitlines()) ^ set(written.stdout.splitlines())
            faults.append(f"{key}: {theirs}: {sorted(lines)}; {absent.stderr.strip()}; {written.stderr.strip()}")
    assert not faults, "\n".join(faults)


TEXT = "he said 12 he<s> hehe  \u00e9t\u00e9\nhe"


def byte_level(t):
    vocab = {letter: i for i, letter in enumerate(sorted(t.pre_tokenizers.ByteLevel.alphabet()))}
    made = t.Tokenizer(t.models.BPE(vocab={**vocab, "he": 256, "\u0120he": 257}, merges=[("h", "e"), ("\u0120", "he")]))
    made.normalizer = t.normalizers.Sequence([t.normalizers.NFC()])
    made.pre_tokenizer = t.pre_tokenizers.Sequence([t.pre_tokenizers.Split(r"\d", "isolated"), t.pre_tokenizers.ByteLevel(add_prefix_space=False)])
    made.decoder = t.decoders.ByteLevel()
    made.add_special_tokens([t.AddedToken("<s>", special=True), t.AddedToken("<e>", special=True)])
    made.post_processor = t.processors.Sequence([t.processors.ByteLevel(trim_offsets=False), t.processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 258)])])
    return made


def metaspace(t):
    vocab = {word: i for i, word in enumerate(["<unk>", "\u2581", "h", "e", "he", "\u2581he", *(f"<0x{i:02X}>" for i in range(256))])}
    made = t.Tokenizer(t.models.BPE(vocab=vocab, merges=[("h", "e"), ("\u2581", "he")], unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    made.pre_tokenizer = t.pre_tokenizers.Metaspace(replacement="\u2581", prepend_scheme="first", split=False)
    made.decoder = t.decoders.Sequence([t.decoders.Replace("\u2581", " "), t.decoders.ByteFallback(), t.decoders.Fuse(), t.decoders.Strip(" ", 1, 0)])
    made.add_special_tokens([t.AddedToken("<s>", special=True)])
    return made


def members(node, path=()):
    """The path of every member of the file, but of the entries of the vocabulary."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        if isinstance(node, dict):
            yield (*path, key)
        if key not in ("vocab", "merges"):
            yield from members(value, (*path, key))


@pytest.mark.parametrize("make", [byte_level, metaspace])
def test_absent_members(tmp_path, make):
    """Without any one member of tokenizer.json: the ids of tokenizers where it reads the file, or a refusal."""
    t = pytest.importorskip("tokenizers")
    whole, faults, same = json.loads(make(t).to_str()), [], 0
    file, record = tmp_path / "tokenizer.json", tmp_path / "record"
    record.write_bytes(len(TEXT.encode()).to_bytes(4, "little") + TEXT.encode())
    for path in members(whole):
        root = copy.deepcopy(whole)
        node = root
        for key in path[:-1]:
            node = node[key]
        del node[path[-1]]
        file.write_text(json.dumps(root))
        try:
            theirs = " ".join(map(str, t.Tokenizer.from_file(str(file)).encode(TEXT, add_special_tokens=False).ids))
        except Exception:  # it has no default there
            continue
        done = subprocess.run([os.path.join(TOOLS, "tokenize_tool"), "encode", file, record], capture_output=True, text=True)
        same += done.stdout.strip() == theirs
        if done.returncode == 0 and done.stdout.strip() != theirs:
            faults.append((path, theirs, done.stdout.strip()))
    assert not faults and same > 10, (faults, same)

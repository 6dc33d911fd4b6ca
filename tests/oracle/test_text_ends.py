"""The tokens that end a text, and the special tokens of a folder: one function reads them from its files, and one writes them. Expected values
are those of transformers 5.24 (from_pretrained, generate) on the same folders, as in the comments; tests/full/test_folder_tokens.py runs it."""
import json
import struct

import numpy
import pytest
from parity import trireme, yaml_of

IM_START, IM_END, DOCUMENT = 257, 258, 256
TINY = dict(family="llama", num_layers=1, hidden_size=32, num_heads=2, ffn_size=64, vocab_size=300, max_sequence=64)


def byte_letters():
    """GPT-2's letters of bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [byte for byte in range(256) if byte not in plain]
    return {byte: chr(byte) for byte in plain} | {byte: chr(256 + i) for i, byte in enumerate(rest)}


def tokenizer_json(extra=()):
    """Bytes, and three special tokens as chat models have them."""
    letters = byte_letters()
    added = [dict(id=256 + i, content=content, special=True, single_word=False, lstrip=False, rstrip=False, normalized=False)
             for i, content in enumerate(["<|endoftext|>", "<|im_start|>", "<|im_end|>", *extra])]
    byte_level = dict(type="ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=False)
    return dict(version="1.0", truncation=None, padding=None, added_tokens=added, normalizer=None, pre_tokenizer=byte_level, post_processor=None,
                decoder=byte_level, model=dict(type="BPE", dropout=None, unk_token=None, vocab={letters[byte]: byte for byte in range(256)}, merges=[]))


def folder_of(path, **files):
    """A tokenizer's folder with these other files: NAME (without .json) to what is in it."""
    path.mkdir(parents=True)
    (path / "tokenizer.json").write_text(json.dumps(tokenizer_json()))
    for name, content in files.items():
        (path / f"{name}.json").write_text(json.dumps(content))
    return path


def tokens_of(prefix):
    return numpy.fromfile(f"{prefix}.bin", numpy.uint16).tolist()


# case: (contents of the files, the token that ends documents, the file that decides).
SAID = {
    "nothing: by name": ({}, DOCUMENT, "its name"),
    "tokenizer_config.json": (dict(tokenizer_config=dict(eos_token="<|im_end|>")), IM_END, "tokenizer_config.json"),
    "as an object": (dict(tokenizer_config=dict(eos_token=dict(content="<|im_end|>", special=True))), IM_END, "tokenizer_config.json"),
    "special_tokens_map.json": (dict(special_tokens_map=dict(eos_token="<|im_end|>")), IM_END, "special_tokens_map.json"),
    "config.json": (dict(config=dict(eos_token_id=IM_END)), IM_END, "config.json"),
    "a list": (dict(generation_config=dict(eos_token_id=[IM_END, DOCUMENT])), IM_END, "generation_config.json"),
    "a name": (dict(config=dict(eos_token_id="<|im_end|>")), IM_END, "config.json"),
    "null and -1": (dict(generation_config=dict(eos_token_id=-1), config=dict(eos_token_id=None), tokenizer_config=dict(eos_token="<|im_end|>")), IM_END,
                    "tokenizer_config.json"),
    "the first of them": (dict(generation_config=dict(eos_token_id=IM_START), config=dict(eos_token_id=IM_END)), IM_START, "generation_config.json"),
    "what a class has without the key": (dict(config=dict(model_type="llama")), DOCUMENT, "its name"),  # 2 there, at which its generate goes on
    "of a larger model": (dict(config=dict(eos_token_id=50256)), DOCUMENT, "its name"),
}


@pytest.mark.parametrize("case", SAID)
def test_what_stands_behind_documents(tmp_path, case):
    files, expected, by = SAID[case]
    folder = folder_of(tmp_path / "tokenizer", **files)
    (tmp_path / "text.txt").write_text("ab\n\ncd\n")
    done = trireme("prepare", "--tokenizer", folder, "--documents", "blank", "--validation", 0, "--out", tmp_path / "corpus", tmp_path / "text.txt")
    token = {DOCUMENT: "<|endoftext|>", IM_START: "<|im_start|>", IM_END: "<|im_end|>"}[expected]
    assert f"each document ends with {token} ({expected}), from {by}\n" in done.stderr
    ids = tokens_of(tmp_path / "corpus/train")
    assert ids.count(expected) == 2 and ids[-1] == expected and sum(i >= 256 for i in ids) == 2
    assert json.loads((tmp_path / "corpus/train.corpus.json").read_text())["end_of_text"] == expected
    written = json.loads((tmp_path / "corpus/tokenizer_config.json").read_text())
    assert written["eos_token"] == files.get("tokenizer_config", {}).get("eos_token", token)


def test_a_joined_corpus_is_divided_by_its_own_token(tmp_path):
    """The record says the token, whatever the tokenizer's folder says later; an older record leaves it to the tokenizer."""
    folder = folder_of(tmp_path / "tokenizer", tokenizer_config=dict(eos_token="<|im_end|>"))
    (tmp_path / "text.txt").write_text("ab\n\ncd\n\nef\n")
    trireme("prepare", "--tokenizer", folder, "--documents", "blank", "--validation", 0, "--out", tmp_path / "corpus", tmp_path / "text.txt")
    prefix = tmp_path / "corpus/train"
    ids = tokens_of(prefix)  # as one document of the index
    (prefix.with_suffix(".idx")).write_bytes(b"MMIDIDX\0\0" + struct.pack("<QBQQiqqq", 1, 8, 1, 2, len(ids), 0, 0, 1))
    record = json.loads((tmp_path / "corpus/train.corpus.json").read_text())
    (tmp_path / "corpus/train.corpus.json").unlink()
    assert record["end_of_text"] == IM_END
    assert json.loads(trireme("inspect", prefix, "--json").stdout)["documents"] == 3  # by the tokenizer_config.json in its folder
    (tmp_path / "corpus/tokenizer_config.json").unlink()
    assert json.loads(trireme("inspect", prefix, "--json").stdout)["documents"] == 1  # by the usual names, as ever


@pytest.mark.parametrize("bad, said", [
    (dict(config=dict(eos_token_id="<|nope|>")), '"eos_token_id" names "<|nope|>", which is not a token of the tokenizer'),
    (dict(generation_config=dict(eos_token_id=2.5)), '"eos_token_id" must be a token\'s number or name, a list of them, null or -1'),
    (dict(generation_config=dict(eos_token_id=[5, {}])), '"eos_token_id" must be a token\'s number or name, a list of them, null or -1, not an object'),
    (dict(tokenizer_config=[]), "tokenizer_config.json is an array, not a JSON object"),
    (dict(tokenizer_config=dict(added_tokens_decoder={"x": dict(content="a")})), '"added_tokens_decoder" must have ids as keys'),
    (dict(added_tokens={"<|turn|>": 300}), 'added_tokens.json has the token "<|turn|>" with the id 300, which'),
    (dict(added_tokens={"<|im_end|>": 260}), 'added_tokens.json gives the token "<|im_end|>" the id 260, and'),
    (dict(added_tokens={"<|a|>": 259}, tokenizer_config=dict(added_tokens_decoder={"260": dict(content="<|a|>")})), 'added_tokens.json gives the token "<|a|>" the id 259'),
])
def test_what_contradicts_is_refused(tmp_path, bad, said):
    folder = folder_of(tmp_path / "tokenizer", **bad)
    (tmp_path / "text.txt").write_text("ab\n")
    done = trireme("prepare", "--tokenizer", folder, "--out", tmp_path / "corpus", tmp_path / "text.txt", status=4)
    assert said in done.stderr, done.stderr


# Tokens that tokenizer.json lacks, and their ids: as transformers gives them, those with a number first.
EXTRA = {
    "added_tokens_decoder": (dict(tokenizer_config=dict(added_tokens_decoder={"259": dict(content="<|a|>", special=True), "260": dict(content="<|b|>", special=True)})),
                             {"<|a|>": 259, "<|b|>": 260}),
    "added_tokens.json": (dict(added_tokens={"<|b|>": 260, "<|a|>": 259}), {"<|a|>": 259, "<|b|>": 260}),
    "additional_special_tokens": (dict(tokenizer_config=dict(additional_special_tokens=["<|im_end|>", "<|a|>", "<|b|>"])), {"<|a|>": 259, "<|b|>": 260}),
    "special_tokens_map.json": (dict(special_tokens_map=dict(additional_special_tokens=["<|a|>"], bos_token="<|b|>")), {"<|a|>": 260, "<|b|>": 259}),
    "what pads before them": (dict(tokenizer_config=dict(pad_token="<|pad|>", mask_token="<|mask|>", additional_special_tokens=["<|a|>", "<|b|>"])), {"<|a|>": 261, "<|b|>": 262}),
    "names of a model's own": (dict(tokenizer_config=dict(image_token="<|b|>", additional_special_tokens=["<|a|>"])), {"<|a|>": 260, "<|b|>": 259}),
    "with and without a number": (dict(added_tokens={"<|b|>": 259}, tokenizer_config=dict(eos_token="<|a|>")), {"<|a|>": 260, "<|b|>": 259}),
}


@pytest.mark.parametrize("case", EXTRA)
def test_tokens_of_other_files(tmp_path, case):
    files, expected = EXTRA[case]
    folder = folder_of(tmp_path / "tokenizer", **files)
    (tmp_path / "text.jsonl").write_text(json.dumps(dict(text="x<|a|>y<|b|>z")) + "\n")
    template = "{% for m in messages %}{{ m.content }}{% endfor %}"
    (tmp_path / "template.jinja").write_text(template)
    (tmp_path / "chat.jsonl").write_text(json.dumps(dict(messages=[dict(role="assistant", content="q")])) + "\n")
    (tmp_path / "specials.jinja").write_text("x<|a|>y<|b|>z{% for m in messages %}{{ m.content }}{% endfor %}")
    trireme("prepare", "--chat", "--chat-template", tmp_path / "specials.jinja", "--tokenizer", folder, "--validation", 0, "--out", tmp_path / "corpus",
            tmp_path / "chat.jsonl")
    assert tokens_of(tmp_path / "corpus/train") == [ord("x"), expected["<|a|>"], ord("y"), expected["<|b|>"], ord("z"), ord("q")]
    kept = {token["content"]: token["id"] for token in json.loads((tmp_path / "corpus/tokenizer.json").read_text())["added_tokens"]}
    assert expected.items() <= kept.items()


# ---- models that learn from nothing ------------------------------------------------------------------------------------

def train(folder, corpus, **changes):
    run = dict(model=TINY, data=dict(train=str(corpus), sequence=24), optimizer=dict(global_batch=8, steps=1, lr=1e-2), layout=dict(micro_batch=8), threads=1,
               output=str(folder / "run"))
    run.update(changes)
    (folder / "run.yaml").write_text(yaml_of(run))
    trireme("train", folder / "run.yaml")
    return folder / "run"


def said_by(folder):
    read = {name: json.loads((folder / f"{name}.json").read_text()) for name in ("config", "tokenizer_config", "generation_config")}
    return read["config"]["eos_token_id"], read["tokenizer_config"]["eos_token"], read["generation_config"]["eos_token_id"]


def test_documents_of_bytes(tmp_path):
    """A checkpoint, an export and a merged folder name the token that ended the documents; transformers' generate stops there."""
    (tmp_path / "d.jsonl").write_text('{"text": "ab cd"}\n' * 60)
    trireme("prepare", "--tokenizer", "bytes", "--validation", 0, "--out", tmp_path / "corpus", tmp_path / "d.jsonl")
    run = train(tmp_path, tmp_path / "corpus/train")
    trireme("export", run, tmp_path / "hf")
    trireme("merge", "--out", tmp_path / "merged", run, tmp_path / "hf")
    trireme("import", tmp_path / "hf", tmp_path / "back")
    for folder in (run / "checkpoints/step-00000001", tmp_path / "hf", tmp_path / "merged", tmp_path / "back"):
        assert said_by(folder) == (DOCUMENT, "<|endoftext|>", DOCUMENT), folder
    assert json.loads((tmp_path / "hf/tokenizer_config.json").read_text())["tokenizer_class"] == "PreTrainedTokenizerFast"


def test_runs_of_before_are_exported_with_their_end(tmp_path):
    """Checkpoints that say nothing: by the name of the token."""
    (tmp_path / "d.jsonl").write_text('{"text": "ab cd"}\n' * 60)
    trireme("prepare", "--tokenizer", "bytes", "--validation", 0, "--out", tmp_path / "corpus", tmp_path / "d.jsonl")
    trireme("export", train(tmp_path, tmp_path / "corpus/train"), tmp_path / "older")
    for name in ("tokenizer_config.json", "generation_config.json"):
        (tmp_path / "older" / name).unlink()
    config = json.loads((tmp_path / "older/config.json").read_text())
    (tmp_path / "older/config.json").write_text(json.dumps(config | dict(eos_token_id=None, bos_token_id=None)))
    trireme("export", tmp_path / "older", tmp_path / "hf")
    assert said_by(tmp_path / "hf") == (DOCUMENT, "<|endoftext|>", DOCUMENT)


CHATML = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"


def test_conversations(tmp_path):
    """With a chat template a turn ends first; the template goes along, and so do those of other names."""
    folder = folder_of(tmp_path / "tokenizer", tokenizer_config=dict(eos_token="<|endoftext|>", bos_token="<|im_start|>"))
    (folder / "chat_template.jinja").write_text(CHATML)
    (folder / "additional_chat_templates").mkdir()
    (folder / "additional_chat_templates/tool_use.jinja").write_text("TOOLS" + CHATML)
    plain = dict(messages=[dict(role="user", content="q"), dict(role="assistant", content="a")])
    (tmp_path / "chat.jsonl").write_text("".join(json.dumps(one) + "\n" for one in [plain, dict(plain, tools=[dict(type="function", function=dict(name="f"))])] * 20))
    trireme("prepare", "--chat", "--tokenizer", folder, "--validation", 0, "--out", tmp_path / "corpus", tmp_path / "chat.jsonl")
    ids = tokens_of(tmp_path / "corpus/train")
    assert ids[:3] == [IM_START, ord("u"), ord("s")] and bytes(i for i in ids if i < 256).count(b"TOOLS") == 20
    run = train(tmp_path, tmp_path / "corpus/train", data=dict(train=str(tmp_path / "corpus/train"), sequence=64, documents="masked", packing="documents"))
    trireme("export", run, tmp_path / "hf")
    assert said_by(tmp_path / "hf") == (DOCUMENT, "<|endoftext|>", [IM_END, DOCUMENT])
    assert [one["template"] for one in json.loads((tmp_path / "hf/tokenizer_config.json").read_text())["chat_template"]] == [CHATML, "TOOLS" + CHATML]
    # From a folder that has them as files, they stay files.
    config = json.loads((tmp_path / "hf/tokenizer_config.json").read_text())
    del config["chat_template"]
    (tmp_path / "hf/tokenizer_config.json").write_text(json.dumps(config))
    (tmp_path / "hf/chat_template.jinja").write_text(CHATML)
    (tmp_path / "hf/additional_chat_templates").mkdir()
    (tmp_path / "hf/additional_chat_templates/tool_use.jinja").write_text("TOOLS" + CHATML)
    trireme("import", tmp_path / "hf", tmp_path / "ours")
    trireme("export", tmp_path / "ours", tmp_path / "out")
    for file in ("chat_template.jinja", "additional_chat_templates/tool_use.jinja", "generation_config.json", "tokenizer_config.json"):
        assert (tmp_path / "out" / file).read_bytes() == (tmp_path / "hf" / file).read_bytes(), file


def test_weights_to_begin_with_keep_theirs(tmp_path):
    """Every checkpoint keeps the tokens of the folder of `init`."""
    (tmp_path / "d.jsonl").write_text('{"text": "ab cd"}\n' * 60)
    folder = folder_of(tmp_path / "tokenizer")
    trireme("prepare", "--tokenizer", folder, "--validation", 0, "--out", tmp_path / "corpus", tmp_path / "d.jsonl")
    trireme("export", train(tmp_path, tmp_path / "corpus/train"), tmp_path / "hf")
    (tmp_path / "hf/generation_config.json").write_text(json.dumps(dict(eos_token_id=[IM_END, DOCUMENT], temperature=0.5)))
    (tmp_path / "second").mkdir()
    run = train(tmp_path / "second", tmp_path / "corpus/train", model=str(tmp_path / "hf"), init=str(tmp_path / "hf"))
    trireme("export", run, tmp_path / "out")
    assert json.loads((tmp_path / "out/generation_config.json").read_text()) == dict(eos_token_id=[IM_END, DOCUMENT], temperature=0.5)
    assert said_by(tmp_path / "out")[:2] == (DOCUMENT, "<|endoftext|>")

"""Folders with tokens in other files beside transformers itself: ids, and where generate stops."""
import json
import os
import sys

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "oracle"))

import test_text_ends as oracle  # noqa: E402
import test_tokenizer_class as classes  # noqa: E402
import tokenizers  # noqa: E402
from parity import trireme  # noqa: E402


@pytest.mark.parametrize("case", oracle.EXTRA)
def test_tokens_of_other_files(tmp_path, case):
    files, expected = oracle.EXTRA[case]
    folder = oracle.folder_of(tmp_path / "tokenizer", **{**files, "tokenizer_config": {"tokenizer_class": "PreTrainedTokenizerFast", **files.get("tokenizer_config", {})}})
    theirs = transformers.AutoTokenizer.from_pretrained(str(folder))
    ids = theirs("x<|a|>y<|b|>z", add_special_tokens=False).input_ids
    assert ids == [ord("x"), expected["<|a|>"], ord("y"), expected["<|b|>"], ord("z")]


@pytest.mark.parametrize("case", classes.CASES)
def test_classes_that_cut_otherwise(tmp_path, case):
    folder = classes.folder_of(tmp_path / "tokenizer", case)
    theirs, of_the_file = transformers.AutoTokenizer.from_pretrained(str(folder)), tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    same = all(theirs(text, add_special_tokens=False).input_ids == of_the_file.encode(text, add_special_tokens=False).ids for text in classes.TEXTS)
    assert same == (classes.CASES[case][3] is None)


@pytest.mark.parametrize("case", classes.NAMED)
def test_what_classes_name(tmp_path, case):
    theirs = transformers.AutoTokenizer.from_pretrained(str(classes.named_folder(tmp_path / "tokenizer", case)))
    assert theirs.apply_chat_template([dict(role="user", content="")], chat_template=classes.NAMES, tokenize=False) == classes.NAMED[case][2]


@pytest.mark.parametrize("case", classes.TEMPLATES)
def test_which_template(tmp_path, case):
    theirs = transformers.AutoTokenizer.from_pretrained(str(classes.template_folder(tmp_path / "tokenizer", case)))
    assert theirs.apply_chat_template([dict(role="assistant", content="ab")], tokenize=False) == classes.TEMPLATES[case][2]


@pytest.mark.parametrize("case", classes.BEGINNINGS)
def test_what_texts_begin_with(tmp_path, case):
    processor, expected = classes.BEGINNINGS[case]
    document = oracle.tokenizer_json() | dict(post_processor=processor)
    ids = tokenizers.Tokenizer.from_str(json.dumps(document)).encode("ab").ids
    assert ids[:2] == ([expected, ord("a")] if expected else list(b"ab"))


@pytest.mark.parametrize("chat", [False, True])
def test_what_is_exported_ends(tmp_path, chat):
    """A model that has learnt short texts by heart writes one in transformers, and stops."""
    if chat:
        folder = oracle.folder_of(tmp_path / "tokenizer", tokenizer_config=dict(eos_token="<|endoftext|>"))
        (folder / "chat_template.jinja").write_text(oracle.CHATML)
        turn = dict(messages=[dict(role="user", content="q"), dict(role="assistant", content="cd")])
        (tmp_path / "d.jsonl").write_text((json.dumps(turn) + "\n") * 200)
        trireme("prepare", "--chat", "--tokenizer", folder, "--validation", 0, "--out", tmp_path / "corpus", tmp_path / "d.jsonl")
    else:
        (tmp_path / "d.jsonl").write_text('{"text": "ab cd"}\n' * 400)
        trireme("prepare", "--tokenizer", "bytes", "--validation", 0, "--out", tmp_path / "corpus", tmp_path / "d.jsonl")
    data = dict(train=str(tmp_path / "corpus/train"), sequence=64, documents="masked", packing="documents")
    run = oracle.train(tmp_path, tmp_path / "corpus/train", optimizer=dict(global_batch=8, steps=150, lr=1e-2), data=data)
    trireme("export", run, tmp_path / "hf")
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(tmp_path / "hf"))
    model = transformers.AutoModelForCausalLM.from_pretrained(str(tmp_path / "hf"), dtype=torch.float32)
    if chat:
        ids = tokenizer.apply_chat_template([dict(role="user", content="q")], add_generation_prompt=True, return_tensors="pt")
        ids = ids if torch.is_tensor(ids) else ids["input_ids"]
    else:
        ids = tokenizer("ab", return_tensors="pt", add_special_tokens=False).input_ids
    out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=30, do_sample=False)[0, ids.shape[1]:].tolist()
    assert out[-1] == (oracle.IM_END if chat else oracle.DOCUMENT) and len(out) < 30, out
    assert bytes(out[:-1]) == (b"cd" if chat else b" cd")


def test_what_a_class_has_without_the_key(tmp_path):
    """LlamaConfig has 2; a folder that does not say so has no end that its generate would stop at."""
    config = transformers.LlamaConfig(vocab_size=6, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2)
    transformers.LlamaForCausalLM(config).save_pretrained(tmp_path)
    said = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "generation_config.json").unlink(missing_ok=True)
    for keys, end in ((said, 2), ({key: value for key, value in said.items() if key != "eos_token_id"}, None)):
        (tmp_path / "config.json").write_text(json.dumps(keys))
        theirs = transformers.AutoModelForCausalLM.from_pretrained(str(tmp_path))
        assert theirs.config.eos_token_id == 2 and theirs.generation_config.eos_token_id == end


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, *sys.argv[1:]]))

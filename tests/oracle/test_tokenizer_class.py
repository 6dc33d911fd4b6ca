"""Folders whose class of tokenizer transformers makes by itself, whatever tokenizer.json says of how texts are cut: a line says so, and no
line where ids are the same. Whether they are, of TEXTS, is what transformers 5.24 gives (tests/full/test_folder_tokens.py asks it again).
And what texts begin with, as a post_processor or add_bos_token says it."""
import json
import shutil

import pytest
import test_text_ends as ends
import test_ties as ties
import tokenizer_families
from parity import trireme

TEXTS = ["Hello 1234 world  don't cafe\u0301 x=12;\n\n  y", " lead", "a</s> b</s>c <s>d", "a  1", "I'LL 3.14159\tz\r\n\r\n end  "]
DIGITS = dict(type="Sequence", pretokenizers=[dict(type="Digits", individual_digits=True), tokenizer_families.bytes_of("gpt2")["pre_tokenizer"]])
# A family's tokenizer.json, the model_type of config.json, the tokenizer_config.json, and the class whose ids are others
CASES = {
    "Llama 2": ("llama2", "llama", dict(tokenizer_class="LlamaTokenizer"), "LlamaTokenizer"),
    "Llama 2, legacy": ("llama2", "llama", dict(tokenizer_class="LlamaTokenizerFast", legacy=True), "LlamaTokenizer"),
    "Llama 2 without a space": ("llama2", "llama", dict(tokenizer_class="LlamaTokenizer", add_prefix_space=False), "LlamaTokenizer"),
    "Llama 2 without a class": ("llama2", "llama", {}, None),
    "Llama 2 as a file": ("llama2", "llama", dict(tokenizer_class="PreTrainedTokenizerFast"), None),
    "Llama as its class has it": ("mistral", "llama", dict(tokenizer_class="LlamaTokenizer"), None),
    "Mistral": ("mistral_older", "mistral", dict(tokenizer_class="LlamaTokenizer"), None),
    "Phi-3": ("phi3", "phi3", dict(tokenizer_class="LlamaTokenizer"), None),
    "Llama 3 distilled": ("smollm3", "llama", dict(tokenizer_class="LlamaTokenizerFast"), None),
    "Gemma": ("gemma", "gemma2", dict(tokenizer_class="GemmaTokenizer"), None),
    "GPT-2": ("gpt2", "gpt2", dict(tokenizer_class="GPT2Tokenizer"), None),
    "digits apart": ("digits of bytes", "starcoder2", dict(tokenizer_class="GPT2Tokenizer"), "GPT2Tokenizer"),
    "digits apart, a Granite": ("digits of bytes", "granite", dict(tokenizer_class="GPT2Tokenizer"), None),
    "Phi-2": ("phi2", "phi", dict(tokenizer_class="CodeGenTokenizer"), None),
    "Pythia": ("neox", "gpt_neox", dict(tokenizer_class="GPTNeoXTokenizerFast"), None),
    "another cut in NeoX's class": ("olmo2", "olmoe", dict(tokenizer_class="GPTNeoXTokenizer"), "GPTNeoXTokenizer"),
    "OLMo 2": ("olmo2", "olmo2", dict(tokenizer_class="GPT2Tokenizer"), None),
    "Qwen 3": ("qwen3", "qwen3", dict(tokenizer_class="Qwen2Tokenizer"), None),
    "Qwen 2, distilled": ("qwen3", "qwen2", dict(tokenizer_class="LlamaTokenizerFast"), None),
    "another cut in Qwen's class": ("smollm3", "qwen3", dict(tokenizer_class="Qwen2Tokenizer"), "Qwen2Tokenizer"),
    "another cut in a Qwen 2": ("smollm3", "qwen2", dict(tokenizer_class="PreTrainedTokenizerFast"), "Qwen2Tokenizer"),
}


def folder_of(path, case):
    family, model_type, config, _ = CASES[case]
    document = tokenizer_families.bytes_of("gpt2", pre_tokenizer=DIGITS) if family == "digits of bytes" else tokenizer_families.FAMILIES[family]()
    path.mkdir()
    (path / "tokenizer.json").write_text(json.dumps(document))
    (path / "tokenizer_config.json").write_text(json.dumps(config))
    (path / "config.json").write_text(json.dumps(dict(model_type=model_type)))
    return path


@pytest.mark.parametrize("case", CASES)
def test_another_cut_is_told(tmp_path, case):
    folder, expected = folder_of(tmp_path / "tokenizer", case), CASES[case][3]
    (tmp_path / "text.txt").write_text("ab\n")
    said = trireme("prepare", "--tokenizer", folder, "--validation", 0, "--out", tmp_path / "corpus", tmp_path / "text.txt").stderr
    assert said.count("transformers 5 cuts texts in a way of that class") == (expected is not None)
    assert expected is None or f"asks for {expected}: " in said


def template(token, id):
    return dict(type="TemplateProcessing", single=[dict(SpecialToken=dict(id=token, type_id=0)), dict(Sequence=dict(id="A", type_id=0))],
                pair=[dict(Sequence=dict(id="A", type_id=0)), dict(Sequence=dict(id="B", type_id=1))],
                special_tokens={token: dict(id=token, ids=[id], tokens=[token])})


BEGINNINGS = {  # a post_processor, and the id that tokenizers puts before "ab"
    "none": (None, None),
    "a template": (template("<|im_start|>", ends.IM_START), ends.IM_START),
    "among others": (dict(type="Sequence", processors=[dict(type="ByteLevel", add_prefix_space=True, trim_offsets=False, use_regex=True),
                                                       template("<|im_end|>", ends.IM_END)]), ends.IM_END),
    "as RoBERTa": (dict(type="RobertaProcessing", sep=["<|im_end|>", ends.IM_END], cls=["<|im_start|>", ends.IM_START], trim_offsets=True, add_prefix_space=False),
                   ends.IM_START),
}
made = ties.made  # tied and untied models


@pytest.mark.parametrize("case", BEGINNINGS)
def test_what_texts_begin_with(made, tmp_path, case):
    """Documents and prompts begin as they stand, which a line says; a prompt that says the token itself has it."""
    processor, expected = BEGINNINGS[case]
    folder = ends.folder_of(tmp_path / "tokenizer")
    (folder / "tokenizer.json").write_text(json.dumps(ends.tokenizer_json() | dict(post_processor=processor)))
    (tmp_path / "text.txt").write_text("ab\n")
    token = {ends.IM_START: "<|im_start|>", ends.IM_END: "<|im_end|>"}.get(expected)
    said = trireme("prepare", "--tokenizer", folder, "--validation", 0, "--out", tmp_path / "corpus", tmp_path / "text.txt").stderr
    assert said.count("documents begin as they stand") == (expected is not None)
    assert expected is None or f"would begin them with {token} ({expected})" in said
    shutil.copytree(made / "tied", tmp_path / "model")
    shutil.copy(folder / "tokenizer.json", tmp_path / "model")
    for prompt, told in (("ab", expected is not None), (f"{token}ab", False)):
        said = trireme("generate", tmp_path / "model", "--prompt", prompt, "--tokens", 1, "--ignore-end", errors="replace").stderr
        assert said.count("prompts are read as they stand") == told
        assert not told or f"--prompt '{token}...' does" in said


def test_an_end_that_begins_texts(tmp_path):
    """OPT's vocab.json and merges.txt, with add_bos_token: what prepare saves has it, too."""
    document = ends.tokenizer_json()
    folder = tmp_path / "tokenizer"
    folder.mkdir()
    (folder / "vocab.json").write_text(json.dumps(document["model"]["vocab"] | {"</s>": 256}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    (tmp_path / "text.txt").write_text("ab\n")
    for add in (False, True):
        (folder / "tokenizer_config.json").write_text(json.dumps(dict(tokenizer_class="GPT2Tokenizer", add_bos_token=add, bos_token=dict(content="</s>"), eos_token="</s>")))
        out = tmp_path / f"corpus-{add}"
        said = trireme("prepare", "--tokenizer", folder, "--validation", 0, "--out", out, tmp_path / "text.txt").stderr
        assert said.count("would begin them with </s> (256)") == add
        written = json.loads((out / "tokenizer.json").read_text())["post_processor"]
        assert (written["single"][0]["SpecialToken"]["id"] == "</s>" and written["special_tokens"]["</s>"]["ids"] == [256]) if add else written is None

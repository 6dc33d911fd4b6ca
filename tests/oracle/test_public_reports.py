"""Folders as public reports about other programs describe them, each named; right values are those of transformers 5.24 and peft 0.21 on the
same folders, or of the same folder without what the report is about."""
import json
import shutil

import pytest
import test_text_ends as ends
import test_ties as ties
from parity import trireme, yaml_of

IM_START, IM_END = ends.IM_START, ends.IM_END


# ---- how added tokens are found: axolotl 678, transformers 26536 --------------------------------------------------------

def with_flags(json_flags, decoder_flags, drop=()):
    """tokenizer.json with these flags of all added tokens, and tokenizer_config.json with those, or without some."""
    described = ends.tokenizer_json()
    decoder = {str(token["id"]): {key: value for key, value in {**token, **decoder_flags}.items() if key not in ("id", *drop)}
               for token in described["added_tokens"]}
    for token in described["added_tokens"]:
        token.update(json_flags)
    return described, dict(added_tokens_decoder=decoder)


FLAGS = {  # of "a <|im_start|> b<|im_end|>c", as transformers' from_pretrained gives it
    "lstrip and rstrip there alone": (with_flags({}, dict(lstrip=True, rstrip=True)), [97, IM_START, 98, IM_END, 99]),
    "not there": (with_flags(dict(lstrip=True, rstrip=True), {}), [97, 32, IM_START, 32, 98, IM_END, 99]),
    "not named there": (with_flags(dict(lstrip=True), {}, drop=("lstrip", "rstrip", "single_word")), [97, 32, IM_START, 32, 98, IM_END, 99]),
    "single_word": (with_flags({}, dict(single_word=True)), [97, 32, IM_START, 32, 98, *b"<|im_end|>", 99]),
    "no single_word": (with_flags(dict(single_word=True), {}), [97, 32, IM_START, 32, 98, IM_END, 99]),
}


@pytest.mark.parametrize("case", FLAGS)
def test_flags_of_added_tokens(tmp_path, case):
    (described, config), expected = FLAGS[case]
    folder = ends.folder_of(tmp_path / "tokenizer", tokenizer_config=config)
    (folder / "tokenizer.json").write_text(json.dumps(described))
    (tmp_path / "template.jinja").write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
    text = "a <|im_start|> b<|im_end|>c"
    (tmp_path / "chat.jsonl").write_text(json.dumps(dict(messages=[dict(role="assistant", content=text)])) + "\n")

    def ids(tokenizer, out):
        trireme("prepare", "--chat", "--chat-template", tmp_path / "template.jinja", "--tokenizer", tokenizer, "--validation", 0, "--out", out, tmp_path / "chat.jsonl")
        return ends.tokens_of(out / "train")

    assert ids(folder, tmp_path / "corpus") == expected
    assert ids(tmp_path / "corpus", tmp_path / "again") == expected  # the tokenizer that is written says the same


# ---- two files that name the end and the beginning of a text: transformers 31099 ----------------------------------------

NAMED = {  # what tokenizer_config.json and special_tokens_map.json say, whether there is an added_tokens_decoder, and what transformers has
    "the map": ("<|im_end|>", "<|im_start|>", False, "<|im_start|>"),
    "the map alone": (None, "<|im_start|>", False, "<|im_start|>"),
    "not read": ("<|im_end|>", "<|im_start|>", True, "<|im_end|>"),
    "no map": ("<|im_end|>", None, False, "<|im_end|>"),
}


@pytest.mark.parametrize("case", NAMED)
def test_who_names_tokens(tmp_path, case):
    config, named, decoder, expected = NAMED[case]
    files = dict(tokenizer_config=dict(eos_token=config, bos_token=config))
    if named:
        files["special_tokens_map"] = dict(eos_token=named, bos_token=dict(content=named, special=True))
    if decoder:
        files["tokenizer_config"] |= with_flags({}, {})[1]
    folder = ends.folder_of(tmp_path / "tokenizer", **files)
    (tmp_path / "template.jinja").write_text("{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}{{ eos_token }}")
    (tmp_path / "chat.jsonl").write_text(json.dumps(dict(messages=[dict(role="assistant", content="a")])) + "\n")
    trireme("prepare", "--chat", "--chat-template", tmp_path / "template.jinja", "--tokenizer", folder, "--validation", 0, "--out", tmp_path / "corpus", tmp_path / "chat.jsonl")
    token = dict(zip(["<|endoftext|>", "<|im_start|>", "<|im_end|>"], [ends.DOCUMENT, IM_START, IM_END]))[expected]
    assert ends.tokens_of(tmp_path / "corpus/train") == [token, 97, token]
    (tmp_path / "text.txt").write_text("a\n")
    done = trireme("prepare", "--tokenizer", folder, "--validation", 0, "--out", tmp_path / "plain", tmp_path / "text.txt")
    assert f"each document ends with {expected} ({token})" in done.stderr
    for corpus in ("corpus", "plain"):  # which says it in one file
        assert json.loads((tmp_path / corpus / "tokenizer_config.json").read_text())["eos_token"] == expected


def test_special_tokens_that_are_split(tmp_path):
    """With split_special_tokens transformers reads a template's special tokens as letters: refused; false says nothing."""
    (tmp_path / "template.jinja").write_text("{% for m in messages %}<|im_start|>{{ m.content }}{% endfor %}")
    (tmp_path / "chat.jsonl").write_text(json.dumps(dict(messages=[dict(role="assistant", content="a")])) + "\n")
    for split in (False, True):
        folder = ends.folder_of(tmp_path / f"tokenizer-{split}", tokenizer_config=dict(split_special_tokens=split))
        done = trireme("prepare", "--chat", "--chat-template", tmp_path / "template.jinja", "--tokenizer", folder, "--validation", 0, "--out", tmp_path / f"corpus-{split}",
                       tmp_path / "chat.jsonl", status=7 if split else 0)
        assert ('"split_special_tokens" is true, so special tokens of a template would be encoded as plain text' in done.stderr) == split


# ---- a space before a text: transformers 29625 --------------------------------------------------------------------------

SPACE = {  # tokenizer_class, add_prefix_space of tokenizer.json and of tokenizer_config.json, and whether transformers puts one before "ab"
    "by the class": ("GPT2Tokenizer", False, True, True),
    "by the class, no key": ("GPT2Tokenizer", True, None, False),
    "by the class of before": ("GPT2TokenizerFast", True, False, False),
    "another class": ("PreTrainedTokenizerFast", True, False, True),
    "another class, without": ("PreTrainedTokenizerFast", False, True, False),
}


@pytest.mark.parametrize("case", SPACE)
def test_a_space_before_a_text(tmp_path, case):
    tokenizer_class, there, config, expected = SPACE[case]
    folder = ends.folder_of(tmp_path / "tokenizer", tokenizer_config=dict(tokenizer_class=tokenizer_class, **({} if config is None else dict(add_prefix_space=config))))
    described = ends.tokenizer_json()
    described["pre_tokenizer"]["add_prefix_space"] = there
    (folder / "tokenizer.json").write_text(json.dumps(described))
    (tmp_path / "text.txt").write_text("ab")
    trireme("prepare", "--tokenizer", folder, "--validation", 0, "--out", tmp_path / "corpus", tmp_path / "text.txt")
    assert ends.tokens_of(tmp_path / "corpus/train") == [*([32] if expected else []), *b"ab", ends.DOCUMENT]


# ---- an index and files that hold more: vllm 54230 ----------------------------------------------------------------------

made = ties.made  # a tied and an untied model


@pytest.mark.parametrize("place", ["before", "behind"])
def test_the_index_places_a_tensor(made, tmp_path, place):
    """A file that was another model's has a tensor of a name that the index places elsewhere."""
    tensors, config = ties.read(made / "untied"), json.loads((made / "untied/config.json").read_text())
    names = sorted(tensors)
    stale = names[-1] if place == "before" else names[0]
    halves = [{name: tensors[name] for name in names[:4]}, {name: tensors[name] for name in names[4:]}]
    halves[0 if place == "before" else 1][stale] = ties.changed(tensors[stale])
    folder, files, index = tmp_path / "model", ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"], {}
    folder.mkdir()
    for i, half in enumerate(halves):
        ties.write(tmp_path / f"half{i}", half)
        (tmp_path / f"half{i}/model.safetensors").rename(folder / files[i])
        index |= {name: files[i] for name in half if name != stale}
    index[stale] = files[1 if place == "before" else 0]
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors.index.json").write_text(json.dumps(dict(metadata={}, weight_map=index)))
    value, lines = ties.loss(folder, made)
    other = files[0 if place == "before" else 1]
    assert value == ties.loss(made / "untied", made)[0] and lines.count(f"not read: `{stale}` of {other}, which the index places in another file") == 1
    trireme("export", folder, tmp_path / "out")
    assert ties.read(tmp_path / "out") == tensors


# ---- an adapter beside a model that has it in it: transformers loads both ------------------------------------------------

def test_an_adapter_beside_a_model(made, tmp_path):
    """A folder with a merged model and its adapter: the model is used, and a log line says that the adapter is ignored."""
    shutil.copytree(made / "untied", tmp_path / "model")
    (tmp_path / "model/adapter_config.json").write_text(json.dumps(dict(peft_type="LORA", r=2, lora_alpha=4)))
    value, lines = ties.loss(tmp_path / "model", made)
    assert value == ties.loss(made / "untied", made)[0]
    assert lines.count(f"{tmp_path}/model: its adapter_config.json is ignored, because the folder also has a model") == 1


# ---- a model that was saved twice into one file: transformers mixes the two -----------------------------------------------

@pytest.mark.parametrize("name", ["model.norm.weight", "model.layers.0.mlp.up_proj.weight"])
def test_a_tensor_under_two_names(made, tmp_path, name):
    """With and without the first part of its name: neither is the one that is meant."""
    tensors, config = ties.read(made / "untied"), json.loads((made / "untied/config.json").read_text())
    both = tensors | {name.removeprefix("model."): ties.changed(tensors[name])}
    folder = ties.write(tmp_path / "model", both, **config)
    words = f"{folder}/model.safetensors has `{name}` and `{name.removeprefix('model.')}`, which are one tensor of the model"
    for command in (["eval", folder, made / "corpus/train"], ["export", folder, tmp_path / "out"]):
        assert words in trireme(*command, status=4).stderr
    value, _ = ties.loss(ties.write(tmp_path / "without", {key.removeprefix("model."): tensor for key, tensor in tensors.items()}, **config), made)
    assert value == ties.loss(made / "untied", made)[0]


# ---- templates that do not end an answer: trl 5988, alpaca_lora_4bit 35 --------------------------------------------------

def template_of(printed):
    return "{% for m in messages %}[{{ m.role }}]" + printed + "{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}"


UNENDED = {  # a template, the answer, and whether the end of the answer is learnt
    "the next role is the end": (template_of("{{ m.content }}"), "a", False),
    "white space": (template_of("{{ m.content }}\n\n"), "a", False),
    "white space, trimmed": (template_of("{{ m.content | trim }}\n"), " a ", False),
    "an end": (template_of("{{ m.content }}{{ eos_token }}"), "a", True),
    "an end in the answer": (template_of("{{ m.content }}\n"), "a<|im_end|>", True),
    "an end inside": (template_of("{% generation %}{{ m.content }}{{ eos_token }}{% endgeneration %}"), "a", True),
    "an end outside": (template_of("{% generation %}{{ m.content }}{% endgeneration %}{{ eos_token }}"), "a", False),
}


@pytest.mark.parametrize("case", UNENDED)
def test_an_answer_without_an_end(tmp_path, case):
    template, text, ended = UNENDED[case]
    folder = ends.folder_of(tmp_path / "tokenizer", tokenizer_config=dict(eos_token="<|im_end|>", chat_template=template))
    (tmp_path / "chat.jsonl").write_text(json.dumps(dict(messages=[dict(role="user", content="q"), dict(role="assistant", content=text)])) + "\n")
    done = trireme("prepare", "--chat", "--tokenizer", folder, "--validation", 0, "--out", tmp_path / "corpus", tmp_path / "chat.jsonl")
    mask = (tmp_path / "corpus/train.mask").read_bytes()
    learnt = [i for i, counts in zip(ends.tokens_of(tmp_path / "corpus/train"), mask) if counts]
    assert (IM_END in learnt) == ended
    assert ("the model does not learn to end an answer" in done.stderr) == (not ended), done.stderr
    (tmp_path / "text.jsonl").write_text(json.dumps(dict(text="a")) + "\n")  # no template renders it
    done = trireme("prepare", "--chat", "--tokenizer", folder, "--validation", 0, "--out", tmp_path / "texts", tmp_path / "text.jsonl")
    assert "to end an answer" not in done.stderr


# ---- a run of one step: its rate is that of the end, 0 -------------------------------------------------------------------

@pytest.mark.parametrize("settings, idle", [((), True), (("optimizer.min_lr=1e-4",), False), (("optimizer.decay=constant",), False), (("optimizer.steps=2",), False)])
def test_a_run_of_one_step(made, tmp_path, settings, idle):
    """With a warning, and only then, the weights are those of the beginning."""
    keys = [word for setting in ("optimizer.steps=1", *settings) for word in ("--set", setting)]
    (tmp_path / "run.yaml").write_text(yaml_of(dict(data=dict(train=f"{made}/corpus/train", sequence=16), optimizer=dict(lr=1e-2, global_batch=1), threads=1,
                                                    precision="fp32", model=str(made / "untied"), init=str(made / "untied"), output=str(tmp_path / "out"))))
    done = trireme("train", tmp_path / "run.yaml", *keys)
    assert ("the only one to come, is 0" in done.stderr) == idle, done.stderr
    trireme("export", tmp_path / "out", tmp_path / "exported")
    assert (ties.read(tmp_path / "exported") == ties.read(made / "untied")) == idle


# ---- a list of parts where the template expects a text: vllm 9358 --------------------------------------------------------

@pytest.mark.parametrize("parts, template", [
    (dict(type="text", text="a"), "{{ m.content }}"),
    (dict(text="a", type="text"), "{{ m.content }}"),
    (dict(type="text", text="a"), "{% for part in m.content %}{{ part.text }}{% endfor %}"),
])
def test_parts_in_the_place_of_a_text(tmp_path, parts, template):
    """Printed as Jinja prints a list, with a warning; or part by part."""
    folder = ends.folder_of(tmp_path / "tokenizer", tokenizer_config=dict(chat_template=template_of(template + "<|im_end|>")))
    (tmp_path / "chat.jsonl").write_text(json.dumps(dict(messages=[dict(role="assistant", content=[parts])])) + "\n")
    done = trireme("prepare", "--chat", "--tokenizer", folder, "--validation", 0, "--out", tmp_path / "corpus", tmp_path / "chat.jsonl")
    printed = "a" if "for part" in template else str([parts])
    assert ends.tokens_of(tmp_path / "corpus/train") == [*b"[assistant]", *printed.encode(), IM_END]
    assert ("prints the list of parts" in done.stderr) == (printed != "a"), done.stderr

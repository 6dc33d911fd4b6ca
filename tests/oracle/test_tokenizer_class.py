"""Folders whose class of tokenizer transformers makes by itself, whatever tokenizer.json says of how texts are cut: a line says so, and no
line where ids are the same. Whether they are, of TEXTS, is what transformers 5.24 gives (tests/full/test_folder_tokens.py asks it again).
And what texts begin with, as a post_processor or add_bos_token says it."""
import json
import shutil

import pytest
import test_text_ends as ends
import test_ties as ties
import tokenizer_families
import tokenizers
from parity import trireme, yaml_of

TEXTS = ["Hello 1234 world  don't cafe\u0301 x=12;\n\n  y", " lead", "a</s> b</s>c <s>d", "a  1", "I'LL 3.14159\tz\r\n\r\n end  "]
DIGITS = dict(type="Sequence", pretokenizers=[dict(type="Digits", individual_digits=True), tokenizer_families.bytes_of("gpt2")["pre_tokenizer"]])
# case: (family of the tokenizer.json, model_type of config.json, tokenizer_config.json, a class whose ids differ from the file's)
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
    return write_folder(path, *CASES[case][:3])


def write_folder(path, family, model_type, config):
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


# case: (tokenizer_config.json, model_type, NAMES as rendered by transformers 5.24).
NAMES = "{{ bos_token }}|{{ eos_token }}|{{ unk_token }}|{{ pad_token }}|{{ image_token }}"
END = "<|endoftext|>"
NAMED = {
    "GPT-2's own file": (dict(model_max_length=1024), "gpt2", f"{END}|{END}|{END}||"),
    "no file": (None, "gpt2", f"{END}|{END}|{END}||"),
    "null": (dict(tokenizer_class="GPT2Tokenizer", bos_token=None, eos_token=None), "gpt2", f"||{END}||"),
    "one of them": (dict(tokenizer_class="GPT2Tokenizer", eos_token="<|im_end|>"), None, f"{END}|<|im_end|>|{END}||"),
    "CodeGen": (dict(tokenizer_class="CodeGenTokenizer"), "phi", f"{END}|{END}|{END}||"),
    "NeoX": (dict(tokenizer_class="GPTNeoXTokenizerFast"), "gpt_neox", f"{END}|{END}|{END}|<|padding|>|"),
    "Qwen": (dict(tokenizer_class="Qwen2Tokenizer"), "qwen3", f"|{END}|{END}|{END}|"),
    "Gemma": (dict(tokenizer_class="GemmaTokenizer"), "gemma2", "<bos>|<eos>|<unk>|<pad>|"),
    "Llama of bytes": (dict(tokenizer_class="LlamaTokenizer"), "llama", "||||"),
    "a file": (dict(tokenizer_class="PreTrainedTokenizerFast"), "llama", "||||"),
    "a class of its own": (dict(tokenizer_class="PreTrainedTokenizerFast", image_token="<|im_start|>"), "llama", "||||<|im_start|>"),
    "an object": (dict(tokenizer_class="PreTrainedTokenizerFast", extra_special_tokens=dict(image_token="<|im_end|>")), "llama", "||||<|im_end|>"),
    "a newer object": (dict(tokenizer_class="PreTrainedTokenizerFast", model_specific_special_tokens=dict(image_token="<|im_end|>")), "llama", "||||<|im_end|>"),
}


def named_folder(path, case):
    config, model_type, _ = NAMED[case]
    files = dict(tokenizer_config=config, config=model_type and dict(model_type=model_type))
    return ends.folder_of(path, **{name: content for name, content in files.items() if content is not None})


@pytest.mark.parametrize("case", NAMED)
def test_what_classes_name(tmp_path, case):
    """Tokens that no file names have the names that transformers' class gives them."""
    folder = named_folder(tmp_path / "tokenizer", case)
    (tmp_path / "template.jinja").write_text("{% for m in messages %}" + NAMES.replace("}}", "or '' }}") + "{{ m.content }}{% endfor %}")
    (tmp_path / "chat.jsonl").write_text(json.dumps(dict(messages=[dict(role="assistant", content="ab")])) + "\n")
    trireme("prepare", "--chat", "--chat-template", tmp_path / "template.jinja", "--tokenizer", folder, "--validation", 0, "--out", tmp_path / "corpus", tmp_path / "chat.jsonl")
    ids = {END: ends.DOCUMENT, "<|im_start|>": ends.IM_START, "<|im_end|>": ends.IM_END}
    text = NAMED[case][2] + "ab"
    found = []
    while text:
        token = next((name for name in ids if text.startswith(name)), None)
        found.append(ids[token] if token else ord(text[0]))
        text = text[len(token or "x"):]
    assert ends.tokens_of(tmp_path / "corpus/train") == found
    written = json.loads((tmp_path / "corpus/tokenizer_config.json").read_text())  # which says it in one file, whatever model has it then
    assert written.get("bos_token") == (END if NAMED[case][2].startswith(END) else None)


TEMPLATES = {  # tokenizer_config.json's chat_template, the other files, and what transformers 5.24 renders of "ab"
    "an object": (dict(default="1{{ messages[0].content }}", tool_use="2"), {}, "1ab"),
    "named default beside": (None, {"additional_chat_templates/default.jinja": "3{{ messages[0].content }}"}, "3ab"),
    "named default before": ("1{{ messages[0].content }}", {"additional_chat_templates/default.jinja": "3{{ messages[0].content }}",
                                                            "chat_template.jinja": "2{{ messages[0].content }}"}, "3ab"),
}


def template_folder(path, case):
    config, files, _ = TEMPLATES[case]
    folder = ends.folder_of(path, tokenizer_config=dict(tokenizer_class="PreTrainedTokenizerFast") | (dict(chat_template=config) if config else {}))
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize("case", TEMPLATES)
def test_which_template(tmp_path, case):
    folder = template_folder(tmp_path / "tokenizer", case)
    (tmp_path / "chat.jsonl").write_text(json.dumps(dict(messages=[dict(role="assistant", content="ab")])) + "\n")
    trireme("prepare", "--chat", "--tokenizer", folder, "--validation", 0, "--out", tmp_path / "corpus", tmp_path / "chat.jsonl")
    assert bytes(ends.tokens_of(tmp_path / "corpus/train")) == TEMPLATES[case][2].encode()


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


def written(model, prompt, *more):
    """Returns sampled texts after a prompt: a function of the prompt's tokens."""
    done = trireme("generate", model, "--prompt", prompt, "--tokens", 12, "--ignore-end", "--samples", 3, "--json", *more)
    return [json.loads(line)["text"] for line in done.stdout.splitlines()]


@pytest.mark.parametrize("case", BEGINNINGS)
def test_what_texts_begin_with(made, tmp_path, case):
    """Documents and prompts begin with the post_processor's first token, once; tokens that it appends are left out."""
    processor, expected = BEGINNINGS[case]
    folder = ends.folder_of(tmp_path / "tokenizer")
    (folder / "tokenizer.json").write_text(json.dumps(ends.tokenizer_json() | dict(post_processor=processor)))
    (tmp_path / "text.txt").write_text("ab\n\ncd\n")
    token = {ends.IM_START: "<|im_start|>", ends.IM_END: "<|im_end|>"}.get(expected)
    said = trireme("prepare", "--tokenizer", folder, "--documents", "blank", "--validation", 0, "--out", tmp_path / "corpus", tmp_path / "text.txt").stderr
    assert said.count("each document begins with") == (expected is not None)
    assert expected is None or f"each document begins with {token} ({expected}), from the tokenizer's post_processor\n" in said
    theirs = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    begins = theirs.encode("ab").ids[:1] if expected else []
    assert begins == ([expected] if expected else [])
    record = json.loads((tmp_path / "corpus/train.corpus.json").read_text())
    assert record.get("beginning", []) == begins
    ids = ends.tokens_of(tmp_path / "corpus/train")
    documents = [bytes(part).decode() for part in b"".join(bytes([min(i, 255)]) for i in ids).split(b"\xff") if part]
    assert len(documents) == 2  # no other token of more than a byte
    assert ids == [i for text in documents for i in begins + theirs.encode(text, add_special_tokens=False).ids + [ends.DOCUMENT]]
    plain, model = tmp_path / "plain", tmp_path / "model"
    for path in (plain, model):
        shutil.copytree(made / "tied", path)
        (path / "tokenizer.json").write_text(json.dumps(ends.tokenizer_json()))
    shutil.copy(folder / "tokenizer.json", model)
    assert written(model, "ab") == written(plain, (token or "") + "ab")  # their tokenizer adds no token before texts
    if expected:
        assert written(model, "ab") == written(model, f"{token}ab") != written(plain, "ab")
        assert written(model, "") == written(plain, token)


def test_a_chat_template_prints_it(made, tmp_path):
    """A text of a chat template has the first token once if the template prints it, and else not at all, in training and in answers."""
    template = "{{% for m in messages %}}{0}[{{{{ m.content }}}}]{{% endfor %}}"
    texts = {}
    for name, printed in (("with", "<|im_start|>"), ("without", "")):
        for begins in (True, False):
            model = tmp_path / f"{name}-{begins}"
            shutil.copytree(made / "tied", model)
            document = ends.tokenizer_json() | dict(post_processor=BEGINNINGS["a template"][0] if begins else None)
            (model / "tokenizer.json").write_text(json.dumps(document))
            (model / "chat_template.jinja").write_text(template.format(printed))
            done = trireme("generate", model, "--chat", "--json", "--tokens", 12, "--ignore-end", input="ab\n")
            texts[name, begins] = json.loads(done.stdout)["text"]
        assert texts[name, True] == texts[name, False]
    assert texts["with", True] == written(tmp_path / "with-True", "[ab]")[0] and texts["without", True] == written(tmp_path / "without-False", "[ab]")[0]
    # Records that no template renders begin with it.
    (tmp_path / "chat.jsonl").write_text(json.dumps(dict(prompt="ab", completion="cd")) + "\n")
    trireme("prepare", "--chat", "--chat-template", "none", "--tokenizer", tmp_path / "with-True", "--validation", 0, "--out", tmp_path / "corpus", tmp_path / "chat.jsonl")
    assert ends.tokens_of(tmp_path / "corpus/train") == [ends.IM_START, *b"abcd", ends.DOCUMENT]
    assert list((tmp_path / "corpus/train.mask").read_bytes()[-6:]) == [0, 0, 0, 1, 1, 1]


def test_samples_of_a_run_begin_with_it(tmp_path):
    """As `generate` of the checkpoint has it, which reads what the template prints as it stands."""
    folder = ends.folder_of(tmp_path / "tokenizer")
    (folder / "tokenizer.json").write_text(json.dumps(ends.tokenizer_json() | dict(post_processor=BEGINNINGS["a template"][0])))
    (folder / "chat_template.jinja").write_text("{% for m in messages %}[{{ m.content }}]{% endfor %}")
    (tmp_path / "chat.jsonl").write_text((json.dumps(dict(messages=[dict(role="user", content="ab"), dict(role="assistant", content="cd")])) + "\n") * 50)
    trireme("prepare", "--chat", "--tokenizer", folder, "--validation", 0, "--out", tmp_path / "corpus", tmp_path / "chat.jsonl")
    run = dict(model=ends.TINY, data=dict(train=str(tmp_path / "corpus/train"), sequence=16), layout=dict(micro_batch=2), checkpoint=dict(every=1),
               optimizer=dict(global_batch=2, steps=1, lr=1e-3), output=str(tmp_path / "run"), samples=dict(prompts=["ab", ""], chat=["ab"], tokens=5))
    (tmp_path / "run.yaml").write_text(yaml_of(run))
    trireme("train", tmp_path / "run.yaml")
    lines = [json.loads(line) for line in (tmp_path / "run/samples.jsonl").read_text().splitlines()]
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain/tokenizer.json").write_text(json.dumps(ends.tokenizer_json()))
    for line, prompt in zip(lines, ("<|im_start|>ab", "<|im_start|>", "[ab]"), strict=True):
        done = trireme("generate", tmp_path / "run", "--tokenizer", tmp_path / "plain/tokenizer.json", "--prompt", prompt, "--tokens", 5, "--seed", 1234, "--json")
        assert json.loads(done.stdout)["text"] == line["text"], prompt


def test_a_corpus_without_it(tmp_path):
    """A corpus that was made before, or elsewhere, is what it was; a run says what its documents lack."""
    folder = ends.folder_of(tmp_path / "tokenizer")
    (folder / "tokenizer.json").write_text(json.dumps(ends.tokenizer_json() | dict(post_processor=BEGINNINGS["a template"][0])))
    (tmp_path / "text.txt").write_text("ab\n" * 200)
    trireme("prepare", "--tokenizer", folder, "--validation", 0, "--out", tmp_path / "corpus", tmp_path / "text.txt")
    run = dict(model=ends.TINY, data=dict(train=str(tmp_path / "corpus/train"), sequence=16), layout=dict(micro_batch=2),
               optimizer=dict(global_batch=2, steps=1, lr=1e-3))
    path = tmp_path / "corpus/train.corpus.json"
    record = json.loads(path.read_text())
    assert record.pop("beginning") == [ends.IM_START]
    for lacks in (False, True):
        if lacks:
            path.write_text(json.dumps(record))
        (tmp_path / "run.yaml").write_text(yaml_of(run | dict(output=str(tmp_path / f"run-{lacks}"))))
        said = trireme("train", tmp_path / "run.yaml")
        assert (said.stdout + said.stderr).count(f"do not begin with token {ends.IM_START}, with which `generate` and `eval` begin texts") == lacks
    path.write_text(json.dumps(record | dict(beginning="<s>")))
    assert '"beginning" must be a list of 1 to 8 tokens' in trireme("train", tmp_path / "run.yaml", status=4).stderr


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
        assert said.count("each document begins with </s> (256)") == add
        written = json.loads((out / "tokenizer.json").read_text())["post_processor"]
        assert (written["single"][0]["SpecialToken"]["id"] == "</s>" and written["special_tokens"]["</s>"]["ids"] == [256]) if add else written is None

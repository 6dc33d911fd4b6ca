"""Tests chat templates by name: the rendered text has the hash of the published template's, answers are learnt, names are found."""
import hashlib
import json
import os
import pathlib
import subprocess

import pytest
import template_cases
from serving import Server
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

TRIREME = os.environ["TRIREME"]
TOOL = os.path.join(os.environ["TRIREME_TOOLS"], "chat_tool")
HERE = pathlib.Path(__file__).resolve().parent
FOLDER = HERE.parents[1] / "configs/templates"
HASHES = json.loads((HERE / "template_cases.json").read_text())
NAMES = sorted(HASHES)

# Texts around an answer that are learnt with it, and what follows the last one.
LEARNT = {"llama2": (" ", " <eos>"), "llama3": ("", "<|eot_id|>"), "gemma": ("", "<end_of_turn>\n"), "mistral-v3": (" ", "<eos>"), "mistral-v7": (" ", "<eos>"),
          "phi3": ("", "<|end|>\n"), "phi4": ("", "<|im_end|>"), "deepseek3": ("", "<｜end▁of▁sentence｜>"), "zephyr": ("", "<eos>\n"),
          "vicuna": (" ", "<eos>"), "alpaca": ("", "<eos>\n\n")}
LAST = {"phi3": ("", "<|end|>\n<eos>"), "qwen3": ("<think>\n\n</think>\n\n", "<|im_end|>\n")}


def trireme(*arguments, code=0, **more):
    done = subprocess.run([TRIREME, *map(str, arguments)], capture_output=True, text=True, **more)
    assert done.returncode == code, done.stderr
    return done


def rendered(name, given):
    done = subprocess.run([TOOL, FOLDER / f"{name}.jinja"], input="".join(json.dumps(g) + "\n" for g in given), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_each_preset_has_hashes():
    assert NAMES == sorted(path.name.removesuffix(".jinja") for path in FOLDER.iterdir())


@pytest.mark.parametrize("name", NAMES)
def test_rendering(name):
    cases = template_cases.cases(name)
    assert list(cases) == list(HASHES[name]) and len(cases) >= 12
    for (key, digest), answer in zip(HASHES[name].items(), rendered(name, cases.values()), strict=True):
        if digest is None:
            assert "refuses" in answer["error"], (key, answer)
        else:
            assert hashlib.sha256(answer["text"].encode()).hexdigest() == digest, (key, answer)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_learnt(name):
    cases = template_cases.cases(name)
    before, after = LEARNT.get(name, ("", "<|im_end|>\n"))
    for key in ("answer", "turns", "no answer", "white space", "system and turns"):
        answer = rendered(name, [cases[key]])[0]
        if HASHES[name][key] is None:
            continue
        trims = name in ("llama2", "llama3", "gemma", "mistral-v3")
        contents = [m["content"].strip() if trims else m["content"] for m in cases[key]["messages"] if m["role"] == "assistant"]
        wanted = [before + text + after for text in contents]
        first, end = LAST.get(name, (before, after))
        wanted[-1] = first + (contents[-1].lstrip("\n") if name == "qwen3" else contents[-1]) + end
        text = answer["text"].encode()
        assert [text[begin:end].decode() for begin, end in answer["generated"]] == wanted, key


def test_thoughts_of_the_prompt_are_not_learnt():
    for thinks in (True, False):
        given = template_cases.cases("qwen3")["no thoughts"] | dict(enable_thinking=thinks)
        answer = rendered("qwen3", [given])[0]
        prompt = rendered("qwen3", [given | dict(messages=given["messages"][:-1], add_generation_prompt=True)])[0]["text"]
        assert answer["text"].encode()[:answer["generated"][-1][0]].decode() == prompt


# ---- names ---------------------------------------------------------------------------------------------------------


def make_tokenizer(folder, *special, **config):
    tokenizer = Tokenizer(models.BPE({letter: i for i, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in special])
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(dict(tokenizer_class="PreTrainedTokenizerFast", **config)))
    return folder


@pytest.fixture
def folder(tmp_path):
    lines = [json.dumps(dict(messages=template_cases.conversation("uaua", u=f"What is {i}?"))) + "\n" for i in range(20)]
    (tmp_path / "chat.jsonl").write_text("".join(lines))
    return tmp_path


def prepare(folder, template, tokenizer="bytes", code=0):
    return trireme("prepare", "--chat", "--tokenizer", tokenizer, "--chat-template", template, "--validation", 0, "--out", "corpus", "--force", "chat.jsonl", cwd=folder,
                   code=code).stderr


def config(folder):
    """The template of a tokenizer's folder."""
    file = folder / "chat_template.jinja"
    return file.read_text() if file.exists() else json.loads((folder / "tokenizer_config.json").read_text())["chat_template"]


def test_a_name_goes_before_a_file(folder):
    (folder / "chatml").write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
    prepare(folder, "chatml")
    assert config(folder / "corpus") == (FOLDER / "chatml.jinja").read_text().removesuffix("\n")
    (folder / "own.jinja").write_text((folder / "chatml").read_text())
    (folder / "plain").write_text((folder / "chatml").read_text())
    for path in ("./chatml", "own.jinja", "plain"):
        prepare(folder, path)
        assert config(folder / "corpus") == (folder / "chatml").read_text()


@pytest.mark.parametrize("given, message", [
    ("chatml2", "`chatml2` is neither a file nor a template; did you mean `chatml`? trireme help templates lists them"),
    ("llama-3", "did you mean `llama3`?"),
    ("xyzzy-plugh", "`xyzzy-plugh` is neither a file nor a template; trireme help templates lists them"),
    ("./chatml", "cannot open ./chatml"),
    ("chatml.jinja", "cannot open chatml.jinja"),
])
def test_unknown_names(folder, given, message):
    assert message in prepare(folder, given, code=4)


def test_a_site_has_templates_of_its_own(folder):
    (folder / "site/templates").mkdir(parents=True)
    (folder / "site/templates/ours.jinja").write_text("{#- Our models -#}\n{% for m in messages %}{{ m.content }}{% endfor %}")
    environment = dict(os.environ, TRIREME_CONFIGS=str(folder / "site"))
    said = trireme("help", "templates", env=environment).stdout
    assert "  ours         Our models\n" in said and "  chatml  " in said
    trireme("prepare", "--chat", "--tokenizer", "bytes", "--chat-template", "ours", "--out", "corpus", "chat.jsonl", cwd=folder, env=environment)


def test_help_lists_them():
    said = trireme("help", "templates").stdout
    lines = [line.split(maxsplit=1) for line in said.splitlines() if line.startswith("  ")]
    assert [line[0] for line in lines] == NAMES and all(len(line) == 2 and "{" not in line[1] for line in lines)
    assert trireme("complete", "prepare", "--chat-template", "qwen").stdout.split("\n")[:2] == ["qwen2.5", "qwen3"]


def test_a_run_file_names_the_option(folder):
    (folder / "run.yaml").write_text("chat_template: chatml\n")
    assert "trireme prepare --chat --chat-template NAME" in trireme("train", "run.yaml", cwd=folder, code=3).stderr


# ---- tokens --------------------------------------------------------------------------------------------------------


def test_markers_that_are_not_tokens(folder):
    assert "template chatml: not single tokens of the tokenizer: <|im_start|> <|im_end|>;" in prepare(folder, "chatml")
    half = make_tokenizer(folder / "half", "<|im_end|>", eos_token="<|im_end|>")
    said = prepare(folder, "chatml", half)
    assert "not single tokens of the tokenizer: <|im_start|>;" in said and "answers end with" not in said
    whole = make_tokenizer(folder / "whole", "<|endoftext|>", "<|im_start|>", "<|im_end|>", eos_token="<|endoftext|>")
    said = prepare(folder, "chatml", whole)
    assert "not single tokens" not in said and "template chatml: answers end with <|im_end|>, which is not among the tokens that end a text" in said
    (whole / "generation_config.json").write_text('{"eos_token_id": [256, 258]}')
    assert "warning" not in prepare(folder, "chatml", whole)
    assert "warning" not in prepare(folder, "vicuna", whole)  # ends with eos_token
    (whole / "file.jinja").write_text((FOLDER / "chatml.jinja").read_text())
    assert "warning" not in prepare(folder, whole / "file.jinja")  # a file is the user's own


def test_a_tokenizer_without_an_end(folder):
    assert "the template alpaca ends answers with eos_token, which the tokenizer does not have" in prepare(folder, "alpaca")


# ---- from corpus to export -----------------------------------------------------------------------------------------


MODEL = dict(family="llama", num_layers=1, hidden_size=32, num_heads=2, ffn_size=64, vocab_size=259, max_sequence=128)


def train(folder, output, **more):
    run = dict(output=output, optimizer=dict(global_batch=4, steps=2, lr=1e-3), data=dict(train="corpus/train", sequence=64), **more)
    (folder / "run.yaml").write_text(json.dumps(run))
    return trireme("train", "run.yaml", cwd=folder)


def test_it_is_kept(folder):
    """In the corpus' folder, with checkpoints and in exports, which render it without being given it."""
    tokenizer = make_tokenizer(folder / "tokenizer", "<|endoftext|>", "<|im_start|>", "<|im_end|>", eos_token="<|endoftext|>")
    prepare(folder, "chatml", tokenizer)
    train(folder, "run", model=MODEL)
    trireme("export", "run", "exported", cwd=folder)
    wanted = config(folder / "corpus")
    assert wanted == (FOLDER / "chatml.jinja").read_text().removesuffix("\n")
    places = [path for path in (folder / "run").rglob("*") if path.name in ("chat_template.jinja", "tokenizer_config.json")]
    assert places and all(config(path.parent) == wanted for path in [*places, folder / "exported/config.json"])
    said = trireme("generate", "exported", "--chat", "--prompt", "What is 1?", "--tokens", 1, "--json", cwd=folder).stdout
    assert json.loads(said)["prompt"] == "<|im_start|>user\nWhat is 1?<|im_end|>\n<|im_start|>assistant\n"
    said = trireme("generate", "exported", "--chat", "--prompt", "Hi", "--chat-template", "llama3", "--tokens", 1, "--json", cwd=folder)
    assert json.loads(said.stdout)["prompt"].startswith("<|start_header_id|>user") and "template llama3: not single tokens" in said.stderr
    ends = json.loads((folder / "exported/generation_config.json").read_text())["eos_token_id"]
    assert 258 in ends  # <|im_end|>, with which the template ends an answer


def test_it_goes_before_the_template_of_the_first_model(folder):
    """A model that is tuned with a template by its name has this one then, and not that of the folder it began with."""
    tokenizer = make_tokenizer(folder / "tokenizer", "<|endoftext|>", "<|im_start|>", "<|im_end|>", eos_token="<|endoftext|>")
    prepare(folder, "chatml", tokenizer)
    train(folder, "base", model=MODEL)
    trireme("export", "base", "first", cwd=folder)
    (folder / "first/chat_template.jinja").write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
    (folder / "first/generation_config.json").write_text('{"eos_token_id": 256}')
    prepare(folder, "phi4", folder / "first")
    assert "checkpoints have the chat template of the corpus, not that of" in train(folder, "run", init=str(folder / "first")).stderr
    trireme("export", "run", "tuned", cwd=folder)
    assert config(folder / "tuned") == config(folder / "corpus") == (FOLDER / "phi4.jinja").read_text().removesuffix("\n")


def test_serve(folder):
    prepare(folder, "chatml")
    train(folder, "run", model=MODEL | dict(vocab_size=257))
    assert "did you mean `llama2`?" in trireme("serve", "run", "--chat-template", "llama-2", cwd=folder, code=4).stderr
    with Server(folder / "run", "--chat-template", "llama3") as server:
        body = dict(messages=[dict(role="user", content="Hi")], model="run")
        prompt = server.json("/detokenize", dict(tokens=server.json("/tokenize", body)["tokens"]))["prompt"]
    assert prompt == "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"

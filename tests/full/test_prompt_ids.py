"""Ids of the prompts of objective grpo beside transformers' apply_chat_template(add_generation_prompt=True, tokenize=True), for the chat templates that TRL ships; and
of prompts that are texts beside the tokenizer's call. Both tokenizers put a token in front of a text, which a template's output must not get."""
import glob
import json
import os
import random
import re
import subprocess

import pytest

transformers = pytest.importorskip("transformers")
trl = pytest.importorskip("trl")

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

TOOL = os.path.join(os.environ["TRIREME_TOOLS"], "prompt_tool")
FOLDER = os.path.join(os.path.dirname(trl.__file__), "chat_templates")
TEMPLATES = {os.path.basename(path)[:-6]: open(path, encoding="utf-8").read() for path in sorted(glob.glob(FOLDER + "/*.jinja")) if not path.endswith("_training.jinja")}
BEGIN, END = "<|begin_of_text|>", "<|im_end|>"
SPECIAL = [BEGIN, END, *sorted(set(re.findall(r"<[|｜][^<>\s]{1,30}[|｜]>|<(?:start|end)_of_turn>|</?think>", "".join(TEMPLATES.values()))) - {BEGIN, END})]
WORDS = ["hello", " twelve", "  ", "\n\nx\n", "ünïcödé", "日本語", "😀👩‍🚀", "e\u0301", "\u1100\u1161", "<think>a</think>b", END, BEGIN, "[INST]", "'q\"", "{{x}}", "\u2028", "34+1=", "½"]
PARTS = {"idefics3", "llava_next", "smolvlm"}  # templates that print no content which is a string
SETS = [{}, dict(enable_thinking=False), dict(enable_thinking=True, reasoning_effort="low", date_string="26 Jul 2024")]


def text(draw):
    return draw.choice(["", " "]).join(draw.choice(WORDS) for _ in range(draw.randint(1, 5)))


def conversation(draw):
    """One that ends with a question, or now and then with an answer; half of them have texts as parts, as templates for images need them."""
    messages = [dict(role="system", content=text(draw))] if draw.random() < 0.4 else []
    for _ in range(draw.randint(0, 3)):
        messages += [dict(role="user", content=text(draw)), dict(role="assistant", content=text(draw) + ".")]
    messages.append(dict(role="user", content=text(draw)))
    if draw.random() < 0.5:
        messages = [dict(one, content=[dict(type="text", text=one["content"])]) for one in messages]
    return messages[:-1] if len(messages) > 2 and draw.random() < 0.1 else messages


def byte_level(texts):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=700, special_tokens=SPECIAL, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    return tokenizer


def of_sentencepiece(texts):
    """As those of Llama 2 and Gemma: spaces are a letter, and unknown ones are bytes."""
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    bytes_of_text = [f"<0x{byte:02X}>" for byte in range(256)]
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=900, special_tokens=["<unk>", *SPECIAL, *bytes_of_text], limit_alphabet=60, show_progress=False))
    made = json.loads(tokenizer.to_str())
    made["added_tokens"] = [token for token in made["added_tokens"] if token["content"] not in bytes_of_text]
    return Tokenizer.from_str(json.dumps(made))


@pytest.fixture(scope="module", params=[byte_level, of_sentencepiece], ids=lambda make: make.__name__)
def tokenizer(request):
    draw = random.Random(7)
    made = request.param([text(draw) for _ in range(2000)])
    made.post_processor = processors.TemplateProcessing(single=f"{BEGIN} $A", pair=f"{BEGIN} $A {BEGIN} $B", special_tokens=[(BEGIN, made.token_to_id(BEGIN))])
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, bos_token=BEGIN, eos_token=END)


def word_of(name, value):
    """As data.chat_set has it."""
    return f"{name}={value if isinstance(value, str) else json.dumps(value)}"


def read(folder, prompts, variables=()):
    """Returns what the program makes of prompts: a dict for each, or the message that refuses them."""
    with open(folder / "prompts.jsonl", "w", encoding="utf-8") as file:
        file.write("".join(json.dumps(dict(prompt=prompt, answer="x")) + "\n" for prompt in prompts))
    done = subprocess.run([TOOL, folder / "model", folder / "prompts.jsonl", *variables], capture_output=True, text=True, encoding="utf-8")
    return [json.loads(line) for line in done.stdout.split("\n")[:-1]] if done.returncode == 0 else done.stderr


@pytest.mark.parametrize("name", TEMPLATES)
def test_messages(name, tokenizer, tmp_path):
    draw = random.Random(name)
    tokenizer.chat_template = TEMPLATES[name]
    tokenizer.save_pretrained(tmp_path / "model")
    given = [conversation(draw) for _ in range(12)]
    rendered = 0
    for variables in SETS:
        ids, refused = [], []
        for messages in given:
            try:
                ids.append((messages, tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=True, return_dict=False, **variables)))
            except Exception:
                refused.append(messages)
        words = [word_of(*one) for one in variables.items()]
        found = read(tmp_path, [messages for messages, _ in ids], words) if ids else []
        assert not isinstance(found, str), found
        assert [one["line"] for one in found] == list(range(1, len(ids) + 1))
        for (messages, wanted), one in zip(ids, found, strict=True):
            assert one["ids"] == wanted, (messages, one["text"])
        for messages in refused[:1]:
            assert "line 1" in read(tmp_path, [messages], words)
        rendered += len(ids)
    assert rendered > 0


def test_texts(tokenizer, tmp_path):
    """A prompt that is a text has the token that begins a text, once, also if it has that token itself (docs/generating.md); special tokens in it are tokens."""
    draw = random.Random(3)
    tokenizer.save_pretrained(tmp_path / "model")
    texts = [text(draw) for _ in range(100)]
    found = read(tmp_path, texts)
    for given, one in zip(texts, found, strict=True):
        assert one["ids"] == tokenizer(given)["input_ids"][given.startswith(BEGIN):] and one["ids"][0] == tokenizer.bos_token_id, given
        assert one["text"] == given and one["answer"] == "x"


def test_prompts_of_a_run(tokenizer, tmp_path):
    """A run reads prompts as the tool does: with data.chat_set, rollouts.jsonl has the texts that transformers renders, and a prompt that does not fit is refused with its number of tokens."""
    draw = random.Random(5)
    tokenizer.chat_template = TEMPLATES["qwen3"]
    tokenizer.save_pretrained(tmp_path / "model")
    given = [one for one in (conversation(draw) for _ in range(30)) if isinstance(one[0]["content"], str)][:8]
    (tmp_path / "prompts.jsonl").write_text("".join(json.dumps(dict(prompt=messages)) + "\n" for messages in given))
    ids = [tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=True, return_dict=False, enable_thinking=False) for messages in given]
    run = dict(model=dict(family="llama", num_layers=1, hidden_size=8, num_heads=1, num_kv_heads=1, ffn_size=8, vocab_size=len(tokenizer), max_sequence=512),
               data=dict(prompts=str(tmp_path / "prompts.jsonl"), tokenizer=str(tmp_path / "model"), chat_set=["enable_thinking=false"]), objective=dict(name="grpo"),
               rollout=dict(prompts=len(given), num_generations=2, max_completion_length=2, log=len(given)), reward=[dict(name="regex", pattern="a")],
               optimizer=dict(steps=1, lr=1e-3), precision="fp32", device="cpu", threads=1, evaluation=dict(every=0), checkpoint=dict(every=0), output=str(tmp_path / "run"))
    (tmp_path / "run.yaml").write_text(json.dumps(run))
    words = [os.environ["TRIREME"], "train", tmp_path / "run.yaml", "--set"]
    done = subprocess.run([*words, f"data.sequence={len(ids[0])}"], capture_output=True, text=True)
    assert done.returncode == 4 and f"line 1: `prompt` has {len(ids[0])} tokens, and {len(ids[0]) - 1} fit" in done.stderr, done.stderr
    done = subprocess.run([*words, f"data.sequence={max(map(len, ids)) + 1}"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rollouts = [json.loads(line) for line in (tmp_path / "run/rollouts.jsonl").read_text(encoding="utf-8").split("\n")[:-1]]
    assert {line["line"] for line in rollouts} == set(range(1, len(given) + 1))
    for line in rollouts:
        assert line["prompt"] == tokenizer.apply_chat_template(given[line["line"] - 1], add_generation_prompt=True, tokenize=False, enable_thinking=False)


def turn_end_of(tokenizer):
    """Returns the tokens that a template prints after an answer, whether or not a question follows; else all after the last answer; else those before the next question."""
    messages = [dict(role=role, content=content) for role, content in (("user", "Hello"), ("assistant", "Answer"), ("user", "Question"))]
    try:
        texts = [tokenizer.apply_chat_template(messages[:count], tokenize=False) for count in (2, 3)]
    except Exception:
        return ""
    if "Answer" not in texts[0]:  # a template for parts alone
        return ""
    last, followed = texts[0].rpartition("Answer")[2], texts[1].rpartition("Answer")[2].partition("Question")[0]
    both = "".join(token for token in re.findall(r"<[^<>\s]+>|[^<]+|<", last) if followed.startswith(last[:last.index(token) + len(token)]))
    return both.rstrip() or last.rstrip() or followed.rstrip()


@pytest.mark.parametrize("name", TEMPLATES)
def test_end_of_a_turn(name, tokenizer, tmp_path):
    """The text that ends a completion."""
    tokenizer.chat_template = TEMPLATES[name]
    tokenizer.save_pretrained(tmp_path / "model")
    found = read(tmp_path, [[dict(role="user", content=[dict(type="text", text="a")] if name in PARTS else "a")]])
    assert found[0]["turn_end"] == turn_end_of(tokenizer)
    assert found[0]["turn_end"] != "" or name in PARTS

"""Published chat templates (those that TRL ships) on 200 conversations with odd roles beside transformers' rendering, and
the masks of `prepare --chat` beside return_assistant_tokens_mask."""
import glob
import json
import os
import random
import subprocess

import numpy
import pytest

transformers = pytest.importorskip("transformers")
trl = pytest.importorskip("trl")

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers.utils.chat_template_utils import _compile_jinja_template

TRIREME = os.environ["TRIREME"]
TOOL = os.path.join(os.environ["TRIREME_TOOLS"], "chat_tool")
TEMPLATES = sorted(glob.glob(os.path.join(os.path.dirname(trl.__file__), "chat_templates", "*.jinja")))
MARKED = ["llama3_training", "qwen2_5_training", "qwen3_training", "phi3_5_training"]
WORDS = ["hello", "  lead", "trail  ", "\n\nx\n", "ünïcödé", "日本語", "😀", "", "<think>a</think>b", "[INST]", "<|im_end|>", "'q\"", "e\u0301x",
         "\u1100\u1161", "{{x}}", "\u2028", "0"]


def text(draw):
    return draw.choice(["", " "]).join(draw.choice(WORDS) for _ in range(draw.randint(0, 5)))


def odd_conversation(draw):
    messages = []
    for _ in range(draw.randint(0, 6)):
        content = draw.choice([text(draw), text(draw), [{"type": "text", "text": text(draw)}], None])
        messages.append(dict(role=draw.choice(["system", "user", "assistant", "tool", "odd"]), content=content))
        if messages[-1]["role"] == "assistant" and draw.random() < 0.3:
            messages[-1]["tool_calls"] = [dict(type="function", function=dict(name="f", arguments=dict(a=1, b=[None, 1.5])))]
    return messages


def usual_conversation(draw):
    messages = [dict(role="system", content=text(draw))] if draw.random() < 0.3 else []
    for _ in range(draw.randint(1, 4)):
        messages += [dict(role="user", content=text(draw)), dict(role="assistant", content=text(draw) + ".")]
    return messages


@pytest.mark.parametrize("path", TEMPLATES, ids=os.path.basename)
def test_rendering(path):
    draw = random.Random(os.path.basename(path))
    given = [dict(messages=draw.choice([odd_conversation, usual_conversation])(draw), tools=draw.choice([None, None, [dict(name="f")]]),
                  add_generation_prompt=draw.random() < 0.5, bos_token="<s>", eos_token="</s>") for _ in range(200)]
    with open(path, encoding="utf-8") as file:
        template = _compile_jinja_template(file.read())
    done = subprocess.run([TOOL, path], input="".join(json.dumps(g) + "\n" for g in given), capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    rendered = 0
    for one, answer in zip(given, done.stdout.split("\n")):
        answer = json.loads(answer)
        try:
            wanted = template.render(**one)
        except Exception:
            assert "error" in answer, one
            continue
        assert answer.get("text") == wanted, (one, answer)
        rendered += 1
    assert rendered > 0


@pytest.mark.parametrize("nfc", [False, True])
@pytest.mark.parametrize("name", MARKED)
def test_masks(name, nfc, tmp_path):
    draw = random.Random(name)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    if nfc:
        tokenizer.normalizer = normalizers.NFC()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|eot_id|>", "<|end|>", "<|user|>", "<|assistant|>"]
    tokenizer.train_from_iterator([text(draw) for _ in range(3000)], trainers.BpeTrainer(
        vocab_size=600, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    theirs = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", bos_token="<|endoftext|>")
    with open(os.path.join(os.path.dirname(TEMPLATES[0]), name + ".jinja"), encoding="utf-8") as file:
        theirs.chat_template = file.read()
    theirs.save_pretrained(tmp_path / "model")
    conversations = [usual_conversation(draw) for _ in range(200)]
    (tmp_path / "c.jsonl").write_text("".join(json.dumps(dict(messages=c)) + "\n" for c in conversations))
    done = subprocess.run([TRIREME, "prepare", "--chat", "--tokenizer", tmp_path / "model", "--out", tmp_path / "out", "--validation", "0",
                           tmp_path / "c.jsonl"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    ids = numpy.fromfile(tmp_path / "out/train.bin", numpy.uint16)
    mask = numpy.fromfile(tmp_path / "out/train.mask", numpy.uint8)
    at = 0
    for conversation in conversations:
        wanted = theirs.apply_chat_template(conversation, tokenize=True, return_dict=True, return_assistant_tokens_mask=True)
        end = at + len(wanted["input_ids"])
        assert ids[at:end].tolist() == wanted["input_ids"], conversation
        assert mask[at:end].tolist() == wanted["assistant_masks"], conversation
        at = end
    assert at == len(ids)

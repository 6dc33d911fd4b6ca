"""Makes preference_data_cases.json: what TRL's DPOTrainer and KTOTrainer make of small sets of preferences, with two small tokenizers.

make_preference_data.py OUT, in an environment with trl, transformers and datasets.
"""
import json
import os
import sys
import tempfile
import types

import accelerate
import datasets
import transformers
import trl
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from trl.data_utils import maybe_extract_prompt

WORDS = ("What colour is the sky? It is blue, or grey when it rains. Say hello world, wörld and naïve 日本語. The answer is: 42, not 43.\n\n"
         "def add(a, b):\n    return a + b\n") * 20
TEMPLATES = {
    "turns": "{% for m in messages %}{{ '<|' + m.role + '|>\n' + m.content + '<|end|>\n' }}{% endfor %}"
             "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}",
    "begins": "{{ bos_token }}{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}{% if m.role == 'assistant' %}"
              "{{ ' ' + m.content | trim + eos_token }}{% else %}{{ '[' + m.role + '] ' + m.content | trim + ' [/' + m.role + ']' }}"
              "{% endif %}{% endfor %}",
}
TEXTS = [
    ("What colour is the sky?", " It is blue.", " It is green."),
    ("What colour is the sky? ", "It is blue.\n", "\nIt is grey"),
    ("Say hello wor", "ld", "m and worms"),  # one token over the answer's beginning
    ("The answer is: 4", "2", "3</s>"),  # and an answer that ends already
    ("", "hello", "world"),
    ("Say </s> and <s>", " and </s> again", "日本語"),
    ("naïve wörld: ", "日本", "日語 é"),
    ("def add(a, b):\n", "    return a + b\n", "  return a\n\n\n"),
]
TALKS = [
    ([("user", "What colour is the sky?")], [("assistant", "It is blue.")], [("assistant", "It is green.")]),
    ([("system", "Be short."), ("user", " Say hello\n")], [("assistant", "\nhello ")], [("assistant", "hello world")]),
    ([("user", "hello"), ("assistant", "world"), ("user", "4 + 2?")], [("assistant", "</s>42")], [("assistant", "日本語\n\n")]),
    ([("user", "a")], [("assistant", "b"), ("user", "c?"), ("assistant", "d")], [("assistant", "b"), ("user", "c?"), ("assistant", "e")]),
]
TOOLS = json.dumps([{"type": "function", "function": {"name": "add", "parameters": {"a": 1}}}])


def said(turns):
    return [dict(role=role, content=content) for role, content in turns]


def sets():
    """Records of each form; those of one set are alike, since TRL looks at the first."""
    yield "text", [dict(prompt=p, chosen=c, rejected=r) for p, c, r in TEXTS]
    yield "text that begins alike", [dict(chosen=p + c, rejected=p + r) for p, c, r in TEXTS if p] + [
        dict(chosen="blue", rejected="blue sky"), dict(chosen="It is 日本", rejected="It is 日語"), dict(chosen="It is é", rejected="It is ê")]
    yield "text with labels", [dict(prompt=p, completion=(c, r)[i % 2], label=i % 2 == 0) for i, (p, c, r) in enumerate(TEXTS)]
    yield "messages", [dict(prompt=said(p), chosen=said(c), rejected=said(r)) for p, c, r in TALKS]
    yield "messages that begin alike", [dict(chosen=said(p + c), rejected=said(p + r)) for p, c, r in TALKS]
    yield "messages behind a prompt of text", [dict(prompt=p[0][1], chosen=said(p + c), rejected=said(p + r)) for p, c, r in TALKS if len(p) == 1]
    yield "messages with labels", [dict(prompt=said(p), completion=said((c, r)[i % 2]), label=i % 2 == 0) for i, (p, c, r) in enumerate(TALKS)]
    yield "messages with tools", [dict(prompt=said(p), chosen=said(c), rejected=said(r), tools=TOOLS) for p, c, r in TALKS]


def byte_level():
    """Without anything before a text, as GPT-2's."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    special = ["</s>", "<s>", "<|end|>", "<|user|>", "<|assistant|>", "<|system|>"]
    made.train_from_iterator([WORDS], trainers.BpeTrainer(vocab_size=340, special_tokens=special, show_progress=False,
                                                          initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return made


def of_characters():
    """A text begins with <s> and a space, as Llama 2's."""
    special = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    made = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    made.normalizer = normalizers.Replace(" ", "▁")
    made.train_from_iterator([WORDS], trainers.BpeTrainer(vocab_size=400, special_tokens=special, show_progress=False, max_token_length=8))
    made = json.loads(made.to_str())
    made["normalizer"] = dict(type="Sequence", normalizers=[dict(type="Prepend", prepend="▁"), dict(type="Replace", pattern=dict(String=" "), content="▁")])
    made["added_tokens"] = [token for token in made["added_tokens"] if token["id"] < 3]
    made["decoder"] = dict(type="Sequence", decoders=[dict(type="Replace", pattern=dict(String="▁"), content=" "), dict(type="ByteFallback"), dict(type="Fuse")])
    made = Tokenizer.from_str(json.dumps(made))
    made.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
    return made


def loaded(folder, tokenizer, template):
    with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as file:
        file.write(tokenizer)
    with open(os.path.join(folder, "tokenizer_config.json"), "w", encoding="utf-8") as file:
        json.dump(dict(tokenizer_class="PreTrainedTokenizerFast", bos_token="<s>", eos_token="</s>", chat_template=template), file)
    return transformers.AutoTokenizer.from_pretrained(folder)


def prepared(tokenizer, records):
    """The ids and masks of all documents, and their labels: by the trainers' own method."""
    given = types.SimpleNamespace(dataset_num_proc=None, max_length=None, truncation_mode="keep_start", per_device_train_batch_size=1)
    trainer = types.SimpleNamespace(_tokenizer=tokenizer, args=given, calculate_KL=False, desirable_weight=1.0, undesirable_weight=1.0)
    labelled = "label" in records[0]
    rows = datasets.Dataset.from_list([record if labelled else maybe_extract_prompt(record) | {k: v for k, v in record.items() if k == "tools"} for record in records])
    kind = trl.KTOTrainer if labelled else trl.DPOTrainer
    documents = []
    for row in kind._prepare_dataset(trainer, rows, tokenizer, given, "train"):
        for key in ("completion_ids",) if labelled else ("chosen_ids", "rejected_ids"):
            documents.append(dict(ids=row["prompt_ids"] + row[key], prompt=len(row["prompt_ids"])))
    return dict(documents=documents, labels=[int(record["label"]) for record in records] if labelled else None)


def cases():
    for name, made in (("byte-level", byte_level()), ("characters", of_characters())):
        found = []
        for template, text in TEMPLATES.items():
            with tempfile.TemporaryDirectory() as folder:
                tokenizer = loaded(folder, made.to_str(), text)
            for form, records in sets():
                if form.startswith("text") and template != "turns":
                    continue
                found.append(dict(form=form, template=template, records=records, **prepared(tokenizer, records)))
        yield dict(name=name, tokenizer=json.loads(made.to_str()), sets=found)


if __name__ == "__main__":
    accelerate.PartialState(cpu=True)
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump(dict(templates=TEMPLATES, tokenizers=list(cases())), file, ensure_ascii=True, separators=(",", ":"))
        file.write("\n")

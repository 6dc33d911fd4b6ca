"""Makes choice_cases.json: what lm-evaluation-harness makes of 200 questions, for the models of choice_models.py.

make_choice_cases.py OUT, in an environment with lm_eval, transformers and PyTorch (pip install "lm_eval[hf]").
"""
import json
import os
import pathlib
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = os.environ["HF_DATASETS_OFFLINE"] = "1"

import lm_eval  # noqa: E402
from choice_models import CONFIGS, WORDS, questions, write_lines, write_model  # noqa: E402
from lm_eval.api.task import ConfigurableTask  # noqa: E402
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers  # noqa: E402

TASK = dict(dataset_path="json", output_type="multiple_choice", test_split="test", num_fewshot=0,
            metric_list=[dict(metric=m, aggregation="mean", higher_is_better=True) for m in ("acc", "acc_norm", "acc_bytes")])
# Rows as the data sets have them, with the prompts of the harness's own tasks.
ARC = [dict(id="a", question="Which bird sings?", choices=dict(text=["the sea", "an old stone", "a small bird"], label=["A", "B", "C"]), answerKey="C"),
       dict(id="b", question="Where is the wall", choices=dict(text=["near", "cold"], label=["1", "2"]), answerKey="1")]
PIQA = [dict(goal="Watch birds", sol1="near stone walls", sol2="over the cold sea.", label=1)]
BOOLQ = [dict(passage="The ship sails over a cold sea.", question="does the ship rest", label=0, idx=3)]
HELLASWAG = [dict(activity_label="Sailing [x]", ctx_a=" The ship sails [title] over.", ctx_b="ÄPFEL near Stone",
                  endings=["sings [step] of  storms", "never  came. ", "[title] rest"], label="2", ind=4)]
FORMS = {
    "arc": (ARC, dict(doc_to_text="Question: {{question}}\nAnswer:", doc_to_target="{{choices.label.index(answerKey)}}", doc_to_choice="{{choices.text}}")),
    "piqa": (PIQA, dict(doc_to_text="Question: {{goal}}\nAnswer:", doc_to_target="label", doc_to_choice="{{[sol1, sol2]}}")),
    "boolq": (BOOLQ, dict(doc_to_text="{{passage}}\nQuestion: {{question}}?\nAnswer:", doc_to_target="label", doc_to_choice=["no", "yes"])),
    "hellaswag": (HELLASWAG, dict(doc_to_text="{{query}}", doc_to_target="{{label}}", doc_to_choice="choices")),
}


def make_tokenizers():
    """Byte-level BPE; Llama's begins every text with <s>."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=512, special_tokens=["<|endoftext|>", "<s>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  show_progress=False)
    tokenizer.train_from_iterator([" ".join(WORDS), " ".join(reversed(WORDS))] * 4, trainer)
    plain = json.loads(tokenizer.to_str())
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
    return {"gpt2": plain, "llama": json.loads(tokenizer.to_str())}


def judge(model, name, rows, folder, more):
    path = write_lines(folder / f"{name}.jsonl", rows)
    task = ConfigurableTask(config=dict(TASK, task=name, dataset_kwargs=dict(data_files=dict(test=str(path))), **more))
    result = lm_eval.simple_evaluate(model=model, tasks=[task], log_samples=True, bootstrap_iters=100, random_seed=1)
    numbers = {key.split(",")[0]: value for key, value in result["results"][name].items() if isinstance(value, float)}
    samples = sorted(result["samples"][name], key=lambda sample: sample["doc_id"])
    return dict(numbers, results=[dict(log_likelihoods=[float(r[0]) for r in sample["filtered_resps"]],
                                       **{m: sample[m] for m in ("acc", "acc_norm", "acc_bytes")}) for sample in samples])


# Parts of the text that the comparison of answers ignores.
RULES = [{}, dict(ignore_case=True), dict(ignore_punctuation=True), dict(ignore_case=True, ignore_punctuation=True, ignore_numbers=True)]
UNTIL, TOKENS = ["\n\n", " of", "er"], 12


def answer(model, rows, folder, rule, name="answers"):
    path = write_lines(folder / f"{name}.jsonl", rows)
    task = ConfigurableTask(config=dict(TASK, task=name, output_type="generate_until", doc_to_text="{{prompt}}", doc_to_target="{{answer}}",
                                        dataset_kwargs=dict(data_files=dict(test=str(path))),
                                        generation_kwargs=dict(until=list(UNTIL), max_gen_toks=TOKENS, do_sample=False),
                                        metric_list=[dict(rule, metric="exact_match", aggregation="mean", higher_is_better=True)]))
    result = lm_eval.simple_evaluate(model=model, tasks=[task], log_samples=True, bootstrap_iters=100, random_seed=1)
    samples = sorted(result["samples"][name], key=lambda sample: sample["doc_id"])
    numbers = {key.split(",")[0]: value for key, value in result["results"][name].items() if isinstance(value, float)}
    return dict(numbers, results=[dict(text=sample["filtered_resps"][0], exact_match=sample["exact_match"]) for sample in samples])


def answers(model, folder):
    """Prompts with answers that equal the model's or differ from them by a little. Leaves out texts that are not UTF-8 or contain a token without text."""
    asked = [dict(prompt=q["question"] or "x", answer="?") for q in questions(400)]
    said = [r["text"] for r in answer(model, asked, folder, {}, "first")["results"]]
    rows = []
    for i, (row, text) in enumerate(zip(asked, said)):
        if len(rows) < 40 and "\ufffd" not in text and text.strip() == text.strip("\x00") and "<" not in text and text:
            rows.append(dict(row, answer=(text, text.upper(), text + "!", f"7{text.swapcase()}'", text + "x", text[:-1] or "x")[len(rows) % 6]))
    return dict(rows=rows, runs=[dict(rule=rule, **answer(model, rows, folder, rule, f"answers{i}")) for i, rule in enumerate(RULES)])


def main(out):
    tokenizers, cases = make_tokenizers(), {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        for family in CONFIGS:
            path = write_model(folder / family, family, tokenizers[family])
            model = lm_eval.api.registry.get_model("hf")(pretrained=str(path), device="cpu", dtype="float32", batch_size=8)
            plain = dict(doc_to_text="{{question}}", doc_to_target="{{answer}}", doc_to_choice="{{choices}}")
            cases[family] = dict(questions=judge(model, "questions", list(questions()), folder, dict(plain)))
            cases[family]["answers"] = answers(model, folder)
            for name, (rows, more) in FORMS.items():
                if name == "hellaswag":
                    from lm_eval.tasks.hellaswag.utils import process_docs
                    more = dict(more, process_docs=process_docs)
                cases[family][name] = judge(model, name, rows, folder, more)
    with open(out, "w", encoding="utf-8") as file:
        json.dump(dict(tokenizers=tokenizers, forms={name: rows for name, (rows, _) in FORMS.items()}, cases=cases, until=UNTIL, tokens=TOKENS), file, ensure_ascii=True)
        file.write("\n")


if __name__ == "__main__":
    main(sys.argv[1])

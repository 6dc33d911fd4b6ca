"""lm-evaluation-harness asks `trireme serve` (its models local-completions), and gets what `eval --choices`, `eval --answers` and transformers
find for the same questions."""
import json
import os
import pathlib
import sys

os.environ["HF_HUB_OFFLINE"] = os.environ["HF_DATASETS_OFFLINE"] = "1"

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
lm_eval = pytest.importorskip("lm_eval")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "oracle"))

import lm_eval.api.registry  # noqa: E402
import lm_eval.api.task  # noqa: E402
from choice_models import CONFIGS, questions, write_lines, write_model  # noqa: E402
from parity import trireme  # noqa: E402
from serving import Server, make_model  # noqa: E402

STORED = json.loads((pathlib.Path(__file__).resolve().parents[1] / "oracle/choice_cases.json").read_text(encoding="utf-8"))
UNTIL, TOKENS = [" of", "er"], 12


def task_of(name, path, **more):
    return lm_eval.api.task.ConfigurableTask(config=dict(task=name, dataset_path="json", test_split="test", num_fewshot=0, dataset_kwargs=dict(data_files=dict(test=str(path))), **more))


def samples(server, folder, tokenizer, task, name, **more):
    model = lm_eval.api.registry.get_model("local-completions")(
        model=server.name, base_url=f"http://127.0.0.1:{server.port}/v1/completions", tokenizer_backend=tokenizer, tokenizer=str(folder),
        max_length=server.positions - 3, **more)
    result = lm_eval.simple_evaluate(model=model, tasks=[task], log_samples=True, bootstrap_iters=0, random_seed=1)
    return sorted(result["samples"][name], key=lambda sample: sample["doc_id"]), result["results"][name]


def is_greedy(model, ids, context):
    """Whether each token after the context is the likeliest one."""
    with torch.no_grad():
        likeliest = model(torch.tensor([ids])).logits[0].argmax(-1)
    return likeliest[context - 1:-1].tolist() == ids[context:]


@pytest.fixture(scope="module", params=[*sorted(CONFIGS), "trained"])
def served(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / request.param
    if request.param == "trained":
        trireme("export", make_model(folder.parent), folder)
    else:
        write_model(folder, request.param, STORED["tokenizers"][request.param])
    with Server(folder, "--no-token") as server:
        server.name, server.positions = request.param, server.json("/v1/models")["data"][0]["max_model_len"]
        yield server, folder


@pytest.mark.parametrize("tokenizer,batch", [("huggingface", 1), ("huggingface", 8), ("remote", 4)])
def test_choices(served, tmp_path, tokenizer, batch):
    server, folder = served
    begins = server.name == "llama"  # its tokenizer begins each text with a token
    asked = [q for q in questions() if q["question"].strip() and len(q["question"]) + max(map(len, q["choices"])) < 90]
    if server.name == "trained":  # it has learnt "line 3 of some text"
        asked = [dict(question=f"line {i} of", choices=["some", "s", "o", "t", "some text"], answer=i % 3) for i in range(101)]
    path = write_lines(tmp_path / "questions.jsonl", asked)
    task = task_of("questions", path, output_type="multiple_choice", doc_to_text="{{question}}", doc_to_target="{{answer}}", doc_to_choice="{{choices}}",
                   metric_list=[dict(metric=m, aggregation="mean", higher_is_better=True) for m in ("acc", "acc_norm")])
    found, numbers = samples(server, folder, tokenizer, task, "questions", batch_size=batch, num_concurrent=8, add_bos_token=begins)
    wanted = json.loads(trireme("eval", folder, "--choices", path, "--json").stdout)
    assert numbers["acc,none"] == pytest.approx(wanted["acc"]) and numbers["acc_norm,none"] == pytest.approx(wanted["acc_norm"])
    assert len(found) > 100 and wanted["shortened"] == 0
    model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    tokens = transformers.AutoTokenizer.from_pretrained(folder)
    greedy = 0
    for sample, other in zip(found, wanted["results"], strict=True):
        assert [float(response[0][0]) for response in sample["resps"]] == pytest.approx(other["log_likelihoods"], abs=1e-5)
        for response, arguments in zip(sample["resps"], sample["arguments"]):
            context, whole = (tokens(text, add_special_tokens=begins)["input_ids"] for text in (arguments[0].rstrip(), "".join(arguments)))
            assert (str(response[0][1]) == "True") == is_greedy(model, whole, len(context))
            greedy += str(response[0][1]) == "True"
    assert server.name != "trained" or greedy > 0


def test_answers(served, tmp_path):
    server, folder = served
    asked = [dict(prompt=q["question"], answer="?") for q in questions(120) if q["question"].strip() and len(q["question"]) < 70]
    path = write_lines(tmp_path / "answers.jsonl", asked)
    task = task_of("answers", path, output_type="generate_until", doc_to_text="{{prompt}}", doc_to_target="{{answer}}",
                   generation_kwargs=dict(until=UNTIL, max_gen_toks=TOKENS, do_sample=False, temperature=0),
                   metric_list=[dict(metric="exact_match", aggregation="mean", higher_is_better=True)])
    found, _ = samples(server, folder, "huggingface", task, "answers", batch_size=1, num_concurrent=8, add_bos_token=server.name == "llama")
    words = [word for until in UNTIL for word in ("--until", until)]
    wanted = json.loads(trireme("eval", folder, "--answers", path, "--tokens", TOKENS, *words, "--json").stdout)
    texts = [(sample["resps"][0][0], result["text"]) for sample, result in zip(found, wanted["results"], strict=True)]
    same = [one == other for one, other in texts if other is not None]  # null: not UTF-8
    assert len(same) > 5 and all(same)

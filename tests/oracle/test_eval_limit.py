"""`eval --limit N`: the first N sequences of a corpus, as PyTorch predicts them; the first N questions of a file."""
import json
import math

import models
import numpy
import pytest
import torch
from parity import trireme
from safetensors.torch import load_file
from test_eval_ranks import EXACT, MODELS, made  # noqa: F401 (a fixture)

SEQUENCE = 32


def evaluate(*words, **more):
    done = trireme("eval", *words, *EXACT, **more)
    return json.loads(done.stdout), done.stderr


def loss_of(folder, ids, count):
    """Loss of the first windows in PyTorch."""
    tensors = {f"transformer.{name.removeprefix('transformer.')}": tensor.double() for name, tensor in load_file(str(folder / "model.safetensors")).items()}
    rows = torch.tensor([ids[i * SEQUENCE:(i + 1) * SEQUENCE + 1] for i in range(count)])
    logits = models.logits(dict(MODELS["gpt2"], norm_eps=1e-5), tensors, rows[:, :-1])
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten()).item()


def test_sequences(made):  # noqa: F811
    corpus = made / "corpus/train"
    ids = numpy.fromfile(f"{corpus}.bin", dtype="<u2").astype(int).tolist()
    windows = -(-(len(ids) - 1) // SEQUENCE)
    for count in (1, 3, 6):  # a batch is 4 windows
        facts, said = evaluate(made / "gpt2", corpus, "--limit", count)
        assert math.isclose(facts["loss"], loss_of(made / "model", ids, count), rel_tol=1e-10)
        assert facts["tokens"] == count * SEQUENCE and facts["limit"] == count
        ends = ids[1:count * SEQUENCE + 1].count(256)  # the end of the text has no bytes
        assert facts["bytes"] == count * SEQUENCE - ends
        assert f"the first {count} of the {windows} sequences of {corpus} (--limit)" in said
        assert evaluate(made / "gpt2", corpus, "--limit", count, "-n", 2)[0] == facts
    both, said = evaluate(made / "gpt2", made / "gpt2", corpus, "--limit", 3)
    assert math.isclose(both["loss"], loss_of(made / "model", ids, 3), rel_tol=1e-10) and said.count("(--limit)") == 1
    whole, said = evaluate(made / "gpt2", corpus, "--limit", windows)
    assert whole == evaluate(made / "gpt2", corpus)[0] and "--limit" not in said and "limit" not in whole
    assert evaluate(made / "gpt2", corpus, "--limit", 10**15)[0] == whole


def test_preferences(made):  # noqa: F811
    whole = evaluate(made / "gpt2", made / "pairs/train")[0]
    some = evaluate(made / "gpt2", made / "pairs/train", "--limit", 1)[0]
    assert 0 < some["pairs"] < whole["pairs"] and some["limit"] == 1 and "limit" not in whole
    assert evaluate(made / "gpt2", made / "pairs/train", "--limit", 999)[0] == whole


def test_questions(made, tmp_path):  # noqa: F811
    lines = [dict(context=f"the {word}", choices=[" oar", " sea", " ship"], answer=i % 3) for i, word in enumerate("rower captain wind sail".split())]
    asked = [dict(prompt=f"{line['context']}:", answer="x") for line in lines]
    for name, records, way in (("choices", lines, ["--choices"]), ("answers", asked, ["--tokens", 4, "--answers"])):
        for kind, text in (("lines", "\n\n".join(map(json.dumps, records))), ("array", json.dumps(records))):
            (tmp_path / f"{name}-{kind}.json").write_text(text)
            (tmp_path / "first.json").write_text("\n".join(map(json.dumps, records[:2])))
            first = evaluate(made / "gpt2", *way, tmp_path / "first.json")[0]["results"]
            some = evaluate(made / "gpt2", *way, tmp_path / f"{name}-{kind}.json", "--limit", 2)[0]["results"]
            assert [{**r, "line": 0} for r in some] == [{**r, "line": 0} for r in first] and len(some) == 2
            assert len(evaluate(made / "gpt2", *way, tmp_path / f"{name}-{kind}.json", "--limit", 9)[0]["results"]) == 4


@pytest.mark.parametrize("limit", ["0", "-1", "1.5", "all", ""])
def test_refusals(made, limit):  # noqa: F811
    done = trireme("eval", made / "gpt2", made / "corpus/train", "--limit", limit, status=2)
    assert "--limit" in done.stderr

"""math-verify as a reward's command: its verdicts on a run's completions, which are drawn from ways to write numbers, fractions, roots and sets, are those of a direct call."""
import json
import os
import shlex
import sys

import pytest

math_verify = pytest.importorskip("math_verify")
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "oracle"))

from optimizer_runs import lines_of  # noqa: E402
from parity import trireme, yaml_of  # noqa: E402
from tokenizers import Tokenizer, decoders, models  # noqa: E402

# Tokens, each of them a text that a completion may have.
PIECES = ["\\boxed{1/2}", "\\boxed{0.5}", "$\\frac{1}{2}$", "50\\%", "The answer is $\\frac{2}{4}$.", "$\\sqrt{8}$", "\\boxed{2\\sqrt{2}}", "$2^{3/2}$", "\\boxed{\\{1, 2\\}}", "$\\{2,1\\}$",
          "\\boxed{x^2+2x+1}", "$(x+1)^2$", "\\boxed{(1,2)}", "$1,024$", "1024", " = ", "\\boxed{", "}", "ünïcödé", "\n\n", "so ", "\\boxed{\\text{None}}"]
GOLDS = ["$\\frac{1}{2}$", "$2\\sqrt{2}$", "$\\{1,2\\}$", "$(x+1)^2$", "1024", "$(1,2)$"]
REWARD = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", "examples", "reinforcement", "grade_math.py"))


def write_tokenizer(folder):
    tokenizer = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate(["<unk>", *"0123456789? "])}, merges=[], unk_token="<unk>"))
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens(["</s>"])
    tokenizer.add_tokens(PIECES)
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(dict(eos_token="</s>")))
    return folder, tokenizer.get_vocab_size()


def test_verdicts(tmp_path):
    folder, size = write_tokenizer(tmp_path / "tokenizer")
    prompts = [dict(prompt=f"{i}? ", answer=gold) for i, gold in enumerate([*GOLDS, "."])]
    (tmp_path / "prompts.jsonl").write_text("".join(json.dumps(line) + "\n" for line in prompts))
    model = dict(family="llama", num_layers=1, hidden_size=16, num_heads=2, num_kv_heads=1, ffn_size=24, vocab_size=size, max_sequence=16)
    run = dict(model=model, data=dict(prompts=str(tmp_path / "prompts.jsonl"), tokenizer=str(folder), sequence=16), objective=dict(name="grpo"),
               rollout=dict(prompts=len(prompts), num_generations=16, max_completion_length=2, log=len(prompts)),
               reward=[dict(command=f"{shlex.quote(sys.executable)} {shlex.quote(REWARD)}", workers=2)],
               optimizer=dict(steps=2, lr=1e-3), layout=dict(micro_batch=32), precision="fp32", device="cpu", threads=1, seed=3, evaluation=dict(every=0), checkpoint=dict(every=0), output=str(tmp_path / "run"))
    (tmp_path / "run.yaml").write_text(yaml_of(run))
    trireme("train", tmp_path / "run.yaml")
    rollouts, right = [json.loads(line) for line in (tmp_path / "run/rollouts.jsonl").read_text(encoding="utf-8").splitlines()], {}
    assert len(rollouts) == 2 * 16 * len(prompts)
    for line in rollouts:
        answer = prompts[line["line"] - 1]["answer"]
        gold = math_verify.parse(answer)
        assert line["reward"] == (float(math_verify.verify(gold, math_verify.parse(line["completion"]))) if gold else None), (answer, line["completion"])
        if line["reward"]:
            right.setdefault(answer, set()).add(line["completion"])
    assert len(right) >= 4 and sum(map(len, right.values())) >= 12, right
    assert sum(line["reward"] == 0 for line in rollouts) > len(rollouts) / 4
    assert [line["no_verdict"] for line in lines_of(tmp_path / "run")] == [16, 16]

"""Makes advantage_cases.json: advantages and metrics of rewards of TRL's GRPOTrainer and RLOOTrainer, in double.

make_advantage_cases.py OUT, in an environment with trl 1.16.0 and PyTorch.

_generate_and_score_completions of the trainers computes them. Two of its parts are replaced: the generation, by stored lengths of completions, and the
reward functions, by stored rewards. Computations in single run in double (transformers_models.in_double).
"""
import json
import os
import sys
import tempfile
import types

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import make_preference_cases as preference  # noqa: E402 (sets the environment)
import datasets  # noqa: E402
import families  # noqa: E402
import numpy  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
import transformers_models  # noqa: E402
import trl  # noqa: E402

GROUPS, SIZE, LONGEST, END = 5, 4, 6, 1
WEIGHTS = {1: (1.5,), 2: (1.0, -0.25), 3: (1.0, 0.5, 2.0)}
METRICS = ("reward", "reward_std", "frac_reward_zero_std")


def asked():
    """Cases: the trainer, scale_rewards, whether truncated completions are masked, the number of rewards, the share of missing verdicts, and the kind of the values."""
    for trainer, scale in (("GRPO", "group"), ("GRPO", "batch"), ("GRPO", "none"), ("RLOO", "none")):
        for count in WEIGHTS:
            for missing in (0.0, 0.3, 0.8):
                for values in ("marks", "numbers", "equal"):
                    yield dict(trainer=trainer, scale_rewards=scale, masks=trainer == "GRPO" and missing == 0.3, count=count, missing=missing, values=values)


def rewards_of(case):
    """[completions, rewards]; None: no verdict."""
    shape, name = (GROUPS * SIZE, case["count"]), f"{case['count']} {case['values']}"
    drawn = families.mixed(f"rewards {name}", shape[0] * shape[1]).reshape(shape)
    values = dict(marks=(drawn > 0).astype(float), numbers=3 * drawn, equal=numpy.round(families.mixed("groups", GROUPS), 1).repeat(SIZE)[:, None] + 0 * drawn)[case["values"]]
    absent = (families.mixed(f"missing {name}", shape[0] * shape[1]).reshape(shape) + 1) / 2 < case["missing"]
    absent[:SIZE] &= case["missing"] < 0.5  # the first group has verdicts
    return [[None if gone else value for value, gone in zip(*rows)] for rows in zip(values.tolist(), absent.tolist())]


def completions_of(case):
    """The numbers of tokens, and whether the last one ends the text."""
    lengths = ((families.mixed("lengths of completions", GROUPS * SIZE) + 1) / 2 * LONGEST + 1).astype(int).clip(1, LONGEST).tolist()
    return lengths, [length < LONGEST or i % 3 == 0 for i, length in enumerate(lengths)]


def trainer_of(case, folder):
    common = dict(output_dir=folder, use_cpu=True, bf16=False, gradient_checkpointing=False, report_to=[], per_device_train_batch_size=GROUPS * SIZE, num_generations=SIZE,
                  max_completion_length=LONGEST, save_strategy="no", disable_tqdm=True, beta=0.0, mask_truncated_completions=case["masks"])
    kind, config = (trl.GRPOTrainer, trl.GRPOConfig(scale_rewards=case["scale_rewards"], **common)) if case["trainer"] == "GRPO" else (trl.RLOOTrainer, trl.RLOOConfig(**common))
    made = kind(model=preference.llama_of("one"), reward_funcs=[lambda completions, **_: [0.0] * len(completions)] * case["count"], args=config,
                train_dataset=datasets.Dataset.from_dict({"prompt": ["2 3"] * GROUPS * SIZE}), processing_class=preference.tokenizer_of())
    lengths, ended = completions_of(case)
    texts = [[3] * (length - 1) + [END if end else 4] for length, end in zip(lengths, ended)]
    rewards = torch.tensor([[float("nan") if value is None else value for value in row] for row in rewards_of(case)], dtype=torch.float64)
    given = ([[2, 3]] * len(texts), texts, [""] * len(texts)) if case["trainer"] == "RLOO" else ([[2, 3]] * len(texts), texts, None, [""] * len(texts), None, {}, None, None)
    made._generate = types.MethodType(lambda self, prompts: given, made)
    made._calculate_rewards = types.MethodType(lambda self, *_: rewards, made)
    made.reward_weights = torch.tensor(WEIGHTS[case["count"]], dtype=torch.float64)
    made.model.double()
    made.model.train()
    return made


def number_of(value):
    return None if value != value else value


def found_of(case, folder):
    made = trainer_of(case, folder)
    out = made._generate_and_score_completions([dict(prompt="2 3")] * GROUPS * SIZE)
    assert out["advantages"].dtype == torch.float64
    metrics = {key: number_of(made._metrics["train"][key][0]) for key in METRICS}
    lengths, ended = completions_of(case)
    return dict(case, rewards=rewards_of(case), weights=WEIGHTS[case["count"]], tokens=lengths, ended=ended, advantages=out["advantages"].tolist(), metrics=metrics,
                labels=int(out["num_items_in_batch"]) if case["trainer"] == "GRPO" else None)


def main():
    with transformers_models.in_double(), tempfile.TemporaryDirectory() as folder:
        cases = [found_of(case, folder) for case in asked()]
    about = f"by tests/oracle/make_advantage_cases.py with trl {trl.__version__}, transformers {transformers.__version__}, torch {torch.__version__}"
    with open(sys.argv[1], "w") as f:
        f.write(f'{{"about": {json.dumps(about)}, "size": {SIZE}, "longest": {LONGEST},\n"cases": [\n')
        f.write(",\n".join(json.dumps(case) for case in cases) + "\n]}\n")


if __name__ == "__main__":
    main()

"""Runs of the program that learn from rewards: the folder of preference_runs.py, whose tokens are letters, prompts of one to nine letters, and rewards that about
half of the random completions have. Shared by test_reinforcement.py and test_reinforcement_input.py."""
import json

import families
import preference_runs as preference
from optimizer_runs import lines_of, newest_of
from parity import trireme, yaml_of

PROMPTS, GROUPS, SIZE, LONGEST, STEPS, SEED = 20, 6, 4, 8, 4, 7
SEQUENCE = 24
REWARD = [dict(name="regex", pattern="^[a-l]"), dict(name="contains", text="c", weight=0.5), dict(name="exact", weight=2.0)]


def prompts(count=PROMPTS):
    lengths = ((families.mixed("lengths of prompts", count) + 1) / 2 * 9 + 1).astype(int).clip(1, 9)
    texts = [(2 + (families.mixed(f"prompt {i}", length) + 1) / 2 * len(preference.LETTERS)).astype(int).tolist() for i, length in enumerate(lengths)]
    return [dict(prompt=preference.text_of(ids), answer=preference.text_of(ids[:1])) for ids in texts]


def write_all(folder):
    """Writes the model's folder, the file of prompts and one of held-out prompts."""
    preference.write_folder(folder / "model")
    preference.write_lines(folder / "prompts.jsonl", prompts())
    preference.write_lines(folder / "held-out.jsonl", prompts(30)[PROMPTS:])
    return folder


def run_of(folder, made, **changes):
    """A run file's content; `made`: where the model and the prompts are. A section of `changes` is laid over the section here."""
    run = dict(init=str(made / "model"), data=dict(prompts=str(made / "prompts.jsonl"), sequence=SEQUENCE), objective=dict(name="grpo"),
               rollout=dict(prompts=GROUPS, num_generations=SIZE, max_completion_length=LONGEST, slots=16), reward=REWARD,
               optimizer=dict(steps=STEPS, lr=1e-2, betas=[0.9, 0.95], eps=1e-8, weight_decay=0.1, clip=1.0, decay="constant"), layout=dict(micro_batch=2),
               precision="fp64", device="reference", threads=1, seed=SEED, evaluation=dict(every=0), checkpoint=dict(every=0), output=str(folder / "run"))
    if changes.get("precision", "fp64") != "fp64":
        run["device"] = "cpu"
    for key, value in changes.items():
        run[key] = {**run[key], **value} if isinstance(run.get(key), dict) and isinstance(value, dict) else value
    return run


def write_run(folder, made, **changes):
    folder.mkdir(exist_ok=True)
    (folder / "run.yaml").write_text(yaml_of(run_of(folder, made, **changes)))
    return folder / "run.yaml"


def train(folder, made, words=(), **changes):
    """The lines of metrics.jsonl."""
    trireme("train", write_run(folder, made, **changes), *words)
    return lines_of(folder / "run")


def rollouts_of(folder):
    return [json.loads(line) for line in (folder / "run/rollouts.jsonl").read_text().splitlines()]


def is_time(key):
    return key.endswith("_s") or key in ("time", "mfu", "share", "peak_bytes", "tokens_per_s")


def ended(folder):
    """The results of a run: its metrics but times, the completions, and the bits of the newest checkpoint."""
    lines = [{key: value for key, value in line.items() if not is_time(key)} for line in lines_of(folder / "run")]
    assert [line["step"] for line in lines] == list(range(1, len(lines) + 1))
    newest = newest_of(folder / "run")
    assert newest.name == f"step-{len(lines):08d}"
    return lines, (folder / "run/rollouts.jsonl").read_text(), {path.name: path.read_bytes() for path in sorted(newest.glob("*.safetensors"))}

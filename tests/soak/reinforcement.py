"""Random runs of objective grpo: their models and prompts, and the sections that a drawn run has instead of a corpus."""
import json
import pathlib
import shlex
import subprocess
import sys

SEQUENCE, LONGEST, PROMPTS = 24, 8, 23
LETTERS = "abcdefghij"
COMMON = dict(num_heads=2, vocab_size=16, max_sequence=32, init_std=0.3)
MODELS = {"gpt2": dict(family="gpt2", num_layers=2, hidden_size=16, tied=True, **COMMON),
          "llama": dict(family="llama", num_layers=3, hidden_size=16, num_kv_heads=1, ffn_size=40, tied=False, **COMMON),
          "llama-tied": dict(family="llama", num_layers=1, hidden_size=32, num_kv_heads=2, ffn_size=30, tied=True, **COMMON),
          "qwen3_moe": dict(family="qwen3_moe", num_layers=2, hidden_size=16, num_kv_heads=1, num_experts=4, experts_per_token=2, expert_ffn_size=12, ffn_size=20, **COMMON)}


def write_prompts(path, word):
    """Prompts of two to nine letters, which differ from word to word."""
    lines = [dict(prompt=(word * 2)[i % 5:i % 5 + 2 + i % 8].translate(str.maketrans("klmnopqrstuvwxyz", LETTERS + "abcdef")) or "a", answer=LETTERS[i * 7 % 10], number=i) for i in range(PROMPTS)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def make_models(folder, trireme):
    """Makes a folder of each model; they are random, and have a tokenizer of letters."""
    folder.mkdir()
    (folder / "letters.txt").write_text(LETTERS + ":\n")
    subprocess.run([trireme, "prepare", "--tokenizer", "char", "--documents", "file", "--validation", "0", "--out", folder / "letters", folder / "letters.txt"], check=True, capture_output=True)
    for name, model in MODELS.items():
        run = dict(model=model, data=dict(train=str(folder / "letters/train"), sequence=4), optimizer=dict(global_batch=1, steps=1, lr=1e-9), evaluation=dict(every=0), output=str(folder / name))
        (folder / "run.yaml").write_text(json.dumps(run))
        subprocess.run([trireme, "train", folder / "run.yaml"], check=True, capture_output=True)


# ---- the draw


def draw_rewards(chance):
    """By rules, by a program, or both; a program has the run file's name among its words."""
    rules = [dict(name="regex", pattern="^[a-e]"), dict(name="contains", text="c", weight=0.5), dict(name="exact", weight=2.0),
             dict(name="length", max=LONGEST, buffer=3)]
    found = chance.sample(rules, chance.randint(1, 3))
    kind = chance.choice(["rules", "program", "both"])
    program = [dict(command=True, workers=chance.choice([1, 1, 2, 3]), batch=chance.choice([1, 5, 64]), timeout=3)]
    return dict(rules=found, program=program, both=found + program)[kind]


def draw_layout(chance):
    """Up to three ranks."""
    while True:
        layout = dict(tensor=chance.choice([1, 1, 2]), pipeline=chance.choice([1, 1, 2]), data=chance.choice([1, 1, 2, 3]), zero=chance.randint(0, 3), micro_batch=chance.choice([1, 2, 3]),
                      recompute=chance.choice(["none", "selective", "full"]), bucket_bytes=chance.choice([1000, 1 << 20]), schedule=chance.choice(["1f1b", "zero-bubble"]),
                      virtual_stages=1, context=1, context_exchange="gather")
        if layout["tensor"] * layout["pipeline"] * layout["data"] <= 3:
            return layout


def draw(chance, run):
    """A run of grpo with the device, precision, seed and checkpoints of a drawn run."""
    layout = draw_layout(chance)
    ranks = layout["tensor"] * layout["pipeline"] * layout["data"]
    groups = chance.choice([2, 4, 6])
    objective = dict(name="grpo", num_iterations=chance.choice([1, 1, 2]), mini_batches=chance.choice([1, 1, 2]), beta=chance.choice([0, 0.05, 0.2]),
                     loss_type=chance.choice(["dapo", "grpo", "dr_grpo"]))
    rollout = dict(prompts=groups, num_generations=chance.choice([2, 4]), max_completion_length=LONGEST, slots=chance.choice([3, 16, 64]), tensor=2 if ranks == 2 and chance.random() < 0.3 else 1,
                   max_failed=0)
    rewards = draw_rewards(chance)
    if run["precision"] == "bf16":
        rollout["max_logp_difference"] = 1.0  # another rounding of a router sends a token to other experts
    if chance.random() < 0.5 and any(reward.get("command") or reward["name"] == "regex" for reward in rewards):  # most groups pass
        rewards = [reward for reward in rewards if reward.get("name") != "length"]
        rollout.update(filter=dict(low=0.01, high=5.0), max_filtered=500)
    updates = objective["num_iterations"] * objective["mini_batches"]
    optimizer = dict(name=chance.choice(["adamw", "adamw", "schedule_free"]), steps=updates * chance.randint(8, 30), lr=1e-3, warmup=chance.choice([0, 5]))
    if optimizer["name"] == "adamw":
        optimizer["decay"] = chance.choice(["cosine", "constant"])
    evaluation = dict(every=chance.choice([0, 4, 7]), sequences=5)
    name = chance.choice(list(MODELS))
    out = {**run, "model": dict(MODELS[name], name=name), "layout": layout, "optimizer": optimizer, "evaluation": evaluation, "objective": "grpo", "weights": None,
           "grpo": dict(objective=objective, rollout=rollout, reward=rewards, updates=updates)}
    if chance.random() < 0.35 and name != "qwen3_moe":
        out["grpo"]["adapter"] = dict(rank=2, alpha=4)
    if optimizer["name"] == "schedule_free":
        out["average"] = dict(every=0)
    return out


def has_program(run):
    return run["objective"] == "grpo" and any("command" in reward for reward in run["grpo"]["reward"])


def sections(run, path, corpus):
    """The run file's content but for the data, and its section `data`."""
    run = dict(run)
    mine, model = run.pop("grpo"), run.pop("model")
    program = " ".join(shlex.quote(str(word)) for word in (sys.executable, pathlib.Path(__file__).resolve().with_name("reward.py"), path))
    rewards = [dict(reward, command=program) if "command" in reward else reward for reward in mine["reward"]]
    layout = {key: value for key, value in run["layout"].items() if key not in ("virtual_stages", "context", "context_exchange")}
    more = {"adapter": mine["adapter"]} if "adapter" in mine else {}
    data = dict(prompts=str(corpus / "prompts.jsonl"), validation_prompts=str(corpus / "held-out.jsonl"), sequence=SEQUENCE)
    init = str(corpus.resolve().parent / "models" / model["name"])
    return {**run, **more, "init": init, "layout": layout, "objective": mine["objective"], "rollout": mine["rollout"], "reward": rewards}, data


def words_of(run, ranks):
    mine, layout = run["grpo"], run["layout"]
    rollout = mine["rollout"]
    changed = [f"{key}={layout[key]}" for key in ("tensor", "pipeline", "data", "zero", "recompute", "schedule") if layout[key] not in (1, 0, "none", "1f1b")]
    return (f"grpo {run['model']['name']} {run['device']} {run['precision']}, {run['optimizer']['steps']} steps of {run['optimizer']['name']}, {ranks} ranks ({','.join(changed) or 'plain'}), "
            f"beta {mine['objective']['beta']:g}, {mine['objective']['num_iterations']} x {mine['objective']['mini_batches']} updates of {rollout['prompts']} x {rollout['num_generations']} completions"
            f"{', an adapter' if 'adapter' in mine else ''}{', a filter' if 'filter' in rollout else ''}{', a program' if has_program(run) else ''}"
            f"{', replicas of 2' if rollout['tensor'] == 2 else ''}{', samples' if run['samples'] else ''}{', an average' if run['average']['every'] else ''}, "
            f"checkpoint {','.join(f'{key}={value}' for key, value in run['checkpoint'].items())}")


# ---- the files of a run


def is_time(key):
    return key.endswith("_s") or key in ("time", "mfu", "share", "peak_bytes", "tokens_per_s")


def rollouts(output):
    path = output / "rollouts.jsonl"
    return path.read_bytes() if path.exists() else b""


def wrong_order(text, filtered):
    """Words for what is wrong with the order of prompts; None if each prompt of an epoch is in exactly one batch."""
    epochs, last, batch = {}, (-1, -1), {}
    for line in map(json.loads, text.splitlines()):
        at = (line["group"], line["sample"])
        if at <= last:
            return f"{at} stands behind {last}"
        last = at
        if batch.setdefault(line["group"], line["batch"]) != line["batch"]:
            return f"group {line['group']} is in two batches"
        if line["sample"] == 0:
            epochs.setdefault(line["group"] // PROMPTS, []).append(line["line"])
    for epoch, lines in epochs.items():
        if len(set(lines)) != len(lines) or (not filtered and epoch < max(epochs) and len(lines) != PROMPTS):
            return f"epoch {epoch} has the prompts {sorted(lines)}"
    return None

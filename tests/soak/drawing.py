"""Random runs: a small model, a layout of up to four ranks, a device, settings of checkpoints."""
import json

import reinforcement

SEQUENCE, BATCH = 32, 12


def draw_experts(chance, model):
    """Three to nine, which hardly any number of ranks divides; balanced by a loss, by a bias, or not at all."""
    experts = chance.randint(3, 9)
    model = {**model, "num_experts": experts, "experts_per_token": chance.randint(1, 3), "expert_ffn_size": 2 * chance.randint(3, 20),
             "dense_layers": chance.randint(0, model["num_layers"] - 1), "z_loss": chance.choice([0.0, 1e-3])}
    if model["family"] == "dots1":
        return {**model, "shared_experts": chance.randint(0, 2), "balance": "bias", "balance_rate": 1e-2}
    return {**model, "balance": "sequence", "balance_rate": 1e-2} if chance.random() < 0.5 else model


def draw_model(chance):
    heads = chance.choice([2, 4])
    model = dict(family=chance.choice(["gpt2", "llama", "qwen3_moe", "dots1"]), num_layers=chance.randint(1, 4), hidden_size=heads * chance.choice([4, 8, 16]),
                 num_heads=heads, vocab_size=257, max_sequence=SEQUENCE, tied=chance.random() < 0.5)
    if model["family"] == "gpt2":
        return {**model, "dropout": chance.choice([0.0, 0.1])}
    model.update(num_kv_heads=chance.choice([k for k in (1, 2, 4) if heads % k == 0]), ffn_size=chance.randint(20, 70))
    return model if model["family"] == "llama" else draw_experts(chance, model)


def exchanges_heads(layout, heads, kv_heads):
    """Whether the context ranks that exchange heads divide a tensor rank's, and copy key/value heads evenly if at all."""
    ranks = layout["context"] if layout["context_exchange"] == "heads" else layout["context_inner"]
    return layout["context"] % ranks == 0 and heads % ranks == 0 and (kv_heads % ranks == 0 or ranks % kv_heads == 0)


def is_legal(layout, model):
    t, kv = layout["tensor"], model.get("num_kv_heads", model["num_heads"])
    interleaved = layout["schedule"] == "interleaved"
    per_rank = layout["micro_batch"] * layout["data"]
    return (ranks_of(layout) <= 4 and model["num_heads"] % t == 0 and (kv % t == 0 or t % kv == 0) and BATCH % per_rank == 0
            and layout["pipeline"] * layout["virtual_stages"] <= model["num_layers"] + 2
            and exchanges_heads(layout, model["num_heads"] // t, max(kv // t, 1))
            and (layout["virtual_stages"] > 1) == interleaved and (layout["pipeline"] > 1 or not interleaved) and holds_experts(layout, model))


def holds_experts(layout, model):
    """Whether the ranks of a stage divide into those that hold the experts between them."""
    expert, split = layout.get("expert", 1), layout.get("expert_tensor", 1)
    return layout["tensor"] * layout["context"] * layout["data"] % (expert * split) == 0 and expert <= model.get("num_experts", 1)


def ranks_of(layout):
    return layout["tensor"] * layout["pipeline"] * layout["data"] * layout["context"]


def draw_stages(chance, layers, stages):
    """Layers of each stage: only the first and the last may have none."""
    numbers = [0, *[1] * (stages - 2), 0][:stages]
    for _ in range(layers - sum(numbers)):
        numbers[chance.randrange(stages)] += 1
    return numbers


def draw_layout(chance, model):
    while True:
        layout = dict(tensor=chance.choice([1, 1, 2, 4]), pipeline=chance.choice([1, 1, 2, 3]), data=chance.choice([1, 1, 2, 3, 4]),
                      virtual_stages=chance.choice([1, 1, 1, 2]), schedule=chance.choice(["gpipe", "1f1b", "interleaved", "zero-bubble"]),
                      sequence_parallel=chance.random() < 0.5, zero=chance.randint(0, 3),
                      recompute=chance.choice(["none", "selective", "full"]), micro_batch=chance.choice([1, 2]),
                      bucket_bytes=chance.choice([1000, 30000, 1 << 20]),
                      context=chance.choice([1, 1, 2, 3, 4]), context_exchange=chance.choice(["gather", "heads", "ring"]),
                      context_inner=chance.choice([1, 1, 2, 4]))
        if "num_experts" in model:
            layout.update(expert=chance.choice([1, 2, 2, 3, 4]), expert_tensor=chance.choice([1, 1, 2]), expert_capacity=chance.choice([1.0, 1.5, 8.0]),
                          capacity_drop=chance.random() < 0.1, recompute=chance.choice([layout["recompute"], "experts"]))
        if layout["context_exchange"] == "heads":
            layout["context_inner"] = layout["context"]
        if layout["sequence_parallel"]:
            layout["sequence_regather"] = chance.random() < 0.5
        if chance.random() < 0.3:
            layout.update(balance="layers", embedding_as_layers=chance.randint(0, 5), head_as_layers=chance.randint(0, 5))
        elif chance.random() < 0.3:
            layout["stage_layers"] = draw_stages(chance, model["num_layers"], layout["pipeline"] * layout["virtual_stages"])
        if is_legal(layout, model):
            return layout


def draw_checkpoint(chance):
    return {"every": chance.choice([0, 1, 2, 3, 5, 8]), "keep": chance.choice([0, 1, 2, 3]), "async": chance.random() < 0.5,
            "snapshot_every": chance.choice([0, 0, 1, 3]), "shard_bytes": chance.choice([20000, 100000, 5000000000]),
            "at_end": chance.random() < 0.8}


def draw_run(chance, grpo):
    """Everything but where the corpus and the output are. `grpo`: only runs that learn from rewards."""
    model = draw_model(chance)
    device, precision = chance.choice([("cpu", "fp32"), ("cpu", "fp32"), ("cpu", "bf16"), ("reference", "fp64")])
    steps = chance.randint(15, 30 if device == "reference" else 80)
    objective = chance.choice([None, None, None, "dpo", "kto", "simpo", "grpo"])
    if objective:
        model.pop("dropout", None)
    samples = dict(prompts=["The", "a ship and"][:chance.choice([1, 2])], tokens=chance.randint(2, 9), temperature=chance.choice([0, 1]))
    run = dict(objective=objective, samples=samples if chance.random() < 0.4 else None, model=model, layout=draw_layout(chance, model), device=device, precision=precision, seed=chance.randrange(1 << 30), threads=1,
                optimizer=dict(global_batch=BATCH, steps=steps, lr=1e-3, warmup=chance.choice([0, 5]), decay=chance.choice(["cosine", "constant"])),
                average=dict(every=chance.choice([0, 0, 1, 3]), decay=chance.choice([0, 0.9]), after=chance.choice([0, 4])),
                evaluation=dict(every=chance.choice([0, 4, 7]), batches=1), checkpoint=draw_checkpoint(chance),
                max_restarts=chance.choice([0, 0, 1, 2]), weights=None if objective else chance.choice([None, None, (3, 1)]))
    return reinforcement.draw(chance, run) if grpo or objective == "grpo" else run


def undisturbed_run(run):
    """The same run, with a checkpoint of every step, for comparison with the checkpoints of the disturbed run."""
    return {**run, "max_restarts": 0, "checkpoint": {"every": 1, "keep": 0, "shard_bytes": run["checkpoint"]["shard_bytes"]}}


def write_run(path, run, corpus, output):
    """With weights it trains on a mixture of both corpora that there are; with an objective on their preferences or prompts."""
    run = dict(run)
    weights, objective = run.pop("weights"), run.pop("objective")
    if run["samples"] is None:
        run.pop("samples")
    train = str(corpus / "train")
    if weights:
        train = [dict(path=str(corpus / name), weight=weight) for name, weight in zip(("train", "validation"), weights)]
    data = dict(train=train, validation=str(corpus / "validation"), sequence=SEQUENCE)
    if objective and objective != "grpo":
        run["objective"] = dict(name=objective)
        data = dict(preferences=str(corpus / "pairs/train"), validation_preferences=str(corpus / "pairs/validation"), sequence=SEQUENCE)
    if objective == "grpo":
        run, data = reinforcement.sections(run, path, corpus)
    whole = {**run, "data": data, "output": str(output)}
    path.write_text(json.dumps(whole))
    return path


def words_of(run):
    model, layout, checkpoint = run["model"], run["layout"], run["checkpoint"]
    if run["objective"] == "grpo":
        return reinforcement.words_of(run, ranks_of(layout))
    changed = [f"{key}={value}" for key, value in layout.items() if value not in (1, False, 0, "none", "1f1b", "gather") and key != "bucket_bytes"]
    return (f"{model['family']} {model['num_layers']}x{model['hidden_size']} {run['device']} {run['precision']}, {run['optimizer']['steps']} steps, "
            f"{ranks_of(layout)} ranks ({','.join(changed) or 'plain'}), checkpoint {','.join(f'{k}={v}' for k, v in checkpoint.items())}"
            f"{', ' + run['objective'] if run['objective'] else ''}{', a mixture' if run['weights'] else ''}{', samples' if run['samples'] else ''}{', an average' if run['average']['every'] else ''}")

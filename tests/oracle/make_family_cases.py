"""Makes family_cases.json: what transformers finds of the models of families.py, in double. tests/oracle/test_families.py compares.

make_family_cases.py OUT, in an environment with transformers.
"""
import json
import math
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(os.path.dirname(HERE), "full"), HERE]
for name in ("TRIREME", "TRIREME_TOOLS"):
    os.environ.setdefault(name, "")

import families  # noqa: E402
import numpy  # noqa: E402
import test_families as full  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
import transformers_models  # noqa: E402

LOGITS = 6  # number of logits of each stored position
SEEDS = 200
GAP = 2e-4  # between the logits of the two likeliest tokens


def steps_of(name):
    """Losses of that many steps of AdamW, which are clipped."""
    theirs = full.build(name)
    parameters = full.on_disk(theirs, dict(theirs.named_parameters()))
    optimizer = full.adamw(parameters, {n: t.dim() > 1 for n, t in parameters.items()})
    losses = []
    for step in range(families.STEPS):
        losses.append(full.step_of(theirs, parameters, optimizer, *families.tokens_of(theirs.config.vocab_size, families.BATCH, families.LENGTH, step))[0])
    return losses


def adafactor_of(name):
    """Losses of steps of torch.optim.Adafactor on one window, and where the tensors are then: norms, and products with a probe."""
    theirs = full.build(name)
    parameters = full.on_disk(theirs, dict(theirs.named_parameters()))
    optimizer = torch.optim.Adafactor(parameters.values(), lr=families.ADAFACTOR_LR, eps=families.ADAFACTOR_EPS, weight_decay=0, foreach=False)
    ids, labels = families.window_of(theirs.config.vocab_size)
    losses = []
    for _ in range(families.ADAFACTOR_STEPS):
        optimizer.zero_grad()
        loss, _ = full.loss_of(theirs, ids, labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    found = {key: tensor.detach().numpy() for key, tensor in parameters.items()}
    return dict(losses=losses, tensors={key: [float(numpy.linalg.norm(t)), float(families.probe_of(key, t.size) @ t.reshape(-1))]
                                        for key, t in found.items()})


def reading_of(model_type, keys):
    """The loss of a model whose config.json has these keys alone."""
    config = dict(families.PLAIN, model_type=model_type, **keys)
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "config.json"), "w") as f:
            json.dump(config, f)
        read = transformers.AutoConfig.from_pretrained(folder)
        theirs = transformers.AutoModelForCausalLM.from_config(read, dtype=torch.float64, attn_implementation="eager").eval()
    shapes = {}
    with torch.no_grad():
        for key, tensor in full.on_disk(theirs, theirs.state_dict()).items():
            shapes[key] = list(tensor.shape)
            tensor.copy_(torch.tensor(families.tensor_of(model_type, key, tuple(tensor.shape))))
    ids, labels = families.tokens_of(config["vocab_size"], families.BATCH, families.LENGTH)
    return dict(config=config, loss=full.loss_of(theirs, ids, labels)[0].item(), shapes=shapes)


def case_of(name):
    theirs = full.build(name)
    ids, labels = families.tokens_of(theirs.config.vocab_size, families.BATCH, families.LENGTH)
    loss, logits = full.loss_of(theirs, ids, labels)
    loss.backward()
    gradients = {key: [list(g.shape), float(numpy.linalg.norm(g)), float(families.probe_of(key, g.size) @ g.reshape(-1))]
                 for key, g in full.gradients_of(theirs).items()}
    config = {key: value for key, value in theirs.config.to_dict().items() if key not in full.NOT_OF_THE_MODEL}
    return dict(config=config, loss=loss.item(), logits=[logits[0, at, :LOGITS].tolist() for at in families.KEPT], losses=steps_of(name),
                gradients=gradients)


def written_of(name):
    """Returns the most likely tokens after each prompt, from the first seed whose texts are good enough for a test: each has at least six
    different tokens, or half as many as it has tokens; no two texts are equal; and no other token is about as likely as the chosen one."""
    for seed in (f"seed {i} " for i in range(SEEDS)):
        theirs = full.build(name, weight=lambda kind, *of: families.writing_tensor_of(kind, seed, *of), vocab_size=families.BYTES)  # noqa: B023
        prompts, count = families.prompts_of(theirs.config.to_dict())
        texts, least = [], math.inf
        for prompt in prompts:
            ids = torch.tensor([list(prompt.encode())])
            done = theirs.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=count, do_sample=False, eos_token_id=None, pad_token_id=0,
                                   output_logits=True, return_dict_in_generate=True)
            texts.append(done.sequences[0, len(prompt) :].tolist())
            for logits in done.logits:
                first, second = logits[0].topk(2).values.tolist()
                least = min(least, first - second)
        if least > GAP and all(len(set(text)) >= min(6, (count + 1) // 2) for text in texts) and len(set(map(tuple, texts))) == len(texts):
            break
    else:
        sys.exit(f"{name}: no seed has texts that say something")
    config = {key: value for key, value in theirs.config.to_dict().items() if key not in full.NOT_OF_THE_MODEL}
    shapes = {key: list(tensor.shape) for key, tensor in full.on_disk(theirs, theirs.state_dict()).items()}
    return dict(seed=seed, config=config, shapes=shapes, texts=texts)


def lines_of(cases):
    """Each on a line."""
    return "{\n" + ",\n".join(f"{json.dumps(name)}: {json.dumps(case)}" for name, case in cases.items()) + "\n}"


def main():
    with transformers_models.in_double():
        cases = {name: case_of(name) for name in families.MODELS}
        readings = {name: reading_of(*case) for name, case in families.READINGS.items()}
        adafactor = {name: adafactor_of(name) for name in families.ADAFACTOR}
        written = {name: written_of(name) for name in [*families.MODELS, *families.WRITERS]}
    with open(sys.argv[1], "w") as f:
        f.write('{"adafactor": ' + json.dumps(adafactor) + ',\n"readings": ' + json.dumps(readings) + ',\n"written": ' + lines_of(written)
                + ',\n"cases": ' + lines_of(cases) + "}\n")


if __name__ == "__main__":
    main()

"""Makes expert_lora.json: what PEFT makes of factors of experts. make_expert_lora.py OUT, in an environment with transformers 5 and peft from
0.21 on. Models, factors and tokens are those of expert_lora.py; everything is in double.

stacked: of each case the loss and a few numbers of every factor's gradient, and logits; singles: the same logits of folders with factors of
single experts, which PEFT converts."""
import json
import os
import pathlib
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "full")]
for name in ("TRIREME", "TRIREME_TOOLS"):
    os.environ.setdefault(name, "")

import expert_cases  # noqa: E402
import expert_lora  # noqa: E402
import lora  # noqa: E402
import numpy  # noqa: E402
import peft  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
import transformers_models  # noqa: E402
from safetensors.numpy import save_file  # noqa: E402


def write_base(folder, model, weights):
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(expert_cases.hugging_face_config(model)))
    save_file({name: numpy.float32(w) for name, w in weights.items()}, folder / "model.safetensors", metadata=dict(format="pt"))
    return folder


def adapted(base, folder, trainable=False):
    """PEFT's model of a base and a folder, to be used in double: built in double, angles and all; files are read as they are."""
    loaded = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float64)
    config = transformers.AutoConfig.from_pretrained(base, attn_implementation="eager", experts_implementation="eager")
    with transformers_models.in_double():
        theirs = transformers.AutoModelForCausalLM.from_config(config).double()
    theirs.load_state_dict(loaded.state_dict())
    return peft.PeftModel.from_pretrained(theirs, folder, autocast_adapter_dtype=False, is_trainable=trainable).double().eval()


def logits_of(theirs, ids):
    with transformers_models.in_double():
        return theirs(input_ids=ids).logits


def loss_of(theirs, ids, labels):
    logits = logits_of(theirs, ids)
    return torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))


def gradients_of(theirs, ids, labels):
    loss = loss_of(theirs, ids, labels)
    loss.backward()
    return float(loss.detach()), {name.replace(".default", ""): p.grad.numpy() for name, p in theirs.named_parameters() if p.requires_grad}


def found_of(folder, model):
    weights, (ids, labels) = expert_lora.plain(model), expert_lora.tokens_of(model)
    base, stacked, singles = write_base(folder / "base", model, weights), {}, {}
    for case, adapter in expert_lora.CASES.items():
        given = expert_lora.write_folder(folder / case.replace(" ", "-"), model, adapter, expert_lora.all_factors(weights, adapter))
        loss, gradients = gradients_of(adapted(base, given, True), ids, labels)
        stacked[case] = dict(loss=loss, gradients={name: expert_lora.few_of(values) for name, values in sorted(gradients.items())},
                             logits=expert_lora.few_of(logits_of(adapted(base, given), ids).detach().numpy()))
    for case, adapter in expert_lora.SINGLES.items():
        endings = sorted({module.split(".")[-1] for module in expert_lora.single_modules(weights)})
        given = lora.write_peft(folder / ("singles-" + case), model, dict(adapter, targets=endings), expert_lora.drawn_singles(weights, adapter["rank"]))
        theirs = adapted(base, given)
        singles[case] = dict(loss=float(loss_of(theirs, ids, labels).detach()), logits=expert_lora.few_of(logits_of(theirs, ids).detach().numpy()))
    return dict(stacked=stacked, singles=singles)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        found = {name: found_of(pathlib.Path(folder) / name, model) for name, model in expert_lora.BESIDE.items()}
    with open(sys.argv[1], "w") as f:
        json.dump(found, f, indent=1)
        f.write("\n")

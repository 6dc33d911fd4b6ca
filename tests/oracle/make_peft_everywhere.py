"""Makes peft_everywhere.json: PEFT's losses of the adapters of peft_everywhere.py, and probes of the gradients of their factors, in double.
make_peft_everywhere.py OUT, in an environment with transformers and peft.

PEFT makes two parameters of tied factors, which share their numbers; their gradients are added here, since ours are one."""
import json
import os
import pathlib
import sys
import tempfile
import types

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
for name in ("TRIREME", "TRIREME_TOOLS"):
    os.environ.setdefault(name, "")

import peft  # noqa: E402
import peft_everywhere  # noqa: E402
import peft_ties  # noqa: E402
import safetensors  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from lora import MAGNITUDE  # noqa: E402
from transformers.models.llama import modeling_llama  # noqa: E402


def norm(self, x):
    return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)


def rotary(self, x, position_ids):
    width, theta = self.config.hidden_size // self.config.num_attention_heads, self.config.rope_parameters["rope_theta"]
    angles = position_ids[:, :, None].double() / theta ** (torch.arange(0, width, 2).double() / width)
    angles = torch.cat((angles, angles), -1)
    return angles.cos(), angles.sin()


IN_DOUBLE = {modeling_llama.LlamaRMSNorm: norm, modeling_llama.LlamaRotaryEmbedding: rotary}  # which transformers computes in single


def load(base, adapter):
    model = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float64)
    for module in model.modules():
        if type(module) in IN_DOUBLE:
            module.forward = types.MethodType(IN_DOUBLE[type(module)], module)
    return peft.PeftModel.from_pretrained(model, adapter, is_trainable=True).eval()


def loss_of(model):
    ids = torch.tensor(peft_ties.tokens()[None].astype("int64"))
    logits = model(ids).logits[:, :-1]  # transformers' own loss is in single
    return torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), ids[:, 1:].reshape(-1))


def found_of(base, adapter, ensure):
    model = load(base, adapter)
    loss = loss_of(model)
    loss.backward()
    gradients = {name.removeprefix(peft_everywhere.PREFIX).replace(".default", "").replace(f"{MAGNITUDE}.weight", MAGNITUDE): p.grad
                 for name, p in model.named_parameters() if p.grad is not None}
    if ensure:
        for own, other in (("lora_embedding_A", "lora_B"), ("lora_embedding_B", "lora_A")):
            gradients[f"model.embed_tokens.{own}"] = gradients[f"model.embed_tokens.{own}"] + gradients.pop(f"lm_head.{other}.weight").T
    return dict(loss=loss.item(), gradients={name: peft_everywhere.probes(g.numpy()) for name, g in gradients.items()})


def load_any(base):
    model = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float64, experts_implementation="eager")
    return model.eval()


def modules_of(model, base, family, kind):
    """Targets and modules_to_save of an adapter of a family. PEFT takes gate_proj, up_proj and down_proj of a model with experts for these."""
    embedding, norms = peft_everywhere.FAMILIES[family][1:]
    if kind == "saved":
        first = next(name for name, module in model.named_modules() if isinstance(module, LINEAR))
        return dict(target_modules=[first], modules_to_save=norms + ["lm_head"] + (["gate"] if peft_everywhere.is_mixture(family) else []))
    names = [name for name, module in model.named_modules() if isinstance(module, LINEAR)]
    apart = [name for name in names if peft_everywhere.is_mixture(family) and name.split(".")[-1] in ("gate_proj", "up_proj", "down_proj")]
    experts = [name for name, _ in model.named_parameters() if name.endswith(("experts.gate_up_proj", "experts.down_proj"))]
    return dict(target_modules=sorted(set(names) - set(apart)) + [embedding], target_parameters=[f"{name}.weight" for name in apart] + experts)


LINEAR = (torch.nn.Linear, transformers.pytorch_utils.Conv1D)


def shapes_in(path, prefix):
    with safetensors.safe_open(path, "np") as file:
        return {name.removeprefix(prefix): list(file.get_slice(name).get_shape()) for name in sorted(file.keys())}


def family_found(folder, family):
    """A model's tensors by their names on disk, and adapters as PEFT saves them with the losses that PEFT finds when it has read them."""
    config = peft_everywhere.config_of(family)
    transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.for_model(**config)).save_pretrained(folder / "drawn")
    found = dict(base=shapes_in(folder / "drawn/model.safetensors", ""))
    base = peft_everywhere.write_family(folder / "base", family, found)
    ids = torch.tensor(peft_ties.tokens()[None].astype("int64") % 53)
    for kind in peft_everywhere.KINDS:
        settings = modules_of(load_any(base), base, family, kind)
        peft.get_peft_model(load_any(base), peft.LoraConfig(r=2, lora_alpha=peft_everywhere.ALPHA, task_type="CAUSAL_LM", **settings)).save_pretrained(folder / kind, save_embedding_layers=False)
        found[kind] = dict(config=settings, tensors=shapes_in(folder / kind / "adapter_model.safetensors", peft_everywhere.PREFIX))
        adapter = peft_everywhere.write_kind(folder / f"written-{kind}", base, family, kind, found)
        with torch.no_grad():
            logits = peft.PeftModel.from_pretrained(load_any(base), adapter).eval()(ids).logits[0, :-1]
        found[kind]["loss"] = torch.nn.functional.cross_entropy(logits, ids[0, 1:]).item()
    return found


def families_found(folder):
    found = {}
    for family in peft_everywhere.FAMILIES:
        (folder / family).mkdir()
        found[family] = family_found(folder / family, family)
    return found


def all_found(folder):
    bases = {tied: peft_everywhere.write_base(folder / f"base-{tied}", tied) for tied in (False, True)}
    found = {}
    for name, (tied, _, _, ensure, _) in peft_everywhere.CASES.items():
        found[name] = found_of(bases[tied], peft_everywhere.write_adapter(folder / name.replace(" ", "-"), bases[tied], name), ensure)
    return found


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        found = dict(cases=all_found(pathlib.Path(folder)), families=families_found(pathlib.Path(folder)))
    with open(sys.argv[1], "w") as f:
        json.dump(found, f, separators=(",", ":"))
        f.write("\n")

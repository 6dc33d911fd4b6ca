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


def all_found(folder):
    bases = {tied: peft_everywhere.write_base(folder / f"base-{tied}", tied) for tied in (False, True)}
    found = {}
    for name, (tied, _, _, ensure, _) in peft_everywhere.CASES.items():
        found[name] = found_of(bases[tied], peft_everywhere.write_adapter(folder / name.replace(" ", "-"), bases[tied], name), ensure)
    return found


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        found = all_found(pathlib.Path(folder))
    with open(sys.argv[1], "w") as f:
        json.dump(found, f, indent=1)
        f.write("\n")

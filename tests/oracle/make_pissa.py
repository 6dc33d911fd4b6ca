"""Makes pissa.json: what PEFT makes of factors that begin as singular vectors (PiSSA). make_pissa.py OUT, in an environment with transformers and
peft. The base and the adapter are those of peft_ties.py.

products: of each module a few numbers of scale B A as PEFT begins, and the norm of all; loss: of an adapter whose factors are other ones,
over what PEFT subtracts from the base; untouched: of the base."""
import json
import os
import pathlib
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
for name in ("TRIREME", "TRIREME_TOOLS"):
    os.environ.setdefault(name, "")

import make_peft_ties  # noqa: E402
import peft  # noqa: E402
import peft_ties  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402

RANK, ALPHA, FEW = 3, 7, 4
LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def products_of(base, stabilised):
    model = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    config = peft.LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=LINEAR, init_lora_weights="pissa", use_rslora=stabilised, task_type="CAUSAL_LM")
    found = {}
    for name, module in peft.get_peft_model(model, config).named_modules():
        if not hasattr(module, "lora_A"):
            continue
        a, b = (getattr(module, which)["default"].weight.detach().double() for which in ("lora_A", "lora_B"))
        product = module.scaling["default"] * b @ a
        found[name.removeprefix("base_model.model.")] = dict(corner=product[:FEW, :FEW].tolist(), norm=float(product.norm()))
    return found


def found_in(folder):
    base = peft_ties.write_base(folder / "base")
    adapter = peft_ties.write_adapter(folder / "adapter", base, "neither", init_lora_weights="pissa")
    plain = peft_ties.write_adapter(folder / "plain", base, "neither", init_lora_weights=True)
    return dict(products=products_of(base, False), rslora=products_of(base, True), loss=make_peft_ties.loss_of(base, adapter), as_plain=make_peft_ties.loss_of(base, plain))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        found = found_in(pathlib.Path(folder))
    with open(sys.argv[1], "w") as f:
        json.dump(found, f, indent=1)
        f.write("\n")

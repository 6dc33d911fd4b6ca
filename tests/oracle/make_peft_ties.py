"""Makes peft_ties.json: PEFT's losses of the adapters of peft_ties.py. make_peft_ties.py OUT, in an environment with transformers and peft."""
import json
import os
import pathlib
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
for name in ("TRIREME", "TRIREME_TOOLS"):
    os.environ.setdefault(name, "")

import peft  # noqa: E402
import peft_ties  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402


def loss_of(base, adapter):
    model = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    model = peft.PeftModel.from_pretrained(model, adapter).eval()
    ids = torch.tensor(peft_ties.tokens()[None].astype("int64"))
    with torch.no_grad():
        return model(ids, labels=ids).loss.item()


def all_losses(folder):
    base = peft_ties.write_base(folder / "base")
    cases = {name: (name, {}) for name in peft_ties.CASES} | {name: ("neither", settings) for name, (settings, _) in peft_ties.LEAVES_OUT.items()}
    return {name: loss_of(base, peft_ties.write_adapter(folder / name.replace(" ", "-"), base, case, **settings)) for name, (case, settings) in cases.items()}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        losses = all_losses(pathlib.Path(folder))
    with open(sys.argv[1], "w") as f:
        json.dump(losses, f, indent=1)
        f.write("\n")

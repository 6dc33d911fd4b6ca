"""Makes config_keys.json: what transformers makes of every key of any model_type's config.json in every other's, as losses in double of
the models of config_keys.py, where they are others than without the key. tests/oracle/test_config_keys.py compares.

make_config_keys.py OUT [MODEL_TYPE...], in an environment with transformers.
"""
import json
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(os.path.dirname(HERE), "full"), HERE]
for name in ("TRIREME", "TRIREME_TOOLS"):
    os.environ.setdefault(name, "")

import config_keys  # noqa: E402
import families  # noqa: E402
import test_families as full  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
import transformers_models  # noqa: E402

WITH_EXPERTS = ("dots1", "mixtral", "olmoe", "qwen3_moe")


def on_disk(theirs):
    tensors = theirs.state_dict()
    if theirs.config.model_type in WITH_EXPERTS:
        tensors = transformers_models.names_on_disk(theirs)
    return full.on_disk(theirs, tensors)


def loss_of(model_type, changed):
    """The loss of the model that AutoModel makes of the file, or why it makes none."""
    config = config_keys.config_of(model_type, changed)
    try:
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "config.json"), "w") as f:
                json.dump(config, f)
            read = transformers.AutoConfig.from_pretrained(folder)
            experts = dict(experts_implementation="eager") if model_type in WITH_EXPERTS else {}
            theirs = transformers.AutoModelForCausalLM.from_config(read, dtype=torch.float64, attn_implementation="eager", **experts).eval()
        with torch.no_grad():
            for key, tensor in on_disk(theirs).items():
                tensor.copy_(torch.tensor(families.tensor_of(model_type, key, tuple(tensor.shape))))
            ids, labels = families.tokens_of(min(config.get("vocab_size", 61), 61), families.BATCH, families.LENGTH)
            return float("%.13g" % full.loss_of(theirs, ids, labels)[0].item())
    except Exception as error:  # any exception: transformers does not read this file
        return f"{type(error).__name__}: {' '.join(str(error).split())[:80]}"


def losses_of(model_type):
    with transformers_models.in_double():
        plain = loss_of(model_type, {})
        found = {json.dumps(change): loss_of(model_type, change) for change in config_keys.changes()}
    return dict(loss=plain, differs={change: loss for change, loss in found.items() if loss != plain})


def main():
    stored = {model_type: losses_of(model_type) for model_type in sys.argv[2:] or config_keys.BASES}
    with open(sys.argv[1], "w") as f:
        json.dump(stored, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()

"""Makes other_defaults.json: defaults of transformers' GenerationConfig, of its tokenizer classes and of TRL's configs of losses on
preferences, which files and scripts of these programs leave out. test_other_defaults.py compares.

make_other_defaults.py OUT, in an environment with transformers and TRL.
"""
import dataclasses
import json
import os
import pathlib
import sys
import tempfile

os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE]
for name in ("TRIREME", "TRIREME_TOOLS"):
    os.environ.setdefault(name, "")

import test_tokenizer_class  # noqa: E402
import transformers  # noqa: E402
import trl  # noqa: E402
from transformers.models.auto.tokenization_auto import TOKENIZER_MAPPING_NAMES  # noqa: E402
from trl.experimental.cpo import CPOConfig  # noqa: E402
from trl.experimental.orpo import ORPOConfig  # noqa: E402

CLASSES = ["GPT2Tokenizer", "CodeGenTokenizer", "GPTNeoXTokenizer", "Qwen2Tokenizer", "LlamaTokenizer", "GemmaTokenizer"]
NAMES = ["bos_token", "eos_token", "unk_token", "pad_token", "mask_token"]


def class_of(name):
    """The tokens that an instance without a file has, and how it cuts text."""
    made = getattr(transformers, name)()
    state = json.loads(made.backend_tokenizer.to_str())
    return dict(tokens={key: getattr(made, key) for key in NAMES}, normalizer=state["normalizer"], pre_tokenizer=state["pre_tokenizer"])


def types_of(named):
    """Each model_type of transformers with the class that AutoTokenizer makes if tokenizer_config.json names `named` (None: no class),
    for classes of CLASSES and the class that uses tokenizer.json as it is (None)."""
    found = {}
    for model_type in TOKENIZER_MAPPING_NAMES:
        with tempfile.TemporaryDirectory() as folder:
            folder = test_tokenizer_class.write_folder(pathlib.Path(folder) / "tokenizer", "gpt2", model_type, dict(tokenizer_class=named) if named else {})
            try:
                made = type(transformers.AutoTokenizer.from_pretrained(folder)).__name__
            except Exception:  # not a tokenizer of this kind of file, or a model with a processor
                continue
        if made in CLASSES or made in ("TokenizersBackend", "PreTrainedTokenizerFast"):
            found[model_type] = made if made in CLASSES else None
    return found


def own_fields(config):
    inherited = {field.name for field in dataclasses.fields(transformers.TrainingArguments)}
    fields = [field for field in dataclasses.fields(config) if field.name not in inherited]
    return {field.name: field.default if field.default is not dataclasses.MISSING else field.default_factory() for field in fields}


if __name__ == "__main__":
    generation = transformers.GenerationConfig
    with open(sys.argv[1], "w") as out:
        json.dump(dict(generation=dict(keys=sorted(generation().to_dict()), defaults=generation._get_default_generation_params()),
                       classes={name: class_of(name) for name in CLASSES},
                       types={str(named): types_of(named) for named in (None, "PreTrainedTokenizerFast", "GPT2Tokenizer", "LlamaTokenizer")},
                       trl={config.__name__: own_fields(config) for config in (trl.DPOConfig, trl.KTOConfig, CPOConfig, ORPOConfig)}),
                  out, indent=1, sort_keys=True)
        out.write("\n")

"""Makes config_defaults.json: the value that transformers' config class of each model_type has for each key of config_keys.py that
config.json does not have. tests/oracle/test_config_defaults.py compares.

make_config_defaults.py OUT, in an environment with transformers.
"""
import json
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE]
for name in ("TRIREME", "TRIREME_TOOLS"):
    os.environ.setdefault(name, "")

import config_keys  # noqa: E402
import transformers  # noqa: E402


def default_of(model_type, key):
    """The class' value of the key where the file of config_keys.py lacks it; raises AttributeError if the class has no such key."""
    config = {name: value for name, value in config_keys.config_of(model_type, {}).items() if name != key}
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "config.json"), "w") as f:
            json.dump(config, f)
        read = transformers.AutoConfig.from_pretrained(folder)
    return read.to_dict()[key] if key in read.to_dict() else getattr(read, key)


def defaults_of(model_type):
    found = {}
    for key in sorted({*config_keys.VALUES, *config_keys.config_of(model_type, {})} - {"model_type"}):
        try:
            found[key] = json.loads(json.dumps(default_of(model_type, key)))
        except (AttributeError, TypeError):  # it is not of this class, or a method
            continue
        except Exception as error:  # the file is not one of theirs without the key
            found[key] = {"refused": f"{type(error).__name__}: {' '.join(str(error).split())[:80]}"}
    return found


if __name__ == "__main__":
    with open(sys.argv[1], "w") as out:
        json.dump({model_type: defaults_of(model_type) for model_type in config_keys.BASES}, out, indent=1)
        out.write("\n")

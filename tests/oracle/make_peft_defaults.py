"""Makes peft_defaults.json: the value that PEFT's LoraConfig has for each key that adapter_config.json may lack. test_peft_folders.py compares.

make_peft_defaults.py OUT, in an environment with PEFT.
"""
import json
import sys

import peft

if __name__ == "__main__":
    with open(sys.argv[1], "w") as out:
        json.dump(json.loads(json.dumps(peft.LoraConfig().to_dict(), default=str)), out, indent=1, sort_keys=True)
        out.write("\n")

"""Makes template_cases.json: the SHA-256 of what transformers renders of published templates, null where they refuse.

make_template_cases.py FOLDER, in an environment with transformers; the packages are downloaded to FOLDER (published_templates.py).
"""
import hashlib
import json
import pathlib
import sys

import published_templates
import template_cases
from transformers.utils.chat_template_utils import _compile_jinja_template

HERE = pathlib.Path(__file__).resolve().parent


def rendered(template, given):
    try:
        return template.render(**given)
    except Exception:
        return None


def main():
    out = {}
    for name in published_templates.SOURCES:
        template = _compile_jinja_template(published_templates.text(name, sys.argv[1]))
        texts = {key: rendered(template, given) for key, given in template_cases.cases(name).items()}
        out[name] = {key: text and hashlib.sha256(text.encode()).hexdigest() for key, text in texts.items()}
    (HERE / "template_cases.json").write_text(json.dumps(out, indent=1) + "\n")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Checks that no script can fail by chance: check_scripts.py SOURCE, or --planted.

Under `set -e -o pipefail` a pipe into a program that stops reading early (`grep -q`, `head`) fails whenever the program before
it is still writing by then: it dies of SIGPIPE. `grep ... >/dev/null` and `sed -n 1p` read to the end."""
import pathlib
import re
import sys

STRICT = re.compile(r"^set -(?=[a-z]*e)[a-z]*o pipefail", re.MULTILINE)
EARLY = re.compile(r"(?<!\|)\|(?!\|)\s*(grep\s+(?:-[a-zA-Z]*\s+)*-[a-zA-Z]*q|head\b)")
HARMLESS = re.compile(r"\|\| (true|:);? *\}\s*\|")  # a group whose status is never a failure


def faults(text):
    """Yields (line, command) of each pipe into a program that stops reading early."""
    if not STRICT.search(text):
        return
    for number, line in enumerate(text.splitlines(), 1):
        match = EARLY.search(line)
        if match and not line.lstrip().startswith("#") and not HARMLESS.search(line):
            yield number, match.group(1)


def planted():
    assert list(faults("set -euo pipefail\nldd x | grep -q y || exit 1\n")) == [(2, "grep -q")]
    assert list(faults("set -euo pipefail\na --version | head -n 1\n")) == [(2, "head")]
    for right in ("set -u\nldd x | grep -q y\n", "set -euo pipefail\n{ a || true; } | grep -q y\n", "set -euo pipefail\nb || grep -q y file\n",
                  "set -euo pipefail\n# a | head\nldd x | grep y >/dev/null\n"):
        assert not list(faults(right)), right


def main():
    if sys.argv[1] == "--planted":
        planted()
        return 0
    source, bad = pathlib.Path(sys.argv[1]), 0
    for path in [source / ".ci/run", *source.glob("scripts/**/*"), *source.glob("tests/**/*.sh")]:
        if path.is_file() and path.suffix != ".py":
            for line, command in faults(path.read_text(encoding="utf-8", errors="replace")):
                print(f"{path}:{line}: `| {command}` ends before what writes to it, which fails then; read to the end (`grep ... >/dev/null`, `sed -n 1p`)")
                bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

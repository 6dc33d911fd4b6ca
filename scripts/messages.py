#!/usr/bin/env python3
"""Prints every text of the program that a user can see, with its place: messages.py [PATTERN] [FOLDER...].

    scripts/messages.py                       all of them
    scripts/messages.py 'goes on|is no '      those that a regular expression finds
    scripts/messages.py . src/checkpoint      those of a folder

A text is a string of a failure (tri_fail), a log line (tri_log, tri_warn), a printf to a user, a help text, a summary or a reason of a
table. Strings that the compiler joins are printed as one. For reading them all at once before a release, and for rewording one kind.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LITERAL = r'"(?:\\.|[^"\\\n])*"'
TOKEN = re.compile(rf"/\*.*?\*/|//[^\n]*|'(?:\\.|[^'\\\n])*'|(?P<text>{LITERAL}(?:\s*(?:PRI[a-zA-Z0-9]+\s*)?{LITERAL})*)", re.DOTALL)
WORDS = re.compile(r"[a-z]{2,}[ ,;:.][^\"]*[a-z]{2,}")


def texts_of(text):
    """Yields (line, joined text) for each string of a C file that reads like a sentence."""
    for match in TOKEN.finditer(text):
        if not match.group("text"):
            continue
        joined = "".join(part[1:-1] for part in re.findall(LITERAL, match.group("text")))
        line = text.count("\n", 0, match.start()) + 1
        before = text[text.rfind("\n", 0, match.start()) + 1:match.start()]
        if WORDS.search(joined) and not before.lstrip().startswith("#include"):
            yield line, joined


def main():
    pattern = re.compile(sys.argv[1] if len(sys.argv) > 1 else ".", re.IGNORECASE)
    folders = [ROOT / folder for folder in sys.argv[2:]] or [ROOT / "src"]
    for folder in folders:
        for path in sorted(folder.rglob("*.[ch]")):
            for line, text in texts_of(path.read_text(encoding="utf-8")):
                if pattern.search(text):
                    print(f"{path.relative_to(ROOT)}:{line}: {text}")


if __name__ == "__main__":
    main()

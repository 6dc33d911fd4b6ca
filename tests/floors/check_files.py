#!/usr/bin/env python3
"""Checks that files and functions stay small enough to read at once: check_files.py TREE [--count].

A .c file of src has at most 650 lines and a function at most 50. FILES and FUNCTIONS list the exceptions, each with the lines that it
may have and a reason. A larger file or function than its row allows fails, and so does a row that is no longer needed.

--count prints the lines of src (.c, .h, .def) by folder.
"""

import pathlib
import re
import sys

MOST_LINES, MOST_IN_FUNCTION = 650, 50

# A file, the lines that it may have, and why it is not divided.
FILES = {
    "chat/evaluate.c": (850, "expressions of templates call each other; divided, they would share all their functions"),
    "chat/filters.c": (740, "a list of filters, one function each, and their table"),
    "checkpoint/load.c": (692, "one pass over the files of a checkpoint; its steps share the state of the reading"),
    "run/run_config.c": (830, "the table of all keys of a run file, with their help"),
    "schedule/program.c": (700, "builds the program of a step; one function for each kind of instruction"),
    "tokenizer/pattern.c": (690, "translates one regular expression; its functions share the state of the reading"),
    "tune/store.c": (691, "the statements of one database"),
}
# A function, the lines that it may have, and why.
FUNCTIONS = {
    "checkpoint/peft.c: tri_peft_check_from": (55, "one refusal after the other, each with its message"),
}

BEGIN = re.compile(r"^(?!typedef|struct|union|enum)[A-Za-z_][\w *]*?\b(\w+)\((?:[^;{}]*)\) \{$", re.MULTILINE)


def functions_of(text):
    """Yields (name, lines), from the line of its name to its closing brace, of each function of a formatted file."""
    for match in BEGIN.finditer(text):
        end = text.find("\n}\n", match.end() - 1)
        if end >= 0:
            yield match.group(1), text.count("\n", match.start(), end) + 2


def faults(src, files, functions):
    seen = set()
    for path in sorted(src.rglob("*.c")):
        text, name = path.read_text(encoding="utf-8"), str(path.relative_to(src))
        sizes = [(name, text.count("\n"), MOST_LINES, files)]
        sizes += [(f"{name}: {function}", lines, MOST_IN_FUNCTION, functions) for function, lines in functions_of(text)]
        for what, lines, most, table in sizes:
            allowed = table.get(what, (most, ""))[0]
            if lines > most:
                seen.add(what)
            if lines > allowed:
                yield f"{what} has {lines} lines, and {allowed} are allowed; divide it, or give a reason in the table of check_files.py"
    for what in sorted({*files, *functions} - seen):
        yield f"{what} is small enough; remove its row from check_files.py"


def print_counts(src):
    counts = {}
    for path in src.rglob("*"):
        if path.suffix in (".c", ".h", ".def"):
            folder = path.relative_to(src).parts[0]
            counts[folder] = counts.get(folder, 0) + path.read_text(encoding="utf-8").count("\n")
    for folder, lines in sorted(counts.items(), key=lambda row: -row[1]):
        print(f"{lines:7} {folder}")
    print(f"{sum(counts.values()):7} src")


def main(arguments, files, functions):
    src = pathlib.Path(arguments[0]) / "src"
    if "--count" in arguments:
        print_counts(src)
        return 0
    wrong = list(faults(src, files, functions))
    for fault in wrong:
        print(f"check_files: {fault}")
    large = sum(path.read_text(encoding="utf-8").count("\n") > MOST_LINES for path in src.rglob("*.c"))
    print(f"check_files: {large} files above {MOST_LINES} lines, {len(wrong)} findings")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], FILES, FUNCTIONS))

#!/usr/bin/env python3
"""Shows that a change touched comments (and texts) only: same-code.py [--texts] [--renamed OLD=NEW]... BASE [PATH...]

    scripts/same-code.py HEAD                   nothing but comments differs from the last commit
    scripts/same-code.py --texts main src       strings (messages, help) may differ, too
    scripts/same-code.py --renamed take_row=read_row HEAD^ src/data

Compares every C and Python file of the working tree with the commit BASE, without comments, docstrings and white space (directives of the
preprocessor keep the ends of their lines). A file that only one side has is a difference. Prints each file that differs, with the first
tokens that do, and exits with 1 if there is one.
"""

import argparse
import ast
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
C_FILES = (".c", ".h", ".def", ".cu", ".inc", ".cl")
LITERAL = r'"(?:\\.|[^"\\\n])*"'
TOKEN = re.compile(rf"/\*.*?\*/|//[^\n]*|(?P<string>{LITERAL}(?:\s*{LITERAL})*)|(?P<token>'(?:\\.|[^'\\\n])*'|\w+|\\?\n|[^\s\w])", re.DOTALL)


def c_tokens(text, texts):
    """The tokens of a C file. Adjacent strings are one token, and with `texts` all strings are the same one."""
    tokens, directive = [], False
    for match in TOKEN.finditer(text):
        if match.group("string"):
            joined = "".join(part[1:-1] for part in re.findall(LITERAL, match.group("string")))
            tokens.append('"' if texts else f'"{joined}"')
            if texts and len(tokens) > 1 and tokens[-2] == '"':
                tokens.pop()
        elif match.group("token"):
            token = match.group("token")
            if token == "#" and text[text.rfind("\n", 0, match.start()) + 1:match.start()].strip() == "":
                directive = True
            if not token.endswith("\n"):
                tokens.append(token)
            elif directive and token == "\n":
                directive = False
                tokens.append("end of line")
    return tokens


def without_texts(tree, texts):
    """A Python tree without docstrings, and with `texts` without any string."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [line for line in body if not (isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant))]
        if texts and isinstance(node, ast.Constant) and isinstance(node.value, str):
            node.value = ""
    return tree


def python_tokens(text, texts):
    return re.findall(r"\w+|\W", ast.dump(without_texts(ast.parse(text), texts)))


def tokens_of(path, text, texts):
    return python_tokens(text, texts) if path.endswith(".py") else c_tokens(text, texts)


def git(*arguments):
    return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=True).stdout


def difference(before, after):
    """The first place where two lists of tokens differ, as text; None if they are equal."""
    if before == after:
        return None
    at = next((i for i, (a, b) in enumerate(zip(before, after)) if a != b), min(len(before), len(after)))
    return f"`{' '.join(before[max(0, at - 4):at + 6])}` became `{' '.join(after[max(0, at - 4):at + 6])}`"


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n", 1)[0].split(": ", 1)[1])
    parser.add_argument("--texts", action="store_true")
    parser.add_argument("--renamed", action="append", default=[])
    parser.add_argument("base")
    parser.add_argument("paths", nargs="*")
    options = parser.parse_args()
    renamed = dict(pair.split("=", 1) for pair in options.renamed)
    changed = git("diff", "--name-only", "--no-renames", options.base, "--", *options.paths).split()
    files, differ = [path for path in changed if path.endswith((*C_FILES, ".py"))], 0
    for path in files:
        try:
            before = tokens_of(path, git("show", f"{options.base}:{path}"), options.texts)
            after = tokens_of(path, (ROOT / path).read_text(encoding="utf-8"), options.texts)
            found = difference([renamed.get(token, token) for token in before], after)
        except (subprocess.CalledProcessError, FileNotFoundError):
            found = "only one side has it"
        if found:
            differ += 1
            print(f"{path}: {found}")
    others = len(changed) - len(files)
    print(f"same-code: {len(files)} changed files were compared with {options.base}, {differ} differ"
          f"{f'; {others} others were not compared' if others else ''}")
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Checks that each `#include` of a header of ours is needed: the file uses at least one name that the header declares.

    check_includes.py SRC

An unneeded include causes unneeded builds and hides on which headers a file really depends. Names are found by their form
(types, macros, constants, functions, objects), not by a compiler. A header without any such name is not checked; neither are
the headers of the kernels that GPU compilers read, since macros make their names."""
import collections
import pathlib
import re
import sys

WORD = re.compile(r"\b[A-Za-z_]\w*\b")
# Headers whose only purpose is to include others.
UMBRELLAS = {"ops/ops.h"}


def bare(text):
    """Without comments and the contents of strings."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)
    return re.sub(r'^(#include "[^"]+")|"(?:[^"\\\n]|\\.)*"', lambda m: m[1] or '""', text, flags=re.M)


def opened(text):
    """Names of structs that a header says to be there, and leaves to another one to describe."""
    return set(re.findall(r"\btypedef\s+struct\s+(\w+)\s+\1\s*;", text)) | set(re.findall(r"\bstruct\s+(\w+)\s*;", text))


def declared(text, elsewhere=frozenset()):
    """The names that a header declares. For a struct in `elsewhere`, also its members, since a file may use these and never its name."""
    names = set(re.findall(r"^\s*#\s*define\s+(\w+)", text, re.M)) | set(re.findall(r"\}\s*(\w+)\s*;", text))
    names |= set(re.findall(r"\b(?:struct|union|enum)\s+(\w+)\s*\{", text)) | set(re.findall(r"typedef\b[^;{}()]*?\b(\w+)\s*;", text))
    names |= set(re.findall(r"\(\*\s*(\w+)\)\s*\(", text)) | set(re.findall(r"\b(\w+)\s*\(", text))
    for body in re.findall(r"\bextern\b([^;()]*);", text):
        names |= {WORD.findall(re.sub(r"\[[^\]]*\]", "", part))[-1] for part in body.split(",")}
    for body in re.findall(r"\benum\b[^{};]*\{([^}]*)\}", text):
        names |= {m[0] for m in re.findall(r"(\w+)(\s*=[^,]*)?(?:,|$)", body)}
    for name, body in re.findall(r"\bstruct\s+(\w+)\s*\{([^{}]*)\}", text):
        if name in elsewhere:
            names |= {"." + member for member in re.findall(r"(\w+)\s*(?:\[[^\]]*\])*\s*[;,)]", body) + re.findall(r"\(\*\s*(\w+)\)", body)}
    return {name for name in names if name[0] == "." or name.lower().startswith(("tri_", "trireme_")) or re.search(r"[A-Z_]", name)}


def includes(text):
    return re.findall(r'^#include "([^"]+)"', text, re.M)


def texts_of(root, *suffixes):
    return {str(path.relative_to(root)): bare(path.read_text(errors="replace")) for path in sorted(root.rglob("*")) if path.suffix in suffixes}


def violations(root):
    texts, lists = texts_of(root, ".c", ".h"), texts_of(root, ".def")
    left_open = {file: opened(text) for file, text in texts.items() if file.endswith(".h")}
    by = collections.Counter(name for names in left_open.values() for name in names)
    names = {file: declared(texts[file], {name for name in by if by[name] > (name in own)}) for file, own in left_open.items()}
    for file, text in texts.items():
        if file.startswith(("device/gpu/", "device/cpu/kernels/")) or file in UMBRELLAS:
            continue
        listed = "".join(lists.get(header, "") for header in includes(text))  # a list of rows is part of the file
        body = re.sub(r"^#include.*$", "", text + listed, flags=re.M)
        used = set(WORD.findall(body)) | {"." + name for name in re.findall(r"(?:->|\.)(\w+)", body)}
        for header in includes(text):
            if header not in names or not names[header] or header == file[:-2] + ".h" or header in UMBRELLAS:
                continue
            if not used & names[header]:
                yield file, header


def main():
    root = pathlib.Path(sys.argv[1])
    found = list(violations(root))
    for file, header in found:
        print(f'{root}/{file}: includes "{header}" and names nothing that it declares; leave it out, or include what is meant')
    print(f"check_includes: {len(found)} violations")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

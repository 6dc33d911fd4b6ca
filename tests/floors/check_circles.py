#!/usr/bin/env python3
"""Checks that files do not refer to each other in new circles: check_circles.py TREE [--list].

A .c and the .h of its name are one file. A file refers to another if it names a function or an object that the other defines; the
declaration in a header is not a reference. Files in a circle can only be understood, tested and moved together. CIRCLES has the
circles that are left, each with its reason. A file in a circle that its row does not name fails, and so does a row with a file that
is in no circle any more.

--list prints each circle with the names that close it.
"""

import pathlib
import re
import sys

# A folder, its files that are in a circle, and a reason.
CIRCLES = [
    ("chat", "evaluate filters functions methods parse_expression parse_template render tests",
     "expressions contain calls, filters and macros, and these evaluate expressions; the parser looks up their names"),
    ("device/cpu", "cpu grouped grouped_plan matmul matmul_plan matmul_state", "a plan is made when it is looked up, and the state releases plans"),
    ("device/guarded", "copy queues", "a copy is work of a queue, and a queue checks the host memory of copies"),
    ("engine", "exchange messages", "a message makes progress in each wait of an exchange"),
    ("model", "blocks blocks_check blocks_parameters experts family family_check model model_defaults parameter_table trainable trainable_experts "
     "trainable_match", "a family is a table of parts of layers, and these ask for the family"),
    ("schedule", "layout_config layout_values", "a key of the layout names the function that lists its values, and that reads the table of keys"),
    ("tokenizer", "decoding folder tokenizer tokenizer_class tokenizer_decoder tokenizer_gpt2 tokenizer_json tokenizer_read tokenizer_stages vocab_merges",
     "each reader of a file fills a tokenizer, and the tokenizer chooses the reader"),
    ("tune", "study trial_schedule", "the schedule of trials is read with the study, and counts its points"),
]

STRIPPED = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|^[ \t]*#[ \t]*include[^\n]*", re.DOTALL | re.MULTILINE)
FUNCTION = re.compile(r"^(?!static|typedef|extern|return|else)[A-Za-z_][\w *]*?\b(tri_\w+)\([^;{}]*\)\s*\{", re.MULTILINE)
OBJECT = re.compile(r"^(?!static|typedef|extern|return|struct \w+ \{|union|enum)[A-Za-z_][\w *]*?\b(tri_\w+)(?:\[[^\]]*\])* *(?:=|;)", re.MULTILINE)
DECLARED = re.compile(r"^[A-Za-z_][\w *]*?\b\w+(?:\([^;{}]*\)|(?:\[[^\]]*\])+|)[^;{}()=]*;", re.MULTILINE)  # in a header: not a reference
WORD = re.compile(r"\b[A-Za-z_]\w+\b")


def units_of(src):
    """{unit: text without comments, strings and includes}; a unit is a path below src without its end."""
    units = {}
    for path in sorted(src.rglob("*.[ch]")):
        unit = str(path.relative_to(src).with_suffix(""))
        text = STRIPPED.sub(" ", path.read_text(encoding="utf-8"))
        units[unit] = units.get(unit, "") + "\n" + (DECLARED.sub("", text) if path.suffix == ".h" else text)
    return units


def definitions(units):
    """{name: unit}, of names that one unit alone defines."""
    found = {}
    for unit, text in units.items():
        for form in (FUNCTION, OBJECT):
            for name in form.findall(text):
                found.setdefault(name, set()).add(unit)
    return {name: next(iter(at)) for name, at in found.items() if len(at) == 1}


def references(units):
    """{unit: {other unit: names}}"""
    home = definitions(units)
    found = {}
    for unit, text in units.items():
        to = found[unit] = {}
        for name in set(WORD.findall(text)):
            if home.get(name, unit) != unit:
                to.setdefault(home[name], set()).add(name)
    return found


def circles(graph):
    """The strongly connected components of more than one unit (Tarjan 1972), without recursion."""
    index, low, on, stack, found, number = {}, {}, set(), [], [], 0
    for root in sorted(graph):
        if root in index:
            continue
        work = [(root, iter(sorted(graph[root])))]
        index[root] = low[root] = number
        number += 1
        stack.append(root)
        on.add(root)
        while work:
            unit, rest = work[-1]
            following = next((other for other in rest), None)
            if following is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[unit])
                if low[unit] == index[unit]:
                    circle = []
                    while not circle or circle[-1] != unit:
                        circle.append(stack.pop())
                        on.discard(circle[-1])
                    if len(circle) > 1:
                        found.append(sorted(circle))
            elif following not in index:
                index[following] = low[following] = number
                number += 1
                stack.append(following)
                on.add(following)
                work.append((following, iter(sorted(graph[following]))))
            elif following in on:
                low[unit] = min(low[unit], index[following])
    return sorted(found)


def faults(found, rows):
    """What fails: circles that no row allows, and rows with files that are in no circle."""
    allowed = [{f"{folder}/{name}" for name in names.split()} for folder, names, _ in rows]
    for circle in found:
        row = max(allowed, key=lambda files: len(files & set(circle)), default=set())
        new = sorted(set(circle) - row)
        if new:
            yield f"new in a circle: {' '.join(new)}, with {' '.join(sorted(set(circle) & row)) or 'each other'}; --list shows the names that close it. Move one of them"
    in_circles = set().union(*found) if found else set()
    for files in allowed:
        left = sorted(files - in_circles)
        if left:
            yield f"no longer in a circle: {' '.join(left)}; remove the name{'s' if len(left) > 1 else ''} from CIRCLES"


def main(arguments, rows):
    graph = references(units_of(pathlib.Path(arguments[0]) / "src"))
    found = circles(graph)
    for circle in found if "--list" in arguments else []:
        print(f"{len(circle)} files: {' '.join(circle)}")
        for unit in circle:
            for other in sorted(set(graph[unit]) & set(circle)):
                print(f"    {unit} -> {other}: {' '.join(sorted(graph[unit][other]))}")
    wrong = list(faults(found, rows))
    for fault in wrong:
        print(f"check_circles: {fault}")
    print(f"check_circles: {len(found)} circles with {sum(map(len, found))} of {len(graph)} files")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], CIRCLES))

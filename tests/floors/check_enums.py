#!/usr/bin/env python3
"""Checks that no value of an enum can be forgotten: check_enums.py SRC [COMPILE_COMMANDS].

Code that depends on a value of an enum must name every value, so that a new one is not treated like another. Therefore:

- no `A == VALUE ? this : that` with a value of a named enum of ours; a choice between two values is a switch, too;
- no `default:` in a switch over values of such an enum, and no table that is indexed by them ([VALUE] = ...);
- with COMPILE_COMMANDS (written by CMake): a copy of the tree in which one enum has an additional value does not compile.
  This is tried with each named enum; FREE has those without any switch, with the reason. For an enum in ALL, none of the
  files that ALL names may compile, since each has its own table or its own switch.

An enum may be made from a list, `typedef enum colour { COLOURS(COLOUR) } colour;` with rows X(VALUE, name, ...): a new
value is then a new row, and a file that expands the list to functions of its own refuses it for lack of one.

Prints one line for each violation and exits with 1 if there was any.
"""

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
ENUM = re.compile(r"typedef enum (\w+) \{(.*?)\}", re.DOTALL)
LISTED = re.compile(r"\s*(\w+)\((\w+)\)\s*")  # the content of an enum that is made from a list
NEW_ROW = "new_value_of_the_list"

# Enums without any switch over their values, since these are only numbers, with the reason for each.
FREE = {
    "tri_config_change": "bits of a column: a row has any of them, and readers ask for one",
    "tri_run_state": "each row of its list names a table of its own, without which nothing links",
    "tri_batch_column": "a number of a column: rows of its two lists make its field, its memory and its copies",
    "tri_objective_name": "where the numbers of losses of preferences begin, which have a table of their own",
    "tri_random_purpose": "a part of a random stream's key: every value is one more stream",
    "index_part": "counts through the three arrays of an .idx file",
    "tri_phase": "where a pass stands: its own if-chain, in one function",
    "trim": "each value is asked for by name in the one product that knows it",
    "tri_cpu_bf16": "measured, or forced by a test",
    "tri_scanner": "which of the patterns has a scanner of its own",
    "tri_record_kind": "what the flight recorder was told",
    "stage": "where a save in the background stands",
    "tri_family": "each row of its list names a table of its own, without which nothing links",
    "tri_optimizer_name": "each row of its list names a table of its own, without which nothing links",
    "tri_board_column": "a number of a column: rows of its list are names and settings",
    "tri_parameter_group": "a number of a group: rows of its list are names and settings",
    "tri_chat_flow": "whether a loop goes on, asked in the one place that runs loops",
    "tri_folder_content": "a column of one table: a row says in which of them it is told",
    "tri_layout_use": "parts that hold each other, asked for by their order",
    "tri_meeting_kind": "how events of a timeline are matched: none, or alike",
}

# Files that each know all values by themselves, and must each refuse a new one.
ALL = {
    "tri_activation": ["device/reference/rows.c", "device/cpu/kernels/elements.c", "device/gpu/kernels/elements.c"],
    "tri_hf_key_kind": ["checkpoint/huggingface.c"],
    "tri_decay": ["run/run_config.c", "run/learning_rate.c"],
    "tri_recompute": ["schedule/layout_config.c", "ops/recompute.c", "plan/simulate.c"],
    "tri_schedule_kind": ["schedule/layout_config.c", "schedule/schedule.c", "plan/simulate.c", "plan/memory.c"],
    "tri_balance": ["schedule/layout_config.c", "schedule/layout.c"],
    "tri_dtype": ["device/dtype.c", "checkpoint/safetensors.c", "checkpoint/huggingface.c", "comm/sums.c", "plan/cluster.c",
                  "device/device.c", "device/cpu/onednn.c", "schedule/layout.c"],
    "tri_instruction_kind": ["engine/engine_step.c"],  # all else reads the list's columns:
    "tri_operands": ["schedule/program_check.c", "train/dry_run.c"],
    "tri_completion": ["schedule/program_check.c"],
    "tri_event_kind": ["plan/event_sim.c", "timeline/timeline.c"],
    "tri_objective": ["tune/study.c", "tune/study_objective.c"],
    "tri_method": ["tune/study.c", "tune/suggest.c"],
    "tri_status": ["base/status.c"],
    "tri_folder_kind": ["checkpoint/folder.c"],
    "tri_config_type": ["config/config_value.c", "config/config_print.c"],
    "tri_list_purpose": ["model/family.c"],
    "tri_collective": ["plan/network.c"],
}


def sources(root):
    for folder, _, names in os.walk(root):
        for name in sorted(names):
            if name.endswith((".c", ".h")):
                yield os.path.join(folder, name)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def plain(text):
    """Without comments, on the same lines."""
    return COMMENT.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)


def list_of(text, rows):
    """The match of the list's definition, ROWS(X) or, where ROWS(X) is OTHER(X, ), OTHER(X, ...), with its rows as group 1."""
    define = re.search(rf"#define {rows}\(X(?:, \.\.\.)?\)((?:.*\\\n)*.*)", text)
    other = re.fullmatch(r"\s*(\w+)\(X, \)", define[1])
    return list_of(text, other[1]) if other else define


def listed_values(text, rows, entry):
    """The values of an enum made by ROWS(ENTRY): the first word of each row, with the prefix that ENTRY puts before it."""
    define = list_of(text, rows)[1]
    prefix = re.search(rf"#define {entry}\((\w+), [^)]*\) (\w*)##\1,", text)[2]
    return [prefix + word for word in re.findall(r"\bX\((\w+),", define)]


def enums_of(texts):
    """{name: (file, [values])} of all named enums."""
    found = {}
    for path, text in texts.items():
        for match in ENUM.finditer(text):
            listed = LISTED.fullmatch(match[2])
            values = listed_values(text, *listed.groups()) if listed else [v.split("=")[0].strip() for v in match[2].split(",") if v.strip()]
            found[match[1]] = (path, values)
    return found


def switches(text):
    """The bodies of all switches, with their line."""
    for match in re.finditer(r"\bswitch \(", text):
        depth, at = 0, text.index("{", match.end())
        begin = at
        while True:
            depth += {"{": 1, "}": -1}.get(text[at], 0)
            at += 1
            if depth == 0:
                break
        yield text.count("\n", 0, match.start()) + 1, text[match.start():begin], text[begin:at]


def check_text(texts, values):
    """Two-way conditionals, defaults and tables. TRI_OK against every other status is success against failure."""
    wrong = []
    known = values - {"TRI_OK"}
    for path, text in texts.items():
        for match in re.finditer(r"[=!]=\s*(\w+)\b[^;{}?]{0,200}\?(?!\?)", text):
            between = match[0][match[0].index(match[1]):]
            if match[1] in known and between.count(")") <= between.count("(") + 1:
                wrong.append(f"{path}:{text.count(chr(10), 0, match.start()) + 1}: a two-way conditional on {match[1]}; make it a switch")
        for line, head, body in switches(text):
            cases = set(re.findall(r"\bcase (\w+):", body))
            if re.search(r"\bdefault:", body) and cases & values and "(int)" not in head:
                wrong.append(f"{path}:{line}: a switch over {sorted(cases & values)[0]} ... has a default; name the values")
        for match in re.finditer(r"(?:^|[{,])\s*\[(\w+)\] =", text, re.MULTILINE):
            if match[1] in values:
                wrong.append(f"{path}:{text.count(chr(10), 0, match.start()) + 1}: a table indexed by {match[1]}; make it a switch")
    return wrong


class Copy:
    """The tree with one enum changed."""

    def __init__(self, src, commands):
        self.src = os.path.realpath(src)
        self.commands = {}
        for entry in json.load(open(commands, encoding="utf-8")):
            path = os.path.realpath(os.path.join(entry["directory"], entry["file"]))
            if path.startswith(self.src + os.sep):
                self.commands.setdefault(path, entry)

    def refuses(self, path, overlay):
        """Whether a file does not compile below the overlay, for lack of a value in a switch or of a function for a row."""
        entry = self.commands[path]
        words = shlex.split(entry["command"])
        at = words.index("-o")
        del words[at:at + 2]
        relative = os.path.relpath(path, self.src)
        changed = os.path.join(overlay, relative)
        words = [os.path.join(overlay, relative) if os.path.realpath(os.path.join(entry["directory"], w)) == path and os.path.exists(changed) else w
                 for w in words if w != "-c"]
        words[1:1] = [f"-I{overlay}"]
        done = subprocess.run(words + ["-fsyntax-only", "-Wswitch-enum", "-Werror=switch", "-Werror=switch-enum"], cwd=entry["directory"], capture_output=True, text=True)
        told = ["-Werror=switch", "-Werror,-Wswitch", NEW_ROW]
        if done.returncode != 0 and not any(words in done.stderr for words in told):
            raise SystemExit(f"{path} does not compile in the copy for another reason:\n{done.stderr[-1500:]}")
        return done.returncode != 0


def with_row(text, rows):
    """The file with one row more, which but for its name is like the first."""
    begin = list_of(text, rows).start(1)
    row = re.compile(r"[ \\\n]*(?:/\*.*?\*/[ \\\n]*)?(X\((?:[^()]|\([^()]*\))*\))").match(text, begin)
    new = re.sub(r"^X\(\w+,\s*\w+", f"X({NEW_ROW.upper()}, {NEW_ROW}", row[1])
    return text[:row.start(1)] + new + " " + text[row.start(1):]


def with_value(text, name):
    at = text.index(f"typedef enum {name} {{")
    end = text.index("}", at)
    body = plain(text[at:end]).rstrip()
    listed = LISTED.fullmatch(body[body.index("{") + 1:])
    if listed:
        return with_row(text, listed[1])
    comma = "" if body.endswith(",") else ","
    value = f"{comma} NEW_VALUE_OF_{name.upper()} = 12345 "
    keep = text[at:end].rstrip()
    if keep.endswith("*/"):  # behind the last value's comment
        value = ("" if body.endswith(",") else ",") + value.lstrip(",")
    return text[:end] + value + text[end:]


def add_value(copy, name, where, overlay):
    """Writes the changed file, which includes find before the original."""
    target = os.path.join(overlay, os.path.relpath(where, copy.src))
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with open(target, "w", encoding="utf-8") as file:
        file.write(with_value(read(where), name))


def check_enum(copy, texts, name, where, values):
    with tempfile.TemporaryDirectory() as overlay:
        add_value(copy, name, where, overlay)
        mention = re.compile(r"\b(" + "|".join(map(re.escape, values)) + r")\b")
        files = [path for path in copy.commands if mention.search(texts[path])]
        wanted = [os.path.join(copy.src, f) for f in ALL.get(name, [])]
        wrong = [f"{path}: a new value of {name} compiles; it must be refused here" for path in wanted if not copy.refuses(path, overlay)]
        if wanted or name in FREE:
            return wrong
        included = [path for path in copy.commands if path not in files]
        if any(copy.refuses(path, overlay) for path in files) or (not files and any(copy.refuses(p, overlay) for p in included)):
            return []
        return [f"{where}: a new value of {name} compiles everywhere; tell its values apart by a switch, or say in FREE why not"]


def main(arguments):
    src = os.path.realpath(arguments[0])
    texts = {path: plain(read(path)) for path in sources(src)}
    enums = enums_of(texts)
    values = {value for _, names in enums.values() for value in names}
    wrong = check_text(texts, values)
    if "--planted" not in arguments:  # check_enums_test.py has trees of its own
        wrong += [f"FREE and ALL name {name}, which is not an enum of the tree" for name in [*FREE, *ALL] if name not in enums]
    if len(arguments) > 1:
        copy = Copy(src, arguments[1])
        with ThreadPoolExecutor(2) as pool:
            for some in pool.map(lambda item: check_enum(copy, texts, item[0], *item[1]), enums.items()):
                wrong += some
    for line in wrong:
        print(os.path.relpath(line.split(":")[0], src) + ":" + line.split(":", 1)[1] if line.startswith(src) else line)
    print(f"{len(enums)} enums, {len(wrong)} violations")
    return 1 if wrong or not enums else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

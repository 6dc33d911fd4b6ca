#!/usr/bin/env python3
"""Checks that no run of 12 equal lines stands twice in the sources: check_twins.py SRC.

A copy is corrected in one place and stays wrong in the other. Lines are compared without their white space; blank lines, lone
braces, comments and #include lines neither count nor break a run. Prints both places of each run, and exits with 1 if there was any.
"""

import os
import re
import sys

LENGTH = 12  # lines that are equal by accident are fewer

COMMENT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.DOTALL)
PASSED_OVER = re.compile(r"[{}]*[;,]?|#include.*")


def counted_lines(text):
    """Returns [(line number, the line without white space)] of the lines that count."""
    text = COMMENT.sub(lambda match: match.group(0) if match.group(0)[0] == '"' else "\n" * match.group(0).count("\n"), text)
    lines = [(number, "".join(line.split())) for number, line in enumerate(text.split("\n"), 1)]
    return [(number, line) for number, line in lines if not PASSED_OVER.fullmatch(line)]


def find_twins(texts):
    """Yields ((path, first line, last line), (the same of the other place), lines that count), each run at its full length."""
    lines, places = {path: counted_lines(text) for path, text in texts.items()}, {}
    for path, counted in lines.items():
        for at in range(len(counted) - LENGTH + 1):
            places.setdefault(tuple(line for _, line in counted[at:at + LENGTH]), []).append((path, at))
    covered = set()  # pairs of beginnings that lie within a run that was found
    for path, counted in lines.items():
        for at in range(len(counted) - LENGTH + 1):
            for other, there in places[tuple(line for _, line in counted[at:at + LENGTH])]:
                # Each pair once; a run that overlaps itself is a table of equal lines, or shorter than it seems.
                if (other, there) <= (path, at) or (path == other and there - at < LENGTH) or (path, at, other, there) in covered:
                    continue
                length = 0
                while (at + length < len(counted) and there + length < len(lines[other]) and not (path == other and at + length == there)
                       and counted[at + length][1] == lines[other][there + length][1]):
                    covered.add((path, at + length, other, there + length))
                    length += 1
                yield ((path, counted[at][0], counted[at + length - 1][0]),
                       (other, lines[other][there][0], lines[other][there + length - 1][0]), length)


def check_tree(source):
    """A line about each pair of twins of a source tree, and the number of files that were looked at."""
    texts = {}
    for folder, _, names in sorted(os.walk(source)):
        for name in sorted(names):
            if name.endswith((".c", ".h")):
                path = os.path.join(folder, name)
                with open(path, encoding="utf-8") as file:
                    texts[path] = file.read()
    return [f"{one}:{first}-{last}: the same {length} lines stand at {other}:{begin}-{end}; share them in a function or header that both may include"
            for (one, first, last), (other, begin, end), length in find_twins(texts)], len(texts)


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: check_twins.py SRC")
    findings, count = check_tree(sys.argv[1])
    if count == 0:
        sys.exit(f"check_twins: there are no sources in {sys.argv[1]}")
    for finding in findings:
        print(finding)
    print(f"check_twins: {count} files, {len(findings)} findings")
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Plants equal lines in small trees and sees that the check finds each pair of places, and only those."""
import os
import subprocess
import sys
import tempfile
import unittest

CHECK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "check_twins.py")


def check(files):
    """Runs the check on a tree of {path: lines}; returns (exit status, output)."""
    with tempfile.TemporaryDirectory() as tree:
        for path, lines in files.items():
            full = os.path.join(tree, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w", encoding="utf-8") as file:
                file.write("\n".join(lines) + "\n")
        ran = subprocess.run([sys.executable, CHECK, tree], capture_output=True, text=True, check=False)
        return ran.returncode, (ran.stdout + ran.stderr).replace(tree + "/", "")


def body(count, name="x"):
    """That many lines, all different."""
    return [f"  {name}[{i}] = {i * i};" for i in range(count)]


class CheckTwins(unittest.TestCase):
    def assert_found(self, files, *parts):
        status, output = check(files)
        self.assertEqual(status, 1, output)
        self.assertIn(f"{len(parts)} findings", output)
        for part in parts:
            self.assertIn(part, output)

    def assert_clean(self, files):
        status, output = check(files)
        self.assertEqual(status, 0, output)
        self.assertIn("0 findings", output)

    def test_two_files(self):
        self.assert_found({"base/a.c": ["int a;", *body(12)], "plan/b.h": body(12)}, "base/a.c:2-13: the same 12 lines stand at plan/b.h:1-12; share")

    def test_one_file(self):
        self.assert_found({"base/a.c": [*body(12), "int a;", *body(12)]}, "base/a.c:1-12: the same 12 lines stand at base/a.c:14-25")

    def test_three_places(self):
        self.assert_found({name: body(14) for name in ("a/a.c", "b/b.c", "c/c.c")}, "a/a.c:1-14: the same 14 lines stand at b/b.c:1-14",
                          "a/a.c:1-14: the same 14 lines stand at c/c.c:1-14", "b/b.c:1-14: the same 14 lines stand at c/c.c:1-14")

    def test_what_does_not_break_a_run(self):
        lines = body(12)
        apart = [*lines[:3], "", "{", *lines[3:6], "/* why", " * it is so */", '#include "base/a.h"', *lines[6:9], "// a word", "}", "};", *lines[9:]]
        self.assert_found({"a/a.c": [f"    {line.strip()} /* of a */" for line in lines], "b/b.c": apart}, "a/a.c:1-12: the same 12 lines stand at b/b.c:1-20")

    def test_what_does_not_count(self):
        padding = ["}", "", "/* equal */", '#include "base/a.h"']
        self.assert_clean({"a/a.c": padding * 20, "b/b.c": padding * 20})
        self.assert_clean({"a/a.c": body(11) + padding, "b/b.c": body(11) + padding})

    def test_what_is_not_a_twin(self):
        lines = body(20)
        self.assert_clean({"a/a.c": lines, "b/b.c": [*lines[:10], "  y = 1;", *lines[10:]]})
        self.assert_clean({"a/a.c": ["  {0, 0},"] * 23})
        self.assert_clean({"a/a.c": body(12), "b/b.py": body(12)})
        self.assert_clean({"a/a.c": [f'  f("/* {i} */");' for i in range(12)], "b/b.c": [f'  f("/* {i} also */");' for i in range(12)]})

    def test_an_empty_tree(self):
        status, output = check({"a/a.md": body(12)})
        self.assertNotEqual(status, 0)
        self.assertIn("there are no sources", output)


if __name__ == "__main__":
    unittest.main()

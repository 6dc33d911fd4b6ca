#!/usr/bin/env python3
"""Plants each form of check_plain.py in small trees, in each kind of text, and sees that the check finds it and holds its table."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

import check_plain

CHECK = check_plain.__file__


def check(files, allowed=None, options=()):
    """Runs the check on a tree of {path: text}; returns (exit status, output)."""
    with tempfile.TemporaryDirectory() as tree:
        for path, text in files.items():
            full = os.path.join(tree, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w", encoding="utf-8") as file:
                file.write(text)
        table = os.path.join(tree, "allowed.json")
        with open(table, "w", encoding="utf-8") as file:
            json.dump(allowed or {}, file)
        ran = subprocess.run([sys.executable, CHECK, *options, "--allowed", table, tree], capture_output=True, text=True, check=False)
        return ran.returncode, ran.stdout + ran.stderr


class CheckPlain(unittest.TestCase):
    def assert_found(self, path, text, *parts):
        status, output = check({path: text})
        self.assertEqual(status, 1, output)
        for part in parts:
            self.assertIn(part, output)

    def test_each_form(self):
        for name, _, instead, example in check_plain.FORMS:
            with self.subTest(name):
                self.assert_found("src/base/a.c", f"int a; /* {example} */\n", f"src/base/a.c:1: [{name}] ", f"; write: {instead}")

    def test_each_kind_of_text(self):
        form = "the file is no folder"
        self.assert_found("src/base/a.h", f"int a;\n/* A name.\n * If {form}. */\n", "src/base/a.h:2: [is-no] A name. If the file")
        self.assert_found("src/base/a.def", "int a; // the file is\n       // no folder\n", "src/base/a.def:1: [is-no]")
        self.assert_found("src/base/a.c", f'f("%s: {form}");\n', "src/base/a.c:1: [is-no]", "messages of src/base: 1 texts")
        self.assert_found("tests/a.py", "a = 1\n# the file is\n# no folder\n", "tests/a.py:2: [is-no]")
        self.assert_found("scripts/a.py", f'def f():\n    """Fails if {form}."""\n', "scripts/a.py:2: [is-no]")
        self.assert_found("docs/a.md", f"Text. It fails if {form}. More.\n", "docs/a.md:1: [is-no] It fails")
        self.assert_found("README.md", "It fails if the file is\nno folder.\n", "README.md:1: [is-no]")

    def test_what_is_not_read(self):
        status, output = check({"src/base/a.c": "/* A plain comment. */\nint nobody, wants; /* bytes of a page */\n\"nobody\";\n",
                                "src/base/b.c": 'f("rows, then ", "nobody is told");\n#include "no/nobody is told.h"\n',
                                "docs/a.md": "Text.\n\n```\n# nobody wants\n```\n", "CHANGELOG.md": "nobody\n"}, {"messages of src/base": 1})
        self.assertEqual(status, 0, output)
        self.assertIn("comments of src: 0 of 2", output)

    def test_the_table(self):
        files = {"src/base/a.c": "/* the file is no folder */\n/* nobody reads it */\n"}
        status, output = check(files, {"src/base": 1})
        self.assertEqual(status, 1, output)
        self.assertIn("src/base: 2 texts have such a form, and 1 are allowed", output)
        self.assertEqual(check(files, {"src/base": 2})[0], 0)
        self.assertEqual(check(files, {"src/data": 2})[0], 1)

    def test_lower(self):
        table = check_plain.lowered({"src/a": 3, "src/b": 1, "src/c": 2}, {"src/a": 2, "src/b": 4, "src/d": 5})
        self.assertEqual(table, {"src/a": 2, "src/b": 1})

    def test_list(self):
        status, output = check({"src/base/a.c": "/* nobody reads it */\n", "src/data/a.c": "/* nobody reads it */\n"}, {"src/base": 1}, ("--list",))
        self.assertEqual(status, 0)
        self.assertEqual(output.count("[somebody]"), 2)

    def test_an_empty_tree(self):
        status, output = check({"other/a.c": "/* nobody */\n"})
        self.assertNotEqual(status, 0)
        self.assertIn("there is nothing to look at", output)


if __name__ == "__main__":
    unittest.main()

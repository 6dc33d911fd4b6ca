#!/usr/bin/env python3
"""Plants words that the glossary replaced in small trees and sees that the check finds each, and only those."""
import os
import subprocess
import sys
import tempfile
import unittest

CHECK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "check_words.py")


def check(files):
    """Runs the check on a tree of {path: text}; returns (exit status, output)."""
    with tempfile.TemporaryDirectory() as tree:
        for path, text in files.items():
            full = os.path.join(tree, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w", encoding="utf-8") as file:
                file.write(text)
        ran = subprocess.run([sys.executable, CHECK, tree], capture_output=True, text=True, check=False)
        return ran.returncode, ran.stdout + ran.stderr


class CheckWords(unittest.TestCase):
    def assert_found(self, path, text, *parts):
        status, output = check({path: text})
        self.assertEqual(status, 1, output)
        for part in parts:
            self.assertIn(part, output)

    def test_each_kind_of_place(self):
        self.assert_found("src/base/a.c", "/* Whoever calls it frees it. */\n", "src/base/a.c:1: `Whoever`; write: ")
        self.assert_found("src/base/a.h", "int a;\n\nint b; /* NULL where there is none */\n", "a.h:3: `where there is none`; write: if there is none")
        self.assert_found("docs/a.md", "A run begins\nanew.\n", "docs/a.md:1: `begins anew`")
        self.assert_found("README.md", "its last words\n", "README.md:1: ")
        self.assert_found("tests/unit/a.c", "tri_walk walk;\n", "write: tri_event_sim")
        self.assert_found("cmake/a.cmake", "# whoever\n", "cmake/a.cmake:1: ")

    def test_words_that_code_uses_too(self):
        self.assert_found("src/base/a.c", "/* of so many ranks */\n", "a.c:1: `so many`")
        self.assert_found("src/base/a.c", "/* The next\n * anew, NULL: nobody asks. */\n", "a.c:2: `anew`", "a.c:2: `nobody asks`")
        self.assert_found("src/base/a.c", "int a; /* labels; -1 is none */\n", "a.c:1: `1 is none`")
        status, output = check({"src/base/a.c": "bool anew = f(x, anew); /* `anew`: so many that it fails, so many ranks that */\nint *nobody = NULL;\n",
                                "tests/oracle/a.py": "if it is None:\n    return\n"})
        self.assertEqual(status, 0, output)

    def test_phrases_that_are_broken(self):
        self.assert_found("src/base/a.c", "/* The text, where there\n * is none an empty one. */\n", "a.c:1: ")
        self.assert_found("tests/oracle/a.py", "# where\n    # there are none\n", "a.py:1: ")
        self.assert_found("src/base/a.c", 'f("the run begins "\n  "anew");\n', "a.c:1: ")

    def test_what_is_left_alone(self):
        status, output = check({"src/base/a.c": "/* There is none where it was, and who ever calls it. */\nint tri_walks, my_tri_walk;\n",
                                "CHANGELOG.md": "whoever\n", "docs/picture.svg": "whoever\n"})
        self.assertEqual(status, 0, output)
        self.assertIn("1 files, 0 findings", output)

    def test_an_empty_tree(self):
        status, output = check({"other/a.c": "whoever\n"})
        self.assertNotEqual(status, 0)
        self.assertIn("there is nothing to look at", output)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""Plants large files and functions in small trees and sees that the check finds them, and only those."""
import contextlib
import io
import pathlib
import tempfile
import unittest

import check_files

LONG_FUNCTION = "static int run(int a,\n               int b) {\n" + "  a++;\n" * 48 + "}\n"


def check(files, rows=(), functions=(), *words):
    """Runs the check on a tree of {path below src: text}; returns (exit status, output)."""
    with tempfile.TemporaryDirectory() as tree:
        for path, text in files.items():
            full = pathlib.Path(tree, "src", path)
            full.parent.mkdir(parents=True, exist_ok=True)
            full.write_text(text, encoding="utf-8")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            status = check_files.main([tree, *words], dict(rows), dict(functions))
        return status, printed.getvalue()


class CheckFiles(unittest.TestCase):
    def test_files(self):
        files = {"x/a.c": "int a;\n" * 651, "x/b.c": "int b;\n" * 650, "x/c.h": "int c;\n" * 700}
        status, output = check(files)
        self.assertEqual(status, 1)
        self.assertIn("x/a.c has 651 lines, and 650 are allowed; divide it, or give a reason", output)
        self.assertNotIn("x/b.c", output)
        self.assertNotIn("x/c.h", output)
        self.assertEqual(check(files, {"x/a.c": (660, "planted")}), (0, "check_files: 1 files above 650 lines, 0 findings\n"))
        self.assertIn("x/a.c has 651 lines, and 640 are allowed", check(files, {"x/a.c": (640, "planted")})[1])

    def test_functions(self):
        status, output = check({"x/a.c": "\nint a;\n\n" + LONG_FUNCTION + "\nint tri_b(void) {\n  return 1;\n}\n"})
        self.assertEqual(status, 1)
        self.assertIn("x/a.c: run has 51 lines, and 50 are allowed", output)
        self.assertNotIn("tri_b", output)
        self.assertEqual(check({"x/a.c": LONG_FUNCTION.replace("  a++;\n", "", 1)})[0], 0)
        self.assertEqual(check({"x/a.c": LONG_FUNCTION}, functions={"x/a.c: run": (51, "planted")})[0], 0)

    def test_rows_that_are_no_longer_needed(self):
        status, output = check({"x/a.c": "int a;\n"}, {"x/a.c": (700, "planted"), "x/gone.c": (700, "planted")}, {"x/a.c: run": (60, "planted")})
        self.assertEqual(status, 1)
        for what in ("x/a.c is", "x/gone.c is", "x/a.c: run is"):
            self.assertIn(f"{what} small enough; remove its row", output)

    def test_counts(self):
        output = check({"x/a.c": "int a;\n" * 3, "x/y/b.h": "int b;\n", "z/c.def": "X(c)\n", "z/d.py": "d\n"}, (), (), "--count")[1]
        self.assertEqual([line.split() for line in output.splitlines()], [["4", "x"], ["1", "z"], ["5", "src"]])


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""Plants files that refer to each other in small trees and sees that the check finds each circle, and only those."""
import contextlib
import io
import pathlib
import tempfile
import unittest

import check_circles

HEADER = "tri_status tri_a(void);\ntri_status tri_b(void);\nextern const tri_table tri_rows;\n"


def check(files, rows=()):
    """Runs the check on a tree of {path below src: text}; returns (exit status, output)."""
    with tempfile.TemporaryDirectory() as tree:
        for path, text in files.items():
            full = pathlib.Path(tree, "src", path)
            full.parent.mkdir(parents=True, exist_ok=True)
            full.write_text(text, encoding="utf-8")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            status = check_circles.main([tree], rows)
        return status, printed.getvalue()


class CheckCircles(unittest.TestCase):
    def test_functions(self):
        files = {"x/a.c": "tri_status tri_a(void) {\n  return tri_b();\n}\n", "x/b.c": "tri_status tri_b(void) {\n  return tri_a();\n}\n"}
        status, output = check(files)
        self.assertEqual(status, 1)
        self.assertIn("new in a circle: x/a x/b, with each other", output)
        status, output = check(files, [("x", "a b", "planted")])
        self.assertEqual((status, output), (0, "check_circles: 1 circles with 2 of 2 files\n"))

    def test_a_file_joins_a_circle_that_is_known(self):
        files = {"x/a.c": "int tri_a(void) {\n  return tri_b();\n}\n", "x/b.c": "int tri_b(void) {\n  return tri_c();\n}\n",
                 "x/c.c": "int tri_c(void) {\n  return tri_a();\n}\n"}
        status, output = check(files, [("x", "a b", "planted")])
        self.assertEqual(status, 1)
        self.assertIn("new in a circle: x/c, with x/a x/b", output)

    def test_objects(self):
        files = {"x/a.c": "const tri_table tri_rows = {.run = tri_b};\n", "x/b.c": "int tri_b(void) {\n  return tri_rows.count;\n}\n"}
        self.assertIn("new in a circle: x/a x/b", check(files)[1])

    def test_what_is_no_reference(self):
        """A header's declarations, comments, strings, includes, static functions of the same name, and one direction."""
        files = {"x/a.h": HEADER, "x/a.c": "#include \"x/b.h\"\n/* tri_b */\nint tri_a(void) {\n  return print(\"tri_b\");\n}\n",
                 "x/b.c": "int tri_b(void) {\n  return tri_a();\n}\nstatic int find(void) {\n  return 0;\n}\n",
                 "x/c.c": "static int find(void) {\n  return tri_b();\n}\nint tri_c(void) {\n  return find();\n}\n"}
        self.assertEqual(check(files), (0, "check_circles: 0 circles with 0 of 3 files\n"))

    def test_a_row_that_is_too_long(self):
        status, output = check({"x/a.c": "int tri_a(void) {\n  return 1;\n}\n"}, [("x", "a b", "planted")])
        self.assertEqual(status, 1)
        self.assertIn("no longer in a circle: x/a x/b; remove the names from CIRCLES", output)


if __name__ == "__main__":
    unittest.main()

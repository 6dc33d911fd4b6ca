"""`--devices A..B` of plan and simulate: each row equals the result for its number alone."""

import json
import os
import subprocess
import unittest

TRIREME = os.environ["TRIREME"]
FLAGS = ["--model", "frontier-22b", "--cluster", "frontier", "--global-batch", "960"]
LAYOUT = ["--layout", "tensor=2,pipeline=4,zero=1,micro_batch=1,recompute=full"]


def run(*arguments):
    return subprocess.run([TRIREME, *arguments], capture_output=True, text=True, timeout=120)


def answer(*arguments):
    return json.loads(run(*arguments, "--json").stdout)


class DeviceRangeTest(unittest.TestCase):
    def holds(self, rows, numbers, alone):
        self.assertEqual([row["devices"] for row in rows], numbers)
        first = rows[0]["tokens_per_s"] / numbers[0]
        for row in rows:
            efficiency = row.pop("scaling_efficiency")
            self.assertAlmostEqual(efficiency, row["tokens_per_s"] / row["devices"] / first, delta=1e-12)
            self.assertEqual(row, alone(row.pop("devices")))

    def test_plan_says_the_best_layout_of_each_number(self):
        rows = answer("plan", *FLAGS, "--devices", "16..64")
        self.holds(rows, [16, 32, 64], lambda n: answer("plan", *FLAGS, "--devices", str(n), "--top", "1")[0])

    def test_simulate_says_the_same_layout_with_more_replicas(self):
        rows = answer("simulate", *FLAGS, *LAYOUT, "--devices", "16..48:16", "--tokens", "1e9", "--price", "2")
        more = ["--tokens", "1e9", "--price", "2"]
        self.holds(rows, [16, 32, 48], lambda n: answer("simulate", *FLAGS, *LAYOUT, *more, "--devices", str(n)))

    def test_a_table_has_a_row_for_each(self):
        done = run("simulate", *FLAGS, *LAYOUT, "--devices", "8..64")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [line.split() for line in done.stdout.splitlines()[2:6]]
        self.assertEqual([row[0] for row in rows], ["8", "16", "32", "64"])
        self.assertEqual([row[-1].split(",")[2] for row in rows], ["data=1", "data=2", "data=4", "data=8"])

    def test_a_row_without_an_answer_says_why(self):
        done = run("simulate", *FLAGS, "--layout", "tensor=8,zero=0,micro_batch=8", "--devices", "8..56:24")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r" 8 does not run: a device holds [\d.]+ GiB at its fullest, and has 63.98 GiB\n")
        self.assertRegex(done.stdout, r" 56 does not run: .*global_batch")
        rows = answer("simulate", *FLAGS, "--layout", "tensor=8,pipeline=5,micro_batch=1", "--devices", "8..16")
        self.assertEqual([(row["devices"], row["fits"]) for row in rows], [(8, False), (16, False)])
        self.assertIn("pipeline", rows[0]["reason"])

    def test_what_is_for_one_number_says_so(self):
        for command, option, named in (
            ("plan", ["--pareto"], "--pareto"),
            ("simulate", [*LAYOUT, "--stages"], "--stages"),
            ("simulate", [*LAYOUT, "--timeline", "a.svg"], "--timeline"),
        ):
            done = run(command, *FLAGS, *option, "--devices", "16..64")
            self.assertEqual(done.returncode, 2)
            self.assertIn(f"{command}: {named} is for one number of devices; --devices is a range", done.stderr)

    def test_wrong_ranges(self):
        for text, said in (
            ("64..16", "--devices, after the dots, must be from 64 to 16777216, not 16"),
            ("16..", "--devices, after the dots, takes a whole number, not ``"),
            ("..16", "--devices, before the dots, takes a whole number, not ``"),
            ("16..64:0", "--devices, after the colon, must be from 1 to 16777216, not 0"),
            ("16..64:3", "--devices is 19, which is not a number of whole nodes of frontier (8 devices each); try 16 or 24"),
            ("16...64", "--devices, after the dots, takes a whole number, not `.64`"),
            ("16:64", "--devices takes a whole number, not `16:64`"),
        ):
            done = run("simulate", *FLAGS, *LAYOUT, "--devices", text)
            self.assertEqual(done.returncode, 2, text)
            self.assertIn(said, done.stderr, text)


if __name__ == "__main__":
    unittest.main()

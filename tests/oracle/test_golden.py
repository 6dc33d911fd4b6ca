"""The program that a person reads: what `trireme train --dry-run --verbose` prints for four layouts after the facts of the run, kept in tests/golden.

TRIREME_GOLDEN=write prints new ones; look at the difference before committing it."""
import os
import pathlib

import pytest
from parity import trireme

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "golden"
LAYOUTS = {
    "one-rank": (1, 0, []),
    "tensor2-sequence-parallel": (2, 1, ["tensor=2", "sequence_parallel=true", "recompute=selective"]),
    "pipeline2-data2-zero1": (4, 2, ["pipeline=2", "zero=1", "micro_batch=1", "bucket_bytes=40000"]),
    "zero3-interleaved": (4, 1, ["pipeline=2", "virtual_stages=2", "schedule=interleaved", "data=2", "zero=3", "bucket_bytes=40000"]),
}


def details(done):
    return done.stdout.split("\n\n", 1)[1]


@pytest.mark.parametrize("name", LAYOUTS)
def test_golden(name):
    ranks, rank, changes = LAYOUTS[name]
    sets = [word for change in changes for word in ("--set", f"layout.{change}")]
    printed = details(trireme("train", FOLDER / "run.yaml", "--dry-run", "--verbose", "-n", ranks, "--rank", rank, *sets))
    path = FOLDER / f"{name}.txt"
    if os.environ.get("TRIREME_GOLDEN") == "write":
        path.write_text(printed)
    assert printed == path.read_text()


def test_ranks_of_a_dry_run():
    """Without -n they are as few as the layout has; under a launcher they are the launcher's, and one rank prints."""
    words = ["train", FOLDER / "run.yaml", "--dry-run", "--verbose", "--rank", 1]
    for name, ranks in (("tensor2-sequence-parallel", 2), ("zero3-interleaved", 4)):
        sets = [word for change in LAYOUTS[name][2] for word in ("--set", f"layout.{change}")]
        printed = details(trireme(*words, *sets))
        assert printed == details(trireme(*words, "-n", ranks, *sets)) == (FOLDER / f"{name}.txt").read_text()
        inside = [{**os.environ, "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": rank} for rank in ("0", "3")]
        assert trireme(*words, *sets, env=inside[0]).stdout == trireme(*words, "-n", 4, *sets).stdout
        assert trireme(*words, *sets, env=inside[1]).stdout == ""

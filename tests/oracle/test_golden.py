"""The program that a person reads: what `trireme train --dry-run` prints for four layouts, kept in tests/golden.

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


@pytest.mark.parametrize("name", LAYOUTS)
def test_golden(name):
    ranks, rank, changes = LAYOUTS[name]
    sets = [word for change in changes for word in ("--set", f"layout.{change}")]
    printed = trireme("train", FOLDER / "run.yaml", "--dry-run", "-n", ranks, "--rank", rank, *sets).stdout
    path = FOLDER / f"{name}.txt"
    if os.environ.get("TRIREME_GOLDEN") == "write":
        path.write_text(printed)
    assert printed == path.read_text()

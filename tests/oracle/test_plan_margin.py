"""--margin: memory of each device that a plan keeps free."""
import json
import os
import pathlib
import re
import subprocess

import pytest

TRIREME = os.environ["TRIREME"]
GIB = 2**30
WORDS = ["--model", "llama-3-8b", "--cluster", "dgx-h100", "--devices", 8, "--global-batch", 64, "--sequence", 4096, "--system", "megatron-core-2025"]


def run(command, *more, status=0, json_too=True):
    done = subprocess.run([TRIREME, command, *map(str, [*WORDS, *more])] + (["--json"] if json_too else []), capture_output=True, text=True, timeout=120)
    assert done.returncode == status, done.stderr
    return done.stderr if status else json.loads(done.stdout) if json_too else done.stdout


def simulate(micro_batch, *more, **options):
    return run("simulate", "--layout", f"tensor=2,zero=1,recompute=selective,micro_batch={micro_batch}", *more, **options)


def test_what_fits():
    """A layout fits if its peak is at most the memory without the margin."""
    peak = simulate(1)["memory"]["peak"]
    room = 79.65 * GIB - peak
    assert room > 4 * GIB
    assert simulate(1, "--margin", int(room - GIB / 10))["fits"] and not simulate(1, "--margin", int(room + GIB / 10))["fits"]
    assert simulate(1, "--margin", "2GiB")["memory"]["peak"] == peak
    share = 100 * room / (79.65 * GIB)
    assert simulate(1, "--margin", f"{share - 1:.2f}%")["fits"] and not simulate(1, "--margin", f"{share + 1:.2f}%")["fits"]


def test_a_search_keeps_it_free():
    for margin in (0, 20, 40):
        rows = run("plan", "--top", 5, *(["--margin", f"{margin}GiB"] if margin else []))
        assert rows and all(row["memory"]["peak"] <= (79.65 - margin) * GIB for row in rows)


@pytest.mark.parametrize("spare, more, marked", [(0.01, [], True), (0.03, [], False), (0.01, ["--margin", "1MiB"], False)])
def test_little_to_spare(tmp_path, spare, more, marked):
    """Is marked, unless the plan keeps memory free."""
    peak = simulate(1)["memory"]["peak"]
    text = (pathlib.Path(__file__).parents[2] / "configs/clusters/dgx-h100.yaml").read_text()
    (tmp_path / "small.yaml").write_text(re.sub("(?m)^memory_bytes:.*", f"memory_bytes: {peak / (1 - spare):.0f}", re.sub("(?m)^(name|also):.*", "", text)))
    said = simulate(1, "--cluster", tmp_path / "small.yaml", *more, json_too=False)
    assert re.search(r"\(a rank of stage 0\): fits, with \d+\.\d\d MiB to spare: little for contexts and buffers of libraries \(--margin 2GiB keeps more free\)\n" if marked else r": fits\n", said), said


@pytest.mark.parametrize("margin, said", [("90GiB", "--margin is 90.00 GiB, and a device of dgx-h100 has 79.65 GiB; give less"), ("100%", "--margin, before %, must be from 0 to 99, not 100"),
                                          ("much", "--margin takes a number of bytes, as 512MiB or 4GiB, not `much`"), ("-1", "--margin"), ("%", "--margin, before %,")])
def test_bad_margins(margin, said):
    for command in ("plan", "simulate"):
        more = ["--layout", "zero=1"] if command == "simulate" else []
        assert said in run(command, *more, "--margin", margin, status=2)

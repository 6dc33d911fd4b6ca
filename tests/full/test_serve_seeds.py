"""tests/oracle/test_serve_bits.py with more seeds: 500 requests of each, also on several ranks, in bf16 and with guesses."""
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "oracle"))

from test_serve_bits import ARRANGEMENTS, REQUESTS, check, pairs, run  # noqa: E402, F401 (fixtures)


@pytest.mark.parametrize("seed", range(100, 120))
def test_seeds(run, tmp_path, seed):  # noqa: F811
    check(run, tmp_path, seed, REQUESTS)


@pytest.mark.parametrize("seed", range(300, 310))
def test_parts_of_characters(pairs, tmp_path, seed):  # noqa: F811
    check(pairs[0], tmp_path, seed, REQUESTS, tokenizer=pairs[1])


@pytest.mark.parametrize("name", sorted(ARRANGEMENTS))
def test_arrangements(run, tmp_path, name):  # noqa: F811
    check(run, tmp_path, 200, REQUESTS, *ARRANGEMENTS[name])

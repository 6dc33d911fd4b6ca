"""Generation on several ranks at full size: many texts under each number of ranks, and jobs that lose a rank at 100 random moments.
tests/oracle/test_generate_ranks.py has a few of each."""
import os
import random
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "oracle"))

from test_generate_ranks import WORDS, made, run, test_a_rank_is_killed, undisturbed  # noqa: E402, F401 (fixtures)

killed = test_a_rank_is_killed
del test_a_rank_is_killed


@pytest.mark.parametrize("tensor, ranks", [(1, (2, 3, 4)), (2, (4,))])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_many_texts(made, tmp_path, tensor, ranks, precision):  # noqa: F811
    """200 prompts of unequal length, eight samples of each, stop texts and log-probabilities: the same bytes for any number of ranks."""
    draw = random.Random(5)
    prompts = [" ".join(draw.choice(WORDS) for _ in range(draw.randint(1, 15)))[:90] for _ in range(200)]
    (tmp_path / "prompts.txt").write_text("\n".join(prompts) + "\n")
    words = ("generate", made / "model", "--prompts", tmp_path / "prompts.txt", "--samples", 8, "--stop", "e ", "--logprobs", 3, "--json", "--batch", 12,
             "--tokens", 25, "--threads", 1, "--precision", precision, "--tensor", tensor)
    expected = run(*words).stdout
    assert len(expected.splitlines()) == 1600
    for count in ranks:
        assert run(*words, "-n", count).stdout == expected, count


@pytest.mark.parametrize("seed", range(100, 200))
def test_killed_at_any_moment(made, tmp_path, undisturbed, seed):  # noqa: F811
    killed(made, tmp_path, undisturbed, seed)

"""Rewards beside TRL 1.16's functions and lm-evaluation-harness's exact_match (reward_cases.json), and `number` beside Python's fractions."""
import fractions
import json
import os
import pathlib
import random
import subprocess

import pytest

TOOL = os.path.join(os.environ["TRIREME_TOOLS"], "reward_tool")
STORED = json.loads((pathlib.Path(__file__).parent / "reward_cases.json").read_text(encoding="utf-8"))
THINK = "^<think>(?!.*<think>)(.*?)</think>.*$"  # the pattern of TRL's think_format_reward


def scored(lines):
    """Returns the tool's answer to each of the lines."""
    given = "".join(json.dumps(line) + "\n" for line in lines)
    printed = subprocess.run([TOOL], input=given, capture_output=True, text=True, check=True).stdout
    return [json.loads(line) for line in printed.splitlines()]


def check(cases, line_of, value_of):
    """Compares the rewards of all cases; value_of(case): the expected reward."""
    assert len(cases) >= 100 and len({value_of(case) for case in cases}) >= 2
    for case, got in zip(cases, scored([line_of(case) for case in cases]), strict=True):
        assert "error" not in got, (case, got)
        assert got["reward"] == pytest.approx(value_of(case), rel=1e-15, abs=1e-15), case


def value(case):
    return case["value"]


def test_thinking_by_a_pattern_is_as_in_trl():
    check(STORED["thinking"], lambda case: dict(settings=dict(name="regex", pattern=r"(?s)\A" + THINK[1:]), text=case["text"]), value)


def test_thinking_by_a_format_also_counts_the_tags():
    def once(case):
        return case["value"] if case["text"].count("<think>") == case["text"].count("</think>") == 1 else 0
    for pattern in (THINK, "<think>.*</think>.*"):
        check(STORED["thinking"], lambda case: dict(settings=dict(name="format", pattern=pattern), text=case["text"]), once)


def test_length_is_trls_soft_overlong_punishment():
    cases = [case for case in STORED["overlong"] if case["buffer"] > 0 or case["max"] > 0]
    check(cases, lambda case: dict(settings=dict(name="length", max=case["max"], buffer=case["buffer"]), tokens=case["tokens"]), value)
    of_rollout = [case for case in cases if case["buffer"] > 0]
    check(of_rollout, lambda case: dict(settings=dict(name="length", buffer=case["buffer"]), tokens=case["tokens"], max_tokens=case["max"]), value)


def test_repetition_is_trls_with_words_as_tokens():
    check(STORED["repetition"],
          lambda case: dict(settings=dict(name="repetition", ngram=case["ngram"], max_penalty=case["max_penalty"]), text=case["text"]), value)


def test_repetition_of_tokens_is_trls():
    def line(case):
        words = case["text"].split()
        numbers = {word: 7 * i for i, word in enumerate(sorted(set(words)))}
        return dict(settings=dict(name="repetition", unit="tokens", ngram=case["ngram"], max_penalty=case["max_penalty"]), text="a a a a a a", ids=[numbers[word] for word in words])
    check(STORED["repetition"], line, value)


def test_exact_is_the_harness_exact_match():
    def line(case):
        rule = {key: case[key] for key in ("ignore_case", "ignore_punctuation", "ignore_numbers")}
        return dict(settings=dict(name="exact", strip=False, **rule), text=case["text"], answer=case["answer"])
    check(STORED["exact"], line, value)


def forms_of(draw, number):
    """Texts of a fraction: as LaTeX, as a/b, and as decimals and percents if these are finite."""
    sign, size = ("-" if number < 0 else ""), abs(number)
    above, below = size.numerator, size.denominator
    yield f"{sign}\\frac{{{above}}}{{{below}}}"
    yield f"{sign}{above * 3}/{below * 3}"
    ten = next((power for power in range(15) if 10 ** power % below == 0), None)
    if ten is None:
        return
    digits = str(above * 10 ** ten // below).rjust(ten + 1, "0")
    whole, decimals = digits[:len(digits) - ten], digits[len(digits) - ten:]
    zeros = "0" * draw.randrange(4)
    yield f"{sign}${int(whole):,}" + (f".{decimals}{zeros}" if decimals else "")
    yield f"{sign}{digits}e-{ten}"
    yield f"{sign}{int(digits):,} \\times 10^{{-{ten}}}"
    yield f"{sign}{digits}00e-{ten}%"


def test_numbers_are_equal_as_fractions_are():
    draw, lines, equal = random.Random(5), [], []
    for _ in range(300):
        first = fractions.Fraction(draw.randrange(-3000, 3000), draw.choice((1, 2, 3, 4, 5, 7, 8, 40, 1000)))
        second = first if draw.random() < 0.5 else first + fractions.Fraction(draw.choice((-1, 1)), draw.choice((1, 3, 10 ** 6)))
        for form in forms_of(draw, first):
            other = draw.choice(list(forms_of(draw, second)))
            text = draw.choice((f"So 7 and then {form}.", f"\\boxed{{x_2 = {form}}} of 9", f"7\n#### {form}", form))
            lines.append(dict(settings=dict(name="number"), text=text, answer=other))
            equal.append(first == second)
    assert 200 < sum(equal) < len(equal) - 200
    wrong = [(line, got) for line, got, same in zip(lines, scored(lines), equal, strict=True) if got.get("reward") != float(same)]
    assert wrong == []


def test_every_kind_is_here_or_in_the_unit_test():
    names = subprocess.run([TOOL, "names"], capture_output=True, text=True, check=True).stdout.split()
    assert names == ["exact", "number", "choice", "regex", "format", "contains", "length", "repetition"]

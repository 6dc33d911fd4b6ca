"""Makes reward_cases.json: rewards of drawn completions by TRL's functions, and lm-evaluation-harness's exact_match.

make_reward_cases.py OUT, in an environment with trl 1.16.0 and lm_eval 0.4.13.
"""
import importlib.metadata
import json
import random
import sys

from lm_eval.api.metrics import exact_match_hf_evaluate
from trl.rewards import get_repetition_penalty_reward, get_soft_overlong_punishment, think_format_reward

THINKING = ("<think>", "</think>", "\n", "so it is ", "<b>", "\u00e4\u00df\u4e2d", "<", "think>", "</think", "<answer>4</answer>", " ")
SPACES = (" ", "\n", "  ", "\t", " \n ")
WORDS = ("a", "b", "A", "the", "\u00e4", "12", "a.")
LETTERS = ("Paris", "paris", " ", "12", "7", ".", "!", "\u00c4\u00c9", "\u00e4\u00e9", "\u0416", "\u0436", "-", "$", "\u2019", "a", "A", "\u0663")
COUNT = 150


def thinking(draw):
    text = "".join(draw.choice(THINKING) for _ in range(draw.randrange(9)))
    text = ("<think>" if draw.random() < 0.7 else "") + text + ("</think> 4" if draw.random() < 0.4 else "")
    return dict(text=text, value=think_format_reward([[dict(content=text)]])[0])


def overlong(draw):
    longest = draw.randrange(1, 40)
    cache = draw.randrange(0, longest + 1)
    tokens = draw.randrange(0, 50)
    return dict(max=longest, buffer=cache, tokens=tokens, value=get_soft_overlong_punishment(longest, cache)([[0] * tokens])[0])


def repetition(draw):
    known = draw.sample(WORDS, draw.randrange(1, len(WORDS) + 1))
    words = [draw.choice(known) for _ in range(draw.randrange(30))]
    ngram, penalty = draw.randrange(1, 6), draw.choice((-1.0, -0.3, -2.5, 0.0))
    text = draw.choice(("", " ", "\n")) + "".join(word + draw.choice(SPACES) for word in words)
    value = get_repetition_penalty_reward(ngram, penalty)([[WORDS.index(word) for word in words]])[0]
    return dict(text=text, ngram=ngram, max_penalty=penalty, value=value)


def changed(draw, text):
    """The text with a few letters replaced or left out, so that many pairs are equal up to some difference."""
    if draw.random() < 0.3:
        text = text.swapcase()
    if draw.random() < 0.3:
        text = "".join(letter for letter in text if letter not in ".!-$")
    return "".join(letter for letter in text if not letter.isdigit()) if draw.random() < 0.3 else text


def exact(draw):
    answer = "x" + "".join(draw.choice(LETTERS) for _ in range(draw.randrange(1, 6)))
    text = changed(draw, answer)
    rule = {key: draw.random() < 0.5 for key in ("ignore_case", "ignore_punctuation", "ignore_numbers")}
    return dict(text=text, answer=answer, **rule, value=float(exact_match_hf_evaluate([text], [answer], **rule)["exact_match"]))


def main(out):
    cases = {}
    for make in (thinking, overlong, repetition, exact):
        draw = random.Random(make.__name__)
        cases[make.__name__] = [make(draw) for _ in range(COUNT)]
    made_by = {name: importlib.metadata.version(name) for name in ("trl", "lm_eval")}
    lines = [json.dumps("made_by") + ": " + json.dumps(made_by)]
    for name, rows in cases.items():
        lines.append(json.dumps(name) + ": [\n" + ",\n".join(json.dumps(row) for row in rows) + "]")
    with open(out, "w", encoding="utf-8") as file:
        file.write("{" + ",\n".join(lines) + "}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])

"""A reward in Python for docs/reinforcement.md: math-verify (`pip install math-verify`) compares the completion with the answer as mathematics, so that 1/2, 0.5 and
50 % are equal. An answer that it cannot read has no verdict."""
import json
import sys

from math_verify import parse, verify

for line in sys.stdin:
    asked = json.loads(line)
    gold = parse(asked["answer"])
    reward = float(verify(gold, parse(asked["completion"]))) if gold else None
    print(json.dumps({"id": asked["id"], "reward": reward}), flush=True)

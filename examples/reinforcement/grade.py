"""A reward in Python for docs/reinforcement.md: the share of the sum's digits that are right.

Reads a line of JSON for each completion and answers with its "id". "answer" is a key of the prompt's line."""
import json
import sys

for line in sys.stdin:
    asked = json.loads(line)
    right = sum(given == wanted for given, wanted in zip(asked["completion"], asked["answer"]))
    print(json.dumps({"id": asked["id"], "reward": right / len(asked["answer"])}), flush=True)

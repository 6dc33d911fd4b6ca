"""A reward's program: reward.py RUN_FILE. The reward is the share of the letters a to e in a completion.

While a file `moody` is next to the run file, which has the probability of it, a line may be the last that the process reads: it
ends, sleeps, closes its output or writes something else than an answer. The next process reads that line again."""
import json
import os
import pathlib
import random
import sys
import time

def misbehave():
    how = random.choice(["end", "kill", "sleep", "close", "rubbish", "no number", "half a line", "another id"])
    if how == "kill":
        os.kill(os.getpid(), 9)
    if how == "close":
        os.close(1)
    if how == "rubbish":
        print("Traceback (most recent call last):\x00\xff", flush=True)
    if how == "no number":
        print('{"id": 1, "reward": NaN}', flush=True)
    if how == "half a line":
        print('{"id": 1, "rew', end="", flush=True)
    if how == "another id":
        print('{"id": 1000000000, "reward": 1}', flush=True)
    if how in ("sleep", "close", "another id"):
        time.sleep(15)  # longer than the run waits, and shorter than soak.py waits for processes that the end of a job leaves
    sys.exit(3)


moody = pathlib.Path(sys.argv[1]).parent / "moody"
for line in sys.stdin:
    asked = json.loads(line)
    if moody.exists() and random.random() < float(moody.read_text() or "0"):
        misbehave()
    text = asked["completion"]
    reward = {"letters": sum(letter in "abcde" for letter in text) / 8, "short": 0.25 * (len(text) < 4)}
    print(json.dumps({"id": asked["id"], "reward": reward if len(text) % 2 else sum(reward.values())}), flush=True)

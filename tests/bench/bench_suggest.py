#!/usr/bin/env python3
"""The search of `trireme tune` beside scikit-optimize's and Optuna's Gaussian processes, on mixed functions.

bench_suggest.py [--seeds N] [--trials N] [--functions a,b] [--methods trireme,skopt,optuna,random]

Every function has integers and most have categories; all samplers see the same finite space and minimise. The
regret is what the best of the trials misses of the least value of the whole space, as a share of what a point at random
misses in the mean. Also how long a suggestion takes when 200 trials are known (--overhead)."""
import argparse
import itertools
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
import warnings

TOOL = os.path.join(os.environ.get("TRIREME_TOOLS", "build/tools"), "suggest_tool")


def rosenbrock(x, y): return 100 * (y - x * x) ** 2 + (x - 1) ** 2
def camel(x, y): return (4 - 2.1 * x * x + x ** 4 / 3) * x * x + x * y + (4 * y * y - 4) * y * y
def beale(x, y): return (1.5 - x + x * y) ** 2 + (2.25 - x + x * y * y) ** 2 + (2.625 - x + x * y ** 3) ** 2


def func2c(p):
    """Of Ru et al. (2020): two categories choose functions of two numbers."""
    x, y = 2 * p["x"] / 20, 2 * p["y"] / 20
    first = [rosenbrock, camel, beale]["rcb".index(p["a"])](x, y)
    return first + dict(r=rosenbrock, c=camel, b=beale, n=lambda *_: 0, m=lambda *_: 1)[p["b"]](x, y)


def func3c(p):
    x, y = 2 * p["x"] / 20, 2 * p["y"] / 20
    value = func2c(p)
    return value + dict(s=5 * camel(x, y), t=2 * rosenbrock(x, y), u=10 * beale(x, y), v=7)[p["c"]]


def ackley(p):
    """Three integers and two categories whose order is hidden."""
    hidden = dict(a=1, b=-2, c=0, d=2, e=-1)
    v = [p["x"], p["y"], p["z"], hidden[p["a"]], hidden[p["b"]]]
    return (-20 * math.exp(-0.2 * math.sqrt(sum(i * i for i in v) / len(v)))
            - math.exp(sum(math.cos(2 * math.pi * i * 0.3) for i in v) / len(v)) + 20 + math.e)


HARTMANN_A = [[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]]
HARTMANN_P = [[1312, 1696, 5569, 124, 8283, 5886], [2329, 4135, 8307, 3736, 1004, 9991], [2348, 1451, 3522, 2883, 3047, 6650], [4047, 8828, 8732, 5743, 1091, 381]]


def hartmann(p):
    v = [p[name] / 7 for name in "uvwxyz"]
    return -sum(alpha * math.exp(-sum(a * (x - q / 1e4) ** 2 for a, x, q in zip(row, v, place)))
                for alpha, row, place in zip([1, 1.2, 3, 3.2], HARTMANN_A, HARTMANN_P))


def branin(p):
    """Branin over integers. A category shifts it, so that its three minima differ."""
    x, y = p["x"] * 15 / 60 - 5, p["y"] * 15 / 60
    value = (y - 5.1 * x * x / (4 * math.pi ** 2) + 5 * x / math.pi - 6) ** 2 + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x) + 10
    return value + dict(a=0, b=4, c=9)[p["k"]] + 0.3 * p["n"]


FUNCTIONS = {
    "func2c": (func2c, dict(a="r c b", b="r c b n m", x=(-20, 20), y=(-20, 20))),
    "func3c": (func3c, dict(a="r c b", b="r c b n m", c="s t u v", x=(-20, 20), y=(-20, 20))),
    "ackley": (ackley, dict(x=(-8, 8), y=(-8, 8), z=(-8, 8), a="a b c d e", b="a b c d e")),
    "hartmann": (hartmann, {name: (0, 7) for name in "uvwxyz"}),
    "branin": (branin, dict(x=(0, 60), y=(0, 60), k="a b c", n=(0, 3))),
}


def points_of(space):
    names = list(space)
    axes = [v.split() if isinstance(v, str) else range(v[0], v[1] + 1) for v in space.values()]
    return (dict(zip(names, point)) for point in itertools.product(*axes))


class Ours:
    def __init__(self, space, seed, method="gaussian", initial=8):
        knobs = [dict(name=k, values=v) if isinstance(v, str) else dict(name=k, low=v[0], high=v[1]) for k, v in space.items()]
        with tempfile.NamedTemporaryFile("w", suffix=".yaml", delete=False) as to:
            json.dump(dict(space=knobs), to)
        self.space = space
        self.tool = subprocess.Popen([TOOL, to.name, method, str(seed), str(initial)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self):
        self.tool.stdin.write("ask\n")
        self.tool.stdin.flush()
        point = dict(word.split("=") for word in self.tool.stdout.readline().strip().split(","))
        return {k: v if isinstance(self.space[k], str) else int(v) for k, v in point.items()}

    def tell(self, point, value):
        self.tool.stdin.write(f"tell {-value!r}\n")
        self.tool.stdin.flush()

    def close(self):
        self.tool.stdin.close()
        self.tool.wait()


class Skopt:
    def __init__(self, space, seed):
        import skopt
        self.names = list(space)
        axes = [skopt.space.Categorical(v.split()) if isinstance(v, str) else skopt.space.Integer(*v) for v in space.values()]
        self.optimizer = skopt.Optimizer(axes, base_estimator="GP", n_initial_points=10, random_state=seed)

    def ask(self):
        self.asked = self.optimizer.ask()
        return {k: v if isinstance(v, str) else int(v) for k, v in zip(self.names, self.asked)}

    def tell(self, point, value):
        self.optimizer.tell(self.asked, value)

    def close(self):
        pass


class Optuna:
    def __init__(self, space, seed):
        import optuna
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.space = space
        self.study = optuna.create_study(sampler=optuna.samplers.GPSampler(seed=seed))

    def ask(self):
        self.trial = self.study.ask()
        return {k: self.trial.suggest_categorical(k, v.split()) if isinstance(v, str) else self.trial.suggest_int(k, *v) for k, v in self.space.items()}

    def tell(self, point, value):
        self.study.tell(self.trial, value)

    def close(self):
        pass


METHODS = dict(trireme=Ours, random=lambda space, seed: Ours(space, seed, "random"), skopt=Skopt, optuna=Optuna)


def best_of(method, name, seed, trials):
    function, space = FUNCTIONS[name]
    sampler, best = METHODS[method](space, seed), math.inf
    for _ in range(trials):
        point = sampler.ask()
        value = function(point)
        best = min(best, value)
        sampler.tell(point, value)
    sampler.close()
    return best


def overhead(known):
    function, space = FUNCTIONS["ackley"]
    sampler, times = Ours(space, 1), []
    for _ in range(known + 20):
        begin = time.perf_counter()
        point = sampler.ask()
        times.append(time.perf_counter() - begin)
        sampler.tell(point, function(point))
    sampler.close()
    late = times[known - 20:]
    return statistics.median(late), max(late)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--trials", type=int, default=50)
    parser.add_argument("--functions", default=",".join(FUNCTIONS))
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--overhead", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.overhead:
        median, most = overhead(200)
        print(f"a suggestion at 180 to 220 trials: median {1e3 * median:.1f} ms, at most {1e3 * most:.1f} ms")
        return
    print("| function | points |", " | ".join(given.methods.split(",")), "|")
    print("| --- |", " | ".join("---" for _ in range(1 + len(given.methods.split(",")))), "|")
    for name in given.functions.split(","):
        function, space = FUNCTIONS[name]
        values = [function(p) for p in points_of(space)]
        least, usual = min(values), statistics.fmean(values)
        cells = []
        for method in given.methods.split(","):
            regrets = [(best_of(method, name, seed, given.trials) - least) / (usual - least) for seed in range(1, given.seeds + 1)]
            cells.append(f"{statistics.median(regrets):.5f}")
            print(name, method, [f"{r:.4f}" for r in regrets], file=sys.stderr, flush=True)
        print(f"| {name} | {len(values)} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()

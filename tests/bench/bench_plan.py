"""How fast simulating and searching are, and how much memory they take: see docs/planning.md.

bench_plan.py"""
import json
import resource
import statistics
import subprocess
import time

import bench


def timed(*arguments, rounds=7):
    """Seconds of the whole command, median and best."""
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        subprocess.run([bench.TRIREME, *map(str, arguments)], check=True, capture_output=True)
        times.append(time.perf_counter() - begin)
    return statistics.median(times), min(times)


def main():
    one = ["--model", "frontier-1t", "--cluster", "frontier", "--devices", 3072, "--global-batch", 9600]
    rows = {
        "`trireme --version` (the start of a process)": ["--version"],
        "1T on 3,072 devices, one layout (1F1B)": ["simulate", *one, "--layout", "tensor=8,pipeline=64,zero=1,recompute=full"],
        "the same, interleaved": ["simulate", *one, "--layout", "tensor=8,pipeline=64,virtual_stages=2,schedule=interleaved,zero=1,recompute=full"],
        "the same, zero-bubble": ["simulate", *one, "--layout", "tensor=8,pipeline=64,schedule=zero-bubble,zero=1,recompute=full"],
        "the same, GPipe": ["simulate", *one, "--layout", "tensor=8,pipeline=64,schedule=gpipe,zero=1,recompute=full"],
        "1T on 102,400 H100s, one layout": ["simulate", "--model", "frontier-1t", "--cluster", "dgx-h100", "--devices", 102400, "--global-batch",
                                            102400, "--layout", "tensor=8,pipeline=16,zero=1,recompute=full"],
        "1T on 3,072 devices, the search": ["plan", *one],
        "175B on 1,024 devices, the search": ["plan", "--model", "frontier-175b", "--cluster", "frontier", "--devices", 1024, "--global-batch", 10240],
        "Llama 3 405B on 16,384 devices, the search": ["plan", "--model", "llama-3-405b", "--cluster", "dgx-h100", "--devices", 16384,
                                                       "--global-batch", 2048, "--sequence", 8192],
        "22B on 16 devices, the search": ["plan", "--model", "frontier-22b", "--cluster", "frontier", "--devices", 16, "--global-batch", 64],
        "the same without pruning": ["plan", "--model", "frontier-22b", "--cluster", "frontier", "--devices", 16, "--global-batch", 64, "--exhaustive"],
        "`trireme validate`, 830 rows": ["validate", "--json"],
    }
    results = {}
    print("| | median | best |\n| --- | ---: | ---: |")
    for name, words in rows.items():
        results[name] = timed(*words)
        print(f"| {name} | {1e3 * results[name][0]:.0f} ms | {1e3 * results[name][1]:.0f} ms |", flush=True)
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"\nThe largest of these processes held {most:.0f} MiB.")
    (bench.OUT / "plan.json").write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()

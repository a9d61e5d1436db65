# SPDX-License-Identifier: BSD-3-Clause
"""The microbenchmarks of a build."""
import json
import subprocess

from processes import Failure


def run(build, seconds):
    """Runs every benchmark for at least `seconds`. Returns for each its ns and cycles of the time-stamp counter
    per item, and its rates."""
    rows = []
    for program in sorted((build / "perf").rglob("*_bench")):
        answer = subprocess.run(
            [program, "--benchmark_format=json", f"--benchmark_min_time={seconds}"],
            capture_output=True, text=True, timeout=600)
        if answer.returncode:
            raise Failure(f"{program.name}: {answer.stderr[-2000:]}")
        for row in json.loads(answer.stdout)["benchmarks"]:
            rows.append({"program": program.name, "name": row["name"], "ns": row["cpu_time"],
                         "items_per_second": row.get("items_per_second"),
                         "bytes_per_second": row.get("bytes_per_second"),
                         "tsc_per_pkt": row.get("tsc_per_pkt")})
    return rows

# SPDX-License-Identifier: BSD-3-Clause
"""Measures ping's round trips through two idle nodes, see perf/latency.sh."""
import os
import subprocess

from processes import ROOT, Failure


TURNS = 4


def percentile(ordered, share):
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def round_trips(ordered):
    if not ordered:
        raise Failure("perf/latency.sh: no ping was answered")
    return {"answered": len(ordered), "round_trip_seconds": {
        "least": ordered[0], "median": percentile(ordered, 0.5), "p90": percentile(ordered, 0.9),
        "p99": percentile(ordered, 0.99), "most": ordered[-1]}}


def measure(build, count):
    cpus = sorted(os.sched_getaffinity(0))
    answer = subprocess.run(
        [ROOT / "perf/latency.sh", str(TURNS), str(count // TURNS), str(cpus[0]), str(cpus[-1])],
        capture_output=True, text=True, env=os.environ | {"IPOIB_BUILD": str(build)})
    if answer.returncode:
        raise Failure(f"perf/latency.sh: {answer.stderr[-3000:]}")
    rows = [line.split() for line in answer.stdout.splitlines()]
    return {"asked": count // TURNS * TURNS, "cpus": len(cpus), **{
        way: round_trips(sorted(float(millis) / 1e3 for name, millis in rows if name == way))
        for way in ("nodes", "veth")}}

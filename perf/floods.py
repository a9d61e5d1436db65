# SPDX-License-Identifier: BSD-3-Clause
"""Floods of strangers against a node in virtual time (tests/flood): what they cost others. The method for scans is that of
RFC 8161: a stream between established hosts, a scanner stream of rising rate, the loss of the former."""
import concurrent.futures
import json
import os
import subprocess

from processes import Failure

SCAN = "A5-8"
# The class of a curve, what it shows, and the figures of a row that it is made from.
CURVES = (("icrc", "stream to IPoIB", "to_ipoib"), ("no_icrc", "stream to Ethernet", "to_ethernet"),
          ("kernel", "first packets to new hosts, within 3 s", "new_first_3s"))


def run(bench, *arguments):
    """Returns the figures of one flood. Status 1 says that a limit is not kept, which the figures name."""
    done = subprocess.run([bench, "--json", *arguments], capture_output=True, text=True)
    if done.returncode > 1:
        raise Failure(f"flood_bench {' '.join(arguments)}: {done.stderr.strip() or done.returncode}")
    return json.loads(done.stdout.splitlines()[-1])


def rows_of(bench):
    listed = subprocess.run([bench, "--list"], capture_output=True, text=True, check=True).stdout
    return [line.split("\t")[0] for line in listed.splitlines()]


def measure(build, rates, rows, is_long):
    """`rates`: of the scan, packets a second. `rows`: the number of floods that are measured; None: all."""
    bench = build / "tests/flood/flood_bench"
    if not bench.exists():
        return {"reason": "tests/flood/flood_bench is not built (meson option tests)"}
    form = ["--long"] if is_long else []
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        scans = pool.map(lambda rate: run(bench, f"--rate={rate}", SCAN), rates)
        floods = pool.map(lambda row: run(bench, *form, row), rows_of(bench)[:rows])
        return {"scan": list(scans), "floods": list(floods)}


def share(value):
    return "-" if value is None else f"{value:.2%}"


HEADS = ("flood", "frames/s", "neighbours lost", "stream to IPoIB", "to Ethernet", "new hosts, 1 s", "3 s", "joins, 1 s",
         "longest turn, ms", "free mbufs", "")


def cells(flood):
    return (flood["row"], f"{flood['rate']:,}", str(flood["lost_neighbours"]), share(flood["to_ipoib"]),
            share(flood["to_ethernet"]), share(flood["new_first_1s"]), share(flood["new_first_3s"]),
            share(flood["joins_1s"]), f"{flood['longest_turn_ms']:.2f}", share(flood["free_mbufs"]),
            "limits not kept: " + "; ".join(flood["broken"]) if flood["broken"] else "")


def text_lines(report):
    row = report.get("floods")
    if not row:
        return []
    if "reason" in row:
        return ["", f"floods: not measured, {row['reason']}"]
    width = "{:9} {:>10} {:>15} {:>15} {:>12} {:>14} {:>8} {:>10} {:>16} {:>10}  {}"
    return ["", "Floods of strangers, in virtual time, beside 1,000 established neighbours", width.format(*HEADS).rstrip(),
            *(width.format(*cells(flood)).rstrip() for flood in row["floods"]),
            "", f"Scan of 8 links ({SCAN}), by its rate",
            *(width.format(*cells(flood)[:-1], "").rstrip() for flood in row["scan"])]


def lost(scan, key):
    """A curve: the rate of the scan, and per cent of packets lost. There is one run of each, so no spread."""
    points = [(flood["rate"], 100 * (1 - flood[key])) for flood in scan if flood[key] is not None]
    return [(rate, value, value, value) for rate, value in points]

#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measures, compares the results with the targets, and writes the report. See perf/run and perf/README.md."""
import argparse
import dataclasses
import json
import os
import pathlib
import sys
import time

import benchmarks
import floods
import kernel
import latency
import machine
import measuring
import memory
import report_html
import report_text
import scenes
import scraping
import targets
from processes import ROOT, Failure, end_in_order

PARTS = ("headline", "sizes", "neighbours", "routes", "groups", "burst", "workers", "shared", "passed", "kernel", "latency",
         "scraping", "floods", "benchmarks")


def say(line):
    print(line, flush=True)


def measure_scene(makers, scene, memory_of_run, plan, rounds):
    samples = measuring.alternate(makers, scene, memory_of_run, rounds, plan.slices,
                                  plan.slice_seconds)
    return measuring.figures(samples, scene)


def throughput(options, plan, memory_of_run):
    cpus = len(os.sched_getaffinity(0))
    points = []
    for sweep in (scenes.HEADLINE, *plan.sweeps(cpus)):
        if sweep.name not in options.parts:
            continue
        rounds = plan.headline_rounds if sweep is scenes.HEADLINE else plan.sweep_rounds
        for scene in sweep.scenes():
            makers = measuring.compared(options.build / "app/dpdk-ipoib", scene, options.l3fwd)
            programs = measure_scene(makers, scene, memory_of_run, plan, rounds)
            points.append({"sweep": sweep.name, "scene": dataclasses.asdict(scene),
                           "x": getattr(scene, sweep.field), "programs": programs})
            say(f"  {report_text.progress(sweep, points[-1])}")
    return points


def kernel_forwarding(plan, memory_of_run):
    if os.geteuid():
        return {"reason": "network namespaces need root"}
    taken = kernel.measure(scenes.Scene(), memory_of_run, plan.headline_rounds * plan.slices,
                           plan.slice_seconds)
    rates = [sample["packets_per_second"] for sample in taken]
    row = {"packets_per_second": measuring.spread(rates),
           "ns_per_packet": measuring.spread([1e9 / rate for rate in rates]),
           "refused_share": min(sample["refused_share"] for sample in taken),
           "overflow_share": max(sample["overflow_share"] for sample in taken), "samples": taken}
    say(f"  kernel: {row['packets_per_second']['median'] / 1e6:.2f} million packets/s")
    return row


def scraped(options, plan, memory_of_run):
    row = scraping.measure(options.build / "app/dpdk-ipoib", scenes.Scene(), memory_of_run,
                           6 * plan.slices, 2 * plan.slice_seconds)
    say(f"  scraping: {row['per_second']}/s leaves {row['ratio']['median']:.3f}")
    return row


def ping(options, plan):
    if os.geteuid():
        return {"reason": "network namespaces need root"}
    if len(os.sched_getaffinity(0)) < 2:
        return {"reason": "two polling workers need a CPU each"}
    row = latency.measure(options.build, plan.pings)
    say("  ping: median " + ", ".join(
        f"{row[way]['round_trip_seconds']['median'] * 1e6:.0f} µs {what}"
        for way, what in (("nodes", "through two nodes"), ("veth", "over veth"))))
    return row


def measure(options, plan):
    begin = time.monotonic()
    programs = 5 if options.l3fwd else 4
    most_mib = programs * max((scene.memory_mib for sweep in plan.sweeps(2) for scene in sweep.scenes()
                               if sweep.name in options.parts), default=scenes.Scene().memory_mib)
    report = {"format": 3, "machine": machine.describe(), "plan": dataclasses.asdict(plan),
              "parts": list(options.parts)}
    with memory.for_run(most_mib, not options.no_huge) as memory_of_run:
        report["memory"] = str(memory_of_run)
        say(f"measuring with {memory_of_run}")
        report["throughput"] = throughput(options, plan, memory_of_run)
        if "kernel" in options.parts:
            report["kernel"] = kernel_forwarding(plan, memory_of_run)
        if "scraping" in options.parts:
            report["scraping"] = scraped(options, plan, memory_of_run)
    if "latency" in options.parts:
        report["latency"] = ping(options, plan)
    if "floods" in options.parts:
        say("  floods")
        report["floods"] = floods.measure(options.build, plan.flood_rates, plan.floods, plan.long_floods)
    if "benchmarks" in options.parts:
        say("  microbenchmarks")
        report["benchmarks"] = benchmarks.run(options.build, plan.benchmark_seconds)
    report["targets"] = targets.judge(report)
    report["minutes"] = (time.monotonic() - begin) / 60
    return report


def write(report, folder):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.json").write_text(json.dumps(report, indent=1) + "\n")
    text = report_text.render(report)
    (folder / "report.txt").write_text(text)
    (folder / "report.html").write_text(report_html.render(report))
    return text


def arguments():
    parser = argparse.ArgumentParser(prog="perf/run")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", dest="plan", action="store_const", const=scenes.QUICK,
                      help="fewer points and repetitions")
    size.add_argument("--smoke", dest="plan", action="store_const", const=scenes.SMOKE,
                      help="shortest run, to test the measurement itself; the figures are meaningless")
    parser.add_argument("--only", metavar="PART,...", help=f"measure only these parts: {', '.join(PARTS)}")
    parser.add_argument("--no-huge", action="store_true", help="use 4 KiB pages instead of hugepages")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build",
                        help="build folder to measure, which is not rebuilt")
    parser.add_argument("--l3fwd", type=pathlib.Path, metavar="PROGRAM",
                        help="measure this l3fwd of DPDK too (perf/peers builds it)")
    parser.add_argument("--report", type=pathlib.Path, default=ROOT / "perf/report",
                        help="folder for report.txt, report.json and report.html")
    parser.add_argument("--render", type=pathlib.Path, metavar="JSON",
                        help="write the report of an existing report.json without measuring")
    parser.set_defaults(plan=scenes.FULL)
    options = parser.parse_args()
    options.build = options.build.resolve()
    options.parts = options.only.split(",") if options.only else PARTS
    if not options.only:
        options.plan = dataclasses.replace(options.plan, long_floods=False)
    for part in options.parts:
        if part not in PARTS:
            parser.error(f"--only: unknown part {part}; allowed: {', '.join(PARTS)}")
    return options


def main():
    options = arguments()
    report = (json.loads(options.render.read_text()) if options.render
              else measure(options, options.plan))
    say("\n" + write(report, options.report))
    return 0 if all(row["reached"] for row in report["targets"]) else 1


if __name__ == "__main__":
    end_in_order()
    try:
        sys.exit(main())
    except Failure as failure:
        print(f"perf: {failure}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)

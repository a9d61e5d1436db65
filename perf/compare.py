# SPDX-License-Identifier: BSD-3-Clause
"""Compares B with A, see perf/compare. This harness measures the programs of both revisions in the same run."""
import argparse
import contextlib
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import measuring
import memory
import processes
import report_text
import scenes
from processes import ROOT, Failure, end_in_order

SLICES, SLICE_SECONDS = 5, 0.25
FEWEST_SAMPLES = 6  # Fewer samples have no interval of 95 % by order statistics.
SMALLEST_CHANGE = 0.01


def command(*arguments, folder=ROOT):
    answer = subprocess.run(arguments, cwd=folder, capture_output=True, text=True)
    if answer.returncode:
        raise Failure(f"{' '.join(map(str, arguments))}:\n{(answer.stdout + answer.stderr)[-3000:]}")
    return answer.stdout.strip()


@contextlib.contextmanager
def built(revision, folder):
    """Builds a revision in a temporary worktree, which is removed at the end. Yields its program and commit."""
    commit = command("git", "rev-parse", "--short=12", "--verify", f"{revision}^{{commit}}")
    tree = folder / commit
    print(f"building {revision} ({commit})", flush=True)
    command("git", "worktree", "add", "--detach", tree, commit)
    try:
        command(tree / "config/build.sh", "build", "-Dtests=false", "-Dbenchmarks=false", "--",
                "app/dpdk-ipoib", folder=tree)
        yield tree / "build/app/dpdk-ipoib", commit
    finally:
        command("git", "worktree", "remove", "--force", tree)


def median_interval(values):
    """Returns the median and the interval that contains the population's median with 95 %. The ranks of the
    binomial distribution give it, without an assumption about the distribution of the noise."""
    ordered, n = sorted(values), len(values)
    below, rank, ways = 0.0, 0, 1.0
    while below + ways / 2**n <= 0.025:  # The chance that `rank` values or fewer are below the median.
        below += ways / 2**n
        rank += 1
        ways = ways * (n - rank + 1) / rank
    lowest = max(0, rank - 1)
    middle = (ordered[(n - 1) // 2] + ordered[n // 2]) / 2
    return middle, ordered[lowest], ordered[n - 1 - lowest]


def verdict(middle, low, high, samples, starts=()):
    """Returns the verdict on a ratio B/A. It is a change if the whole interval and the median of every start are on
    one side of 1 and the change is at least SMALLEST_CHANGE. Every start has its memory at other addresses."""
    if samples < FEWEST_SAMPLES:
        return "too few samples"
    if low <= 1 <= high or abs(middle - 1) < SMALLEST_CHANGE:
        return "noise"
    if any((start > 1) != (middle > 1) for start in starts):
        return "noise"
    return "FASTER" if middle > 1 else "SLOWER"


HEAD = (f"{'':42} {'A':>10} {'B':>10} {'B/A':>6} {'95 % of B/A':>13}\n"
        f"{'':42} {'Mpkt/s':>10} {'Mpkt/s':>10}")


def line(title, a, b, ratio, low, high, words):
    return (f"{title:42} {report_text.number(a / 1e6):>10} {report_text.number(b / 1e6):>10} "
            f"{ratio:6.3f} {low:6.3f}-{high:.3f}  {words}")


def scene_title(path, octets, program):
    return f"{scenes.PATHS[path]}, {octets} octets, {'ICRC' if program == 'icrc' else 'no ICRC'}"


def of_revisions(options):
    """Compares two revisions. Every round restarts testpmd and both programs. testpmd runs beside them as in perf/run;
    its samples are not used."""
    with tempfile.TemporaryDirectory(prefix="ipoib-compare-") as name, contextlib.ExitStack() as stack:
        folder = pathlib.Path(name)
        programs = {key: stack.enter_context(built(revision, folder / key))
                    for key, revision in (("a", options.a), ("b", options.b))}
        makers = {"io": lambda *where: processes.Testpmd(*where, "io")}
        for key, (program, _) in programs.items():
            for icrc in ("on", "off"):
                makers[f"{key}_{icrc}"] = (lambda *where, program=program, icrc=icrc:
                                           processes.Node(*where, program, icrc))
        print(f"A {programs['a'][1]}  B {programs['b'][1]}; {options.rounds} starts, {SLICES} turns of "
              f"{SLICE_SECONDS} s of CPU time in each\n\n{HEAD}", flush=True)
        with memory.for_run(len(makers) * scenes.Scene().memory_mib) as memory_of_run:
            for path, octets in options.scenes:
                scene = scenes.Scene(path=path, ip_octets=octets)
                samples = measuring.alternate(makers, scene, memory_of_run, options.rounds, SLICES,
                                              SLICE_SECONDS)
                for icrc in ("on", "off"):
                    rates = {key: [taken["packets_per_second"] for taken in samples[f"{key}_{icrc}"]]
                             for key in "ab"}
                    ratios = [b / a for a, b in zip(rates["a"], rates["b"])]
                    interval = median_interval(ratios)
                    starts = [statistics.median(ratios[first:first + SLICES])
                              for first in range(0, len(ratios), SLICES)]
                    print(line(scene_title(path, octets, "icrc" if icrc == "on" else ""),
                               *(median_interval(rates[key])[0] for key in "ab"), *interval,
                               verdict(*interval, len(ratios), starts)), flush=True)


def of_reports(options):
    """Compares two reports. They were made at different times, so the shares of testpmd io are compared, which was
    measured in both. The interval reaches from the worst to the best quotient of two shares."""
    reports = [json.loads(pathlib.Path(name).read_text()) for name in (options.a, options.b)]
    points = [{(point["sweep"], point["scene"]["path"], point["x"]): point["programs"]
               for point in report["throughput"]} for report in reports]
    titles = {sweep.name: sweep.unit for sweep in (scenes.HEADLINE, *scenes.SWEEPS)}
    print(f"A {reports[0]['machine']['commit']}  B {reports[1]['machine']['commit']}; B/A of the shares of "
          f"testpmd io; the range is of the extremes\n\n{HEAD}")
    for key in (key for key in points[0] if key in points[1]):
        for program in report_text.OWN:
            a, b = (rows[key][program] for rows in points)
            of_a, of_b = (row["ratio_to"]["io"] for row in (a, b))
            middle = of_b["median"] / of_a["median"]
            low, high = of_b["least"] / of_a["most"], of_b["most"] / of_a["least"]
            title = f"{scenes.PATHS[key[1]]}, {key[2]:,} {titles[key[0]]}{'' if program == 'icrc' else ', no ICRC'}"
            print(line(title, a["packets_per_second"]["median"], b["packets_per_second"]["median"], middle,
                       low, high, verdict(middle, low, high, min(len(a["samples"]), len(b["samples"])))))


def scene_list(text):
    rows = []
    for word in text.split(","):
        path, _, octets = word.partition(":")
        if path not in scenes.PATHS or not octets.isdigit() or not 44 <= int(octets) <= 4092:
            raise argparse.ArgumentTypeError(f"'{word}' is not PATH:OCTETS; paths: {', '.join(scenes.PATHS)}; "
                                             "octets: 44-4092")
        rows.append((path, int(octets)))
    return rows


def main():
    parser = argparse.ArgumentParser(prog="perf/compare", description="Compares the speed of B with that of A.")
    parser.add_argument("a", metavar="A", help="revision or report.json to compare with")
    parser.add_argument("b", metavar="B", help="revision or report.json to compare")
    parser.add_argument("--rounds", type=int, default=3, help="number of rounds; each starts all programs once")
    parser.add_argument("--scenes", type=scene_list, default=scene_list("out:64,in:64,across:64,out:2044"),
                        help="PATH:OCTETS, separated by commas: path out, in or across, and the size of the IP packet")
    options = parser.parse_args()
    reports = [name.endswith(".json") for name in (options.a, options.b)]
    if reports[0] != reports[1]:
        parser.error("A and B must both be revisions or both be reports")
    (of_reports if all(reports) else of_revisions)(options)


if __name__ == "__main__":
    end_in_order()
    try:
        main()
    except (Failure, OSError, ValueError, KeyError) as failure:
        print(f"perf/compare: {failure}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)

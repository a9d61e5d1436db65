# SPDX-License-Identifier: BSD-3-Clause
"""Writes the report as text. Also the titles, names and formats of numbers, which the HTML report uses too."""
import floods
import scenes

PROGRAMS = {"icrc": "dpdk-ipoib, ICRC", "no_icrc": "dpdk-ipoib, no ICRC", "io": "testpmd io",
            "5tswap": "testpmd 5tswap", "l3fwd": "l3fwd LPM"}
BESIDE = ("io", "5tswap", "l3fwd")  # The programs of which every rate is a share.
OWN = ("icrc", "no_icrc")
LOSS_WORTH_SAYING = 0.001


def sweeps(report):
    """Yields every sweep that was measured, with its points by path."""
    for sweep in (scenes.HEADLINE, *scenes.SWEEPS):
        points = [point for point in report["throughput"] if point["sweep"] == sweep.name]
        by_path = {path: [point for point in points if point["scene"]["path"] == path]
                   for path in scenes.PATHS}
        if points:
            yield sweep, {path: rows for path, rows in by_path.items() if rows}


def number(value):
    """The number with no decimal from 100 on, with one from 10 on, else with two."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def with_spread(spread, factor=1.0):
    return (f"{number(spread['median'] * factor)} "
            f"({number(spread['least'] * factor)}-{number(spread['most'] * factor)})")


def progress(sweep, point):
    programs = point["programs"]
    ratios = ", ".join(f"{name} {programs[name]['ratio_to']['io']['median']:.2f}" for name in OWN)
    return (f"{scenes.PATHS[point['scene']['path']]}, {point['x']:,} {sweep.unit}: testpmd io "
            f"{programs['io']['packets_per_second']['median'] / 1e6:.2f} million packets/s; of that {ratios}")


def about(report):
    here, plan = report["machine"], report["plan"]
    shares = [row["cpu_share"] for point in report["throughput"] if point["scene"]["workers"] <= here["cpus"]
              for row in point["programs"].values()]
    lines = [
        f"{here['cpu']}, {here['cpus']} CPUs, Linux {here['kernel']}, DPDK {here['dpdk']}, "
        f"commit {here['commit']}{' and changes' if here['dirty'] else ''}",
        f"{report['memory']}; plan {plan['name']}: {plan['headline_rounds']} starts of 64-octet "
        f"packets, {plan['sweep_rounds']} of the others, {plan['slices']} turns of "
        f"{plan['slice_seconds']} s of CPU time in each; {report['minutes']:.1f} minutes",
        "Median (least-most) over all turns; rates are per second of the worker's CPU time."]
    if shares:
        lines.append(f"Load at the start {here['load']:.1f}; workers had {min(shares):.0%}-"
                     f"{max(shares):.0%} of a CPU.")
    if plan["name"] == "smoke":
        lines.append("A run to see that measuring works: its figures mean nothing.")
    return lines


def target_lines(report):
    lines = [f"{'target':52} {'measured':>24} {'to reach':>8}"]
    for row in report["targets"]:
        lines.append(f"{row['what']:52} {with_spread(row['measured']):>24} {row['to_reach']:8g} "
                     f"{row['unit']:16} {'pass' if row['reached'] else 'FAIL'}")
    return lines


def kernel_lines(report):
    row = report.get("kernel")
    if not row:
        return []
    if "reason" in row:
        return ["", f"Linux kernel forwarding: not measured, {row['reason']}"]
    return ["", "Linux kernel forwarding 64-octet packets between veth pairs, of one CPU: "
            f"{with_spread(row['packets_per_second'], 1e-6)} million packets/s, "
            f"{with_spread(row['ns_per_packet'])} ns/packet",
            f"  It was offered more than it took: at least {row['refused_share']:.0%} were refused."
            if row["refused_share"] > 0.01 else
            "  It was not always offered more than it takes; then its batches are smaller than they could be."]


def latency_lines(report):
    row = report.get("latency")
    if not row:
        return []
    if "reason" in row:
        return ["", f"ping: not measured, {row['reason']}"]
    return ["", *(f"ping {what}: {row[way]['answered']} of {row['asked']} answered; µs: " + ", ".join(
        f"{name} {seconds * 1e6:.0f}" for name, seconds in row[way]["round_trip_seconds"].items())
        for way, what in (("nodes", "through two idle nodes"), ("veth", "between the same hosts over veth")))]


def scraping_lines(report):
    row = report.get("scraping")
    return ["", f"Scraped {row['per_second']} times a second (Prometheus, 64-octet packets, Ethernet → IPoIB): "
            f"the worker keeps {with_spread(row['ratio'])} of its rate; {row['scrapes']} answers, each in "
            f"{with_spread(row['answer_seconds'], 1e3)} ms"] if row else []


def point_lines(point, kernel_rate):
    for name, row in point["programs"].items():
        ratios = row["ratio_to"]
        beside = [f"{ratios[to]['median']:.2f} ({ratios[to]['least']:.2f}-{ratios[to]['most']:.2f})"
                  if name != to and to in ratios else "" for to in BESIDE]
        times = f"{row['packets_per_second']['median'] / kernel_rate:.1f}" if kernel_rate else ""
        loss = f"{row['lost_share']:.1%} lost" if row["lost_share"] > LOSS_WORTH_SAYING else ""
        yield (f"{point['x']:>9,} {PROGRAMS[name]:20} {with_spread(row['packets_per_second'], 1e-6):>20} "
               f"{with_spread(row['ns_per_packet']):>22} {row['ip_bits_per_second']['median'] / 1e9:8.1f} "
               f"{beside[0]:>17} {beside[1]:>17} {beside[2]:>17} {times:>7} {loss}").rstrip()


def kernel_rate_of(report):
    return report.get("kernel", {}).get("packets_per_second", {}).get("median")


def render(report):
    lines = ["dpdk-ipoib beside other DPDK programs and the Linux kernel", *about(report), ""]
    if report["targets"]:
        lines += target_lines(report)
    lines += kernel_lines(report) + latency_lines(report) + scraping_lines(report) + floods.text_lines(report)
    for sweep, paths in sweeps(report):
        lines += ["", f"{sweep.title}. {sweep.about}".rstrip()]
        for path, points in paths.items():
            lines += ["", f"{scenes.PATHS[path]}, by {sweep.unit}",
                      f"{'':9} {'':20} {'million packets/s':>20} {'ns/packet':>22} {'Gb/s':>8} "
                      f"{'of testpmd io':>17} {'of 5tswap':>17} {'of l3fwd':>17} {'×kernel':>7}"]
            for point in points:
                lines += point_lines(point, kernel_rate_of(report))
    if report.get("benchmarks"):
        lines += ["", f"{'microbenchmark':56} {'ns':>10} {'M items/s':>10} {'TSC/pkt':>8}"]
        lines += map(benchmark_line, report["benchmarks"])
    return "\n".join(lines) + "\n"


def benchmark_line(row):
    items = f"{row['items_per_second'] / 1e6:10.2f}" if row["items_per_second"] else " " * 10
    cycles = f"{row['tsc_per_pkt']:8.1f}" if row["tsc_per_pkt"] else ""
    return f"{row['name']:56} {row['ns']:10.2f} {items} {cycles}".rstrip()

# SPDX-License-Identifier: BSD-3-Clause
"""The targets. The medians of a report are compared with them."""
NAMES = {"out": "Ethernet→IPoIB", "in": "IPoIB→Ethernet", "across": "IPoIB→IPoIB"}
RATIOS_TO_IO = {("out", "icrc"): 0.40, ("in", "icrc"): 0.40, ("across", "icrc"): 0.30,
                ("out", "no_icrc"): 0.75, ("in", "no_icrc"): 0.75}
TIMES_THE_KERNEL = 10.0
LARGE_OCTETS, LARGE_BITS_PER_SECOND = 2044, 100e9
PING_SECONDS = 100e-6
UNSCRAPED_SHARE = 0.998


def row(what, measured, to_reach, unit, reached):
    """One line of the result. `measured` has the median, the least and the most."""
    return {"what": what, "measured": measured, "to_reach": to_reach, "unit": unit,
            "reached": bool(reached)}


def at_least(what, measured, to_reach, unit):
    return row(what, measured, to_reach, unit, measured["median"] >= to_reach)


def scaled(spread, factor):
    return {key: value * factor for key, value in spread.items()}


def points(report, sweep, **scene):
    return [point for point in report.get("throughput", []) if point["sweep"] == sweep and
            all(point["scene"][key] == value for key, value in scene.items())]


def judge(report):
    rows = []
    for (path, program), needed in RATIOS_TO_IO.items():
        for point in points(report, "headline", path=path):
            rows.append(at_least(
                f"{NAMES[path]}, 64 octets, {'with' if program == 'icrc' else 'without'} ICRC",
                point["programs"][program]["ratio_to"]["io"], needed, "of testpmd io"))
    for path, name in NAMES.items():
        for point in points(report, "sizes", path=path, ip_octets=LARGE_OCTETS):
            rows.append(at_least(
                f"{name}, {LARGE_OCTETS} octets, with ICRC",
                scaled(point["programs"]["icrc"]["ip_bits_per_second"], 1e-9),
                LARGE_BITS_PER_SECOND / 1e9, "Gb/s"))
    kernel = report.get("kernel", {}).get("packets_per_second")
    for path in ("out", "in") if kernel else ():
        for point in points(report, "headline", path=path):
            rate = point["programs"]["icrc"]["packets_per_second"]
            rows.append(at_least(
                f"{NAMES[path]}, 64 octets, with ICRC",
                {"median": rate["median"] / kernel["median"], "least": rate["least"] / kernel["most"],
                 "most": rate["most"] / kernel["least"]},
                TIMES_THE_KERNEL, "times the kernel"))
    scraped = report.get("scraping")
    if scraped:
        rows.append(at_least("rate of a worker scraped once a second",
                             {key: 1 - (1 - ratio) / scraped["per_second"]
                              for key, ratio in scraped["ratio"].items()}, UNSCRAPED_SHARE, "of its own"))
    ping = report.get("latency", {}).get("nodes", {}).get("round_trip_seconds")
    if ping:
        micros = {"median": ping["median"] * 1e6, "least": ping["least"] * 1e6,
                  "most": ping["p99"] * 1e6}
        rows.append(row("ping through two nodes, median (least, p99)", micros, PING_SECONDS * 1e6, "µs",
                        ping["median"] < PING_SECONDS))
    return rows

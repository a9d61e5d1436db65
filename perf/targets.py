# SPDX-License-Identifier: BSD-3-Clause
"""The targets. The medians of a report are compared with them."""
NAMES = {"out": "Ethernet→IPoIB", "in": "IPoIB→Ethernet", "across": "IPoIB→IPoIB"}
RATIOS_TO_IO = {("out", "icrc"): 0.50, ("in", "icrc"): 0.45, ("across", "icrc"): 0.38,
                ("out", "no_icrc"): 0.62, ("in", "no_icrc"): 0.58, ("across", "no_icrc"): 0.52}
RATIO_TO_L3FWD = 0.75   # Without ICRC.
GROUPS_RATIO_TO_IO = 0.40
TIMES_THE_KERNEL = 10.0
LARGE_OCTETS = 2044
LARGE_GB_PER_SECOND = {"out": 100, "in": 100, "across": 85}  # With AVX-512.
NARROW_GB_PER_SECOND = {"out": 85, "in": 85, "across": 60}   # With VPCLMULQDQ on 256 bits or less.
TWO_KEEP = 0.95           # 1.9 of 2. Each of two workers on one pair of devices keeps this share of testpmd io.
MORE_KEEP = 0.90          # Each of 4 to 16 workers does, by turns where there are fewer CPUs.
MOST_DESTINATIONS_COST = 1.5  # The time above io with the most neighbours or routes, as a multiple of that with one.
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


def quotient(a, b):
    """The spread of a/b, of figures that were not taken in pairs."""
    return {"median": a["median"] / b["median"], "least": a["least"] / b["most"], "most": a["most"] / b["least"]}


def shared_rows(report):
    rows = []
    for path, name in NAMES.items():
        by_workers = {point["x"]: point["programs"]["no_icrc"]["ratio_to"]["io"]
                      for point in points(report, "shared", path=path)}
        one = by_workers.pop(1, None)
        rows += [at_least(f"{name}, share of testpmd io with {workers} workers on one pair", quotient(ratio, one),
                          TWO_KEEP if workers == 2 else MORE_KEEP, "of that with one")
                 for workers, ratio in by_workers.items() if one]
    return rows


def destination_rows(report, sweep):
    """`sweep`: "neighbours" or "routes"."""
    rows = []
    for path, name in NAMES.items():
        measured = points(report, sweep, path=path)
        if len(measured) < 2:
            continue
        few, many = (point["programs"] for point in (measured[0], measured[-1]))
        above = [{key: row["no_icrc"]["ns_per_packet"][key] - row["io"]["ns_per_packet"]["median"]
                  for key in ("median", "least", "most")} for row in (few, many)]
        times = quotient(above[1], above[0])
        rows.append(row(f"{name}, time above io with {measured[-1]['x']:,} {sweep}", times, MOST_DESTINATIONS_COST,
                        "× that with one", times["median"] <= MOST_DESTINATIONS_COST))
    return rows


def judge(report):
    rows = []
    for (path, program), needed in RATIOS_TO_IO.items():
        for point in points(report, "headline", path=path):
            rows.append(at_least(
                f"{NAMES[path]}, 64 octets, {'with' if program == 'icrc' else 'without'} ICRC",
                point["programs"][program]["ratio_to"]["io"], needed, "of testpmd io"))
    for point in points(report, "headline", path="out"):
        if "l3fwd" in point["programs"]:
            rows.append(at_least(f"{NAMES['out']}, 64 octets, without ICRC",
                                 point["programs"]["no_icrc"]["ratio_to"]["l3fwd"], RATIO_TO_L3FWD, "of l3fwd"))
    for point in points(report, "groups"):
        rows.append(at_least(f"{NAMES['out']}, {point['x']:,} groups, without ICRC",
                             point["programs"]["no_icrc"]["ratio_to"]["io"], GROUPS_RATIO_TO_IO, "of testpmd io"))
    large = LARGE_GB_PER_SECOND if report["machine"].get("avx512", True) else NARROW_GB_PER_SECOND
    for path, name in NAMES.items():
        for point in points(report, "sizes", path=path, ip_octets=LARGE_OCTETS):
            rows.append(at_least(
                f"{name}, {LARGE_OCTETS} octets, with ICRC",
                scaled(point["programs"]["icrc"]["ip_bits_per_second"], 1e-9), large[path], "Gb/s"))
    rows += shared_rows(report) + destination_rows(report, "neighbours") + destination_rows(report, "routes")
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

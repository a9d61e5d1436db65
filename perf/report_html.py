# SPDX-License-Identifier: BSD-3-Clause
"""Writes the report as one HTML file that loads nothing: it has no scripts and no external fonts or pictures."""
import html

import floods
import report_text
import scenes
import svg

STYLE = """
:root { color-scheme: light dark; --page: #fcfcfa; --card: #fff; --text: #1d2126; --faint: #5c6670;
  --grid: #e3e6e8; --icrc: #0b6bcb; --no-icrc: #1a9850; --io: #8a5a00; --swap: #a3399b; --kernel: #c4372c; --l3fwd: #4b6a70;
  --pass: #13743a; --fail: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --page: #14171a; --card: #1c2024; --text: #e6e8ea;
  --faint: #a1abb5; --grid: #343a40; --icrc: #62acf5; --no-icrc: #5cc98a; --io: #e0a84a; --swap: #dd8ad6;
  --kernel: #f08a80; --l3fwd: #9dbcc2; --pass: #5cc98a; --fail: #ff8f86; } }
body { margin: 0 auto; padding: 1.5rem; max-width: 1060px; background: var(--page); color: var(--text);
  font: 15px/1.5 system-ui, "DejaVu Sans", sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 .3rem; } h2 { font-size: 1.2rem; margin: 2.2rem 0 .3rem; }
h3 { font-size: 1rem; margin: 1.2rem 0 .4rem; }
p { margin: .2rem 0; } .faint { color: var(--faint); font-size: .88rem; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(400px, 1fr)); gap: .8rem; }
.plots > div, .wide { background: var(--card); border: 1px solid var(--grid); border-radius: 6px; padding: .5rem; }
svg { display: block; width: 100%; height: auto; }
svg text { fill: var(--text); font: 12px system-ui, "DejaVu Sans", sans-serif; }
svg .tick { fill: var(--faint); } svg .title { font-weight: 600; font-size: 13px; }
.grid { stroke: var(--grid); } .rule { stroke: var(--faint); }
.series { stroke: var(--c); } .series polyline { fill: none; stroke-width: 2; }
.series circle, .series rect { fill: var(--c); stroke: none; }
.series .spread { stroke-width: 2; opacity: .55; } .series .whisker { stroke: var(--text); stroke-width: 1.5; opacity: .7; }
.icrc { --c: var(--icrc); } .no_icrc { --c: var(--no-icrc); } .io { --c: var(--io); }
.swap { --c: var(--swap); } .kernel { --c: var(--kernel); } .l3fwd { --c: var(--l3fwd); }
.legend { margin: .4rem 0; } .legend span { margin-right: 1.2rem; white-space: nowrap; }
.legend i { display: inline-block; width: 1.4em; height: 4px; margin-right: .4em; vertical-align: middle;
  background: var(--c); border-radius: 2px; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-size: .85rem; margin: .5rem 0; }
th, td { padding: .2rem .6rem; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--grid);
  font-variant-numeric: tabular-nums; }
th { color: var(--faint); font-weight: 600; } .name { text-align: left; }
.pass { color: var(--pass); font-weight: 600; } .fail { color: var(--fail); font-weight: 700; }
details > summary { cursor: pointer; color: var(--faint); margin: .6rem 0; }
"""

CLASSES = {"icrc": "icrc", "no_icrc": "no_icrc", "io": "io", "5tswap": "swap", "l3fwd": "l3fwd"}


def escape(value):
    return html.escape(str(value))


def table(heads, rows):
    """Cells are text, or (class, text). The first column holds names."""
    def cell(tag, index, value):
        css, value = value if isinstance(value, tuple) else ("name" if index == 0 else "", value)
        return f'<{tag}{f" class={css}" if css else ""}>{escape(value)}</{tag}>'
    lines = ["<div class=scroll><table>",
             "<tr>" + "".join(cell("th", i, head) for i, head in enumerate(heads)) + "</tr>"]
    lines += ["<tr>" + "".join(cell("td", i, value) for i, value in enumerate(row)) + "</tr>" for row in rows]
    return "\n".join([*lines, "</table></div>"])


def legend(names):
    return ("<p class=legend>" + "".join(f'<span class="{css}"><i></i>{escape(name)}</span>'
                                         for css, name in names) + "</p>")


def programs_in(report):
    """Class and title of each program that was measured."""
    return [(CLASSES[name], title) for name, title in report_text.PROGRAMS.items()
            if any(name in point["programs"] for point in report["throughput"])]


def target_table(report):
    return table(["target", "median", "least – most", "to reach", "", ""],
                 [[row["what"], report_text.number(row["measured"]["median"]),
                   f"{report_text.number(row['measured']['least'])} – {report_text.number(row['measured']['most'])}",
                   f"{row['to_reach']:g}", ("name", row["unit"]),
                   ("pass", "pass") if row["reached"] else ("fail", "FAIL")] for row in report["targets"]])


def headline_bars(report, paths):
    groups = []
    for path, points in paths.items():
        rows = []
        for name, row in points[0]["programs"].items():
            rate = row["packets_per_second"]
            of_io = "" if name == "io" else f", {row['ratio_to']['io']['median']:.2f} of io"
            rows.append((CLASSES[name], f"{report_text.PROGRAMS[name]}{of_io}", rate["least"] / 1e6,
                         rate["median"] / 1e6, rate["most"] / 1e6))
        groups.append((scenes.PATHS[path], rows))
    rate = report.get("kernel", {}).get("packets_per_second")
    if rate:
        groups.append(("Ethernet → Ethernet", [("kernel", "Linux kernel, veth to veth", rate["least"] / 1e6,
                                                rate["median"] / 1e6, rate["most"] / 1e6)]))
    return f"<div class=wide>{svg.bars('64-octet packets, one worker', 'million packets a second', groups)}</div>"


def series(points, names, value):
    """The curves of programs. `value` returns the spread of a program's row."""
    return [(CLASSES[name], [(point["x"], *(value(point["programs"][name])[key]
                                            for key in ("least", "median", "most")))
                             for point in points if name in point["programs"]])
            for name in names if any(name in point["programs"] for point in points)]


def scaled(key, factor):
    return lambda row: {name: value * factor for name, value in row[key].items()}


def plots(sweep, path, points):
    title, programs, own = scenes.PATHS[path], list(report_text.PROGRAMS), report_text.OWN
    drawn = [svg.curves(title, sweep.unit, "ns per packet", series(points, programs, scaled("ns_per_packet", 1)))]
    if sweep.name == "sizes":
        drawn.append(svg.curves(title, sweep.unit, "Gb/s of IP packets",
                                series(points, programs, scaled("ip_bits_per_second", 1e-9))))
    else:
        drawn.append(svg.curves(title, sweep.unit, "million packets/s",
                                series(points, programs, scaled("packets_per_second", 1e-6))))
    drawn.append(svg.curves(title, sweep.unit, "share of testpmd io",
                            series(points, own, lambda row: row["ratio_to"]["io"])))
    drawn.append(svg.curves(title, sweep.unit, "share of testpmd 5tswap",
                            series(points, own, lambda row: row["ratio_to"]["5tswap"])))
    return "<div class=plots>" + "".join(f"<div>{plot}</div>" for plot in drawn) + "</div>"


def point_table(report, sweep, points):
    kernel = report_text.kernel_rate_of(report)
    rows = []
    for point in points:
        for name, row in point["programs"].items():
            ratio = lambda to: "" if to == name or to not in row["ratio_to"] else report_text.with_spread(row["ratio_to"][to])
            rate = row["packets_per_second"]
            rows.append([f"{point['x']:,}", ("name", report_text.PROGRAMS[name]),
                         report_text.with_spread(rate, 1e-6), report_text.with_spread(row["ns_per_packet"]),
                         report_text.number(row["ip_bits_per_second"]["median"] / 1e9), ratio("io"),
                         ratio("5tswap"), ratio("l3fwd"), f"{rate['median'] / kernel:.1f}" if kernel else "",
                         f"{row['lost_share']:.2%}"])
    return table([sweep.unit, "", "million packets/s", "ns/packet", "Gb/s", "of testpmd io",
                  "of 5tswap", "of l3fwd", "× kernel", "lost"], rows)


def sweep_section(report, sweep, paths):
    parts = [f"<h2>{escape(sweep.title)}</h2>", f"<p class=faint>{escape(sweep.about)}</p>" if sweep.about else "",
             legend(programs_in(report))]
    if sweep is scenes.HEADLINE:
        parts.append(headline_bars(report, paths))
    for path, points in paths.items():
        if len(points) > 1:
            parts.append(plots(sweep, path, points))
        parts += [f"<details><summary>{escape(scenes.PATHS[path])} in figures</summary>",
                  point_table(report, sweep, points), "</details>"]
    return parts


def flood_section(report):
    row = report.get("floods")
    if not row or "reason" in row:
        return paragraphs(floods.text_lines(report))
    curves = [(css, floods.lost(row["scan"], key)) for css, _, key in floods.CURVES]
    plot = svg.curves("Scan of 8 links", "packets of the scan a second", "per cent lost", curves)
    return ["<h2>Floods</h2>", "<p class=faint>In virtual time, beside 1,000 established neighbours.</p>",
            legend([(css, title) for css, title, _ in floods.CURVES]), f"<div class=plots><div>{plot}</div></div>",
            table(floods.HEADS, [floods.cells(flood) for flood in row["floods"]])]


def paragraphs(lines):
    return [f"<p>{escape(line)}</p>" for line in lines if line]


def render(report):
    parts = ["<!doctype html><html lang=en><head><meta charset=utf-8>",
             '<meta name=viewport content="width=device-width, initial-scale=1">',
             f"<title>dpdk-ipoib: measurements</title><style>{STYLE}</style></head><body>",
             "<h1>dpdk-ipoib beside dpdk-testpmd and the Linux kernel</h1>",
             *(f"<p class=faint>{escape(line)}</p>" for line in report_text.about(report))]
    if report["targets"]:
        parts += ["<h2>Targets</h2>", target_table(report)]
    parts += paragraphs(report_text.kernel_lines(report) + report_text.latency_lines(report) +
                        report_text.scraping_lines(report))
    for sweep, paths in report_text.sweeps(report):
        parts += sweep_section(report, sweep, paths)
    parts += flood_section(report)
    if report.get("benchmarks"):
        parts += ["<h2>Microbenchmarks</h2>", "<details><summary>all of them</summary>",
                  table(["", "ns", "million items/s", "TSC cycles/packet"],
                        [[row["name"], f"{row['ns']:.2f}",
                          f"{row['items_per_second'] / 1e6:.2f}" if row["items_per_second"] else "",
                          f"{row['tsc_per_pkt']:.1f}" if row["tsc_per_pkt"] else ""]
                         for row in report["benchmarks"]]), "</details>"]
    return "\n".join(parts) + "\n</body></html>\n"

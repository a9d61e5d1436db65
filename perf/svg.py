# SPDX-License-Identifier: BSD-3-Clause
"""Draws plots as inline SVG: curves with their spread, and bars. The page's style sheet gives the colours by the
class of a series, so that a plot follows the page's light or dark scheme."""
import html
import math

WIDTH, HEIGHT = 470, 290
LEFT, RIGHT, TOP, BOTTOM = 62, 14, 34, 52
LABEL_PIXELS = 7  # The approximate width of a digit.


def compact(value):
    """The short label of a tick: 65,536 is 64Ki, 65,000 is 65k. A number that is not a multiple is not shortened."""
    for factor, suffix in ((1 << 10, "Ki"), (1000, "k")):
        if value >= 4096 and value % factor == 0:
            return f"{value // factor}{suffix}"
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def nice_ticks(most):
    """Ticks from 0 to `most` or beyond, in steps of 1, 2 or 5 times a power of ten."""
    if most <= 0:
        return [0, 1]
    power = 10 ** math.floor(math.log10(most / 5))
    step = next(m * power for m in (1, 2, 5, 10) if most / (m * power) <= 5.5)
    return [step * i for i in range(math.ceil(most / step - 1e-9) + 1)]


def text(x, y, content, anchor="middle", css="tick", extra=""):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{css}"{extra}>'
            f'{html.escape(str(content))}</text>')


def line(x1, y1, x2, y2, css):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{css}"/>'


class Axes:
    """Positions of values on the plot. The x axis is logarithmic; the y axis begins at 0."""

    def __init__(self, xs, most):
        self.ticks = nice_ticks(most)
        self.low, self.high = math.log2(min(xs)), math.log2(max(xs))
        self.right, self.bottom = WIDTH - RIGHT, HEIGHT - BOTTOM

    def x(self, value):
        share = (math.log2(value) - self.low) / (self.high - self.low) if self.high > self.low else 0.5
        return LEFT + 12 + share * (self.right - LEFT - 24)

    def y(self, value):
        return self.bottom - value / self.ticks[-1] * (self.bottom - TOP)

    def draw(self, title, x_title, y_title, xs):
        parts = [text(LEFT, 18, title, "start", "title"),
                 text((LEFT + self.right) / 2, HEIGHT - 10, x_title, css="axis"),
                 text(14, (TOP + self.bottom) / 2, y_title, css="axis",
                      extra=f' transform="rotate(-90 14 {(TOP + self.bottom) / 2:.1f})"')]
        for tick in self.ticks:
            parts.append(line(LEFT, self.y(tick), self.right, self.y(tick), "grid"))
            parts.append(text(LEFT - 6, self.y(tick) + 4, f"{tick:g}", "end"))
        last = -math.inf
        for value in xs:
            parts.append(line(self.x(value), self.bottom, self.x(value), self.bottom + 4, "rule"))
            label, middle = compact(value), self.x(value)
            half = len(label) * LABEL_PIXELS / 2
            if middle - half > last:
                parts.append(text(middle, self.bottom + 18, label))
                last = middle + half + 3
        parts.append(line(LEFT, self.bottom, self.right, self.bottom, "rule"))
        return parts


def figure(width, height, label, parts):
    return (f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{html.escape(label)}">'
            + "".join(parts) + "</svg>")


def curves(title, x_title, y_title, series):
    """Draws curves. `series` has (class, [(x, least, median, most), ...]) for each, the points in order of x."""
    xs = sorted({x for _, points in series for x, *_ in points})
    axes = Axes(xs, max(most for _, points in series for *_, most in points))
    parts = axes.draw(title, x_title, y_title, xs)
    for css, points in series:
        path = " ".join(f"{axes.x(x):.1f},{axes.y(median):.1f}" for x, _, median, _ in points)
        parts.append(f'<g class="series {css}"><polyline points="{path}"/>')
        for x, least, median, most in points:
            parts.append(line(axes.x(x), axes.y(least), axes.x(x), axes.y(most), "spread"))
            parts.append(f'<circle cx="{axes.x(x):.1f}" cy="{axes.y(median):.1f}" r="3">'
                         f'<title>{compact(x)}: {median:.4g} ({least:.4g} to {most:.4g})</title></circle>')
        parts.append("</g>")
    return figure(WIDTH, HEIGHT, f"{title}: {y_title} by {x_title}", parts)


BAR, GAP, NAMES = 20, 16, 160


def bars(title, unit, groups):
    """Draws bars on one scale. `groups` has (name, [(class, label, least, median, most), ...]) for each group."""
    width = 2 * WIDTH
    most = max(row[4] for _, rows in groups for row in rows)
    scale = (width - NAMES - 210) / most
    parts, y = [text(0, 18, f"{title}, {unit}", "start", "title")], 34
    for name, rows in groups:
        parts.append(text(NAMES - 12, y + len(rows) * BAR / 2 + 4, name, "end", "axis"))
        for css, label, least, median, highest in rows:
            end = NAMES + median * scale
            parts.append(f'<g class="series {css}"><rect x="{NAMES}" y="{y + 2}" width="{median * scale:.1f}" '
                         f'height="{BAR - 4}"/>')
            parts.append(line(NAMES + least * scale, y + BAR / 2, NAMES + highest * scale, y + BAR / 2,
                              "whisker") + "</g>")
            parts.append(text(max(end, NAMES + highest * scale) + 8, y + BAR / 2 + 4,
                              f"{median:.1f}  {label}", "start"))
            y += BAR
        y += GAP
    return figure(width, y, title, parts)

"""Draws the figures of the pages in docs/results/ as SVG text.

A figure shows for each variant every run as a dot, the mean as a bar and, for three runs or more, the mean's 95 %
interval. For two runs, the interval by Student's t is often wider than the range of all runs. The runs are those of the
table above the figure. The table's intervals are those of differences, by pairs of seeds; the figure's are not.
"""
import math
import statistics
from xml.sax.saxutils import escape

# 97.5 % points of Student's t by the number n of values, for n - 1 degrees of freedom
STUDENT = {2: 12.7062, 3: 4.3027, 4: 3.1824, 5: 2.7764, 6: 2.5706, 7: 2.4469, 8: 2.3646, 9: 2.3060, 10: 2.2622}
ROW, PLOT, RIGHT, TOP, BOTTOM, LETTER = 24, 500, 24, 50, 44, 6.9  # pixels


def half_interval(values):
    """Half of the 95 % interval of the mean of two to ten values."""
    return STUDENT[len(values)] * statistics.stdev(values) / math.sqrt(len(values))


def steps_between(low, high):
    """About five to eight round numbers from low to high, and the number of decimals that they need."""
    rough = (high - low) / 8
    power = 10 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    first = math.ceil(low / step)
    return [step * i for i in range(first, math.floor(high / step) + 1)], max(0, -math.floor(math.log10(step)))


def dots(title, unit, variants, lines=()):
    """Draws a figure. variants: [(label, [value of each run])], from the top; lines: [(label, value)], dashed lines."""
    halves = [half_interval(values) if len(values) > 2 else 0 for _, values in variants]
    seen = [value for _, values in variants for value in values] + [value for _, value in lines]
    seen += [statistics.mean(values) + sign * half for (_, values), half in zip(variants, halves) for sign in (-1, 1)]
    margin = 0.04 * (max(seen) - min(seen)) or 0.01
    low, high = min(seen) - margin, max(seen) + margin
    bottom = TOP + ROW * len(variants)
    left = 24 + LETTER * max(len(label) for label, _ in variants)
    width = round(left + PLOT + RIGHT)

    def x(value):
        return left + PLOT * (value - low) / (high - low)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {bottom + BOTTOM}" role="img" '
           f'aria-label="{escape(title)}" font-family="sans-serif" font-size="13" fill="#222">',
           f'<rect width="{width}" height="{bottom + BOTTOM}" fill="#fff"/>',
           f'<text x="{left:.1f}" y="20" font-weight="bold">{escape(title)}</text>']
    ticks, digits = steps_between(low, high)
    for tick in ticks:
        out.append(f'<path d="M{x(tick):.1f} {TOP}V{bottom}" stroke="#e4e4e4"/>'
                   f'<text x="{x(tick):.1f}" y="{bottom + 17}" text-anchor="middle">{tick:.{digits}f}</text>')
    out.append(f'<text x="{left + PLOT / 2:.1f}" y="{bottom + 36}" text-anchor="middle">{escape(unit)}</text>')
    for label, value in lines:
        out.append(f'<path d="M{x(value):.1f} {TOP}V{bottom}" stroke="#b3261e" stroke-dasharray="5 4"/>'
                   f'<text x="{x(value):.1f}" y="{TOP - 5}" text-anchor="middle" fill="#b3261e">{escape(label)}</text>')
    for i, (label, values) in enumerate(variants):
        y, mean, half = TOP + ROW * i + ROW / 2, statistics.mean(values), halves[i]
        out.append(f'<text x="{left - 12:.1f}" y="{y + 4.5:.1f}" text-anchor="end">{escape(label)}</text>')
        if half:
            out.append(f'<path d="M{x(mean - half):.1f} {y:.1f}H{x(mean + half):.1f}" stroke="#7a9cc6" stroke-width="3"/>')
        out.append(f'<path d="M{x(mean):.1f} {y - 8:.1f}v16" stroke="#1b4f8f" stroke-width="2"/>')
        out += [f'<circle cx="{x(value):.1f}" cy="{y:.1f}" r="3.5" fill="#1b4f8f" fill-opacity=".55"/>' for value in values]
    return "\n".join([*out, "</svg>", ""])

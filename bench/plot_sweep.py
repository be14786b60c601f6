#!/usr/bin/env python3
"""Draws sweeps of `penstock bench layer --json` as one HTML page that needs no other file.

    penstock bench layer recipes/bench/e64k8.toml --sweep-experts 8,16,32,64,128,256,512 --json > experts.json
    penstock bench layer recipes/bench/e64k8.toml --sweep-tokens 512,1024,2048,4096 --json > tokens.json
    bench/plot_sweep.py experts.json tokens.json --out sweep.html

The page has a chart and a table for each file. The chart shows the seconds of forward and backward
together, of forward alone and of the optimizer. Both axes are logarithmic, so a cost that grows in
proportion has the slope of the dotted line.
"""

import argparse
import html
import json
import math

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 640, 380, 70, 50, 20, 150
SERIES = [("forward + backward", "#1f6f8b", lambda p: p["forward_seconds"] + p["backward_seconds"]),
          ("forward", "#7fb3c8", lambda p: p["forward_seconds"]),
          ("optimizer", "#c26a2d", lambda p: p["optimizer_seconds"])]


def scale(values, low_pixel, high_pixel):
    """Returns the function from a value to its pixel on a logarithmic axis, and the axis's ticks at powers of two."""
    low, high = math.floor(math.log2(min(values))), math.ceil(math.log2(max(values)))
    span = max(1, high - low)
    return (lambda v: low_pixel + (math.log2(v) - low) / span * (high_pixel - low_pixel),
            [2.0 ** n for n in range(low, low + span + 1)])


def short(value):
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def chart(sweep):
    key, points = sweep["sweep"], sorted(sweep["points"], key=lambda p: p[sweep["sweep"]])
    xs = [p[key] for p in points]
    times = [[1e3 * value(p) for p in points] for _, _, value in SERIES]
    x, x_ticks = scale(xs, LEFT, WIDTH - RIGHT)
    y, y_ticks = scale([t for series in times for t in series], HEIGHT - BOTTOM, TOP)
    out = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="milliseconds by {key}">']
    for tick in y_ticks:
        out.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"/>'
                   f'<text x="{LEFT - 8}" y="{y(tick) + 4:.1f}" text-anchor="end">{short(tick)}</text>')
    for tick in x_ticks:
        out.append(f'<text x="{x(tick):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{short(tick)}</text>')
    out.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" text-anchor="middle">{key}</text>'
               f'<text transform="translate(16 {HEIGHT / 2}) rotate(-90)" text-anchor="middle">milliseconds</text>')
    if len(xs) > 1:  # the dotted line: growth in proportion from the first point, cut at the chart's edge
        last = min(xs[-1], xs[0] * y_ticks[-1] / times[0][0])
        out.append(f'<line class="proportion" x1="{x(xs[0]):.1f}" y1="{y(times[0][0]):.1f}" x2="{x(last):.1f}" '
                   f'y2="{y(times[0][0] * last / xs[0]):.1f}"/>')
    ends = []  # labels at the right end of the lines; they must not overlap
    for (name, colour, _), series in zip(SERIES, times):
        path = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in zip(xs, series))
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out.extend(f'<circle cx="{x(a):.1f}" cy="{y(b):.1f}" r="3" fill="{colour}">'
                   f"<title>{name}, {key} {a}: {b:.3f} ms</title></circle>" for a, b in zip(xs, series))
        ends.append([y(series[-1]), name, colour])
    ends.sort()
    for index, (height, name, colour) in enumerate(ends):
        if index and height < ends[index - 1][0] + 16:
            height = ends[index][0] = ends[index - 1][0] + 16
        out.append(f'<text x="{x(xs[-1]) + 10:.1f}" y="{height + 4:.1f}" fill="{colour}">{name}</text>')
    return "\n".join(out) + "</svg>"


def table(sweep):
    key = sweep["sweep"]
    rows = "".join(
        f"<tr><td>{p[key]}</td><td>{p['active_experts']:.2f}</td><td>{1e3 * p['forward_seconds']:.3f}</td>"
        f"<td>{1e3 * p['backward_seconds']:.3f}</td><td>{1e3 * p['optimizer_seconds']:.3f}</td>"
        f"<td>{100 * p['share_of_peak']:.1f} %</td></tr>" for p in sorted(sweep["points"], key=lambda p: p[key]))
    return (f"<table><tr><th>{key}</th><th>active experts</th><th>forward ms</th><th>backward ms</th>"
            f"<th>optimizer ms</th><th>of peak</th></tr>{rows}</table>")


def section(sweep):
    p = sweep["points"][0]
    fixed = f"{p['tokens']} tokens" if sweep["sweep"] == "experts" else f"E={p['experts']}"
    title = f"One layer by {sweep['sweep']}: d={p['d_model']}, f={p['d_ffn']}, {fixed}"
    note = (f"{p['threads']} thread{'s' if p['threads'] > 1 else ''}, median of {p['steps']} passes. Dotted: growth in "
            "proportion. \"Of peak\" is useful FLOPs of forward and backward over the measured peak.")
    return f"<h2>{html.escape(title)}</h2><p>{html.escape(note)}</p>{chart(sweep)}{table(sweep)}"


STYLE = """body{font:15px/1.5 system-ui,sans-serif;max-width:760px;margin:2em auto;padding:0 1em;color:#222;background:#fff}
svg{width:100%;font-size:12px}.grid{stroke:#ddd}.proportion{stroke:#888;stroke-dasharray:2 4;stroke-width:1.5}
table{border-collapse:collapse}td,th{padding:.15em .8em;text-align:right;border-bottom:1px solid #eee}"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sweeps", nargs="+", help="JSON file written by `penstock bench layer --sweep-… --json`")
    parser.add_argument("--out", required=True, help="HTML file to write")
    arguments = parser.parse_args()
    sweeps = []
    for path in arguments.sweeps:
        with open(path, encoding="utf-8") as file:
            sweeps.append(json.load(file))
        if not sweeps[-1].get("points"):
            parser.error(f"{path}: not the JSON of a sweep; run `penstock bench layer` with --sweep-experts or "
                         "--sweep-tokens and --json")
    page = (f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Cost of a layer</title>'
            f"<style>{STYLE}</style>" + "".join(section(sweep) for sweep in sweeps) + "</html>\n")
    with open(arguments.out, "w", encoding="utf-8") as file:
        file.write(page)


if __name__ == "__main__":
    main()

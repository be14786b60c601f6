// Draws curves as one SVG.
const svg = (tag, attributes = {}, ...children) => {
  const out = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) out.setAttribute(name, value);
  out.append(...children);
  return out;
};

/** About five round numbers from `least` to `most`. */
function ticks(least, most) {
  const rough = (most - least) / 5 || 1, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(factor => factor * power).find(size => size >= rough);
  const out = [];
  for (let at = Math.ceil(least / step) * step; at <= most + 1e-9 * step; at += step) out.push(Number(at.toPrecision(12)));
  return out;
}

// Dashes tell lines apart where colours do not.
const dashOf = at => ["", "8 4", "2 3", "10 3 2 3", "5 5", "1 4", "12 4", "6 2 2 2"][at % 8];

/** A short piece of a line, for the table of the lines. */
const lineKey = at => svg("svg", {class: "key", viewBox: "0 0 36 12", "aria-hidden": "true"},
  svg("line", {x1: 0, x2: 36, y1: 6, y2: 6, stroke: barOf(at), "stroke-dasharray": dashOf(at)}));

/**
 * @param lines  [{steps, values, at}], `at` is the line's number, which chooses its colour and dashes
 * @param label  the text that a screen reader reads for the drawing
 * @param room  the width of the place for the drawing, whose text keeps its size on a narrow screen
 */
function drawCurves(lines, label, room) {
  const width = Math.min(800, Math.max(300, room));
  const [height, left, bottom, edge] = [width < 500 ? 300 : 380, 60, 34, 10];
  const finite = lines.flatMap(line => line.values.filter(Number.isFinite));
  const out = svg("svg", {viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label});
  if (!finite.length) return out;
  const lastStep = Math.max(1, ...lines.map(line => line.steps.at(-1) || 0));
  const least = Math.min(...finite), most = Math.max(...finite, least + 1e-9);
  const x = step => left + (width - left - edge) * step / lastStep;
  const y = value => height - bottom - (height - bottom - edge) * (value - least) / (most - least);
  for (const value of ticks(least, most)) out.append(
    svg("line", {class: "grid", x1: left, x2: width - edge, y1: y(value), y2: y(value)}),
    svg("text", {x: left - 6, y: y(value) + 4, "text-anchor": "end"}, String(value)));
  for (const step of ticks(0, lastStep)) out.append(
    svg("line", {class: "grid", x1: x(step), x2: x(step), y1: edge, y2: height - bottom}),
    svg("text", {x: x(step), y: height - bottom + 16, "text-anchor": "middle"}, String(step)));
  out.append(svg("text", {x: (width + left) / 2, y: height - 4, "text-anchor": "middle"}, "step"));
  for (const {steps, values, at} of lines) {
    let pen = "M";
    const path = steps.map((step, i) => {
      if (!Number.isFinite(values[i])) { pen = "M"; return ""; }
      const part = `${pen}${x(step).toFixed(1)} ${y(values[i]).toFixed(1)}`;
      pen = "L";
      return part;
    }).join("");
    out.append(svg("path", {d: path, stroke: barOf(at), "stroke-dasharray": dashOf(at)}));
  }
  return out;
}

// Makes elements of the page, and their colours and texts.
const byId = id => document.getElementById(id);

/** Makes an element with attributes, properties `on...`, and children (elements or text). */
function make(tag, attributes = {}, ...children) {
  const out = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) out.addEventListener(name.slice(2), value);
    else out.setAttribute(name, value === true ? "" : value);
  }
  out.append(...children);
  return out;
}

/** Makes a table. The first cell of each row is a heading. */
function makeTable(columns, rows) {
  return make("table", {},
    make("thead", {}, make("tr", {}, ...columns.map(name => make("th", {scope: "col"}, name)))),
    make("tbody", {}, ...rows.map(([head, ...cells]) =>
      make("tr", {}, make("th", {scope: "row"}, head), ...cells))));
}

// Experts with neighbouring numbers get hues that lie far apart.
const hue = expert => Math.round(expert * 137.508) % 360;
const backOf = expert => `hsl(${hue(expert)} 70% var(--light))`;
const barOf = expert => `hsl(${hue(expert)} 65% var(--bar))`;

/** The experts with the largest gates first. */
const byGate = experts => [...experts].sort((a, b) => b[1] - a[1]);

const kCharacters = {" ": "space", "\n": "line break", "\t": "tab"};

/** The text, or the names of its characters if none of them can be seen or read aloud. */
function spelt(text) {
  if (text === "") return "part of a character";
  if (!/^[\s\p{C}]+$/u.test(text)) return text;
  return text.match(/(.)\1*/gsu).map(run => {
    const [one, ...others] = run;
    const name = kCharacters[one] || `character U+${one.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
    return others.length ? `${1 + others.length} ${name}s` : name;
  }).join(", ");
}

function fillSelect(select, names) {
  if ([...select.options].map(option => option.text).join("\n") === names.join("\n")) return;
  const before = select.value;
  select.replaceChildren(...names.map((name, i) => new Option(name, i)));
  if (before !== "" && Number(before) < names.length) select.value = before;
}

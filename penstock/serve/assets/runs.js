// Shows the runs of a directory. Redraws them while they train.
const kPause = 2000;
let shownRuns = null;
const hidden = new Set();

const curveNames = runs => [...new Set(runs.flatMap(run => Object.keys(run.curves)))].sort();

function fillCurves(names) {
  const select = byId("curve");
  if (select.options.length === names.length) return;
  const before = select.value;
  select.replaceChildren(...names.map(name => new Option(name.replaceAll("_", " "), name)));
  select.value = [before, "validation_loss", "loss"].find(name => names.includes(name)) || names[0];
}

function runRow(run, at) {
  const box = make("input", {type: "checkbox", "aria-label": `${run.name} in the chart`, "data-run": run.name,
    checked: !hidden.has(run.name), onchange: event => {
      if (event.target.checked) hidden.delete(run.name);
      else hidden.add(run.name);
      drawChart();
    }});
  return [run.name, make("td", {}, box, " ", lineKey(at)), make("td", {class: "number"}), make("td", {class: "number"}), make("td")];
}

/** The texts of a run's cells that change while it trains. */
function runSaid(run, name) {
  const curve = run.curves[name], last = curve ? curve.values.at(-1) : null;
  return [run.planned_steps ? `${run.steps} of ${run.planned_steps}` : String(run.steps),
    Number.isFinite(last) ? last.toPrecision(5) : "–", run.finished ? "finished" : "under way, or interrupted"];
}

/** Makes the rows where there are new runs. Otherwise only texts change, and the focus stays. */
function showTable(runs, name) {
  const table = byId("table"), boxes = () => [...table.querySelectorAll("input")];
  if (boxes().map(box => box.dataset.run).join("\n") !== runs.map(run => run.name).join("\n")) {
    const focused = document.activeElement.dataset.run;
    table.replaceChildren(makeTable(["Run", "Chart", "Steps", "Last value", "State"], runs.map(runRow)));
    boxes().find(box => box.dataset.run === focused)?.focus({preventScroll: true});
  }
  const rows = table.querySelectorAll("tbody tr");
  runs.forEach((run, at) => runSaid(run, name).forEach((text, i) => { rows[at].cells[i + 2].textContent = text; }));
}

function drawChart() {
  const name = byId("curve").value;
  const lines = shownRuns.runs.map((run, at) => ({...run.curves[name], at, run: run.name}))
    .filter(line => line.steps && !hidden.has(line.run));
  byId("chart").replaceChildren(drawCurves(lines, `${name.replaceAll("_", " ")} of ${lines.length} runs over steps; ` +
    "the table below has the last values", byId("chart").clientWidth));
}

function show(state) {
  shownRuns = state;
  byId("title").textContent = state.title;
  byId("report-link").hidden = !state.report;
  const ended = state.runs.filter(run => run.finished).length;
  const said = state.runs.length ? `${ended} of ${state.runs.length} runs that have begun are finished` : "no run has begun yet";
  if (byId("said").textContent !== said) byId("said").textContent = said;
  if (!state.runs.length) return;
  fillCurves(curveNames(state.runs));
  drawChart();
  showTable(state.runs, byId("curve").value);
}

async function follow() {
  try {
    const reply = await fetch("/v1/runs");
    const state = await reply.json();
    show(state);
    if (state.finished) return;
  } catch {
    byId("said").textContent = "the server does not answer; it may have ended with its study";
  }
  setTimeout(follow, kPause);
}

byId("curve").addEventListener("change", () => show(shownRuns));
addEventListener("resize", () => shownRuns && shownRuns.runs.length && drawChart());
fetch("/v1/models").then(async reply => { byId("model-link").hidden = !(await reply.json()).data.length; });
follow();

// Puts the page together: the form, one or two panes, the corpus.
let panes = [], stopper = null;

const shown = () => panes.filter(pane => !pane.element.hidden);

function compareChanged() {
  const both = byId("compare").checked;
  panes[1].element.hidden = panes[1].choice.hidden = !both;
  panes[0].legend.textContent = both ? "First" : "Model";
  panes[1].legend.textContent = "Second";
  byId("difference").textContent = "";
}

function showLayers() {
  const most = shown().map(pane => pane.model.expert_layers).reduce((a, b) => b.length > a.length ? b : a);
  fillSelect(byId("layer"), most.map(String));
  const experts = Math.max(...shown().map(pane => pane.model.experts));
  fillSelect(byId("only"), ["any", ...Array.from({length: experts}, (_, expert) => String(expert))]);
  byId("marks").hidden = !most.length;
}

async function write() {
  const request = {prompt: byId("prompt").value, max_tokens: Number(byId("tokens").value),
    temperature: Number(byId("temperature").value), top_p: Number(byId("top-p").value), seed: Number(byId("seed").value)};
  stopper = new AbortController();
  byId("difference").textContent = "";
  hideDetail(shown().some(pane => pane.model.experts));
  byId("go").disabled = true;
  byId("stop").disabled = false;
  showLayers();
  await Promise.all(shown().map(pane => pane.write(request, stopper.signal)));
  byId("difference").textContent = markDifference(shown());
  byId("go").disabled = false;
  byId("stop").disabled = true;
}

function begin(models) {
  byId("model-name").textContent = models[0].id;
  panes = ["a", "b"].map(letter => new Pane(letter, models));
  if (models.length > 1) panes[1].select.value = 1;
  panes[1].modelChanged();
  byId("choices").replaceChildren(...panes.map(pane => pane.choice));
  byId("panes").replaceChildren(...panes.map(pane => pane.element));
  compareChanged();
  showLayers();
  hideDetail(models.some(model => model.experts));
  if (!models[0].layers_with_experts) panes[0].said.textContent = "This model is dense: there are no experts to show.";
}

async function load() {
  let models;
  try {
    models = await get("/v1/models");
  } catch (error) {
    byId("model-name").textContent = error.status === 401 ? "a key is needed" : "the server does not answer";
    return;
  }
  begin(models.data);
  for (const endpoint of models.endpoints) {
    if (endpoint === "/v1/corpus") loadCorpus(models.data[0].expert_layers.map(String));
    if (endpoint === "/report") byId("report-link").hidden = false;
    if (endpoint === "/runs") byId("runs-link").hidden = false;
  }
}

byId("form").addEventListener("submit", event => {
  event.preventDefault();
  if (panes.length) write();
  else load();  // the server may answer by now
});
byId("stop").addEventListener("click", () => stopper && stopper.abort());
byId("compare").addEventListener("change", compareChanged);
byId("prompt").addEventListener("keydown", event => {
  if (event.key === "Enter" && event.ctrlKey && !byId("go").disabled) byId("form").requestSubmit();
});
for (const id of ["layer", "behind", "only"]) byId(id).addEventListener("change", () => {
  panes.forEach(pane => pane.redraw());
  showDetail();
});
byId("key").addEventListener("change", load);
load();

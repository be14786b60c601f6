// Shows one token: the experts, gates and logits of every layer.
function gatesOf(experts) {
  if (!experts.length) return make("span", {class: "faint"}, "none");
  return make("span", {}, ...experts.map(([expert, gate]) => {
    const out = make("span", {class: "gate"}, `${expert}: ${gate.toFixed(3)}`);
    out.style.background = backOf(expert);
    return out;
  }));
}

function logitsOf(logits, experts) {
  if (!logits || !logits.length) return make("span", {class: "faint"}, "no logits");
  const taken = new Set(experts.map(([expert]) => expert));
  return make("div", {class: "logits"}, ...logits.map((logit, expert) =>
    make("span", {class: taken.has(expert) ? "taken" : undefined}, `${expert}: ${logit.toFixed(2)}`)));
}

function showDetail(token) {
  const where = `${token.ofPrompt ? "Of the prompt" : "Written"}, id ${token.id}: `;
  byId("about").textContent = where + spelt(token.text) + (token.layers ? "" : " – nothing has read it yet");
  byId("detail-table").hidden = !token.layers;
  if (!token.layers) return;
  byId("detail-table").replaceChildren(makeTable(["Layer", "Experts and gates", "Logits"],
    token.layers.map((experts, layer) => [String(layer + 1), make("td", {}, gatesOf(experts)),
      make("td", {}, logitsOf(token.logits && token.logits[layer], experts))])));
}

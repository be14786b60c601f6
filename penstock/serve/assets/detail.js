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

const kSaid = 8;  // experts that the sentence about a token names
const kHint = byId("about").textContent;
let detailed = null;

/** The experts of the chosen layer as a sentence. */
function expertsSaid({token, pane}) {
  if (!pane.shown.experts) return "";
  if (!token.layers) return token.ofPrompt ? " – its experts are not known" : " – nothing has read it yet";
  const experts = token.layers[pane.layer];
  if (!experts) return "";
  const named = byGate(experts).slice(0, kSaid).map(([expert, gate]) => `${expert}: ${gate.toFixed(3)}`);
  if (experts.length > kSaid) named.push(`${experts.length - kSaid} more`);
  return ` – layer ${pane.layerNames[pane.layer]}, experts and gates: ${named.join(", ") || "none"}`;
}

/** Shows the token of the pane, or again what is shown, for another layer. */
function showDetail(chosen = detailed) {
  detailed = chosen;
  if (!chosen) return;
  const {token, pane} = chosen, about = byId("about"), table = byId("detail-table");
  about.textContent = `${token.ofPrompt ? "Of the prompt" : "Written"}, id ${token.id}: ${spelt(token.text)}${expertsSaid(chosen)}`;
  about.classList.add("chosen");
  byId("detail").hidden = !token.layers || !token.layers.length;
  if (byId("detail").hidden) return;
  table.replaceChildren(makeTable(["Layer", "Experts and gates", "Logits"],
    token.layers.map((experts, layer) => [pane.layerNames[layer], make("td", {}, gatesOf(experts)),
      make("td", {}, logitsOf(token.logits && token.logits[layer], experts))])));
  const row = table.querySelectorAll("tbody tr")[pane.layer];
  if (!row) return;
  row.classList.add("current");
  table.scrollTop = row.offsetTop - table.querySelector("thead").offsetHeight;
}

function hideDetail(hint) {
  detailed = null;
  byId("about").textContent = hint ? kHint : "";
  byId("about").classList.remove("chosen");
  byId("detail").hidden = true;
}

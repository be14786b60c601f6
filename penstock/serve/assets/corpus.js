// Shows a corpus: tokens by expert, experts by token, domains.
const percent = share => `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`;

const pieces = tokens => make("td", {}, ...tokens.map(({text, share}) =>
  make("span", {class: "piece"}, `${text} ${percent(share)}`)));

function showExpertTokens(corpus, layer) {
  byId("expert-tokens").replaceChildren(makeTable(
    ["Expert", "Tokens that it gets most surely (share of their places)", "Tokens that make most of what it gets"],
    corpus.layers[layer].map(({surest, commonest}, expert) => [String(expert), pieces(surest), pieces(commonest)])));
}

function showTokenExperts(corpus, layer) {
  const wanted = byId("token-filter").value;
  const found = corpus.frequent.filter(token => token.text.includes(wanted));
  byId("filter-said").textContent = `${found.length} of the ${corpus.frequent.length} most frequent tokens`;
  byId("token-experts").replaceChildren(makeTable(["Token", "Places", "Experts (share of its places)"],
    found.map(({text, count, layers}) => [text, make("td", {class: "number"}, String(count)),
      make("td", {}, ...layers[layer].map(([expert, share]) => {
        const out = make("span", {class: "gate"}, `${expert}: ${percent(share)}`);
        out.style.background = backOf(expert);
        return out;
      }))])));
}

function showDomains(corpus, layer) {
  const most = Math.max(1e-9, ...corpus.domains.flatMap(domain => domain.load[layer]));
  const cell = load => {
    const out = make("td", {class: "number"}, percent(load));
    out.style.background = `color-mix(in srgb, ${backOf(0)} ${Math.round(90 * load / most)}%, transparent)`;
    return out;
  };
  byId("domains").replaceChildren(makeTable(
    ["Domain", "Tokens", "Loss", "Experts per token", ...Array.from({length: corpus.experts}, (_, e) => `Expert ${e}`)],
    corpus.domains.map(domain => [domain.name, make("td", {class: "number"}, String(domain.tokens)),
      make("td", {class: "number"}, domain.loss.toFixed(3)), make("td", {class: "number"}, domain.active[layer].toFixed(2)),
      ...domain.load[layer].map(cell)])));
}

function showCorpus(corpus, layerNames) {
  byId("corpus-about").textContent = `${corpus.corpus}, ${corpus.split} split, ${corpus.tokens} places.` +
    ` Surest tokens are of those that occur ${corpus.occurs_often} times or more.`;
  fillSelect(byId("corpus-layer"), layerNames);
  const show = () => {
    const layer = Number(byId("corpus-layer").value);
    showExpertTokens(corpus, layer);
    showTokenExperts(corpus, layer);
    showDomains(corpus, layer);
  };
  byId("corpus-layer").addEventListener("change", show);
  byId("token-filter").addEventListener("input", () => showTokenExperts(corpus, Number(byId("corpus-layer").value)));
  show();
}

/** Asks for the corpus and shows it, or why it does not come. */
async function loadCorpus(layerNames) {
  byId("corpus").hidden = byId("corpus-link").hidden = false;
  let corpus = null;
  try {
    corpus = await get("/v1/corpus");
  } catch (error) {
    byId("corpus-about").textContent = `The corpus is not shown: ${error.message}`;
  }
  byId("corpus-tables").hidden = !corpus;
  if (corpus) showCorpus(corpus, layerNames);
}

// A pane shows a text of one model with one routing: the request, the tokens and the load.
class Pane {
  constructor(letter, models) {
    this.letter = letter;
    this.models = models;
    this.tokens = [];
    this.makeChoice();
    this.makeOutput();
  }

  /** The layers of experts by their numbers in the model. */
  get layerNames() { return this.shown.expert_layers.map(String); }

  get model() { return this.models[Number(this.select.value)] || this.models[0]; }

  makeChoice() {
    this.select = make("select", {onchange: () => this.modelChanged()},
      ...this.models.map((model, i) => new Option(model.id, i)));
    this.k = make("input", {type: "number", min: 1, step: 1, placeholder: "own"});
    this.shift = make("input", {type: "number", step: 0.1, placeholder: "0"});
    this.kNote = make("span", {class: "faint"});
    this.legend = make("legend", {}, "Model");
    this.choice = make("fieldset", {}, this.legend, make("div", {class: "row"}, make("label", {}, "Model ", this.select),
      make("label", {}, "Experts per token ", this.k), make("label", {}, "Logit shift ", this.shift), this.kNote));
    this.modelChanged();
  }

  modelChanged() {
    const {experts, experts_per_token: own, takes_experts_per_token: takesK, takes_logit_shift: takesShift} = this.model;
    this.k.disabled = !takesK;
    this.k.max = experts;
    this.shift.disabled = !takesShift;
    this.kNote.textContent = !experts ? "dense: no experts" : takesK ? `own: ${own} of ${experts}`
      : takesShift ? "the shift sets how many of " + experts + " are switched on" : `${experts} experts, chosen otherwise`;
  }

  makeOutput() {
    this.heading = make("h3", {id: `pane-${this.letter}`}, "Text");
    this.said = make("p", {class: "said", role: "status"});
    this.text = make("div", {class: "text", role: "listbox", "aria-labelledby": `pane-${this.letter}`,
      "aria-orientation": "horizontal", tabindex: 0, onkeydown: event => this.moved(event),
      onfocus: event => event.target === this.text && this.tokens.length && this.choose(this.tokens[0])});
    this.load = make("ol", {class: "load"});
    this.loadSaid = make("p", {class: "faint"});
    this.loadHeading = make("h4", {class: "faint"}, "Load over the experts of this layer");
    this.element = make("section", {"aria-labelledby": `pane-${this.letter}`}, this.heading, this.said, this.text,
      this.loadHeading, this.loadSaid, this.load);
    this.shown = this.model;
    this.redraw();
  }

  /** The model and the routing that every request of this pane names. */
  routing() {
    const out = {model: this.model.id, routing: "logits"};
    if (!this.k.disabled && this.k.value) out.experts_per_token = Number(this.k.value);
    if (!this.shift.disabled && this.shift.value) out.logit_shift = Number(this.shift.value);
    return out;
  }

  clear() {
    this.shown = this.model;  // the list of models may change while the text is shown
    this.note = "";
    const {experts_per_token: k, logit_shift: shift} = this.routing();
    this.heading.textContent = this.model.id + (k ? `, k = ${k}` : "") + (shift ? `, shift ${shift}` : "");
    this.tokens = [];
    this.text.replaceChildren();
    this.text.tabIndex = 0;
    this.redraw();
  }

  /** The tokens of the prompt with the routing of a pass over it. Without a routing: plain text. */
  async readPrompt(prompt, signal) {
    const plain = () => this.add({id: "–", text: prompt, ofPrompt: true, layers: null});
    if (!prompt) return;
    if (!this.shown.layers_with_experts) return plain();
    try {
      const got = await (await post("/v1/routing", {...this.routing(), input: prompt}, signal)).json();
      got.tokens.forEach(({id, text}, at) => this.add({id, text, ofPrompt: true,
        layers: got.layers.map(layer => layer.experts[at]), logits: got.layers.map(layer => (layer.logits || [])[at])}));
    } catch (error) {
      if (!error.status) throw error;
      this.note = `; the prompt is shown without its experts: ${error.message}`;
      plain();
    }
    this.redraw();
  }

  async write(request, signal) {
    this.clear();
    this.asked = request.max_tokens;
    this.said.textContent = "writing …";
    try {
      await this.readPrompt(request.prompt, signal);
      await stream("/v1/completions", {...request, ...this.routing()}, signal, event => this.take(event));
    } catch (error) {
      this.said.textContent = error.name === "AbortError" ? `stopped after ${this.written} tokens` : `error: ${error.message}`;
    }
  }

  get written() { return this.tokens.filter(token => !token.ofPrompt).length; }

  take(event) {
    const choice = event.choices[0];
    if (!choice) return;
    if (event.routing) {
      const {id, layers, logits} = event.routing, before = this.tokens.at(-1);
      if (before && !before.layers && !before.ofPrompt) Object.assign(before, {layers, logits});
      if (before) this.colour(before);
      this.add({id, text: choice.text, layers: null});
      this.drawLoad();
    } else if (choice.text) {
      this.add({id: "–", text: choice.text, layers: null});
    }
    if (!choice.finish_reason) return;
    const full = choice.finish_reason === "length" && this.written < this.asked ? " (the context is full)" : "";
    this.said.textContent = `${this.written} tokens; ended by: ${choice.finish_reason}${full}${this.note}`;
  }

  add(token) {
    const {text} = token, end = text.indexOf("\n");  // of the token's first line
    const form = text === "" ? " part" : end === 0 ? " line-break" : end > 0 ? " broken" : "";
    token.mark = end > 0 ? make("span", {class: "mark"}) : null;
    token.element = make("span", {class: "token" + (token.ofPrompt ? " of-prompt" : "") + form, role: "option", tabindex: -1,
      "aria-selected": "false", onmouseenter: () => showDetail({token, pane: this}), onclick: () => this.choose(token)},
      ...token.mark ? [text.slice(0, end), token.mark, text.slice(end)] : [text]);
    this.tokens.push(token);
    this.text.append(token.element);
    this.colour(token);
  }

  get layer() { return Number(byId("layer").value) || 0; }

  /** The token's experts in the chosen layer, largest gate first; of these the chosen expert alone, if one is chosen. */
  expertsOf(token) {
    const only = Number(byId("only").value) - 1;
    return byGate(token.layers && token.layers[this.layer] || []).filter(([expert]) => only < 0 || expert === only);
  }

  /** Colours the token by the first of its experts. */
  colour(token) {
    const experts = this.expertsOf(token), {element} = token;
    const [expert, gate] = experts[0] || [], more = experts.length - 1;
    const marks = {first: [expert], all: experts.map(([one, weight]) => `${one}:\u00a0${weight.toFixed(2)}`), none: []};
    element.style.background = experts.length ? backOf(expert) : "";
    element.dataset.mark = marks[byId("behind").value].join(", ");
    if (token.mark) token.mark.dataset.mark = element.dataset.mark;
    element.setAttribute("aria-label", spelt(token.text) +
      (experts.length ? `, expert ${expert}, gate ${gate.toFixed(2)}` + (more ? ` and ${more} more` : "") : ""));
  }

  drawLoad() {
    this.loadHeading.hidden = !this.shown.experts;
    showLoad(this.load, this.loadSaid, this.tokens, this.layer, this.shown.experts);
  }

  redraw() {
    this.tokens.forEach(token => this.colour(token));
    this.drawLoad();
  }

  choose(token) {
    for (const {element} of this.tokens) {
      element.tabIndex = -1;
      element.setAttribute("aria-selected", "false");
    }
    this.text.tabIndex = -1;
    token.element.tabIndex = 0;
    token.element.setAttribute("aria-selected", "true");
    token.element.focus();
    showDetail({token, pane: this});
  }

  moved(event) {
    const at = this.tokens.findIndex(token => token.element === document.activeElement);
    const to = {ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0,
      End: this.tokens.length - 1}[event.key];
    if (at < 0 || to === undefined || !this.tokens[to]) return;
    event.preventDefault();
    this.choose(this.tokens[to]);
  }
}

/** Finds where two texts begin to differ, marks the tokens from there on, and returns a sentence. */
function markDifference([a, b]) {
  if (!b || !b.written || !a.written) return "";
  const own = pane => pane.tokens.filter(token => !token.ofPrompt);
  const [left, right] = [own(a), own(b)];
  const length = Math.min(left.length, right.length);
  let at = 0;
  while (at < length && left[at].id === right[at].id) ++at;
  for (const token of [...left.slice(at), ...right.slice(at)]) token.element.classList.add("differs");
  return at === length && left.length === right.length ? "Both wrote the same tokens."
    : `The texts part at written token ${at + 1}; what differs is underlined.`;
}

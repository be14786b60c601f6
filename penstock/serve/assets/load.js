// Shows how the tokens of a text are spread over a layer's experts, while the tokens arrive.
function countLoad(tokens, layer, experts) {
  const counts = new Array(experts).fill(0);
  let read = 0;
  for (const token of tokens) {
    if (!token.layers || !token.layers[layer]) continue;
    ++read;
    for (const [expert] of token.layers[layer]) ++counts[expert];
  }
  return {counts, read};
}

/** How even the load is, as a sentence. */
function loadSaid(counts) {
  const sum = counts.reduce((a, b) => a + b, 0);
  if (!sum) return "";
  return `${counts.filter(count => count).length} of ${counts.length} experts used; the fullest has ` +
    `${(Math.max(...counts) * counts.length / sum).toFixed(1)} times an even share.`;
}

/** Draws bars into the list. Existing bars are changed, not made again. */
function showLoad(list, said, tokens, layer, experts) {
  const {counts, read} = countLoad(tokens, layer, experts);
  said.textContent = loadSaid(counts);
  while (list.children.length > experts) list.lastChild.remove();
  while (list.children.length < experts) {
    const bar = make("span", {class: "bar", "aria-hidden": "true"});
    bar.style.background = barOf(list.children.length);
    list.append(make("li", {}, make("span"), bar));
  }
  const most = Math.max(1, ...counts);
  counts.forEach((count, expert) => {
    const [text, bar] = list.children[expert].children;
    text.textContent = `${expert}: ${count}` + (read ? ` (${Math.round(100 * count / read)} %)` : "");
    bar.style.width = `${100 * count / most}%`;
  });
}

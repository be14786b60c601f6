// Opens the pages of `penstock serve` and `penstock view` in headless Chromium, uses them as a person does, by mouse and by
// keyboard, and runs axe, which finds faults of accessibility. Prints the faults. The exit code says whether there is one.
//
//     node page_check.js CHROMIUM SERVED_URL VIEWED_URL SCREENSHOT_FOLDER
//
// With - as VIEWED_URL the server has one model and no corpus, and the checks of comparing, of the corpus and of curves are left out.
// It needs puppeteer-core and axe-core, which NODE_PATH finds.
"use strict";
const fs = require("fs");
const path = require("path");
const puppeteer = require("puppeteer-core");
const axe = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const [chromium, served, viewed, folder] = process.argv.slice(2);
let failures = 0;

function expect(what, holds, detail = "") {
  if (holds) return;
  ++failures;
  console.log(`FAILED: ${what} ${typeof detail === "string" ? detail : JSON.stringify(detail)}`);
}

async function open(browser, url, {dark = false, phone = false} = {}) {
  const page = await browser.newPage();
  page.on("console", message => expect("no console errors", message.type() !== "error", message.text()));
  page.on("pageerror", error => expect("no errors of the page", false, String(error)));
  // Chromium calls a stream aborted now and then although the page has read all of it: with Python's http.server in place of
  // ours it did so for 180 of 600 streams. Its other errors (a reset, a stream cut short) fail here, and each text's length
  // is looked at below.
  page.on("requestfailed", request => expect("no request fails",
    request.url().endsWith("/v1/completions") && request.failure()?.errorText === "net::ERR_ABORTED",
    `${request.url()} ${request.failure()?.errorText}`));
  page.on("request", request => expect("no other host", /^(data:|http:\/\/127\.0\.0\.1)/.test(request.url()), request.url()));
  await page.emulateMediaFeatures([{name: "prefers-color-scheme", value: dark ? "dark" : "light"}]);
  await page.setViewport(phone ? {width: 390, height: 844, deviceScaleFactor: 2, isMobile: true, hasTouch: true}
    : {width: 1280, height: 900});
  await page.goto(url, {waitUntil: "networkidle0"});
  return page;
}

async function look(page, name) {
  await page.screenshot({path: path.join(folder, `${name}.png`), fullPage: true});
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  expect(`${name}: fits the width`, wide <= 0, `${wide} pixels too wide`);
  // The page's policy forbids scripts from elsewhere, but DevTools may add one.
  await page.evaluate(axe);
  const found = await page.evaluate(() => window.axe.run(document, {resultTypes: ["violations"]}));
  for (const {id, help, nodes} of found.violations)
    expect(`${name}: axe`, false, `${id}: ${help}: ${nodes.slice(0, 3).map(node => node.html.slice(0, 200)).join(" | ")}`);
}

const ended = count => page => page.waitForFunction(wanted => {
  const said = [...document.querySelectorAll("#panes > section:not([hidden]) .said")].map(one => one.textContent);
  return said.length === wanted && said.every(text => text.includes("ended by")) && !document.getElementById("go").disabled;
}, {timeout: 60000}, count);

async function set(page, selector, value) {
  await page.$eval(selector, (field, text) => { field.value = text; field.dispatchEvent(new Event("change")); }, value);
}

async function writes(browser) {
  const page = await open(browser, served);
  await page.waitForFunction(() => !document.getElementById("model-name").textContent.includes("…"));
  await page.click("#prompt", {clickCount: 3});
  await page.type("#prompt", "the gate decides");
  await set(page, "#tokens", "24");
  await page.click("#go");
  await ended(1)(page);
  const tokens = await page.$$eval(".token:not(.of-prompt)", all => all.length);
  expect("number of generated tokens", tokens === 24, tokens);
  const colours = await page.$$eval(".token", all => new Set(all.map(one => one.style.background)).size);
  expect("tokens in colours of several experts", colours > 2, colours);
  expect("the load of an expert is not zero", (await page.$$eval(".load li", all => all.map(one => one.innerText))).some(text => !/: 0/.test(text)));
  await page.hover(".token");
  const rows = () => page.$$eval("#detail-table tbody tr", all => all.map(row => row.innerText));
  const layers = await page.$eval("#layer", select => select.options.length);
  expect("hovering shows every layer", (await rows()).length === layers, await rows());
  expect("hovering shows gates and logits", /\d: -?\d+\.\d\d/.test((await rows())[0]), await rows());
  await marksTokens(page);
  await marksLines(page);
  expect("what the page says of the model is read aloud", await page.$eval("#model-name", one => one.ariaLive === "polite"));
  await look(page, "written");
  return page;
}

/** The experts and gates behind the first token and in the sentence about it are those of /v1/routing. */
async function marksTokens(page) {
  const layers = await page.evaluate(async () => {
    const reply = await fetch("/v1/routing", {method: "POST", headers: {"Content-Type": "application/json"},
      body: JSON.stringify({input: "the gate decides"})});
    return (await reply.json()).layers;
  });
  const shares = layers[1].experts[0].sort((a, b) => b[1] - a[1]);
  const listed = digits => shares.map(([expert, gate]) => `${expert}: ${gate.toFixed(digits)}`).join(", ");
  const mark = () => page.$eval(".token", one => getComputedStyle(one, "::after").content);
  const names = await page.$$eval("#layer option", all => all.map(one => one.textContent).join());
  expect("layers have the numbers of /v1/routing", names === layers.map(one => one.layer).join(), names);
  await page.select("#layer", "1");
  expect("the first expert is behind its token", (await mark()) === `"${shares[0]?.[0] ?? ""}"`, [await mark(), shares]);
  await page.select("#behind", "all");
  const all = (await mark()).replaceAll("\u00a0", " ");
  expect("all experts and gates are behind their token", all === `"${listed(2)}"`, [all, listed(2)]);
  const about = await page.$eval("#about", one => one.textContent);
  const said = `layer ${layers[1].layer}, experts and gates: ${listed(3) || "none"}`;
  expect("a sentence has the experts of the chosen layer", about.endsWith(said), [about, said]);
  await page.select("#behind", "none");
  expect("nothing is behind tokens", (await mark()) === '""', await mark());
  await page.select("#behind", "first");
  const spelt = await page.evaluate(() => ["", " ", "\n   ", "\t\t", "\u0001", " a"].map(text => window.spelt(text)).join("|"));
  expect("every token has a name", spelt === "part of a character|space|line break, 3 spaces|2 tabs|character U+0001| a", spelt);
  const [expert, count] = await page.$$eval(".load li", all => all.map(one => one.innerText.match(/(\d+): (\d+)/).slice(1))
    .sort((a, b) => b[1] - a[1])[0]);
  await page.select("#only", String(Number(expert) + 1));
  const of = await page.$$eval(".token", all => all.filter(one => one.style.background).map(one => one.dataset.mark));
  expect("one expert's tokens are marked", of.length === Number(count) && of.every(one => one === expert), [expert, count, of]);
  await page.select("#only", "0");
}

/** The expert of a token with a line break stands on the line of the token's first characters. */
async function marksLines(page) {
  const seen = await page.evaluate(() => ["a\n", "b\nc", "\n  "].map(text => {
    const pane = panes[0], token = {id: 0, text, layers: pane.tokens[0].layers.map(() => [[1, 0.5]])};
    pane.add(token);
    const {element} = token, mark = element.querySelector(".mark");
    const content = (one, where) => getComputedStyle(one, where).content.match(/\d/g)?.join("") || "";
    const out = {text: element.textContent, before: content(element, "::before"), after: content(element, "::after"),
      mark: mark && content(mark, "::after"),
      lower: mark && mark.getBoundingClientRect().top - element.getClientRects()[0].top};
    pane.tokens.pop();
    element.remove();
    return out;
  }));
  const [end, middle, begin] = seen;
  for (const {text, after, mark, lower} of [end, middle])
    expect("a mark before the line break", after === "" && mark === "1" && lower < 10, [text, after, mark, lower]);
  expect("a mark beside the sign of a line break", begin.before === "1" && begin.after === "" && !begin.mark, begin);
  expect("the texts stay", seen.map(one => one.text).join("|") === "a\n|b\nc|\n  ", seen);
}

/** Closes the page when its streams have ended, because closing it aborts them. */
async function close(page) {
  await page.waitForNetworkIdle({idleTime: 200});
  await page.close();
}

/** With the keyboard alone: from the layer's list to a token, along the text, and back out. */
async function byKeyboard(page) {
  await page.focus("#only");
  await page.keyboard.press("Tab");
  const focused = () => page.evaluate(() => document.activeElement.className + "|" + document.activeElement.getAttribute("aria-label"));
  expect("Tab reaches the tokens", (await focused()).startsWith("token"), await focused());
  const before = await page.$eval("#about", one => one.textContent);
  await page.keyboard.press("End");
  expect("End reaches the last token", await page.evaluate(() => document.activeElement === document.querySelector(".text").lastChild));
  await page.keyboard.press("ArrowLeft");
  const after = await page.$eval("#about", one => one.textContent);
  expect("another token is described", after !== before && after.startsWith("Written"), after);
  expect("one token is chosen", (await page.$$(".token[aria-selected=true]")).length === 1);
  const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
  expect("the focus can be seen", outline === "solid", outline);
}

async function compares(page) {
  await page.click("#compare");
  const second = "#choices fieldset:nth-child(2)";
  const names = await page.$$eval(`${second} option`, all => all.map(one => one.textContent));
  expect("the folded model can be chosen", names.some(name => name.endsWith("-folded")), names);
  await page.select(`${second} select`, String(names.findIndex(name => name.endsWith("-folded"))));
  await page.click("#go");
  await ended(2)(page);
  const said = () => page.$eval("#difference", one => one.textContent);
  expect("the folded model writes the same", (await said()) === "Both wrote the same tokens.", await said());
  await page.select(`${second} select`, "0");
  await set(page, `${second} input[type=number]`, "1");
  await page.click("#go");
  await ended(2)(page);
  expect("one expert per token writes another text", (await said()).startsWith("The texts part"), await said());
  expect("tokens that differ are marked", (await page.$$(".token.differs")).length > 0);
  await look(page, "compared");
}

/** A dense model beside others: no lists of layers, loads or experts, and no error where the list of models changes. */
async function dense(page) {
  await page.click("#compare");
  const models = "#choices fieldset:nth-child(1) select";
  const at = String((await page.$$eval(`${models} option`, all => all.map(one => one.textContent))).indexOf("plain"));
  const bars = () => page.$$eval("#panes > section:not([hidden]) .load li", all => all.length);
  const before = await bars();
  await page.select(models, at);
  await page.select("#layer", "1");
  expect("the load is that of the model that wrote the text", before > 0 && (await bars()) === before, [before, await bars()]);
  await page.click("#go");
  await ended(1)(page);
  await page.hover(".token");
  const seen = () => page.evaluate(() => ["#marks", "#detail", "#panes h4"].filter(one => document.querySelector(one).checkVisibility()));
  expect("a dense model has nothing about experts", (await seen()).length === 0 && (await bars()) === 0, await seen());
  const about = await page.$eval("#about", one => one.textContent);
  expect("a dense model's token", about.endsWith("the gate decides"), about);
  await page.select(models, "0");
}

/** What the page says where the server does not answer, ends in the middle of a text, or refuses a part. */
async function fails(page) {
  const said = async (prepare, wanted) => {
    await page.evaluate(prepare);
    await page.click("#go");
    await page.waitForFunction(() => !document.getElementById("go").disabled);
    const text = await page.$eval("#panes .said", one => one.textContent);
    expect("what is said of a failure", text.includes(wanted), [text, wanted]);
  };
  await page.evaluate(() => { window.ownFetch = window.fetch; });
  await said(() => { window.fetch = () => Promise.reject(new TypeError("Failed to fetch")); }, "the server does not answer");
  await said(() => { window.fetch = (path, options) => path === "/v1/routing" ? window.ownFetch(path, options)
    : Promise.resolve(new Response('data: {"choices":[{"text":"a"}]}\n\n')); }, "the connection ended before the text did");
  await said(() => { window.fetch = (path, options) => path !== "/v1/routing" ? window.ownFetch(path, options)
    : Promise.resolve(new Response('{"error":{"message":"too long"}}', {status: 400})); },
    "the prompt is shown without its experts: too long");
  await said(() => { window.fetch = (path, options) => path === "/v1/routing" ? window.ownFetch(path, options)
    : Promise.resolve(new Response('data: {"choices":[{"text":"a","finish_reason":"length"}]}\n\ndata: [DONE]\n\n')); },
    "1 tokens; ended by: length (the context is full)");
  await page.evaluate(() => {
    window.fetch = (path, options) => path !== "/v1/corpus" ? window.ownFetch(path, options)
      : Promise.resolve(new Response('{"error":{"message":"too many connections"}}', {status: 503}));
    load();
  });
  await page.waitForFunction(() => byId("corpus-tables").hidden);
  const refused = await page.$eval("#corpus-about", one => one.textContent);
  expect("what is said of a corpus that does not come", refused === "The corpus is not shown: too many connections", refused);
  await page.evaluate(() => { window.fetch = window.ownFetch; });
  await page.evaluate(() => { panes = []; byId("choices").replaceChildren(); });
  await page.click("#go");
  await page.waitForSelector("#choices fieldset", {timeout: 10000});
  await page.waitForSelector("#corpus-tables:not([hidden])");
}

async function corpus(page) {
  expect("experts of tokens", (await page.$$("#token-experts tbody tr")).length > 5);
  await page.type("#token-filter", "t");
  const texts = await page.$$eval("#token-experts tbody th", all => all.map(one => one.textContent));
  expect("the filter keeps the texts that match", texts.length > 0 && texts.every(text => text.includes("t")), texts);
  expect("tokens of experts", (await page.$$("#expert-tokens tbody tr")).length > 1);
  expect("domains", (await page.$$("#domains tbody tr")).length > 0);
  await look(page, "corpus");
}

async function onAPhone(browser) {
  const page = await open(browser, served, {dark: true, phone: true});
  await page.waitForFunction(() => !document.getElementById("model-name").textContent.includes("…"));
  await set(page, "#tokens", "12");
  await page.tap("#go");
  await ended(1)(page);
  await page.tap(".token");
  await look(page, "phone-dark");
  await close(page);
}

/** Gives the page contrast(a, b): WCAG's contrast, from 1 to 21, of two colours of CSS. */
function defineContrast() {
  const pen = Object.assign(document.createElement("canvas"), {width: 1, height: 1}).getContext("2d", {willReadFrequently: true});
  const luminance = colour => {
    const probe = document.body.appendChild(document.createElement("span"));
    probe.style.color = colour;
    pen.fillStyle = getComputedStyle(probe).color;  // the canvas knows no variables
    probe.remove();
    pen.fillRect(0, 0, 1, 1);
    const [r, g, b] = [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3).map(part => part / 255)
      .map(part => part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
  };
  window.contrast = (a, b) => {
    const [one, other] = [luminance(a), luminance(b)];
    return Math.max(one, other) / Math.min(one, other);
  };
}

/** The least contrast of the experts' colours with what is beside them. WCAG asks for 3 (shapes) and 4.5 (text). */
async function colours(page, name) {
  await page.evaluate(defineContrast);
  const [shapes, texts] = await page.evaluate(() => {
    const experts = Array.from({length: 256}, (_, expert) => expert);
    return [Math.min(...experts.map(expert => contrast(barOf(expert), "var(--back)"))),
      Math.min(...experts.map(expert => contrast(backOf(expert), "var(--ink)")))];
  });
  expect(`${name}: bars and lines stand out`, shapes >= 3, shapes);
  expect(`${name}: text on an expert's colour can be read`, texts >= 4.5, texts);
}

/** A run that goes on changes the table beneath a focused box, and keeps the focus; other runs have other lines. */
async function goesOn(page) {
  const seen = await page.evaluate(() => {
    const run = shownRuns.runs[0], other = {...run, name: "another"};
    document.querySelector("#table input").focus();
    const box = document.activeElement;
    show({...shownRuns, runs: [{...run, steps: 4, planned_steps: 9, finished: false}]});
    const same = document.activeElement === box, cells = document.querySelector("#table tbody tr").innerText;
    show({...shownRuns, runs: [run, other]});
    const dashes = [...document.querySelectorAll("#chart path")].map(path => path.getAttribute("stroke-dasharray"));
    return {same, cells, dashes, focused: document.activeElement.dataset.run === run.name};
  });
  expect("a focused box stays", seen.same && seen.focused, seen);
  expect("the table is up to date", /4 of 9/.test(seen.cells) && /under way/.test(seen.cells), seen);
  expect("lines differ by more than their colour", new Set(seen.dashes).size === 2, seen);
}

async function curves(browser) {
  for (const dark of [false, true]) {
    const page = await open(browser, new URL("/runs", viewed).href, {dark, phone: dark});
    await page.waitForSelector("#chart path");
    expect("the table has a row for each run", (await page.$$("#table tbody tr")).length > 0);
    const size = await page.$eval("#chart text", text => parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a);
    expect("the text of the chart can be read", size >= 11, size);
    await colours(page, dark ? "dark" : "light");
    await look(page, dark ? "curves-phone-dark" : "curves");
    await goesOn(page);
    await page.close();
  }
  for (const dark of [false, true]) {
    const report = await open(browser, new URL("/report", viewed).href, {dark, phone: dark});
    expect("the report", (await report.title()).length > 0);
    await look(report, dark ? "report-phone-dark" : "report");
    await report.evaluate(defineContrast);
    const least = await report.evaluate(heatContrast);
    expect("the numbers of heat maps can be read", least >= 4.5, [dark, least]);
    await report.close();
  }
}

/** The least contrast of a number in a heat map with its cell, over all values. */
function heatContrast() {
  const cell = document.querySelector(".heat td[style]");
  return Math.min(...Array.from({length: 501}, (_, i) => i / 500).map(value => {
    cell.style.setProperty("--v", value);
    cell.className = value > 0.62 ? "high" : "";
    const look = getComputedStyle(cell);
    return contrast(look.backgroundColor, look.color);
  }));
}

(async () => {
  const browser = await puppeteer.launch({executablePath: chromium, headless: true, args: ["--no-sandbox", "--disable-gpu"]});
  try {
    const page = await writes(browser);
    await byKeyboard(page);
    if (viewed !== "-") {
      await compares(page);
      await dense(page);
      await fails(page);
      await corpus(page);
      await curves(browser);
    }
    await onAPhone(browser);
    await close(page);
  } catch (error) {
    expect("the page can be used", false, String(error.stack));
  } finally {
    await browser.close();
  }
  console.log(failures ? `${failures} failures` : "passed");
  process.exit(failures ? 1 : 0);
})();

// Asks the server for whole answers and for streams.
function headers() {
  const out = {"Content-Type": "application/json"};
  if (byId("key").value) out.Authorization = "Bearer " + byId("key").value;
  return out;
}

async function answerOf(reply) {
  if (reply.ok) return reply;
  const text = await reply.text();
  let message = `the server answered ${reply.status}`;
  try { message = JSON.parse(text).error.message; } catch { /* the answer is no error object */ }
  throw Object.assign(new Error(message), {status: reply.status});
}

/** Waits for a promise of the network. Its failures get other words, but not those of Stop. */
async function connected(promise, said) {
  try {
    return await promise;
  } catch (error) {
    throw error.name === "AbortError" ? error : new Error(said);
  }
}

const ask = async (path, options) =>
  answerOf(await connected(fetch(path, {headers: headers(), ...options}), "the server does not answer"));

const get = async path => (await ask(path, {})).json();

const post = (path, body, signal) => ask(path, {method: "POST", body: JSON.stringify(body), signal});

/** Calls `take` with each object of a streamed answer. */
async function stream(path, body, signal, take) {
  const reader = (await post(path, {...body, stream: true}, signal)).body.pipeThrough(new TextDecoderStream()).getReader();
  const cut = "the connection ended before the text did";
  let rest = "", whole = false;
  for (;;) {
    const {value, done} = await connected(reader.read(), cut);
    if (done && !whole) throw new Error(cut);
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      if (line === "data: [DONE]") whole = true;
      if (!line.startsWith("data: ") || whole) continue;
      const event = JSON.parse(line.slice(6));
      if (event.error) throw new Error(event.error.message);
      take(event);
    }
  }
}

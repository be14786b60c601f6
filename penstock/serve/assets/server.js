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

const get = async path => (await answerOf(await fetch(path, {headers: headers()}))).json();

const post = async (path, body, signal) =>
  answerOf(await fetch(path, {method: "POST", headers: headers(), body: JSON.stringify(body), signal}));

/** Calls `take` with each object of a streamed answer. */
async function stream(path, body, signal, take) {
  const reader = (await post(path, {...body, stream: true}, signal)).body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const {value, done} = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      if (!line.startsWith("data: ") || line === "data: [DONE]") continue;
      const event = JSON.parse(line.slice(6));
      if (event.error) throw new Error(event.error.message);
      take(event);
    }
  }
}

// Makes a chat and its stream with OpenAI's own client for Node: node openai_client.mjs URL_OF_V1
import {createRequire} from "node:module";

const OpenAI = createRequire(import.meta.url)("openai").default;
const client = new OpenAI({baseURL: process.argv[2], apiKey: "any", maxRetries: 0});

function expect(what, holds, detail) {
  if (holds) return;
  console.log(`FAILED: ${what} ${JSON.stringify(detail)}`);
  process.exitCode = 1;
}

const models = (await client.models.list()).data;
expect("models", models.length === 1 && models[0].object === "model", models);
expect("one model", (await client.models.retrieve(models[0].id)).id === models[0].id, models);
const ask = {model: models[0].id, messages: [{role: "user", content: "the gate"}], max_tokens: 12, seed: 5};
const whole = await client.chat.completions.create(ask);
expect("a chat", whole.choices[0].message.role === "assistant" && whole.usage.completion_tokens > 0, whole);
const next = [...ask.messages, whole.choices[0].message, {role: "user", content: "more"}];
const second = await client.chat.completions.create({...ask, messages: next});
expect("a second turn with the answer as it came", second.usage.prompt_tokens > whole.usage.total_tokens, second);
let text = "", finish = null, usage = null;
for await (const chunk of await client.chat.completions.create({...ask, stream: true, stream_options: {include_usage: true}})) {
  text += chunk.choices[0]?.delta?.content ?? "";
  finish = chunk.choices[0]?.finish_reason ?? finish;
  usage = chunk.usage ?? usage;
}
expect("the stream has the text of the whole answer", text === whole.choices[0].message.content, [text, whole]);
expect("finish reason of the stream", finish === whole.choices[0].finish_reason, finish);
expect("usage of the stream", usage?.total_tokens === whole.usage.total_tokens, usage);
const completion = await client.completions.create({model: models[0].id, prompt: "the gate", max_tokens: 5, logprobs: 2});
expect("a completion", completion.choices[0].logprobs.tokens.length === completion.usage.completion_tokens, completion);
// The stream is aborted while more is to come. If its end has arrived, Node 20's fetch never returns from an abort.
const left = await client.completions.create({model: models[0].id, prompt: "the gate", max_tokens: 100000, temperature: 0, stream: true});
for await (const chunk of left) {
  if (chunk.choices.length) break;
}
try {
  await client.chat.completions.create({...ask, model: "another"});
  expect("an error", false);
} catch (error) {
  expect("an error", error.status === 404 && error.param === "model", error);
}
console.log(process.exitCode ? "failed" : "passed");

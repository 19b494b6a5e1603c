// A harness in forty lines: it asks a model, runs the one tool it has, and asks again.
// It speaks the Messages API to ANTHROPIC_BASE_URL, so `offshoot proxy` can record it:
//
//   offshoot proxy --script examples/hello.yaml --out hello -- node examples/harness.mjs 'What is here?'

import { readdirSync } from "node:fs";

const base = process.env.ANTHROPIC_BASE_URL ?? "https://api.anthropic.com";
const key = process.env.ANTHROPIC_API_KEY ?? "no-key-needed-offline";

const tools = [
  {
    name: "list_folder",
    description: "Names what is in the current folder.",
    input_schema: { type: "object", properties: {} },
  },
];
const prompt = process.argv[2] ?? "What is in this folder? Then say hello.";
const messages = [{ role: "user", content: prompt }];

for (;;) {
  const response = await fetch(`${base}/v1/messages`, {
    method: "POST",
    headers: { "content-type": "application/json", "anthropic-version": "2023-06-01", "x-api-key": key },
    body: JSON.stringify({ model: "claude-haiku-4-5", max_tokens: 1000, tools, messages }),
  });
  const reply = await response.json();
  if (!response.ok) {
    console.error(reply.error?.message ?? reply);
    process.exit(1);
  }
  messages.push({ role: "assistant", content: reply.content });
  for (const block of reply.content) {
    if (block.type === "text") console.log(block.text);
  }
  const calls = reply.content.filter((block) => block.type === "tool_use");
  if (calls.length === 0) break;
  const listing = readdirSync(".").join("\n");
  const results = calls.map((call) => ({ type: "tool_result", tool_use_id: call.id, content: listing }));
  messages.push({ role: "user", content: results });
}

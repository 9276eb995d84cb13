/**
 * An agent of somebody else: a program of its own that knows an address and the client of OpenAI, nothing of worldgrad.
 * For each line { baseUrl, seed } on its standard input it plays an episode and sends the reward: it asks for a letter,
 * and is pleased with the letter a.
 */
import process from "node:process";
import { createInterface } from "node:readline";
import OpenAI from "openai";

for await (const line of createInterface({ input: process.stdin })) void play(JSON.parse(line));

async function play({ baseUrl, seed }) {
  const client = new OpenAI({ baseURL: baseUrl, apiKey: "none", maxRetries: 0 });
  const messages = [{ role: "user", content: "a" }];
  let reward = 0;
  for (let turn = 0; turn < 2; turn++) {
    const { choices } = await client.chat.completions.create({
      model: "toy",
      messages,
      max_tokens: 1,
      seed: seed + turn,
    });
    const { message } = choices[0];
    if (message.content === "a") reward += 0.5;
    messages.push({ role: "assistant", content: message.content }, { role: "user", content: "b" });
  }
  await fetch(baseUrl.replace(/v1$/, "reward"), {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ reward, success: reward === 1 }),
  });
}

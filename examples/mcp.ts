/**
 * The tools of an MCP server as an environment: the agent calls `get-sum` of the reference server "everything", reads
 * what it answers, and says the sum; a function of ours judges that. The server is a process of its own for each
 * episode. Here a scripted expert plays, and a rollout by a transformer with random weights, which is what GRPO would
 * start from. `npx tsx examples/mcp.ts` (needs the packages @modelcontextprotocol/sdk and, for this server,
 * @modelcontextprotocol/server-everything). Its last line: `the expert earned 1, random weights 0`
 *
 * In a program of your own the imports come from "worldgrad" and "worldgrad/mcp".
 */
import { createRequire } from "node:module";
import process from "node:process";
import { byteTokenizer, demonstrate, device, initParams, modelConfig, Rng, rollout } from "../index.ts";
import { SPECIAL_TOKENS, Template } from "../index.ts";
import { mcp } from "../connect/mcp/index.ts";

const server = createRequire(import.meta.url).resolve("@modelcontextprotocol/server-everything/dist/index.js");
const numbers = (seed: number): [a: number, b: number] => [new Rng(seed).int(50), new Rng(seed + 1).int(50)];

const sums = mcp({
  name: "sums",
  // { url: "https://…/mcp" } is a server that runs already.
  server: { command: process.execPath, args: [server] },
  tools: ["get-sum"], // nothing else can be called
  task(seed) {
    const [a, b] = numbers(seed);
    return { text: `${a} + ${b}?`, data: a + b };
  },
  describe: false, // no line for each tool in the task: these models are small
  reward: ({ isOver, answer, data }) => (isOver ? Number(answer === String(data)) : undefined),
  maxTurns: 4,
  timeout: 60_000,
  expert({ turns, seed }) {
    const [a, b] = numbers(seed);
    return turns.length === 0 ? `get-sum a=${a} b=${b}` : `answer ${/is (\d+)/.exec(turns[0]!.result)![1]}`;
  },
});

const tokenizer = byteTokenizer({ specials: SPECIAL_TOKENS });
const template = new Template(tokenizer);
const shown = await demonstrate(sums, {}, 7, template);
console.log(tokenizer.decode(shown.stream.ids).replaceAll("<|act|>", "\n<|act|>"));

const executor = await device("wasm");
const config = modelConfig({ vocabSize: tokenizer.vocabSize, hiddenSize: 32, layers: 1, heads: 2, maxPositions: 256 });
const model = { config, params: initParams(config, new Rng(0), executor) };
const request = { spec: sums, options: {}, seed: 7, group: 0, rng: new Rng(1) };
const [played] = await rollout(model, template, [request], { maxActionTokens: 16, timeout: 60_000 });
console.log(`the expert earned ${shown.reward}, random weights ${played!.reward}`);
executor.dispose();

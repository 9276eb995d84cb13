/**
 * `npm run generate -- --run runs/<name> --task "…"`: plays one episode live with a trained checkpoint. The world and
 * its task follow from `--seed`. `--task` replaces the task by your text; then nothing judges the episode. With
 * `--model-path` a model continues a prompt instead (continuation.ts).
 */
import process from "node:process";
import { device, Rng } from "../../engine/index.ts";
import { Decoder, type SampledToken } from "../../nn/index.ts";
import { TextStream } from "../../pretrained/index.ts";
import { emptyStream, readBefore } from "../../rl/episode/stream.ts";
import { checkAnswer, checkTask } from "../../rl/play/answers.ts";
import { visible } from "../visible.ts";
import { createStyle, wantsColour } from "../display/style.ts";
import { environmentOf, taskOptions } from "../worlds.ts";
import { loadEnvironmentOf } from "../node/environmentFile.ts";
import { giveWebSocketTo } from "../node/webSocket.ts";
import { checkpointNamed } from "../node/checkpoints.ts";
import { openGiven, parse, report, runPath } from "../node/flags.ts";
import { endWithOutput, outputTaken } from "../node/output.ts";
import { numberFrom, UsageError, wholeNumber } from "../usage.ts";
import { presetOf } from "../presets.ts";
import { templateFor } from "../template.ts";
import { modelFromCheckpoint } from "../modelFiles.ts";
import { sourceLoader } from "../node/runSource.ts";
import { CONTINUATION_FLAGS, continuePrompt } from "./continuation.ts";

const HELP = `worldgrad: play one episode with a trained checkpoint, or continue a prompt

  npm run generate -- --run runs/NAME [flags]

  --run PATH         run folder whose checkpoint plays
  --checkpoint NAME  newest | best (on held-out tasks) | a step
                                                              (default newest)
  --task TEXT        your own task; without it the environment's held-out task for the seed, which is also judged
  --seed N           seed of the world and of all random numbers
                                                              (default 0)
  --temperature X    0 is greedy                              (default 0)

  npm run generate -- --model-path DIR --prompt TEXT [flags]

  --model-path DIR   folder with a model, as transformers or llama2.c write it
  --prompt TEXT      the user's message, formatted by the model's chat template
  --raw              continues the prompt as it is; so does a model without a chat template
  --system TEXT      a system message
  --adapter DIR      an adapter for the model, in PEFT's format
  --storage FORM     f32 | bf16 | f16 | q8: how its matrices are stored in memory
                                                              (default f32)
  --max-tokens N     largest number of tokens that are drawn  (default 256)
  --seed N           seed of the random numbers               (default 0)
  --temperature X    0 is greedy                              (default: the model's generation config)
  --beams N          in place of drawing, the N most probable texts that a beam search finds, best first
  --beam-groups G    groups of beams, each of which avoids what earlier ones chose at a token
                                                              (default 1)
  --diversity-penalty X
                     what a token costs for each beam of an earlier group that chose it
                                                              (default 0.5)
  --stats            prints time and memory at the end
  --help             this text
`;

const FLAGS = {
  run: { type: "string" },
  checkpoint: { type: "string" },
  task: { type: "string" },
  seed: { type: "string" },
  temperature: { type: "string" },
  ...CONTINUATION_FLAGS,
  help: { type: "boolean" },
} as const;

async function main(): Promise<number> {
  endWithOutput();
  const values = parse(process.argv.slice(2), FLAGS);
  if (values["help"]) {
    process.stdout.write(HELP);
    return 0;
  }
  if (values["model-path"] !== undefined) return continuePrompt(values);
  const flag = Object.keys(CONTINUATION_FLAGS).find((name) => values[name] !== undefined);
  if (flag !== undefined) throw new UsageError(`--${flag} is for --model-path, which continues a prompt`);
  const path = runPath(values);
  const seed = wholeNumber("seed", String(values["seed"] ?? 0), 0);
  const temperature = numberFrom("temperature", String(values["temperature"] ?? 0));
  const folder = openGiven("run", path);
  const checkpoint = checkpointNamed("run", folder, values["checkpoint"] as string | undefined);
  const preset = presetOf(folder);
  await loadEnvironmentOf(preset);
  const executor = await device("wasm");
  const { model, tokenizer } = await modelFromCheckpoint(checkpoint, executor, sourceLoader(preset));
  const write = (text: string): void => void process.stdout.write(text);
  const style = createStyle(wantsColour(process.stdout.isTTY, process.env));

  await giveWebSocketTo(preset.env);
  const env = environmentOf(preset).make(taskOptions(preset, "heldout"));
  const given = checkTask(env.name, await env.reset(seed));
  const task = typeof values["task"] === "string" ? values["task"] : given;
  const template = templateFor(preset, tokenizer);
  const stream = emptyStream();
  template.appendTask(stream, task);
  write(`${style.dim(`checkpoint after step ${checkpoint.step}`)}\n${style.bold("task")} ${visible(task)}\n`);

  const { action: [open] = [], thought } = template.options;
  const isThought = (ids: readonly number[]): boolean =>
    open === undefined
      ? thought !== undefined && template.parseAction(ids, true) === undefined
      : !tokenizer.decode(ids).includes(open);
  const { maxTurns, maxActionTokens, maxObservationTokens } = preset.rollout;
  const rng = new Rng(seed).split("generate");
  const decoder = new Decoder(model, 1, preset.model.maxPositions);
  let pending = [...stream.ids];
  try {
    for (let turn = 0; turn < maxTurns; turn++) {
      write(style.role.action("$ "));
      const action: number[] = [];
      const shown = new TextStream(tokenizer);
      const show = (text: string): void => {
        write(style.role[isThought(action) ? "thought" : "action"](visible(text)));
      };
      while (!template.isEnd(action.at(-1)) && action.length < maxActionTokens) {
        if (decoder.lengths[0]! + pending.length > preset.model.maxPositions) return end("the context is full");
        const [[token]] = (await decoder.draw([{ row: 0, tokens: pending, rng }], { temperature })) as [[SampledToken]];
        pending = [token.id];
        action.push(token.id);
        if (!template.isEnd(token.id)) show(shown.push([token.id]));
      }
      show(shown.end());
      write("\n");
      if (!template.isEnd(action.at(-1))) return end("the action did not end");
      const result = checkAnswer(env.name, await env.step(template.actionText(action)));
      const answer = template.encodeObservation(result.observation, maxObservationTokens);
      if (answer.ids.length > 0) write(`${style.role.observation(visible(tokenizer.decode(answer.ids)))}\n`);
      if (result.done) {
        return end(values["task"] === undefined ? `reward ${result.reward}` : "ended (your own task is not judged)");
      }
      template.appendSampled(stream, turn, action);
      template.appendObservation(stream, turn, answer);
      template.beginTurn(stream);
      decoder.truncate(0, 0);
      pending = readBefore(stream);
    }
    return end("out of turns");
  } finally {
    decoder.dispose();
    executor.dispose();
  }

  function end(how: string): number {
    write(`${style.dim(visible(how))}\n`);
    return 0;
  }
}

process.exitCode = await main().catch(report);
await outputTaken();
// Worker threads of the executor have ended by now, so nothing else keeps the process alive.
process.exit();

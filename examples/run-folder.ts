/**
 * A training loop of your own, kept in a run folder: the programs that read runs read it, and it goes on after a kill
 * with the same bits. `npx tsx examples/run-folder.ts runs/mine 6` trains up to step 6; with 12 it goes on from there.
 *
 *     npm run doctor -- runs/mine --report
 *
 * In a program of your own the imports come from "worldgrad", "worldgrad/run" and "worldgrad/node".
 */
import { existsSync } from "node:fs";
import { AdamW, byteTokenizer, device, gridworld, grpo, initParams, modelConfig, modelFromFiles } from "../index.ts";
import { modelToFiles, optimizerToFiles, ppoClip, restoreOptimizer, Rng, schedule } from "../index.ts";
import { SPECIAL_TOKENS, Template, trainRl } from "../index.ts";
import { describeEpisodes, pickEpisodes } from "../run/index.ts";
import { createRun, lockFolder, openRun } from "../run/node/index.ts";

const [path = "runs/mine", last = "6"] = process.argv.slice(2);
const steps = Number(last);
const every = 2; // a checkpoint

const on = await device("wasm");
const rng = new Rng(1);
const template = new Template(byteTokenizer({ specials: SPECIAL_TOKENS }));
const { vocabSize } = template.tokenizer;
const config = modelConfig({ vocabSize, hiddenSize: 16, layers: 1, heads: 2, maxPositions: 256 });

// One process at a time trains into a folder. A new one gets the settings that you want to remember.
const release = await lockFolder(path);
const run = existsSync(path) ? openRun(path) : createRun(path, { rl: { lr: 1e-3, groups: 2, groupSize: 4 } });
const checkpoint = run.loadLatestCheckpoint();
run.rewindTo(checkpoint); // cuts off the lines that a killed process wrote after its last checkpoint

const text = (name: string): string => new TextDecoder().decode(checkpoint?.files[name]);
const model = checkpoint
  ? modelFromFiles(text("config.json"), checkpoint.files["model.safetensors"]!, on)
  : { config, params: initParams(config, rng.split("init"), on) };
const optimizer = new AdamW(model.params, { clipNorm: 1 });
const { updates = 0 } = checkpoint ? (JSON.parse(text("state.json")) as { updates: number }) : {};
if (checkpoint) restoreOptimizer(model.config, optimizer, checkpoint.files["optimizer.safetensors"]!, updates);

const loop = trainRl({
  model,
  template,
  optimizer,
  lr: schedule({ lr: 1e-3 }),
  rng: rng.split("rl"),
  objective: { advantage: grpo(), policyLoss: ppoClip(), aggregation: "token-mean" },
  env: gridworld,
  envOptions: {},
  groups: 2,
  groupSize: 4,
  rollout: { maxTurns: 2, maxActionTokens: 4 },
  startStep: checkpoint?.step ?? 0,
  steps,
});
for await (const { step, metrics, rows } of loop) {
  // The lines of a step come before its checkpoint, which remembers how long the logs were.
  run.appendMetrics({ step, phase: "rl", ...metrics });
  for (const shown of await describeEpisodes(model, template, pickEpisodes(rows), "rl", step))
    run.appendTranscript(shown);
  const done = step + 1;
  if (done % every !== 0 && done !== steps) continue;
  run.saveCheckpoint(done, {
    ...(await modelToFiles(model)),
    ...(await optimizerToFiles(model.config, optimizer)),
    "tokenizer.json": JSON.stringify(template.tokenizer.toJSON()),
    "state.json": JSON.stringify({ updates: optimizer.state.step }),
  });
  run.pruneCheckpoints(2);
}
release();
console.log(`${path}: ${run.readMetrics().length} steps`);
on.dispose();

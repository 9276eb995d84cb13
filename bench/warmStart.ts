/** Common start of the arms of a measurement: the model of `npm start` after its warm start, or after a short one. */
import { Experiment } from "../run/experiment.ts";
import { device as makeDevice } from "../engine/index.ts";
import type { Preset } from "../run/preset.ts";
import { type Policy, policyOf } from "../distribute/async/messages.ts";
import { Template } from "../rl/episode/template.ts";

export interface WarmStart {
  readonly template: Template;
  readonly policy: Policy;
}

/** Tokenizer and weights after the preset's warm start. */
export async function warmStart(preset: Preset): Promise<WarmStart> {
  const experiment = await Experiment.of(preset);
  const tokenizer = await experiment.trainTokenizer();
  const template = new Template(tokenizer);
  const device = await makeDevice("wasm");
  const model = experiment.newModel(tokenizer, device);
  const demonstrations = await experiment.demonstrations(template);
  const optimizer = experiment.sftOptimizer(model);
  for await (const step of experiment.sft({ model, template, optimizer, demonstrations })) void step;
  const policy = await policyOf(model, 0);
  device.dispose();
  return { template, policy };
}

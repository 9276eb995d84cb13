/**
 * The text files of an exported model: the chat template, in the files that `transformers` reads, and a page for
 * people. A model that came from a folder has that folder's own.
 */
import { existsSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { estimateParameters, type Model, type Tokenizer } from "../../nn/index.ts";
import type { Preset } from "../preset.ts";
import type { MetricsRecord } from "../records.ts";
import { templateFor } from "../template.ts";
import type { EpisodeFormat } from "../../rl/index.ts";
import { OWN_FORMAT } from "../../rl/episode/template.ts";

/** The checkpoint of a run, as its page tells of it. */
export interface ToldRun {
  readonly name: string;
  readonly preset: Preset;
  readonly step: number;
  /** The run's log. */
  readonly metrics: readonly MetricsRecord[];
}

/** The export's source: the checkpoint of a run. */
export interface ExportedRun extends ToldRun {
  readonly model: Model;
  readonly tokenizer: Tokenizer;
}

/**
 * The files by name. Those of the tokenizer and of sampling are there only if the model was not made from a folder.
 * @param folder that the model's own texts are in already, if it was
 */
export function textFiles(run: ExportedRun, folder: string): Record<string, string> {
  const { preset, model, tokenizer } = run;
  const { family } = model.config;
  const parameters = estimateParameters(model.config).toLocaleString("en");
  const format = preset.from?.format ?? OWN_FORMAT;
  // A folder without a template is read in plain lines, which no special token ends.
  const isOwn = preset.pretrained === undefined && format.end in tokenizer.special;
  const what = `a transformer of the family ${family} with\n${parameters} parameters`;
  const card = { "README.md": cardOf(run, what, isOwn || hasTemplate(folder)) };
  if (!isOwn) return card;
  const { endId, endIds, padId } = templateFor(preset, tokenizer);
  const json = (value: object): string => `${JSON.stringify(value, null, 2)}\n`;
  return {
    ...card,
    "tokenizer_config.json": json({
      tokenizer_class: "PreTrainedTokenizerFast",
      eos_token: format.end,
      pad_token: format.pad,
      model_max_length: model.config.maxPositions,
      clean_up_tokenization_spaces: false,
      chat_template: jinjaOf(format),
    }),
    "generation_config.json": json({
      eos_token_id: endIds.length > 1 ? endIds : endId,
      pad_token_id: padId,
      max_new_tokens: preset.rollout.maxActionTokens,
    }),
  };
}

/**
 * The chat template of a format: the user's first message is the task, further ones are answers, and the assistant says
 * the actions. There is no system message in it.
 */
export function jinjaOf({ task, action, observation, end }: EpisodeFormat): string {
  const message = ([before, behind]: readonly [string, string]): string =>
    `{{- ${JSON.stringify(before)} + message["content"] + ${JSON.stringify(behind)} -}}`;
  return [
    "{%- for message in messages -%}",
    '{%- if message["role"] == "system" -%}',
    '{{- raise_exception("the model was trained without a system message") -}}',
    '{%- elif message["role"] == "assistant" -%}',
    message([action, end]),
    "{%- elif loop.first -%}",
    message(task),
    "{%- else -%}",
    message(observation),
    "{%- endif -%}",
    "{%- endfor -%}",
    "{%- if add_generation_prompt -%}",
    `{{- ${JSON.stringify(action)} -}}`,
    "{%- endif -%}",
  ].join("\n");
}

/** Whether a folder has a chat template, in one of the files in which `transformers` looks for it. */
export function hasTemplate(folder: string): boolean {
  if (existsSync(join(folder, "chat_template.jinja"))) return true;
  return ["chat_template.json", "tokenizer_config.json"]
    .map((name) => join(folder, name))
    .filter((path) => existsSync(path))
    .some((path) => Boolean((JSON.parse(readFileSync(path, "utf8")) as { chat_template?: unknown }).chat_template));
}

/** What a page says of the text around a task, and how Python makes ids of it; lines as in `episodeFormatFor`. */
const CHAT = {
  parts: `\
The user's first message is a task, the assistant's messages are actions, and the user's further ones are what the
environment answers:`,
  ids: `\
tokenizer.apply_chat_template([{"role": "user", "content": "a task"}], add_generation_prompt=True,
                                    return_tensors="pt", return_dict=True)`,
};
const LINES = {
  parts:
    "There is no chat template: tasks, actions and the answers of the environment stand below their names, in lines:",
  ids: String.raw`tokenizer("Task:\na task\nAction:\n", return_tensors="pt")`,
};

/**
 * The page of an export, as model hubs show it.
 * @param what it is, in words
 * @param isChat whether the model has a chat template
 * @param base the model that it adapts, if it is an adapter
 */
export function cardOf(run: ToldRun, what: string, isChat: boolean, base?: string): string {
  const { name, preset, step, metrics } = run;
  const { parts, ids } = isChat ? CHAT : LINES;
  const { env, rl, sft, seed, pretrained, from, rollout, teacher, rewardFile, lora } = preset;
  // Where a folder lies on the disk of whoever trained it says nothing to others.
  const origin = pretrained ? basename(pretrained.path) : from && `${basename(from.path)} after step ${from.step}`;
  const line = metrics.findLast((one) => one.phase === "eval" && one.step === step);
  const percent = typeof line?.["success"] === "number" ? `${(100 * line["success"]).toFixed(1)} %` : undefined;
  const reward = typeof line?.["reward"] === "number" ? `, mean reward ${line["reward"].toPrecision(4)}` : "";
  const facts = [
    `environment: \`${env}\`; up to ${rollout.maxTurns} actions of up to ${rollout.maxActionTokens} tokens`,
    ...(origin === undefined ? [] : [`began as ${origin}`]),
    ...(sft.steps === 0 ? [] : [`warm start: ${sft.steps} steps on ${sft.demonstrations} demonstrations`]),
    `then ${rl.method}, up to ${rl.steps} steps; seed ${seed}; these are the weights after step ${step} of all`,
    ...(rl.advantage === undefined ? [] : [`advantages: ${rl.advantage}`]),
    ...(rl.loss === undefined ? [] : [`loss: ${rl.loss}`]),
    ...(rl.reward === undefined ? [] : [`reward: ${rewardFile ? basename(rewardFile.path) : rl.reward.name}`]),
    ...(teacher === undefined ? [] : [`compared with the probabilities of a teacher, ${basename(teacher.path)}`]),
    ...(lora === undefined ? [] : [`trained by a LoRA adapter of rank ${lora.r}`]),
    percent === undefined
      ? "held-out tasks: not evaluated at this step"
      : `held-out tasks: ${percent} of ${line!["episodes"]!} solved${reward}`,
    ...(sft.thoughts ? ["it thinks before it acts, and its action is between [ and ] (`sft.thoughts=true`)"] : []),
  ];
  const of = JSON.stringify(base ?? "DIR");
  const { environmentFile: file } = preset;
  const world = file === undefined ? env : `./${basename(file.path)}`;
  const adapted = base === undefined ? "" : '\nmodel = PeftModel.from_pretrained(model, "DIR")';
  return `---
library_name: ${base === undefined ? "transformers" : "peft"}
pipeline_tag: text-generation
---

# ${name}

An agent of worldgrad: ${what}.

${facts.map((fact) => `- ${fact}`).join("\n")}

${parts}

\`\`\`python
${base === undefined ? "" : "from peft import PeftModel\n"}from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained(${of})
model = AutoModelForCausalLM.from_pretrained(${of})${adapted}
ids = ${ids}
print(tokenizer.decode(model.generate(**ids)[0]))
\`\`\`

${base === undefined ? OF_MODEL(world) : OF_ADAPTER(name)}
`;
}

const OF_MODEL = (env: string): string =>
  `\`npm run generate -- --model-path DIR --prompt "a task"\` draws an action, and
\`npm start -- --model-path DIR --env ${env}\` trains it further.`;

const OF_ADAPTER = (name: string): string =>
  `\`npm run export -- --run runs/${name} --to DIR\` writes the model with the adapter in its weights.`;

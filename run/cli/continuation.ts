/** `npm run generate -- --model-path DIR --prompt TEXT`: a model continues a prompt, shown token by token. */
import process from "node:process";
import { device, Rng } from "../../engine/index.ts";
import { numberFrom, oneOf, UsageError, wholeNumber } from "../usage.ts";
import { generate, type Generated } from "../../nn/index.ts";
import { beamSearch, type BeamSearchOptions } from "../../papers/index.ts";
import { TextStream, WEIGHT_STORAGES } from "../../pretrained/index.ts";
import { ofFlag, openModelFolder, withAdapter } from "../node/modelFolder.ts";
import { drawMemoryLine } from "../node/modelMemory.ts";
import { visible } from "../visible.ts";

/** The flags that concern a prompt, beside those of an episode. */
export const CONTINUATION_FLAGS = {
  "model-path": { type: "string" },
  prompt: { type: "string" },
  raw: { type: "boolean" },
  system: { type: "string" },
  adapter: { type: "string" },
  storage: { type: "string" },
  "max-tokens": { type: "string" },
  beams: { type: "string" },
  "beam-groups": { type: "string" },
  "diversity-penalty": { type: "string" },
  stats: { type: "boolean" },
} as const;

/** @returns the exit code @throws UsageError in one line */
export async function continuePrompt(values: Readonly<Record<string, unknown>>): Promise<number> {
  const text = (name: string): string | undefined => values[name] as string | undefined;
  for (const name of ["run", "checkpoint", "task"])
    if (values[name] !== undefined) throw new UsageError(`--${name} plays an episode; with --model-path say --prompt`);
  const prompt = text("prompt");
  if (prompt === undefined) throw new UsageError('--prompt: expected a text, as in --prompt "Once upon a time"');
  const seed = wholeNumber("seed", text("seed") ?? "0", 0);
  const maxNewTokens = wholeNumber("max-tokens", text("max-tokens") ?? "256", 1);
  const storage = oneOf("storage", text("storage") ?? "f32", WEIGHT_STORAGES);
  const temperature = text("temperature") === undefined ? undefined : numberFrom("temperature", text("temperature")!);
  const beams = beamsOf(text);

  const began = performance.now();
  const folder = await openModelFolder(text("model-path")!);
  const { tokenizer, config, bos = "", generation } = folder;
  const chat = values["raw"] === true ? undefined : await ofFlag("--model-path", () => folder.chat());
  const system = text("system");
  const ids =
    chat === undefined
      ? tokenizer.encode(`${bos}${system === undefined ? "" : `${system}\n`}${prompt}`, {
          specials: "tokens",
          plain: [[bos.length, bos.length + (system === undefined ? 0 : system.length + 1) + prompt.length]],
        })
      : chat.render(
          [...(system === undefined ? [] : [{ role: "system", content: system }]), { role: "user", content: prompt }],
          { addGenerationPrompt: true },
        );
  if (ids.length === 0)
    throw new UsageError("--prompt: it is empty, and the model has no token for the start of a text");
  const executor = await device("wasm");
  try {
    const capacity = Math.min(config.maxPositions, ids.length + maxNewTokens);
    const needs = await drawMemoryLine(
      config,
      { rows: beams?.beams ?? 1, prompt: ids.length, capacity, storage },
      executor,
    );
    if (needs !== undefined) process.stderr.write(`${needs}\n`);
    const leftOut = Object.entries(generation?.unsupported ?? {});
    if (beams === undefined && leftOut.length > 0) {
      const fields = leftOut.map(([name, value]) => `${name} ${JSON.stringify(value)}`).join(", ");
      process.stderr.write(visible(`generation_config.json: left out, as it is not supported here: ${fields}\n`));
    }
    const base = await ofFlag("--model-path", () => folder.load(executor, storage));
    const adapter = text("adapter");
    const model = adapter === undefined ? base : await withAdapter(base, adapter);
    const loaded = performance.now();
    const shown = new TextStream(tokenizer, { specials: "skip" });
    const write = (part: string): void => void process.stdout.write(visible(part));
    // The token that ends a turn in the template ends the answer, even if the configuration does not list it.
    const ends = chat === undefined ? [] : [tokenizer.special[chat.episodeFormat().end]];
    const stopIds = [...new Set([...config.eosIds, ...ends.filter((id) => id !== undefined)])];
    const sampling = { ...generation?.sampling, ...(temperature === undefined ? {} : { temperature }) };
    const drawn = async (): Promise<Generated[]> => {
      const results = await generate(model, [ids], {
        ...sampling,
        temperature: sampling.temperature ?? 0,
        maxNewTokens,
        stopIds,
        rng: new Rng(seed).split("generate"),
        onToken: ({ id }) => write(shown.push([id])),
      });
      write(shown.end());
      process.stdout.write("\n");
      return results;
    };
    const searched = async (options: Omit<BeamSearchOptions, "maxNewTokens">): Promise<Generated[]> => {
      const [found] = await beamSearch(model, [ids], { ...options, maxNewTokens, stopIds });
      for (const { tokens, logProb } of found!) {
        const stream = new TextStream(tokenizer, { specials: "skip" });
        write(`${logProb.toFixed(3)}  ${stream.push(tokens.map(({ id }) => id))}${stream.end()}`);
        process.stdout.write("\n");
      }
      return found!;
    };
    const results = await ofFlag("--prompt", () => (beams === undefined ? drawn() : searched(beams)));
    if (values["stats"] === true) {
      const seconds = (performance.now() - loaded) / 1000;
      const length = results.reduce((sum, { tokens }) => sum + tokens.length, 0);
      const mebibytes = (kibibytes: number): string => `${(kibibytes / 1024).toFixed(0)} MiB`;
      const { peakBytes } = executor.backend.stats();
      const lines = [
        `loaded in ${((loaded - began) / 1000).toFixed(2)} s`,
        `${ids.length} tokens read, ${length} drawn in ${seconds.toFixed(2)} s`,
        `at their most: tensors ${mebibytes(peakBytes / 1024)}, process ${mebibytes(process.resourceUsage().maxRSS)}`,
      ];
      process.stderr.write(`${lines.join("\n")}\n`);
    }
    return 0;
  } finally {
    executor.dispose();
  }
}

/** The beam search that the flags ask for, if they do. @throws UsageError */
function beamsOf(text: (name: string) => string | undefined): Omit<BeamSearchOptions, "maxNewTokens"> | undefined {
  const [beams, groups, penalty] = ["beams", "beam-groups", "diversity-penalty"].map(text);
  const other = groups !== undefined ? "beam-groups" : penalty !== undefined ? "diversity-penalty" : undefined;
  if (beams === undefined) {
    if (other !== undefined) throw new UsageError(`--${other} is about --beams; add it`);
    return undefined;
  }
  if (text("temperature") !== undefined) throw new UsageError("--beams draws nothing; leave --temperature out");
  const options = {
    beams: wholeNumber("beams", beams, 1),
    ...(groups === undefined ? {} : { beamGroups: wholeNumber("beam-groups", groups, 1) }),
    ...(penalty === undefined ? {} : { diversityPenalty: numberFrom("diversity-penalty", penalty) }),
  };
  if (options.beams % (options.beamGroups ?? 1) !== 0)
    throw new UsageError(`--beam-groups: expected a number that divides --beams ${beams}, got ${groups!}`);
  return options;
}

/**
 * `npx tsx scripts/worldPage.ts`: plays the experts' episodes and writes them into docs/worlds.md, whose other text is
 * written by hand. tests/environments/worldPage.test.ts fails if the episodes of the page are not the current ones.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { ENVIRONMENTS } from "../environments/index.ts";
import { HINTS } from "../environments/facts/hints.ts";
import { packageFolder } from "./packageFolder.ts";

/** Environments that answer with maps: all their episodes but the first show only actions. */
const MAPS = ["gridworld", "sokoban"];

/** An action per environment, on seed 0 of a family, whose answer shows each of the `hints`. */
const HINTED: Readonly<Record<string, readonly [family: string, action: string]>> = {
  home: ["read", "read falido.txt in lakodo with lemare"],
  castle: ["go", "go to rumite by makiba"],
};

/** Episode of the expert for seed 0 as lines: the task, and each action with its answer. */
async function episode(world: string, family: string, isInFull: boolean): Promise<string[]> {
  const spec = ENVIRONMENTS[world]!;
  const env = spec.make({ families: [family] });
  const lines = (await env.reset(0)).split("\n");
  const actions: string[] = [];
  let last = { observation: "", done: false };
  while (!last.done) {
    const action = spec.expert!(env);
    last = await env.step(action);
    actions.push(action);
    if (isInFull) lines.push(`$ ${action}`, ...last.observation.split("\n").filter((line) => line !== ""));
  }
  return isInFull ? lines : [...lines, `$ ${actions.join(", ")}`, last.observation];
}

/** Families of an environment, and for each level its shortest episode. */
async function families(world: string): Promise<string> {
  const { families } = ENVIRONMENTS[world]!;
  const played = await Promise.all(
    families.map(({ name }, i) => episode(world, name, i === 0 || !MAPS.includes(world))),
  );
  const lines = families.flatMap(({ name, level, description }, i) => {
    const [shortest] = played.filter((_, k) => families[k]!.level === level).toSorted((a, b) => a.length - b.length);
    const shown = played[i] === shortest ? shortest!.map((line) => `    ${line}`) : [];
    return [`${name} (level ${level}): ${description}`, ...shown];
  });
  return `\`\`\`text\n${lines.join("\n")}\n\`\`\``;
}

/** Answer under each of the `hints` to an action with a wrong fact. */
async function hints(world: string, family: string, action: string): Promise<string> {
  const answers: string[] = [];
  for (const hints of HINTS) {
    const options = { families: [family], hints };
    const env = ENVIRONMENTS[world]!.make(options);
    const task = await env.reset(0);
    if (answers.length === 0) answers.push(task, `$ ${action}`);
    answers.push(`${`${hints}:`.padEnd(12)}${(await env.step(action)).observation}`);
  }
  return `What each of the \`hints\` says:\n\n\`\`\`text\n${answers.join("\n")}\n\`\`\``;
}

/** The page with the current episodes, those of each environment between two marks. */
export async function worldPage(page: string): Promise<string> {
  let text = page;
  for (const world of Object.keys(ENVIRONMENTS)) {
    const [begin, end] = [`<!-- ${world}: scripts/worldPage.ts -->`, `<!-- /${world} -->`];
    const [from, to] = [text.indexOf(begin), text.indexOf(end)];
    if (from < 0 || to < from) throw new Error(`docs/worlds.md has no section of ${world}: ${begin} … ${end}`);
    const hinted = HINTED[world];
    const parts = [await families(world), ...(hinted ? [await hints(world, ...hinted)] : [])];
    text = `${text.slice(0, from + begin.length)}\n\n${parts.join("\n\n")}\n\n${text.slice(to)}`;
  }
  return text;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const file = join(packageFolder, "docs/worlds.md");
  writeFileSync(file, await worldPage(readFileSync(file, "utf8")));
}

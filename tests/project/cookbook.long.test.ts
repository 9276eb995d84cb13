/**
 * docs/cookbook.md as its reader would follow it: every file is written where it says, every command is run there, and
 * what it prints is compared. Pages are opened in Chromium.
 */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { extname, join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { FOR_BROWSERS } from "../../scripts/forBrowsers.ts";
import { launchChromium } from "../support/browser.ts";
import { readSource } from "./sources.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const MAX_LINES = 40;

interface Command {
  readonly words: readonly string[];
  /** Whether it goes on beside those that follow. */
  readonly stays: boolean;
  /** Lines that it prints, in this order; others may stand between. `…` stands for any text. */
  readonly prints: readonly string[];
}
interface Recipe {
  readonly title: string;
  readonly files: Readonly<Record<string, string>>;
  readonly commands: readonly Command[];
}

const commandsIn = (text: string): Command[] =>
  text
    .split(/^\$ /m)
    .slice(1)
    .map((part) => {
      const [line, ...prints] = part.trimEnd().split("\n") as [string, ...string[]];
      const stays = line.endsWith(" &");
      const words = line.replace(/ &$/, "").match(/"[^"]*"|\S+/g)!;
      return { words: words.map((word) => word.replace(/^"(.*)"$/, "$1")), stays, prints };
    });

const RECIPES: readonly Recipe[] = readSource("docs/cookbook.md")
  .split(/^## /m)
  .slice(1)
  .map((section) => {
    const files = [...section.matchAll(/^`(\w+\.\w+)`[^\n]*(?:\n[^\n]+)*\n\n```\w+\n(.*?)^```/gms)];
    const consoles = [...section.matchAll(/^```console\n(.*?)^```/gms)];
    return {
      title: section.split("\n")[0]!,
      files: Object.fromEntries(files.map(([, name, text]) => [name!, text!])),
      commands: consoles.flatMap(([, text]) => commandsIn(text!)),
    };
  });
const FILES = Object.assign({}, ...RECIPES.map(({ files }) => files)) as Readonly<Record<string, string>>;

interface Manifest {
  readonly scripts: Readonly<Record<string, string>>;
  readonly exports: Readonly<Record<string, string | { readonly default: string }>>;
}
const { scripts, exports } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as Manifest;
/** The package's entry points, and their sources. */
const ENTRIES = Object.entries(exports).flatMap(([name, target]) =>
  typeof target === "string" ? [] : [[name, target.default.replace("./dist/", "./").replace(/\.js$/, ".ts")] as const],
);

const folder = mkdtempSync(join(tmpdir(), "worldgrad-cookbook-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** The folder with all files, and with node_modules in which `worldgrad` are the sources. */
beforeAll(() => {
  const modules = join(folder, "node_modules");
  mkdirSync(join(modules, "worldgrad"), { recursive: true });
  for (const name of readdirSync(join(ROOT, "node_modules")))
    symlinkSync(join(ROOT, "node_modules", name), join(modules, name), "junction");
  symlinkSync(ROOT, join(modules, "worldgrad/sources"), "junction");
  symlinkSync(join(ROOT, "tests"), join(folder, "tests"), "junction");
  const manifest = {
    name: "worldgrad",
    type: "module",
    exports: Object.fromEntries(ENTRIES.map(([name, source]) => [name, source.replace("./", "./sources/")])),
  };
  writeFileSync(join(modules, "worldgrad/package.json"), JSON.stringify(manifest));
  writeFileSync(join(folder, "package.json"), JSON.stringify({ type: "module" }));
  for (const [name, text] of Object.entries(FILES)) writeFileSync(join(folder, name), text);
});

/** The program of a command and its words: npm's scripts are those of the repository. */
function programOf([program, ...words]: readonly string[]): [string, ...string[]] {
  const withTsx = (path: string, args: readonly string[]): [string, ...string[]] => [
    process.execPath,
    "--import",
    import.meta.resolve("tsx"),
    path,
    ...args,
  ];
  if (program === "npx") return withTsx(join(folder, words[1]!), words.slice(2));
  if (program !== "npm") return [process.env["WORLDGRAD_NATS_SERVER"] ?? program!, ...words];
  const name = words[0] === "run" ? words[1]! : words[0]!;
  return withTsx(join(ROOT, scripts[name]!.split(" ").at(-1)!), words.slice(words.indexOf("--") + 1));
}

const env = { ...process.env, NO_COLOR: "1" };

/** Whether the lines stand in the text, in this order; columns may be wider. */
const hasLines = (text: string, lines: readonly string[]): boolean =>
  new RegExp(lines.map((line) => line.replaceAll(/ +/g, " ").split("…").map(literal).join(".*")).join("[^]*")).test(
    text.replaceAll(/ +/g, " "),
  );
const literal = (text: string): string => text.replaceAll(/[\\^$.*+?()[\]{}|]/g, "\\$&");

describe.each(RECIPES)("$title", ({ files, commands }) => {
  it("is short", () => {
    for (const [name, text] of Object.entries(files))
      expect(text.split("\n").length - 1, name).toBeLessThanOrEqual(MAX_LINES);
  });

  it("prints what is shown", { timeout: 600_000 }, async () => {
    const beside: ChildProcess[] = [];
    try {
      for (const { words, stays, prints } of commands) {
        const [program, ...args] = programOf(words);
        if (!stays) {
          const { status, stdout, stderr } = spawnSync(program, args, { cwd: folder, env, encoding: "utf8" });
          expect(status, `${words.join(" ")}\n${stdout}${stderr}`).toBe(0);
          expect(hasLines(stdout, prints), `${stdout}${stderr}\nlacks\n${prints.join("\n")}`).toBe(true);
          continue;
        }
        const child = spawn(program, args, { cwd: folder, env, stdio: ["ignore", "pipe", "pipe"] });
        beside.push(child);
        let said = "";
        for (const stream of [child.stdout, child.stderr])
          stream.on("data", (part: Buffer) => (said += part.toString()));
        while (!hasLines(said, prints)) {
          expect(child.exitCode, said).toBeNull();
          await new Promise((resolve) => setTimeout(resolve, 50));
        }
      }
    } finally {
      for (const child of beside) child.kill("SIGKILL");
    }
  });
});

it("the notebook is a program whose gradient is right and whose agent learns", () => {
  interface Notebook {
    readonly cells: readonly { readonly cell_type: string; readonly source: readonly string[] }[];
  }
  const { cells } = JSON.parse(readSource("examples/notebook.ipynb")) as Notebook;
  const sources = cells.filter((cell) => cell.cell_type === "code").map(({ source }) => source.join(""));
  expect(sources.join("\n").split("\n").length).toBeLessThanOrEqual(MAX_LINES + sources.length);
  const shows =
    "const Deno = { jupyter: { svg: (_: unknown, points: string) => console.log(points.split(' ').length) } };";
  const text = [shows, ...sources, "console.log(await gradient.item(), success.at(-1)! > success[0]!);"].join("\n");
  writeFileSync(join(folder, "notebook.ts"), text.replace("npm:worldgrad", "worldgrad"));
  const [program, ...args] = programOf(["npx", "tsx", "notebook.ts"]);
  const { status, stdout, stderr } = spawnSync(program, args, { cwd: folder, env, encoding: "utf8" });
  expect(stderr).toBe("");
  expect(status).toBe(0);
  expect(stdout).toMatch(/^wasm [^\n]*\n40\n-24 true\n$/);
});

it("the files type-check", () => {
  const paths = Object.fromEntries(ENTRIES.map(([name, file]) => [name.replace(".", "worldgrad"), [join(ROOT, file)]]));
  const files = Object.keys(FILES).filter((name) => name.endsWith(".ts"));
  expect(files.length).toBeGreaterThan(6);
  const types = { typeRoots: [join(ROOT, "node_modules/@types")], types: ["node"] };
  const compilerOptions = { paths, ...types, noEmit: true };
  const config = { extends: join(ROOT, "tsconfig.json"), compilerOptions, include: [], files };
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify(config));
  const { status, stdout } = spawnSync(join(ROOT, "node_modules/.bin/tsc"), ["-p", folder], { encoding: "utf8" });
  expect(stdout).toBe("");
  expect(status).toBe(0);
});

describe("the pages", () => {
  let server: Server;
  beforeAll(async () => {
    const made = { "worldgrad.min.js": "index.ts", "compiledAgent.min.js": "compiled/page.ts" };
    for (const [name, entry] of Object.entries(made)) {
      const { outputFiles } = await build({ absWorkingDir: ROOT, entryPoints: [entry], ...FOR_BROWSERS });
      writeFileSync(join(folder, name), outputFiles[0]!.contents);
    }
    server = createServer(({ url = "" }, response) => {
      const path = join(folder, url.slice(1));
      const type = extname(path) === ".js" ? "text/javascript" : "text/html";
      if (existsSync(path)) response.writeHead(200, { "content-type": type }).end(readFileSync(path));
      else response.writeHead(404).end();
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  });
  afterAll(() => server.close());

  /** Opens pages one after the other in one browser, and waits for what each ends with. */
  async function visited(...visits: readonly (readonly [page: string, end: RegExp])[]): Promise<string[]> {
    const browser = await launchChromium();
    try {
      const context = await browser.newContext();
      const seen: string[] = [];
      for (const [name, end] of visits) {
        const page = await context.newPage();
        const problems: string[] = [];
        page.on("pageerror", (error) => problems.push(error.message));
        await page.goto(`http://127.0.0.1:${(server.address() as AddressInfo).port}/${name}`);
        await page.locator("#news", { hasText: end }).waitFor({ timeout: 120_000 });
        seen.push(await page.locator("#news").innerText());
        const bar = page.locator("progress");
        if ((await bar.count()) > 0)
          seen.push(String(await bar.evaluate((node) => (node as HTMLProgressElement).value)));
        expect(problems).toEqual([]);
        await page.close();
      }
      return seen;
    } finally {
      await browser.close();
    }
  }

  it("an agent learns in one", async () => {
    const [news, solved] = await visited(["page.html", /step 40 of 40/]);
    expect(news).toMatch(/^step 40 of 40: it is right in \d+ % of 32 episodes$/);
    expect(Number(solved)).toBeGreaterThan(0.5);
  });

  it("a compiled agent acts in one, game after game, and finds the number that the visitor has in mind", async () => {
    const browser = await launchChromium();
    try {
      const page = await browser.newPage();
      const problems: string[] = [];
      page.on("pageerror", (error) => problems.push(error.message));
      await page.goto(`http://127.0.0.1:${(server.address() as AddressInfo).port}/acts.html`);
      const news = page.locator("#news");
      const click = (name: string): Promise<void> => page.getByRole("button", { name, exact: true }).click();
      for (const _game of [1, 2]) {
        for (let last = ""; !last.includes("7");) {
          await expect
            .poll(() => news.innerText())
            .toMatch(last === "" ? /Is it \d\?$/ : new RegExp(`Is it [^${last}]`));
          last = /\d\?$/.exec(await news.innerText())![0].replace("?", "");
          await click(last === "7" ? "yes" : Number(last) < 7 ? "higher" : "lower");
        }
        await expect.poll(() => news.innerText()).toBe("It is!");
        await click("new game");
      }
      // In the middle of one, and answers after its end.
      await click("higher");
      for (let n = 0; n < 3; n++) await click("new game");
      for (let n = 0; n < 4; n++) {
        const before = await news.innerText();
        if (before === "I give up.") break;
        await click("lower");
        await page.waitForTimeout(100);
      }
      await expect.poll(() => news.innerText()).toBe("I give up.");
      await click("lower");
      expect(await news.innerText()).toBe("I give up.");
      expect(problems).toEqual([]);
    } finally {
      await browser.close();
    }
  });

  it("an agent is kept in the other", async () => {
    const seen = await visited(["keep.html", /20 lessons/], ["keep.html", /40 lessons/], ["keep.html", /60 lessons/]);
    const losses = seen.map((text) => Number(/loss ([\d.]+)$/.exec(text)![1]));
    // A visit that began anew would have the first loss again.
    for (const later of losses.slice(1)) expect(later, losses.join(" ")).toBeLessThan(losses[0]! / 2);
  });
});

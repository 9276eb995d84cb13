/**
 * Every regular expression with a repetition without an end, in the folders that read what others write. JavaScript's
 * backtrack, so each is either tried on hostile texts of growing length, or reads our own text alone: a new one has to
 * be entered here.
 */
import { ts } from "ts-morph";
import { expect, it } from "vitest";
import { isTypeScript, projectFiles, readSource } from "./sources.ts";

const FOLDERS = /^(rl|methods|data|papers|environments|connect|tune|distribute\/(async|worker))\//;

/** Where the texts of `tests/support/cost.ts` come through the file. */
const WORLDS = "tests/environments/cost.test.ts";
const REWARDS = "tests/papers/cost.test.ts";
const TEMPLATES = "tests/connect/chat/cost.test.ts";
const SHELL = "tests/connect/shell.test.ts";
const HARBOR = "tests/connect/harbor.test.ts";
const TRIED: Readonly<
  Record<string, typeof WORLDS | typeof REWARDS | typeof TEMPLATES | typeof SHELL | typeof HARBOR>
> = {
  "connect/chat/jinja/filters.ts": TEMPLATES,
  "connect/chat/jinja/lexer.ts": TEMPLATES,
  "connect/chat/jinja/methods.ts": TEMPLATES,
  "connect/chat/json.ts": TEMPLATES,
  "connect/chat/strftime.ts": TEMPLATES,
  "environments/actions.ts": WORLDS,
  "environments/calculator/expression.ts": WORLDS,
  "environments/calculator/rules.ts": WORLDS,
  "environments/grid.ts": WORLDS,
  "environments/household/hindsight.ts": WORLDS,
  "environments/patch/edits.ts": WORLDS,
  "environments/program/machine.ts": WORLDS,
  "environments/program/syntax.ts": WORLDS,
  "environments/ranking.ts": REWARDS,
  "environments/riddle/proposal.ts": REWARDS,
  "environments/screen/rules.ts": WORLDS,
  "environments/search/rules.ts": WORLDS,
  "environments/terminal/commands-files.ts": WORLDS,
  "environments/terminal/commands-lines.ts": WORLDS,
  "environments/terminal/commands-list.ts": WORLDS,
  "environments/terminal/commands-text.ts": WORLDS,
  "environments/terminal/filesystem.ts": WORLDS,
  "environments/terminal/tasks.ts": WORLDS,
  "environments/tools/rules.ts": WORLDS,
  "environments/web/hindsight.ts": WORLDS,
  "environments/web/rules.ts": WORLDS,
  "connect/mcp/toolCall.ts": REWARDS,
  "papers/rewards/behaviour.ts": REWARDS,
  "papers/rewards/code.ts": REWARDS,
  "papers/rewards/maths.ts": REWARDS,
  "papers/selfplay/rewards.ts": REWARDS,
  "connect/chat/markedCalls.ts": REWARDS,
  "connect/chat/toolCalls.ts": REWARDS,
  "connect/harbor/dockerWords.ts": HARBOR,
  "connect/harbor/instructions.ts": HARBOR,
  "connect/harbor/reward.ts": HARBOR,
  "connect/sandbox/files.ts": SHELL,
  "connect/sandbox/session.ts": SHELL,
  "connect/shell/bash.ts": SHELL,
  "connect/shell/tar.ts": SHELL,
};

/** What the others read. */
const OWN: Readonly<Record<string, string>> = {
  "connect/chat/template.ts": "the template of a model's folder; each `{%` is looked behind once, and it is fuzzed",
  "environments/calculator/problems.ts": "tasks",
  "environments/code/rules.ts": "programs of tasks",
  "environments/code/tasks.ts": "programs of tasks",
  "environments/home/tasks.ts": "tasks",
  "environments/mixture.ts": "a name that a program gives",
  "environments/openenv/session.ts": "the address that a person gives",
  "environments/patch/repository.ts": "files of tasks",
  "environments/patch/rules.ts": "files, names and numbers of tasks",
  "environments/riddle/index.ts": "tasks",
  "connect/harbor/context.ts": "the .dockerignore of a task",
  "connect/harbor/docker.ts": "the number that the supervisor says of itself",
  "connect/harbor/dockerfile.ts": "the Dockerfile of a task",
  "connect/harbor/options.ts": "names of variables that a person gives",
  "connect/harbor/sandbox.ts": "paths of tasks",
  "connect/harbor/task.ts": "fields of a task",
  "connect/harbor/toml.ts": "fields of a task",
  "connect/host/tasks.ts": "tasks",
  "connect/remote/sampler.ts": "the address that a person gives",
  "connect/sandbox/bubblewrap.ts": "arguments, and what bubblewrap says of itself",
  "papers/selfplay/rZero.ts": "programs of at most 20 letters, after they were read",
  "connect/serve/constrain/json.ts": "the text of a number, which is bounded at 34 signs",
  "connect/serve/constrain/schema.ts": "the text of a double, and parts of a $ref; one pass",
  "connect/serve/http.ts": "a header, which Node bounds at 16 KiB, and errors of the library's; one pass each",
  "connect/serve/openEnvMain.ts": "a flag",
  "connect/serve/server.ts": "an address, which Node bounds at 16 KiB; one pass",
};

/** Regular expressions in a file that repeat something without an end, or are made of a text. */
function repetitionsIn(path: string): string[] {
  const found: string[] = [];
  const visit = (node: ts.Node): void => {
    const text = node.getText();
    if (ts.isRegularExpressionLiteral(node)) {
      const plain = text.replace(/\\./g, "").replace(/\[[^\]]*\]/g, "x");
      if (/[+*]|\{\d+,\}/.test(plain)) found.push(text);
    } else if (ts.isNewExpression(node) && node.expression.getText() === "RegExp") found.push(text);
    ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile(path, readSource(path), ts.ScriptTarget.Latest, true));
  return found;
}

it("every regular expression that repeats without an end is tried on hostile texts, or reads our own alone", () => {
  const files = projectFiles().filter((path) => isTypeScript(path) && FOLDERS.test(path));
  expect(files.length).toBeGreaterThan(200);
  const found = files.filter((path) => repetitionsIn(path).length > 0);
  expect(found.sort()).toEqual([...Object.keys(TRIED), ...Object.keys(OWN)].sort());
});

/** `npm start -- --help WORD`, on the texts that the command prints. */
import { describe, expect, it } from "vitest";
import { METHODS } from "../../../methods/choice.ts";
import { listMethods } from "../../../methods/presets.ts";
import { helpAbout } from "../../../run/cli/helpAbout.ts";
import { UsageError } from "../../../run/usage.ts";

const HELP = `worldgrad: trains

  npm start -- [flags]

  --env NAME          the environment
  --env ./FILE.ts     an environment of your own
  --lambda X          weight of the world-model loss
                                                            (default 0.05)
  --quick             everything at once
`;
const LIST = `Methods (--method; add-ons with +)
  grpo        group-relative advantages
  ppo         a critic

World models (add-ons)
  echo        cross-entropy

Policy losses (--loss)
  ppo         the clip

Environments (--env)
  home        a machine
    env.size  how much
    env.hints what is said
  castle      a castle
    env.hints what is said

Options (--set PART.OPTION=VALUE; in
two lines)
  ppo.epsilon        0.2
  echo.lambda        0.05
                     in (0, 1]
  env.…              any
`;
/** The option of this name. */
const LAMBDA =
  "Options (--set PART.OPTION=VALUE; in\ntwo lines)\n  echo.lambda        0.05\n                     in (0, 1]\n";
const about = (word: string): string => helpAbout(word, HELP, LIST);

describe("the help about a word", () => {
  it.each([
    [
      "--lambda",
      "  --lambda X          weight of the world-model loss\n" + " ".repeat(60) + "(default 0.05)\n\n" + LAMBDA,
    ],
    ["quick", "  --quick             everything at once\n"],
    ["grpo", "Methods (--method; add-ons with +)\n  grpo        group-relative advantages\n"],
    ["loss", "Policy losses (--loss)\n  ppo         the clip\n"],
    ["castle", "Environments (--env)\n  castle      a castle\n    env.hints what is said\n"],
    ["env.size", "Environments (--env)\n  home        a machine\n    env.size  how much\n"],
    ["echo.lambda", LAMBDA],
    ["epsilon", "Options (--set PART.OPTION=VALUE; in\ntwo lines)\n  ppo.epsilon        0.2\n"],
    ["size", "Environments (--env)\n  home        a machine\n    env.size  how much\n"],
  ])("%s", (word, text) => expect(about(word)).toBe(text));

  it("a kind of thing is meant by its name in both numbers, and by its flag", () => {
    const all = LIST.split("\n\n")[0]!;
    for (const word of ["methods", "method", "--method"]) expect(about(word)).toBe(`${all}\n`);
    for (const word of ["environments", "environment"]) expect(about(word)).toContain("env.size");
  });

  it("a name of several kinds has all of them", () => {
    expect(about("ppo").match(/^\S.*$/gm)).toEqual([
      "Methods (--method; add-ons with +)",
      "Policy losses (--loss)",
      "Options (--set PART.OPTION=VALUE; in",
      "two lines)",
    ]);
    expect(about("env")).toMatch(/^ {2}--env NAME[^]*--env \.\/FILE\.ts[^]*Environments[^]*env\.…/);
  });

  it.each([
    ["grop", "did you mean grpo?"],
    ["ech", "did you mean echo?"],
    ["", "nothing"],
    ["--", "nothing"],
    ["(", "nothing"],
    ["silon", "nothing"],
    ["epsilom", "did you mean epsilon?"],
  ])("%j is nothing, in one line", (word, message) => {
    expect(() => about(word)).toThrow(UsageError);
    expect(() => about(word)).toThrow(message);
    expect(() => about(word)).not.toThrow("\n");
  });
});

it("every method can be asked for", () => {
  for (const name of Object.keys(METHODS)) expect(helpAbout(name, HELP, listMethods())).toContain(`  ${name}`);
});

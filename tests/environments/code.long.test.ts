/** `code`: what all environments have to show, of every family. */
import { describe } from "vitest";
import { code } from "../../environments/code/index.ts";
import { testContract } from "./contract.ts";

describe("code", () => {
  testContract(code, {
    expected: {
      number: { expert: 1, luck: 0.01, tokens: 100 },
      list: { expert: 1, luck: 0.03, tokens: 130 },
      steps: { expert: 1, luck: 0.01, tokens: 120 },
      chain: { expert: 1, luck: 0.03, tokens: 150 },
      name: { expert: 1, luck: 0.01, tokens: 160 },
      examples: { expert: 1, luck: 0.01, tokens: 110 },
    },
    // Its words, or its tests where it has no words.
    identity: (task) => [/^Write p\(x\): (.*?)(?:\. p\(|$)/.exec(task)![1]!],
    nearly: ["run ", "submit ", "submit", "run x", "x", ".sum", ".take(3)", "s=", ";", "*12", "-", "/0", "(", ")", " "],
  });
});

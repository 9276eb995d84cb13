/** `patch`: what all environments have to show, of every family. */
import { describe } from "vitest";
import { patch } from "../../environments/patch/index.ts";
import { testContract } from "./contract.ts";

describe("patch", () => {
  testContract(patch, {
    expected: {
      number: { expert: 1, luck: 0.03, tokens: 110 },
      list: { expert: 1, luck: 0.05, tokens: 130 },
      callee: { expert: 1, luck: 0.05, tokens: 160 },
      files: { expert: 1, luck: 0.05, tokens: 200 },
      two: { expert: 1, luck: 0.01, tokens: 200 },
    },
    identity: (task) => [task],
    nearly: ["read ", "edit ", "undo ", "ls", "test", "submit", "f", "g", " ", "->", "x", "max", "2", ".", "", "("],
  });
});

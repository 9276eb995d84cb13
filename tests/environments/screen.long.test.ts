/** `screen`: what all environments have to show, of every family. */
import { describe } from "vitest";
import { screen } from "../../environments/screen/index.ts";
import { testContract } from "./contract.ts";

describe("screen", () => {
  testContract(screen, {
    expected: {
      press: { expert: 1, luck: 0.25, tokens: 100 },
      type: { expert: 1, luck: 0.05, tokens: 165 },
      tick: { expert: 1, luck: 0.1, tokens: 200 },
      correct: { expert: 1, luck: 0.05, tokens: 195 },
      pick: { expert: 1, luck: 0.1, tokens: 240 },
      windows: { expert: 1, luck: 0.25, tokens: 160 },
      all: { expert: 1, luck: 0.02, tokens: 330 },
    },
    identity: (task) => [task],
    nearly: [
      "click ",
      "type ",
      "scroll ",
      "key ",
      "up",
      "down",
      "delete",
      "tab",
      "1",
      "2",
      "3",
      "0",
      " ",
      "-",
      "lomika",
    ],
  });
});

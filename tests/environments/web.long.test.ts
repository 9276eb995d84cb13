/** `web`: what all environments have to show, of every family. */
import { describe } from "vitest";
import { web } from "../../environments/web/index.ts";
import { isHeldOut } from "../../environments/words.ts";
import { testContract } from "./contract.ts";

describe("web", () => {
  testContract(web, {
    expected: {
      click: { expert: 1, luck: 0.25, tokens: 125 },
      enter: { expert: 1, luck: 0.1, tokens: 150 },
      choose: { expert: 1, luck: 0.1, tokens: 190 },
      form: { expert: 1, luck: 0.05, tokens: 220 },
      scroll: { expert: 1, luck: 0.25, tokens: 240 },
      retry: { expert: 1, luck: 0.1, tokens: 220 },
      lookup: { expert: 1, luck: 0.02, tokens: 240 },
      order: { expert: 1, luck: 0.02, tokens: 300 },
    },
    identity: (task) => (task.match(/\b[a-z]{6}\b/g) ?? []).filter((word) => isHeldOut(word) !== undefined),
    nearly: [
      "click ",
      "type ",
      "select ",
      "scroll ",
      "up",
      "down",
      "back",
      "1",
      "2",
      "3",
      " ",
      '"',
      "=",
      ">",
      "lomika",
    ],
  });
});

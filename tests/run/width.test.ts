/** Lines for a terminal that is narrow. */
import { expect, test } from "vitest";
import { wrapWords } from "../../run/display/width.ts";

test("notes are broken between words, and within a word only where it is wider than the window", () => {
  expect(wrapWords("a warm start in 4 homes", 10)).toEqual(["a warm", "start in 4", "homes"]);
  expect(wrapWords("see runs/a-long-name/x now", 10)).toEqual(["see", "runs/a-lon", "g-name/x", "now"]);
  expect(wrapWords("\u001b[1mbold\u001b[0m text", 8)).toEqual(["\u001b[1mbold\u001b[0m", "text"]);
  expect(["", "one", " two"].map((text) => wrapWords(text, 4))).toEqual([[""], ["one"], [" two"]]);
  expect(wrapWords("世界 世界世", 4)).toEqual(["世界", "世界", "世"]);
});

/** What pages show of agents' ways: probabilities as they tell them, and the task that they begin with. */
import { expect, test } from "vitest";
import { chanceIn, tellingTask } from "../../run/compare/ways.ts";

test.each([
  [0, "100 %"], // was certain
  [0.1, "90.5 %"],
  [Math.LN2, "one chance in 2"],
  [Math.log(220), "one chance in 220"],
  [Math.log(12_345), "one chance in 12,345"],
  [14, "less than one chance in a million"],
  [1e4, "less than one chance in a million"], // whose probability no float64 holds
  [Infinity, "less than one chance in a million"],
])("%d nats: %s", (nats, said) => expect(chanceIn(nats)).toBe(said));

/** Outcomes of an agent's episodes in the order in which they were played, such as "a✔ b✘". */
const way = (played: string): Parameters<typeof tellingTask>[0][number] => ({
  transcripts: played.split(" ").flatMap((one) => (one === "" ? [] : [{ task: one[0]!, success: one[1] === "✔" }])),
});

test.each([
  ["the first differs", ["a✔ b✔", "a✘ b✔"], "a"],
  ["only a later one differs", ["a✘ b✔", "a✘ b✘"], "b"],
  ["the first differed only before the end", ["a✘ b✔ a✔", "a✔ b✘ a✔"], "b"],
  ["all solve all", ["a✔ b✔", "a✔ b✔"], "a"],
  ["one agent has no episode of the first", ["b✔", "a✘ b✘"], "b"],
  ["one agent has none at all", ["", "a✘ b✔"], "a"],
  ["a single agent", ["a✘ b✔"], "a"],
])("%s", (_, played, task) => expect(tellingTask(played.map(way), ["a", "b"])).toBe(task));

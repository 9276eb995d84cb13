/** What the inspector says of a token in words, and which token it opens by itself. */
import { expect, it } from "vitest";
import type { EpisodeTerm, EpisodeToken, EpisodeView } from "../../site/questions.ts";
import { sentencesAbout, tellingToken } from "../../site/tokenPanel.ts";

const token = (role: EpisodeToken["role"], more: Partial<EpisodeToken> = {}): EpisodeToken => {
  return { id: 1, text: "red", role, turn: 0, ...more };
};
const term = (name: string, weight = 1): EpisodeTerm => ({ name, weight }) as unknown as EpisodeTerm;
const view = (tokens: readonly EpisodeToken[], terms: readonly (readonly EpisodeTerm[])[]): EpisodeView => {
  return { tokens, terms };
};
const about = (one: EpisodeToken, terms: readonly EpisodeTerm[]): string =>
  sentencesAbout(view([one], [terms]), 0).join(" ");

it("an answer is learnt by an agent that predicts, and only read by one that does not", () => {
  const answer = token("observation", { surprise: Math.LN2, expected: "tan" });
  expect(about(answer, [term("world")])).toBe(
    "The world wrote “red”, to which the agent had given 50.0 %. The agent expected “tan”. " +
      "The agent learns to expect it, whatever the try was paid.",
  );
  expect(about(answer, [term("world", 0)])).toContain("learns nothing from answers");
  expect(about(token("observation"), [])).toBe(
    "The world wrote “red”. This agent learns nothing from answers: it has only read it.",
  );
});

it.each([
  [0.5, "becomes likelier"],
  [-0.5, "becomes less likely"],
  [0, "were paid alike"],
  [1e-9, "were paid alike"],
])("an own token with advantage %s %s", (advantage, said) => {
  expect(about(token("action", { surprise: 0, advantage }), [term("policy")])).toContain(said);
});

it("of an own token that no reward concerns, and of the frame, nothing is said to follow", () => {
  expect(about(token("action", { advantage: NaN }), [term("policy")])).toBe("The agent wrote “red”.");
  expect(about(token("action", { advantage: 1 }), [term("imitation")])).toBe("The agent wrote “red”.");
  expect(about(token("scaffold"), [])).toContain("nobody predicts");
});

it("opens the most surprising answer that is learnt, else the own token with the largest advantage, else none", () => {
  const answers = [token("observation", { surprise: 1 }), token("observation", { surprise: 9 })];
  const own = [token("action", { advantage: -0.1 }), token("action", { advantage: -2 })];
  const all = [...own, ...answers];
  expect(tellingToken(view(all, [[term("policy")], [term("policy")], [term("world")], [term("world")]]))).toBe(3);
  expect(tellingToken(view(all, [[term("policy")], [term("policy")], [], []]))).toBe(1);
  expect(tellingToken(view(all, [[], [], [], []]))).toBe(-1);
  expect(tellingToken(view([], []))).toBe(-1);
  expect(tellingToken(view([token("observation", { surprise: 0 })], [[term("world")]]))).toBe(-1);
});

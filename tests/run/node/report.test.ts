/** What programs say of an error before they end, and with which code. */
import { afterEach, expect, it, vi } from "vitest";
import { WorldgradError } from "../../../engine/errors.ts";
import { answerWithin } from "../../../rl/play/deadline.ts";
import { report } from "../../../run/node/flags.ts";
import { UsageError } from "../../../run/usage.ts";

const said = vi.spyOn(console, "error").mockImplementation(() => undefined);
afterEach(() => void said.mockClear());

/** The error of an environment that does not answer in time. */
async function lateAnswer(): Promise<unknown> {
  const answer = await answerWithin(() => new Promise<never>(() => undefined), { timeout: 1, who: "shell" });
  return "cause" in answer ? answer.cause : undefined;
}

it.each([
  ["a mistake of the user", new UsageError("--env: unknown"), 2, "worldgrad: --env: unknown"],
  ["an error of the library", new WorldgradError("matmul: 2 is not 3"), 1, "worldgrad: matmul: 2 is not 3"],
  ["no space", Object.assign(new Error("ENOSPC: a.json"), { syscall: "write" }), 1, "worldgrad: ENOSPC: a.json"],
  ["an environment that is late", await lateAnswer(), 1, "worldgrad: shell: no answer within 1 ms"],
])("%s is one line", (_, error, code, line) => {
  expect(report(error)).toBe(code);
  expect(said.mock.calls).toEqual([[line]]);
});

it("a bug has its trace, and what is no error is shown", () => {
  expect(report(new TypeError("x is undefined"))).toBe(1);
  expect(said.mock.calls[0]![0]).toMatch(/^TypeError: x is undefined\n {4}at /);
  expect(report(undefined)).toBe(1);
  expect(said.mock.calls[1]).toEqual(["undefined"]);
});

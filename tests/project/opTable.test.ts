/** docs/ops.md is what scripts/opTable.ts makes of the ops as they are now. */
import { expect, it } from "vitest";
import { opTable } from "../../scripts/opTable.ts";
import { readSource } from "./sources.ts";

it("docs/ops.md is up to date (else: npx tsx scripts/opTable.ts)", async () => {
  const text = await opTable();
  expect(text.split("\n").length).toBeGreaterThan(60);
  expect(readSource("docs/ops.md")).toBe(text);
});

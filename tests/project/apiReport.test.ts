/** docs/api.txt, the report of the public API: whoever changes the API writes it anew, and it is reviewed. */
import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { apiReport, REPORT } from "../../scripts/apiReport.ts";

it("is what the package exports; `npx tsx scripts/apiReport.ts` writes it anew", { timeout: 120_000 }, () => {
  const report = apiReport();
  expect(report).toContain("# worldgrad/engine\n");
  expect(report.split("\n")).toEqual(readFileSync(REPORT, "utf8").split("\n"));
});

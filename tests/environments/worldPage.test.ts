/** docs/worlds.md: the experts' episodes that it shows are those that happen, in every world that has a name. */
import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { addOwnWorlds } from "../../run/node/ownWorlds.ts";
import { worldPage } from "../../scripts/worldPage.ts";
import { readLines, settingsKey } from "../../scripts/worldTable.ts";

it("shows what happens; `npx tsx scripts/worldPage.ts` writes it anew", async () => {
  const page = readFileSync(new URL("../../docs/worlds.md", import.meta.url), "utf8");
  expect(page).toBe(await worldPage(page));
  await expect(worldPage(page.replace("<!-- home:", "<!--"))).rejects.toThrow("has no section of home");
});

it("has figures of the present settings; a world whose settings changed is measured again", () => {
  addOwnWorlds();
  for (const { world, settings } of readLines()) expect([world, settings]).toEqual([world, settingsKey(world)]);
});

/** A model that others trained writes the text that others expect of it, byte for byte, on every executor. */
import { expect, it } from "vitest";
import { greedyStory, STORY } from "../support/stories.ts";
import { everyExecutor } from "../support/rlExecutors.ts";

it.each(everyExecutor)("stories260K on $name", async ({ open }) => {
  const device = await open();
  expect(await greedyStory(device)).toBe(STORY);
  device.dispose();
});

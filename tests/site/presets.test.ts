/** The addresses of the page's experiments. tests/site/browser/presets.long.test.ts plays those that break. */
import { describe, expect, it, test } from "vitest";
import { experimentOf, type PageExperiment } from "../../site/experiment.ts";
import { BROKEN, linkTo, WORKING } from "../../site/presets.ts";
import { chapterNames, readChapter } from "../../scripts/book/chapters.ts";
import { markdown } from "../../scripts/book/markdown.ts";
import { addressOf } from "../../site/words.ts";

const inAddress = (address: string): PageExperiment => experimentOf(new URLSearchParams(address));

test.each([...WORKING, ...BROKEN])("$title is an experiment, and its link its address", (preset) => {
  const { words } = inAddress(preset.address);
  expect(addressOf(words).toString()).toBe(preset.address);
  expect(inAddress(new URL(linkTo(preset), "https://example.org/page/?seed=9").search)).toEqual(
    inAddress(preset.address),
  );
});

test("each that breaks is short, has its own disease, and in home a twin that is the main job's second agent", () => {
  const { rl: ofPage, ...brought } = inAddress("").warm; // the warm start that the page need not make
  for (const { address } of BROKEN) {
    const { warm, agents } = inAddress(address);
    const { rl, ...rest } = warm;
    expect(rl.steps).toBeLessThan(ofPage.steps / 2);
    if (warm.env !== "home") continue; // rewards of "home" have no hole that pays more often than the task itself
    expect(rest).toEqual(brought);
    expect(agents[1]!.preset.rl).toEqual({ ...inAddress("").agents[1]!.preset.rl, steps: rl.steps });
  }
  expect(new Set(BROKEN.map(({ disease }) => disease)).size).toBe(BROKEN.length);
});

describe("links of the book to experiments", () => {
  const nowhere = { ofFile: () => undefined, ofName: () => undefined };

  it("lead to the live page with that experiment; chapter 8 names all that break", () => {
    const linked = chapterNames().flatMap((name) => {
      const { sections } = readChapter(name);
      const html = sections.map(({ prose }) => markdown(prose, nowhere)).join("\n"); // throws for an unknown title
      const links = [...html.matchAll(/<a href="\.\.\/index\.html\?([^"]*)">([^<]*)<\/a>/g)];
      return links.map(([, address, title]) => ({ name, title: title!, address: address!.replaceAll("&amp;", "&") }));
    });
    const all = [...WORKING, ...BROKEN];
    for (const { title, address } of linked) {
      expect(inAddress(address)).toEqual(inAddress(all.find((own) => own.title === title)!.address));
    }
    const named = linked.filter(({ name }) => name.startsWith("08-")).map(({ title }) => title);
    expect(named.toSorted()).toEqual(BROKEN.map(({ title }) => title).toSorted());
  });

  it("to one that is not there are an error, to the main job the page itself", () => {
    expect(() => markdown("[Entropy colapse](preset:)", nowhere)).toThrow("no experiment of this title");
    expect(markdown("[The main job](preset:)", nowhere)).toContain('<a href="../index.html">The main job</a>');
  });
});

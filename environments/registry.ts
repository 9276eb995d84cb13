/**
 * The table of environments. Every entry of `WORLDS` is known by its name, on the command line too, and takes the
 * options of faults.ts beside its own.
 */
import { calculator } from "./calculator/index.ts";
import { castle } from "./castle/index.ts";
import { code } from "./code/index.ts";
import type { FactWorld } from "./facts/questions.ts";
import { withFaults } from "./faults.ts";
import { gridworld } from "./gridworld/index.ts";
import { home } from "./home/index.ts";
import { household } from "./household/index.ts";
import { patch } from "./patch/index.ts";
import { screen } from "./screen/index.ts";
import { search } from "./search/index.ts";
import { shop } from "./shop/index.ts";
import { sokoban } from "./sokoban/index.ts";
import { terminal } from "./terminal/index.ts";
import { tools } from "./tools/index.ts";
import { web } from "./web/index.ts";

const WORLDS: readonly FactWorld[] = [
  home,
  castle,
  terminal,
  gridworld,
  sokoban,
  calculator,
  search,
  shop,
  household,
  code,
  patch,
  web,
  screen,
  tools,
];

/** The environments by their names. */
export const ENVIRONMENTS: Readonly<Record<string, FactWorld>> = Object.fromEntries(
  WORLDS.map((world) => [world.name, withFaults(world)]),
);

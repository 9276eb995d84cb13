/** The built-in environments by name; each takes the options of faults.ts beside its own. */
import { calculator } from "./calculator/index.ts";
import { castle } from "./castle/index.ts";
import type { EnvironmentSpec } from "./environment.ts";
import { withFaults } from "./faults.ts";
import { gridworld } from "./gridworld/index.ts";
import { home } from "./home/index.ts";
import { household } from "./household/index.ts";
import { search } from "./search/index.ts";
import { shop } from "./shop/index.ts";
import { sokoban } from "./sokoban/index.ts";
import { terminal } from "./terminal/index.ts";

const WORLDS: Readonly<Record<string, EnvironmentSpec>> = {
  home,
  castle,
  terminal,
  gridworld,
  sokoban,
  calculator,
  search,
  shop,
  household,
};

export const ENVIRONMENTS: Readonly<Record<string, EnvironmentSpec>> = Object.fromEntries(
  Object.entries(WORLDS).map(([name, world]) => [name, withFaults(world)]),
);

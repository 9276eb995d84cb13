/** The built-in environments by name. */
import { calculator } from "./calculator/index.ts";
import { castle } from "./castle/index.ts";
import type { EnvironmentSpec } from "./environment.ts";
import { gridworld } from "./gridworld/index.ts";
import { home } from "./home/index.ts";
import { household } from "./household/index.ts";
import { search } from "./search/index.ts";
import { shop } from "./shop/index.ts";
import { sokoban } from "./sokoban/index.ts";
import { terminal } from "./terminal/index.ts";

export const ENVIRONMENTS: Readonly<Record<string, EnvironmentSpec>> = {
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

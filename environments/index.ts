/**
 * `worldgrad/environments`: the text environments of the library, and the parts of a new one
 * (docs/adding-an-environment.md). This file only re-exports; the definitions are in the files that each line names. Of
 * the engine they use random numbers, options and errors, nothing else.
 */

// Playing in an environment
export type {
  CallOptions,
  EndResult,
  Environment,
  EnvironmentOptions,
  EnvironmentSpec,
  Achievement,
  NoviceMove,
  OutsideEnd,
  ShownTurn,
} from "../rl/environment.ts";
export { type FamilyInfo, SingleUseEnvironment, type StepInfo, type StepResult } from "../rl/environment.ts";
export { ENVIRONMENTS } from "./registry.ts";
export type { FactQuestion, FactWorld, WorldFact } from "./facts/questions.ts";
export { type FaultOptions, FAULTS, withFaults } from "./faults.ts";
export { mixture, type MixtureMember, type MixtureOptions } from "./mixture.ts";

// For new environments
export { defineGame, type Ending, type Episode, type Game, type GameOptions, type GameTask } from "./game.ts";
export type { GameHead, GameRules, LoadedGame, LoadRules, Move } from "./game.ts";
export { parseCount, readCommand } from "./actions.ts";
export { COMMON_OPTIONS, option, type OptionFields, type OptionsWith, type SettledOptions } from "./options.ts";
export type { DefaultedOption, Option, RequiredOption } from "../engine/optionTable.ts";
export { drawUntil, isHeldOut } from "./selection.ts";

// The environments of the library
export { household, type HouseholdOptions } from "./household/index.ts";
export { castle, type CastleOptions } from "./castle/index.ts";
export { home, type HomeOptions } from "./home/index.ts";
export { search, type SearchWorldOptions } from "./search/index.ts";
export { shop, type ShopOptions } from "./shop/index.ts";
export { terminal, type TerminalOptions } from "./terminal/index.ts";
export { gridworld, type GridworldOptions } from "./gridworld/index.ts";
export { sokoban, type SokobanOptions } from "./sokoban/index.ts";
export { calculator, type CalculatorOptions } from "./calculator/index.ts";
export { code, type CodeOptions } from "./code/index.ts";
export { patch, type PatchOptions } from "./patch/index.ts";
export { screen, type ScreenOptions } from "./screen/index.ts";
export { tools, type ToolOptions } from "./tools/index.ts";
export { web, type WebOptions } from "./web/index.ts";

// OpenEnv
export {
  connect,
  type ConnectOptions,
  observationText,
  openEnv,
  OpenEnvEnvironment,
  OpenEnvError,
  type OpenEnvOptions,
  OpenEnvSession,
  type ReconnectOptions,
  type SocketLike,
} from "./openenv/index.ts";

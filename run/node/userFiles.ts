/** The user's own files of a run: its environment and its reward. */
import { existsSync } from "node:fs";
import { UsageError } from "../usage.ts";
import type { Preset } from "../preset.ts";
import { isUserFile, type StartOptions } from "../startOptions.ts";
import { loadEnvironment, loadEnvironmentOf } from "./environmentFile.ts";
import { loadReward, loadRewardOf } from "./rewardFile.ts";

/** The flags, in which names replace the paths of files that are now loaded. @throws UsageError in one line */
export async function withUserFiles(options: StartOptions): Promise<StartOptions> {
  const { env, rewardPath } = options;
  const isFile = env !== undefined && isUserFile(env);
  if (isFile && env.includes("+") && !existsSync(env))
    throw new UsageError(
      `--env: a mixture is made of names, as in calculator:3+tools, got "${env}"; with environments of your own, its ` +
        "file is one whose default export is mixture(name, environments)",
    );
  const environment = isFile ? await loadEnvironment(env) : {};
  const reward = rewardPath === undefined ? {} : { rewardFile: await loadReward(rewardPath) };
  return { ...options, ...environment, ...reward };
}

/** Loads the files of a run again. @throws UsageError if one is gone or has changed since the run began */
export async function loadUserFilesOf(settings: Pick<Preset, "env" | "environmentFile" | "rewardFile">): Promise<void> {
  await loadEnvironmentOf(settings);
  await loadRewardOf(settings.rewardFile);
}

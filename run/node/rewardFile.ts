/**
 * The reward of the user's own: `--reward ./my-reward.ts`. The file (userModule.ts) has one function as its default
 * export, or as its only export (`OwnReward`, ownReward.ts).
 */
import { addReward, type OwnReward } from "../ownReward.ts";
import type { UserFile } from "../preset.ts";
import { checkUnchanged, importUserFile } from "./userModule.ts";

/**
 * Loads a reward's file; runs whose settings name it then find its function.
 * @throws UsageError in one line that begins with `flag`: no file, an error in it, or no function in it
 */
export async function loadReward(name: string, flag = "--reward", patience?: number): Promise<UserFile> {
  const { file, exported, refuse } = await importUserFile(name, flag, patience);
  const functions = Object.entries(exported).filter(([, value]) => typeof value === "function");
  const chosen = "default" in exported ? exported["default"] : functions.length === 1 ? functions[0]![1] : undefined;
  if (typeof chosen !== "function") {
    const found =
      "default" in exported
        ? `its default export is ${chosen === null ? "null" : `a ${typeof chosen}`}`
        : functions.length === 0
          ? "it exports no function"
          : `it exports ${functions.map(([each]) => each).join(", ")} and no default`;
    refuse(`has no reward: ${found}; expected one function of an episode as the default export`);
  }
  addReward(file.path, chosen as OwnReward);
  return file;
}

/** Loads the reward of a run again. @throws UsageError if the file is gone or has changed since the run began */
export async function loadRewardOf(file: UserFile | undefined): Promise<void> {
  if (file === undefined) return;
  const flag = "the run's reward";
  checkUnchanged(file, flag);
  await loadReward(file.path, flag);
}

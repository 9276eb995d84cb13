/**
 * `npx tsx bench/sessions.ts [SECONDS]`: what the real shell takes. The expert plays episodes of `shell`, one, four and
 * sixteen at a time. Memory is what the processes of live sandboxes hold, each page shared by n of them counted as 1/n
 * (`Pss` of smaps_rollup), read as root. docs/shell.md has the figures.
 */
import { readdirSync, readFileSync } from "node:fs";
import process from "node:process";
import { shell } from "../connect/shell/index.ts";
import { playAll } from "../data/demonstrations.ts";

const seconds = Number(process.argv[2] ?? 20);
/** A size that no other sandbox has, by which these are found among all processes. */
const options = { levels: [1, 4] as const, diskMb: 7 };
const MARK = `\0${options.diskMb * 2 ** 20}\0`;

/** The parents of all processes, by number. */
function parents(): Map<number, number> {
  const found = new Map<number, number>();
  for (const name of readdirSync("/proc").filter((entry) => /^\d+$/.test(entry))) {
    const status = read(`/proc/${name}/status`);
    found.set(Number(name), Number(/^PPid:\s+(\d+)/m.exec(status)?.[1] ?? 0));
  }
  return found;
}
function read(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return ""; // the process has ended
  }
}

/** MiB of the processes of all live sandboxes, from the outermost `setpriv` down. */
function memory(): number {
  const all = parents();
  const isOurs = (pid: number): boolean => {
    for (let at = pid; at > 1; at = all.get(at) ?? 0) if (read(`/proc/${at}/cmdline`).includes(MARK)) return true;
    return false;
  };
  const kib = [...all.keys()]
    .filter((pid) => pid !== process.pid && isOurs(pid))
    .map((pid) => Number(/^Pss:\s+(\d+)/m.exec(read(`/proc/${pid}/smaps_rollup`))?.[1] ?? 0));
  return kib.reduce((sum, value) => sum + value, 0) / 1024;
}

/** Plays one episode by the expert. @returns its commands */
async function play(seed: number): Promise<number> {
  const env = shell.make(options);
  try {
    await env.reset(seed);
    for (let commands = 1; ; commands++) {
      const { done, info } = await env.step(shell.expert!(env));
      if (!done) continue;
      if (info["success"] !== true) throw new Error(`the expert failed seed ${seed}`);
      return commands;
    }
  } finally {
    env.close?.();
  }
}

process.stdout.write("at a time  episodes/min  commands/s  CPU ms/episode  MiB of live sandboxes\n");
for (const sessions of [1, 4, 16]) {
  const live = Array.from({ length: sessions }, () => shell.make(options));
  await Promise.all(live.map((env, i) => env.reset(i)));
  const held = memory();
  for (const env of live) env.close?.();

  let commands = 0;
  const [begin, before] = [performance.now(), childTime()];
  const until = begin + 1000 * seconds;
  const players = { ...shell, atOnce: () => sessions };
  let episodes = 0;
  while (performance.now() < until) {
    const made = await playAll(players, {}, 4 * sessions, (i) => play(episodes + i));
    episodes += made.length;
    commands += made.reduce((sum, count) => sum + count, 0);
  }
  const took = (performance.now() - begin) / 1000;
  const row = [(60 * episodes) / took, commands / took, (childTime() - before) / episodes, held];
  process.stdout.write(`${String(sessions).padStart(9)}  ${row.map((x) => x.toFixed(1).padStart(12)).join("  ")}\n`);
}

/** Milliseconds of processor time of this process and of its children that have ended. */
function childTime(): number {
  const [utime, stime, cutime, cstime] = read("/proc/self/stat").split(") ")[1]!.split(" ").slice(11, 15).map(Number);
  return 10 * (utime! + stime! + cutime! + cstime!);
}

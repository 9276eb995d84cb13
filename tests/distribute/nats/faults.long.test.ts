/** The kill matrix: every fault with a real server and real processes. bench/faults.ts prints it as a table. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { device as makeDevice, type Device } from "../../../engine/device.ts";
import { FAULT_NAMES, killLearner, type Outcome, provoke, synchronous } from "../../support/natsFaults.ts";
import { Processes } from "../../support/natsProcesses.ts";

let device: Device;
let processes: Processes;
let expected: Awaited<ReturnType<typeof synchronous>>;
beforeAll(async () => {
  device = await makeDevice("wasm");
  processes = await Processes.compile();
  expected = await synchronous(device);
});
afterAll(() => {
  processes.close();
  device.dispose();
});

const check = ({ tries, lost, twice, bitwise }: Outcome): void => {
  expect(tries).toBeGreaterThan(0);
  expect({ lost, twice, bitwise }).toEqual({ lost: 0, twice: 0, bitwise: true });
};

describe("no episode is lost, none counts twice, and the run is the synchronous one", () => {
  it.each(FAULT_NAMES)("%s", { timeout: 300_000 }, async (name) => {
    check(await provoke(name, device, processes, expected));
  });

  it("learner killed -9 and resumed, which uses what is stored", { timeout: 300_000 }, async () => {
    const outcome = await killLearner(processes, expected);
    check(outcome);
    expect(outcome.tries).toBe(3);
    expect(outcome.remark).not.toBe("0 stored episodes used");
  });
});

/**
 * The queue of asynchronous training, and a whole run with workers that take their time: no token is ever too old,
 * nothing gets lost.
 */
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { device as makeDevice, type Device } from "../../engine/device.ts";
import { StalenessQueue } from "../../distribute/async/queue.ts";
import { trainRlAsync } from "../../distribute/async/train.ts";
import { moodyWorkers } from "../support/rlAsync.ts";
import { reportsOf, toyRlOptions } from "../support/rlRuns.ts";
import { endingModel } from "../support/rlToy.ts";
import { tries } from "../support/tries.ts";

/** What may happen next, as numbers that stand for a choice among what is possible. */
const script = fc.array(fc.record({ what: fc.nat(2), which: fc.nat(), age: fc.nat(4) }), {
  minLength: 1,
  maxLength: 200,
});

describe("StalenessQueue", () => {
  it("in any order of events bounds hold, batches are full, each ticket is taken once at most, none lost", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 4 }),
        fc.nat(3),
        fc.boolean(),
        fc.nat(5),
        script,
        (batch, maxStaleness, inOrder, startVersion, events) => {
          const queue = new StalenessQueue<string>({ batch, maxStaleness, inOrder, startVersion });
          const playing: number[] = [];
          const taken: number[] = [];
          const admit = (): void => void playing.push(...queue.admit());
          admit();
          for (const { what, which, age } of events) {
            if (what > 0 && playing.length > 0) {
              const [ticket] = playing.splice(which % playing.length, 1);
              // A worker may be late: it may have played with a version that is too old by now.
              const oldest = Math.max(startVersion, queue.version - (inOrder ? Math.min(age, maxStaleness) : age));
              queue.push({ ticket: ticket!, value: `unit ${ticket}`, oldest });
            } else {
              const expired = queue.expire();
              for (const { oldest } of expired) expect(queue.version - oldest).toBeGreaterThan(maxStaleness);
              playing.push(...expired.map(({ ticket }) => ticket));
              const units = queue.take();
              if (units === undefined) continue;
              expect(units.length).toBe(batch);
              for (const { ticket, value, oldest } of units) {
                expect(queue.version - oldest).toBeLessThanOrEqual(maxStaleness);
                expect(value).toBe(`unit ${ticket}`);
                if (inOrder || maxStaleness === 0) expect(Math.floor(ticket / batch)).toBe(queue.version);
              }
              expect(units.map((u) => u.ticket)).toEqual(units.map((u) => u.ticket).toSorted((a, b) => a - b));
              taken.push(...units.map((u) => u.ticket));
              queue.advance();
              admit();
            }
            expect(queue.playing).toBe(playing.length);
            const begun = taken.length + queue.length + playing.length;
            expect(begun).toBe((queue.version - startVersion + maxStaleness + 1) * batch);
            expect(new Set(taken).size).toBe(taken.length);
          }
        },
      ),
    );
  });

  it("begins no unit of steps that will not be, and says what is wrong", () => {
    const queue = new StalenessQueue<null>({ batch: 2, maxStaleness: 3 });
    expect(queue.admit(4)).toEqual([0, 1, 2, 3, 4]);
    expect(queue.admit(4)).toEqual([]);
    expect(queue.admit()).toEqual([5, 6, 7]);
    expect(() => queue.push({ ticket: 8, value: null, oldest: 0 })).toThrow("unit 8 is not being played");
    queue.push({ ticket: 1, value: null, oldest: 0 });
    expect(() => queue.push({ ticket: 1, value: null, oldest: 0 })).toThrow("unit 1 is not being played");
    queue.push({ ticket: 0, value: null, oldest: -4 });
    expect(() => queue.take()).toThrow("unit 0 has tokens of version -4, too old for version 0");
    expect(() => new StalenessQueue({ batch: 0, maxStaleness: 0 })).toThrow("batch must be an integer ≥ 1, got 0");
    expect(() => new StalenessQueue({ batch: 1, maxStaleness: 0.5 })).toThrow("maxStaleness must be an integer ≥ 0");
  });
});

describe("a run with workers that are slow, deaf and mortal", () => {
  let device: Device;
  beforeAll(async () => {
    device = await makeDevice("wasm");
  });
  afterAll(() => device.dispose());

  it(
    "no token is older than the bound, groups are whole, every task is learnt from once, no finished episode is lost",
    { timeout: 120_000 },
    async () => {
      let [dropped, deaths, oldest, ahead] = [0, 0, 0, 0];
      const cases = fc.sample(
        fc.record({
          count: fc.integer({ min: 1, max: 3 }),
          seed: fc.nat(1e6),
          slowest: fc.nat(6),
          stubborn: fc.constantFrom(0, 0.5, 1),
          mortality: fc.constantFrom(0, 0.1),
          maxStaleness: fc.nat(3),
          schedule: fc.constantFrom("free" as const, "fixed" as const),
        }),
        { numRuns: 50, seed: 4 },
      );
      // Pauses are real time, so what a case meets is chance: more of them are played until all of it has happened.
      const hasSeenAll = (): boolean => dropped > 0 && deaths > 5 && oldest === 3 && ahead > 0;
      for (const [n, { maxStaleness, schedule, ...moods }] of cases.entries()) {
        if (n >= tries(25) && hasSeenAll()) break;
        const model = endingModel(device);
        const { workers, log } = moodyWorkers(moods);
        const [steps, groups, groupSize] = [6, 3, 2];
        const reports = await reportsOf(
          trainRlAsync({
            ...toyRlOptions(model, { steps, groups, groupSize }),
            workers,
            maxStaleness,
            schedule,
            maxRestarts: 1000,
          }),
        );
        expect(reports.map((r) => r.step)).toEqual(Array.from({ length: steps }, (_, n) => n));
        const tasks: number[] = [];
        for (const { step, rows, metrics } of reports) {
          const played = rows.map((row) => row.trajectory);
          expect(played.map((t) => t.group)).toEqual([0, 0, 1, 1, 2, 2]);
          for (const group of [0, 1, 2]) {
            const seeds = new Set(played.filter((t) => t.group === group).map((t) => t.seed));
            expect(seeds.size).toBe(1);
            tasks.push(...seeds);
          }
          const ages = played.flatMap((t) => t.stream.versions.filter((v) => v >= 0).map((v) => step - v));
          expect(ages.length).toBe(12);
          expect(Math.max(...ages)).toBeLessThanOrEqual(maxStaleness);
          expect(Math.min(...ages)).toBeGreaterThanOrEqual(0);
          expect(metrics["async/staleness_max"]).toBe(Math.max(...ages));
          expect(metrics["async/staleness_mean"]).toBeCloseTo(ages.reduce((a, b) => a + b, 0) / 12, 12);
          dropped += metrics["async/dropped_episodes"]!;
          oldest = Math.max(oldest, ...ages);
          ahead = Math.max(ahead, metrics["async/queue_length"]!);
        }
        expect(new Set(tasks).size).toBe(steps * groups);
        deaths += log.deaths;
        expect(log.started).toBe(workers.count + log.deaths);
        // What was handed over was learnt from, or too old: nobody played an episode twice that had arrived.
        const droppedHere = reports.reduce((n, { metrics }) => n + metrics["async/dropped_episodes"]!, 0);
        expect(log.handedOver.length).toBe(steps * groups * groupSize + droppedHere);
      }
      expect(hasSeenAll(), JSON.stringify({ dropped, deaths, oldest, ahead })).toBe(true);
    },
  );
});

/**
 * The angles by which queries and keys are turned (Su et al. 2021, arXiv 2104.09864), with the scalings for longer
 * texts that `config/rope.ts` reads: formulas as in Transformers 5, `modeling_rope_utils.py`, computed in double
 * precision (there in f32).
 *
 * Tables are made for as many positions as have occurred, rounded up to a power of two, and live as long as their
 * device. With dynamic scaling the frequencies depend on the length of a text beyond `maxPositions`; a call with such a
 * text gets its own table, with a row for each token.
 */
import type { Device } from "../engine/device.ts";
import { tensor } from "../engine/ops/create.ts";
import { outsideScopes } from "../engine/scope.ts";
import type { Tensor } from "../engine/tensor.ts";
import { longestText, type ModelConfig } from "./config.ts";

/** cos and sin [rows, D/2], and the row of each token there, i32 [B, T]. */
export interface Rotation {
  readonly cos: Tensor;
  readonly sin: Tensor;
  readonly rows_BT: Tensor;
}

/** The angle per position of each pair of dimensions, and the factor of cosines and sines. */
export interface Frequencies {
  readonly frequencies: Float64Array;
  readonly attentionFactor: number;
}

/**
 * The frequencies of a model. @param length of the text, which only dynamic scaling reads: beyond `maxPositions` the
 * base grows to θ·(factor·length/maxPositions − (factor − 1))^(D/(D − 2))
 */
export function ropeFrequencies(config: ModelConfig, length: number = config.maxPositions): Frequencies {
  const { headDim: D, ropeTheta, ropeScaling, maxPositions } = config;
  const plain = (theta = ropeTheta): Float64Array =>
    Float64Array.from({ length: D / 2 }, (_, i) => theta ** ((-2 * i) / D));
  switch (ropeScaling?.type) {
    case undefined:
      return { frequencies: plain(), attentionFactor: 1 };
    case "linear":
      return { frequencies: plain().map((f) => f / ropeScaling.factor), attentionFactor: 1 };
    case "dynamic": {
      const { factor } = ropeScaling;
      const growth = (factor * Math.max(length, maxPositions)) / maxPositions - (factor - 1);
      return { frequencies: plain(ropeTheta * growth ** (D / (D - 2))), attentionFactor: 1 };
    }
    case "llama3": {
      const { factor, lowFreqFactor: low, highFreqFactor: high, originalMaxPositions: original } = ropeScaling;
      const frequencies = plain().map((f) => {
        const turns = (original * f) / (2 * Math.PI); // within the original length
        if (turns < low) return f / factor;
        if (turns > high) return f;
        const smooth = (turns - low) / (high - low);
        return ((1 - smooth) * f) / factor + smooth * f;
      });
      return { frequencies, attentionFactor: 1 };
    }
    case "yarn":
      return yarn(plain(), config, ropeScaling);
  }
}

function yarn(
  plain: Float64Array,
  { headDim: D, ropeTheta }: ModelConfig,
  scaling: NonNullable<ModelConfig["ropeScaling"]> & { readonly type: "yarn" },
): Frequencies {
  const { factor, originalMaxPositions, betaFast = 32, betaSlow = 1, mscale, mscaleAllDim, truncate = true } = scaling;
  /** The dimension whose frequency makes so many turns within the original length. */
  const dimensionOf = (turns: number): number =>
    (D * Math.log(originalMaxPositions / (turns * 2 * Math.PI))) / (2 * Math.log(ropeTheta));
  const [low, high] = [dimensionOf(betaFast), dimensionOf(betaSlow)];
  const first = Math.max(truncate ? Math.floor(low) : low, 0);
  const end = Math.min(truncate ? Math.ceil(high) : high, D - 1);
  const last = first === end ? end + 0.001 : end;
  const frequencies = plain.map((f, i) => {
    const divided = Math.min(Math.max((i - first) / (last - first), 0), 1);
    return divided * (f / factor) + (1 - divided) * f;
  });
  const magnitude = (m: number): number => (factor <= 1 ? 1 : 0.1 * m * Math.log(factor) + 1);
  const implied = mscale && mscaleAllDim ? magnitude(mscale) / magnitude(mscaleAllDim) : magnitude(1);
  return { frequencies, attentionFactor: scaling.attentionFactor ?? implied };
}

/**
 * The rotation of each token of a call.
 * @param positions of the tokens, [B · T]; those that follow each other in a row are one text, unless `texts` says
 *   otherwise
 * @param texts the text of each token (a row of a cache)
 */
export function rotationOf(
  config: ModelConfig,
  positions: Int32Array,
  positions_BT: Tensor,
  texts?: Int32Array,
): Rotation {
  const { device } = positions_BT;
  const rows = sharedRows(config, positions);
  if (rows !== undefined) return { ...sharedTables(config, rows, device), rows_BT: positions_BT };
  // Transformers, too, reads the largest position of a call. It takes that of all texts of a batch, and keeps it until
  // a shorter batch comes; here each text has its own angles.
  const lengths = lengthsOf(positions, positions_BT.shape[1]!, texts);
  const known = new Map<number, Frequencies>();
  const { cos, sin } = tablesOf(positions.length, config.headDim, device, (n) => {
    const length = lengths[n]!;
    const frequencies = known.get(length) ?? ropeFrequencies(config, length);
    known.set(length, frequencies);
    return { position: positions[n]!, ...frequencies };
  });
  const rowOfEach = Int32Array.from(positions, (_, n) => n);
  return { cos, sin, rows_BT: tensor(rowOfEach, { device, shape: positions_BT.shape }) };
}

/** The length of each token's text: its largest position in this call, plus one. */
function lengthsOf(positions: Int32Array, T: number, texts?: Int32Array): Int32Array {
  let text = 0;
  const ofText =
    texts ??
    Int32Array.from(positions, (position, n) => {
      const follows = n % T > 0 && position === positions[n - 1]! + 1;
      return follows ? text : n === 0 ? text : ++text;
    });
  const longest = new Map<number, number>();
  positions.forEach((position, n) => longest.set(ofText[n]!, Math.max(longest.get(ofText[n]!) ?? 0, position + 1)));
  return Int32Array.from(positions, (_, n) => longest.get(ofText[n]!)!);
}

type Tables = Pick<Rotation, "cos" | "sin">;

function tablesOf(
  rows: number,
  headDim: number,
  device: Device,
  rowOf: (n: number) => Frequencies & { readonly position: number },
): Tables {
  const half = headDim / 2;
  const [cos, sin] = [new Float64Array(rows * half), new Float64Array(rows * half)];
  for (let n = 0; n < rows; n++) {
    const { position, frequencies, attentionFactor } = rowOf(n);
    for (let i = 0; i < half; i++) {
      const angle = position * frequencies[i]!;
      cos[n * half + i] = attentionFactor * Math.cos(angle);
      sin[n * half + i] = attentionFactor * Math.sin(angle);
    }
  }
  return { cos: tensor(cos, { device, shape: [rows, half] }), sin: tensor(sin, { device, shape: [rows, half] }) };
}

/** The number of rows of the smallest table. */
const FEWEST_ROWS = 1024;
/** Tables by device and parameters. A longer one does not replace a shorter one, which a tape may still need. */
const shared = new WeakMap<Device, Map<string, Tables>>();

/** The number of rows of the shared table for these positions; undefined if a call gets its own table. */
export function sharedRows(config: ModelConfig, positions: Int32Array): number | undefined {
  const longest = positions.reduce((most, position) => Math.max(most, position + 1), 1);
  if (config.ropeScaling?.type === "dynamic" && longest > config.maxPositions) return undefined;
  return Math.min(longestText(config), Math.max(FEWEST_ROWS, 2 ** Math.ceil(Math.log2(longest))));
}

function sharedTables(config: ModelConfig, rows: number, device: Device): Tables {
  const { headDim, ropeTheta, ropeScaling, maxPositions } = config;
  const ofDevice = shared.get(device) ?? new Map<string, Tables>();
  shared.set(device, ofDevice);
  const scaling = ropeScaling ? `${JSON.stringify(ropeScaling)} ${maxPositions}` : "";
  const key = `${rows} ${headDim} ${ropeTheta} ${scaling}`;
  let made = ofDevice.get(key);
  if (made === undefined) {
    const frequencies = ropeFrequencies(config);
    made = outsideScopes(() => tablesOf(rows, headDim, device, (position) => ({ position, ...frequencies })));
    ofDevice.set(key, made);
  }
  return made;
}

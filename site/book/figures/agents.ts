/** Figures of the chapters about agents, 5 to 8. */
import { svg, type Svg } from "../svg.ts";
import { shares } from "./engine.ts";
import type { Figure } from "./figure.ts";
import {
  barChart,
  figure,
  frame,
  heatMap,
  linesLike,
  lyingBars,
  numbersIn,
  path,
  text,
  ticksTo,
  WIDTH,
} from "./plot.ts";

/** A role's colour is that of the live page's transcripts. */
const ROLES = ["prompt", "thought", "action", "observation", "scaffold"];

/** The tokens of an episode in a row; those that are trained are lifted. */
function episode(printed: string): Svg | undefined {
  const tokens = linesLike(printed, /^(.*?) +(\w+) +(\d+) +([01])(?: +(-?[\d.]+))?$/).filter(([, , role]) =>
    ROLES.includes(role!),
  );
  if (tokens.length === 0) return undefined;
  let [x, y] = [6, 34];
  const boxes = tokens.flatMap(([, token, role, , isTrained]) => {
    const said = token === "" ? " " : token!;
    const width = 14 + 8.6 * said.length;
    if (x + width > WIDTH - 6) [x, y] = [6, y + 58];
    const top = isTrained === "1" ? y - 12 : y;
    const parts = [
      svg("rect", { x, y: top, width, height: 26, rx: 4, class: `token ${role}` }),
      text(x + width / 2, top + 18, said, "mono", "middle"),
    ];
    x += width + 4;
    return parts;
  });
  const legend = ROLES.filter((role) => tokens.some(([, , own]) => own === role));
  const foot = y + 56;
  return figure(
    foot + 8,
    "The tokens of an episode; those that the agent wrote are lifted",
    ...boxes,
    ...legend.flatMap((role, k) => [
      svg("rect", { x: 6 + 128 * k, y: foot - 11, width: 14, height: 14, rx: 3, class: `token ${role}` }),
      text(26 + 128 * k, foot, role, "small"),
    ]),
  );
}

/** The loss of one token by its ratio, for both signs of A; where it is flat, it has no gradient. */
function clipPicture(printed: string): Svg | undefined {
  const row = (start: RegExp): number[] => linesLike(printed, start).flatMap(([, values]) => numbersIn(values!));
  const rho = row(/^ρ((?: +[\d.]+)+)$/);
  const lines = [1, -1].map((A) => ({ A, losses: row(new RegExp(`^A = ${A}: loss((?: +-?[\\d.]+)+)$`)) }));
  if (rho.length < 2 || lines.some(({ losses }) => losses.length !== rho.length)) return undefined;
  const most = Math.max(1.8, ...lines.flatMap(({ losses }) => losses.map(Math.abs)));
  const height = 320;
  const { parts, ...at } = frame(
    { label: "ratio ρ", from: 0.2, to: Math.max(2, ...rho), ticks: [0.4, 0.8, 1, 1.28, 1.6, 2] },
    { label: "loss of a token", from: -most, to: most, ticks: [-1, 0, 1] },
    height,
  );
  const bounds = [0.8, 1.28].map((x) =>
    svg("line", { class: "grid", x1: at.x(x), x2: at.x(x), y1: at.y(most), y2: at.y(-most) }),
  );
  const drawn = lines.flatMap(({ A, losses }, k) => {
    const points = losses.map((y, i) => [at.x(rho[i]!), at.y(y)] as const);
    const isFlat = (i: number): boolean => losses[i] === losses[i + 1];
    const pieces = points.slice(1).map((end, i) => path([points[i]!, end], `line s${k}${isFlat(i) ? " dashed" : ""}`));
    const corners = points
      .slice(1, -1)
      .flatMap(([cx, cy], i) => (isFlat(i) === isFlat(i + 1) ? [] : [svg("circle", { cx, cy, r: 4, class: `f${k}` })]));
    const flat = points.findIndex((_, i) => isFlat(i));
    const [x, y] = points[flat] ?? points[0]!;
    const below = A > 0 ? 20 : -10;
    const [endX, endY] = points.at(-1)!;
    return [
      ...pieces,
      ...corners,
      ...(flat < 0 ? [] : [text(x, y + below, "dashed: gradient 0", `small f${k}`)]),
      text(endX + 8, endY + 4, `A = ${String(A).replace("-", "−")}`, `small f${k}`),
    ];
  });
  return figure(
    height,
    "The clipped loss of a token by its ratio, for A = 1 and A = −1",
    ...parts,
    ...bounds,
    ...drawn,
  );
}

/** From the least to the greatest ratio of each pass, beside the bounds of the clip. */
function ratios(printed: string): Svg | undefined {
  const passes = linesLike(printed, /^(\d+) +(-?[\d.]+) +([\d.]+) +([\d.]+) +([\d.]+)$/).map((row) =>
    row.slice(1).map(Number),
  );
  if (!/^pass +loss +least ratio/m.test(printed) || passes.length === 0) return undefined;
  const most = 0.15 + Math.max(1.5, ...passes.map((row) => row[3]!));
  const ticks = [0, 0.8, 1, 1.28, most > 1.7 ? 2 : 1.5].filter((tick) => tick <= Math.ceil(most));
  const height = 280;
  const { parts, ...at } = frame(
    { label: "pass over the same batch", from: 0.4, to: passes.length + 0.6, ticks: passes.map((row) => row[0]!) },
    { label: "ratio ρ", from: 0, to: Math.max(most, ticks.at(-1)!), ticks },
    height,
  );
  const [low, high] = [at.y(0.8), at.y(1.28)];
  return figure(
    height,
    "The ratios of the tokens in each pass, and the bounds of the clip",
    svg("rect", { x: at.x(0.4), y: high, width: at.right - at.x(0.4), height: low - high, class: "band" }),
    ...parts,
    ...passes.flatMap(([pass, , least, greatest, clipped]) => [
      svg("rect", {
        x: at.x(pass!) - 13,
        y: at.y(greatest!) - 1,
        width: 26,
        height: at.y(least!) - at.y(greatest!) + 2,
        rx: 3,
        class: "f0",
      }),
      text(at.x(pass!), at.y(greatest!) - 6, `${Math.round(100 * clipped!)} %`, "small", "middle"),
    ]),
  );
}

/** What three estimators of the KL say on average, and how much they scatter, for the policy that is far. */
function divergence(printed: string): Svg | undefined {
  const [, found] = linesLike(printed, /^far((?: +-?[\d.]+){7})$/)[0] ?? [];
  if (found === undefined) return undefined;
  const [kl, ...rest] = numbersIn(found) as [number, ...number[]];
  const rows = ["k1", "k2", "k3"].map((name, k) => ({ name, bars: rest.slice(2 * k, 2 * k + 2) }));
  return lyingBars("The mean and the scatter of three estimators of the KL", Math.max(...rest), rows, [
    `mean; the KL is ${Number(kl.toFixed(3))}`,
    "standard deviation",
  ]);
}

/** The advantages of an episode's tokens, for each λ. */
function credit(printed: string): Svg | undefined {
  const rows = linesLike(printed, /^(0|0?\.\d+|1)((?: +-?\d\.\d{3})+) +-?\d\.\d{3} -?\d\.\d{3}$/);
  const tokens = linesLike(printed, /^λ +(.*?) +the library/)[0]?.[1]!.split(/ +/) ?? [];
  const values = rows.map(([, , found]) => numbersIn(found!));
  if (rows.length === 0 || values.some((own) => own.length !== tokens.length)) return undefined;
  const ticks = ticksTo(Math.max(0.1, ...values.flat()));
  return barChart(
    "The advantage of each token of the agent, for each λ",
    { label: "advantage A", from: 0, to: ticks.at(-1)!, ticks, show: (y) => String(Number(y.toFixed(2))) },
    tokens.map((name, k) => ({ name: `“${name}”`, bars: values.map((own) => own[k]!) })),
    rows.map(([, lambda]) => `λ = ${lambda!}`),
  );
}

/** How hard a group pulls, by the number of its successes. */
function pull(printed: string): Svg | undefined {
  const rows = linesLike(printed, /^(rloo|centred|grpo)((?: +-?[\d.]+){8})$/);
  if (rows.length === 0) return undefined;
  const groups = rows.map(([, name, values]) => ({ name: name!, bars: numbersIn(values!).slice(4) }));
  const ticks = ticksTo(Math.max(...groups.flatMap(({ bars }) => bars), 1));
  return barChart(
    "The sum of |A| of a group of 8, by how many of its tries succeed",
    { label: "Σ|A| of a group", from: 0, to: ticks.at(-1)!, ticks, show: (y) => String(Number(y.toFixed(1))) },
    groups,
    ["1 of 8 succeeds", "2 of 8", "4 of 8", "8 of 8: nothing is learnt"],
  );
}

function variances(printed: string): Svg | undefined {
  const rows = linesLike(printed, /^(none|batch|rloo)((?: +[\d.]+){3})$/);
  if (rows.length === 0) return undefined;
  const groups = rows.map(([, name, values]) => ({ name: `baseline: ${name}`, bars: numbersIn(values!) }));
  const ticks = ticksTo(Math.max(...groups.flatMap(({ bars }) => bars)));
  return barChart(
    "The variance of the gradient by baseline",
    { label: "variance of the gradient", from: 0, to: ticks.at(-1)!, ticks, show: (y) => String(Number(y.toFixed(2))) },
    groups,
    ["rewards R", "R + 1", "R + a tip for each task"],
  );
}

function withTips(printed: string): Svg | undefined {
  const lines = linesLike(printed, /^(\w+) +found, in %, by fifths of the run: ([\d ]+)$/);
  return shares(
    "Found, by fifths of the training, with each baseline",
    "fifths of the training",
    lines.map(([, name, values]) => ({ name: name!, values: numbersIn(values!) })),
  );
}

/** What each of ten seeds found at its end, a dot a seed, and their mean. */
function seeds(printed: string): Svg | undefined {
  const rows = linesLike(printed, /^(\w+) +last fifth, seeds 0 to 9: ([\d ]+); mean (\d+)$/);
  if (rows.length === 0) return undefined;
  const down = 44;
  const height = 90 + down * rows.length;
  const all = rows.map(([, name, values, mean]) => ({ name: name!, values: numbersIn(values!), mean: Number(mean) }));
  const ticks = [0, 25, 50, 75, 100];
  const { parts, ...at } = frame(
    { label: "found in the last fifth, in %; the number is the mean of ten seeds", from: 0, to: 100, ticks },
    { label: "", from: 0, to: 1, ticks: [] },
    height,
  );
  return figure(
    height,
    "What each of ten seeds finds in the last fifth of its training, by baseline",
    ...parts,
    ...all.flatMap(({ name, values, mean }, k) => {
      const y = 44 + down * k;
      return [
        text(0, y + 5, name, "small"),
        svg("line", { class: "grid", x1: at.x(0), x2: at.right, y1: y, y2: y }),
        ...values.map((value) => svg("circle", { cx: at.x(value), cy: y, r: 5, class: `f${k} dot` })),
        svg("line", { class: `line s${k}`, x1: at.x(mean), x2: at.x(mean), y1: y - 12, y2: y + 12 }),
        text(at.x(mean), y - 15, String(mean), "small", "middle"),
      ];
    }),
  );
}

function opened(printed: string): Svg | undefined {
  const lines = linesLike(printed, /^told the (.+?): opened, in %: ([\d ]+)$/);
  return shares(
    "Safes opened, by sixths of the training, for what the world tells",
    "sixths of the training",
    lines.map(([, name, values]) => ({ name: name!, values: numbersIn(values!) })),
  );
}

/** The slope of each token of the answers by its probability, for both losses. */
function slopes(printed: string): Svg | undefined {
  const rows = linesLike(printed, /observation +([\d.]+)((?: +[\d.]+){4})$/).map(([, p, rest]) => [
    Number(p),
    ...numbersIn(rest!),
  ]);
  if (rows.length === 0) return undefined;
  const height = 280;
  const least = 1e-4;
  const { parts, ...at } = frame(
    {
      label: "p: how sure the agent was of the word",
      from: 1e-3,
      to: 1,
      ticks: [1e-3, 0.01, 0.1, 1],
      isLogarithmic: true,
    },
    {
      label: "how hard a word pulls",
      from: least,
      to: 1,
      ticks: [least, 1e-3, 0.01, 0.1, 1],
      isLogarithmic: true,
      show: (y) => (y === least ? "10⁻⁴" : String(y)),
    },
    height,
    92,
  );
  // What is printed as 0 pulls less than can be shown.
  const dots = (column: number, k: number): Svg[] =>
    rows
      .filter((row) => row[column]! >= least)
      .map((row) =>
        svg("circle", { cx: at.x(Math.max(1e-3, row[0]!)), cy: at.y(row[column]!), r: 5, class: `f${k} dot` }),
      );
  return figure(
    height,
    "The slope of the world-model loss by the probability of a word: ECHO and PaW",
    ...parts,
    ...dots(2, 0),
    ...dots(4, 1),
    text(at.right + 12, 60, "● ECHO", "small f0"),
    text(at.right + 12, 80, "● PaW", "small f1"),
  );
}

/** Bias, and what noise 64 episodes leave, of each way to weigh a token, at the greatest staleness. */
function biasAndNoise(printed: string): Svg | undefined {
  const blocks = printed.split(/\n\n/).map((block) => /^\s*staleness (\d+: .*)/s.exec(block)?.[1]);
  const last = blocks.findLast((block) => block !== undefined) ?? "";
  const rows = linesLike(last, /^ {2}(\S.*?) {2,}(-?[\d.]+) +([\d.]+) +(-?[\d.]+) +([\d.]+)$/);
  if (rows.length === 0) return undefined;
  const all = rows.map(([, name, bias, noise]) => ({
    name: name!,
    bars: [Number(bias), Number(noise) / Math.sqrt(64)],
  }));
  return lyingBars(
    `Bias and noise of seven ways to weigh a token, at a staleness of ${parseInt(last, 10)}`,
    Math.max(...all.flatMap(({ bars }) => bars)),
    all,
    ["bias", "noise that a mean of 64 episodes keeps"],
  );
}

function stale(printed: string): Svg | undefined {
  const lines = linesLike(printed, /^(synchronous|staleness [28], .+?) {2,}((?: *\d+){4}) %$/);
  return shares(
    "Success by quarters of the training, with old episodes",
    "quarters of 40 updates",
    lines
      .filter(([, name]) => !name!.startsWith("staleness 2"))
      .map(([, name, values]) => ({ name: name!.replace(/^staleness 8, /, "age 8: "), values: numbersIn(values!) })),
  );
}

/** The step at which each number of each sick run leaves the healthy one: the stronger its colour, the earlier. */
function leaving(printed: string): Svg | undefined {
  const runs = printed.split(/^(?=[1-9] )/m).flatMap((block) => {
    const name = /^[1-9] (.+)$/m.exec(block)?.[1];
    const rows = linesLike(block, /^ {2}(\S.*?) {2,}(?:\S+ → +\S+)(?: +leaves at step (\d+))?$/);
    return name === undefined || rows.length === 0 ? [] : [{ name, rows }];
  });
  const columns = runs[0]?.rows.map(([, name]) => name!) ?? [];
  if (columns.length === 0) return undefined;
  const map = heatMap(
    "The step at which a number of a sick run leaves the healthy run",
    runs.map(({ name }) => name),
    columns.map((_, k) => String.fromCharCode(65 + k)),
    runs.map(({ rows }) =>
      rows.map(([, , step]) =>
        step === undefined ? undefined : { share: 1 - Math.min(1, Number(step) / 32), says: step },
      ),
    ),
    { left: 210, top: 30, size: 47, tall: 30 },
  );
  const top = 30 + 30 * runs.length + 26;
  const legend = columns.map((name, k) =>
    text(6 + 270 * (k % 2), top + 18 * Math.floor(k / 2), `${String.fromCharCode(65 + k)} ${name}`, "small"),
  );
  return figure(
    top + 18 * Math.ceil(columns.length / 2),
    String(map.attributes["aria-label"]),
    ...(map.children as Svg[]),
    ...legend,
  );
}

export const GRPO: readonly Figure[] = [
  {
    section: "An episode is a stream of tokens",
    about: "One episode. Lifted tokens are the agent's: only they are trained.",
    draw: episode,
  },
  {
    section: "Advantages",
    about: "How hard a group pulls. Division by std makes groups with one success or one failure count more.",
    draw: pull,
  },
  {
    section: "The ratio, and its clip",
    about:
      "The loss of one token by its ρ. The dots are at the bounds of the clip. Dashed: a flat loss, so no gradient.",
    draw: clipPicture,
  },
  {
    section: "The ratio, and its clip",
    about:
      "From the least to the greatest ratio of a pass, and the share of tokens that the clip stops. Green: its bounds.",
    draw: ratios,
  },
  {
    section: "Not too far: KL, and its estimate from samples",
    about:
      "For a policy that is far from its reference. k2 is wrong on average, k1 scatters more than what it measures.",
    draw: divergence,
  },
  {
    section: "A critic instead of a group: GAE in ten lines",
    about:
      "The world's answer raised the critic's hope, so the first guess gets the credit; λ shares it among the tokens.",
    draw: credit,
  },
  {
    section: "Training",
    about: "What a task pays to everybody is noise. Only a baseline of the group takes it away.",
    draw: variances,
  },
  { section: "Training", about: "Training with tips, one seed.", draw: withTips },
  { section: "Training", about: "The end of that training with ten seeds: a dot is a seed.", draw: seeds },
];
export const WORLD: readonly Figure[] = [
  {
    section: "Four agents",
    about: "The same rewards. What differs is what the world tells, and whether it is predicted (λ).",
    draw: opened,
  },
  {
    section: "What a token weighs",
    about: "ECHO pulls hardest at words that surprise; PaW pulls at words that are neither known nor hopeless.",
    draw: slopes,
  },
];
export const WORKERS: readonly Figure[] = [
  {
    section: "Seven ways to weigh a token: bias and noise",
    about:
      "No weight is without either. ρ is right on average and useless by its noise; bounds trade one for the other.",
    draw: biasAndNoise,
  },
  {
    section: "In training: workers, a queue, a bound on age",
    about: "Episodes of up to 8 updates ago, by how they are weighed, one seed.",
    draw: stale,
  },
];
export const SICK: readonly Figure[] = [
  {
    section: "Beside the healthy run, and the doctor",
    about: "The step at which each number leaves the healthy run: the stronger, the earlier. No square: never.",
    draw: leaving,
  },
];

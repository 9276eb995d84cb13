/** Held-out success by RL step in `home`, seed 0: written by scripts/recordRun.ts. */
export const RECORDED_RUN: readonly {
  readonly label: string;
  readonly method: string;
  readonly success: readonly (readonly [step: number, success: number])[];
}[] = [
  {
    label: "grpo",
    method: "grpo_token",
    success: [
      [0, 0.01],
      [20, 0.025],
      [40, 0.0083],
      [60, 0.025],
      [80, 0.075],
      [100, 0.1083],
      [120, 0.1333],
      [140, 0.1667],
      [160, 0.1833],
      [180, 0.1917],
      [200, 0.24],
    ],
  },
  {
    label: "grpo+echo",
    method: "grpo_token+echo",
    success: [
      [0, 0.01],
      [20, 0.0333],
      [40, 0.0833],
      [60, 0.175],
      [80, 0.2],
      [100, 0.3167],
      [120, 0.4167],
      [140, 0.55],
      [160, 0.6667],
      [180, 0.6333],
      [200, 0.6667],
    ],
  },
];

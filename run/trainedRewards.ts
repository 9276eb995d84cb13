/** Rewards by a model that is trained before RL begins: of outcomes (`orm`) and of steps (`prm`). */
export const TRAINED = ["orm", "prm"] as const;
export type Trained = (typeof TRAINED)[number];

/** Whether a model that is trained before RL begins gives this reward. */
export const isTrained = (name: string | undefined): name is Trained => (TRAINED as readonly unknown[]).includes(name);

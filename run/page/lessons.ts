/** The lessons that readers of the report pages need to understand a run, in the order in which they are needed. */

export interface Lesson {
  readonly title: string;
  readonly text: string;
}

/** What is the same for those that a comparison or an ablation compares. */
export const SHARED: Lesson = {
  title: "What all share",
  text:
    "With one seed all begin with the same weights after a warm start. They have the same training tasks in the " +
    "same order, the same number of episodes in every step, and the same held-out tasks with the same random " +
    "numbers. They differ in what they learn from an episode, and therefore in what they play later. Whoever " +
    "imitates plays nothing and learns from as many demonstrations in a step.",
};

export const LESSONS: readonly Lesson[] = [
  {
    title: "A token is scored from what stands before it",
    text:
      "The numbers of a token (log-probability, surprise) come from the model's output at the position before it. " +
      "The first token of a stream has none.",
  },
  {
    title: "Who wrote each token decides how it is learnt",
    text:
      "Tokens that the model sampled (actions) get the policy loss. Tokens that the environment answered " +
      "(observations) get the world-model loss. The prompt and the chat template get neither. Choose “mask” below " +
      "to see it.",
  },
  {
    title: "Why the old log-probability is kept",
    text:
      "The episode was sampled by the policy of that moment. The ratio exp(new − old) says how far the policy has " +
      "moved on this token since then. With one update per batch it is 1.",
  },
  {
    title: "The group is the baseline",
    text:
      "Each task is tried several times. Advantage = (reward − mean of the group) / standard deviation of the " +
      "group. A try that is better than the others is blue and made more likely; a worse one is red and made less " +
      "likely. If all are equal, the advantage is 0 and there is nothing to learn.",
  },
  {
    title: "Why the policy loss is about 0 yet its gradient is not",
    text:
      "At ratio 1 the loss is minus the mean of the advantages, and those sum to 0 in a group. The gradient " +
      "weighs each token's ∇log p by its advantage, and these do not cancel.",
  },
  {
    title: "The clip is a stop sign, not a speed limit",
    text:
      "Where a token has already moved far enough in the wanted direction, the clip sets its gradient to 0. It " +
      "does not limit the size of a step; the gradient clip and the learning rate do.",
  },
  {
    title: "What is averaged over what",
    text:
      "Each part of the loss is divided by a count over the whole step (sampled tokens for the policy, " +
      "observation tokens for the world model), so that cutting a batch into pieces changes nothing. A token's " +
      "weight on hover has that division in it.",
  },
  {
    title: "Token ids are the truth, text is a view",
    text:
      "The model reads and writes numbers. What it sampled is never turned into text and back, because the same " +
      "text may become other tokens.",
  },
];

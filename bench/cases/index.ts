/** All cases, in the order in which they run. */
import { attentionLadderCases } from "./attention.ts";
import type { Case } from "./case.ts";
import { matmulCases } from "./matmul.ts";
import { modelCases } from "./model.ts";
import { opCases } from "./ops.ts";

export const allCases = (): Case[] => [...matmulCases(), ...opCases(), ...attentionLadderCases(), ...modelCases()];

"""What bench/pretrainedRl.ts measures, with TRL's GRPOTrainer and an adapter of PEFT: whole steps on the shape of
SmolLM2-135M with random weights in f32, LoRA of rank 16 on all linear layers, one thread. Seconds are those of the
processor.

    python3 bench/peers/trl_lora_bench.py 2 4 64 32 2

The numbers are groups, episodes of a group, tokens of a prompt, tokens of a completion, and steps after the first.
"""

import json
import resource
import sys
import time

import torch

from trl_bench import Grpo

torch.set_num_threads(1)
groups, group_size, prompt, completion, steps = map(int, sys.argv[1:])
SHAPE = {"V": 49152, "C": 576, "F": 1536, "L": 30, "H": 9, "kvHeads": 3}  # scripts/shapes.ts
TASK = {"groups": groups, "groupSize": group_size, "prompt": prompt, "completion": completion, "lr": 1e-4}
job = Grpo({**SHAPE, **TASK, "rank": 16})


def seconds():
    before = time.process_time()
    job.run()
    return round(time.process_time() - before, 1)


first, *further = [seconds() for _ in range(steps + 1)]
trained = sum(p.numel() for p in job.trainer.model.parameters() if p.requires_grad)
print(json.dumps({**TASK, "trained": trained, "first": first, "further": further, "reward": job.figures(),
                  "MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024}))

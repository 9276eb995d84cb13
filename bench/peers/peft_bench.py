"""The measurement of bench/pretrained.ts with transformers and PEFT on one thread: processor seconds, peak memory.

    python bench/peers/peft_bench.py models/qwen bfloat16 1 128
"""

import json
import resource
import sys
import time

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

torch.set_num_threads(1)
path, dtype = sys.argv[1], sys.argv[2]
rows, tokens = int(sys.argv[3]), int(sys.argv[4])
last = time.process_time()


def seconds():
    global last
    now = time.process_time()
    last, spent = now, now - last
    return round(spent, 2)


def mebibytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


empty = mebibytes()
seconds()
model = AutoModelForCausalLM.from_pretrained(path, dtype=getattr(torch, dtype))
loading = {"seconds": seconds(), "MiB": mebibytes()}
prompt = torch.arange(16)[None]
options = {"do_sample": False, "eos_token_id": None, "pad_token_id": 0}
model.generate(prompt, max_new_tokens=1, **options)
seconds()
model.generate(prompt, max_new_tokens=16, min_new_tokens=16, **options)
drawing = {"tokensPerSecond": round(16 / seconds(), 2), "MiB": mebibytes()}
model = get_peft_model(model, LoraConfig(r=16, target_modules="all-linear", task_type="CAUSAL_LM"))
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4)
ids = (torch.arange(rows * tokens) % 250).reshape(rows, tokens)
seconds()
logits = model(ids).logits.float()
loss = torch.log_softmax(logits, -1)[..., 0].sum()
loss.backward()
torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
optimizer.step()
step = {"seconds": seconds(), "MiB": mebibytes()}
print(json.dumps({"model": path, "dtype": dtype, "rows": rows, "tokens": tokens, "empty": empty, "loading": loading,
                  "drawing": drawing, "step": step}))

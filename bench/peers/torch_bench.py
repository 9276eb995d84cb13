"""The PyTorch contender of the benchmark: the protocol of bench/child.ts, the tasks of bench/cases/task.ts, f32, eager
or compiled.

bench/process.ts starts `python3 torch_bench.py VARIANT THREADS`; VARIANT is cpu, cuda, cuda-compiled or cuda-f16.
TF32 is off.
"""

import contextlib
import math
import sys

import numpy as np
import torch
import torch.nn.functional as F

from protocol import serve

variant = sys.argv[1]
device = torch.device("cuda" if variant.startswith("cuda") else "cpu")
dtype = torch.float16 if variant.endswith("f16") else torch.float32
compiled = variant.endswith("compiled")
torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.allow_tf32 = False


def hashes(seed, count):
    """`hash` of bench/data.ts: 32-bit arithmetic, on uint64 because numpy warns of overflow in uint32."""
    mask = np.uint64(0xFFFFFFFF)
    x = (np.arange(count, dtype=np.uint64) + np.uint64(seed * 0x9E3779B9 & 0xFFFFFFFF)) & mask
    x = ((x ^ (x >> np.uint64(16))) * np.uint64(0x85EBCA6B)) & mask
    x = ((x ^ (x >> np.uint64(13))) * np.uint64(0xC2B2AE35)) & mask
    return x ^ (x >> np.uint64(16))


def noise(seed, shape, scale=1.0):
    x = (hashes(seed, math.prod(shape)) >> np.uint64(8)).astype(np.float64) * 2.0**-23 - 1
    return torch.from_numpy((x * scale).astype(np.float32).reshape(shape)).to(device)


def noise_ids(seed, count, below):
    return torch.from_numpy((hashes(seed, count) % np.uint64(below)).astype(np.int64)).to(device)


def sample(x):
    x = x.detach().float().cpu().reshape(-1).numpy()
    count = min(x.size, 64)
    return [float(x[0 if count == 1 else i * (x.size - 1) // (count - 1)]) for i in range(count)]


def finish():
    if device.type == "cuda":
        torch.cuda.synchronize()


def optimise(f):
    return torch.compile(f) if compiled else f


class Call:
    """Repeated work; `make` returns the results."""

    def __init__(self, make):
        self.make = make

    def check(self):
        return [x for result in self.make() for x in sample(result)]

    def run(self):
        self.make()


def gradient(backward, inputs, g, f):
    """The task of calling f, or its gradient for the cotangent g."""
    g = g.to(dtype)
    if not backward:
        inputs = [x.to(dtype) for x in inputs]
        forward = optimise(f)

        def make():
            with torch.no_grad():
                return [forward(*inputs)]

        return Call(make)
    inputs = [x.to(dtype).requires_grad_() for x in inputs]
    forward = optimise(f)
    return Call(lambda: torch.autograd.grad(forward(*inputs), inputs, g))


def matmul(task):
    outer = [] if task["batch"] == 1 else [task["batch"]]
    m, n, k = task["m"], task["n"], task["k"]
    a = noise(1, [*outer, *([k, m] if task["transA"] else [m, k])]).to(dtype)
    b = noise(2, [*outer, *([n, k] if task["transB"] else [k, n])]).to(dtype)
    a = a.transpose(-1, -2) if task["transA"] else a
    b = b.transpose(-1, -2) if task["transB"] else b
    return Call(lambda: [a @ b])


def softmax(task):
    shape = [task["rows"], task["cols"]]
    return gradient(task["backward"], [noise(1, shape, 3)], noise(2, shape), lambda x: F.softmax(x, -1))


def norm(task):
    rows, cols = task["rows"], task["cols"]
    inputs = [noise(1, [rows, cols]), 1 + noise(3, [cols], 0.25), noise(4, [cols], 0.25)]
    g = noise(2, [rows, cols])
    return gradient(task["backward"], inputs, g, lambda x, w, b: F.layer_norm(x, [cols], w, b, 1e-5))


def attend(q, k, v):
    """Causal attention; q, k, v are [B, T, H, D]."""
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    if hasattr(F, "scaled_dot_product_attention"):  # torch 2
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)
    T = q.shape[2]
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[3])
    mask = torch.ones(T, T, dtype=torch.bool, device=q.device).triu(1)
    return (F.softmax(scores.masked_fill(mask, -math.inf), -1) @ v).transpose(1, 2)


def attention(task):
    shape = [task["B"], task["T"], task["H"], task["D"]]
    return gradient(task["backward"], [noise(s, shape, 2) for s in (1, 2, 3)], noise(4, shape), attend)


def log_probs(task):
    rows, vocab = task["rows"], task["V"]
    targets = noise_ids(2, rows, vocab)
    logits, g = noise(1, [rows, vocab], 4), noise(3, [rows])
    return gradient(task["backward"], [logits], g, lambda x: -F.cross_entropy(x, targets, reduction="none"))


def block_shapes(C):
    linear = lambda i, o: [([i, o], "weight"), ([o], "zero")]
    norm = [([C], "one"), ([C], "zero")]
    return [*norm, *linear(C, 3 * C), *linear(C, C), *norm, *linear(C, 4 * C), *linear(4 * C, C)]


def parameter(place, shape, kind):
    if kind == "weight":
        return noise(100 + place, shape, math.sqrt(3) * 0.02)
    return torch.full(shape, 1.0 if kind == "one" else 0.0, device=device)


def block(x, p, H):
    B, T, C = x.shape
    h = F.layer_norm(x, [C], p[0], p[1], 1e-5)
    q, k, v = torch.addmm(p[3], h.reshape(-1, C), p[2]).reshape(B, T, 3, H, C // H).unbind(2)
    mixed = attend(q, k, v).reshape(-1, C)
    x = x + torch.addmm(p[5], mixed, p[4]).reshape(B, T, C)
    h = F.layer_norm(x, [C], p[6], p[7], 1e-5).reshape(-1, C)
    inner = F.gelu(torch.addmm(p[9], h, p[8]), approximate="tanh")
    return x + torch.addmm(p[11], inner, p[10]).reshape(B, T, C)


def loss_of(params, shape, ids, targets):
    embedding, positions = params[:2]
    x = F.embedding(ids, embedding) + positions
    for n in range(shape["L"]):
        x = block(x, params[2 + 12 * n : 14 + 12 * n], shape["H"])
    x = F.layer_norm(x, [shape["C"]], params[-2], params[-1], 1e-5)
    return F.cross_entropy((x.reshape(-1, shape["C"]) @ embedding.T).float(), targets.reshape(-1))


def batches_of(shape):
    B, T, V = shape["B"], shape["T"], shape["V"]
    texts = [noise_ids(10 + s, B * (T + 1), V).reshape(B, T + 1) for s in range(4)]
    return [(text[:, :-1].contiguous(), text[:, 1:].contiguous()) for text in texts]


class Step:
    """f16: weights and moments stay f32 and the model runs under autocast, with a fixed loss scale."""

    def __init__(self, shape, train):
        C = shape["C"]
        kinds = [([shape["V"], C], "weight"), ([shape["T"], C], "weight")]
        kinds += [entry for _ in range(shape["L"]) for entry in block_shapes(C)] + [([C], "one"), ([C], "zero")]
        self.params = [parameter(i, s, kind).requires_grad_() for i, (s, kind) in enumerate(kinds)]
        matrices = [p for p in self.params if p.dim() > 1]
        vectors = [p for p in self.params if p.dim() == 1]
        groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
        fused = {"fused": True} if device.type == "cuda" else {}
        self.optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, **fused)
        self.batches = batches_of(shape)
        self.count = 0
        self.train = train
        self.loss = optimise(lambda ids, targets: loss_of(self.params, shape, ids, targets))

    def once(self):
        ids, targets = self.batches[self.count % 4]
        self.count += 1
        with torch.autocast(device.type, dtype=torch.float16) if dtype == torch.float16 else contextlib.nullcontext():
            if not self.train:
                with torch.no_grad():
                    return self.loss(ids, targets)
            loss = self.loss(ids, targets)
        scale = 1024.0 if dtype == torch.float16 else 1.0
        self.optimizer.zero_grad(set_to_none=True)
        (loss * scale).backward()
        if scale != 1.0:
            torch._foreach_mul_([p.grad for p in self.params], 1 / scale)
        self.optimizer.step()
        return loss

    def check(self):
        return [float(self.once()) for _ in range(4)]

    def run(self):
        self.once()


def block_task(task):
    B, T, C, H = (task[name] for name in "BTCH")
    inputs = [noise(1, [B, T, C])] + [parameter(i, s, kind) for i, (s, kind) in enumerate(block_shapes(C))]
    call = gradient(True, inputs, noise(2, [B, T, C]), lambda x, *p: block(x, p, H))
    make = call.make

    def compared():
        grads = make()
        return [grads[0], grads[3]]

    call.make = compared
    return call


TASKS = {
    "matmul": matmul,
    "softmax": softmax,
    "norm": norm,
    "attention": attention,
    "logProbs": log_probs,
    "block": block_task,
    "step": lambda task: Step(task, True),
    "forward": lambda task: Step(task, False),
}


def describe():
    threads = torch.get_num_threads()
    cpu = f"cpu ({threads} thread{'s' if threads > 1 else ''})"
    name = torch.cuda.get_device_name() if device.type == "cuda" else cpu
    mode = "compiled" if compiled else "eager"
    return f"PyTorch {torch.__version__}, {name}, {mode}, {str(dtype).removeprefix('torch.')}"


def memory():
    if device.type == "cuda":
        return {"live": torch.cuda.memory_allocated(), "peak": torch.cuda.max_memory_allocated()}
    return {}


torch.set_num_threads(int(sys.argv[2]))
serve(describe(), TASKS, "PyTorch", finish, memory)

"""The TRL contender: `GRPOTrainer` does the task "grpo" of bench/cases/task.ts on the CPU, in f32.

bench/process.ts starts `python3 trl_bench.py cpu THREADS`. The trainer's loop runs in a second thread, one step per
request, so that a whole step is timed: generation, reward, loss, gradient, update.
"""

import logging
import os
import sys
import tempfile
import threading

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import numpy as np
import torch
import transformers
import trl
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from protocol import serve

transformers.logging.set_verbosity_error()
logging.disable(logging.WARNING)


def id_tokenizer(size):
    """Every id is a word, as in "t12 t5"; the last two end a text and fill batches."""
    vocab = {f"t{i}": i for i in range(size)}
    tokenizer = Tokenizer(models.WordLevel(vocab, unk_token="t0"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=f"t{size - 2}", pad_token=f"t{size - 1}")


class Stepper(TrainerCallback):
    """Holds the trainer before each step until the step is requested."""

    def __init__(self):
        self.asked, self.done = threading.Semaphore(0), threading.Semaphore(0)

    def on_step_begin(self, args, state, control, **_):
        self.asked.acquire()

    def on_step_end(self, args, state, control, **_):
        self.done.release()


class Grpo:
    def __init__(self, task):
        self.task, self.rewards, self.failure = task, [], None
        size = task["V"]
        torch.manual_seed(0)
        model = LlamaForCausalLM(LlamaConfig(
            vocab_size=size, hidden_size=task["C"], intermediate_size=task["F"], num_hidden_layers=task["L"],
            num_attention_heads=task["H"], num_key_value_heads=task["kvHeads"], max_position_embeddings=1024,
            tie_word_embeddings=True, bos_token_id=None, eos_token_id=size - 2, pad_token_id=size - 1,
        ))
        self.parameters = sum(p.numel() for p in model.parameters())
        rng = np.random.default_rng(0)
        prompts = [" ".join(f"t{i}" for i in rng.integers(0, size - 2, task["prompt"])) for _ in range(4096)]
        self.stepper = Stepper()
        batch = task["groups"] * task["groupSize"]
        self.trainer = GRPOTrainer(
            model=model,
            processing_class=id_tokenizer(size),
            reward_funcs=self.reward,
            train_dataset=Dataset.from_dict({"prompt": prompts}),
            callbacks=[self.stepper],
            peft_config=self.adapter(),
            args=GRPOConfig(
                output_dir=tempfile.mkdtemp(prefix="worldgrad-trl-"), use_cpu=True, bf16=False,
                per_device_train_batch_size=batch, num_generations=task["groupSize"],
                max_completion_length=task["completion"], beta=0.0, loss_type="grpo", temperature=1.0,
                learning_rate=task["lr"], lr_scheduler_type="constant", max_grad_norm=1.0,
                gradient_checkpointing=False, max_steps=1_000_000, save_strategy="no", logging_strategy="no",
                report_to=[], disable_tqdm=True, dataloader_num_workers=0,
            ),
        )
        threading.Thread(target=self.train, daemon=True).start()

    def adapter(self):
        """LoRA of rank `rank` on all linear layers but the head; without a rank all weights are trained."""
        if "rank" not in self.task:
            return None
        from peft import LoraConfig

        return LoraConfig(r=self.task["rank"], target_modules="all-linear", task_type="CAUSAL_LM")

    def train(self):
        try:
            self.trainer.train()
        except BaseException as error:  # shown by the step that waits for it
            self.failure = error
            self.stepper.done.release()

    def reward(self, completion_ids, **_):
        half = self.task["V"] // 2
        rewards = [sum(i < half for i in ids) / max(1, len(ids)) for ids in completion_ids]
        self.rewards.append(sum(rewards) / len(rewards))
        return rewards

    def run(self):
        self.stepper.asked.release()
        self.stepper.done.acquire()
        if self.failure is not None:
            raise self.failure

    def check(self):
        self.run()
        return [self.task["groups"] * self.task["groupSize"], self.task["prompt"], self.parameters]

    def figures(self):
        return {
            "steps": len(self.rewards),
            "reward of the first 3 steps": sum(self.rewards[:3]) / 3,
            "reward of the last 3 steps": sum(self.rewards[-3:]) / 3,
        }


if __name__ == "__main__":
    threads = int(sys.argv[2])
    torch.set_num_threads(threads)
    name = f"TRL {trl.__version__}, transformers {transformers.__version__}, PyTorch {torch.__version__}"
    serve(f"{name}, cpu ({threads} thread{'s' if threads > 1 else ''})", {"grpo": Grpo}, "TRL")

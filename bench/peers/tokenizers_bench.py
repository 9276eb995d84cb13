"""What Python's `tokenizers` takes for the texts of a file that make_families.py wrote, for bench/tokenizers.ts.

    python3 bench/peers/tokenizers_bench.py FILE ROUNDS

Prints milliseconds of the processor by kind of tokenizer, the median of the rounds, as one JSON object. One text at a
time and one thread, as the others have it.
"""

import json
import os
import statistics
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"

from tokenizers import Tokenizer

path, rounds = sys.argv[1:]
with open(path, encoding="utf-8") as file:
    fixture = json.load(file)
result = {}
for kind in fixture["sets"]:
    tokenizer = Tokenizer.from_str(json.dumps(kind["tokenizer"]))
    times = []
    for _ in range(int(rounds) + 1):
        before = time.process_time()
        for text in fixture["texts"]:
            tokenizer.encode(text).ids
        times.append(1000 * (time.process_time() - before))
    result[kind["name"]] = statistics.median(times[1:])
print(json.dumps(result))

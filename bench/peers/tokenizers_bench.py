"""Time of Python's `tokenizers` on the texts of a file of make_families.py, for bench/tokenizers.ts.

    python3 bench/peers/tokenizers_bench.py FILE ROUNDS

Prints the median over rounds of the processor time, in milliseconds, by kind of tokenizer, as one JSON object: for the
texts one at a time, then for all of them joined. It uses one thread, as the other readers do.
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
    medians = []
    for texts in (fixture["texts"], ["\n".join(fixture["texts"])]):
        times = []
        for _ in range(int(rounds) + 1):
            before = time.process_time()
            for text in texts:
                tokenizer.encode(text).ids
            times.append(1000 * (time.process_time() - before))
        medians.append(statistics.median(times[1:]))
    result[kind["name"]] = medians
print(json.dumps(result))

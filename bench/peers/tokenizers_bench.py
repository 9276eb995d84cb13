"""What Python's `tokenizers` takes for the texts of a file that make_families.py wrote, for bench/tokenizers.ts.

    python3 bench/peers/tokenizers_bench.py FILE ROUNDS

Prints milliseconds of the processor by kind of tokenizer, the medians of the rounds, as one JSON object: for the texts
one at a time, then for all of them joined to one. One thread, as the others have it.
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

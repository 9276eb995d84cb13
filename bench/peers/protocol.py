"""The protocol of bench/child.ts for contenders in Python: requests come on standard input and answers go to file
descriptor 3, one JSON object a line."""

import json
import os
import resource
import sys
import time


def serve(description, tasks, library, finish=lambda: None, memory=dict):
    """Answers until standard input ends.

    tasks: by name, a function of the task that returns an object with check(), run() and perhaps figures()
    finish: waits until everything has been computed
    memory: what the library counts as its own
    """
    answers = os.fdopen(3, "w")

    def answer(message):
        answers.write(json.dumps(message) + "\n")
        answers.flush()

    state = {}

    def respond(request):
        kind = request["do"]
        if kind == "prepare":
            task = request["task"]
            if task["op"] not in tasks or task.get("version") is not None:
                return {"cannot": f"not written for {library}: {task['op']}"}
            state["task"] = tasks[task["op"]](task)
            return {"check": state["task"].check()}
        if kind == "memory":
            return {**memory(), "peakRss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}
        if kind == "figures":
            figures = getattr(state["task"], "figures", dict)
            return {"figures": figures()}
        begin, before = time.perf_counter(), time.process_time()
        for _ in range(request["calls"]):
            state["task"].run()
        finish()
        return {
            "ms": 1000 * (time.perf_counter() - begin),
            "processorMs": 1000 * (time.process_time() - before),
        }

    answer({"description": description})
    for line in sys.stdin:
        try:
            answer(respond(json.loads(line)))
        except Exception as error:  # the benchmark goes on without this contender and shows why
            answer({"error": f"{type(error).__name__}: {error}"})

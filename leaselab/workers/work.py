"""Work to try the workers with: it takes its time, and writes down who did it."""

import json
import time


def in_steps(task, seconds=1.0):
    """Wait in ten steps, so that a lost lease ends the work within a tenth of the time."""
    for _ in range(10):
        task.step(time.sleep, seconds / 10)
    return with_result(task)


def in_one_piece(task, seconds=1.0):
    """Wait without a step: nothing ends this work early, and only the file refuses its result."""
    time.sleep(seconds)
    return with_result(task)


def with_result(task):
    """The run's value with this task's result in it; None if there is one already.

    A value is a JSON object: the task's id, and who did it under which generation.
    """
    results = json.loads(task.run["value"] or "{}")
    if str(task.claim.task_id) in results:
        return None
    results[str(task.claim.task_id)] = f"{task.claim.owner}, generation {task.claim.generation}"
    return json.dumps(results)

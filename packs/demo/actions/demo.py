"""The demo pack: one small function for each thing a Python worker can do."""

import os
import time


def counter(params, ctx):
    """Count per session. Without a session every execution starts from 0."""
    if ctx.session is None:
        return {"count": params.get("by", 1), "session": None}
    state = ctx.session.state
    state["count"] = state.get("count", 0) + params.get("by", 1)
    return {
        "count": state["count"],
        "session": ctx.session.id,
        "epoch": ctx.session.epoch,
        "lost": ctx.session.lost,
        "pid": os.getpid(),
    }


def progress(params, ctx):
    """Report progress after each step."""
    steps = params.get("steps", 10)
    pause = params.get("seconds", 1) / steps
    for step in range(1, steps + 1):
        time.sleep(pause)
        ctx.progress(step / steps, "step %d of %d" % (step, steps))
    return {"steps": steps}


def stream(params, ctx):
    """Send each word as a chunk and print it."""
    words = params.get("text", "all the world's a stage").split()
    for word in words:
        ctx.chunk(word)
        print(word, flush=True)
        time.sleep(params.get("seconds", 0.05))
    return {"words": len(words)}


def memory(params, ctx):
    """Hold memory and write every page, so that it is in use."""
    held = []
    for done in range(params["mib"]):
        held.append(b"\1" * (1 << 20))
        if done % 64 == 0:
            ctx.progress(done / params["mib"], "%d MiB" % done)
    time.sleep(params.get("seconds", 0))
    return {"mib": len(held)}


def spin(params, ctx):
    """Compute until the time is over."""
    end = time.monotonic() + params.get("seconds", 1)
    rounds = 0
    while time.monotonic() < end:
        rounds += 1
    return {"rounds": rounds}


def crash(params, ctx):
    """Kill the process with a signal that Python cannot catch."""
    if "signal" in params:
        os.kill(os.getpid(), params["signal"])
        time.sleep(1)  # the signal has not ended the process yet
        return {"survived": params["signal"]}
    os._exit(params.get("status", 1))

"""Python actions that show which process ran them and what it remembers."""

import os
import time


def remember(params, ctx):
    """Keep one more line in the session and return all of them."""
    state = ctx.session.state
    lines = state.setdefault("lines", [])
    lines.append(params["line"])
    return {"lines": lines, "pid": os.getpid(), "lost": ctx.session.lost, "epoch": ctx.session.epoch}


def act(params, ctx):
    """Speak line by line, as a stage rehearsal does: slowly, and seen while it goes on."""
    for n in range(params.get("lines", 3)):
        if ctx.cancelled:
            break
        print("line %d" % n, flush=True)
        ctx.progress(n / params.get("lines", 3), "line %d" % n)
        ctx.chunk({"line": n})
        time.sleep(params.get("pause", 0.05))
    return {"pid": os.getpid()}


def stumble(params):
    """Fail as code does."""
    raise ValueError("forgot the line: %s" % params.get("line", ""))


def bulk(params):
    """Return a text of some MiB."""
    return "x" * (params["mib"] << 20)

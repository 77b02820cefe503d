"""Work that writes down what it does, where the engine cannot reach."""

import os
import time

LOG = os.open(os.environ["CHAOS_LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)


def note(kind, ctx, count=0):
    session = ctx.session
    words = [kind, ctx.execution, ctx.attempt, os.getpid()]
    words += [session.id, session.epoch, count, int(session.lost)] if session else ["-", 0, 0, 0]
    words.append(time.monotonic_ns())
    os.write(LOG, (" ".join(map(str, words)) + "\n").encode())


def trace(ctx, **more):
    return dict(more, execution=ctx.execution, attempt=ctx.attempt, pid=os.getpid())


def work(params, ctx):
    """Work for some milliseconds, with a tick every few, so that a run that goes on where it must not is seen."""
    note("start", ctx)
    end = time.monotonic() + params.get("ms", 0) / 1000
    while time.monotonic() < end:
        time.sleep(0.004)
        note("tick", ctx)
    note("end", ctx)
    return trace(ctx)


def big(params, ctx):
    """Return a result of so many bytes and a few more."""
    note("start", ctx)
    time.sleep(params.get("ms", 0) / 1000)
    note("end", ctx)
    return trace(ctx, filler="x" * params["bytes"])


def fail(params, ctx):
    note("start", ctx)
    raise ValueError("failed as asked")


def count(params, ctx):
    """Count the session's executions; the count lives in this process alone."""
    state = ctx.session.state
    state["n"] = state.get("n", 0) + 1
    note("start", ctx, state["n"])
    time.sleep(params.get("ms", 0) / 1000)
    note("end", ctx, state["n"])
    return trace(ctx, count=state["n"], lost=ctx.session.lost, epoch=ctx.session.epoch, behind=ctx.session.runs_behind)

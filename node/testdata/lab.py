"""Actions that tests steer from outside: by their parameters, and by files in the folder that LAB names."""

import os
import signal
import subprocess
import sys
import time

LAB = os.environ.get("LAB", "")
VERSION = 1


def lab(name):
    return os.path.join(LAB, name)


def health():
    if LAB and os.path.exists(lab("sick")):
        raise RuntimeError("as asked")
    return {}


def snapshot(state):
    if LAB and os.path.exists(lab("slow")):
        time.sleep(0.06)
    return state


def restore(value):
    return value


def note(name, text):
    with open(lab(name), "a") as f:
        f.write(text + "\n")


def count(params, ctx):
    """Count per session, after an optional wait."""
    state = ctx.session.state
    state["count"] = state.get("count", 0) + 1
    if "note" in params:
        note("order", params["note"])
    time.sleep(params.get("seconds", 0))
    if params.get("fail"):
        raise ValueError("as asked")
    return {"count": state["count"], "lost": ctx.session.lost, "epoch": ctx.session.epoch,
            "hit": ctx.session.hit, "behind": ctx.session.runs_behind, "pid": os.getpid()}


def lookup(params, ctx):
    """Fail the first time, as a program does that nobody wrote for retries."""
    been = os.path.exists(lab("been"))
    note("been", ctx.execution)
    return {}["absent"] if not been else {}


def sleep(params, ctx):
    time.sleep(params.get("seconds", 60))
    return {"pid": os.getpid(), "version": VERSION}


def wait(params, ctx):
    """Wait for a file of the lab."""
    note("waiting", str(os.getpid()))
    while not os.path.exists(lab(params["file"])):
        time.sleep(0.02)
    return {"pid": os.getpid(), "version": VERSION}


def spin(params, ctx):
    """Compute for ever and swallow every cancel."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        try:
            note("spinning", str(os.getpid()))
            while True:
                pass
        except BaseException:
            pass


def steady(params, ctx):
    """Show progress for a while."""
    for step in range(params["steps"]):
        ctx.progress(step / params["steps"])
        time.sleep(params["pause"])
    return {"steps": params["steps"]}


def crash(params, ctx):
    note("crashes", ctx.execution)
    os._exit(params.get("status", 3))


def fault(params, ctx):
    from troupe_worker import ActionError

    raise ActionError("as asked", code="broken", worker_fault=params.get("worker_fault", True))


def close(params, ctx):
    ctx.close_worker()
    return {"pid": os.getpid()}


def write(params, ctx):
    sys.stdout.write("x" * params["bytes"])
    sys.stderr.write("trouble\n")
    return {}


def large(params, ctx):
    return "x" * params["bytes"]


def grow(params, ctx):
    global held
    held = b"\1" * (params["mib"] << 20)
    return {"pid": os.getpid()}


def child(params, ctx):
    """Start a process that ignores SIGTERM, and wait."""
    started = subprocess.Popen(["sh", "-c", "trap '' TERM; echo $$ >> %s; while :; do sleep 0.1; done" % lab("child")])
    started.wait()

"""Every way to fall ill that a worker has."""

import os
import re
import struct
import threading
import time

EVENTS = 4  # the descriptor that the protocol speaks on
held = []


def ok(params, ctx):
    return {"pid": os.getpid()}


def hold(params, ctx):
    ctx.progress(0, "holding")
    time.sleep(600)


def deadlock(params, ctx):
    lock = threading.Lock()
    with lock:
        lock.acquire()


def spin(params, ctx):
    while True:
        pass


def deaf(params, ctx):
    """Keep the interpreter's lock, so that no thread of this process answers anything."""
    re.match(r"(a+)+$", "a" * 64 + "b")


def slow(params, ctx):
    for step in range(25):
        time.sleep(0.1)
        ctx.progress(step / 25)
    return {"pid": os.getpid()}


def grab(mib):
    held.append(b"\1" * (mib << 20))


def leak(params, ctx):
    while True:
        grab(5)
        time.sleep(0.02)


def grow(params, ctx):
    grab(150)
    return {"pid": os.getpid()}


def garbage(params, ctx):
    os.write(EVENTS, b"<html>this is no frame</html>")
    time.sleep(600)


def half(params, ctx):
    os.write(EVENTS, struct.pack(">I", 1000) + b'{"event":')
    time.sleep(600)


def exits(params, ctx):
    os._exit(0)


def count(params, ctx):
    ctx.session.state["n"] = ctx.session.state.get("n", 0) + 1
    return {"n": ctx.session.state["n"], "pid": os.getpid()}


def picky(params, ctx):
    raise ValueError("n is %d, which nobody wants" % params["n"])

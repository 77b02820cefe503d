"""A worker with children that ignore SIGTERM, and one that has left its family by setsid and a second fork."""

import os
import signal
import time


def stubborn():
    for name in ("SIGTERM", "SIGHUP", "SIGINT", "SIGQUIT"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    while True:
        time.sleep(60)


def child():
    if os.fork() == 0:
        stubborn()


def daemon():
    """Fork twice with a session of its own between: its parent is then whoever adopts orphans."""
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    stubborn()


def family(params, ctx):
    child()
    child()
    daemon()
    ctx.progress(1, "the family is complete")
    time.sleep(600)

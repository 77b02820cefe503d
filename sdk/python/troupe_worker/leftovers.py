"""What a run leaves behind: threads, child processes, and tasks of the event loop."""

import os
import threading

from . import foreign
from .foreign import read

LISTED_MAX = 20  # names in one message
NAME_MAX = 100  # characters of one name


class Leftovers:
    """Finds what runs left behind in this process. Only the main thread uses it."""

    def __init__(self):
        self._children = {}  # pid: name, of those that were there at the end of the last run

    def of(self, run, ended, running):
        """Return what a run that ends leaves behind, as a text; empty: nothing.

        ``ended`` and ``running`` are the tasks that were cancelled at its end, and those that went on nevertheless.
        """
        left = ["task %s (cancelled)" % name for name in ended] + ["task %s (goes on in spite of its cancel)" % name for name in running]
        left += read(_threads, run, instead=[]) if run.threads else []
        known, self._children = self._children, read(_children, instead={})
        left += ["process %d (%s)" % (pid, name) for pid, name in self._children.items() if pid not in known]
        if len(left) > LISTED_MAX:
            left[LISTED_MAX:] = ["%d more" % (len(left) - LISTED_MAX)]
        return "; ".join(left)


def _threads(run):
    left = [thread for thread in threading.enumerate() if thread.__dict__.get("_troupe_run") is run]
    return ["%s %s%s" % ("timer" if isinstance(thread, threading.Timer) else "thread", foreign.text(thread.name, NAME_MAX),
                         " (daemon)" if thread.daemon else "") for thread in left]


def _children():
    """Return the child processes that run, by pid."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:  # the usual case: there is none
        return {}
    found = {}
    for task in os.listdir("/proc/self/task"):
        with open("/proc/self/task/%s/children" % task) as file:
            pids = file.read(1 << 20).split()
        for pid in pids:
            name, state = read(_process, pid, instead=("", "Z"))
            if state != "Z":  # it has ended
                found[int(pid)] = name
    return found


def _process(pid):
    with open("/proc/%s/stat" % pid, errors="replace") as file:
        name, _, rest = file.read(4096).partition("(")[2].rpartition(")")
    return name, rest.split()[0]

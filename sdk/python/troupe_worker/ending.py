"""How this process ends, and what it writes to standard error when it does so early."""

import os
import sys
import time
from _thread import allocate_lock, start_new_thread

from .foreign import read

EXIT_AFTER = 0.7  # seconds that exit handlers may take after shutdown


def leave(status):
    """End the process at once, whatever its other threads do. Printed output is flushed if nothing blocks it."""
    done = allocate_lock()
    done.acquire()

    def flush():
        read(sys.stdout.flush)
        read(sys.stderr.flush)
        done.release()

    start_new_thread(flush, ())
    done.acquire(True, 0.2)
    os._exit(status)


def leave_late():
    """End the process if its exit handlers are slow."""
    time.sleep(EXIT_AFTER)
    leave(0)


def note(text):
    """Write a line to standard error, whatever sys.stderr is. The node shows it if this process ends before its first run."""
    read(os.write, 2, ("troupe_worker: %s\n" % text).encode("utf-8", "replace"))


def dump_at_crash():
    """Let a crash, such as a segmentation fault, write the stack of its thread to standard error, which is in the run's error."""
    import faulthandler

    faulthandler.enable(2, all_threads=False)

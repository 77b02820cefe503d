"""Which run code belongs to, and what code tells after its run has ended.

Each run is the value of a context variable. Tasks and callbacks of asyncio inherit it; threads, and calls that a
ThreadPoolExecutor makes for a run, are given it here. What such code prints after the end of its run, and the exceptions that end it,
are told with the name of that run, and never become a part of the run that the worker has meanwhile.
"""

import os
import sys
import threading
import _thread
from contextvars import ContextVar

from . import foreign
from .channel import encode
from .errors import Cancelled, describe, message
from .foreign import read
from .values import cut, encode_error

TOLD_MAX = 100  # events that one run may cause after its end
LINE_MAX = 4 << 10  # characters of printed output in one event
LOG_MAX = 64 << 10  # characters of a log line

current = ContextVar("troupe_run", default=None)


class Run:
    """One run, as code that belongs to it knows it. It does not hold the run's parameters or its session."""

    __slots__ = ("execution", "attempt", "action", "ended", "threads", "tasks", "told", "_rest")

    def __init__(self, args):
        self.execution = _text(args.get("execution"))
        attempt = args.get("attempt")
        self.attempt = attempt if type(attempt) is int and 0 <= attempt < 1 << 31 else 0
        self.action = _text(args.get("action"))
        self.ended = False
        self.threads = False  # it has started threads
        self.tasks = False  # it has used the event loop
        self.told = 0  # events that it has caused after its end
        self._rest = {}  # stream: the begin of a line that was printed after the end

    def __str__(self):
        return "execution %s (%s, attempt %d)" % (self.execution, self.action, self.attempt)

    def lines(self, stream, text):
        """Return the whole lines of what was printed to a stream, and keep the begin of the next."""
        lines = (self._rest.pop(stream, "") + text).split("\n")
        if lines[-1] and len(lines[-1]) < LINE_MAX:
            self._rest[stream] = lines.pop()
        return [line[:LINE_MAX] for line in lines if line]

    def rest(self):
        """Return and forget the lines that were begun, by stream."""
        rest, self._rest = self._rest, {}
        return rest.items()


class Late:
    """Attributes output and failures to runs. ``send`` sends a frame soon, from any thread; one is made for each process."""

    def __init__(self, send):
        self._send = send
        self._faults = False  # the node takes fault events
        self._main = _thread.get_ident()
        self._pid = os.getpid()
        self._writing = _thread.RLock()  # a thread that prints holds it, so that its run does not end meanwhile
        self._executor = None  # the submit of ThreadPoolExecutor, once that is loaded

    def install(self):
        """Watch the output, threads and failures of this process."""
        for name in ("stdout", "stderr"):
            read(self._guard, getattr(sys, name), name)
        self._carry_threads()
        self._watch_failures()

    def forked(self):
        """Leave a forked child alone: it is not the worker."""
        self._pid = -1
        self._writing = _thread.RLock()

    def known_by(self, hello):
        """Take from the args of hello whether the node takes fault events."""
        self._faults = hello.get("faults") is True

    def begin(self, run):
        current.set(run)
        if self._executor is None and "concurrent.futures.thread" in sys.modules:
            read(self._carry_calls)

    def end(self, run):
        """Let nothing that follows belong to the run."""
        current.set(None)
        with self._writing:
            run.ended = True

    # What code of an ended run tells.

    def say(self, run, level, text):
        """Tell a text of a run that has ended, as a log line of the worker."""
        self._tell(run, _log, run, level, text)

    def fault(self, run, exc):
        """Tell that code of a run that has ended has failed."""
        self._tell(run, _fault if self._faults else _logged_fault, run, exc)

    def _tell(self, run, frame, *args):
        """Send a frame, unless the run has caused too many."""
        if self._pid < 0 or run.told > TOLD_MAX:
            return
        run.told += 1
        if run.told > TOLD_MAX:
            frame, args = _log, (run, "warn", "goes on to print or to fail; no more of it is told")
        self._send(frame(*args))

    def _output(self, run, stream, data):
        for line in run.lines(stream, bytes(data).decode("utf-8", "replace")):
            self.say(run, "info", "wrote to %s: %s" % (stream, line))
        return memoryview(data).nbytes

    def _guard(self, stream, name):
        """Pass on what is written to a stream, except by code of a run that has ended."""
        buffer = stream.buffer
        write = buffer.write

        def guarded(data):
            run = current.get()
            if run is None or self._pid < 0:
                return write(data)
            if _thread.get_ident() == self._main:  # the thread that ends runs
                return self._output(run, name, data) if run.ended else write(data)
            with self._writing:
                if not run.ended:
                    return write(data)
            return self._output(run, name, data)

        # Whole lines reach the node as they are printed, and are not lost if the process is killed.
        stream.reconfigure(line_buffering=True, write_through=True)
        buffer.write = guarded

    # Threads and calls belong to the run that started them.

    def _carry_threads(self):
        start, start_new = threading.Thread.start, _thread.start_new_thread

        def start_owned(thread):
            run = current.get()
            if run is not None:
                self._own(thread, run)
            return start(thread)

        def start_new_owned(function, *args):
            run = current.get()
            return start_new(function if run is None else _begun(run, function), *args)

        threading.Thread.start = start_owned
        _thread.start_new_thread = _thread.start_new = start_new_owned

    def _own(self, thread, run):
        own = thread.__dict__.get("run")
        inner = thread.run

        def run_owned():
            thread.__dict__.pop("run", None)
            if own is not None:
                thread.run = own
            current.set(run)
            try:
                inner()
            finally:
                if run.ended:
                    for stream, text in run.rest():
                        self.say(run, "info", "wrote to %s: %s" % (stream, text))

        thread.run = run_owned
        thread._troupe_run = run
        run.threads = True

    def _carry_calls(self):
        from concurrent.futures import ThreadPoolExecutor

        submit = self._executor = ThreadPoolExecutor.submit

        def submit_owned(pool, function, /, *args, **kwargs):
            return submit(pool, _carried(current.get(), function), *args, **kwargs)

        ThreadPoolExecutor.submit = submit_owned

    # Exceptions that end threads and finalizers.

    def _watch_failures(self):
        hook, unraisable = threading.excepthook, sys.unraisablehook

        def thread_failed(args):
            if not self._failed(args):
                hook(args)

        def finalizer_failed(args):
            if not self._failed(args):
                unraisable(args)

        threading.excepthook = thread_failed
        sys.unraisablehook = finalizer_failed

    def _failed(self, args):
        """Whether an exception is of a run that has ended, and so was told."""
        run = current.get()
        if run is None or not run.ended or self._pid < 0 or args.exc_value is None:
            return False
        if not issubclass(args.exc_type, (SystemExit, Cancelled)):  # they end a thread in order
            read(self.fault, run, args.exc_value)
        return True


def _log(run, level, text):
    return '{"event":"log","id":0,"level":"%s","message":%s}' % (level, encode(cut("%s, which has ended, %s" % (run, text), LOG_MAX)))


def _fault(run, exc):
    return '{"event":"fault","id":0,"execution":%s,"attempt":%d,"error":%s}' % (
        encode(run.execution), run.attempt, encode_error(describe(exc)))


def _logged_fault(run, exc):
    return _log(run, "error", "failed in code that it left behind: %s\n%s" % (message(exc), foreign.traceback(exc)))


def _begun(run, function):
    def begun(*args, **kwargs):
        current.set(run)  # not reset: what the function raises is told after its end
        return function(*args, **kwargs)

    return begun


def _carried(run, function):
    def carried(*args, **kwargs):
        token = current.set(run)
        try:
            return function(*args, **kwargs)
        finally:
            current.reset(token)

    return carried


def _text(value):
    return value[:200] if type(value) is str else ""

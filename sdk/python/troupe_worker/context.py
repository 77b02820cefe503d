"""The execution, as its action sees it."""

from time import monotonic
from _thread import get_ident

from .channel import encode
from .errors import Cancelled
from .values import cut, encode as encode_value

LEVELS = ("debug", "info", "warn", "error")
LOG_MAX = 64 << 10  # characters of one log or progress message


class Session:
    """The session of an execution. ``state`` is a dict that lives as long as the session stays with this worker.

    ``lost`` says that an earlier state of the session is lost, which no run was told yet; ``hit`` that the execution
    runs on the session's own worker; ``epoch`` grows each time the session moves to another worker. ``runs_behind``
    above 0 comes with ``lost``: ``state`` is an older one, without the results of that many finished executions.
    """

    __slots__ = ("id", "epoch", "lost", "hit", "runs_behind", "state", "_source")

    def __init__(self, id, epoch):
        self.id = id
        self.epoch = epoch
        self.lost = False
        self.hit = False
        self.runs_behind = 0
        self.state = {}
        self._source = None  # the loaded module whose hooks save and restore the state


class Context:
    """One execution, as its action sees it. Its methods may be called from any thread of the action."""

    __slots__ = ("execution", "attempt", "action", "session", "retry_count", "trace", "trace_state", "deadline",
                 "_worker", "_request", "_run", "_cancelled", "_event", "_close")

    def __init__(self, worker, request, run, args, session):
        self._worker = worker
        self._request = request
        self._run = run
        self._cancelled = False
        self._event = None
        self._close = False
        get = args.get
        self.execution = get("execution")
        self.attempt = get("attempt", 1)
        self.action = get("action")
        self.session = session
        self.retry_count = get("retry_count", 0)
        self.trace = get("trace")  # W3C traceparent; None: there is none
        self.trace_state = get("trace_state")  # W3C tracestate
        left = get("deadline_ms")
        self.deadline = monotonic() + left / 1000 if left else None  # on time.monotonic's clock

    def remaining(self):
        """Return the seconds left to the run's deadline, never below 0; None if there is no deadline."""
        return None if self.deadline is None else max(0.0, self.deadline - monotonic())

    @property
    def cancelled(self):
        """Whether the execution is cancelled."""
        return self._cancelled

    def raise_if_cancelled(self):
        """Raise Cancelled if the execution is cancelled; for threads and for code that catches it."""
        if self._cancelled:
            raise Cancelled()

    @property
    def cancel_event(self):
        """A threading.Event that is set when the execution is cancelled."""
        if self._event is None:
            import threading

            event = self._event = threading.Event()
            if self._cancelled:
                event.set()
        return self._event

    def progress(self, fraction=None, message=""):
        """Report how far the run is: a fraction from 0 to 1 (or None) and a short text.

        A fraction that is no number is taken for None, because a wrong report is no reason to end a run.
        """
        self._emit("progress", ',"fraction":%s,"message":%s' % (encode(_fraction(fraction)), _text(message)))

    def chunk(self, data):
        """Stream a piece of the result, any JSON value. Raises an ActionError that is a ValueError for anything else, and for one that is too large."""
        self._emit("chunk", ',"data":' + self._worker.guarded(encode_value, data, "the chunk"))

    def log(self, level, message):
        """Write a log line of the run; level is debug, info, warn or error."""
        if level not in LEVELS:
            raise ValueError("log level %r: want debug, info, warn or error" % (level,))
        if self._run.ended:
            self._worker.late.say(self._run, level, "wrote to its log: " + str(message))
        self._emit("log", ',"level":"%s","message":%s' % (level, _text(message)))

    def close_worker(self):
        """Request that this worker is replaced after the execution."""
        self._close = True

    def _emit(self, event, fields):
        if self._run.ended:  # a thread or a task goes on; the node would drop what it tells
            return
        self._worker.emit('{"event":"%s","id":%d%s}' % (event, self._request, fields))

    def _cancel(self):
        self._cancelled = True
        if self._event is not None:
            self._event.set()


def _fraction(value):
    try:
        value = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return min(1.0, max(0.0, value)) if value == value else None


def _text(message):
    return encode(cut(str(message), LOG_MAX))

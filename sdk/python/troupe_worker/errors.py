"""The errors of a worker, and how they are reported to the node."""

MESSAGE_MAX = 16 << 10  # characters of an error's message
TRACEBACK_MAX = 8 << 10  # characters kept of a traceback, its end


class ActionError(Exception):
    """Raised by an action to end its execution with its own code.

    ``retriable`` says whether running it again may help (None: Troupe decides by the code, the type and the text), ``details`` is any JSON
    value, and ``worker_fault`` says that this process is the cause, which counts against its health.
    """

    def __init__(self, message, code="action_error", retriable=None, details=None, worker_fault=False):
        super().__init__(message)
        self.code = code
        self.retriable = retriable
        self.details = details
        self.worker_fault = worker_fault


class Retriable(ActionError):
    """Raised by an action for an error that another run may not have: it is retried while it has retries left."""

    def __init__(self, message, code="action_error", details=None, worker_fault=False):
        super().__init__(message, code=code, retriable=True, details=details, worker_fault=worker_fault)


class Final(ActionError):
    """Raised by an action for an error that every other run would have too: it is never retried."""

    def __init__(self, message, code="action_error", details=None, worker_fault=False):
        super().__init__(message, code=code, retriable=False, details=details, worker_fault=worker_fault)


class Cancelled(BaseException):
    """Raised inside the action when its execution is cancelled.

    It is not an Exception, so that an ordinary ``except Exception`` does not catch it. An action may catch it to clean
    up, and must then raise it again or return soon: the node stops the process a few seconds after the cancel.
    """


class LoadError(Exception):
    """An entrypoint that cannot be loaded; the message names it and what to do."""


class ProtocolError(Exception):
    """The node sent bytes that are not a frame of the protocol, so the input after them cannot be read."""


def describe(exc, inside=True):
    """Return the error object of the protocol for an exception that an action raised.

    ``inside`` says that the exception came from the action's own code: the first frames of the traceback are this
    package's and are omitted.
    """
    if isinstance(exc, Cancelled):
        return {"code": "cancelled", "message": str(exc) or "the execution was cancelled"}
    error = {"code": "action_error", "message": _message(exc), "type": type(exc).__name__}
    code = getattr(exc, "code", None)
    if isinstance(code, str) and code:
        error["code"] = code[:128]
    retriable = getattr(exc, "retriable", None)
    if isinstance(retriable, bool):
        error["retriable"] = retriable
    if getattr(exc, "worker_fault", False) is True:
        error["worker_fault"] = True
    details = getattr(exc, "details", None) if isinstance(exc, ActionError) else None
    error["details"] = details if details is not None else {"type": type(exc).__name__, "traceback": tail(exc, inside)}
    return error


def tail(exc, inside=False):
    """Return the end of the exception's traceback, where the cause is."""
    import traceback  # heavy to import, and needed only here

    trace = exc.__traceback__
    if inside:
        while trace is not None and trace.tb_frame.f_globals.get("__package__") == __package__:
            trace = trace.tb_next
    text = "".join(traceback.format_exception(type(exc), exc, trace))
    return text[-TRACEBACK_MAX:]


def _message(exc):
    try:
        text = str(exc)
    except Exception:  # a broken __str__ must not hide that the action failed
        text = "(its message could not be read)"
    if isinstance(exc, ActionError):
        return text[:MESSAGE_MAX]
    if isinstance(exc, SystemExit):
        return "the action called sys.exit(%s)" % text
    return ("%s: %s" % (type(exc).__name__, text) if text else type(exc).__name__)[:MESSAGE_MAX]

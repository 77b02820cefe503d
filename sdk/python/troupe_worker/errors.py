"""The errors of a worker, and how they are reported to the node."""

import re
import sys

from . import foreign
from .foreign import read

MESSAGE_MAX = 16 << 10  # characters of an error's message
CODE = re.compile(r"[A-Za-z0-9_.-]{1,64}")  # the codes that an action may set


class ActionError(Exception):
    """Raised by an action to end its execution with its own code.

    ``code`` has 1 to 64 letters, digits, ``_``, ``.`` or ``-``. ``retriable`` says whether running it again may help (None: Troupe decides
    by the code, the type and the text), ``details`` is any JSON value, and ``worker_fault`` says that this process is the cause, which
    counts against its health. No other exception sets a code, whatever its attributes are.
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


class NotJSON(Final, ValueError):
    """A result, a chunk, a state or details that are not JSON. ``path`` is a JSON Pointer to what is not."""

    def __init__(self, what, path, why):
        super().__init__("%s is not JSON: %s %s" % (what, path or "it", why), code="result_not_json", details={"path": path})
        self.path = path


class TooLarge(Final, ValueError):
    """A result, a chunk, a state or details that are larger than what the node takes."""

    def __init__(self, what, limit, size=None):
        has = "more than the %d bytes that are allowed" % limit if size is None else "%d bytes, more than the %d that are allowed" % (size, limit)
        super().__init__("%s has %s; return a reference instead" % (what, has), code="result_too_large", details={"limit": limit})


class Cancelled(BaseException):
    """Raised inside the action when its execution is cancelled.

    It is not an Exception, so that an ordinary ``except Exception`` does not catch it. An action may catch it to clean
    up, and must then raise it again or return soon: the node stops the process a few seconds after the cancel. Raised
    without a cancel it is a failure like any other.
    """


class LoadError(Exception):
    """An entrypoint that cannot be loaded; the message names it and what to do."""

    def __init__(self, message, details=None):
        super().__init__(message)
        self.details = details


class ProtocolError(Exception):
    """The node sent bytes that are not a frame of the protocol, so the input after them cannot be read."""


class BadRequest(Exception):
    """A request that has an id and cannot be read otherwise: an error of that request alone."""

    def __init__(self, ident, why, code="invalid_request"):
        super().__init__("the request cannot be read: " + why)
        self.ident = ident
        self.code = code

    def error(self):
        return {"code": self.code, "message": foreign.text(self, MESSAGE_MAX), "retriable": False}


def describe(exc, cancelled=False):
    """Return the error object of the protocol for an exception that an action raised; cancelled: its execution is cancelled."""
    if cancelled and _cancels(exc):
        return {"code": "cancelled", "message": foreign.text(exc, MESSAGE_MAX) or "the execution was cancelled"}
    name = foreign.type_name(exc)
    if isinstance(exc, LoadError):
        error = {"code": "load_error", "message": foreign.text(exc, MESSAGE_MAX), "retriable": False}
    elif isinstance(exc, ActionError):
        error = _own(exc)
    else:
        error = {"code": "action_error", "message": message(exc)}
    error["type"], error["types"] = name, foreign.type_names(exc)
    details = read(getattr, exc, "details", None) if isinstance(exc, (ActionError, LoadError)) else None
    error["details"] = details if details is not None else {"type": name, "traceback": foreign.traceback(exc, inside=True)}
    return error


def message(exc):
    """Return an exception's message for people, which begins with its type."""
    words = foreign.text(exc, MESSAGE_MAX)
    if isinstance(exc, SystemExit):
        return "the action called sys.exit(%s)" % words
    name = foreign.type_name(exc)
    return ("%s: %s" % (name, words) if words else name)[:MESSAGE_MAX]


def _cancels(exc):
    """Whether an exception is what a cancel raises: Cancelled, and in an event loop its own CancelledError."""
    asyncio = sys.modules.get("asyncio")
    return isinstance(exc, Cancelled) or asyncio is not None and isinstance(exc, asyncio.CancelledError)


def _own(exc):
    """Return code, message, retriable and worker_fault of an ActionError. What cannot be read of them is left out."""
    error = {"code": "action_error", "message": foreign.text(exc, MESSAGE_MAX)}
    code = read(getattr, exc, "code")
    if issubclass(type(code), str) and CODE.fullmatch(str.__str__(code)):
        error["code"] = str.__str__(code)
    elif code is not None:
        error["message"] += " (its code %s is none: a code has 1 to 64 of the characters A-Z a-z 0-9 _ . -)" % foreign.text(code, 100, repr)
    retriable = read(getattr, exc, "retriable")
    if isinstance(retriable, bool):
        error["retriable"] = retriable
    if read(getattr, exc, "worker_fault") is True:
        error["worker_fault"] = True
    return error

"""Frames over the two pipes: a 4-byte big-endian length, then one JSON object."""

import json
import os
import re
from _thread import allocate_lock, get_ident
from collections import deque

from . import foreign
from .errors import BadRequest, ProtocolError

FRAME_MAX = 16 << 20  # bytes of one frame
READ_SIZE = 64 << 10  # bytes of one read: what a pipe holds
LATER_MAX = 1000  # frames that wait for the end of another
_ID = re.compile(rb'\s*\{\s*"id"\s*:\s*([0-9]{1,19})\s*[,}]')  # how a node begins a request

_INFINITY = float("inf")

_encoder = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
encode = _encoder.encode


class Channel:
    """The pipes of one worker. One thread reads at a time; any thread sends."""

    def __init__(self, fd_in=3, fd_out=4):
        self._in = fd_in
        self._out = fd_out
        self._pipes = tuple((fd, _identity(fd)) for fd in (fd_in, fd_out))
        self._rest = b""  # bytes read past the last frame
        self._sending = allocate_lock()
        self._sender = 0  # the thread that has the lock
        self._later = deque()
        # A child of the action must not have the pipes: the node would not see the end of this process.
        os.set_inheritable(fd_in, False)
        os.set_inheritable(fd_out, False)

    def close(self):
        """Close both pipes, in a forked child that is not the worker.

        Files that the child opened later may have their numbers, and a child of its own runs this too. So only a descriptor
        that still is the pipe is closed, and afterwards nothing is read or written under the numbers.
        """
        for fd, identity in self._pipes:
            try:
                if _identity(fd) == identity:
                    os.close(fd)
            except OSError:
                pass  # already closed
        self._in = self._out = -1
        self._pipes = ()

    def read(self):
        """Return the next request, or None at the end of the input. Raises BadRequest and ProtocolError."""
        data = self._rest or os.read(self._in, READ_SIZE)
        # The usual case first: one read gives exactly one frame.
        size = int.from_bytes(data[:4], "big")
        if size != len(data) - 4 or not 0 < size <= FRAME_MAX:
            data = self._read_rest(data)
            if data is None:
                return None
        else:
            self._rest = b""
        return _parse(data)

    def _read_rest(self, data):
        """Return one whole frame that begins with data, and keep the rest; None at the end of the input."""
        parts, have = [data], len(data)
        if not data:
            return None
        need = 0
        while True:
            if not need and have >= 4:
                data = b"".join(parts)
                parts = [data]
                need = 4 + _checked(int.from_bytes(data[:4], "big"))
            if need and have >= need:
                data = b"".join(parts)
                self._rest = data[need:]
                return data[:need]
            more = os.read(self._in, max(READ_SIZE, min(need - have, 1 << 20)))
            if not more:
                return None
            parts.append(more)
            have += len(more)

    def send(self, text):
        """Write one frame. Ends the process if the node is gone."""
        if self._sender == get_ident():  # a finalizer, in the middle of a frame of this thread
            return self.send_later(text)
        frame = _framed(text)
        with self._sending:
            self._write(frame)
        self._write_later()

    def send_later(self, text):
        """Write one frame now, or, while a frame is being written, after it.

        It does not wait, because it may be called by a finalizer in the middle of send.
        """
        if len(self._later) < LATER_MAX:
            self._later.append(_framed(text))
        self._write_later()

    def _write_later(self):
        # Whoever holds the lock looks here again after it has released it, so no frame is left.
        while self._later and self._sending.acquire(False):
            try:
                if self._later:
                    self._write(self._later.popleft())
            finally:
                self._sending.release()

    def _write(self, frame):
        self._sender = get_ident()
        try:
            sent = os.write(self._out, frame)
            while sent < len(frame):
                sent += os.write(self._out, memoryview(frame)[sent:])
        except BrokenPipeError:
            os._exit(0)
        finally:
            self._sender = 0


def _framed(text):
    payload = text.encode("ascii")  # encode escapes everything else
    if len(payload) > FRAME_MAX:
        raise ValueError("a frame of %d bytes is above the limit of %d" % (len(payload), FRAME_MAX))
    return len(payload).to_bytes(4, "big") + payload


def _identity(fd):
    """Return the identity of a file, which differs from a later one under the same number."""
    status = os.fstat(fd)
    return status.st_dev, status.st_ino


def _checked(size):
    if not 0 < size <= FRAME_MAX:
        raise ProtocolError("a frame of %d bytes: want 1 to %d" % (size, FRAME_MAX))
    return size


def _parse(frame):
    """Return the request of a frame. Raises BadRequest if all that can be read of it is its id, and ProtocolError without one."""
    begin = _ID.match(frame, 4)
    try:
        request = _decode(frame[4:].decode())
    except _Beyond:
        if begin is None:
            raise ProtocolError("a frame has no id at its begin") from None
        path, number = foreign.read(_beyond, foreign.read(_loose.decode, frame[4:].decode())) or ((), "a number beyond a float64")
        place = "".join(map(step, path[2:])) or "it"  # from the parameters or the state on
        raise BadRequest(int(begin[1]), "%s is %s, which no float can hold: pass it as a text" % (place, number), "number_not_exact") from None
    except (ValueError, RecursionError, MemoryError) as exc:
        if begin is None:
            raise ProtocolError("a frame is not JSON: %s" % exc) from None
        raise BadRequest(int(begin[1]), "%s: %s" % (foreign.type_name(exc), foreign.text(exc, 500))) from None
    if type(request) is not dict:
        raise ProtocolError("a frame is not a JSON object")
    ident = request.get("id")
    if type(ident) is not int or not 0 <= ident < 1 << 64:
        raise ProtocolError("a frame has no id: want a whole number, got %s" % foreign.text(ident, 100, repr))
    if type(request.get("command")) is not str:
        raise BadRequest(ident, "command: want a text, got %s" % foreign.text(request.get("command"), 100, repr))
    if request.get("args") is None:
        request["args"] = {}
    if type(request["args"]) is not dict:
        raise BadRequest(ident, "args: want an object, got %s" % foreign.text(request["args"], 100, repr))
    return request


def _decode(text):
    try:
        request, end = _scan(text, 0)
        return request if end == len(text) else _decoder.decode(text)
    except StopIteration:  # the scanner stops at a space before the value
        return _decoder.decode(text)


def _object(pairs):
    found = dict(pairs)
    if len(found) != len(pairs):
        seen = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))
        raise ValueError("the name %r stands twice in an object" % twice[:50])
    return found


def _float(text):
    value = float(text)
    if -_INFINITY < value < _INFINITY:
        return value
    raise _Beyond()


class _Beyond(ValueError):
    """A number in a request is beyond a float64, which would make infinity of it."""


class _Number(str):
    """Such a number as it stands in the request, to find its place."""


def _number(text):
    value = float(text)
    return value if -_INFINITY < value < _INFINITY else _Number(text)


def _beyond(value, path=()):
    """Return the path of a request's first number beyond a float64, and how it begins; None: there is none."""
    if type(value) is _Number:
        return path, value[:50]
    items = value.items() if type(value) is dict else enumerate(value) if type(value) is list else ()
    found = (_beyond(item, path + (name,)) for name, item in items)
    return next(filter(None, found), None)


def _constant(text):
    raise ValueError(text + " is not JSON")


def step(name):
    """Return one step of a JSON Pointer."""
    return "/" + str(name)[:64].replace("~", "~0").replace("/", "~1")


_decoder = json.JSONDecoder(object_pairs_hook=_object, parse_float=_float, parse_constant=_constant)
_scan = _decoder.scan_once
_loose = json.JSONDecoder(parse_float=_number)

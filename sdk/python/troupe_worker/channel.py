"""Frames over the two pipes: a 4-byte big-endian length, then one JSON object."""

import json
import os
from _thread import allocate_lock

from .errors import ProtocolError

FRAME_MAX = 16 << 20  # bytes of one frame
READ_SIZE = 64 << 10  # bytes of one read: what a pipe holds

_scan = json.JSONDecoder().scan_once
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
        """Return the next request, or None at the end of the input. Raises ProtocolError."""
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
        """Write one frame. Raises ValueError if it is too large. Ends the process if the node is gone."""
        payload = text.encode("ascii")  # encode escapes everything else
        if len(payload) > FRAME_MAX:
            raise ValueError("a frame of %d bytes is above the limit of %d" % (len(payload), FRAME_MAX))
        frame = len(payload).to_bytes(4, "big") + payload
        try:
            with self._sending:
                sent = os.write(self._out, frame)
                while sent < len(frame):
                    sent += os.write(self._out, memoryview(frame)[sent:])
        except BrokenPipeError:
            os._exit(0)


def _identity(fd):
    """Return the identity of a file, which differs from a later one under the same number."""
    status = os.fstat(fd)
    return status.st_dev, status.st_ino


def _checked(size):
    if not 0 < size <= FRAME_MAX:
        raise ProtocolError("a frame of %d bytes: want 1 to %d" % (size, FRAME_MAX))
    return size


def _parse(frame):
    try:
        text = frame[4:].decode()
        request, end = _scan(text, 0)
        if end != len(text):
            request = json.loads(text)
    except StopIteration:
        request = _reparse(text)
    except (ValueError, RecursionError) as exc:
        raise ProtocolError("a frame is not JSON: %s" % exc) from None
    if not isinstance(request, dict):
        raise ProtocolError("a frame is not a JSON object")
    return request


def _reparse(text):
    """Parse a text that the scanner rejects at its first character, for example a space."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise ProtocolError("a frame is not JSON: %s" % exc) from None

"""The one check of what leaves this process as JSON: results, chunks, states, details and errors.

A value is None, a bool, an int of up to 1,000 digits, a finite float, a text, a list or tuple of values, or a dict of values whose
names are texts, up to 100 levels deep. Everything else is refused with its path: nothing is changed silently on its way.
"""

import re
from itertools import chain, islice

from . import foreign
from .channel import FRAME_MAX, encode as to_json, step
from .errors import MESSAGE_MAX, Cancelled, NotJSON, TooLarge, describe
from .foreign import read

RESULT_MAX = 8 << 20  # bytes of a result, of a state and of details
FRAME_REST = 1024  # bytes of a frame beside the value in it
CHARACTER_MAX = 12  # bytes of a character in a frame
DEPTH_MAX = 100  # levels of lists and dicts
DIGITS_MAX = 1000  # digits of an int
_INT_END = 10 ** DIGITS_MAX
_LISTS = {list, tuple}
_EXACT = _LISTS | {dict, str, int, float, bool, type(None)}
_TEXTS = {str}
ITEM_MIN = 2  # bytes of the shortest item of a list, with its comma
# Half of a surrogate pair in JSON text, which is none of Unicode's characters. An escaped backslash before "ud" may look like one.
_HALF = re.compile(r"\\ud[89ab][0-9a-f]{2}(?!\\ud[c-f])|(?<!\\ud[89ab][0-9a-f]{2})\\ud[c-f]")
PATH_MAX = 256  # characters of a path in a message

_room = FRAME_MAX - FRAME_REST  # bytes of a value that fit in a frame


def fit(frame_max):
    """Take from hello how large a frame the node reads; anything but a number: as large as the protocol says."""
    global _room
    _room = (min(frame_max, FRAME_MAX) if type(frame_max) is int and frame_max > 16 * FRAME_REST else FRAME_MAX) - FRAME_REST


def cut(text, limit):
    """Return up to limit characters of a text, so many that they take no more than half of a frame."""
    return text[:min(limit, _room // (2 * CHARACTER_MAX))]


def encode(value, what, limit=FRAME_MAX, depth=DEPTH_MAX):
    """Return the JSON text of a value, in ASCII. Raises NotJSON or TooLarge, both with ``what`` as their subject."""
    limit = min(limit, _room)
    try:
        if not _is_plain(value, what, limit, depth):
            value = _Copy(what, limit, depth).of(value, "", 0)
        text = to_json(value)
        if "\\ud" in text and _HALF.search(text):
            _Copy(what, limit, depth).of(value, "", 0)
    except (NotJSON, TooLarge, Cancelled):
        raise
    except BaseException as exc:  # a NaN, which only the copy finds the place of, or a value that another thread changes
        _Copy(what, limit, depth).of(value, "", 0)
        raise NotJSON(what, "", "could not be read: %s: %s" % (foreign.type_name(exc), foreign.text(exc, 200))) from None
    if len(text) > limit:
        raise TooLarge(what, limit, len(text))
    return text


def encode_error(error):
    """Return the JSON text of an error object: whole, or without its details, or a fixed text. It does not fail."""
    details = error.pop("details", None)
    error["message"] = cut(error["message"], MESSAGE_MAX)
    if details is not None:
        try:
            head = to_json(error)[:-1]
            return '%s,"details":%s}' % (head, encode(details, "the details", min(RESULT_MAX, _room - len(head))))
        except NotJSON as exc:
            why = foreign.text(exc, 1000)
        except TooLarge as exc:
            why = foreign.text(exc, 1000)
            error.setdefault("retriable", False)  # the next attempt would have them too
        except BaseException:
            why = "the details could not be read"
        error["details"] = "left out: %s; they begin with %s" % (why, foreign.text(details, 1000, repr))
    return read(to_json, error, instead='{"code":"action_error","message":"the action failed with an error that could not be described"}')


def failure(name, exc):
    """Return the error object for a command, such as snapshot, that ended with an exception of a pack's code."""
    if isinstance(exc, (NotJSON, TooLarge)):
        error = describe(exc)
        error["message"] = name + ": " + error["message"]
        return error
    words = foreign.text(exc, MESSAGE_MAX)
    return {"code": name + "_failed", "message": "%s: %s: %s" % (name, foreign.type_name(exc), words),
            "details": {"traceback": foreign.traceback(exc)}}


def _is_plain(value, what, limit, depth):
    """Whether a value is of the exact types of JSON, without a long int. False means that _Copy has to look.

    It reads all containers of a level at once, which is fast, and so ends for a value that contains itself. Raises TooLarge once even the
    shortest texts of what it has read do not fit: a value that holds the same list a million times must not be written first.
    """
    room, lists, dicts = limit + ITEM_MIN, [(value,)], []
    while lists or dicts:
        names = list(chain.from_iterable(dicts))
        if not _TEXTS.issuperset(map(type, names)):
            return False
        room -= sum(map(len, names)) + ITEM_MIN * (len(names) + sum(map(len, lists)))
        if room < 0:
            raise TooLarge(what, limit)
        items = list(chain(chain.from_iterable(lists), chain.from_iterable(map(dict.values, dicts))))
        kinds = set(map(type, items))
        if not kinds <= _EXACT:
            return False
        if int in kinds and not all(-_INT_END < item < _INT_END for item in items if type(item) is int):
            return False
        if str in kinds:
            room -= sum(len(item) for item in items if type(item) is str)
            if room < 0:
                raise TooLarge(what, limit)
        lists = [item for item in items if type(item) in _LISTS] if kinds & _LISTS else []
        dicts = [item for item in items if type(item) is dict] if dict in kinds else []
        if (lists or dicts) and depth <= 0:
            return False
        depth -= 1
    return True


class _Copy:
    """Copies a value with the exact types of JSON, or says where and why that cannot be."""

    def __init__(self, what, limit, depth):
        self._what = what
        self._limit, self._room = limit, limit + ITEM_MIN
        self._depth = depth

    def of(self, value, path, depth):
        kind = type(value)
        self._take(ITEM_MIN)
        if value is None or kind is bool:
            return value
        if issubclass(kind, str):
            return self._text(value, path)
        if issubclass(kind, int):
            value = int.__add__(value, 0)
            if not -_INT_END < value < _INT_END:
                self._refuse(path, "has more than %d digits" % DIGITS_MAX)
            return value
        if issubclass(kind, float):
            value = float.__pos__(value)
            if value != value or value in (float("inf"), float("-inf")):
                self._refuse(path, "is " + {"nan": "NaN", "inf": "Infinity"}.get(repr(value), "-Infinity"))
            return value
        if not issubclass(kind, (list, tuple, dict)):
            self._refuse(path, "is of type %s; use dicts, lists, texts, numbers, booleans and None" % foreign.type_name(value))
        if depth >= self._depth:
            self._refuse(path, "is nested deeper than %d levels" % self._depth)
        if issubclass(kind, dict):
            return self._dict(value, path, depth)
        return [self.of(item, "%s/%d" % (path, at), depth + 1) for at, item in enumerate(self._items(value, path))]

    def _dict(self, value, path, depth):
        copy = {}
        for name, item in self._items(value, path, "items"):
            if not issubclass(type(name), str):
                self._refuse(path, "has a name of type %s, %s; names are texts" % (foreign.type_name(name), foreign.text(name, 50, repr)))
            name = self._text(name, path)
            if name in copy:
                self._refuse(path, "has the name %s twice" % foreign.text(name, 50, repr))
            copy[name] = self.of(item, path + step(name), depth + 1)
        return copy

    def _text(self, value, path):
        value = str.__str__(value)
        self._take(len(value))
        try:
            value.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        except UnicodeDecodeError:
            self._refuse(path, "has half of a surrogate pair")
        return value

    def _items(self, value, path, method=None):
        """Return the items of a list or dict, whose class may give others than it holds, and any number of them."""
        try:
            return list(islice(getattr(value, method)() if method else value, self._room + 1))
        except Cancelled:
            raise
        except BaseException as exc:
            self._refuse(path, "could not be read: %s: %s" % (foreign.type_name(exc), foreign.text(exc, 200)))

    def _take(self, size):
        self._room -= size
        if self._room < 0:
            raise TooLarge(self._what, self._limit)

    def _refuse(self, path, why):
        if len(path) > PATH_MAX:
            path = path[:PATH_MAX] + "…"
        raise NotJSON(self._what, path, why) from None

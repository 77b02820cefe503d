"""Reads objects that are not this package's own, such as an action's exceptions. No object can make a read fail.

An object may raise anything while it is read, SystemExit included, or be larger than any answer. So every read of one goes through
``read``, which catches everything, and every text of one through ``text``, which bounds it.
"""

UNREADABLE = "(its text could not be read)"
NAME_MAX = 128  # characters of the name of a type
NAMES_MAX = 16  # base classes that an error names
TRACEBACK_MAX = 8 << 10  # characters kept of a traceback, its end


def read(get, *args, instead=None):
    """Return get(*args), or instead if it raises anything at all."""
    try:
        return get(*args)
    except BaseException:
        return instead


def text(value, limit, form=str):
    """Return up to limit characters of str(value), or of another form, such as repr."""
    return read(_text, value, limit, form, instead=UNREADABLE)


def type_name(value):
    """Return the name of a value's class, which a metaclass cannot change."""
    return read(_name, type(value), instead="(a type without a name)")


def type_names(exc):
    """Return the names of an exception's class and of its bases that are exceptions, the most derived first."""
    return read(_names, type(exc), instead=[])


def traceback(exc, inside=False):
    """Return the end of an exception's traceback, where the cause is.

    ``inside`` says that the exception came from an action's own code: the first frames are this package's and are omitted.
    """
    return read(_traceback, exc, inside, instead="(its traceback could not be read)")


def _text(value, limit, form):
    # A subclass of str may have changed any of its methods: str's own make a plain text of it.
    return str.__str__(form(value))[:limit]


def _name(cls):
    return str.__str__(type.__dict__["__name__"].__get__(cls))[:NAME_MAX]


def _names(cls):
    bases = type.__dict__["__mro__"].__get__(cls)
    return [_name(base) for base in bases if issubclass(base, BaseException) and base is not BaseException][:NAMES_MAX]


def _traceback(exc, inside):
    from traceback import format_exception  # heavy to import, and needed only here

    trace = exc.__traceback__
    while inside and trace is not None and trace.tb_frame.f_globals.get("__package__") == __package__:
        trace = trace.tb_next
    return "".join(format_exception(type(exc), exc, trace))[-TRACEBACK_MAX:]

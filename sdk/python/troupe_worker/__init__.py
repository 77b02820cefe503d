"""Run actions in a Troupe worker process.

A node starts ``python3 -m troupe_worker`` for its python pools and calls the functions that packs name as their
entrypoints: ``f(params, ctx)`` or ``f(params)``. A separate program (``runtime: process``) calls ``serve``::

    import troupe_worker

    def greet(params, ctx):
        ctx.progress(0.5, "thinking")
        return {"greeting": "hello " + params["name"]}

    troupe_worker.serve({"mypack.greet": greet})

Only the standard library is used. The protocol is described in docs/protocol.md.
"""

from .context import Context, Session
from .errors import ActionError, Cancelled, Final, LoadError, Retriable
from .version import VERSION as __version__

__all__ = ["ActionError", "Cancelled", "Context", "Final", "LoadError", "Retriable", "Session", "serve", "__version__"]


def serve(actions, health=None, snapshot=None, restore=None):
    """Serve a table of actions on descriptors 3 and 4 until the node ends this process. It does not return.

    ``actions`` maps an action's name, with or without its pack (``mypack.greet`` or ``greet``), to its function.
    ``health()`` may return any JSON value, or raise or return False if this worker should get no executions.
    ``snapshot(state)`` turns a session's state into a JSON value, and ``restore(value)`` turns it back into a dict;
    Without them the state itself is the JSON value. Call it from the main thread.
    """
    from .loader import Table
    from .runtime import Worker

    Worker(Table(actions, health, snapshot, restore)).run()

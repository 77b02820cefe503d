"""The state of the sessions that live with this worker, kept by (id, epoch)."""

from .context import Session
from .foreign import read
from .values import DEPTH_MAX, RESULT_MAX, encode


class Sessions:
    """All sessions of this worker. Only the main thread uses it."""

    def __init__(self, code, wait):
        self._code = code  # finds the modules with hooks to save and restore a state
        self._wait = wait  # gives the value of an awaitable
        self._held = {}

    def enter(self, args, source):
        """Return the Session of an execution: with the state kept here, or an empty one if its epoch is newer."""
        key, epoch = args["id"], args.get("epoch", 0)
        session = self._held.get(key)
        if session is None or session.epoch < epoch:
            session = self._held[key] = Session(key, epoch)
        elif session.epoch > epoch:  # a stale placement: it must not see or change a later state
            session = Session(key, epoch)
        session.lost = args.get("lost", False)
        session.hit = args.get("hit", False)
        session.runs_behind = args.get("runs_behind", 0)
        session._source = source
        return session

    def leave(self, session):
        """Forget a session without state, so that it costs no memory."""
        if read(_is_empty, session.state) and self._held.get(session.id) is session:
            del self._held[session.id]

    def snapshot(self, args):
        """Return the value for restore as JSON: from the snapshot hook of the state's module, or the state itself."""
        session = self._held.get(args["session"])
        if session is None or session.epoch != args["epoch"]:
            return '{"state":null}'
        hooks = self._code.hooks(session._source)
        source, state = (None, session.state) if hooks is None else (session._source, self._wait(hooks[0](session.state)))
        # The node checks the depth of the whole value, which is one level deeper.
        state = encode(state, "the session's state", RESULT_MAX, DEPTH_MAX - 1)
        return '{"state":{"hook":%s,"state":%s}}' % (encode(source, "its module"), state)

    def restore(self, args):
        """Make the state of a snapshot the session's state at the given epoch."""
        session = Session(args["session"], args["epoch"])
        saved = args.get("state")
        if saved is not None:
            session._source = saved["hook"]
            hooks = self._code.hooks(session._source) if session._source is not None else None
            if session._source is not None and hooks is None:
                raise LookupError("no restore hook of %s is loaded" % session._source)
            session.state = saved["state"] if hooks is None else self._wait(hooks[1](saved["state"]))
        self._held[session.id] = session
        self.leave(session)  # the snapshot may have been of a session without state
        return "{}"

    def end(self, args):
        """Drop the session's state up to the given epoch."""
        session = self._held.get(args["session"])
        if session is not None and session.epoch <= args["epoch"]:
            del self._held[session.id]
        return "{}"


def _is_empty(state):
    return not state

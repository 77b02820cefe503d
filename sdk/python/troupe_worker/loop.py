"""The event loop of a worker: one for all its runs, so that clients and queues of a module outlive a run.

The loop turns only while an action is awaited. Each task belongs to the run in whose context it was made. The tasks that a run
leaves are cancelled at its end. A task that was made in an empty context (contextvars.Context()) belongs to no run and goes on.
"""

from . import foreign
from .foreign import read
from .late import current

CLEANUP = 1.0  # seconds that the tasks which a run left may take to end
DEFERRED_MAX = 125  # signals for which a cancel waits for the loop to turn, about a second
_PLAIN = frozenset((type(None), bool, int, float, str, list, tuple, dict))


class Loop:
    """The event loop. Only the main thread uses it."""

    def __init__(self, late):
        self._late = late
        self._loop = None
        self._task = None  # of the action that is awaited
        self._deferred = 0  # signals of a cancel that the loop did not deliver yet

    def wait(self, value):
        """Return what an awaitable gives; any other value as it is."""
        if type(value) in _PLAIN or not _is_awaitable(value):
            return value
        loop, run = self._open(), current.get()
        if run is not None:
            run.tasks = True
        self._deferred = 0
        task = self._task = loop.create_task(_await(value))
        try:
            return loop.run_until_complete(task)
        finally:
            self._task = None

    def cancel(self, heard):
        """Cancel the awaited action, for a signal. False: the signal has to interrupt the code that runs.

        ``heard`` is called when the loop has turned and cancels the action's task. The signal interrupts that task's own code itself, code
        of another task of the run, and a callback that blocks the loop for a second.
        """
        task = self._task
        if task is None or task.done():
            return False
        import asyncio

        running = asyncio.current_task(self._loop)
        if running is task:
            self._task = None
            return False
        self._deferred += 1
        if self._deferred == 1:
            self._loop.call_soon_threadsafe(self._cancel, task, heard)
        return self._deferred <= DEFERRED_MAX and (running is None or _owner(running) is not _owner(task))

    def _cancel(self, task, heard):
        if task is self._task:  # no signal has interrupted it meanwhile
            heard()
            task.cancel()

    def end(self, run):
        """Cancel the tasks that a run left. Return the names of those that ended, and of those that go on."""
        import asyncio

        loop = self._loop
        if loop is None or loop.is_closed():
            return [], []
        for _ in range(2):  # what is closed by a task of its own, such as an asynchronous generator, may begin
            loop.run_until_complete(asyncio.sleep(0))
        left = [task for task in asyncio.all_tasks(loop) if _owner(task) is run]
        if left:
            for task in left:
                task.cancel()
            loop.run_until_complete(asyncio.wait(left, timeout=CLEANUP))
        return [_name(task) for task in left if task.done()], [_name(task) for task in left if not task.done()]

    def _open(self):
        import asyncio

        if self._loop is None or self._loop.is_closed():
            self._loop = asyncio.new_event_loop()
            self._loop.set_task_factory(_owned_task)
            self._loop.set_exception_handler(self._failed)
        asyncio.set_event_loop(self._loop)
        return self._loop

    def _failed(self, loop, context):
        """Tell an exception that nobody awaited to the run that it came from."""
        run, exc = read(_source, context), context.get("exception")
        if run is None or not run.ended:
            loop.default_exception_handler(context)
        elif exc is not None:
            read(self._late.fault, run, exc)
        else:
            read(self._late.say, run, "error", foreign.text(context.get("message"), 1000))


async def _await(value):
    return await value


def _is_awaitable(value):
    from inspect import isawaitable

    return isawaitable(value)


def _owned_task(loop, coro, **kwargs):
    import asyncio

    task = asyncio.Task(coro, loop=loop, **kwargs)
    context = kwargs.get("context")
    task._troupe_run = current.get() if context is None else context.get(current)
    return task


def _owner(task):
    return getattr(task, "_troupe_run", None)


def _source(context):
    """Return the run of what an exception handler is told of: a task, or a callback with its context."""
    task = context.get("task") or context.get("future")
    if task is not None:
        return _owner(task)
    handle = context.get("handle")
    return handle._context.get(current) if handle is not None else current.get()


def _name(task):
    return "%s (%s)" % (foreign.text(task.get_name(), 50), foreign.text(read(_function, task), 50))


def _function(task):
    return task.get_coro().__qualname__

"""The worker's loop: it reads requests, runs actions, and sends exactly one answer to each request.

One process has two threads. The main thread runs the actions, because a signal can interrupt them only there. While
it is idle it also reads the requests: passing each request from a reading thread to a working one would cost more
than all other steps of a short run. Every few milliseconds the helper thread checks whether a run takes long. During
a long run it reads the requests, and so answers ping, cancel and the end of the input while the action is busy. The
thread that holds the role lock reads.
"""

import os
import signal
import sys
import time
from _thread import allocate_lock, get_ident, start_new_thread
from collections import deque

from . import foreign, tracing
from .channel import Channel, encode
from .context import Context
from .ending import dump_at_crash, leave, leave_late, note
from .errors import BadRequest, Cancelled, LoadError, ProtocolError, describe
from .foreign import read
from .late import Late, Run
from .leftovers import Leftovers
from .loop import Loop
from .sessions import Sessions
from .values import RESULT_MAX, encode as encode_value, encode_error, failure, fit
from .version import PROTOCOL, VERSION

WATCH = 0.008  # seconds between two checks of the run; a run of twice that is watched
PARK_AFTER = 64  # checks without a new run, about half a second, after which the helper sleeps
PENDING_MAX = 1024  # greatest number of requests that wait for the end of a run
SIGNALS_MAX = 1000  # times a cancelled run is signalled, some eight seconds; the node then ends the process
# A real-time signal if there is one: packs may use SIGUSR1 and SIGUSR2.
CANCEL_SIGNAL = signal.SIGRTMIN + 5 if hasattr(signal, "SIGRTMIN") else signal.SIGUSR2

CAPABILITIES = {"ping_while_busy": True, "cancel": True, "sessions": True, "snapshot": True, "health_check": True}


class Worker:
    """One worker process. ``code`` finds the actions: loader.Files or loader.Table."""

    def __init__(self, code, channel=None):
        self.channel = channel or Channel()
        self.main = get_ident()
        self.late = Late(self._send_soon)
        self._code = code
        self._loop = Loop(self.late)
        self._leftovers = Leftovers()
        self._sessions = Sessions(code, self._loop.wait)
        self._commands = {  # answered by the main thread; a cancel that arrives here finds no run
            "hello": self._hello, "ping": _nothing, "cancel": _nothing, "health_check": self._health,
            "snapshot": self._sessions.snapshot, "restore": self._sessions.restore, "end_session": self._sessions.end,
        }
        # The run, written by the main thread and read by the helper.
        self._started = 0  # id of the last execute that began
        self._running = 0  # id of the execute that runs; 0: none
        self._context = None
        self._interruptible = 0  # id of the execute whose code may be interrupted; 0: none
        self._interrupt = 0  # id of the execute to interrupt
        self._guarded = False  # the main thread is writing a frame, which must not be interrupted
        # The reading role and its hand-over.
        self._role = allocate_lock()
        self._reads = True  # the main thread holds the role
        self._mutex = allocate_lock()  # guards the three below
        self._pending = deque()
        self._waiting = False
        self._handed = None
        self._arrival = allocate_lock()
        # The helper's sleep.
        self._parked = False
        self._alarm = allocate_lock()

    def run(self):
        """Serve requests until the node ends this process. It does not return."""
        self._prepare()
        try:
            while True:
                try:
                    request = self.channel.read() if self._reads else self._take()
                except BadRequest as exc:
                    self._fail(exc.ident, exc.error())
                    continue
                if request is None:
                    leave(0)
                self._handle(request)
        except ProtocolError as exc:
            note(str(exc))
            leave(2)

    def _prepare(self):
        self._role.acquire()
        self._arrival.acquire()
        signal.signal(CANCEL_SIGNAL, self._interrupted)
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._keyboard)
        os.register_at_fork(after_in_child=self._forked)
        read(dump_at_crash)
        self.late.install()
        start_new_thread(self._help, ())

    def _forked(self):
        """A forked child is not a worker: it must not read the node's requests or answer them."""
        signal.signal(CANCEL_SIGNAL, signal.SIG_IGN)
        self.late.forked()
        self.channel.close()

    # Requests, on the main thread.

    def _handle(self, request):
        command = request["command"]
        if command == "execute":
            self._execute(request["id"], request["args"])
        elif command == "shutdown":
            self._answer(request["id"], "{}")
            self._shutdown()
        else:
            self._command(request, command)

    def _command(self, request, name):
        """Run any command except execute and shutdown, and answer it."""
        ident = request["id"]
        command = self._commands.get(name)
        if command is None:
            return self._fail(ident, {"code": "unknown_command", "message": "unknown command %s" % foreign.text(name, 100, repr)})
        try:
            data = command(request["args"])
        except LoadError as exc:
            self._fail(ident, describe(exc))
        except BaseException as exc:  # a hook of a pack may raise anything
            self._fail(ident, failure(name, exc))
        else:
            self._answer(ident, data)

    def _execute(self, ident, args):
        self._started = self._running = ident
        if self._parked:
            self._parked = False
            self._alarm.release()
        if self._reads:
            self._role.release()
        try:
            self._run(ident, args)
        finally:
            self._running = 0
            # If the helper took the role meanwhile, it keeps it until the next request.
            self._reads = self._role.acquire(False)

    def _run(self, ident, args):
        """Call the action and answer its execute."""
        context, data, error = None, None, None
        run = Run(args)
        try:
            call, source = self._code.find(args)
            session = args.get("session")
            if session is not None:
                session = self._sessions.enter(session, source)
            context = self._context = Context(self, ident, run, args, session)
            data = encode_value(self._traced(ident, call, args.get("parameters"), context), "the action's result", RESULT_MAX)
        except BaseException as exc:
            error = describe(exc, context is not None and context.cancelled)
        self._context = None
        self._end(ident, run)
        if context is not None and context.session is not None:
            self._sessions.leave(context.session)
        closing = context is not None and context._close
        if error is None:
            self._answer(ident, data, closing)
        else:
            self._fail(ident, error, closing)

    def _end(self, ident, run):
        """End what the run left, as far as that can be, and tell it the rest."""
        tasks = read(self._loop.end, run, instead=([], [])) if run.tasks else ([], [])
        left = read(self._leftovers.of, run, *tasks)
        if left:
            self.emit('{"event":"log","id":%d,"level":"warn","message":%s}' % (ident, encode("the run left behind: " + left)))
        self.late.end(run)
        read(sys.stdout.flush)  # so that what was printed belongs to the run
        read(sys.stderr.flush)

    def _traced(self, ident, call, parameters, context):
        """Call the action with its trace as the current context, where there are both a trace and OpenTelemetry."""
        if not context.trace:
            return self._call(ident, call, parameters, context)
        entered = tracing.enter(context)
        try:
            value = self._call(ident, call, parameters, context)
        except BaseException as exc:
            tracing.leave(entered, exc)
            raise
        tracing.leave(entered)
        return value

    def _call(self, ident, call, parameters, context):
        """Call the action so that a cancel interrupts only its code, and await what it returns if that can be awaited."""
        self.late.begin(context._run)
        try:
            self._interruptible = ident
            if self._interrupt == ident:  # the cancel arrived while the code was loaded
                context._cancel()
                self._interrupted(CANCEL_SIGNAL, None)
            value = self._loop.wait(call(parameters, context))
            self._interruptible = 0
        except BaseException:
            self._interruptible = 0
            raise
        return value

    def _answer(self, ident, data, closing=False):
        self.channel.send('{"event":"result","id":%d,"data":%s%s}' % (ident, data, ',"close":true' if closing else ""))

    def _fail(self, ident, error, closing=False):
        self.channel.send('{"event":"error","id":%d,"error":%s%s}' % (ident, encode_error(error), ',"close":true' if closing else ""))

    def _hello(self, args):
        if args.get("protocol") != PROTOCOL:
            raise LoadError("the node speaks protocol %s and this SDK %d" % (foreign.text(args.get("protocol"), 100, repr), PROTOCOL))
        self.late.known_by(args)
        fit(args.get("frame_max"))
        noted = []
        for action in args.get("actions") or ():
            try:
                self._code.find(action, lambda text: noted.append(note(text)))
            except LoadError as exc:
                raise LoadError("action %s: %s" % (action.get("ref"), exc), exc.details) from None
        if noted:
            note("all code is loaded")
        return encode({"protocol": PROTOCOL, "sdk": "python", "version": VERSION, "pid": os.getpid(), "capabilities": CAPABILITIES})

    def _health(self, args):
        """Call every health hook; one that raises or returns False makes the worker unhealthy."""
        said = {}
        for source, hook in self._code.health_hooks().items():
            said[source] = self._loop.wait(hook())
            if said[source] is False:
                raise RuntimeError("health() of %s returned False" % source)
        return encode_value(said, "what health() returned", RESULT_MAX)

    def _shutdown(self):
        """Exit 0, after the exit handlers if they are quick."""
        start_new_thread(leave_late, ())
        sys.exit(0)

    # Cancel: decided by the thread that reads the request, done by a signal on the main thread.

    def _cancel(self, args):
        """Interrupt the run, from the helper thread; its cancel has been answered."""
        target = args.get("request")
        if target and target == self._running:
            self._interrupt = target  # before reading the context, because _call reads in the other order
            context = self._context
            if context is not None:
                context._cancel()
            start_new_thread(self._signal_until_heard, (target,))

    def _signal_until_heard(self, target):
        """Signal the main thread until the action was interrupted.

        One signal is not enough: if it arrives between the action's last bytecode and the system call of its sleep,
        Python records it but the sleep does not end.
        """
        for _ in range(SIGNALS_MAX):
            signal.pthread_kill(self.main, CANCEL_SIGNAL)
            time.sleep(WATCH)
            if self._interruptible != target:
                return

    def _interrupted(self, signum, frame):
        """Raise Cancelled in the action, once. The signal also ends a sleep or a wait of the action."""
        if self._interruptible and self._interrupt == self._interruptible and not self._guarded:
            if self._loop.cancel(self._heard):
                return
            self._interruptible = 0
            raise Cancelled()

    def _heard(self):
        self._interruptible = 0

    def _keyboard(self, signum, frame):
        """Raise KeyboardInterrupt in the action alone: elsewhere it would end the worker."""
        if self._interruptible and not self._guarded:
            signal.default_int_handler(signum, frame)

    def guarded(self, function, *args):
        """Call a function of this package for the action, such as send. A cancel that arrives meanwhile waits until its end."""
        if get_ident() != self.main:
            return function(*args)
        before, self._guarded = self._guarded, True
        try:
            value = function(*args)
        finally:
            self._guarded = before
        self._interrupted(CANCEL_SIGNAL, None)
        return value

    def emit(self, text):
        """Send a frame of the run, from any thread."""
        if self._guarded and get_ident() == self.main:  # a signal or a finalizer, perhaps in the middle of a frame
            self.channel.send_later(text)
        else:
            self.guarded(self.channel.send, text)

    def _send_soon(self, text):
        """Send a frame that no run waits for, from any thread, also from a finalizer within another send."""
        if get_ident() != self.main:
            return self.channel.send_later(text)
        before, self._guarded = self._guarded, True
        try:
            self.channel.send_later(text)
        finally:
            self._guarded = before

    # The helper thread.

    def _help(self):
        try:
            while True:
                self._watch()
                self._read_for_main()
        except ProtocolError as exc:
            note(str(exc))
            leave(2)
        except BaseException as exc:  # without its reader the worker would get no request
            note("the helper thread ended: " + foreign.traceback(exc))
            leave(1)

    def _watch(self):
        """Return once a run has lasted two checks and the reading role is taken. Sleep while there are no runs."""
        last, idle = 0, 0
        while True:
            running = self._running
            if running and running == last and self._role.acquire(False):
                return
            idle = 0 if self._started != last else idle + 1
            last = self._started
            if idle > PARK_AFTER and not self._running:
                self._park(last)
                idle = 0
            time.sleep(WATCH)

    def _park(self, last):
        """Sleep until the main thread begins a run after the last one seen."""
        self._alarm.acquire(False)
        self._parked = True
        if self._started == last:
            self._alarm.acquire()
        self._parked = False

    def _read_for_main(self):
        """Read and answer the requests that can be answered during a run, until a request finds the main thread idle."""
        while True:
            try:
                request = self.channel.read()
            except BadRequest as exc:
                self._fail(exc.ident, exc.error())
                continue
            if request is None:
                leave(0)
            command = request["command"]
            if command == "ping":
                self._answer(request["id"], "{}")
            elif command == "cancel":
                self._answer(request["id"], "{}")  # first, so that the run's end is sent after it
                self._cancel(request["args"])
            elif command == "shutdown" and self._running:
                self._answer(request["id"], "{}")
                leave(0)
            elif self._hand_over(request):
                return

    def _hand_over(self, request):
        """Pass the request to the main thread. True: it was waiting, and now holds the reading role."""
        with self._mutex:
            if self._waiting:
                self._waiting = False
                self._handed = request
                self._arrival.release()
                return True
            if len(self._pending) >= PENDING_MAX:
                raise ProtocolError("more than %d requests wait for the end of a run" % PENDING_MAX)
            self._pending.append(request)
            return False

    def _take(self):
        """Return the next request while the helper reads. With a request that it passed, the role returns to this thread."""
        with self._mutex:
            if self._pending:
                return self._pending.popleft()
            self._waiting = True
        self._arrival.acquire()
        self._reads = True
        return self._handed


def _nothing(args):
    return "{}"

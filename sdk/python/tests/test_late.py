"""What code of a run does after the run's end is told with its name, and is no part of another run."""

import os
import signal
import unittest

from harness import Worker

ACTIONS = r"""
import _thread, asyncio, concurrent.futures, contextvars, functools, gc, os, subprocess, sys, threading, time
from troupe_worker import Cancelled

gate, done = threading.Event(), threading.Event()
pool = queue = None

def later(act):
    def wait():
        try:
            gate.wait(30)
            act()
        finally:
            done.set()
    return wait

def opens(params, ctx):
    # The next run: it lets the code of the first go on, and ends after it.
    print("mine")
    gate.set()
    assert done.wait(10)
    for thread in threading.enumerate():
        if thread is not threading.main_thread():
            thread.join()
    sys.stderr.write("mine too\n")
    return "own"

def prints(params, ctx):
    def act():
        print("late", "line")
        sys.stdout.write("a\nb\nunfinished")
        sys.stderr.buffer.write(b"late bytes\n")
        ctx.progress(0.5, "late progress")
        ctx.chunk("late chunk")
        ctx.log("warn", "late log")
    threading.Thread(target=later(act), daemon=True).start()

def floods(params, ctx):
    threading.Thread(target=later(lambda: [print("line %d" % n) for n in range(1000)])).start()

def raises(params, ctx):
    class Lost(LookupError): pass
    def act():
        raise Lost("late error")
    start = {"thread": lambda f: threading.Thread(target=f).start(), "timer": lambda f: threading.Timer(0, f).start(),
             "raw": lambda f: _thread.start_new_thread(f, ()), "nested": lambda f: threading.Thread(
                 target=lambda: (gate.wait(30), threading.Thread(target=f).start())).start()}[params["from"]]
    start(later(act))

def ends(params, ctx):
    def act():
        raise {"exit": SystemExit, "cancelled": Cancelled}[params["how"]]()
    threading.Thread(target=later(act)).start()

def in_time(params, ctx):
    thread = threading.Thread(target=lambda: 1 / 0)
    thread.start()
    thread.join()

def calls(params, ctx):
    # The threads of the pool are those of the first run that called it.
    global pool
    pool = pool or concurrent.futures.ThreadPoolExecutor(1)
    return pool.submit(lambda: print("by the pool", ctx.attempt)).result()

class Own(threading.Thread):
    def run(self):
        later(lambda: print("own run"))()

def own_class(params, ctx):
    thread = Own()
    thread.run = functools.partial(Own.run, thread)
    thread.start()

async def tasks(params, ctx):
    async def end():
        try:
            await asyncio.sleep(60)
        finally:
            print("ended in time")
    asyncio.create_task(end(), name="sleeper")
    await asyncio.sleep(0)
    return "ok"

async def stubborn(params, ctx):
    async def stay():
        while True:
            try:
                await asyncio.sleep(0.01)
                if gate.is_set():
                    print("late in the loop")
                    raise KeyError("late task")
            except asyncio.CancelledError:
                pass
    asyncio.create_task(stay(), name="stubborn")
    await asyncio.sleep(0)

async def callback(params, ctx):
    asyncio.get_running_loop().call_later(0.05, lambda: 1 / 0)

async def turns(params, ctx):
    gate.set()
    await asyncio.sleep(0.3)
    gc.collect()
    print("mine")
    return "own"

async def forever(params, ctx):
    async def stay():
        await asyncio.sleep(0.02)
        stayed.append(ctx.attempt)
    contextvars.Context().run(asyncio.ensure_future, stay())
stayed = []

async def remembers(params, ctx):
    await asyncio.sleep(0.1)
    return stayed

async def shares(params, ctx):
    global queue
    if queue is None:
        queue = asyncio.Queue()
    asyncio.get_running_loop().call_later(0.01, queue.put_nowait, params["n"])
    return await queue.get()

def wrapped(function):
    @functools.wraps(function)
    def call(*args):
        return function(*args)
    return call

@wrapped
async def decorated(params, ctx):
    return "awaited"

async def base(extra, params, ctx):
    return "awaited"
partial = functools.partial(base, 1)

class Callable:
    async def __call__(self, params, ctx):
        return "awaited"
called = Callable()

class Awaitable:
    def __await__(self):
        yield from asyncio.sleep(0).__await__()
        return "awaited"
def awaitable(params):
    return Awaitable()

async def sleeps(params, ctx):
    ctx.progress(0)
    try:
        await asyncio.sleep(60)
    finally:
        await asyncio.sleep(0.05)
        print("cleaned up")

async def spins(params, ctx):
    ctx.progress(0)
    while True:
        pass

async def spins_in_a_callback(params, ctx):
    def spin():
        ctx.progress(0)
        time.sleep(60)
    asyncio.get_running_loop().call_soon(spin)
    await asyncio.sleep(60)

async def spins_in_a_task(params, ctx):
    async def spin():
        ctx.progress(0)
        time.sleep(60)
    await asyncio.gather(spin(), asyncio.sleep(60))

async def cancels_itself(params, ctx):
    asyncio.current_task().cancel()
    await asyncio.sleep(1)

async def closes_the_loop(params, ctx):
    asyncio.get_running_loop().stop()
    await asyncio.sleep(1)

def leaves(params, ctx):
    threading.Thread(target=gate.wait, args=(30,), name="waiter", daemon=True).start()
    timer = threading.Timer(30, print)
    timer.daemon = True
    timer.start()
    return subprocess.Popen(["sleep", "60"]).pid

def waits_for_its_child(params, ctx):
    subprocess.run(["true"], check=True)
    global zombie
    zombie = subprocess.Popen(["true"])
    os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)

def forks(params, ctx):
    pid = os.fork()
    if pid == 0:
        print("child")
        sys.stdout.flush()
        os._exit(0)
    return os.waitpid(pid, 0)[1]

def echo(params, ctx):
    return params
"""


class LateBase(unittest.TestCase):
    def setUp(self):
        self.worker = Worker({"a.py": ACTIONS}).__enter__()
        self.addCleanup(self.worker.__exit__)
        self.worker.hello("echo", faults=True)

    def later(self, function, parameters=None, next="opens", result="own", count=0):
        """Run a function and then the next, and return what came with id 0 until then, and until there are count of it."""
        first = self.worker.send("execute", **self.worker.execution(function, parameters, execution="first"))
        event = self.worker.event()
        self.left = []
        while event["event"] == "log":
            self.left.append(event["message"])
            event = self.worker.event()
        self.assertEqual((event["event"], event["id"]), ("result", first), event)
        second = self.worker.send("execute", **self.worker.execution(next, execution="second"))
        late, ended = [], False
        while not ended or len(late) < count:
            event = self.worker.event()
            if event["event"] == "result":
                self.assertEqual((event["id"], event["data"]), (second, result))
                ended = True
            else:
                self.assertEqual(event["id"], 0, event)
                late.append(event)
        return late

    def output(self):
        """End the worker and return what it has written to stdout and stderr."""
        self.worker.close_input()
        self.assertEqual(self.worker.exit_status(), 0)
        lines = self.worker.process.stderr.read().decode().splitlines()
        return self.worker.process.stdout.read().decode(), [line for line in lines if not line.startswith("troupe_worker: ")]


class LateTest(LateBase):
    def test_what_a_thread_prints_is_told_with_its_run(self):
        late = self.later("prints")
        self.assertEqual(self.output(), ("mine\n", ["mine too"]))
        begin = "execution first (t.prints, attempt 1), which has ended, wrote to "
        self.assertEqual([event["message"] for event in late], [begin + text for text in (
            "stdout: late line", "stdout: a", "stdout: b", "stderr: late bytes", "its log: late log", "stdout: unfinished")])

    def test_what_is_told_is_bounded(self):
        late = self.later("floods")
        self.assertEqual(len(late), 101)
        self.assertIn("no more of it is told", late[-1]["message"])

    def test_an_exception_of_a_thread_is_a_fault_of_its_run(self):
        for source in ("thread", "timer", "raw", "nested"):
            with self.subTest(source), Worker({"a.py": ACTIONS}) as self.worker:
                self.worker.hello("echo", faults=True)
                (event,) = self.later("raises", {"from": source}, count=1)
                self.assertEqual((event["event"], event["execution"], event["attempt"]), ("fault", "first", 1))
                error = event["error"]
                self.assertEqual((error["code"], error["message"], error["types"]),
                                 ("action_error", "Lost: late error", ["Lost", "LookupError", "Exception"]))
                self.assertIn("in act", error["details"]["traceback"])
                self.assertEqual(self.output(), ("mine\n", ["mine too"]))

    def test_a_thread_may_end_by_its_own_will(self):
        for how in ("exit", "cancelled"):
            with self.subTest(how), Worker({"a.py": ACTIONS}) as self.worker:
                self.assertEqual(self.later("ends", {"how": how}), [])

    def test_an_exception_of_a_thread_within_its_run_is_in_its_output(self):
        self.assertEqual(self.worker.run("in_time")["event"], "result")
        self.assertEqual(self.worker.told, [])
        self.assertIn("ZeroDivisionError: division by zero", self.output()[1])

    def test_calls_of_a_pool_belong_to_the_run_that_made_them(self):
        for attempt in (1, 2, 3):
            self.worker.run("calls", attempt=attempt)
        self.assertEqual(self.output()[0], "by the pool 1\nby the pool 2\nby the pool 3\n")

    def test_a_class_of_threads_runs_as_it_is(self):
        self.assertEqual([event["message"][-15:] for event in self.later("own_class")], ["stdout: own run"])

    def test_an_older_node_gets_a_log_line(self):
        with Worker({"a.py": ACTIONS}) as self.worker:
            self.worker.hello("echo")
            (event,) = self.later("raises", {"from": "thread"})
            self.assertEqual((event["event"], event["level"]), ("log", "error"))
            self.assertIn("execution first (t.raises, attempt 1), which has ended, failed in code that it left behind: Lost: late error\n"
                          "Traceback", event["message"])

    def test_a_forked_child_prints_for_itself(self):
        self.assertEqual(self.worker.run("forks")["data"], 0)
        self.assertEqual(self.output()[0], "child\n")


class LoopTest(LateBase):
    def test_tasks_end_with_their_run(self):
        self.assertEqual(self.later("tasks", next="turns"), [])
        self.assertEqual(self.left, ["the run left behind: task sleeper (tasks.<locals>.end) (cancelled)"])
        self.assertEqual(self.output()[0], "ended in time\nmine\n")

    def test_a_task_that_does_not_end_stays_of_its_run(self):
        late = self.later("stubborn", next="turns")
        self.assertEqual(self.left, ["the run left behind: task stubborn (stubborn.<locals>.stay) (goes on in spite of its cancel)"])
        self.assertIn("execution first (t.stubborn, attempt 1), which has ended, wrote to stdout: late in the loop", late[0]["message"])
        self.assertEqual((late[1]["event"], late[1]["execution"], late[1]["error"]["message"]), ("fault", "first", "KeyError: 'late task'"))
        self.assertEqual(self.output()[0], "mine\n")

    def test_a_callback_that_fails_late(self):
        (event,) = self.later("callback", next="turns")
        self.assertEqual((event["event"], event["execution"], event["error"]["type"]), ("fault", "first", "ZeroDivisionError"))

    def test_a_task_of_no_run_goes_on(self):
        self.assertEqual(self.later("forever", next="remembers", result=[1]), [])
        self.assertEqual(self.left, [])

    def test_one_loop_for_all_runs(self):
        self.assertEqual([self.worker.run("shares", {"n": n})["data"] for n in (1, 2)], [1, 2])

    def test_whatever_can_be_awaited_is_awaited(self):
        for function in ("decorated", "partial", "called", "awaitable"):
            self.assertEqual(self.worker.run(function)["data"], "awaited", function)

    def test_a_cancel_ends_what_is_awaited(self):
        for function in ("sleeps", "spins", "spins_in_a_callback", "spins_in_a_task", "sleeps"):
            run = self.worker.begin(function)
            self.assertEqual(self.worker.ask("cancel", request=run)["data"], {})
            answer = self.worker.event()
            self.assertEqual((answer["id"], answer["error"]["code"]), (run, "cancelled"), function)
            self.assertEqual(self.worker.run("shares", {"n": 1})["data"], 1)
        self.assertEqual(self.output()[0], "cleaned up\ncleaned up\n")

    def test_a_loop_that_an_action_breaks(self):
        for function, said in (("cancels_itself", "CancelledError"), ("closes_the_loop", "RuntimeError")):
            error = self.worker.run(function)["error"]
            self.assertEqual((error["code"], error["type"]), ("action_error", said))
        self.assertEqual(self.worker.run("shares", {"n": 1})["data"], 1)


class LeftTest(unittest.TestCase):
    def test_what_a_run_leaves_is_listed_once(self):
        with Worker({"a.py": ACTIONS}) as worker:
            pid = worker.run("leaves")["data"]
            os.kill(pid, signal.SIGKILL)  # else it holds the output open
            (told,) = worker.told
            self.assertEqual(told["level"], "warn")
            self.assertRegex(told["message"], r"^the run left behind: thread waiter \(daemon\); timer Thread-\d+( \(\w+\))? \(daemon\); process %d \(sleep\)$" % pid)
            worker.run("echo")
            self.assertEqual(worker.told, [])
            worker.run("waits_for_its_child")
            self.assertEqual(worker.told, [])


if __name__ == "__main__":
    unittest.main()

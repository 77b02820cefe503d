"""The protocol as a node sees it, from a real process."""

import struct
import sys
import time
import unittest
from random import Random

from harness import SDK, Worker

ACTIONS = """
import os, subprocess, time
import troupe_worker

def echo(params, ctx):
    return params

def one(params):
    return params

async def later(params, ctx):
    import asyncio
    await asyncio.sleep(0)
    return "later"

def fails(params, ctx):
    raise ValueError("no such thing")

def own_error(params, ctx):
    raise troupe_worker.ActionError("busy", code="rate_limited", retriable=True, details={"a": 1}, worker_fault=True)

def missing(params, ctx):
    return {}["key"]

def again(params, ctx):
    raise troupe_worker.Retriable("try later", code="overloaded")

def never(params, ctx):
    raise troupe_worker.Final("no such city", details={"city": "Atlantis"})

def exits(params, ctx):
    import sys
    sys.exit(3)

def returns(params, ctx):
    return {"set": {1}, "nan": float("nan"), "large": "x" * (9 << 20), "none": None}[params["what"]]

def deep(params, ctx):
    value = []
    for _ in range(100000):
        value = [value]
    return value

def context(params, ctx):
    return [ctx.execution, ctx.attempt, ctx.action, ctx.session, ctx.retry_count, ctx.trace, ctx.trace_state, 59 < ctx.remaining() <= 60,
            ctx.cancelled]

def tells(params, ctx):
    ctx.progress(0.5, "half")
    ctx.progress(None, "some")
    ctx.progress(7)
    ctx.chunk({"n": 1})
    ctx.log("warn", "careful")
    print("printed")
    return 1

def closes(params, ctx):
    ctx.close_worker()

def sleeps(params, ctx):
    ctx.progress(0)
    time.sleep(60)

def spins(params, ctx):
    ctx.progress(0)
    while True:
        pass

def swallows(params, ctx):
    ctx.progress(0)
    try:
        time.sleep(60)
    except troupe_worker.Cancelled:
        return {"cancelled": ctx.cancelled, "event": ctx.cancel_event.is_set()}

def floods(params, ctx):
    ctx.progress(0)
    while True:
        ctx.chunk("x" * 100000)

def signalled(params, ctx):
    # The handler runs on the main thread, in the middle of whatever it does, most often a chunk.
    import signal
    def report(*_):
        ctx.log("info", "signalled")
        signal.setitimer(signal.ITIMER_REAL, 0.001)
    signal.signal(signal.SIGALRM, report)
    report()
    try:
        for _ in range(200):
            ctx.chunk("x" * 200000)
    finally:
        signal.signal(signal.SIGALRM, signal.SIG_IGN)

def child(params, ctx):
    pid = os.fork()
    if pid == 0:
        try:
            os.fstat(4)
            os._exit(1)
        except OSError:
            os._exit(0)
    return os.waitpid(pid, 0)[1]

def grandchild(params, ctx):
    pid = os.fork()
    if pid == 0:
        mine = [os.open("/dev/null", os.O_RDONLY) for _ in range(2)]
        if mine != [3, 4]:
            os._exit(2)
        inner = os.fork()
        if inner == 0:
            try:
                os.read(3, 1), os.read(4, 1)
                os._exit(0)
            except OSError:
                os._exit(1)
        os._exit(os.WEXITSTATUS(os.waitpid(inner, 0)[1]))
    return os.WEXITSTATUS(os.waitpid(pid, 0)[1])

def replaced(params, ctx):
    kept = os.dup(4)
    other = os.open("/dev/null", os.O_RDONLY)
    os.dup2(other, 4)
    pid = os.fork()
    if pid == 0:
        try:
            os.fstat(4)
            os._exit(0)
        except OSError:
            os._exit(1)
    status = os.WEXITSTATUS(os.waitpid(pid, 0)[1])
    os.dup2(kept, 4, inheritable=False)
    os.close(kept)
    os.close(other)
    return status

def spawned(params, ctx):
    return subprocess.run(["sh", "-c", "(: >&4) 2>/dev/null"]).returncode != 0

def pauses(params, ctx):
    time.sleep(params["s"])
    return "done"

def slow(params, ctx):
    time.sleep(0.05)
    return params

def count(params, ctx):
    ctx.session.state["n"] = ctx.session.state.get("n", 0) + 1
    return [ctx.session.state["n"], ctx.session.epoch, ctx.session.lost, ctx.session.hit]

def behind(params, ctx):
    return [ctx.session.state["n"], ctx.session.lost, ctx.session.runs_behind]

def keeps_a_set(params, ctx):
    ctx.session.state["set"] = {1}

healthy = True
def sick(params, ctx):
    global healthy
    healthy = False

def health():
    return {"fine": True} if healthy else False
"""


def session(epoch=1, lost=False):
    return {"id": "alice", "epoch": epoch, "lost": lost, "hit": True}


class WorkerTest(unittest.TestCase):
    def setUp(self):
        self.worker = Worker({"a.py": ACTIONS}).__enter__()
        self.addCleanup(self.worker.__exit__)

    def error(self, answer):
        self.assertEqual(answer["event"], "error", answer)
        return answer["error"]

    def test_hello_tells_what_it_can(self):
        data = self.worker.hello("echo")["data"]
        self.assertEqual((data["protocol"], data["sdk"]), (1, "python"))
        self.assertTrue(all(data["capabilities"][name] for name in
                            ("ping_while_busy", "cancel", "sessions", "snapshot", "health_check")))
        self.assertEqual(self.worker.ask("hello", protocol=2)["error"]["code"], "load_error")

    def test_results(self):
        for parameters in ({"a": [1, None, "é \U0001f600 \\ud800"]}, {}):
            self.assertEqual(self.worker.run("echo", parameters)["data"], parameters)
        self.assertEqual(self.worker.run("one", {"b": 2})["data"], {"b": 2})
        self.assertEqual(self.worker.run("later")["data"], "later")
        self.assertIsNone(self.worker.run("returns", {"what": "none"})["data"])

    def test_the_context_tells_the_execution(self):
        self.assertEqual(self.worker.run("context")["data"],
                         ["0199", 1, "t.context", None, 0, "00-1-2-01", "a=1", True, False])

    def test_what_an_action_tells(self):
        self.assertEqual(self.worker.run("tells")["data"], 1)
        told = [{k: v for k, v in event.items() if k != "id"} for event in self.worker.told]
        self.assertEqual(told, [
            {"event": "progress", "fraction": 0.5, "message": "half"},
            {"event": "progress", "fraction": None, "message": "some"},
            {"event": "progress", "fraction": 1.0, "message": ""},
            {"event": "chunk", "data": {"n": 1}},
            {"event": "log", "level": "warn", "message": "careful"}])
        self.assertEqual(self.worker.process.stdout.readline(), b"printed\n")

    def test_errors(self):
        error = self.error(self.worker.run("fails"))
        self.assertEqual((error["code"], error["message"]), ("action_error", "ValueError: no such thing"))
        self.assertIn("in fails", error["details"]["traceback"])
        self.assertNotIn("runtime.py", error["details"]["traceback"])
        self.assertEqual(self.error(self.worker.run("own_error")), {
            "code": "rate_limited", "message": "busy", "type": "ActionError", "types": ["ActionError", "Exception"],
            "retriable": True, "worker_fault": True, "details": {"a": 1}})
        self.assertIn("sys.exit(3)", self.error(self.worker.run("exits"))["message"])
        self.assertTrue(self.worker.run("closes")["close"])

    def test_results_that_are_no_json(self):
        for what, code in (("set", "result_not_json"), ("nan", "result_not_json"), ("large", "result_too_large")):
            self.assertEqual(self.error(self.worker.run("returns", {"what": what}))["code"], code)
        self.assertEqual(self.error(self.worker.run("deep"))["code"], "result_not_json")
        self.assertEqual(self.worker.run("echo", {"still": "here"})["data"], {"still": "here"})

    def test_an_action_says_whether_a_repeat_may_help(self):
        missing = self.error(self.worker.run("missing"))
        self.assertEqual(missing["type"], "KeyError")
        self.assertNotIn("retriable", missing)
        again = self.error(self.worker.run("again"))
        self.assertEqual((again["code"], again["type"], again["retriable"]), ("overloaded", "Retriable", True))
        never = self.error(self.worker.run("never"))
        self.assertEqual((never["code"], never["type"], never["retriable"]), ("action_error", "Final", False))
        self.assertEqual(never["details"], {"city": "Atlantis"})

    def test_unknown_command(self):
        self.assertEqual(self.error(self.worker.ask("dance"))["code"], "unknown_command")

    def test_ping_and_cancel_while_busy(self):
        for function in ("sleeps", "spins"):
            for _ in range(3):
                run = self.worker.begin(function)
                self.assertEqual(self.worker.ask("ping")["data"], {})
                self.assertEqual(self.worker.ask("cancel", request=run)["data"], {})
                answer = self.worker.event()
                self.assertEqual((answer["id"], self.error(answer)["code"]), (run, "cancelled"))
                self.assertEqual(self.worker.run("echo", {"a": 1})["data"], {"a": 1})

    def test_a_cancel_that_comes_with_its_execute(self):
        frames = self.worker.frame("execute", self.worker.execution("sleeps"))
        self.worker.write(frames + self.worker.frame("cancel", {"request": self.worker.last}))
        events = [self.worker.event()]
        while events[-1]["event"] != "error":
            events.append(self.worker.event())
        self.assertEqual(self.error(events[-1])["code"], "cancelled")
        self.assertEqual([e["id"] for e in events if e["event"] == "result"], [self.worker.last])

    def test_a_cancel_that_comes_while_the_code_is_loaded(self):
        with Worker({"a.py": """
                import time
                time.sleep(0.3)
                def run(params, ctx): time.sleep(60)
                """}) as worker:
            run = worker.send("execute", **worker.execution("run"))
            cancel = worker.send("cancel", request=run)
            self.assertEqual([worker.event() for _ in range(2)], [
                {"event": "result", "id": cancel, "data": {}},
                {"event": "error", "id": run, "error": {"code": "cancelled", "message": "the execution was cancelled"}}])

    def test_an_action_may_catch_its_cancel(self):
        run = self.worker.begin("swallows")
        self.worker.ask("cancel", request=run)
        self.assertEqual(self.worker.event()["data"], {"cancelled": True, "event": True})

    def test_a_cancel_never_cuts_a_frame(self):
        for _ in range(20):
            run = self.worker.begin("floods")
            cancel = self.worker.send("cancel", request=run)
            answers = {}
            while len(answers) < 2:
                event = self.worker.event()
                if event["event"] != "chunk":
                    answers[event["id"]] = event
            self.assertEqual(self.error(answers[run])["code"], "cancelled")
            self.assertEqual(answers[cancel]["data"], {})

    def test_a_handler_that_reports_in_the_middle_of_a_frame(self):
        self.assertEqual(self.worker.run("signalled")["event"], "result")
        self.assertEqual(sum(event["event"] == "chunk" for event in self.worker.told), 200)
        self.assertIn("signalled", [event.get("message") for event in self.worker.told])

    def test_a_late_cancel_hits_nothing(self):
        run = self.worker.send("execute", **self.worker.execution("echo"))
        self.worker.event()
        self.assertEqual(self.worker.ask("cancel", request=run)["data"], {})
        self.assertEqual(self.worker.run("slow", {"a": 1})["data"], {"a": 1})

    def test_the_reading_role_changes_hands_at_any_moment(self):
        rounds, random = 150, Random(4)
        for _ in range(rounds):
            # From much shorter to somewhat longer than the helper's two checks, so that the role changes at every point.
            run = self.worker.send("execute", **self.worker.execution("pauses", {"s": random.uniform(0, 0.03)}))
            waiting = {run: None}
            for _ in range(random.randrange(3)):
                time.sleep(random.uniform(0, 0.02))
                waiting[self.worker.send(random.choice(["ping", "health_check"]))] = None
            if random.random() < 0.3:
                waiting[self.worker.send("cancel", request=run)] = None
            while None in waiting.values():
                event = self.worker.event()
                self.assertIn(event["id"], waiting)
                self.assertIsNone(waiting[event["id"]], "answered twice")
                waiting[event["id"]] = event
            self.assertIn(waiting[run].get("data", waiting[run].get("error", {}).get("code")), ("done", "cancelled"))

    def test_requests_beside_a_run_are_answered_after_it(self):
        run = self.worker.send("execute", **self.worker.execution("slow", {"a": 1}))
        others = [self.worker.send("health_check"), self.worker.send("end_session", session="x", epoch=1)]
        self.assertEqual([self.worker.event()["id"] for _ in range(3)], [run] + others)
        for n in range(5):  # the reading role goes back and forth
            self.assertEqual(self.worker.run("slow", {"n": n})["data"], {"n": n})

    def test_frames_in_pieces_and_in_one(self):
        frames = b"".join(self.worker.frame("ping", {"n": n}) for n in range(50))
        self.worker.write(frames)
        self.assertEqual([self.worker.event()["id"] for _ in range(50)], list(range(1, 51)))
        for byte in self.worker.frame("ping", {}):
            self.worker.write(bytes([byte]))
        self.assertEqual(self.worker.event()["id"], 51)
        large = {"text": "x" * (3 << 20)}
        self.assertEqual(self.worker.run("echo", large)["data"], large)

    def test_garbage_ends_the_worker(self):
        for garbage in (struct.pack(">I", 0), struct.pack(">I", (16 << 20) + 1), struct.pack(">I", 3) + b"[1]",
                        struct.pack(">I", 2) + b"{x"):
            with Worker() as worker:
                worker.write(garbage)
                self.assertEqual(worker.exit_status(), 2, garbage)
                self.assertIn(b"troupe_worker: a frame", worker.process.stderr.read())

    def test_sessions_keep_state_by_epoch(self):
        self.assertEqual([self.worker.run("count", session=session())["data"][0] for _ in range(3)], [1, 2, 3])
        self.assertEqual(self.worker.run("count", session=session(2, lost=True))["data"], [1, 2, True, True])
        self.assertEqual(self.worker.run("count", session=session(1))["data"][0], 1)  # stale: gets an empty state
        self.assertEqual(self.worker.run("count", session=session(2))["data"][0], 2)
        self.worker.ask("end_session", session="alice", epoch=1)  # too old to drop anything
        self.assertEqual(self.worker.run("count", session=session(2))["data"][0], 3)
        self.worker.ask("end_session", session="alice", epoch=2)
        self.assertEqual(self.worker.run("count", session=session(2))["data"][0], 1)

    def test_snapshot_and_restore(self):
        self.worker.run("count", session=session())
        saved = self.worker.ask("snapshot", session="alice", epoch=1)["data"]["state"]
        with Worker({"a.py": ACTIONS}) as other:
            self.assertEqual(other.ask("restore", session="alice", epoch=2, state=saved)["data"], {})
            self.assertEqual(other.run("count", session=session(2))["data"][0], 2)
            other.ask("restore", session="alice", epoch=3, state=saved)
            behind = other.run("behind", session=dict(session(3), lost=True, runs_behind=4))["data"]
            self.assertEqual(behind, [1, True, 4], "an old state comes with the loss told")
            self.assertEqual(other.run("behind", session=session(3))["data"], [1, False, 0])
        self.worker.run("keeps_a_set", session=session())
        self.assertEqual(self.error(self.worker.ask("snapshot", session="alice", epoch=1))["code"], "result_not_json")

    def test_health_hook(self):
        self.worker.hello("sick")
        self.assertEqual(self.worker.ask("health_check")["data"], {"t/a.py": {"fine": True}})
        self.worker.run("sick")
        self.assertEqual(self.error(self.worker.ask("health_check"))["code"], "health_check_failed")

    def test_children_do_not_hold_the_pipes(self):
        self.assertEqual(self.worker.run("child")["data"], 0)
        self.assertIs(self.worker.run("spawned")["data"], True)

    def test_descendants_keep_files_under_the_numbers_of_the_pipes(self):
        self.assertEqual(self.worker.run("grandchild")["data"], 0)
        self.assertEqual(self.worker.run("replaced")["data"], 0)

    def test_shutdown_exits_0(self):
        self.worker.ask("shutdown")
        self.assertEqual(self.worker.exit_status(), 0)

    def test_shutdown_in_mid_run_exits_0(self):
        self.worker.begin("spins")
        self.worker.ask("shutdown")
        self.assertEqual(self.worker.exit_status(), 0)

    def test_end_of_input_ends_it_idle_or_busy(self):
        self.worker.begin("spins")
        self.worker.close_input()
        self.assertEqual(self.worker.exit_status(), 0)
        with Worker() as idle:
            idle.close_input()
            self.assertEqual(idle.exit_status(), 0)


class LoadTest(unittest.TestCase):
    def load_error(self, files, function="run", file="a.py"):
        with Worker(files) as worker:
            answer = worker.hello(function, file=file)
            self.assertEqual(answer["event"], "error")
            self.assertEqual(answer["error"]["code"], "load_error")
            return answer["error"]

    def test_errors_name_the_action_and_the_cause(self):
        error = self.load_error({"a.py": "import no_such_module"})
        self.assertIn("action t.run: load a.py: ModuleNotFoundError: No module named 'no_such_module'", error["message"])
        self.assertIn("line 1", error["details"]["traceback"])
        self.assertIn("SyntaxError", self.load_error({"a.py": "def run(:"})["message"])
        self.assertIn("no function 'run'", self.load_error({"a.py": "x = 1"})["message"])
        self.assertIn("does not exist", self.load_error({})["message"])
        self.assertIn("out of its pack", self.load_error({}, file="../a.py")["message"])
        self.assertIn("out of its pack", self.load_error({}, file="/etc/passwd")["message"])

    def test_an_execute_of_a_missing_file(self):
        with Worker() as worker:
            self.assertEqual(worker.run("run")["error"]["code"], "load_error")

    def test_a_module_is_loaded_once_and_may_import_its_pack(self):
        files = {"actions/a.py": """
            from helper import ONE
            from .near import TWO
            from ..lib.far import THREE
            loads = []
            loads.append(1)
            def run(params): return [ONE, TWO, THREE, len(loads), __name__.startswith("troupe_pack_")]
            def other(params): loads.append(1); return len(loads)
            """, "helper.py": "ONE = 1", "actions/near.py": "TWO = 2", "lib/far.py": "THREE = 3"}
        with Worker(files) as worker:
            self.assertEqual(worker.hello("run", "other", file="actions/a.py")["event"], "result")
            self.assertEqual(worker.run("other", file="actions/a.py")["data"], 2)
            self.assertEqual(worker.run("run", file="actions/a.py")["data"], [1, 2, 3, 2, True])

    def test_hooks_save_and_restore_a_state(self):
        files = {"a.py": """
            def run(params, ctx):
                ctx.session.state.setdefault("seen", set()).add(params["n"])
                return sorted(ctx.session.state["seen"])
            def snapshot(state): return sorted(state["seen"])
            def restore(saved): return {"seen": set(saved)}
            """}
        with Worker(files) as worker, Worker(files) as other:
            worker.run("run", {"n": 1}, session=session())
            saved = worker.ask("snapshot", session="alice", epoch=1)["data"]["state"]
            other.hello("run")
            other.ask("restore", session="alice", epoch=2, state=saved)
            self.assertEqual(other.run("run", {"n": 2}, session=session(2))["data"], [1, 2])
            answer = worker.ask("restore", session="bob", epoch=1, state={"hook": "t/gone.py", "state": 1})
            self.assertIn("t/gone.py", answer["error"]["message"])

    def test_serve_serves_a_table(self):
        program = """
            import sys
            sys.path.insert(0, %r)
            import troupe_worker
            troupe_worker.serve({"t.echo": lambda params: params, "short": lambda p, ctx: ctx.action},
                                health=lambda: {"ok": 1})
            """ % SDK
        with Worker({"main.py": program}) as files:
            with Worker(argv=[sys.executable, files.root.name + "/main.py"]) as worker:
                self.assertEqual(worker.hello("echo", "short")["event"], "result")
                self.assertIn("does not serve action 't.gone'", worker.hello("gone")["error"]["message"])
                self.assertEqual(worker.run("echo", {"a": 1})["data"], {"a": 1})
                self.assertEqual(worker.run("short")["data"], "t.short")
                self.assertEqual(worker.ask("health_check")["data"], {"health": {"ok": 1}})


if __name__ == "__main__":
    unittest.main()

"""Only its own run feels what an action does, raises and leaves behind, and what a node sends that cannot be read."""

import json
import os
import signal
import unittest

from harness import Worker

ACTIONS = r"""
import asyncio, functools, os, signal, sys, threading, time
from troupe_worker import ActionError, Cancelled, Final

def echo(params, ctx):
    return params

def count(params, ctx):
    ctx.session.state["n"] = ctx.session.state.get("n", 0) + 1
    return ctx.session.state["n"]

class Property(Exception):
    @property
    def code(self): raise RuntimeError("no context")
    details = worker_fault = retriable = code

class OwnProperty(ActionError):
    code = retriable = details = worker_fault = property(lambda self: sys.exit("no"), lambda self, value: None)

class NoText(Exception):
    def __str__(self): raise SystemExit(3)

class NoTextOwn(ActionError):
    def __str__(self): raise KeyboardInterrupt()
    __repr__ = __str__

class Text(str):
    def __str__(self): return self
    def __len__(self): raise ValueError("no length")
    def __getitem__(self, key): sys.exit("no item")
    encode = __getitem__

class Meta(type):
    @property
    def __name__(cls): raise MemoryError()
    @property
    def __mro__(cls): raise RecursionError()

class Named(Exception, metaclass=Meta): pass

class Repr:
    def __repr__(self): raise ValueError("no repr")
    def __bool__(self): raise ValueError("no truth")

class Lazy(dict):
    def items(self): raise KeyError("lazy")

class Endless(dict):
    def items(self):
        while True: yield "a", 1

def again(depth):
    return again(depth + 1)

def looped():
    error = ValueError("x")
    error.__cause__ = error
    error.__context__ = error
    return error

ERRORS = {
    "property": lambda: Property("x"), "own property": lambda: OwnProperty("x"), "no text": NoText, "no own text": lambda: NoTextOwn("x"),
    "text": lambda: ValueError(Text("x")), "code text": lambda: ActionError("x", code=Text("mine")), "meta": Named, "loop": looped,
    "repr": lambda: ActionError("x", details=Repr()), "key": lambda: ActionError("x", details={("a", 1): 2}),
    "nan": lambda: ActionError("x", details={"a": [float("nan")]}), "lazy": lambda: ActionError("x", details=Lazy(a=1)),
    "endless": lambda: ActionError("x", details=Endless()), "details": lambda: ActionError("x", details="\u00e9" * 20_000_000),
    "message": lambda: ActionError("m" * 20_000_000), "code": lambda: ActionError("x", code="k" * 9_000_000),
    "name": lambda: type("N" * 1_000_000, (Exception,), {})("x"), "exit": lambda: SystemExit(Repr()), "cancelled": Cancelled,
    "generator": GeneratorExit, "keyboard": KeyboardInterrupt, "group": lambda: Exception(*[Repr()] * 10),
}

def fails(params, ctx):
    raise ERRORS[params["how"]]()

def recursive(params, ctx):
    again(0)

def codes(params, ctx):
    class Foreign(Exception):
        code, retriable, worker_fault, details = params["code"], False, True, 1
    raise Foreign("x")

def own_code(params, ctx):
    raise ActionError("x", code=params["code"])

def exits(params, ctx):
    sys.exit(params["code"])

def derived(params, ctx):
    class Base(LookupError): pass
    class Mixed: pass
    class Derived(Mixed, Base): pass
    raise Derived("x")

class Number(int):
    def __repr__(self): return "no number"
class Half(float):
    def __repr__(self): return "no number"
Twice = type("Twice", (str,), {"__hash__": lambda self: id(self), "__eq__": lambda self, other: self is other})
shared = []
for _ in range(60):
    shared = [shared, shared]
cycle = {}
cycle["a"] = [cycle]

VALUES = {
    "nan": {"deep": [{"a": float("nan")}]}, "infinity": [1, -float("inf")], "set": {"a/b": {"~": {1}}}, "number name": {"a": {1: 2}},
    "long": {"n": 10 ** 1000}, "twice": {"a": {Twice("b"): 1, Twice("b"): 2}}, "lazy": [Lazy(a=1)], "cycle": cycle, "shared": shared,
    "endless": Endless(), "many": ["x" * 1_000_000] * 1000, "deep": functools.reduce(lambda v, _: [v], range(100), [1]), "bytes": {"b": b"x"},
    "half": {"a": ["\ud83d\ude00", "x\udc00"]}, "half name": {"\ud800": 1},
    "subclasses": {"n": Number(5), "f": Half(-0.0), "t": Text("x"), "d": __import__("collections").OrderedDict(a=1), "tuple": (1, (2,))},
    "largest": {"n": 10 ** 1000 - 1, "deep": functools.reduce(lambda v, _: [v], range(98), []), "text": "\u00e9\U0001f600\x00\\ud800"},
}

def returns(params, ctx):
    return VALUES[params["what"]]

def chunks(params, ctx):
    ctx.chunk(VALUES[params["what"]])

def large_chunk(params, ctx):
    ctx.chunk("c" * 17_000_000)

def caught_chunk(params, ctx):
    try:
        ctx.chunk(float("inf"))
    except ValueError as exc:
        return type(exc).__name__

def keeps(params, ctx):
    ctx.session.state["v"] = VALUES[params["what"]]

def odd_state(params, ctx):
    ctx.session.state = Repr()

def odd_progress(params, ctx):
    for fraction in (float("nan"), "abc", 10 ** 400, -float("inf"), [], "0.5"):
        ctx.progress(fraction, "x" * 1_000_000)
    ctx.log("info", "\u00e9" * 9_000_000)

def digits(params, ctx):
    sys.set_int_max_str_digits(0)

def interrupted(params, ctx):
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(10)

def replaces_stdout(params, ctx):
    class Odd:
        def flush(self): sys.exit("no flush")
        def write(self, text): sys.exit("no write")
    sys.stdout = sys.stderr = Odd()
"""


def session(epoch=1):
    return {"id": "alice", "epoch": epoch, "lost": False, "hit": True}


class Base(unittest.TestCase):
    files = {"a.py": ACTIONS}

    def setUp(self):
        self.worker = Worker(self.files).__enter__()
        self.addCleanup(self.worker.__exit__)

    def error(self, answer):
        self.assertEqual(answer["event"], "error", answer)
        return answer["error"]


class ErrorsTest(Base):
    def tearDown(self):
        self.assertEqual(self.worker.run("echo", {"still": 1})["data"], {"still": 1})

    def test_every_error_gets_out(self):
        for how, code in (
                ("property", "action_error"), ("own property", "action_error"), ("no text", "action_error"), ("no own text", "action_error"),
                ("text", "action_error"), ("code text", "mine"), ("meta", "action_error"), ("loop", "action_error"), ("repr", "action_error"),
                ("key", "action_error"), ("nan", "action_error"), ("lazy", "action_error"), ("endless", "action_error"),
                ("details", "action_error"), ("message", "action_error"), ("code", "action_error"), ("name", "action_error"),
                ("exit", "action_error"), ("cancelled", "action_error"), ("generator", "action_error"), ("keyboard", "action_error"),
                ("group", "action_error")):
            with self.subTest(how):
                error = self.error(self.worker.run("fails", {"how": how}, session=session()))
                self.assertEqual(error["code"], code)
                self.assertLessEqual(len(json.dumps(error)), 64 << 10)
        self.assertIn("RecursionError", self.error(self.worker.run("recursive"))["message"])
        self.assertEqual(self.worker.run("count", session=session())["data"], 1)

    def test_details_that_cannot_be_sent_are_left_out(self):
        self.assertIn("left out: the details is not JSON: /a/0 is NaN", self.error(self.worker.run("fails", {"how": "nan"}))["details"])
        error = self.error(self.worker.run("fails", {"how": "details"}))
        self.assertIn("left out: the details has more than the 8388608 bytes", error["details"])
        self.assertIs(error["retriable"], False, "the next attempt would have them too")

    def test_only_an_action_error_sets_a_code(self):
        for code in ("cancelled", "poisoned", "validation", "e3q8", "a\nb", 75):
            for function in ("codes", "exits"):
                error = self.error(self.worker.run(function, {"code": code}))
                self.assertEqual(error["code"], "action_error")
                self.assertNotIn("retriable", error)
                self.assertNotIn("worker_fault", error)
        self.assertEqual(self.error(self.worker.run("own_code", {"code": "a-B.9_" + "x" * 58}))["code"], "a-B.9_" + "x" * 58)
        for code in ("", "a b", "a\n", "x" * 65, 5):
            error = self.error(self.worker.run("own_code", {"code": code}))
            self.assertEqual(error["code"], "action_error")
            self.assertIn("(its code %r is none" % code, error["message"])

    def test_cancelled_without_a_cancel_is_a_failure(self):
        self.assertEqual(self.error(self.worker.run("fails", {"how": "cancelled"}))["type"], "Cancelled")

    def test_an_error_names_its_base_classes(self):
        error = self.error(self.worker.run("derived"))
        self.assertEqual((error["type"], error["types"]), ("Derived", ["Derived", "Base", "LookupError", "Exception"]))
        self.assertEqual(self.error(self.worker.run("exits", {"code": 1}))["types"], ["SystemExit"])


class ValuesTest(Base):
    REFUSED = (
        ("nan", "/deep/0/a is NaN"), ("infinity", "/1 is -Infinity"), ("set", "/a~1b/~0 is of type set"),
        ("number name", "/a has a name of type int, 1"), ("long", "/n has more than 1000 digits"), ("twice", "/a has the name 'b' twice"),
        ("lazy", "/0 could not be read: KeyError: 'lazy'"), ("cycle", "is nested deeper than 100 levels"), ("deep", "deeper than 100 levels"),
        ("endless", "has the name 'a' twice"), ("bytes", "/b is of type bytes"),
        ("half", "/a/1 has half of a surrogate pair"), ("half name", "it has half of a surrogate pair"))

    def test_a_result_and_a_chunk_that_are_no_json_name_the_path(self):
        for what, why in self.REFUSED:
            for function in ("returns", "chunks"):
                error = self.error(self.worker.run(function, {"what": what}))
                self.assertEqual((error["code"], error["retriable"]), ("result_not_json", False))
                self.assertIn(why, error["message"])
        self.assertEqual(self.worker.run("caught_chunk")["data"], "NotJSON")

    def test_what_is_too_large_is_the_runs_own_final_error(self):
        for function, what in (("returns", "many"), ("returns", "shared"), ("large_chunk", "")):
            error = self.error(self.worker.run(function, {"what": what}))
            self.assertIn(error["code"], ("result_too_large", "result_not_json"))
            self.assertIs(error["retriable"], False)

    def test_values_arrive_as_they_are(self):
        self.assertEqual(self.worker.run("returns", {"what": "subclasses"})["data"], {"n": 5, "f": -0.0, "t": "x", "d": {"a": 1}, "tuple": [1, [2]]})
        answer = self.worker.run("returns", {"what": "largest"})["data"]
        self.assertEqual((answer["n"], answer["text"]), (10 ** 1000 - 1, "\u00e9\U0001f600\x00\\ud800"))

    def test_progress_and_log_cost_no_run(self):
        self.assertEqual(self.worker.run("odd_progress")["event"], "result")
        self.assertEqual([event.get("fraction") for event in self.worker.told], [None, None, None, 0.0, None, 0.5, None])
        self.assertTrue(all(len(event["message"]) <= 64 << 10 for event in self.worker.told))

    def test_a_state_that_is_no_json_is_an_error_of_its_snapshot(self):
        for what, why in (("nan", "snapshot: the session's state is not JSON: /v/deep/0/a is NaN"), ("many", "has more than the 8388608 bytes")):
            self.worker.run("keeps", {"what": what}, session=session())
            self.assertIn(why, self.error(self.worker.ask("snapshot", session="alice", epoch=1))["message"])
        self.assertEqual(self.worker.run("odd_state", session=session())["event"], "result")
        self.assertIn("is of type Repr", self.error(self.worker.ask("snapshot", session="alice", epoch=1))["message"])


class RequestsTest(Base):
    def test_a_request_that_cannot_be_read_is_an_error_of_that_request(self):
        self.worker.run("count", session=session())
        nested = b'{"a":' * 200000 + b"1" + b"}" * 200000
        for body, why in (
                (b'"execute","args":{"parameters":{"n":' + b"1" * 5000 + b"}}}", "5000 digits"),
                (b'"execute","args":{"parameters":{"t":"\xff"}}}', "utf-8"),
                (b'"execute","args":{"parameters":{"a":1,"a":2}}}', "the name 'a' stands twice"),
                (b'"execute","args":{"parameters":{"a":NaN}}}', "NaN is not JSON"),
                (b'"execute","args":{"parameters":' + nested + b"}}", "RecursionError"),
                (b'"restore","args":{"session":"alice","epoch":1,"state":{"hook":null,"state":{"n":' + b"1" * 5000 + b"}}}}", "5000 digits"),
                (b'"hello","args":{"protocol":1,"actions":[{"ref":"\xff"}]}}', "utf-8"),
                (b'"ping","args":{}', "Expecting"),
                (b'"execute","args":[]}', "args: want an object"),
                (b'7,"args":{}}', "command: want a text")):
            answer = self.worker.raw(b'{"id":77,"command":' + body)
            self.assertEqual(answer["id"], 77)
            error = self.error(answer)
            self.assertEqual((error["code"], error["retriable"]), ("invalid_request", False))
            self.assertIn(why, error["message"])
        self.assertEqual(self.worker.run("count", session=session())["data"], 2)

    def test_a_number_that_no_float_can_hold_is_named(self):
        for body, path in ((b'"execute","args":{"parameters":{"a/b":[0.5,{"c":-1e400}]}}}', "/a~1b/1/c is -1e400"),
                           (b'"execute","args":{"parameters":1' + b"0" * 400 + b'.0}}', "it is 1000"),
                           (b'"restore","args":{"session":"alice","epoch":1,"state":{"hook":null,"state":1e999}}}', "/state is 1e999")):
            error = self.error(self.worker.raw(b'{"id":77,"command":' + body))
            self.assertEqual((error["code"], error["retriable"]), ("number_not_exact", False))
            self.assertIn("the request cannot be read: " + path, error["message"])

    def test_one_that_comes_during_a_run(self):
        files = {"a.py": "import time\ndef run(params, ctx):\n    ctx.progress(0)\n    time.sleep(0.5)\n    return 1\n"}
        with Worker(files) as worker:
            run = worker.begin("run")
            answer = worker.raw(b'{"id":77,"command":"ping","args":{"a":1,"a":2}}')
            self.assertEqual((answer["id"], answer["error"]["code"]), (77, "invalid_request"))
            self.assertEqual(worker.event()["id"], run)

    def test_fields_of_a_wrong_type(self):
        execution = self.worker.execution("echo")
        for name, value in (("session", 5), ("session", {}), ("session", {"id": [], "epoch": "x"}), ("deadline_ms", "x"), ("root", 5),
                            ("entrypoint", None), ("entrypoint", []), ("action", {}), ("attempt", "x"), ("execution", [])):
            request = self.worker.send("execute", **dict(execution, **{name: value}))
            self.assertEqual(self.worker.event()["id"], request)
        for command, args in (("restore", {}), ("restore", {"session": [], "epoch": 1, "state": 5}), ("snapshot", {"session": {}}),
                              ("end_session", {"epoch": 1}), ("hello", {"protocol": 1, "actions": 5}), ("hello", {"protocol": 1, "actions": [5]}),
                              ("hello", {"protocol": [1]}), ("no such", {})):
            self.assertEqual(self.error(self.worker.ask(command, **args)).keys() >= {"code", "message"}, True, command)
        self.assertEqual(self.worker.run("echo", {"a": 1})["data"], {"a": 1})

    def test_numbers_without_a_limit_of_the_interpreter(self):
        if hasattr(__import__("sys"), "set_int_max_str_digits"):
            self.worker.run("digits")
            self.assertIn("/n has more than 1000 digits", self.error(self.worker.run("returns", {"what": "long"}))["message"])


class SmallFrameTest(Base):
    def test_a_node_may_read_small_frames_alone(self):
        self.worker.hello("echo", frame_max=64 << 10)
        for function, parameters, code in (("echo", {"a": "\u00e9" * 20000}, "result_too_large"), ("large_chunk", {}, "result_too_large"),
                                           ("fails", {"how": "details"}, "action_error"), ("fails", {"how": "message"}, "action_error"),
                                           ("fails", {"how": "name"}, "action_error")):
            error = self.error(self.worker.run(function, parameters))
            self.assertEqual(error["code"], code)
            self.assertLessEqual(len(json.dumps(error)), 64 << 10)
        self.assertEqual(self.worker.run("odd_progress")["event"], "result")
        self.assertTrue(all(len(json.dumps(event)) <= 64 << 10 for event in self.worker.told))


class ProcessTest(Base):
    def test_an_interrupt_is_of_the_run(self):
        self.assertIn("KeyboardInterrupt", self.error(self.worker.run("interrupted"))["message"])
        os.kill(self.worker.process.pid, signal.SIGINT)
        self.assertEqual(self.worker.run("echo")["data"], {})

    def test_a_replaced_output_costs_no_run(self):
        self.assertEqual(self.worker.run("replaces_stdout")["event"], "result")
        self.assertEqual(self.worker.run("echo")["data"], {})


class HooksTest(Base):
    files = {"a.py": """
        import sys
        class NoText(Exception):
            def __str__(self): raise RuntimeError("no text")
        how = "fine"
        def run(params, ctx):
            global how
            how = params["how"]
            ctx.session.state["a"] = 1
        def act():
            if how == "exit": sys.exit("from the hook")
            if how == "text": raise NoText()
            if how == "nan": return float("nan")
            if how == "false": return False
            return 1
        def snapshot(state): return act()
        def restore(saved): return {"n": act()}
        def health(): return act()
        """}

    def test_a_hook_may_raise_anything(self):
        for how, snapshot, health in (("exit", "snapshot_failed", "health_check_failed"), ("text", "snapshot_failed", "health_check_failed"),
                                      ("nan", "result_not_json", "result_not_json"), ("false", None, "health_check_failed")):
            self.worker.run("run", {"how": how}, session=session())
            for command, args, code in (("snapshot", {"session": "alice", "epoch": 1}, snapshot), ("health_check", {}, health)):
                answer = self.worker.ask(command, **args)
                self.assertEqual(answer.get("error", {}).get("code"), code, answer)
            if how in ("exit", "text"):
                state = {"hook": "t/a.py", "state": 1}
                self.assertEqual(self.worker.ask("restore", session="bob", epoch=1, state=state)["error"]["code"], "restore_failed")
        self.worker.run("run", {"how": "fine"}, session=session())
        self.assertEqual(self.worker.ask("health_check")["data"], {"t/a.py": 1})


class AsyncHooksTest(Base):
    files = {"a.py": """
        import sys
        async def run(params, ctx):
            ctx.session.state["n"] = 1
            sys.exit("from the loop")
        async def snapshot(state): return dict(state)
        async def restore(saved): return dict(saved, restored=True)
        async def health(): return {"fine": True}
        def state(params, ctx): return ctx.session.state
        """}

    def test_hooks_are_awaited(self):
        self.assertIn("sys.exit(from the loop)", self.error(self.worker.run("run", session=session()))["message"])
        saved = self.worker.ask("snapshot", session="alice", epoch=1)["data"]["state"]
        self.assertEqual(self.worker.ask("restore", session="alice", epoch=2, state=saved)["data"], {})
        self.assertEqual(self.worker.run("state", session=session(2))["data"], {"n": 1, "restored": True})
        self.assertEqual(self.worker.ask("health_check")["data"], {"t/a.py": {"fine": True}})


class EndingTest(unittest.TestCase):
    def test_a_module_that_ends_the_process_is_named(self):
        for text, said in (("import sys\nsys.exit(3)", None), ("import os\nos._exit(3)", b"loads a.py for action t.run"),
                           ("import ctypes\nctypes.string_at(0)", b"a.py\", line 2 in <module>")):
            with Worker({"a.py": text}) as worker:
                if said is None:
                    self.assertIn("load a.py: it called sys.exit(3)", worker.hello("run")["error"]["message"])
                    continue
                worker.send("hello", protocol=1, actions=[{"ref": "t.run", "root": worker.root.name, "entrypoint": "a.py:run"}])
                worker.exit_status()
                self.assertIn(said, worker.process.stderr.read())

    def test_a_module_that_exits_while_it_is_loaded_for_a_run(self):
        with Worker({"a.py": "import sys\nsys.exit('no')"}) as worker:
            self.assertIn("it called sys.exit(no)", worker.run("run")["error"]["message"])

    def test_a_crash_leaves_its_stack(self):
        with Worker({"a.py": "import ctypes\ndef run(params):\n    ctypes.string_at(0)\n"}) as worker:
            worker.send("execute", **worker.execution("run"))
            self.assertEqual(worker.exit_status(), -signal.SIGSEGV)
            self.assertIn(b"line 3 in run", worker.process.stderr.read())


if __name__ == "__main__":
    unittest.main()

"""The trace of a run as its action's OpenTelemetry sees it."""

import unittest

from harness import Worker

# What the SDK calls of the package opentelemetry-api, with a list of what was done instead of an exporter.
OPENTELEMETRY = {
    "opentelemetry/__init__.py": "done = []",
    "opentelemetry/context.py": """
        current = "none"
        def attach(context):
            global current
            token, current = current, context
            return token
        def detach(token):
            global current
            current = token
        """,
    "opentelemetry/trace/__init__.py": """
        from opentelemetry import done
        class StatusCode:
            ERROR = "ERROR"
        class Status:
            def __init__(self, code):
                self.code = code
        class Span:
            def set_attribute(self, name, value):
                done.append([name, value])
            def set_status(self, status):
                done.append(["status", status.code])
            def end(self):
                done.append(["end"])
        class Tracer:
            def start_span(self, name, context=None, attributes=None):
                if attributes["troupe.action"] == "t.broken":
                    raise RuntimeError("no spans today")
                done.append(["start", name, context, sorted(attributes.items())])
                return Span()
        def get_tracer(name, version):
            return Tracer()
        def set_span_in_context(span, context):
            return ["in", context]
        """,
    "opentelemetry/trace/propagation/__init__.py": "",
    "opentelemetry/trace/propagation/tracecontext.py": """
        class TraceContextTextMapPropagator:
            def extract(self, carrier):
                return sorted(carrier.items())
        """,
}
ACTIONS = """
    import sys

    def looks(params, ctx):
        from opentelemetry import context
        return context.current

    def fails(params, ctx):
        raise ValueError("no such thing")

    def sleeps(params, ctx):
        import time
        ctx.progress(0)
        time.sleep(60)

    broken = looks

    def done(params, ctx):
        from opentelemetry import context, done
        took, done[:] = list(done), []
        return took

    def loaded(params, ctx):
        return "opentelemetry" in sys.modules
    """
TRACE = [["traceparent", "00-1-2-01"], ["tracestate", "a=1"]]


class Tracing(unittest.TestCase):
    def worker(self, **files):
        worker = Worker(dict({"a.py": ACTIONS}, **files))
        self.addCleanup(worker.__exit__)
        return worker

    def done(self, worker):
        return worker.run("done", trace=None, trace_state=None)["data"]

    def started(self, action):
        return ["start", "process t." + action, TRACE,
                [["troupe.action", "t." + action], ["troupe.attempt", 1], ["troupe.execution.id", "0199"]]]

    def test_the_trace_is_the_current_context(self):
        worker = self.worker(**OPENTELEMETRY)
        self.assertEqual(worker.run("looks")["data"], ["in", TRACE])
        self.assertEqual(self.done(worker), [self.started("looks"), ["end"]])
        self.assertEqual(worker.run("looks", trace=None, trace_state=None)["data"], "none")
        self.assertEqual(self.done(worker), [])

    def test_an_error_is_one_of_the_span_too(self):
        worker = self.worker(**OPENTELEMETRY)
        self.assertEqual(worker.run("fails")["error"]["type"], "ValueError")
        self.assertEqual(self.done(worker),
                         [self.started("fails"), ["error.type", "ValueError"], ["status", "ERROR"], ["end"]])

    def test_a_cancelled_run_ends_its_span(self):
        worker = self.worker(**OPENTELEMETRY)
        run = worker.begin("sleeps")
        worker.send("cancel", request=run)
        ends = [worker.event(), worker.event()]
        self.assertIn("cancelled", [event.get("error", {}).get("code") for event in ends])
        self.assertEqual(self.done(worker)[1:], [["error.type", "Cancelled"], ["status", "ERROR"], ["end"]])

    def test_trouble_costs_no_run(self):
        worker = self.worker(**OPENTELEMETRY)
        self.assertEqual(worker.run("broken")["data"], "none")
        broken = dict(OPENTELEMETRY, **{"opentelemetry/context.py": "raise RuntimeError('broken')"})
        self.assertEqual(self.worker(**broken).run("loaded")["data"], True)

    def test_without_the_package_nothing_happens(self):
        worker = self.worker()
        for _ in range(2):
            self.assertEqual(worker.run("loaded")["data"], False)

    def test_a_run_without_a_trace_loads_nothing(self):
        worker = self.worker(**OPENTELEMETRY)
        self.assertEqual(worker.run("loaded", trace=None, trace_state=None)["data"], False)


if __name__ == "__main__":
    unittest.main()

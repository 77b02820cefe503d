"""OpenTelemetry around a run, if the action's environment has the package opentelemetry (opentelemetry-api).

The run's trace is then the current context of its action, in a span ``process ACTION``, so that spans of the action's
own code belong to the trace. Nothing is exported here: that is what the environment has configured OpenTelemetry for.
Without the package, or for a run without a trace, nothing happens. Trouble with it never costs a run.
"""

import sys

from .version import VERSION

_tried = False


def _api():
    """Return the modules of the package, or None. It is looked for once; later it counts only if a pack has loaded it."""
    global _tried
    if _tried and "opentelemetry.trace" not in sys.modules:
        return None
    _tried = True
    try:
        from opentelemetry import context, trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
    except BaseException:  # it is not there, or it is broken
        return None
    return context, trace, TraceContextTextMapPropagator


def enter(run):
    """Make the trace of a run the current context. Return what leave needs; None: there is none."""
    if not run.trace:
        return None
    api = _api()
    if api is None:
        return None
    context, trace, propagator = api
    try:
        carrier = {"traceparent": run.trace}
        if run.trace_state:
            carrier["tracestate"] = run.trace_state
        parent = propagator().extract(carrier)
        attributes = {"troupe.execution.id": run.execution, "troupe.action": run.action, "troupe.attempt": run.attempt}
        span = trace.get_tracer("troupe_worker", VERSION).start_span(
            "process " + str(run.action), context=parent, attributes=attributes)
        return context, trace, span, context.attach(trace.set_span_in_context(span, parent))
    except BaseException:
        return None


def leave(entered, error=None):
    """End what enter has begun; error is the exception that the action ended with."""
    if entered is None:
        return
    context, trace, span, token = entered
    try:
        if error is not None:
            span.set_attribute("error.type", type(error).__qualname__)
            span.set_status(trace.Status(trace.StatusCode.ERROR))
        span.end()
        context.detach(token)
    except BaseException:
        pass

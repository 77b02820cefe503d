// OpenTelemetry around a run, if the action's code has registered it: the package @opentelemetry/api with an SDK for it. The run's
// trace is then the active context of its action, in a span "process ACTION", so that spans of the action's own code belong to the
// trace. Nothing is exported here: that is the SDK's. Without one, or for a run without a trace, the action is simply called. Trouble
// with it never costs a run.

import { createRequire } from "node:module";

// Where the package keeps what an SDK has registered. Without that, loading the package would be of no use.
const REGISTERED = Symbol.for("opentelemetry.js.api.1");

let api; // undefined: not looked for; null: it cannot be loaded

/** Call the action, with its trace as the active context where that can be. path is a file beside the action's code. */
export function traced(context, path, call) {
  if (context.trace === null || globalThis[REGISTERED] === undefined) return call();
  const run = begin(context, path);
  if (run === null) return call();
  let value, waits;
  try {
    value = api.context.with(run.active, call);
    waits = typeof value?.then === "function";
  } catch (error) {
    end(run.span, error);
    throw error;
  }
  if (!waits) {
    end(run.span);
    return value;
  }
  return Promise.resolve(value).then(
    (result) => (end(run.span), result),
    (error) => {
      end(run.span, error);
      throw error;
    },
  );
}

function begin({ trace, traceState, execution, action, attempt }, path) {
  try {
    api ??= load(path);
    if (api === null) return null;
    const [, traceId, spanId, flags] = trace.split("-");
    const remote = { traceId, spanId, traceFlags: Number.parseInt(flags, 16), isRemote: true };
    if (traceState) remote.traceState = api.createTraceState(traceState);
    const parent = api.trace.setSpanContext(api.ROOT_CONTEXT, remote);
    const attributes = { "troupe.execution.id": execution, "troupe.action": action, "troupe.attempt": attempt };
    const span = api.trace.getTracer("troupe_worker").startSpan(`process ${action}`, { attributes }, parent);
    return { span, active: api.trace.setSpan(parent, span) };
  } catch {
    return null;
  }
}

function end(span, error) {
  try {
    if (error !== undefined) {
      span.setAttribute("error.type", error?.name ?? typeof error);
      span.setStatus({ code: api.SpanStatusCode.ERROR });
    }
    span.end();
  } catch {
    // it is the trace's loss
  }
}

/** The package as the action's code finds it, or as the program does. */
function load(path) {
  for (const from of [path, process.argv[1]]) {
    try {
      return createRequire(from)("@opentelemetry/api");
    } catch {
      // the next one may find it
    }
  }
  return null;
}

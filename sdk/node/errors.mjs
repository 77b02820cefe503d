// The errors of a worker, and how they are reported to the node.

const TEXT_MAX = 16 << 10; // characters of a message

/** Thrown by an action to end its execution with its own code. retriable undefined: Troupe decides by the code, the type and the text. */
export class ActionError extends Error {
  constructor(message, { code = "action_error", retriable, details, workerFault = false } = {}) {
    super(message);
    Object.assign(this, { name: "ActionError", code, retriable, details, workerFault });
  }
}

/** Thrown by an action for an error that another run may not have: it is retried while it has retries left. */
export class Retriable extends ActionError {
  constructor(message, options = {}) {
    super(message, { ...options, retriable: true });
    this.name = "Retriable";
  }
}

/** Thrown by an action for an error that every other run would have too: it is never retried. */
export class Final extends ActionError {
  constructor(message, options = {}) {
    super(message, { ...options, retriable: false });
    this.name = "Final";
  }
}

/** The reason of ctx.signal when the execution is cancelled. */
export class Cancelled extends Error {
  constructor() {
    super("the execution was cancelled");
    this.name = "Cancelled";
  }
}

export class RequestError extends Error {
  constructor(code, message, details) {
    super(message);
    Object.assign(this, { code, details });
  }
}

export function describe(error, cancelled) {
  if (cancelled && (error instanceof Cancelled || error?.name === "AbortError")) return { code: "cancelled", message: "the execution was cancelled" };
  if (error instanceof RequestError) return { code: "action_not_found", message: clip(error.message), details: error.details };
  const own = error instanceof ActionError;
  return {
    code: own ? String(error.code).slice(0, 128) : "action_error",
    message: clip(own ? error.message : error),
    type: typeName(error),
    retriable: typeof error?.retriable === "boolean" ? error.retriable : undefined,
    worker_fault: error?.workerFault === true ? true : undefined,
    details: (own ? error.details : undefined) ?? { type: error?.name ?? typeof error, stack: tail(error) },
  };
}

/** The name of the error's own class, if it has one, as in the first line of an uncaught error. */
function typeName(error) {
  return String(error?.name ?? typeof error).slice(0, 128);
}

export function clip(text) {
  return String(text).slice(0, TEXT_MAX);
}

export function tail(error) {
  return String(error?.stack ?? error).slice(0, TEXT_MAX / 2);
}

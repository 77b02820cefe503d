// The errors of a worker, and how they are reported to the node. What an action throws can be any value: its properties may
// throw when they are read, and a text of it may have any length. So it is read through attempt only.

const TEXT_MAX = 16 << 10; // characters of a message
const NAME_MAX = 128; // characters of a type or code
const TYPES_MAX = 16; // names of base classes
const DETAILS_MAX = 8 << 20; // bytes
const NOTHING = "an error that cannot be described";

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

/** An error of the request itself, such as code that cannot be loaded. */
export class RequestError extends Error {
  constructor(code, message, details) {
    super(message);
    Object.assign(this, { code, details });
  }
}

/** What read returns, or otherwise where it throws: the one way to read what is not ours. */
export function attempt(read, otherwise) {
  try {
    return read();
  } catch {
    return otherwise;
  }
}

/** Any value as a text, of at most max characters. */
export function text(value, max = TEXT_MAX) {
  const whole = attempt(() => String(value)) ?? attempt(() => Object.prototype.toString.call(value));
  return (whole ?? NOTHING).slice(0, max);
}

export const clip = text;

/** Where an error was thrown. */
export function tail(error) {
  return text(attempt(() => error.stack) ?? error, TEXT_MAX / 2);
}

/** The error of an execution, ready for JSON but for its details, which may be any value. */
export function describe(error, cancelled) {
  const is = (type) => attempt(() => error instanceof type, false);
  if (cancelled && (is(Cancelled) || attempt(() => error.name === "AbortError"))) return { code: "cancelled", message: "the execution was cancelled" };
  if (is(RequestError)) return { code: "action_not_found", message: clip(error.message), details: error.details };
  const own = is(ActionError);
  const retriable = own ? attempt(() => error.retriable) : undefined; // such words of other errors are not meant for Troupe
  return {
    code: own ? text(attempt(() => error.code) ?? "action_error", NAME_MAX) : "action_error",
    message: clip(own ? attempt(() => error.message) : error),
    type: typeName(error),
    types: bases(error),
    retriable: typeof retriable === "boolean" ? retriable : undefined,
    worker_fault: own && attempt(() => error.workerFault) === true ? true : undefined,
    details: (own ? attempt(() => error.details, "the details cannot be read") : undefined) ?? { type: typeName(error), stack: tail(error) },
  };
}

/** The name of the error's own class, if it has one, as in the first line of an uncaught error. */
function typeName(error) {
  return text(attempt(() => error.name) ?? typeof error, NAME_MAX);
}

/** The names of the error's class and of its base classes, most derived first; undefined for what is no object of a class. */
function bases(error) {
  const names = [];
  attempt(() => {
    for (let at = Object.getPrototypeOf(error); at !== null && at !== Object.prototype && names.length < TYPES_MAX; at = Object.getPrototypeOf(at)) {
      const name = attempt(() => at.constructor.name);
      if (typeof name === "string" && name !== "" && !names.includes(name)) names.push(name.slice(0, NAME_MAX));
    }
  });
  return names.length > 0 ? names : undefined;
}

/** The described error as JSON text that always fits: whole, without its details, or a fixed text. encode encodes details. */
export function errorText({ details, ...rest }, encode) {
  const head = attempt(() => JSON.stringify(rest), `{"code":"action_error","message":"${NOTHING}"}`);
  if (details === undefined || details === null) return head;
  let tailText;
  try {
    tailText = encode(details, "details", DETAILS_MAX);
  } catch (error) {
    tailText = attempt(() => JSON.stringify(`left out: ${text(error.message)}`), '"left out"');
  }
  return `${head.slice(0, -1)},"details":${tailText}}`;
}

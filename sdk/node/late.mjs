// Whose code is running: each run and each hook has its own asynchronous context. An error that nobody catches is charged to
// the one that it comes from, and never to the run that happens to be on the worker.

import { AsyncLocalStorage } from "node:async_hooks";
import { writeSync } from "node:fs";
import { attempt, text } from "./errors.mjs";

const contexts = new AsyncLocalStorage();

/** End this process. Actions and hooks have a process.exit of their own, see guard. */
export const exit = process.exit.bind(process);

/** What runs code of an action: a run, or a hook. fail ends it with an error, while it lasts. */
export class Scope {
  ended = false;
  fail = null; // set while somebody waits for the end
  #before = null;

  constructor({ name, execution = "", attempt: number = 0, hook = false }) {
    Object.assign(this, { name, execution, attempt: number, hook });
  }

  /** Call body in the scope. */
  enter(body) {
    return contexts.run(this, body);
  }

  /** The value of what body returned, or an error of the scope that nobody caught, whichever comes first. */
  settled(value) {
    const failed = new Promise((_, reject) => (this.fail = reject));
    return Promise.race([value, failed]);
  }

  /** Note what keeps the process busy before the scope. */
  begin() {
    this.#before = left();
  }

  /** What the scope has begun and not ended, in words; empty: nothing. */
  leftBehind() {
    const more = Object.entries(left()).map(([what, count]) => [what, count - this.#before[what]]);
    return more.filter(([, count]) => count > 0).map(([what, count]) => `${what}: ${count}`).join(", ");
  }
}

// What is counted of what a run leaves behind. Open connections are not: pools of them are meant to stay.
const KINDS = { Timeout: "timers", ProcessWrap: "child processes", Worker: "threads" };

function left() {
  const counts = { timers: 0, "child processes": 0, threads: 0 };
  for (const kind of process.getActiveResourcesInfo?.() ?? []) if (kind in KINDS) counts[KINDS[kind]]++;
  return counts;
}

/** Take what nobody catches. fault gets the error and its scope, undefined where it is not known; say gets late output. */
export function guard(fault, say) {
  const taken = (error) => {
    const scope = contexts.getStore();
    if (scope && !scope.ended && scope.fail) scope.fail(error);
    else fault(scope, error);
  };
  process.on("uncaughtException", taken);
  process.on("unhandledRejection", taken);
  process.exit = (status) => {
    const scope = contexts.getStore();
    if (scope && (scope.ended || scope.hook)) throw new Error(`${scope.name} called process.exit(${text(status, 32)})${scope.ended ? " after its end" : ""}`);
    exit(status);
  };
  for (const stream of [process.stdout, process.stderr]) {
    const write = stream.write.bind(stream);
    stream.write = (data, encoding, done) => {
      const scope = contexts.getStore();
      if (!scope?.ended || scope.hook) return write(data, encoding, done);
      say(`${scope.name}, after its end: ${printed(data)}`);
      const called = typeof encoding === "function" ? encoding : done;
      if (typeof called === "function") process.nextTick(called);
      return true;
    };
  }
}

function printed(data) {
  return text(attempt(() => (typeof data === "string" ? data : Buffer.from(data).toString()))).trimEnd();
}

let loading = null;

/** Load a file of a pack, by its name. If the process ends meanwhile, standard error says which file it was. */
export async function loads(file, load) {
  loading = file;
  try {
    return await load();
  } finally {
    loading = null;
  }
}

process.on("exit", (status) => {
  if (loading !== null) attempt(() => writeSync(2, `troupe_worker: the process ended with status ${status} while it loaded ${loading}\n`));
});

/** The file that is being loaded; null: none. */
export function loadingNow() {
  return loading;
}

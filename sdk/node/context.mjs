// The execution, as its action sees it.

import { ActionError, Cancelled, Final, Retriable, attempt, clip } from "./errors.mjs";
import { CHUNK_MAX } from "./frames.mjs";
import { encode } from "./json.mjs";

const LEVELS = ["debug", "info", "warn", "error"];

/** One execution, as its action sees it. signal is an AbortSignal that is aborted by a cancel; session may be null. */
export class Context {
  #worker;
  #request;
  #abort = null;
  closing = false;
  ended = false; // what code of the run says after its end concerns nobody

  constructor(worker, request, args, session) {
    this.#worker = worker;
    this.#request = request;
    this.execution = args.execution;
    this.attempt = args.attempt ?? 1;
    this.action = args.action;
    this.session = session;
    this.retryCount = args.retry_count ?? 0;
    this.trace = args.trace ?? null; // W3C traceparent; null: there is none
    this.traceState = args.trace_state ?? null; // W3C tracestate
    this.deadline = args.deadline_ms ? performance.now() + args.deadline_ms : null; // on performance.now()'s clock
  }

  // The errors of this SDK, for actions of packs, which have no path to import it from: throw new ctx.Final("no such city").
  get ActionError() {
    return ActionError;
  }

  get Retriable() {
    return Retriable;
  }

  get Final() {
    return Final;
  }

  /** Milliseconds left to the run's deadline, never below 0; null where there is none. */
  remaining() {
    return this.deadline === null ? null : Math.max(0, this.deadline - performance.now());
  }

  /** Whether the execution is cancelled: for code that computes without a pause, during which signal cannot fire. */
  get cancelled() {
    return this.#worker.isCancelled(this.#request);
  }

  get signal() {
    if (this.#abort === null) {
      this.#abort = new AbortController();
      if (this.cancelled) this.#abort.abort(new Cancelled());
    }
    return this.#abort.signal;
  }

  throwIfCancelled() {
    if (this.cancelled) throw new Cancelled();
  }

  /** Report how far the run is: a fraction from 0 to 1 (or null) and a short text. */
  progress(fraction = null, message = "") {
    const given = fraction === null ? NaN : attempt(() => Number(fraction), NaN);
    const part = Number.isNaN(given) ? null : Math.min(1, Math.max(0, given)); // what is no number is no fraction, and no error
    this.#emit({ event: "progress", fraction: part, message: clip(message) });
  }

  /** Stream a piece of the result, any JSON value. Throws an ActionError for what is not JSON, or too large. */
  chunk(data) {
    const text = encode(data ?? null, "the chunk", CHUNK_MAX);
    if (!this.ended) this.#worker.send(`{"event":"chunk","id":${this.#request},"data":${text}}`);
  }

  /** Write a log line of the run; level is debug, info, warn or error. */
  log(level, message) {
    if (!LEVELS.includes(level)) throw new RangeError(`log level ${clip(level, 64)}: want debug, info, warn or error`);
    this.#emit({ event: "log", level, message: clip(message) });
  }

  /** Request that this worker is replaced after the execution. */
  closeWorker() {
    this.closing = true;
  }

  cancel() {
    this.#abort?.abort(new Cancelled());
  }

  #emit(event) {
    if (!this.ended) this.#worker.send(JSON.stringify({ id: this.#request, ...event }));
  }
}

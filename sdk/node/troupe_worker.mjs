// Run actions in a Troupe worker process. A node starts main.mjs for its node pools and calls the functions that packs
// name as their entrypoints: f(params, ctx), async or not. A separate program (runtime: process) calls serve:
//
//     import { serve } from "./troupe_worker.mjs";
//     serve({ "mypack.greet": async (params, ctx) => ({ greeting: "hello " + params.name }) });
//
// It uses only Node's own modules. docs/protocol.md describes the protocol. A separate thread reads the requests
// (reader.mjs) and answers ping and cancel. Actions and hooks run in the main thread, as in any other program.

import { Worker as Thread } from "node:worker_threads";
import { Context } from "./context.mjs";
import { ActionError, Cancelled, Final, RequestError, Retriable, clip, describe, tail } from "./errors.mjs";
import { Output, complain, parse } from "./frames.mjs";
import { Files, Table } from "./loader.mjs";
import { Shared } from "./shared.mjs";
import { traced } from "./tracing.mjs";

export { ActionError, Cancelled, Context, Files, Final, Retriable };
export const VERSION = "0.1.0";
const PROTOCOL = 1;
const RESULT_MAX = 8 << 20; // bytes of a result; a larger one fails its execution
const CAPABILITIES = { ping_while_busy: true, cancel: true, sessions: true, snapshot: true, health_check: true };

/** Serve a table of actions on descriptors 3 and 4. hooks: { health, snapshot, restore }, each optional. */
export function serve(actions, hooks = {}) {
  new Worker(new Table(actions, hooks)).run();
}

/** One worker process. code finds the actions. */
export class Worker {
  #code;
  #sessions = new Map(); // id: { id, epoch, lost, hit, state, source }
  #running = null; // { id, context }
  #queue = Promise.resolve(); // work that must run one after the other
  #shared = new Shared();
  #output = new Output(this.#shared, () => process.exit(0));

  constructor(code) {
    this.#code = code;
  }

  /** Serve requests until the node ends this process. */
  run() {
    // No environment and no flags: modules from NODE_OPTIONS are for the main thread. Its own output streams are not used.
    const options = { workerData: this.#shared.memory, env: {}, execArgv: [], stdout: true, stderr: true };
    const reader = new Thread(new URL("./reader.mjs", import.meta.url), options);
    reader.on("message", (message) => this.#received(message));
    reader.on("error", fatal);
    reader.on("exit", (status) => fatal(new Error(`the reading thread ended with status ${status}`)));
  }

  send(text) {
    this.#output.send(text);
  }

  /** Whether the execute of id request is cancelled. It is true at once, also while no message can be received. */
  isCancelled(request) {
    return this.#shared.isCancelled(request);
  }

  /** Handle a message of the reading thread: a small request as text, a large one as bytes, or its decision. */
  #received(message) {
    if (typeof message === "string") return this.#handle(JSON.parse(message));
    if (message instanceof ArrayBuffer) return this.#large(message);
    if (message.end !== undefined) return process.exit(message.end);
    this.#cancel(message.cancel);
  }

  #large(bytes) {
    let request;
    try {
      request = parse(Buffer.from(bytes).toString());
    } catch (error) {
      fatal(error);
    }
    this.#handle(request);
  }

  #handle({ id, command, args = {} }) {
    switch (command) {
      case "execute":
        return void this.#execute(id, args);
      case "ping": // a large one, as is a cancel that comes here
        return this.#answer(id, {});
      case "cancel":
        this.#shared.cancel(args.request);
        this.#answer(id, {});
        return this.#cancel(args.request);
      case "shutdown":
        this.#answer(id, {});
        return process.exit(0);
    }
    const run = { hello: this.#hello, health_check: this.#health, snapshot: this.#snapshot, restore: this.#restore, end_session: this.#end }[command];
    if (!run) return this.#fail(id, { code: "unknown_command", message: `unknown command ${clip(command)}` });
    this.#queue = this.#queue.then(async () => {
      try {
        this.#answer(id, (await run.call(this, args)) ?? {});
      } catch (error) {
        const code = error instanceof RequestError ? error.code : `${command}_failed`;
        this.#fail(id, { code, message: clip(error?.message ?? error), details: error?.details ?? { stack: tail(error) } });
      }
    });
  }

  async #execute(id, args) {
    const running = (this.#running = { id, context: null });
    let session = null;
    try {
      const { call, source, path } = this.#code.loaded(args) ?? (await this.#code.find(args));
      session = args.session ? this.#enter(args.session, source) : null;
      running.context = new Context(this, id, args, session);
      running.context.throwIfCancelled();
      const value = traced(running.context, path, () => call(args.parameters, running.context));
      const data = typeof value?.then === "function" ? await value : value;
      this.#finish(id, encode(data), running.context.closing);
    } catch (error) {
      this.#fail(id, describe(error, running.context?.cancelled), running.context?.closing);
    }
    this.#running = null;
    if (session && Object.keys(session.state).length === 0) this.#sessions.delete(session.id);
  }

  /** Cancel the run's context. A run whose code is still loading has none, and checks for the cancel before it starts. */
  #cancel(request) {
    if (this.#running?.id === request) this.#running.context?.cancel();
  }

  async #hello({ protocol, actions }) {
    if (protocol !== PROTOCOL) throw new RequestError("load_error", `the node speaks protocol ${protocol} and this SDK ${PROTOCOL}`);
    for (const action of actions ?? []) {
      try {
        await this.#code.find(action);
      } catch (error) {
        throw new RequestError("load_error", `action ${action.ref}: ${error.message}`, error.details);
      }
    }
    return { protocol: PROTOCOL, sdk: "node", version: VERSION, pid: process.pid, capabilities: CAPABILITIES };
  }

  async #health() {
    const said = {};
    for (const [source, hook] of this.#code.healthHooks()) {
      said[source] = (await hook()) ?? null;
      if (said[source] === false) throw new Error(`health() of ${source} returned false`);
    }
    return said;
  }

  /** The session of an execution: with the state that is kept here, or with an empty one if its epoch is newer. */
  #enter({ id, epoch = 0, lost = false, hit = false, runs_behind: runsBehind = 0 }, source) {
    let held = this.#sessions.get(id);
    if (held === undefined || held.epoch < epoch) this.#sessions.set(id, (held = { id, epoch, state: {} }));
    else if (held.epoch > epoch) held = { id, epoch, state: {} }; // a stale placement must not see what came later
    return Object.assign(held, { lost, hit, runsBehind, source });
  }

  async #snapshot({ session, epoch }) {
    const held = this.#sessions.get(session);
    if (held?.epoch !== epoch) return { state: null };
    const hooks = this.#code.hooks(held.source);
    return { state: hooks ? { hook: held.source, state: await hooks.snapshot(held.state) } : { hook: null, state: held.state } };
  }

  async #restore({ session, epoch, state: saved }) {
    const held = { id: session, epoch, state: saved?.state ?? {}, source: saved?.hook ?? null };
    const hooks = held.source === null ? null : this.#code.hooks(held.source);
    if (held.source !== null && !hooks) throw new Error(`no restore hook of ${held.source} is loaded`);
    if (hooks) held.state = await hooks.restore(saved.state);
    this.#sessions.set(session, held);
  }

  #end({ session, epoch }) {
    if (this.#sessions.get(session)?.epoch <= epoch) this.#sessions.delete(session);
  }

  #answer(id, data) {
    this.#finish(id, JSON.stringify(data));
  }

  #finish(id, text, closing) {
    this.send(`{"event":"result","id":${id},"data":${text}${closing ? ',"close":true' : ""}}`);
  }

  #fail(id, error, closing) {
    let text;
    try {
      text = JSON.stringify(error);
    } catch {
      text = JSON.stringify({ ...error, details: clip(error.details) }); // details that are no JSON must not hide the error
    }
    this.send(`{"event":"error","id":${id},"error":${text}${closing ? ',"close":true' : ""}}`);
  }
}

/** End the process after an error of the protocol or of the reading thread. */
function fatal(error) {
  complain(error);
  process.exit(2);
}

function encode(value) {
  let text;
  try {
    text = JSON.stringify(value ?? null);
  } catch (error) {
    throw new ActionError(`the action returned what is not JSON: ${error.message}`, { code: "result_not_json", retriable: false });
  }
  if (text === undefined) throw new ActionError(`the action returned a ${typeof value}, which is not JSON`, { code: "result_not_json", retriable: false });
  if (Buffer.byteLength(text) > RESULT_MAX) {
    throw new ActionError(`the result has ${Buffer.byteLength(text)} bytes, the limit is ${RESULT_MAX}`, { code: "result_too_large", retriable: false });
  }
  return text;
}

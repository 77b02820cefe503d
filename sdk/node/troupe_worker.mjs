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
import { ActionError, Cancelled, Final, RequestError, Retriable, attempt, clip, describe, errorText, tail } from "./errors.mjs";
import { CHUNK_MAX, Output, complain, parse } from "./frames.mjs";
import { decode, encode } from "./json.mjs";
import { Scope, exit, guard, loadingNow } from "./late.mjs";
import { Files, Table } from "./loader.mjs";
import { Shared } from "./shared.mjs";
import { traced } from "./tracing.mjs";

export { ActionError, Cancelled, Context, Files, Final, Retriable };
export const VERSION = "0.1.0";
const PROTOCOL = 1;
const RESULT_MAX = 8 << 20; // bytes of a result; a larger one fails its execution
const FAULTS_MAX = 64; // told of one process: the node replaces it long before
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
  #output = new Output(this.#shared, () => exit(0));
  #takesFaults = false; // the node does
  #faults = 0; // told

  constructor(code) {
    this.#code = code;
  }

  /** Serve requests until the node ends this process. */
  run() {
    guard((scope, error) => this.#fault(scope, error), (text) => this.#log(0, "info", text));
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
    try {
      if (typeof message === "string") return this.#decode(message);
      if (message instanceof ArrayBuffer) return this.#decode(Buffer.from(message).toString());
      if (message.end !== undefined) return exit(message.end);
      this.#cancel(message.cancel);
    } catch (error) {
      fatal(error); // of this SDK, or a broken stream
    }
  }

  #decode(body) {
    let request;
    try {
      request = parse(body, decode);
    } catch (error) {
      return this.#output.refuse(error);
    }
    this.#handle(request);
  }

  #handle({ id, command, args }) {
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
        return exit(0);
    }
    const run = { hello: this.#hello, health_check: this.#health, snapshot: this.#snapshot, restore: this.#restore, end_session: this.#end }[command];
    if (!run) return this.#fail(id, { code: "unknown_command", message: `unknown command ${clip(command)}` });
    this.#queue = this.#queue.then(async () => {
      try {
        this.#finish(id, encode((await run.call(this, args)) ?? {}, `the answer to ${command}`, CHUNK_MAX));
      } catch (error) {
        this.#fail(id, requestError(command, error));
      }
    });
  }

  async #execute(id, args) {
    const running = (this.#running = { id, context: null });
    const scope = new Scope({ ...args, name: `execution ${args.execution}` });
    let session = null;
    try {
      const { call, source, path } = this.#code.loaded(args) ?? (await this.#code.find(args));
      session = args.session ? this.#enter(args.session, source) : null;
      running.context = new Context(this, id, args, session);
      scope.begin();
      running.context.throwIfCancelled();
      const value = scope.enter(() => traced(running.context, path, () => call(args.parameters, running.context)));
      const data = typeof value?.then === "function" ? await scope.settled(value) : value;
      const text = scope.enter(() => encode(data ?? null, "the result", RESULT_MAX));
      this.#ended(id, scope, running.context);
      this.#finish(id, text, running.context.closing);
    } catch (error) {
      this.#ended(id, scope, running.context);
      this.#fail(id, describe(error, running.context?.cancelled), running.context?.closing);
    }
    this.#running = null;
    if (session && attempt(() => Object.keys(session.state).length === 0)) this.#sessions.delete(session.id);
  }

  /** End a run's scope: what comes of it from now on is late. What it leaves behind is listed in its output. */
  #ended(id, scope, context) {
    scope.ended = true;
    if (!context || context.ended) return;
    context.ended = true;
    const left = scope.leftBehind();
    if (left) this.#log(id, "info", `left behind at the end of the run, and not ended: ${left}`);
  }

  /** Call a hook of the action's code. Its errors, late ones too, are errors of the request. */
  async #hook(name, call) {
    const scope = new Scope({ name, hook: true });
    try {
      return await scope.settled(scope.enter(call));
    } finally {
      scope.ended = true;
    }
  }

  /** Tell an error that nobody has caught and no request can be answered with. */
  #fault(scope, error) {
    if (loadingNow() !== null) fatal(new RequestError("load_error", `an error while ${loadingNow()} was loaded: ${tail(error)}`));
    if (++this.#faults > FAULTS_MAX) return;
    const described = describe(error);
    if (!this.#takesFaults) return this.#log(0, "error", `${scope ? `${scope.name}, after its end` : "outside of all runs"}: ${described.message}`);
    const { execution = "", attempt: number = 0 } = scope ?? {};
    this.send(`{"event":"fault","id":0,"execution":${JSON.stringify(execution)},"attempt":${number},"error":${errorText(described, encode)}}`);
  }

  #log(id, level, message) {
    this.send(JSON.stringify({ event: "log", id, level, message: clip(message) }));
  }

  /** Cancel the run's context. A run whose code is still loading has none, and checks for the cancel before it starts. */
  #cancel(request) {
    if (this.#running?.id === request) this.#running.context?.cancel();
  }

  async #hello({ protocol, actions, faults }) {
    this.#takesFaults = faults === true;
    if (protocol !== PROTOCOL) throw new RequestError("load_error", `the node speaks protocol ${protocol} and this SDK ${PROTOCOL}`);
    for (const action of actions ?? []) {
      try {
        await this.#code.find(action);
      } catch (error) {
        throw new RequestError("load_error", `action ${action.ref}: ${clip(attempt(() => error.message) ?? error)}`, attempt(() => error.details));
      }
    }
    return { protocol: PROTOCOL, sdk: "node", version: VERSION, pid: process.pid, capabilities: CAPABILITIES };
  }

  async #health() {
    const said = {};
    for (const [source, hook] of this.#code.healthHooks()) {
      said[source] = (await this.#hook(`health() of ${source}`, hook)) ?? null;
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
    return { state: hooks ? { hook: held.source, state: await this.#hook(`snapshot() of ${held.source}`, () => hooks.snapshot(held.state)) } : { hook: null, state: held.state } };
  }

  async #restore({ session, epoch, state: saved }) {
    const held = { id: session, epoch, state: saved?.state ?? {}, source: saved?.hook ?? null };
    const hooks = held.source === null ? null : this.#code.hooks(held.source);
    if (held.source !== null && !hooks) throw new Error(`no restore hook of ${held.source} is loaded`);
    if (hooks) held.state = await this.#hook(`restore() of ${held.source}`, () => hooks.restore(saved.state));
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
    this.send(`{"event":"error","id":${id},"error":${errorText(error, encode)}${closing ? ',"close":true' : ""}}`);
  }
}

/** End the process after an error of the protocol or of the reading thread. */
function fatal(error) {
  complain(error);
  exit(2);
}

/** The error of a request that is no execute. */
function requestError(command, error) {
  const own = error instanceof RequestError;
  const described = describe(error);
  const details = attempt(() => error.details) ?? { stack: tail(error) };
  return { code: own ? error.code : `${command}_failed`, message: clip(attempt(() => error.message) ?? error), type: described.type, details };
}

// Run actions in a Troupe worker process. A node starts main.mjs for its node pools and calls the functions that packs
// name as their entrypoints: f(params, ctx), async or not. A program of its own (runtime: process) calls serve:
//
//     import { serve } from "./troupe_worker.mjs";
//     serve({ "mypack.greet": async (params, ctx) => ({ greeting: "hello " + params.name }) });
//
// Only Node's own modules are used; docs/protocol.md describes the protocol. Requests are read on the event loop: a
// second thread that reads and hands over was measured at five times the round trip. So a run that waits answers
// ping and cancel, and one that computes without a pause does not; hello therefore leaves ping_while_busy false.

import { realpathSync, statSync, writeSync } from "node:fs";
import { Socket } from "node:net";
import { isAbsolute, join, relative } from "node:path";
import { pathToFileURL } from "node:url";

export const VERSION = "0.1.0";
const PROTOCOL = 1;
const FRAME_MAX = 16 << 20; // bytes of one frame
const RESULT_MAX = 8 << 20; // bytes of a result; a larger one fails its execution
const TEXT_MAX = 16 << 10; // characters of a message
const LEVELS = ["debug", "info", "warn", "error"];
const CAPABILITIES = { ping_while_busy: false, cancel: true, sessions: true, snapshot: true, health_check: true };

/** Thrown by an action to end its execution with a code of its own. retriable undefined: Troupe judges by the text. */
export class ActionError extends Error {
  constructor(message, { code = "action_error", retriable, details, workerFault = false } = {}) {
    super(message);
    Object.assign(this, { name: "ActionError", code, retriable, details, workerFault });
  }
}

/** The reason of ctx.signal when the execution is cancelled. */
export class Cancelled extends Error {
  constructor() {
    super("the execution was cancelled");
    this.name = "Cancelled";
  }
}

class RequestError extends Error {
  constructor(code, message, details) {
    super(message);
    Object.assign(this, { code, details });
  }
}

/** Serve a table of actions on descriptors 3 and 4. hooks: { health, snapshot, restore }, each optional. */
export function serve(actions, hooks = {}) {
  new Worker(new Table(actions, hooks)).run();
}

/** One execution, as its action sees it. signal is an AbortSignal that ends with the cancel; session may be null. */
export class Context {
  #worker;
  #request;
  #abort = null;
  #cancelled = false;
  closing = false;

  constructor(worker, request, args, session) {
    this.#worker = worker;
    this.#request = request;
    this.execution = args.execution;
    this.attempt = args.attempt ?? 1;
    this.action = args.action;
    this.session = session;
    this.retryCount = args.retry_count ?? 0;
    this.trace = args.trace ?? null; // W3C traceparent
    this.deadline = args.deadline_ms ? performance.now() + args.deadline_ms : null; // on performance.now()'s clock
  }

  /** Milliseconds left to the run's deadline, never below 0; null where there is none. */
  remaining() {
    return this.deadline === null ? null : Math.max(0, this.deadline - performance.now());
  }

  get cancelled() {
    return this.#cancelled;
  }

  get signal() {
    if (this.#abort === null) {
      this.#abort = new AbortController();
      if (this.#cancelled) this.#abort.abort(new Cancelled());
    }
    return this.#abort.signal;
  }

  throwIfCancelled() {
    if (this.#cancelled) throw new Cancelled();
  }

  /** Tell how far the run is: a fraction from 0 to 1 (or null) and a short text. */
  progress(fraction = null, message = "") {
    const part = fraction === null ? null : Math.min(1, Math.max(0, Number(fraction)));
    this.#emit({ event: "progress", fraction: part, message: clip(message) });
  }

  /** Stream a piece of the result, any JSON value. */
  chunk(data) {
    this.#emit({ event: "chunk", data: data ?? null });
  }

  /** Write a log line of the run; level is debug, info, warn or error. */
  log(level, message) {
    if (!LEVELS.includes(level)) throw new RangeError(`log level ${level}: want debug, info, warn or error`);
    this.#emit({ event: "log", level, message: clip(message) });
  }

  /** Ask for this worker to be replaced once the execution has ended. */
  closeWorker() {
    this.closing = true;
  }

  cancel() {
    this.#cancelled = true;
    this.#abort?.abort(new Cancelled());
  }

  #emit(event) {
    this.#worker.send(JSON.stringify({ id: this.#request, ...event }));
  }
}

/** Functions named by file:function entrypoints, each module loaded once per process. */
export class Files {
  #functions = new Map();
  #modules = new Map(); // pack/file: module

  async find({ ref, action, root, entrypoint }) {
    const key = `${root}\0${entrypoint}`;
    let found = this.#functions.get(key);
    if (found === undefined) {
      found = await this.#load((action ?? ref ?? "").split(".")[0], root, entrypoint);
      this.#functions.set(key, found);
    }
    return found;
  }

  /** The same, without a wait, for what is loaded already; undefined otherwise. */
  loaded({ root, entrypoint }) {
    return this.#functions.get(`${root}\0${entrypoint}`);
  }

  hooks(source) {
    return pair(this.#modules.get(source));
  }

  healthHooks() {
    return [...this.#modules].filter(([, m]) => typeof m.health === "function").map(([s, m]) => [s, m.health]);
  }

  async #load(pack, root, entrypoint) {
    if (!root || !entrypoint) {
      throw new RequestError("load_error", "a node action needs a root and an entrypoint of the form file:function");
    }
    const [file, name = "run"] = entrypoint.split(":");
    const path = inside(root, file);
    let module;
    try {
      module = await import(pathToFileURL(path).href);
    } catch (error) {
      throw new RequestError("load_error", `load ${file}: ${error}`, { file: path, stack: tail(error) });
    }
    const call = module[name] ?? module.default?.[name] ?? (name === "run" ? module.default : undefined);
    if (typeof call !== "function") throw new RequestError("load_error", `${file} exports no function ${name}`);
    const source = `${pack}/${file}`; // the same on every node, unlike the root: snapshots name it
    this.#modules.set(source, module);
    return { call, source };
  }
}

/** Functions given to serve, named by their action, with or without the pack. */
class Table {
  #actions;
  #hooks;

  constructor(actions, hooks) {
    this.#actions = new Map(Object.entries(actions));
    this.#hooks = hooks;
  }

  loaded({ ref, action }) {
    const name = action ?? ref ?? "";
    const call = this.#actions.get(name) ?? this.#actions.get(name.slice(name.indexOf(".") + 1));
    return call && { call, source: "serve" };
  }

  async find(args) {
    const found = this.loaded(args);
    if (found) return found;
    const known = [...this.#actions.keys()].join(", ");
    throw new RequestError("load_error", `this program does not serve action ${args.action ?? args.ref}; it serves ${known}`);
  }

  hooks() {
    return pair(this.#hooks);
  }

  healthHooks() {
    return this.#hooks.health ? [["health", this.#hooks.health]] : [];
  }
}

/** One worker process. code finds the actions. */
export class Worker {
  #code;
  #sessions = new Map(); // id: { id, epoch, lost, hit, state, source }
  #running = null; // { id, context }
  #queue = Promise.resolve(); // what must come one after the other
  #rest = Buffer.alloc(0);

  constructor(code) {
    this.#code = code;
  }

  /** Serve requests until the node ends this process. */
  run() {
    const input = new Socket({ fd: 3, readable: true, writable: false });
    input.on("data", (data) => this.#received(data));
    input.on("close", () => process.exit(0));
    input.on("error", () => process.exit(0));
  }

  send(text) {
    const frame = Buffer.from("\0\0\0\0" + text);
    if (frame.length - 4 > FRAME_MAX) throw new RangeError(`a frame of ${frame.length - 4} bytes is above the limit of ${FRAME_MAX}`);
    frame.writeUInt32BE(frame.length - 4, 0);
    writeWhole(4, frame);
  }

  #received(data) {
    let rest = this.#rest.length === 0 ? data : Buffer.concat([this.#rest, data]);
    while (rest.length >= 4) {
      const size = rest.readUInt32BE(0);
      if (size === 0 || size > FRAME_MAX) fatal(`a frame of ${size} bytes: want 1 to ${FRAME_MAX}`);
      if (rest.length < 4 + size) break;
      const text = rest.toString("utf8", 4, 4 + size);
      rest = rest.subarray(4 + size);
      this.#handle(parse(text));
    }
    this.#rest = rest;
  }

  #handle({ id, command, args = {} }) {
    switch (command) {
      case "execute":
        return void this.#execute(id, args);
      case "ping":
        return this.#answer(id, {});
      case "cancel":
        if (this.#running?.id === args.request) this.#running.context?.cancel();
        return this.#answer(id, {});
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
      const { call, source } = this.#code.loaded(args) ?? (await this.#code.find(args));
      session = args.session ? this.#enter(args.session, source) : null;
      running.context = new Context(this, id, args, session);
      const value = call(args.parameters, running.context);
      const data = typeof value?.then === "function" ? await value : value;
      this.#finish(id, encode(data), running.context.closing);
    } catch (error) {
      this.#fail(id, describe(error, running.context?.cancelled), running.context?.closing);
    }
    this.#running = null;
    if (session && Object.keys(session.state).length === 0) this.#sessions.delete(session.id);
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

  /** The session of an execution: the state it left here, or an empty one when its epoch is newer. */
  #enter({ id, epoch = 0, lost = false, hit = false }, source) {
    let held = this.#sessions.get(id);
    if (held === undefined || held.epoch < epoch) this.#sessions.set(id, (held = { id, epoch, state: {} }));
    else if (held.epoch > epoch) held = { id, epoch, state: {} }; // a stale placement must not see what came later
    return Object.assign(held, { lost, hit, source });
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

function describe(error, cancelled) {
  if (cancelled && (error instanceof Cancelled || error?.name === "AbortError")) return { code: "cancelled", message: "the execution was cancelled" };
  if (error instanceof RequestError) return { code: "action_not_found", message: clip(error.message), details: error.details };
  const own = error instanceof ActionError;
  return {
    code: own ? String(error.code).slice(0, 128) : "action_error",
    message: clip(own ? error.message : error),
    retriable: typeof error?.retriable === "boolean" ? error.retriable : undefined,
    worker_fault: error?.workerFault === true ? true : undefined,
    details: (own ? error.details : undefined) ?? { type: error?.name ?? typeof error, stack: tail(error) },
  };
}

/** The real path of a file of the pack; an error when it is missing or leads out of it. */
function inside(root, file) {
  const home = realpathSync(root);
  let path;
  try {
    path = realpathSync(join(home, file));
  } catch {
    throw new RequestError("load_error", `entrypoint file ${file} does not exist in ${root}`);
  }
  const inner = relative(home, path);
  if (isAbsolute(file) || inner.startsWith("..")) throw new RequestError("load_error", `entrypoint ${file} leads out of its pack ${root}`);
  if (!statSync(path).isFile()) throw new RequestError("load_error", `entrypoint ${file} is no file`);
  return path;
}

function pair(of) {
  return typeof of?.snapshot === "function" && typeof of?.restore === "function" ? of : null;
}

function parse(text) {
  try {
    const request = JSON.parse(text);
    if (request !== null && typeof request === "object" && !Array.isArray(request)) return request;
  } catch {
    // named below
  }
  return fatal("a frame is not a JSON object");
}

function writeWhole(fd, frame) {
  const nap = new Int32Array(new SharedArrayBuffer(4));
  for (let sent = 0; sent < frame.length; ) {
    try {
      sent += writeSync(fd, frame, sent);
    } catch (error) {
      if (error.code === "EPIPE") process.exit(0); // the node is gone
      if (error.code !== "EAGAIN") throw error;
      Atomics.wait(nap, 0, 0, 1); // the pipe is full, and was made non-blocking by whoever opened it
    }
  }
}

function fatal(message) {
  writeSync(2, `troupe_worker: ${message}\n`);
  process.exit(2);
}

function clip(text) {
  return String(text).slice(0, TEXT_MAX);
}

function tail(error) {
  return String(error?.stack ?? error).slice(0, TEXT_MAX / 2);
}

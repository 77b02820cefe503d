// Errors that cannot be described, values that are not JSON, and failures that come after their run.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Worker } from "./harness.mjs";

const SDK = new URL("../troupe_worker.mjs", import.meta.url).href;
const ACTIONS = `
import { EventEmitter } from "node:events";
import { spawn } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { ActionError, Cancelled } from ${JSON.stringify(SDK)};
class Odd extends TypeError {}
const getter = (name) => Object.defineProperty(new Error("x"), name, { get() { throw new Error("no " + name); } });
const own = (details) => new ActionError("x", { code: "mine", details });
const errors = {
  nothing: () => undefined,
  nullproto: () => Object.create(null),
  symbol: () => Symbol("s"),
  proxy: () => new Proxy({}, { get() { throw new Error("trap"); }, getPrototypeOf() { throw new Error("trap"); } }),
  stack: () => getter("stack"), name: () => getter("name"), message: () => getter("message"), text: () => getter("toString"),
  loop: () => { const e = new Error("x"); e.cause = e; return e; },
  odd: () => new Odd("x"),
  huge: () => Object.assign(new Error("m".repeat(20_000_000)), { name: "N".repeat(20_000_000), stack: "s".repeat(20_000_000) }),
  details: () => own("d".repeat(20_000_000)), trap: () => own(new Proxy({}, { ownKeys() { throw new Error("trap"); } })),
  nan: () => own({ list: [NaN] }), big: () => own(1n), cycle: () => { const d = {}; d.d = d; return own(d); },
  code: () => Object.assign(own(), { code: "k".repeat(9_000_000) }), codes: () => Object.assign(own(), { code: Symbol("s") }),
  borrowed: () => Object.assign(new Error("x"), { code: "poisoned", retriable: false, workerFault: true }), cancelled: () => new Cancelled(),
};
const values = {
  nan: { a: [NaN] }, infinite: -Infinity, map: { b: new Map([[1, 2]]) }, set: new Set(), error: [new Odd("x")], bytes: new Uint8Array(2), big: { n: 1n },
  undef: [undefined], fn: { f: () => 1 }, symbol: { "a/b~": Symbol("s") }, hole: [, 1], loop: loop(), half: { s: "\\ud800" }, promise: [Promise.resolve(1)], params: new URLSearchParams("a=1"),
  deep: deep(101), trap: new Proxy([], { get() { throw new Error("trap"); } }), json: { at: { toJSON() { throw new Error("no"); } } }, box: [new Number(NaN)], regexp: /x/,
};
function loop() { const a = { b: {} }; a.b.a = a; return a; }
function deep(n) { let v = 0; while (n--) v = [v]; return v; }
export const echo = (params) => params;
export const offered = ({ how }, ctx) => { throw new ctx[how]("x", { code: "mine" }); };
export const fails = ({ how }) => { throw errors[how](); };
export const returns = ({ what }) => values[what];
export const details = ({ what }) => { throw own(values[what]); };
export const pieces = ({ what }, ctx) => { ctx.chunk(values[what]); return "said"; };
export const large = (params, ctx) => { ctx.chunk("c".repeat(17_000_000)); return "said"; };
export const escapes = () => "\x01".repeat(8_000_000);
export const fine = () => ({ zero: -0, at: new Date(0), box: [new String("s"), Object(true)], none: undefined, deep: deep(99), own: new (class { x = 1.5; })(), twice: [values, values].map(() => 1) });
export const tells = (params, ctx) => { ctx.progress(NaN, "x"); ctx.progress("abc", Object.create(null)); ctx.progress(Symbol("s")); ctx.progress(undefined, "é".repeat(9_000_000)); ctx.log("info", { toString() { throw 1; } }); return "ok"; };
export const awaits = () => ({ then(done) { done({ n: 1 }); } });
export const fnawaits = () => Object.assign(() => {}, { then: (done) => done(2) });
export const badthen = () => ({ get then() { throw new Error("no then"); } });
const after = (body) => { setTimeout(body, 20); return "fine"; };
export const late = () => after(() => { throw new Odd("late"); });
export const rejects = () => after(() => { Promise.reject(new Error("late rejection")); });
export const emits = () => { const e = new EventEmitter(); return after(() => e.emit("error", new Error("late emit"))); };
export const quitslate = () => after(() => process.exit(3));
export const printslate = (params, ctx) => after(() => { console.log("LATE"); ctx.progress(1, "LATE"); ctx.chunk("LATE"); ctx.log("info", "LATE"); throw new Error("said"); });
export const floods = () => { setInterval(() => { throw new Error("again"); }, 1); };
export const forgets = () => new Promise(() => { Promise.reject(new Error("forgotten")); });
export const throwslater = () => new Promise(() => { setTimeout(() => { throw new Odd("while it waits"); }, 10); });
export const waits = async ({ ms = 100 }) => { console.log("mine"); await sleep(ms); return "slept"; };
export const leaves = () => { setTimeout(() => {}, 60_000); spawn("sleep", ["60"], { stdio: "ignore" }); };
export const keeps = ({ what }, ctx) => { ctx.session.state.x = values[what]; return "kept"; };
export const reads = (params, ctx) => ctx.session.state;
export const state = (params, ctx) => { ctx.session.state = null; };
export const sick = ({ how }) => { ailment = how; };
let ailment = "";
export const health = () => { if (ailment === "exits") process.exit(4); if (ailment === "odd") throw Object.create(null); if (ailment === "later") return new Promise(() => { setTimeout(() => { throw new Error("ill"); }, 1); }); return NaN; };
`;

function on(name, body, env) {
  test(name, { timeout: 50000 }, async () => {
    const worker = new Worker({ "a.mjs": ACTIONS }, undefined, env);
    try {
      await body(worker);
    } finally {
      worker.close();
    }
  });
}

const session = { id: "alice", epoch: 1, lost: false, hit: true };

on("every error is answered", async (w) => {
  const want = {
    nothing: ["action_error", "undefined"], nullproto: ["action_error", "[object Object]"], symbol: ["action_error", "Symbol(s)"],
    proxy: ["action_error", "an error that cannot be described"], stack: ["action_error", "Error: x"], name: ["action_error", "[object Error]"],
    message: ["action_error", "[object Error]"], text: ["action_error", "[object Error]"], loop: ["action_error", "Error: x"], odd: ["action_error", "TypeError: x"],
    borrowed: ["action_error", "Error: x"], cancelled: ["action_error", "Cancelled: the execution was cancelled"],
    details: ["mine", "x"], trap: ["mine", "x"], nan: ["mine", "x"], big: ["mine", "x"], cycle: ["mine", "x"], code: ["k".repeat(128), "x"], codes: ["Symbol(s)", "x"],
  };
  for (const [how, [code, message]] of Object.entries(want)) {
    const { error } = await w.run("fails", { how });
    assert.deepEqual([error.code, error.message], [code, message], how);
  }
  const borrowed = (await w.run("fails", { how: "borrowed" })).error;
  assert.deepEqual([borrowed.retriable, borrowed.worker_fault], [undefined, undefined]);
  const { error } = await w.run("fails", { how: "huge" });
  assert.deepEqual([error.message.length, error.type.length], [16384, 128]);
  assert.deepEqual((await w.run("fails", { how: "odd" })).error.types, ["Odd", "TypeError", "Error"]);
  for (const [how, retriable] of [["ActionError", undefined], ["Retriable", true], ["Final", false]]) {
    const { error } = await w.run("offered", { how });
    assert.deepEqual([error.code, error.type, error.retriable], ["mine", how, retriable]);
  }
  assert.match((await w.run("fails", { how: "nan" })).error.details, /left out: .*\/list\/0 is NaN/);
  assert.match((await w.run("fails", { how: "details" })).error.details, /left out: .* bytes/);
  assert.equal((await w.run("echo", { a: 1 })).data.a, 1);
});

on("what is not JSON is refused by its path, as a result, a piece and in details", async (w) => {
  const want = {
    nan: "/a/0 is NaN", infinite: "it is -Infinity", map: "/b is a Map", set: "it is a Set", error: "/0 is an Odd", bytes: "it is an Uint8Array", big: "/n is a bigint",
    undef: "/0 is undefined", fn: "/f is a function", symbol: "/a~1b~0 is a symbol", hole: "/0 is undefined", loop: "/b/a is a part of itself", half: "/s has half",
    promise: "/0 is a Promise", params: "it is an URLSearchParams", deep: "is nested deeper than 100 levels", trap: "it cannot be read: Error: trap",
    json: "/at cannot be read: Error: no", box: "/0 is NaN", regexp: "it is a RegExp",
  };
  for (const [what, text] of Object.entries(want)) {
    for (const action of what === "trap" ? ["pieces"] : ["returns", "pieces"]) { // a trap on then is the run's own error before
      const { error } = await w.run(action, { what });
      assert.deepEqual([error?.code, error?.retriable], ["result_not_json", false], what);
      assert.ok(error.message.includes(text), error.message);
    }
    assert.ok((await w.run("details", { what })).error.details.includes(text), what);
  }
  assert.deepEqual((await w.run("fine")).data, { zero: 0, at: "1970-01-01T00:00:00.000Z", box: ["s", true], deep: deep(99), own: { x: 1.5 }, twice: [1, 1] });
  const { error } = await w.run("large");
  assert.deepEqual([error.code, error.retriable], ["result_too_large", false]);
  assert.equal((await w.run("escapes")).error.code, "result_too_large");
});

on("progress never fails a run", async (w) => {
  assert.equal((await w.run("tells")).data, "ok");
  assert.deepEqual(w.told.map((e) => [e.fraction, e.message.slice(0, 20)]), [[null, "x"], [null, "[object Object]"], [null, ""], [null, "é".repeat(20)], [undefined, "[object Object]"]]);
});

on("what has a then is awaited", async (w) => {
  assert.deepEqual((await w.run("awaits")).data, { n: 1 });
  assert.equal((await w.run("fnawaits")).data, 2);
  assert.equal((await w.run("badthen")).error.message, "Error: no then");
});

on("a late failure is its own run's", async (w) => {
  await w.ask("hello", { protocol: 1, actions: [], faults: true });
  for (const [action, message] of [["late", "TypeError: late"], ["rejects", "Error: late rejection"], ["emits", "Error: late emit"], ["quitslate", "Error: execution 0199 called process.exit(3) after its end"]]) {
    assert.equal((await w.run(action)).data, "fine");
    const { event, id, execution, attempt, error } = await w.event();
    assert.deepEqual([event, id, execution, attempt, error.message], ["fault", 0, "0199", 1, message]);
    assert.equal((await w.run("waits", { ms: 1 })).data, "slept");
  }
});

on("a late failure beside another run, and what it prints", async (w) => {
  await w.ask("hello", { protocol: 1, actions: [], faults: true });
  await w.run("printslate");
  assert.equal((await w.run("waits")).data, "slept");
  assert.deepEqual(w.told.map((e) => [e.event, e.id, e.message ?? e.error.message]), [["log", 0, "execution 0199, after its end: LATE"], ["fault", 0, "Error: said"]]);
  await w.ask("shutdown");
  await w.exited;
  assert.equal(w.stdout, "mine\n");
});

on("a node that takes no faults gets a line of the worker's log", async (w) => {
  await w.ask("hello", { protocol: 1, actions: [] });
  await w.run("late");
  assert.deepEqual(await w.event(), { event: "log", id: 0, level: "error", message: "execution 0199, after its end: TypeError: late" });
});

on("faults without end are told up to a bound", async (w) => {
  await w.ask("hello", { protocol: 1, actions: [], faults: true });
  await w.run("floods");
  await w.run("waits", { ms: 300 });
  assert.ok(w.told.length <= 64);
  assert.equal((await w.run("echo", 1)).data, 1);
});

on("a failure that nobody catches ends its run while that lasts", async (w) => {
  assert.equal((await w.run("forgets")).error.message, "Error: forgotten");
  assert.deepEqual((await w.run("throwslater")).error.types, ["Odd", "TypeError", "Error"]);
  assert.equal((await w.run("echo", 1)).data, 1);
});

on("what a run leaves behind is listed", async (w) => {
  await w.run("leaves");
  assert.deepEqual(w.told.map((e) => e.message), ["left behind at the end of the run, and not ended: timers: 1, child processes: 1"]);
  await w.run("echo", 1);
  assert.deepEqual(w.told, []);
});

on("hooks that fail in any way", async (w) => {
  for (const [how, message] of [["exits", /health\(\) of t\/a.mjs called process.exit\(4\)/], ["odd", /object Object/], ["later", /ill/], ["nan", /\/t~1a.mjs is NaN/]]) {
    await w.run("sick", { how });
    const { error } = await w.ask("health_check");
    assert.equal(error.code, "health_check_failed");
    assert.match(error.message, message);
  }
  await w.run("keeps", { what: "nan" }, session);
  assert.match((await w.ask("snapshot", { session: "alice", epoch: 1 })).error.message, /\/state\/state\/x\/a\/0 is NaN/);
  assert.equal((await w.run("state", {}, session)).data, null);
});

/** An execute with parameters as text. */
function raw(w, parameters) {
  const [head, tail] = JSON.stringify({ id: 1, command: "execute", args: w.execution("echo", "HERE") }).split('"HERE"');
  return framed(head + parameters + tail);
}

function framed(body) {
  const bytes = Buffer.from(body);
  const head = Buffer.alloc(4);
  head.writeUInt32BE(bytes.length);
  return Buffer.concat([head, bytes]);
}

const NUMBERS = '{"id":9007199254740993,"f":1.0,"neg":-0.0,"d":0.1000000000000000055511151231257827,"s":"[9007199254740993,\\"","e":1e300}';

on("numbers that JavaScript cannot hold are refused by their path", async (w) => {
  for (const [text, message] of [[NUMBERS, "/id is 9007199254740993,"], ['[[],{"a/b":[1, 1e400]}]', "/1/a~1b/1 is 1e400,"], ["-123456789012345678901234567890", "it is -1234"], [`{"n":${"9".repeat(5000)}}`, "/n is a number of 5000 digits"]]) {
    w.write(raw(w, text));
    const { event, id, error } = await w.event();
    assert.deepEqual([event, id, error.code, error.retriable], ["error", 1, "number_not_exact", false]);
    assert.ok(error.message.startsWith(message), error.message);
  }
  w.write(framed(`{"id":1,"command":"restore","args":{"session":"a","epoch":1,"state":{"hook":null,"state":{"n":9007199254740993}}}}`));
  assert.match((await w.event()).error.message, /^\/state\/n is 9007199254740993/);
  const fine = '{"a":9007199254740991,"b":-0.0,"c":1e300,"d":0.10000000000000000555,"__proto__":{"x":[]},"s":"\\"[1234567890123456789"}';
  w.write(raw(w, fine));
  assert.deepEqual((await w.event()).data, JSON.parse(fine.replace("-0.0", "0")));
});

on("a pool may have them as bigint", async (w) => {
  w.write(raw(w, '{"id":9007199254740993,"list":[-9007199254740993,1]}'));
  assert.match(await rawEvent(w), /"data":\{"id":9007199254740993,"list":\[-9007199254740993,1\]\}/);
  w.write(raw(w, "[1e400]"));
  assert.equal((await w.event()).error.code, "number_not_exact");
}, { TROUPE_BIG_NUMBERS: "bigint" });

on("a pool may have them as text", async (w) => {
  w.write(raw(w, '{"id":9007199254740993,"e":1e400,"n":1.5}'));
  assert.deepEqual((await w.event()).data, { id: "9007199254740993", e: "1e400", n: 1.5 });
}, { TROUPE_BIG_NUMBERS: "text" });

on("a request that cannot be decoded is its own error", async (w) => {
  for (const body of ['{"id":7,"command":"execute","args":{"x":nope}}', `{"id":7,"command":"execute","args":[${" ".repeat(5000)}}`, '{"id":7,"command":"hello","args":3}', '{"id":7,"command":"restore","args":[]}']) {
    w.write(framed(body));
    const { event, id, error } = await w.event();
    assert.deepEqual([event, id, error.code, error.retriable], ["error", 7, "invalid_request", false]);
  }
  assert.equal((await w.run("echo", 1)).data, 1);
});

test("a module that ends the process says which file it was", { timeout: 50000 }, async () => {
  for (const [code, status] of [["process.exit(5);", 5], ["setTimeout(() => { throw new Error('x'); }); await new Promise(() => {});", 2]]) {
    const w = new Worker({ "a.mjs": code });
    let said = "";
    w.process.stderr.on("data", (data) => (said += data));
    w.send("hello", { protocol: 1, actions: [{ ref: "t.x", root: w.root, entrypoint: "a.mjs:x" }] });
    assert.deepEqual(await w.exited, [status, null]);
    assert.match(said, /while it loaded a.mjs/);
    w.close();
  }
});

async function rawEvent(w) {
  await w.event();
  return w.last;
}

function deep(n) {
  let value = 0;
  while (n-- > 0) value = [value];
  return value;
}

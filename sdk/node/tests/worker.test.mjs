// The protocol as a node sees it, from a real process.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Worker } from "./harness.mjs";

const SDK = new URL("../troupe_worker.mjs", import.meta.url).href;
const ACTIONS = `
import { setTimeout as sleep } from "node:timers/promises";
import { ActionError, Final, Retriable } from ${JSON.stringify(SDK)};
export const echo = (params) => params;
export const later = async (params, ctx) => [ctx.execution, ctx.attempt, ctx.action, ctx.trace, ctx.traceState, ctx.remaining() > 59000];
export const fails = () => { throw new TypeError("no such thing"); };
export const own = () => { throw new ActionError("busy", { code: "rate_limited", retriable: true, details: { a: 1 }, workerFault: true }); };
export const again = () => { throw new Retriable("try later", { code: "overloaded" }); };
export const never = () => { throw new Final("no such city", { details: { city: "Atlantis" } }); };
export const returns = ({ what }) => ({ big: 1n, loop: loop(), fn: () => 1, large: "x".repeat(9 << 20), none: undefined })[what];
export const tells = (params, ctx) => { ctx.progress(0.5, "half"); ctx.progress(); ctx.chunk([1]); ctx.log("warn", "careful"); console.log("printed"); };
export const closes = (params, ctx) => ctx.closeWorker();
export const sleeps = async (params, ctx) => { await sleep(60000, null, { signal: ctx.signal }); };
export const polls = (params, ctx) => { ctx.progress(); const end = Date.now() + 60000; while (!ctx.cancelled && Date.now() < end); ctx.throwIfCancelled(); };
export const streams = ({ size }, ctx) => { let n = 0; for (; !ctx.cancelled; n++) ctx.chunk(n + ":" + "é".repeat(size)); return n; };
export const starts = (params, ctx) => { ctx.progress(); const end = Date.now() + 60000; while (Date.now() < end); };
export const quits = () => process.exit(7);
export const forgets = () => new Promise(() => { Promise.reject(new Error("forgotten")); });
export const behind = (params, { session }) => [session.state.n, session.lost, session.runsBehind];
export const count = (params, ctx) => [(ctx.session.state.n = (ctx.session.state.n ?? 0) + 1), ctx.session.epoch, ctx.session.lost];
let healthy = true;
export const sick = () => { healthy = false; };
export const health = () => healthy && { fine: true };
function loop() { const a = {}; a.a = a; return a; }
`;

/** A test with its own worker, which ends with the test. */
function withWorker(name, files, body) {
  test(name, { timeout: 50000 }, async () => {
    const worker = new Worker(files);
    try {
      await body(worker);
    } finally {
      worker.close();
    }
  });
}

/** Lets new workers end by themselves with a status; one that takes too long, on a busy machine, is ended by force. */
async function ends(status, finish) {
  for (let n = 0; n < 10; n++) {
    const worker = new Worker();
    finish(worker);
    const [code, signal] = await worker.exited;
    worker.close();
    if (code === status) return;
    assert.equal(signal, "SIGKILL", `ended with ${code ?? signal}`);
  }
  assert.fail("none ended by itself");
}

const on = (name, body) => withWorker(name, { "a.mjs": ACTIONS }, body);
const session = (epoch = 1, lost = false) => ({ id: "alice", epoch, lost, hit: true });

on("hello tells what it can", async (w) => {
  const { data } = await w.hello("echo");
  assert.deepEqual([data.protocol, data.sdk, data.pid], [1, "node", w.process.pid]);
  assert.deepEqual(data.capabilities, { ping_while_busy: true, cancel: true, sessions: true, snapshot: true, health_check: true });
  assert.equal((await w.ask("hello", { protocol: 2 })).error.code, "load_error");
});

on("results", async (w) => {
  assert.deepEqual((await w.run("echo", { a: [1, null, "é 😀"] })).data, { a: [1, null, "é 😀"] });
  assert.deepEqual((await w.run("later")).data, ["0199", 1, "t.later", "00-1-2-01", "a=1", true]);
  assert.equal((await w.run("returns", { what: "none" })).data, null);
  const large = { text: "x".repeat(3 << 20) };
  assert.deepEqual((await w.run("echo", large)).data, large);
});

on("what an action tells", async (w) => {
  const { id } = await w.run("tells");
  assert.deepEqual(w.told, [
    { id, event: "progress", fraction: 0.5, message: "half" },
    { id, event: "progress", fraction: null, message: "" },
    { id, event: "chunk", data: [1] },
    { id, event: "log", level: "warn", message: "careful" },
  ]);
  await w.ask("shutdown");
  await w.exited;
  assert.equal(w.stdout, "printed\n");
});

on("errors", async (w) => {
  const { error } = await w.run("fails");
  assert.deepEqual([error.code, error.message], ["action_error", "TypeError: no such thing"]);
  assert.match(error.details.stack, /fails/);
  assert.deepEqual((await w.run("own")).error, { code: "rate_limited", message: "busy", type: "ActionError", types: ["ActionError", "Error"], retriable: true, worker_fault: true, details: { a: 1 } });
  const again = (await w.run("again")).error;
  assert.deepEqual([again.code, again.type, again.retriable], ["overloaded", "Retriable", true]);
  assert.deepEqual((await w.run("never")).error, { code: "action_error", message: "no such city", type: "Final", types: ["Final", "ActionError", "Error"], retriable: false, details: { city: "Atlantis" } });
  const plain = (await w.run("fails")).error;
  assert.deepEqual([plain.type, plain.retriable], ["TypeError", undefined]);
  for (const [what, code] of [["big", "result_not_json"], ["loop", "result_not_json"], ["fn", "result_not_json"], ["large", "result_too_large"]]) {
    assert.equal((await w.run("returns", { what })).error.code, code, what);
  }
  assert.equal((await w.run("closes")).close, true);
  assert.equal((await w.ask("dance")).error.code, "unknown_command");
});

on("ping and cancel beside a run that waits", async (w) => {
  const run = w.begin("sleeps");
  assert.deepEqual((await w.ask("ping")).data, {});
  w.send("cancel", { request: run });
  const answers = [await w.event(), await w.event()].sort((a, b) => a.id - b.id); // of two threads
  assert.deepEqual(answers.map((a) => [a.id, a.error?.code]), [[run, "cancelled"], [run + 2, undefined]]);
});

on("a cancel that comes with its execute", async (w) => {
  const execute = w.frame("execute", w.execution("sleeps"));
  w.write(Buffer.concat([execute, w.frame("cancel", { request: 1 })]));
  const answers = [await w.event(), await w.event()].sort((a, b) => a.id - b.id); // of two threads
  assert.deepEqual(answers.map((a) => [a.id, a.error?.code]), [[1, "cancelled"], [2, undefined]]);
});

on("ping beside a run that computes", async (w) => {
  const run = w.begin("polls");
  assert.equal((await w.event()).event, "progress");
  // The run computes until its cancel, which is sent after the last answer: none waited for the run.
  for (let n = 1; n <= 20; n++) {
    const answer = await w.ask("ping");
    assert.deepEqual([answer.id, answer.event, answer.data], [run + n, "result", {}]);
  }
  w.send("cancel", { request: run });
  const answers = [await w.event(), await w.event()].sort((a, b) => a.id - b.id);
  assert.deepEqual(answers.map((a) => [a.id, a.error?.code]), [[run, "cancelled"], [run + 21, undefined]]);
});

on("a run that computes sees its cancel, and the next run does not", async (w) => {
  for (let n = 0; n < 3; n++) {
    const run = w.begin("polls");
    assert.equal((await w.event()).event, "progress");
    // The second is of an ended run, and must not undo the first. The run's end may be sent between the two answers.
    w.write(Buffer.concat([w.frame("cancel", { request: run }), w.frame("cancel", { request: 0 })]));
    const answers = [await w.event(), await w.event(), await w.event()].sort((a, b) => a.id - b.id);
    assert.deepEqual(answers.map((a) => [a.id, a.error?.code]), [[run, "cancelled"], [run + 1, undefined], [run + 2, undefined]]);
    assert.equal((await w.run("later")).event, "result");
  }
});

on("the end of the input ends a process that computes", async (w) => {
  w.begin("starts");
  assert.equal((await w.event()).event, "progress");
  w.process.stdio[3].end();
  assert.deepEqual(await w.exited, [null, "SIGKILL"]); // had it waited for the run, it would have ended with status 0
});

on("what an action does to its process", async (w) => {
  w.begin("quits");
  assert.deepEqual(await w.exited, [7, null]);
});

for (const size of [1, 150000]) {
  on(`2,000 pings beside a stream of pieces of ${size} characters`, async (w) => {
    const run = w.begin("streams", { size });
    const pings = 2000;
    let answered = 0;
    let chunks = 0;
    assert.equal((await w.event()).data, `${chunks++}:${"é".repeat(size)}`);
    for (let n = 0; n < pings; n++) w.send("ping");
    let cancel = null;
    for (let event; (event = await w.event()).id !== run || event.event === "chunk"; ) {
      if (event.event === "chunk") assert.ok(event.data === `${chunks++}:${"é".repeat(size)}`, `piece ${chunks}`);
      else if (event.id !== cancel) assert.equal(event.id, run + ++answered);
      if (answered === pings) cancel ??= w.send("cancel", { request: run });
    }
    assert.equal(answered, pings);
  });
}

on("requests of 16 MiB, a ping and a cancel too", async (w) => {
  const padding = "x".repeat((16 << 20) - 1024);
  assert.equal((await w.run("later", { padding })).event, "result");
  assert.deepEqual((await w.ask("ping", { padding })).data, {});
  const run = w.begin("sleeps");
  assert.deepEqual((await w.ask("cancel", { request: run, padding })).data, {});
  assert.equal((await w.event()).error.code, "cancelled");
});

on("frames in pieces and in one", async (w) => {
  w.write(Buffer.concat(Array.from({ length: 50 }, () => w.frame("ping", {}))));
  for (let n = 1; n <= 50; n++) assert.equal((await w.event()).id, n);
  for (const byte of w.frame("ping", {})) w.write(Buffer.from([byte]));
  assert.equal((await w.event()).id, 51);
});

on("sessions keep state by epoch", async (w) => {
  assert.deepEqual((await w.run("count", {}, session())).data, [1, 1, false]);
  assert.deepEqual((await w.run("count", {}, session())).data, [2, 1, false]);
  assert.deepEqual((await w.run("count", {}, session(2, true))).data, [1, 2, true]);
  assert.deepEqual((await w.run("count", {}, session(1))).data, [1, 1, false]);
  await w.ask("end_session", { session: "alice", epoch: 2 });
  assert.deepEqual((await w.run("count", {}, session(2))).data, [1, 2, false]);
});

on("snapshot and restore", async (w) => {
  await w.run("count", {}, session());
  const { data } = await w.ask("snapshot", { session: "alice", epoch: 1 });
  assert.deepEqual((await w.ask("restore", { session: "bob", epoch: 3, state: data.state })).data, {});
  assert.deepEqual((await w.run("count", {}, { id: "bob", epoch: 3 })).data, [2, 3, false]);
  await w.ask("restore", { session: "bob", epoch: 4, state: data.state });
  const old = { id: "bob", epoch: 4, lost: true, runs_behind: 4 };
  assert.deepEqual((await w.run("behind", {}, old)).data, [1, true, 4], "an old state comes with the loss told");
  assert.deepEqual((await w.run("behind", {}, { id: "bob", epoch: 4 })).data, [1, false, 0]);
});

withWorker("hooks save and restore a state", {
  "a.mjs": `export const run = ({ n }, ctx) => { (ctx.session.state.seen ??= new Set()).add(n); return [...ctx.session.state.seen]; };
    export const snapshot = (state) => [...state.seen]; export const restore = (saved) => ({ seen: new Set(saved) });`,
}, async (w) => {
  await w.run("run", { n: 1 }, session());
  const { data } = await w.ask("snapshot", { session: "alice", epoch: 1 });
  await w.ask("restore", { session: "alice", epoch: 2, state: data.state });
  assert.deepEqual((await w.run("run", { n: 2 }, session(2))).data, [1, 2]);
});

on("the health hook", async (w) => {
  await w.hello("sick");
  assert.deepEqual((await w.ask("health_check")).data, { "t/a.mjs": { fine: true } });
  await w.run("sick");
  assert.equal((await w.ask("health_check")).error.code, "health_check_failed");
});

on("load errors name the action and the cause", async (w) => {
  assert.match((await w.hello("gone")).error.message, /action t\.gone: a\.mjs exports no function gone/);
  const bad = async (entrypoint) => (await w.ask("hello", { protocol: 1, actions: [{ ref: "t.x", root: w.root, entrypoint }] })).error.message;
  assert.match(await bad("missing.mjs:x"), /does not exist/);
  assert.match(await bad("../../../../../../etc/passwd"), /out of its pack/);
  assert.equal((await w.run("gone")).error.code, "action_not_found");
});

on("shutdown and the end of the input end it", async (w) => {
  await w.ask("shutdown");
  assert.deepEqual(await w.exited, [0, null]);
  await ends(0, (other) => other.process.stdio[3].end());
});

test("garbage ends the worker", { timeout: 50000 }, async () => {
  await ends(2, (w) => w.write(Buffer.from([255, 255, 255, 255])));
  for (const body of ["[1]", "{", '{"id":"1"}', `[${" ".repeat(8192)}]`]) {
    await ends(2, (w) => w.write(Buffer.concat([Buffer.from([0, 0, body.length >> 8, body.length & 255]), Buffer.from(body)])));
  }
});

test("serve serves a table", { timeout: 50000 }, async () => {
  const main = `import { serve } from ${JSON.stringify(SDK)}; serve({ "t.echo": (p) => p, short: (p, ctx) => ctx.action }, { health: () => 1 });`;
  const w = new Worker({ "main.mjs": main }, "ROOT/main.mjs");
  try {
    assert.equal((await w.hello("echo", "short")).event, "result");
    assert.match((await w.hello("gone")).error.message, /does not serve action t\.gone/);
    assert.deepEqual((await w.run("echo", { a: 1 })).data, { a: 1 });
    assert.equal((await w.run("short")).data, "t.short");
    assert.deepEqual((await w.ask("health_check")).data, { health: 1 });
  } finally {
    w.close();
  }
});

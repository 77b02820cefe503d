// The trace of a run as its action's OpenTelemetry sees it.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Worker } from "./harness.mjs";

// What the SDK calls of @opentelemetry/api, with a list of what was done instead of an exporter.
const API = `
const { AsyncLocalStorage } = require("node:async_hooks");
const storage = new AsyncLocalStorage();
const done = [];
module.exports = {
  done,
  ROOT_CONTEXT: {},
  SpanStatusCode: { ERROR: 2 },
  createTraceState: (text) => "state " + text,
  context: { active: () => storage.getStore() ?? "none", with: (active, call) => storage.run(active, call) },
  trace: {
    setSpanContext: (context, remote) => ({ remote }),
    setSpan: (context) => ["in", context.remote],
    getTracer: () => ({
      startSpan(name, { attributes }, parent) {
        if (attributes["troupe.action"] === "t.broken") throw new Error("no spans today");
        done.push(["start", name, parent.remote, attributes]);
        return {
          setAttribute: (key, value) => done.push([key, value]),
          setStatus: ({ code }) => done.push(["status", code]),
          end: () => done.push(["end"]),
        };
      },
    }),
  },
};
`;
const ACTIONS = `
import { createRequire } from "node:module";
import { setTimeout as sleep } from "node:timers/promises";
let api = { done: [], context: { active: () => "none" } };
try {
  api = createRequire(import.meta.url)("@opentelemetry/api");
} catch {}
export const registers = () => { globalThis[Symbol.for("opentelemetry.js.api.1")] = {}; };
export const looks = () => api.context.active();
export const later = async () => { await sleep(1); return api.context.active(); };
export const fails = () => { throw new TypeError("no such thing"); };
export const failsLater = async () => { await sleep(1); throw new RangeError("too far"); };
export const broken = looks;
export const done = () => api.done.splice(0);
`;
const REMOTE = { traceId: "1", spanId: "2", traceFlags: 1, isRemote: true, traceState: "state a=1" };

const started = (name) => ["start", `process t.${name}`, REMOTE, { "troupe.execution.id": "0199", "troupe.action": `t.${name}`, "troupe.attempt": 1 }];

/** A test with its own worker, with the package or without. */
function on(name, body, files = { "node_modules/@opentelemetry/api/index.js": API }) {
  test(name, { timeout: 50000 }, async () => {
    const worker = new Worker({ "a.mjs": ACTIONS, ...files });
    try {
      await worker.run("registers");
      await body(worker, async () => (await worker.run("done")).data.slice(0, -1)); // without the look's own start
    } finally {
      worker.close();
    }
  });
}

on("the trace is the active context", async (w, done) => {
  assert.deepEqual((await w.run("looks")).data, ["in", REMOTE]);
  assert.deepEqual(await done(), [started("looks"), ["end"]]);
  assert.deepEqual((await w.run("later")).data, ["in", REMOTE]);
  assert.deepEqual((await done()).slice(1), [started("later"), ["end"]]);
});

on("an error is one of the span too", async (w, done) => {
  assert.equal((await w.run("fails")).error.type, "TypeError");
  assert.deepEqual(await done(), [started("fails"), ["error.type", "TypeError"], ["status", 2], ["end"]]);
  assert.equal((await w.run("failsLater")).error.type, "RangeError");
  assert.deepEqual((await done()).slice(1), [started("failsLater"), ["error.type", "RangeError"], ["status", 2], ["end"]]);
});

on("trouble costs no run", async (w) => {
  assert.equal((await w.run("broken")).data, "none");
});

on("without the package nothing happens", async (w) => {
  assert.equal((await w.run("looks")).data, "none");
  assert.equal((await w.run("fails")).error.type, "TypeError");
}, {});

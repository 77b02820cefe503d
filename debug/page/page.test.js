"use strict";
// Runs the page's script on a stand-in for the browser that has no more than the script uses.
const assert = require("node:assert/strict");
const fs = require("node:fs");
const path = require("node:path");
const test = require("node:test");
const vm = require("node:vm");
const view = require("./view.js");

const frame = fs.readFileSync(path.join(__dirname, "page.html"), "utf8");

class Element {
  constructor(kind) {
    Object.assign(this, { kind, children: [], dataset: {}, className: "", hidden: false, open: false, text: "", listeners: {}, parent: null });
  }
  get textContent() { return this.text + this.children.map((c) => c.textContent).join(" "); }
  set textContent(text) { this.text = String(text); this.children = []; }
  set innerHTML(_) { throw new Error("what comes from a node is never markup"); }
  append(...list) { list.forEach((e) => this.insertBefore(e, null)); }
  insertBefore(e, before) {
    e.remove();
    e.parent = this;
    this.children.splice(before ? this.children.indexOf(before) : this.children.length, 0, e);
  }
  remove() {
    if (this.parent) this.parent.children.splice(this.parent.children.indexOf(this), 1);
    this.parent = null;
  }
  replaceChildren() { this.children.slice().forEach((c) => c.remove()); }
  addEventListener(event, listener) { this.listeners[event] = listener; }
  // find is the first element below whose first word of the summary is the name.
  find(name) {
    for (const c of this.children) {
      if (c.kind === "details" && c.children[0].children[0].textContent === name) return c;
      const below = c.find(name);
      if (below) return below;
    }
    return null;
  }
  toggle(open) {
    this.open = open;
    this.listeners.toggle();
  }
}

// open runs the page against answers by path; an answer is a status and a body, or an error of the network.
function open(answers) {
  const elements = {}, asked = [], timers = [], stored = {};
  const element = (id) => {
    assert.ok(frame.includes(`id="${id}"`), `the page has no element ${id}`);
    return elements[id] ||= new Element(id);
  };
  const body = new Element("body");
  vm.runInNewContext(fs.readFileSync(path.join(__dirname, "page.js"), "utf8"), {
    view, AbortSignal, console,
    document: { hidden: false, body, createElement: (kind) => new Element(kind), getElementById: element },
    sessionStorage: { getItem: (key) => stored[key], setItem: (key, value) => { stored[key] = value; } },
    setTimeout: (f, ms) => timers.push({ f, ms }),
    fetch: async (url, options) => {
      asked.push({ url, headers: options.headers });
      const answer = answers(url, options);
      if (answer instanceof Error) throw answer;
      return { status: answer.status || 200, ok: !answer.status, json: async () => answer.body };
    },
  });
  const settle = () => new Promise((resolve) => setImmediate(resolve));
  return {
    elements, element, asked, timers, body, nodes: () => elements.nodes.children, settle,
    again: async () => { await timers.shift().f(); await settle(); },
  };
}

const at = "2026-01-02T12:00:00Z";
const branch = (id, more) => ({ id, parent: id.includes("/") ? id.slice(0, id.lastIndexOf("/")) : "", kind: "worker", since: "2026-01-02T11:59:30Z", ...more });
const tree = (...workers) => ({ node: "n", at, count: 2 + workers.length, roots: [branch("troupe", { children: [branch("troupe/go", { children: workers })] })] });
const part = (node, more) => ({ node, incarnation: "01a1-" + node, state: "active", address: node + ":7070", ...more });
const own = (...workers) => part("a", { own: true, age_ms: 0, tree: tree(...workers) });

test("each node is shown with its age, and one that cannot be reached in its own way", async () => {
  const forest = { at, nodes: [own(branch("troupe/go/0.1", { state: "ready", health: "healthy" })), part("b", { age_ms: 4200, error: "it does not answer", tree: tree() }),
    part("c", { age_ms: 3500, tree: tree() }), part("d", { error: "it listens for no peers", cordoned: true })] };
  const page = open(() => ({ body: forest }));
  await page.settle();
  assert.equal(page.asked[0].url, "/debug/actors?cluster=1&children=200");
  assert.deepEqual(page.nodes().map((e) => e.className), ["node own", "node lost", "node late", "node lost"]);
  assert.equal(page.elements.summary.textContent, "4 nodes, 7 actors, 2 not reached");
  const heads = page.nodes().map((e) => e.children[0].textContent);
  assert.match(heads[0], /^a active this node, now 3 actors a:7070/);
  assert.match(heads[1], /as of 4.2 s ago 2 actors .* not reached: it does not answer/);
  assert.match(heads[3], /^d active, cordoned never seen .* not reached, and nothing known of its actors: it listens for no peers/);
  assert.deepEqual(page.nodes().map((e) => e.open), [true, false, false, false], "others are collapsed");
  assert.equal(page.timers[0].ms, 1000);
});

test("a change shows in place: what is open stays open, and what has ended goes", async () => {
  let forest = { at, nodes: [own(branch("troupe/go/0.1", { state: "ready" }), branch("troupe/go/10.1", { state: "busy" }), branch("troupe/go/9.1", { state: "ready" }))] };
  const page = open(() => ({ body: forest }));
  await page.settle();
  page.nodes()[0].find("troupe").toggle(true);
  page.elements.nodes.find("go").toggle(true);
  const go = page.elements.nodes.find("go");
  const names = () => go.children[1].children.map((e) => e.textContent);
  assert.equal(names().length, 3);
  assert.match(names()[1], /^9.1 ready/, "slot 9 stands before slot 10");
  forest = { at, nodes: [own(branch("troupe/go/0.2", { state: "degraded", health: "unhealthy", last_failure: "<img src=x>" }), branch("troupe/go/9.1", { state: "busy", execution: "e1" }))] };
  forest.nodes[0].tree.roots[0].children[0].hidden = { count: 5, states: { ready: 4, busy: 1 } };
  await page.again();
  assert.equal(page.elements.nodes.find("go"), go);
  assert.ok(go.open);
  assert.match(names()[0], /^0.2 degraded unhealthy failed: <img src=x>/);
  assert.match(go.children[1].children[0].className, /trouble/);
  assert.match(names()[1], /runs e1/);
  assert.equal(names()[2], "… and 5 more: 1 busy, 4 ready");
  go.toggle(false);
  assert.equal(go.children[1].children.length, 0, "what is closed is not kept up");
});

test("a node that does not answer leaves what was shown, and says that it is old", async () => {
  let answer = { body: { at, nodes: [own()] } };
  const page = open(() => answer);
  await page.settle();
  answer = new Error("refused");
  await page.again();
  assert.equal(page.nodes().length, 1);
  assert.equal(page.elements.stale.textContent, "this node does not answer; what is shown is old");
  assert.equal(page.body.className, "old");
  answer = { body: { at, nodes: [own()] } };
  await page.again();
  assert.ok(page.elements.stale.hidden);
  assert.equal(page.body.className, "");
});

test("a token is asked for and sent", async () => {
  const page = open((_, o) => o.headers.Authorization === "Bearer secret" ? { body: { at, nodes: [own()] } } : { status: 401, body: { error: { message: "this node wants a token" } } });
  await page.settle();
  assert.equal(page.elements.login.hidden, false);
  assert.equal(page.elements.stale.textContent, "this node wants a token");
  page.element("token").value = "secret";
  page.elements.login.listeners.submit({ preventDefault() {} });
  await page.settle();
  assert.equal(page.elements.login.hidden, true);
  assert.equal(page.nodes().length, 1);
});

test("one actor is shown with its history, wherever it lives", async () => {
  const history = [{ at, from: "initializing", to: "ready", reason: "init_complete", lasted_ms: 1500 }];
  const page = open((url) => url.includes("cluster=1") ? { body: { at, nodes: [own(branch("troupe/go/0 x.1", {}))] } }
    : url.includes("0%20x.1?node=01a1-a") ? { body: { id: "troupe/go/0 x.1", live: true, history } } : { status: 503, body: { error: { message: "node a cannot be asked" } } });
  await page.settle();
  page.nodes()[0].find("troupe").toggle(true);
  const click = (e) => e.children[0].children[0].listeners.click({ preventDefault() {} });
  page.elements.nodes.find("go").toggle(true);
  click(page.elements.nodes.find("0 x.1"));
  await page.settle();
  assert.equal(page.elements["detail-name"].textContent, "a: troupe/go/0 x.1");
  assert.equal(page.elements["detail-history"].textContent, at + "  initializing → ready  init_complete  after 1.5 s");
  assert.match(page.elements["detail-text"].textContent, /"live": true/);
  click(page.elements.nodes.find("go"));
  await page.settle();
  assert.equal(page.elements["detail-text"].textContent, "node a cannot be asked");
  page.elements["detail-close"].listeners.click();
  assert.ok(page.elements.detail.hidden);
});

test("a page that nobody sees, or that is paused, asks nothing", async () => {
  const page = open(() => ({ body: { at, nodes: [own()] } }));
  await page.settle();
  page.elements.pause.checked = true;
  await page.again();
  assert.equal(page.asked.length, 1);
});

test("lengths of time are written for people", () => {
  for (const [ms, want] of [[-1, "0 ms"], [999, "999 ms"], [1500, "1.5 s"], [61e3, "1 min 1 s"], [3.7e6, "1 h 1 min"], [3 * 86400e3, "3 days"]]) {
    assert.equal(view.length(ms), want);
  }
});

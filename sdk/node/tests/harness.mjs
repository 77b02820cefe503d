// Runs a real worker process over pipes.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const MAIN = fileURLToPath(new URL("../main.mjs", import.meta.url));

export class Worker {
  #last = 0;
  #rest = Buffer.alloc(0);
  #events = [];
  #waiting = null;

  constructor(files = {}, main = MAIN, env = {}) {
    this.root = mkdtempSync(join(tmpdir(), "worker-"));
    for (const [name, text] of Object.entries(files)) {
      const path = join(this.root, name);
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, text);
    }
    this.process = spawn(process.execPath, [main.replace("ROOT", this.root)], { env: { ...process.env, ...env }, stdio: ["ignore", "pipe", "pipe", "pipe", "pipe"] });
    this.process.stdout.setEncoding("utf8").on("data", (text) => (this.stdout = (this.stdout ?? "") + text));
    this.process.stdio[3].on("error", () => {}); // a worker that ended: its exit says so
    this.process.stdio[4].on("data", (data) => this.#received(data));
    this.exited = once(this.process, "exit");
  }

  close() {
    this.process.kill("SIGKILL");
    rmSync(this.root, { recursive: true });
  }

  write(data) {
    this.process.stdio[3].write(data);
  }

  frame(command, args) {
    const body = Buffer.from(JSON.stringify({ id: ++this.#last, command, args }));
    const head = Buffer.alloc(4);
    head.writeUInt32BE(body.length);
    return Buffer.concat([head, body]);
  }

  send(command, args = {}) {
    this.write(this.frame(command, args));
    return this.#last;
  }

  async event() {
    if (this.#events.length === 0) await new Promise((resolve) => (this.#waiting = resolve));
    return this.#events.shift();
  }

  async ask(command, args) {
    this.send(command, args);
    return this.event();
  }

  execution(name, parameters = {}, session = null) {
    return {
      execution: "0199", attempt: 1, action: `t.${name}`, root: this.root, entrypoint: `a.mjs:${name}`,
      parameters, session, deadline_ms: 60000, retry_count: 0, trace: "00-1-2-01", trace_state: "a=1",
    };
  }

  begin(name, parameters, session) {
    return this.send("execute", this.execution(name, parameters, session));
  }

  /** Execute and return the answer; events before it are in told. */
  async run(name, parameters, session) {
    this.begin(name, parameters, session);
    this.told = [];
    for (;;) {
      const event = await this.event();
      if (event.event === "result" || event.event === "error") return event;
      this.told.push(event);
    }
  }

  hello(...names) {
    const actions = names.map((name) => ({ ref: `t.${name}`, root: this.root, entrypoint: `a.mjs:${name}` }));
    return this.ask("hello", { protocol: 1, actions });
  }

  #received(data) {
    this.#rest = Buffer.concat([this.#rest, data]);
    while (this.#rest.length >= 4 && this.#rest.length >= 4 + this.#rest.readUInt32BE()) {
      const size = 4 + this.#rest.readUInt32BE();
      this.last = this.#rest.toString("utf8", 4, size); // the newest event, as it was sent
      this.#events.push(JSON.parse(this.last));
      this.#rest = this.#rest.subarray(size);
    }
    if (this.#events.length > 0) this.#waiting?.();
  }
}

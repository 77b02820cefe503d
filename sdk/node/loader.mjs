// Finds the code of an action: in a pack's files, or in a table passed to serve.

import { realpathSync, statSync } from "node:fs";
import { isAbsolute, join, relative } from "node:path";
import { pathToFileURL } from "node:url";
import { RequestError, tail, text } from "./errors.mjs";
import { loads } from "./late.mjs";

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

  /** The same without a wait, if the code is loaded; undefined otherwise. */
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
      module = await loads(file, () => import(pathToFileURL(path).href));
    } catch (error) {
      throw new RequestError("load_error", `load ${file}: ${text(error)}`, { file: path, stack: tail(error) });
    }
    const call = module[name] ?? module.default?.[name] ?? (name === "run" ? module.default : undefined);
    if (typeof call !== "function") throw new RequestError("load_error", `${file} exports no function ${name}`);
    const source = `${pack}/${file}`; // the same on every node, unlike the root: snapshots name it
    this.#modules.set(source, module);
    return { call, source, path };
  }
}

/** Functions passed to serve, by the name of their action, with or without the pack. */
export class Table {
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

/** The real path of a file of the pack. Throws an error if it is missing or outside the pack. */
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

// What JSON is, at each way in and out: one check of what the action's code gives (results, chunks, details, states), and one
// of the numbers that it gets.

import { types } from "node:util";
import { ActionError, attempt, text } from "./errors.mjs";

const DEPTH_MAX = 100; // levels of objects and arrays
const DIGITS_MAX = 1000; // of a number
const PATH_MAX = 512; // characters of a path in a message

/** How numbers are given to actions that JavaScript's cannot hold: error, bigint or text; a pool's big_numbers. */
export const BIG_NUMBERS = process.env.TROUPE_BIG_NUMBERS || "error";

/**
 * The value as JSON text of at most max bytes. what names the value in an error: the result, the chunk. A value that JSON
 * cannot say is an ActionError that names the path; each part of the value is read once.
 */
export function encode(value, what, max) {
  const writer = new Writer(max);
  try {
    writer.write(value, "");
  } catch (error) {
    if (error instanceof Refusal) throw refusal(what, writer.path, error.reason);
    if (error instanceof Excess) throw excess(what, max);
    throw refusal(what, writer.path, `cannot be read: ${text(error)}`);
  }
  const size = Buffer.byteLength(writer.text);
  if (size > max) throw excess(what, max, size);
  return writer.text;
}

/** A part that JSON cannot say, and why. The writer's path says where it is. */
class Refusal {
  constructor(reason) {
    this.reason = reason;
  }
}

/** The text has more than its limit. */
class Excess {}

function refusal(what, path, reason) {
  return new ActionError(`${what} is not JSON: ${pointer(path) || "it"} ${reason}`, { code: "result_not_json", retriable: false });
}

function excess(what, max, size) {
  const has = size === undefined ? `more than ${max} bytes` : `${size} bytes`;
  return new ActionError(`${what} has ${has}, the limit is ${max}; return a reference instead`, { code: "result_too_large", retriable: false });
}

/** The path as a JSON pointer. */
function pointer(path) {
  const whole = path.map((name) => "/" + String(name).slice(0, PATH_MAX).replaceAll("~", "~0").replaceAll("/", "~1")).join("");
  return whole.length > PATH_MAX ? whole.slice(0, PATH_MAX) + "…" : whole;
}

class Writer {
  text = "";
  path = [];
  #max;
  #above = []; // the objects around the present one

  constructor(max) {
    this.#max = max;
  }

  write(given, key) {
    const value = plain(given, key);
    if (typeof value === "string") this.#string(value);
    else if (typeof value === "number") this.#put(finite(value));
    else if (typeof value === "object" && value !== null) this.#object(value);
    else if (value === null || typeof value === "boolean") this.#put(String(value));
    else if (typeof value === "bigint" && BIG_NUMBERS === "bigint") this.#put(String(value));
    else throw new Refusal(`is ${value === undefined ? "undefined" : `a ${typeof value}`}`);
  }

  #put(piece) {
    this.text += piece;
    if (this.text.length > this.#max) throw new Excess();
  }

  #string(value) {
    if (value.length > this.#max) throw new Excess();
    if (!wellFormed(value)) throw new Refusal("has half a character (a lone surrogate)");
    this.#put(JSON.stringify(value));
  }

  #object(value) {
    if (this.#above.includes(value)) throw new Refusal("is a part of itself");
    if (this.#above.length === DEPTH_MAX) throw new Refusal(`is nested deeper than ${DEPTH_MAX} levels`);
    this.#above.push(value);
    if (Array.isArray(value)) this.#array(value);
    else this.#members(value);
    this.#above.pop();
  }

  #array(list) {
    this.#put("[");
    const { length } = list;
    for (let n = 0; n < length; n++) {
      if (n > 0) this.#put(",");
      this.path.push(n);
      this.write(list[n], String(n));
      this.path.pop();
    }
    this.#put("]");
  }

  #members(object) {
    refuseKind(object);
    this.#put("{");
    let first = true;
    for (const name of Object.keys(object)) {
      this.path.push(name);
      const member = object[name];
      if (member !== undefined) { // as everywhere in JavaScript: a property that is undefined is none
        if (!first) this.#put(",");
        first = false;
        this.#string(name);
        this.#put(":");
        this.write(member, name);
      }
      this.path.pop();
    }
    this.#put("}");
  }
}

/** The value that stands for another in JSON: what its toJSON returns, or the primitive in its box. */
function plain(value, key) {
  if ((typeof value !== "object" && typeof value !== "bigint") || value === null) return value;
  const own = value.toJSON;
  const given = typeof own === "function" ? own.call(value, key) : value;
  return types.isBoxedPrimitive(given) ? given.valueOf() : given;
}

function finite(number) {
  if (!Number.isFinite(number)) throw new Refusal(`is ${number}`);
  return String(number);
}

function wellFormed(value) {
  return typeof value.isWellFormed === "function" ? value.isWellFormed() : !/\p{Surrogate}/u.test(value);
}

/** Refuse an object whose content does not stand in its properties: JSON.stringify would make {} of it. */
function refuseKind(object) {
  const { isNativeError, isPromise, isRegExp, isAnyArrayBuffer, isWeakMap, isWeakSet } = types;
  const hides = isNativeError(object) || object instanceof Error || isPromise(object) || isRegExp(object) || isAnyArrayBuffer(object) || isWeakMap(object) || isWeakSet(object);
  if (!hides && typeof object[Symbol.iterator] !== "function") return;
  const name = String(object.constructor?.name || "object").slice(0, 128);
  throw new Refusal(`is ${/^[AEIOU]/.test(name) ? "an" : "a"} ${name}: make it an array or a plain object`);
}

// A number that may be altered: of 16 digits or more, or with an exponent of two digits or more. It may match within a string.
const SUSPECT = /[:[,]\s*-?(?:\d{16}|\d[\d.]*[eE]\+?\d\d)/;

/** A number of a request that JavaScript cannot hold. */
class NumberError extends Error {
  code = "number_not_exact";
}

/** The request in text. Numbers of its parameters and of its state that would be altered are treated as the pool wants. */
export function decode(body) {
  const request = JSON.parse(body);
  const carries = request?.command === "execute" || request?.command === "restore";
  return carries && SUSPECT.test(body) ? new Reader(body).value() : request;
}

/** Reads text that is known to be JSON, number by number. */
class Reader {
  #text;
  #at = 0;
  #path = [];

  constructor(body) {
    this.#text = body;
  }

  value() {
    switch (this.#peek()) {
      case "{":
        return this.#members();
      case "[":
        return this.#array();
      case '"':
        return this.#string();
    }
    const token = /[^\s,\]}]+/y;
    token.lastIndex = this.#at;
    const [word] = token.exec(this.#text);
    this.#at += word.length;
    return /^[-\d]/.test(word) ? this.#number(word) : JSON.parse(word);
  }

  /** The next character that is no space. */
  #peek() {
    while (/\s/.test(this.#text[this.#at])) this.#at++;
    return this.#text[this.#at];
  }

  /** Step over the next character, which separates parts, and report whether it was end. */
  #ends(end) {
    const found = this.#peek() === end;
    this.#at++;
    return found;
  }

  #array() {
    const list = [];
    this.#at++;
    if (this.#peek() === "]") return this.#at++, list;
    do {
      this.#path.push(list.length);
      list.push(this.value());
      this.#path.pop();
    } while (!this.#ends("]"));
    return list;
  }

  #members() {
    const object = {};
    this.#at++;
    if (this.#peek() === "}") return this.#at++, object;
    do {
      this.#peek();
      const name = this.#string();
      this.#ends(":");
      this.#path.push(name);
      const value = this.value();
      if (name === "__proto__") Object.defineProperty(object, name, { value, enumerable: true, configurable: true, writable: true });
      else object[name] = value;
      this.#path.pop();
    } while (!this.#ends("}"));
    return object;
  }

  #string() {
    let end = this.#at + 1;
    for (; this.#text[end] !== '"'; end++) if (this.#text[end] === "\\") end++;
    const from = this.#at;
    this.#at = end + 1;
    return JSON.parse(this.#text.slice(from, this.#at));
  }

  #number(word) {
    const number = Number(word);
    const whole = /^-?\d+$/.test(word);
    if (Number.isFinite(number) && (!whole || Number.isSafeInteger(number))) return number;
    const [head, part] = this.#path;
    if (head !== "args" || (part !== "parameters" && part !== "state")) return number;
    if (word.length > DIGITS_MAX) this.#refuse(`is a number of ${word.length} digits, the limit is ${DIGITS_MAX}`);
    if (BIG_NUMBERS === "text") return word;
    if (BIG_NUMBERS === "bigint" && whole) return BigInt(word);
    const cure = whole ? "pass it as a text, or set big_numbers: bigint or text for the pool" : "pass it as a text, or set big_numbers: text for the pool";
    this.#refuse(`is ${word.length > 64 ? word.slice(0, 64) + "…" : word}, which no number of JavaScript can hold: ${cure}`);
  }

  #refuse(reason) {
    throw new NumberError(`${pointer(this.#path.slice(2)) || "it"} ${reason}`);
  }
}

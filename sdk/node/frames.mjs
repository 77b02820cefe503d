// Frames over the two pipes: a 4-byte big-endian length, then one JSON object.

import { writeSync } from "node:fs";
import { tail } from "./errors.mjs";

const FRAME_MAX = 16 << 20; // bytes of one frame
export const CHUNK_MAX = FRAME_MAX - 1024; // bytes of a value that is sent in a frame
export const SMALL = 4 << 10; // bytes of a frame that the reading thread parses, to see whether it answers itself

/** Bytes that are not a frame, or a frame that is not a request. It ends the worker, unless it has the id of the request. */
export class ProtocolError extends Error {
  constructor(message, id, code = "invalid_request") {
    super(message);
    Object.assign(this, { id, code });
  }
}

/** Splits the input into frames and passes the body of each to take. A body above SMALL has its own ArrayBuffer. */
export class Input {
  #take;
  #size = 0; // of the frame, as far as its length has come
  #head = 0; // bytes of the length that have come
  #body = null; // null until the length has come whole
  #have = 0; // bytes of body that have come

  constructor(take) {
    this.#take = take;
  }

  /** Add input; data is not kept. Throws a ProtocolError if it is not a frame. */
  received(data) {
    for (let at = 0; at < data.length; ) {
      if (this.#body === null) {
        this.#length(data[at++]);
        continue;
      }
      const copied = data.copy(this.#body, this.#have, at);
      at += copied;
      this.#have += copied;
      if (this.#have === this.#size) this.#whole();
    }
  }

  #length(byte) {
    this.#size = this.#size * 256 + byte;
    if (++this.#head < 4) return;
    const size = this.#size;
    if (size === 0 || size > FRAME_MAX) throw new ProtocolError(`a frame of ${size} bytes: want 1 to ${FRAME_MAX}`);
    this.#body = size > SMALL ? Buffer.allocUnsafeSlow(size) : Buffer.allocUnsafe(size);
  }

  #whole() {
    const body = this.#body;
    this.#size = this.#head = this.#have = 0;
    this.#body = null;
    this.#take(body);
  }
}

/** Writes whole frames from any thread, one after the other. gone is called when the node has closed its end. */
export class Output {
  #shared;
  #gone;

  constructor(shared, gone) {
    this.#shared = shared;
    this.#gone = gone;
  }

  /** Write one frame. Throws a RangeError when it is too large. */
  send(text) {
    const frame = Buffer.from("\0\0\0\0" + text);
    if (frame.length - 4 > FRAME_MAX) throw new RangeError(`a frame of ${frame.length - 4} bytes is above the limit of ${FRAME_MAX}`);
    frame.writeUInt32BE(frame.length - 4, 0);
    try {
      this.#shared.locked(() => writeWhole(4, frame));
    } catch (error) {
      if (error.code !== "EPIPE") throw error;
      this.#gone();
    }
  }

  /** Answer a request that cannot be decoded, or throw its error again where nobody knows whose it is. */
  refuse(error) {
    if (error.id === undefined) throw error;
    const text = JSON.stringify({ code: error.code, message: error.message.slice(0, 1024), retriable: false });
    this.send(`{"event":"error","id":${error.id},"error":${text}}`);
  }

  /** Answer request id; text is the data as JSON. */
  answer(id, text) {
    this.send(`{"event":"result","id":${id},"data":${text}}`);
  }
}

/** The request in text. decode decodes JSON. Throws a ProtocolError if it is no request, with its id where that can be read. */
export function parse(text, decode = JSON.parse) {
  let request = null;
  let reason = "a frame is not a JSON object";
  let code;
  try {
    request = decode(text);
  } catch (error) {
    code = error.code; // of a number that is refused
    reason = code ? error.message : `a frame cannot be decoded: ${error.message}`;
  }
  if (isObject(request) && Number.isSafeInteger(request.id) && isObject(request.args ?? {})) return { ...request, args: request.args ?? {} };
  if (isObject(request)) reason = "a request has an id, which is a number, and args, which are an object";
  // What cannot be decoded is an error of its request, whose id comes first.
  throw new ProtocolError(reason, /^\s*\{\s*"id"\s*:\s*(\d{1,15})\s*[,}]/.exec(text)?.[1], code);
}

function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Say on standard error why this worker ends. */
export function complain(error) {
  try {
    writeSync(2, `troupe_worker: ${error instanceof ProtocolError ? error.message : tail(error)}\n`);
  } catch {
    // nobody reads it; the worker must still end
  }
}

const nap = new Int32Array(new SharedArrayBuffer(4));

function writeWhole(fd, frame) {
  for (let sent = 0; sent < frame.length; ) {
    try {
      sent += writeSync(fd, frame, sent);
    } catch (error) {
      if (error.code !== "EAGAIN") throw error;
      Atomics.wait(nap, 0, 0, 1); // the pipe is full, and its creator made it non-blocking
    }
  }
}

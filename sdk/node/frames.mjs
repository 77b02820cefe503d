// Frames over the two pipes: a 4-byte big-endian length, then one JSON object.

import { writeSync } from "node:fs";

const FRAME_MAX = 16 << 20; // bytes of one frame

/** Cuts what arrives into requests and hands each to take. */
export class Input {
  #take;
  #parts = []; // of a frame that has not come whole
  #have = 0; // bytes in parts
  #need = 4; // bytes until there is something to do

  constructor(take) {
    this.#take = take;
  }

  received(data) {
    this.#parts.push(data);
    this.#have += data.length;
    if (this.#have < this.#need) return;
    let rest = this.#parts.length === 1 ? data : Buffer.concat(this.#parts);
    this.#need = 4;
    while (rest.length >= 4) {
      const size = rest.readUInt32BE(0);
      if (size === 0 || size > FRAME_MAX) fatal(`a frame of ${size} bytes: want 1 to ${FRAME_MAX}`);
      if (rest.length < 4 + size) {
        this.#need = 4 + size;
        break;
      }
      const text = rest.toString("utf8", 4, 4 + size);
      rest = rest.subarray(4 + size);
      this.#take(parse(text));
    }
    this.#parts = rest.length === 0 ? [] : [rest];
    this.#have = rest.length;
  }
}

/** Write one frame whole. Throws a RangeError when it is too large; ends the process when the node is gone. */
export function sendFrame(text) {
  const frame = Buffer.from("\0\0\0\0" + text);
  if (frame.length - 4 > FRAME_MAX) throw new RangeError(`a frame of ${frame.length - 4} bytes is above the limit of ${FRAME_MAX}`);
  frame.writeUInt32BE(frame.length - 4, 0);
  writeWhole(4, frame);
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

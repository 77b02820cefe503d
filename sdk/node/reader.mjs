// The thread that reads requests. It answers ping and cancel, also while an action computes without a pause, and passes
// all other requests to the main thread. It must never block in a read: process.exit in the main thread waits for it.

import { Socket } from "node:net";
import { parentPort, workerData } from "node:worker_threads";
import { Input, Output, SMALL, complain, parse } from "./frames.mjs";
import { Shared } from "./shared.mjs";

const READ_SIZE = 64 << 10; // bytes of one read: what a pipe holds
const EXIT_TIME = 100; // milliseconds for the main thread to end the process, which a computing one does not

const shared = new Shared(workerData);
const output = new Output(shared, () => end(0));
const input = new Input(take);
let ending = false;

/** Handle a frame of the node. The memory of a large one moves to the main thread, which parses it. */
function take(body) {
  if (body.length > SMALL) return parentPort.postMessage(body.buffer, [body.buffer]);
  const text = body.toString();
  let request;
  try {
    request = parse(text);
  } catch (error) {
    return output.refuse(error);
  }
  const { id, command, args } = request;
  if (command === "ping") return output.answer(id, "{}");
  if (command !== "cancel") return parentPort.postMessage(text);
  shared.cancel(args.request);
  output.answer(id, "{}");
  parentPort.postMessage({ cancel: args.request });
}

function received(size, buffer) {
  try {
    if (!ending) input.received(buffer.subarray(0, size));
  } catch (error) {
    complain(error);
    end(2);
  }
  return true;
}

/** End the process: with status by the main thread, or by force if that thread does not do it in time. */
function end(status) {
  if (ending) return;
  ending = true;
  parentPort.postMessage({ end: status });
  setTimeout(() => process.kill(process.pid, "SIGKILL"), EXIT_TIME);
}

const socket = new Socket({ fd: 3, readable: true, writable: false, onread: { buffer: Buffer.alloc(READ_SIZE), callback: received } });
socket.on("close", () => end(0));
socket.on("error", () => end(0));

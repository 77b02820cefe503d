// The state that the two threads of a worker share: a lock for descriptor 4, and which execute is cancelled.

const NEXT = 0; // of the lock: the number that the next thread draws
const SERVED = 1; // of the lock: the number whose turn it is

/** Memory of both threads. Each makes one from the same SharedArrayBuffer. */
export class Shared {
  #lock;
  #cancelled; // the highest id of a cancelled execute

  constructor(memory = Shared.memory()) {
    this.memory = memory;
    this.#lock = new Int32Array(memory, 8, 2);
    this.#cancelled = new BigInt64Array(memory, 0, 1);
  }

  static memory() {
    const memory = new SharedArrayBuffer(16);
    new BigInt64Array(memory, 0, 1)[0] = -1n;
    return memory;
  }

  /**
   * Run body while no other thread is in locked. Threads get the lock in order, so that an action which streams in a tight
   * loop cannot starve the answers to ping. body must not end the process: exit handlers may write too.
   */
  locked(body) {
    const mine = Atomics.add(this.#lock, NEXT, 1);
    for (let now; (now = Atomics.load(this.#lock, SERVED)) !== mine; ) Atomics.wait(this.#lock, SERVED, now);
    try {
      body();
    } finally {
      Atomics.add(this.#lock, SERVED, 1);
      Atomics.notify(this.#lock, SERVED);
    }
  }

  /** Record the cancel of execute request. Ids grow, so a late cancel of an older run does not undo that of the newest. */
  cancel(request) {
    if (!Number.isSafeInteger(request)) return;
    if (BigInt(request) > Atomics.load(this.#cancelled, 0)) Atomics.store(this.#cancelled, 0, BigInt(request));
  }

  isCancelled(request) {
    return Number(Atomics.load(this.#cancelled, 0)) === request;
  }
}

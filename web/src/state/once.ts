// What is done once at a time.

export class Once {
  private readonly going = new Set<string>()

  /** Does a piece of work, unless the same is under way: then it does nothing, and answers undefined. */
  async run<T>(what: string, work: () => Promise<T>): Promise<T | undefined> {
    if (this.going.has(what)) return undefined
    this.going.add(what)
    try {
      return await work()
    } finally {
      this.going.delete(what)
    }
  }
}

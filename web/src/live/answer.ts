// An answer of the API that is followed: made of a snapshot, and of differences to it.

export interface Change {
  topic: string
  at?: string
  n?: number
  after?: number
  set?: [string, unknown][]
  gone?: string[]
  keys?: string[]
  problem?: { code: string; message: string }
}

export class Answer {
  private keys: string[] = []
  private values = new Map<string, unknown>()
  private n = 0

  /** Takes a change. False: it does not follow what is here, so that everything is to be asked anew. */
  take(change: Change): boolean {
    const snapshot = !change.after
    if (!snapshot && change.after !== this.n) return false
    const before = snapshot ? [] : this.keys
    const values = snapshot ? new Map<string, unknown>() : this.values
    for (const key of change.gone ?? []) if (!values.delete(key)) return false
    const fresh: string[] = []
    for (const [key, value] of change.set ?? []) {
      if (!values.has(key)) fresh.push(key)
      values.set(key, value)
    }
    const keys = change.keys ?? [...fresh, ...before.filter((key) => values.has(key))]
    if (keys.length !== values.size || keys.some((key) => !values.has(key))) return false
    ;[this.keys, this.values, this.n] = [keys, values, change.n ?? 0]
    return true
  }

  /** The answer as the API itself would give it. */
  document(): Record<string, unknown> {
    const whole: Record<string, unknown> = {}
    for (const key of this.keys) {
      const slash = key.indexOf('/')
      if (slash < 0) {
        whole[key] = this.values.get(key)
        continue
      }
      const list = (whole[key.slice(0, slash)] ??= []) as unknown[]
      list.push(this.values.get(key))
    }
    return whole
  }
}

// An answer of the API that is followed: made of a snapshot, and of differences to it.

import { forestOf, isTree } from './forest'

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
  private topic = ''

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
    ;[this.keys, this.values, this.n, this.topic] = [keys, values, change.n ?? 0, change.topic]
    return true
  }

  /** The answer as the API itself would give it. */
  document(): Record<string, unknown> {
    if (isTree(this.topic)) return forestOf(this.keys.map((key) => [key, this.values.get(key)] as const))
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

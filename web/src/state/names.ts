// Names of things that exist, which complete a filter. They are asked for once somebody types, and kept for a while.

import { rangeGiven } from './range'
import { withQuery } from './route'

/** How long names are kept, in milliseconds, and how many of a kind. */
export const keptFor = 30_000, namesMax = 1000
const codesMax = 50

/** Where the codes are of what failed in the time that a page shows. What is wrong in its address is left out, as its chips say. */
export const codesPath = (query: URLSearchParams): string =>
  withQuery('api/v1/facets', new URLSearchParams([['fields', 'error'], ['limit', String(codesMax)], ['status', 'failed,timed_out,abandoned'], ...rangeGiven(query)]))

export type Known = Record<string, readonly string[]>

export class Names {
  private readonly asked = new Map<string, number>() // when, by kind
  private all: Known = {}

  /** Sources are by the kind of name. Told is called with all names whenever there are others. */
  constructor(private readonly sources: Readonly<Record<string, () => Promise<readonly string[]>>>, private readonly clock: () => number, private readonly told: (all: Known) => void) {}

  /** Sees that the names of a kind are known, and not too old. */
  async want(kind: string): Promise<void> {
    const source = Object.hasOwn(this.sources, kind) ? this.sources[kind] : undefined
    const at = this.clock()
    if (!source || at - (this.asked.get(kind) ?? -Infinity) < keptFor) return
    this.asked.set(kind, at)
    try {
      const names = await source()
      this.all = { ...this.all, [kind]: [...new Set(names)].slice(0, namesMax) }
      this.told(this.all)
    } catch {
      // The page says elsewhere that the node does not answer. What was known serves on, and is asked for anew after a while.
    }
  }
}

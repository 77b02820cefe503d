// The fleet at a time of the past, for the tree and for the lists of what is now.
import type { Fleet } from '../pages/past'
import { Poll } from './poll.svelte'
import { stamp } from './range'

export const pastPath = (at: number): string => `api/v1/fleet?at=${stamp(at)}`

export class Past {
  /** It is asked once: what was stays so. */
  readonly poll: Poll<Fleet>
  /** The last answer stays while the next one is on its way. */
  fleet = $state.raw<Fleet | undefined>()

  /** At is the time; undefined: nothing is asked. */
  constructor(at: () => number | undefined) {
    this.poll = new Poll<Fleet>(() => { const t = at(); return t === undefined ? undefined : pastPath(t) }, 60_000, () => true)
    $effect(() => { if (at() === undefined) this.fleet = undefined; else if (this.poll.data) this.fleet = this.poll.data })
  }
}

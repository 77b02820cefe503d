// A list in pages: the first is asked again and again, further ones when somebody wants them.
import { untrack } from 'svelte'
import { get, now, type Problem } from '../api/client'
import { Poll } from './poll.svelte'
import { timedPath } from './range'
import { say } from './session.svelte'

/** How many rows a list holds. */
export const rowsMax = 2000

export class Pages<A extends { next_cursor?: string }, T> {
  readonly poll: Poll<A>
  busy = $state(false)
  private more = $state.raw<T[]>([])
  private next = $state.raw<string | undefined>()
  private deeper = $state(false)

  constructor(private readonly path: () => string, private readonly rowsOf: (answer: A) => T[], every = 2000) {
    this.poll = new Poll<A>(path, every)
    $effect(() => {
      path()
      untrack(() => { [this.more, this.next, this.deeper] = [[], undefined, false] })
    })
  }

  get rows(): T[] { return this.poll.data ? [...this.rowsOf(this.poll.data), ...this.more].slice(0, rowsMax) : [] }
  get cursor(): string | undefined { return this.deeper ? this.next : this.poll.data?.next_cursor }
  get full(): boolean { return this.rows.length >= rowsMax }

  async load(): Promise<void> {
    const path = this.path(), asked = timedPath(path, now()), cursor = this.cursor
    if (this.busy || !cursor || this.full) return
    this.busy = true
    try {
      const page = await get<A>(`${asked}${asked.includes('?') ? '&' : '?'}cursor=${encodeURIComponent(cursor)}`)
      if (path !== this.path()) return
      ;[this.more, this.next, this.deeper] = [[...this.more, ...this.rowsOf(page)], page.next_cursor, true]
    } catch (error) {
      say((error as Problem).message, { bad: true })
    } finally {
      this.busy = false
    }
  }
}

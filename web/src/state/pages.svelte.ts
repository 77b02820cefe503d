// A list in pages: the first is asked again and again, further ones when somebody wants them.
import { untrack } from 'svelte'
import { get, now, type Problem } from '../api/client'
import { type Held, type How, none, older, type Page, renewed } from './held'
import { Poll } from './poll.svelte'
import { timedPath } from './range'
import { say } from './session.svelte'

/** How many pages are read to know what a list is now. With more, it begins anew with those that were read. */
const readsMax = 20

interface Options<A, T> {
  rowsOf: (answer: A) => T[]
  keyOf: (row: T) => string | number
  /** How often the first page is asked, in milliseconds. */
  every?: number
  /** Rows change their places. */
  moves?: boolean
}

export class Pages<A extends { next_cursor?: string }, T> {
  readonly poll: Poll<A>
  readonly keyOf: (row: T) => string | number
  busy = $state(false)
  private held = $state.raw<Held<T>>(none)
  private how: How
  private of: string | undefined // the path of the rows
  private reading = false // a page behind the first one

  constructor(private readonly path: () => string, private readonly options: Options<A, T>) {
    this.poll = new Poll<A>(path, options.every ?? 2000)
    this.keyOf = options.keyOf
    this.how = this.usual
    $effect(() => {
      const [wanted, answer] = [path(), this.poll.data]
      untrack(() => {
        if (wanted !== this.of) [this.held, this.of, this.how] = [none, wanted, this.usual]
        if (answer) void this.take(answer)
      })
    })
  }

  get ready(): boolean { return this.poll.data !== undefined && this.held !== none }
  get rows(): readonly T[] { return this.ready ? this.held.rows : [] }
  get cursor(): string | undefined { return this.ready ? this.held.cursor : undefined }
  get full(): boolean { return this.held.full }

  private get usual(): How { return this.options.moves ? 'moves' : 'stays' }

  /** Asks for all rows again. */
  refresh(): void {
    this.how = 'anew'
    this.poll.refresh()
  }

  /** Loads the page behind the last row. */
  async load(): Promise<void> {
    const cursor = this.cursor
    if (this.reading || !cursor || this.full) return
    this.held = { ...this.held, deeper: true } // from now on, what new rows push off the first page stays
    this.busy = true
    await this.read(async (path) => {
      const page = await this.page(path, cursor)
      if (path === this.path()) this.held = older(this.held, page, this.keyOf)
    })
    this.busy = false
  }

  /** Takes the first page, and reads those behind it where it alone does not say what the list is now. */
  private async take(answer: A): Promise<void> {
    if (this.reading) return // it is taken after that
    let page = this.pageOf(answer)
    const held = renewed(this.held, page, this.keyOf, this.how)
    if (held) {
      [this.held, this.how] = [held, this.usual]
      return
    }
    await this.read(async (path) => {
      for (let n = 0; n < readsMax; n++) {
        const next = await this.page(path, page.cursor!)
        if (path !== this.path()) return
        page = { rows: [...page.rows, ...next.rows], cursor: next.cursor }
        const whole = renewed(this.held, page, this.keyOf, this.how)
        if (whole) return void ([this.held, this.how] = [whole, this.usual])
      }
      [this.held, this.how] = [{ ...none, ...page, deeper: true }, this.usual]
    })
  }

  /** Does one reading at a time, and then takes the first page as it has become meanwhile. */
  private async read(pages: (path: string) => Promise<void>): Promise<void> {
    const seen = this.poll.data
    this.reading = true
    try {
      await pages(this.path())
    } catch (error) {
      say((error as Problem).message, { bad: true })
    } finally {
      this.reading = false
    }
    const news = this.poll.data
    if (news && news !== seen) void this.take(news)
  }

  private async page(path: string, cursor: string): Promise<Page<T>> {
    const asked = timedPath(path, now())
    return this.pageOf(await get<A>(`${asked}${asked.includes('?') ? '&' : '?'}cursor=${encodeURIComponent(cursor)}`))
  }

  private pageOf(answer: A): Page<T> { return { rows: this.options.rowsOf(answer), cursor: answer.next_cursor } }
}

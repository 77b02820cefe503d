// A list in pages. The first is asked again and again. Further ones are loaded when somebody wants them, and are then asked again while their rows are on the screen.
import { untrack } from 'svelte'
import { get, now, type Problem } from '../api/client'
import type { Paged } from '../api/types'
import { beginOf, bounded, type Held, type How, type Mark, markFor, newerOf, none, older, type Page, reaches, refreshed, renewed, waitsMax } from './held'
import { pause } from './pause.svelte'
import { Poll } from './poll.svelte'
import { timedPath } from './range'
import { say } from './session.svelte'

/** How many pages are read to know what a list is now. With more, it begins anew with those that were read. */
const readsMax = 20

/** How often a page behind the first one is asked again, in milliseconds. */
const againEvery = 5000
/** How long the screen is still before what it shows is asked again. */
const stillTime = 300

interface Options<A, T> {
  rowsOf: (answer: A) => T[]
  keyOf: (row: T) => string | number
  /** How often the first page is asked, in milliseconds. */
  every?: number
  /** Rows change their places. */
  moves?: boolean
  /** A row never changes, and none goes. */
  lasting?: boolean
  /** New rows come in front, and wait there until somebody asks for them. */
  waits?: boolean
}

const behindPath = (path: string, cursor: string) => `${path}${path.includes('?') ? '&' : '?'}cursor=${encodeURIComponent(cursor)}`

export class Pages<A extends Paged, T> {
  readonly poll: Poll<A>
  readonly keyOf: (row: T) => string | number
  busy = $state(false)
  private held = $state.raw<Held<T>>(none)
  /** So many rows in front wait. */
  private waiting = $state(0)
  /** There are more newer rows than wait: the first page does not reach those that are held. */
  private flooded = $state(false)
  /** The keys of the rows that do not. */
  private shown: ReadonlySet<string | number> = new Set()
  private how: How
  private of: string | undefined // the path of the rows
  private reading = false // a page behind the first one
  /** Where pages behind the first one begin, as far as they were read. */
  private marks: readonly Mark[] = []
  /** The first and the last row on the screen, by their keys; undefined: all are. */
  private seen = $state.raw<readonly [first: string | number, last: string | number] | undefined>()
  /** The page behind the first one that is asked again, and how often it was. */
  private due = $state.raw<Mark | undefined>()
  private answers = 0
  private readonly behind: Poll<A>
  private still = 0

  constructor(private readonly path: () => string, private readonly options: Options<A, T>) {
    this.poll = new Poll<A>(path, options.every ?? 2000)
    this.keyOf = options.keyOf
    this.how = this.usual
    this.behind = new Poll<A>(() => (this.due && !pause.since ? behindPath(path(), this.due.cursor) : undefined), againEvery)
    $effect(() => {
      const answer = this.behind.data
      if (answer) untrack(() => this.again(answer))
    })
    $effect(() => {
      void [this.held, this.seen, this.poll.data]
      untrack(() => this.turn())
    })
    $effect(() => () => clearTimeout(this.still))
    $effect(() => {
      const [wanted, answer] = [path(), this.poll.data]
      untrack(() => {
        if (wanted !== this.of) {
          this.put(none, false)
          ;[this.of, this.how, this.marks, this.due, this.seen] = [wanted, this.usual, [], undefined, undefined]
        }
        if (answer) void this.take(answer)
      })
    })
  }

  get ready(): boolean { return this.poll.data !== undefined && this.held !== none }
  get rows(): readonly T[] { return !this.ready ? [] : this.waiting ? this.held.rows.slice(this.waiting) : this.held.rows }
  /** How many rows have come in front of those that are shown, and whether there are more. */
  get newer(): number { return !this.ready ? 0 : this.flooded ? waitsMax : this.waiting }
  get more(): boolean { return this.flooded }
  get cursor(): string | undefined { return this.ready ? this.held.cursor : undefined }
  get searched(): string | undefined { return this.ready ? this.held.searched : undefined }
  get full(): boolean { return this.held.full }

  private get usual(): How { return this.options.moves ? 'moves' : 'stays' }

  /** Shows the rows that have come in front. Where not all of them wait, the list begins anew. */
  show(): void {
    this.shown = new Set()
    if (!this.flooded || !this.poll.data) return this.put(this.held)
    this.marks = []
    this.put({ ...none, ...this.pageOf(this.poll.data) }, false)
  }

  /** Flooded: whether there are more newer rows in front of these. */
  private put(all: Held<T>, flooded = this.flooded): void {
    const { held, waiting, more } = bounded(all, this.options.waits ? newerOf(all.rows, this.shown, this.keyOf) : 0)
    ;[this.held, this.waiting, this.flooded] = [held, waiting, flooded || more]
    this.shown = new Set(held.rows.slice(waiting).map(this.keyOf))
  }

  /** Asks for all rows again. */
  refresh(): void {
    this.how = 'anew'
    this.poll.refresh()
  }

  /** Loads the page behind the last row. */
  async load(): Promise<void> {
    const cursor = this.cursor
    if (this.reading || !cursor || this.full) return
    this.put({ ...this.held, deeper: true }) // from now on, what new rows push off the first page stays
    this.busy = true
    await this.read(async (path) => {
      const last = this.held.rows.at(-1)
      const page = await this.page(path, cursor)
      if (path !== this.path() || cursor !== this.cursor) return // the list has begun anew
      this.mark({ cursor, after: last && this.keyOf(last) })
      this.put(older(this.held, page, this.keyOf))
    })
    this.busy = false
  }

  /** Says which rows are on the screen, the first and the last of them. */
  see(first: T, last: T): void {
    clearTimeout(this.still)
    this.still = setTimeout(() => { this.seen = [this.keyOf(first), this.keyOf(last)] }, stillTime)
  }

  /** How many rows at the front the first page has: these are fresh without more. */
  private get fresh(): number {
    const there = new Set(this.poll.data ? this.options.rowsOf(this.poll.data).map(this.keyOf) : [])
    const end = this.held.rows.findIndex((row) => !there.has(this.keyOf(row)))
    return end < 0 ? this.held.rows.length : end
  }

  /** The rows on the screen that the first page does not have, as places; undefined: there are none. */
  private get stale(): readonly [first: number, last: number] | undefined {
    const rows = this.held.rows
    const [first, last] = this.seen ? this.seen.map((key) => rows.findIndex((row) => this.keyOf(row) === key)) : [0, rows.length - 1]
    const from = Math.max(first!, this.fresh)
    return this.options.lasting || !this.held.deeper || last! < from ? undefined : [from, last!]
  }

  /** Where the page with a row begins, or the last known one before it. */
  private markAt(row: number): Mark | undefined {
    const front = this.held.rows[this.fresh - 1], cursor = this.poll.data?.next_cursor
    return markFor(this.held.rows, [...this.marks, ...(cursor && front ? [{ cursor, after: this.keyOf(front) }] : [])], row, this.keyOf)
  }

  private mark(mark: Mark): void {
    this.marks = [...this.marks.filter((m) => m.after !== mark.after), mark].slice(-2 * readsMax)
  }

  /** Chooses which page is asked again, unless the present one is needed still. */
  private turn(): void {
    const stale = this.stale
    const start = stale && this.markAt(stale[0])
    const begin = this.due ? beginOf(this.held.rows, this.due, this.keyOf) : -1
    if (stale && start && begin >= beginOf(this.held.rows, start, this.keyOf) && begin <= stale[1]) return
    this.ask(start)
  }

  private ask(due: Mark | undefined): void {
    if (due?.cursor === this.due?.cursor) return
    ;[this.due, this.answers] = [due, 0]
  }

  /** Takes a page behind the first one that was asked again, and goes on to the next one on the screen. Behind the last one it begins anew. */
  private again(answer: A): void {
    const due = this.due
    if (!due || this.reading) return
    const begin = beginOf(this.held.rows, due, this.keyOf)
    if (begin < 0) return this.turn()
    const page = this.pageOf(answer)
    const held = refreshed(this.held, begin, page, this.keyOf, this.usual)
    if (!held) {
      ;[this.how, this.marks] = ['anew', []]
      if (this.poll.data) void this.take(this.poll.data)
      return
    }
    this.put(held)
    this.answers++
    const last = page.rows.at(-1)
    const next = page.cursor === undefined ? undefined : { cursor: page.cursor, after: last ? this.keyOf(last) : due.after }
    if (next && last) this.mark(next)
    const stale = this.stale
    if (next && stale && beginOf(held.rows, next, this.keyOf) <= stale[1]) return this.ask(next)
    if (this.answers > 1) this.ask(stale && this.markAt(stale[0]))
  }

  /** Takes the first page, and reads those behind it where it alone does not say what the list is now. */
  private async take(answer: A): Promise<void> {
    if (this.reading) return // it is taken after that
    let page = this.pageOf(answer)
    const held = this.whole(page)
    if (held) {
      this.put(held, false)
      this.how = this.usual
      return
    }
    if (this.flooded && this.how === this.usual) return // what is newer is not taken until somebody asks for it
    await this.read(async (path) => {
      for (let n = 0; n < readsMax; n++) {
        const next = await this.page(path, page.cursor!)
        if (path !== this.path()) return
        const last = page.rows.at(-1)
        if (last) this.mark({ cursor: page.cursor!, after: this.keyOf(last) })
        page = { rows: [...page.rows, ...next.rows], cursor: next.cursor, searched: next.searched }
        const whole = this.whole(page)
        if (!whole) continue
        this.put(whole, false)
        this.how = this.usual
        return
      }
      this.how = this.usual
      const met = this.options.waits ? this.whole(page) : { ...none, ...page, deeper: true }
      if (met) this.put(met, false)
      else this.flooded = true
    })
  }

  /** The list with its first page, or with several; undefined: that does not say yet what the list is. */
  private whole(page: Page<T>): Held<T> | undefined {
    if (!this.options.waits) return renewed(this.held, page, this.keyOf, this.how)
    if (this.how === 'anew' && page.cursor !== undefined && !reaches(page.rows, this.shown, this.keyOf)) return undefined
    return renewed({ ...this.held, deeper: true }, page, this.keyOf, this.how) // rows that wait push none off the first page
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
    return this.pageOf(await get<A>(behindPath(timedPath(path, now()), cursor)))
  }

  private pageOf(answer: A): Page<T> { return { rows: this.options.rowsOf(answer), cursor: answer.next_cursor, searched: answer.more === 'unsearched' ? answer.searched_to?.at : undefined } }
}

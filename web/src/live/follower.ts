// Holds one live stream for all pages that want something of it. It runs in a shared worker, or in the page itself.
import { parse } from '../api/digits'
import type { Live } from '../api/types'
import { Answer, type Change } from './answer'
import { backOff } from './backoff'
import { Events } from './sse'
import { flowsMax, isFlow, streamOf, taken, topicsMax } from './topics'

/** How the stream stands. Times are this browser's. */
export interface Standing {
  state: 'idle' | 'opening' | 'live' | 'lost' | 'denied'
  /** Since when it is lost. */
  since: number
  /** When it is tried again. */
  again: number
  /** The node has no live stream, or no place: pages ask again and again instead. */
  refused: boolean
  /** What answers; empty: nothing has yet. */
  build: string
  message: string
}

export interface Wrong { status: number; code: string; message: string; topic?: string | undefined }

/** What was said of a topic. Anew: forget all before. Lost: so many entries before these are missing. */
export interface Heard { anew: boolean; lost: number; said: Live[] }

/** What a page is told: of one topic, or how the stream stands. A topic without doc has not changed. */
export type Told =
  | { kind: 'topic'; topic: string; at: number; doc?: unknown; wrong?: Wrong }
  | { kind: 'said'; topic: string; heard: Heard }
  | { kind: 'standing'; standing: Standing }

/** What a page says: all that it wants, or that it leaves. */
export type Said = { topics: string[]; retry?: boolean } | { bye: true }

export interface World {
  open: (path: string, last: string, stop: AbortSignal) => Promise<Response>
  now: () => number
  random: () => number
}

type Tell = (told: Told) => void

interface Saying extends Change { log?: string; said?: Live[]; lost?: number }

interface Followed { answer: Answer; whole: boolean; at: number; wrong: Wrong | undefined }

/** A page that was silent for so long is gone. It speaks every ten seconds, and in the background every minute. */
export const silentMax = 150_000
/** The node says something every two seconds. */
export const quietMax = 8_000
const gather = 30
/** What the node does not follow, such as an answer that is too large, though it may be asked. */
const refusals: Record<string, number | undefined> = { __proto__: null as never, invalid_request: 422, too_many_requests: 429 }

export class Follower {
  standing: Standing = { state: 'idle', since: 0, again: 0, refused: false, build: '', message: '' }
  private pages = new Map<Tell, { topics: Set<string>; heard: number }>()
  private followed = new Map<string, Followed>()
  /** How much of what is said has been told, by topic. */
  private places = new Map<string, { log: string; n: number }>()
  private bad = new Map<string, Wrong>()
  private stop: AbortController | undefined
  private open: string[] = []
  private last = ''
  private failures = 0
  private retry = 0
  private timer: ReturnType<typeof setTimeout> | undefined
  /** The topics of the last stream, which can go on where it was. */
  private before: string[] = []

  constructor(private readonly world: World) {}

  /** Hears a page. */
  hear(page: Tell, said: Said): void {
    if ('bye' in said) {
      this.pages.delete(page)
      return this.soon(gather)
    }
    const known = this.pages.get(page)
    this.pages.set(page, { topics: new Set(said.topics), heard: this.world.now() })
    if (!known) page({ kind: 'standing', standing: this.standing })
    for (const topic of said.topics) if (!known?.topics.has(topic)) this.give(page, topic)
    if (said.retry) {
      this.bad.clear()
      this.failures = 0
      this.shut()
    }
    if (said.retry || !same(this.wanted(), this.open)) this.soon(said.retry || this.standing.state !== 'lost' ? gather : Math.max(gather, this.standing.again - this.world.now()))
  }

  /** Forgets pages that are silent. */
  sweep(): void {
    const now = this.world.now()
    for (const [page, { heard }] of this.pages) if (now - heard > silentMax) this.hear(page, { bye: true })
  }

  private give(page: Tell, topic: string): void {
    if (isFlow(topic)) this.anew(topic)
    const f = this.followed.get(topic)
    const crowded = { status: 429, code: 'too_many_requests', message: `a stream has up to ${topicsMax} topics, and ${flowsMax} executions` }
    const wrong = this.bad.get(topic) ?? f?.wrong ?? (this.wanted().includes(topic) ? undefined : crowded)
    if (f?.whole) page({ kind: 'topic', topic, at: f.at, doc: f.answer.document() })
    if (wrong) page({ kind: 'topic', topic, at: f?.at ?? 0, wrong })
  }

  /** Has all that a topic said told again. It is not kept here, so a page that comes later has the stream opened anew. */
  private anew(topic: string): void {
    this.places.delete(topic)
    if (this.open.includes(topic)) this.shut()
  }

  private wanted(): string[] {
    const all = new Set<string>()
    for (const { topics } of this.pages.values()) for (const topic of topics) if (!this.bad.has(topic)) all.add(topic)
    return taken([...all])
  }

  private soon(wait: number): void {
    clearTimeout(this.timer)
    this.timer = setTimeout(() => this.begin(), wait)
  }

  private shut(): void {
    this.stop?.abort()
    this.stop = undefined
    this.open = []
  }

  /** Opens the stream of what is wanted, unless it is open. The same topics go on where they were. */
  private begin(): void {
    const wanted = this.wanted()
    if (this.stop && same(wanted, this.open)) return
    const again = same(wanted, this.before)
    this.shut()
    for (const kept of [this.followed, this.places]) for (const topic of [...kept.keys()]) if (!wanted.includes(topic)) kept.delete(topic)
    for (const topic of [...this.bad.keys()]) if (![...this.pages.values()].some((p) => p.topics.has(topic))) this.bad.delete(topic)
    if (wanted.length === 0) {
      this.before = []
      return this.stand({ state: 'idle' })
    }
    if (!again) this.last = ''
    const stop = new AbortController()
    ;[this.stop, this.open, this.before] = [stop, wanted, wanted]
    if (this.standing.state !== 'lost' && this.standing.state !== 'live') this.stand({ state: 'opening' })
    void this.read(wanted, stop)
  }

  private async read(topics: string[], stop: AbortController): Promise<void> {
    let wrong: Wrong = { status: 0, code: 'unreachable', message: 'the node does not answer' }
    let watch: ReturnType<typeof setTimeout> | undefined
    const alive = () => {
      clearTimeout(watch)
      watch = setTimeout(() => stop.abort(), quietMax)
    }
    this.retry = 0
    try {
      alive()
      const placeOf = (topic: string) => { const p = this.places.get(topic); return p && `${p.log}.${p.n}` }
      const answer = await this.world.open(streamOf(topics, placeOf), this.last, stop.signal)
      if (!answer.ok) {
        this.retry = 1000 * Number(answer.headers.get('Retry-After') ?? 0)
        wrong = await problemOf(answer)
      } else {
        const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader()
        const events = new Events()
        for (;;) {
          const { done, value } = await reader.read()
          if (done || this.stop !== stop) break
          alive()
          for (const e of events.take(value)) this.take(e.kind, e.data, e.id)
        }
      }
    } catch {
      // told below
    } finally {
      clearTimeout(watch)
    }
    if (this.stop !== stop) return // another stream was opened
    stop.abort()
    this.shut()
    this.ended(wrong)
  }

  private take(kind: string, data: string, id: string | undefined): void {
    if (kind === 'reset') {
      this.retry = (JSON.parse(data) as { retry_after_ms: number }).retry_after_ms
      this.places.clear()
    } else if (kind === 'notice') {
      this.failures = 0
      this.stand({ state: 'live', since: 0, again: 0, refused: false, build: (JSON.parse(data) as { build: string }).build, message: '' })
    } else if (kind === 'alive') {
      this.alive((JSON.parse(data) as { read: Record<string, string> }).read)
    } else {
      this.change(parse<Change>(data))
    }
    if (id !== undefined) this.last = id
  }

  private alive(read: Record<string, string>): void {
    for (const [topic, at] of Object.entries(read)) {
      const f = this.followed.get(topic)
      if (!f?.whole) continue
      f.at = Date.parse(at)
      this.tell(topic, { kind: 'topic', topic, at: f.at })
    }
  }

  private said(saying: Saying): void {
    const { topic, log = '', n = 0, after = 0, said = [], lost = 0, problem } = saying
    if (problem) return this.tell(topic, { kind: 'topic', topic, at: 0, wrong: { status: 503, ...problem } })
    const place = this.places.get(topic)
    if (after && (place?.log !== log || place.n !== after)) {
      this.places.delete(topic)
      throw new Error('what was said does not follow what is here')
    }
    this.places.set(topic, { log, n })
    this.tell(topic, { kind: 'said', topic, heard: { anew: !after, lost, said } })
  }

  private change(change: Change): void {
    const { topic } = change
    if (isFlow(topic)) return this.said(change)
    let f = this.followed.get(topic)
    if (!f) this.followed.set(topic, (f = { answer: new Answer(), whole: false, at: 0, wrong: undefined }))
    if (change.problem) {
      f.wrong = { status: refusals[change.problem.code] ?? 503, ...change.problem }
      return this.tell(topic, { kind: 'topic', topic, at: f.at, wrong: f.wrong })
    }
    if (!f.answer.take(change)) {
      this.last = ''
      throw new Error('a difference does not follow what is here')
    }
    ;[f.whole, f.at, f.wrong] = [true, Date.parse(change.at!), undefined]
    this.tell(topic, { kind: 'topic', topic, at: f.at, doc: f.answer.document() })
  }

  private ended(wrong: Wrong): void {
    const named = wrong.status === 422 ? wrong.topic : undefined
    const bad = named && isFlow(named) ? named.split('@')[0] : named // without its place
    if (bad !== undefined && this.before.includes(bad)) {
      this.bad.set(bad, wrong)
      this.tell(bad, { kind: 'topic', topic: bad, at: 0, wrong })
      return this.soon(gather)
    }
    if (wrong.status === 401 || wrong.status === 403) return this.stand({ state: 'denied', refused: wrong.status === 403, message: wrong.message })
    this.failures++
    const now = this.world.now()
    const wait = Math.max(this.retry, this.retry && this.failures === 1 ? 0 : backOff(this.failures, this.world.random()))
    this.stand({
      state: 'lost', since: this.standing.state === 'lost' ? this.standing.since : now, again: now + wait,
      refused: wrong.status === 404 || wrong.status === 429, message: wrong.message,
    })
    this.soon(wait)
  }

  private stand(change: Partial<Standing>): void {
    this.standing = { ...this.standing, ...change }
    for (const page of this.pages.keys()) page({ kind: 'standing', standing: this.standing })
  }

  private tell(topic: string, told: Told): void {
    for (const [page, { topics }] of this.pages) if (topics.has(topic)) page(told)
  }
}

function same(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((topic, i) => topic === b[i])
}

async function problemOf(answer: Response): Promise<Wrong> {
  try {
    const { error } = await answer.json() as { error: { code: string; message: string; details?: { topic?: string } } }
    return { status: answer.status, code: error.code, message: error.message, topic: error.details?.topic }
  } catch {
    return { status: answer.status, code: `http_${answer.status}`, message: `the node answers ${answer.status}` }
  }
}

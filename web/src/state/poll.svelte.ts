// Follows what the node says while somebody looks, or asks again and again where that cannot be followed. Each answer has its time, so that a page can say how old it is.
import { untrack } from 'svelte'
import { get, now, Problem, unreachable } from '../api/client'
import { backOff } from '../live/backoff'
import { topicOf } from '../live/topics'
import { live } from './live.svelte'
import { pause } from './pause.svelte'
import { timedPath } from './range'

/** The time, once a second while the page is visible. */
let second = $state(now())
setInterval(() => { if (!document.hidden) second = now() }, 1000)
export const ticker = {
  /** The time of what the page shows: it stands still while the page is paused. */
  get now(): number { return pause.since || ticker.clock },
  get clock(): number { return Math.max(second, now() - 1000) },
}

/** The code of the problem that the page's banner tells already. */
export const lost = 'stream_lost'

/** Whether a path is a question to the API, and not only a topic. */
const isQuestion = (path: string) => /^(api|debug)\//.test(path)

export class Poll<T> {
  data = $state.raw<T | undefined>(undefined)
  problem = $state.raw<Problem | undefined>(undefined)
  /** When the data was asked for, by the store's clock; 0: never. */
  at = $state(0)
  private again: () => void = () => undefined

  /** Path is asked every so many milliseconds; an undefined path is not asked. An age in it, such as from=-6h, is counted from when it is asked. While the page is paused, nothing is asked by itself. Rest says whether an answer is the last one. */
  constructor(path: () => string | undefined, every: number | (() => number) = 2000, rest: (data: T) => boolean = () => false) {
    let asked: string | undefined
    $effect(() => {
      const wanted = path()
      const paused = pause.since > 0
      if (wanted !== asked) [this.data, this.problem, this.at, asked] = [undefined, undefined, 0, wanted]
      if (wanted === undefined) return
      if (paused) return untrack(() => this.once(wanted))
      const topic = live.refused || this.refused === wanted ? undefined : topicOf(timedPath(wanted, now()))
      if (!topic && !isQuestion(wanted)) return
      return untrack(() => (topic ? this.follow(wanted, topic) : this.loop(wanted, every, rest)))
    })
  }

  /** The path that cannot be followed, though others can. */
  private refused = $state<string | undefined>()

  private follow(path: string, topic: string): () => void {
    const stop = new AbortController()
    this.again = () => {
      this.ask(path, stop.signal)
      live.retry()
    }
    const leave = live.follow(topic, {
      told: ({ at, doc, wrong }) => {
        if (wrong && wrong.status >= 400 && wrong.status < 500) this.refused = path
        else if (wrong) this.problem = new Problem(wrong.status, wrong.code, wrong.message)
        else [this.data, this.problem, this.at] = [doc === undefined ? this.data : doc as T, undefined, at]
      },
      lost: () => { this.problem = new Problem(0, lost, 'the stream of what happens was lost') },
    })
    return () => {
      stop.abort()
      leave()
    }
  }

  /** While the page is paused: asks what has no answer yet, and what a command asks again. */
  private once(path: string): () => void {
    const stop = new AbortController()
    this.again = () => { if (isQuestion(path)) this.ask(path, stop.signal) }
    if (this.at === 0) this.again()
    return () => stop.abort()
  }

  private ask(path: string, stop: AbortSignal): void {
    const at = now()
    get<T>(timedPath(path, at), { signal: stop }).then(
      (data) => { if (!stop.aborted) [this.data, this.problem, this.at] = [data, undefined, at] },
      (error: unknown) => { if (!stop.aborted) this.problem = error as Problem })
  }

  private loop(path: string, every: number | (() => number), rest: (data: T) => boolean): () => void {
    const stop = new AbortController()
    let timer = 0, failures = 0, asking = false, more = false, done = false
    const ask = async () => {
      clearTimeout(timer)
      if (asking) more = true // what is under way may be of before
      if (asking || stop.signal.aborted) return
      if (document.hidden && this.at > 0) return // asked again once it is visible
      ;[asking, more] = [true, false]
      const at = now(), here = Date.now()
      try {
        const data = await get<T>(timedPath(path, at), { signal: stop.signal })
        if (stop.signal.aborted) return
        ;[this.data, this.problem, this.at, failures, done] = [data, undefined, at, 0, rest(data)]
      } catch (error) {
        if (stop.signal.aborted) return
        this.problem = error as Problem
        if (this.problem.code === unreachable) live.unanswered(stop, here)
        failures++
      } finally {
        asking = false
      }
      if (more) return void ask()
      if (!done && this.problem?.status !== 401 && this.problem?.status !== 403) timer = setTimeout(ask, failures ? backOff(failures) : typeof every === 'number' ? every : every())
    }
    const shown = () => { if (!document.hidden && !done) void ask() }
    this.again = () => { done = false; void ask() }
    document.addEventListener('visibilitychange', shown)
    void ask()
    return () => {
      stop.abort()
      live.unanswered(stop, undefined)
      clearTimeout(timer)
      document.removeEventListener('visibilitychange', shown)
    }
  }

  refresh(): void { this.again() }
}

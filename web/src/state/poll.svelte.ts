// Asks the node again and again while somebody looks. Each answer has its time, so that a page can say how old it is.
import { untrack } from 'svelte'
import { get, now, type Problem } from '../api/client'

/** The time, once a second while the page is visible. */
let second = $state(now())
setInterval(() => { if (!document.hidden) second = now() }, 1000)
export const ticker = { get now(): number { return Math.max(second, now() - 1000) } }

/** The wait before the next try after n failures: 1 to 30 s, with jitter. */
export function backOff(failures: number, random = Math.random()): number {
  return Math.min(1000 * 2 ** Math.min(failures - 1, 5), 30_000) * (0.75 + random / 4)
}

export class Poll<T> {
  data = $state.raw<T | undefined>(undefined)
  problem = $state.raw<Problem | undefined>(undefined)
  /** When the data was asked for, by the store's clock; 0: never. */
  at = $state(0)
  paused = $state(false)
  private again: () => void = () => undefined

  /** Path is asked every so many milliseconds; an undefined path is not asked. Rest says whether an answer is the last one. */
  constructor(path: () => string | undefined, every = 2000, rest: (data: T) => boolean = () => false) {
    let asked: string | undefined
    $effect(() => {
      const wanted = path()
      const paused = this.paused
      if (wanted !== asked) [this.data, this.problem, this.at, asked] = [undefined, undefined, 0, wanted]
      if (wanted === undefined || paused) return
      return untrack(() => this.loop(wanted, every, rest))
    })
  }

  private loop(path: string, every: number, rest: (data: T) => boolean): () => void {
    const stop = new AbortController()
    let timer = 0, failures = 0, asking = false, done = false
    const ask = async () => {
      clearTimeout(timer)
      if (asking || stop.signal.aborted) return
      if (document.hidden && this.at > 0) return // asked again once it is visible
      asking = true
      const at = now()
      try {
        const data = await get<T>(path, { signal: stop.signal })
        if (stop.signal.aborted) return
        ;[this.data, this.problem, this.at, failures, done] = [data, undefined, at, 0, rest(data)]
      } catch (error) {
        if (stop.signal.aborted) return
        this.problem = error as Problem
        failures++
      } finally {
        asking = false
      }
      if (!done && this.problem?.status !== 401 && this.problem?.status !== 403) timer = setTimeout(ask, failures ? backOff(failures) : every)
    }
    const shown = () => { if (!document.hidden && !done) void ask() }
    this.again = () => { done = false; void ask() }
    document.addEventListener('visibilitychange', shown)
    void ask()
    return () => {
      stop.abort()
      clearTimeout(timer)
      document.removeEventListener('visibilitychange', shown)
    }
  }

  refresh(): void { this.again() }
}

// Which part of a timeline is shown. It stands in the query as from and to, with milliseconds. Pure.
import { isMoment } from '../state/range'

export interface View { from: number; to: number }

/** The shortest part, in milliseconds: times of a browser have no shorter ones. */
export const shortest = 10

/** The part of a query within the whole; undefined: all of it. What is wrong counts as left out. */
export function viewOf(query: URLSearchParams, whole: View): View | undefined {
  const [from, to] = [query.get('from') ?? '', query.get('to') ?? '']
  if (!isMoment(from) && !isMoment(to)) return undefined
  return kept({ from: isMoment(from) ? Date.parse(from) : whole.from, to: isMoment(to) ? Date.parse(to) : whole.to }, whole)
}

/** A part that lies within the whole; undefined: it is the whole. */
export function kept(view: View, whole: View): View | undefined {
  const length = Math.min(Math.max(view.to - view.from, shortest), whole.to - whole.from)
  const from = Math.min(Math.max(view.from, whole.from), whole.to - length)
  return length >= whole.to - whole.from ? undefined : { from, to: from + length }
}

/** Shows more or less around a moment, which stays where it is. */
export function zoomed(view: View, whole: View, factor: number, around = (view.from + view.to) / 2): View | undefined {
  const at = Math.min(Math.max(around, view.from), view.to)
  const length = Math.max((view.to - view.from) * factor, shortest)
  const from = at - (at - view.from) * (length / Math.max(view.to - view.from, 1))
  return kept({ from, to: from + length }, whole)
}

/** Shows what is before or behind, by a share of what is shown. */
export function panned(view: View, whole: View, share: number): View | undefined {
  const by = (view.to - view.from) * share
  return kept({ from: view.from + by, to: view.to + by }, whole)
}

const stamp = (at: number) => new Date(Math.round(at)).toISOString()

/** Writes a part into a query. One that ends where a running execution is now goes on with it. */
export function put(query: URLSearchParams, view: View | undefined, whole: View, live: boolean): void {
  for (const name of ['from', 'to']) query.delete(name)
  if (!view) return
  if (view.from > whole.from) query.set('from', stamp(view.from))
  if (view.to < whole.to || !live) query.set('to', stamp(view.to))
}

/** Writes the cursor's moment into a query. */
export function point(query: URLSearchParams, at: number | undefined): void {
  if (at === undefined) query.delete('at')
  else query.set('at', stamp(at))
}

/** The cursor's moment of a query; undefined: none. */
export function pointOf(query: URLSearchParams, whole: View): number | undefined {
  const at = query.get('at') ?? ''
  return isMoment(at) ? Math.min(Math.max(Date.parse(at), whole.from), whole.to) : undefined
}

/** What two fingers that have moved show: what was between them stays between them. Where they were and are is told as shares of the width. */
export function pinched(view: View, whole: View, before: readonly [number, number], after: readonly [number, number]): View | undefined {
  const time = (share: number) => view.from + share * (view.to - view.from)
  const [a, b] = [time(Math.min(...before)), time(Math.max(...before))]
  const [p, q] = [Math.min(...after), Math.max(...after)]
  if (q - p < 0.02 || b - a <= 0) return kept(view, whole)
  const length = (b - a) / (q - p)
  const from = a - p * length
  return kept({ from, to: from + length }, whole)
}

// The fleet at a time of the past: its workers as cells, what differs from now, and how a time line is walked and played.
import type { Series } from '../api/types'
import type { Chip } from '../state/filters'
import { askedSpan, endOf, isMoment, stamp, type Span } from '../state/range'
import { withQuery } from '../state/route'
import { toneOf, type Cell } from '../ui/cells'

export interface FleetNode { incarnation: string; name: string; version?: string; state: string; cordoned?: boolean; started_at?: string; keyframe_at?: string; mailbox?: number }
export interface FleetPool {
  incarnation: string; node: string; name: string; runtime?: string
  slots: string; grades: string; cordons?: string; generations: number[]
  broken?: boolean; cordoned?: boolean; mode?: string; epoch?: number; bound?: number; mailbox?: number
}
export interface Fleet { at?: string; nodes: FleetNode[]; pools: FleetPool[]; partial?: boolean; notes?: string[]; unreached?: { node: string; why?: string }[] }

/** The ids of the workers that are cordoned. */
export const cordonedOf = (f: Pick<Fleet, 'pools'> | undefined): string[] =>
  (f?.pools ?? []).flatMap((p) => [...(p.cordons ?? '')].flatMap((c, slot) => (c === '1' ? [`${p.node}/${p.name}/${slot}`] : [])))

/** What a letter of slots means. */
const words: Record<string, string> = {
  i: 'initializing', r: 'ready', b: 'busy', d: 'degraded', t: 'terminating', x: 'terminated', u: 'ready or busy', '?': 'unknown',
}
const grades: Record<string, string> = { d: 'degraded', u: 'unhealthy', '?': 'its grade is unknown' }

/** The workers of a node's part of a pool. A slot without a worker has no cell. */
export function cellsOf(p: FleetPool): Cell[] {
  return [...p.slots].flatMap((letter, slot) => {
    if (letter === '-') return []
    const grade = p.grades[slot] ?? '?'
    const why = [grades[grade], p.cordons?.[slot] === '1' ? 'cordoned' : undefined, `generation ${p.generations[slot] ?? 0}`].filter(Boolean).join(', ')
    return [{ id: `${p.node}/${p.name}/${slot}`, state: words[letter] ?? letter, why, trouble: letter === 'd' || letter === 'x' || grade === 'u' }]
  })
}

/** Whether a worker does now what it did. Of the past it may only be known that it was ready or busy. */
const same = (then: string, now: string) => then === now || (then === 'u' && (now === 'r' || now === 'b'))

/** The ids of the workers of then that are others now, or in another state. What is not known differs from nothing: so does the generation of a worker that is just being replaced. */
export function differing(then: FleetPool, now: FleetPool | undefined): Set<string> {
  return new Set([...then.slots].flatMap((letter, slot) => {
    if (letter === '-' || letter === '?') return []
    const still = now && same(letter, now.slots[slot] ?? '-') && (now.generations[slot] === 0 || then.generations[slot] === now.generations[slot])
    return still ? [] : [`${then.node}/${then.name}/${slot}`]
  }))
}

/** The same part of a pool now. A node that has started anew has another incarnation and the same name. */
export const partOf = (f: Fleet | undefined, p: FleetPool): FleetPool | undefined =>
  f?.pools.find((x) => x.incarnation === p.incarnation && x.name === p.name) ?? f?.pools.find((x) => x.node === p.node && x.name === p.name)

/** What a node's part of a pool was, beside its workers. */
export function factsOf(p: FleetPool): string[] {
  return [
    ...(p.broken ? ['broken'] : []), ...(p.cordoned ? ['cordoned'] : []),
    ...(p.mode === 'leading' ? [`its router, term ${p.epoch ?? 0}`] : p.mode ? [p.mode] : []),
    ...(p.bound ? [`${p.bound} bound ${p.bound === 1 ? 'session' : 'sessions'}`] : []),
    ...(p.mailbox ? [`fullest mailbox ${p.mailbox}`] : []),
  ]
}

/** A pool is in trouble if it is broken or one of its workers is. */
export const troubledPool = (p: FleetPool): boolean => Boolean(p.broken) || cellsOf(p).some((c) => c.trouble || toneOf(c.state) === 'bad')

/** A worker of the past. What is undefined is not known. */
export interface PastWorker {
  id: string; node: string; incarnation: string; pool: string; runtime: string | undefined
  state: string | undefined; grade: string | undefined; generation: number | undefined
  cordoned: boolean; trouble: boolean
}

const graded: Record<string, string> = { h: 'healthy', d: 'degraded', u: 'unhealthy' }

/** The workers of the past, each with its own row. */
export function workersOf(f: Fleet): PastWorker[] {
  return f.pools.flatMap((p) => [...p.slots].flatMap((letter, slot) => {
    if (letter === '-') return []
    const grade = graded[p.grades[slot] ?? '?']
    return [{
      id: `${p.node}/${p.name}/${slot}`, node: p.node, incarnation: p.incarnation, pool: p.name, runtime: p.runtime,
      state: letter === '?' ? undefined : words[letter] ?? letter, grade, generation: p.generations[slot] || undefined,
      cordoned: p.cordons?.[slot] === '1', trouble: letter === 'd' || letter === 't' || letter === 'x' || grade === 'unhealthy' || grade === 'degraded' || p.cordons?.[slot] === '1',
    }]
  }))
}

/** The states that a worker may have been in. */
const may = (w: PastWorker): readonly string[] => (w.state === undefined ? [] : w.state === 'ready or busy' ? ['ready', 'busy'] : [w.state])

/** The workers that filters leave, those in trouble first unless the order is another. Of left the state is not known, so that a filter of states left them out. */
export function fitting(workers: readonly PastWorker[], chips: readonly Chip[]): { rows: PastWorker[]; left: number } {
  const of = (key: string) => chips.filter((c) => c.key === key && !c.wrong).map((c) => c.value)
  const has = (key: string, match: (w: PastWorker, v: string) => boolean, w: PastWorker) =>
    (of(key).length === 0 || of(key).some((v) => match(w, v))) && !of(`not.${key}`).some((v) => match(w, v))
  const others = workers.filter((w) => has('pool', (x, v) => x.pool === v, w) && has('node', (x, v) => x.node === v || x.incarnation === v, w))
  const [want, not] = [of('state'), of('not.state')]
  // One that was ready or busy fits each of both, and is left out only where both are.
  const rows = others.filter((w) => {
    const states = may(w)
    return (want.length === 0 || states.some((s) => want.includes(s))) && (states.length === 0 || !states.every((s) => not.includes(s)))
  })
  const left = want.length ? others.filter((w) => w.state === undefined).length : 0
  if (!of('order').includes('id')) rows.sort((a, b) => Number(b.trouble) - Number(a.trouble))
  return { rows, left }
}

/** A pool of the past, on all nodes. */
export interface PastPool {
  name: string; runtime: string | undefined; broken: boolean; cordoned: boolean
  parts: [word: string, n: number, tone: string][]
  /** The nodes that were its router; own: each for itself. */
  router: string | undefined
  /** Sessions that were bound to its workers; undefined: that is not known. */
  bound: number | undefined
}

const partOrder = ['busy', 'ready or busy', 'ready', 'degraded', 'initializing', 'terminating', 'terminated', 'unknown']

/** The pools of the past, each with the parts that nodes had of it. */
export function poolsOf(f: Fleet): PastPool[] {
  const names = [...new Set(f.pools.map((p) => p.name))].sort()
  return names.map((name) => {
    const of = f.pools.filter((p) => p.name === name)
    const n = new Map<string, number>()
    for (const p of of) for (const c of cellsOf(p)) n.set(c.state, (n.get(c.state) ?? 0) + 1)
    const leads = of.filter((p) => p.mode === 'leading'), alone = of.some((p) => p.mode === 'alone')
    const known = of.filter((p) => p.mode === 'leading' || p.mode === 'alone')
    return {
      name, runtime: of[0]!.runtime, broken: of.some((p) => p.broken), cordoned: of.some((p) => p.cordoned),
      parts: [...n].sort((a, b) => partOrder.indexOf(a[0]) - partOrder.indexOf(b[0])).map(([word, count]) => [word, count, toneOf(word)]),
      router: leads.length ? leads.map((p) => p.node).join(', ') : alone ? 'own' : undefined,
      bound: known.length ? known.reduce((sum, p) => sum + (p.bound ?? 0), 0) : undefined,
    }
  })
}

/** How long what a node noted counts as what it is, in milliseconds: it notes it every five minutes. */
const notedFor = 6 * 60_000

/** How much of something the pools had at a time, by what their nodes noted last before it. Undefined is not known, as where a node that has a part of the pool noted nothing. */
export function notedOf(s: Series | undefined, f: Fleet, at: number): (pool: string) => number | undefined {
  if (!s) return () => undefined
  const last = Math.ceil((Date.parse(s.until) - Date.parse(s.from)) / (1000 * s.step_seconds)) - 1
  if (last < 0 || s.unknown?.includes(last)) return () => undefined
  const of = new Map(s.series.map((l) => [l.key, l.n[last] ?? 0]))
  const noting = new Set(f.nodes.filter((n) => n.keyframe_at && Date.parse(n.keyframe_at) > at - notedFor).map((n) => n.incarnation))
  return (pool) => {
    const known = f.pools.every((p) => p.name !== pool || noting.has(p.incarnation))
    return known ? of.get(pool) ?? (of.has('(other)') ? undefined : 0) : undefined
  }
}

/** When the nodes made the notes, the oldest and the newest; undefined: there is none that counts. */
export function notedAt(f: Fleet, at: number): readonly [from: string, to: string] | undefined {
  const times = f.nodes.flatMap((n) => (n.keyframe_at && Date.parse(n.keyframe_at) > at - notedFor ? [n.keyframe_at] : [])).sort()
  return times.length ? [times[0]!, times.at(-1)!] : undefined
}

/** The most executions that are noted as waiting for one router. */
export const heldMax = 20_000

/** The time that an address shows: its own, or the end of its range where that is past, as on other pages; undefined: now. */
export function shownAt(query: URLSearchParams, now: number): number | undefined {
  const at = query.get('at') ?? ''
  return isMoment(at) ? Date.parse(at) : endOf(query, now)
}

/** Has an address show another time; undefined: now, which a range that ends in the past does not have. */
export function showAt(query: URLSearchParams, at: number | undefined, now: number): void {
  const end = endOf(query, now)
  if (at === undefined && end !== undefined) for (const name of ['from', 'to']) query.delete(name)
  if (at === undefined || (end !== undefined && stamp(at) === stamp(end))) query.delete('at')
  else query.set('at', stamp(at))
}

/** So many events are ticks of a time line. */
const ticksMax = 200

/** Where the events of a time line are, in the range of an address. What is wrong in it is left out, as its chips say. */
export const ticksPath = (query: URLSearchParams, otherwise: string): string =>
  withQuery('api/v1/journal', new URLSearchParams({ ...askedSpan(query, otherwise), limit: String(ticksMax) }))

/** The events of a time line, as its ticks: the first text of those that fall on one place, and how many they are. */
export function ticksOf(events: readonly { at: number; text: string }[], from: number, to: number, places = 200): { at: number; x: number; text: string; n: number }[] {
  const found = new Map<number, { at: number; x: number; text: string; n: number }>()
  for (const e of events) {
    if (e.at < from || e.at > to || to <= from) continue
    const x = Math.round(((e.at - from) / (to - from)) * places)
    const there = found.get(x)
    if (there) there.n++
    else found.set(x, { at: e.at, x: (x / places) * 1000, text: e.text, n: 1 })
  }
  return [...found.values()].sort((a, b) => a.at - b.at)
}

/** The next event after a time, or the last one before it; undefined: there is none. A second is the least step. */
export function stepped(times: readonly number[], at: number, forward: boolean): number | undefined {
  const found = times.filter((t) => (forward ? t >= at + 1000 : t <= at - 1000))
  return found.length ? (forward ? Math.min(...found) : Math.max(...found)) : undefined
}

export const speeds = [1, 5, 15, 60] as const

/** Where a play begins: at the beginning, where a time line shows now or the end of a range that is past. */
export const playFrom = (at: number | undefined, span: Span): number => (at === undefined || (!span.live && at > span.to - 1000) ? span.from : at)

/** Where a time line stands after a second of play; undefined: it has come to its end. */
export function played(at: number, speed: number, to: number): number | undefined {
  const next = at + speed * 1000
  return next < to ? next : undefined
}

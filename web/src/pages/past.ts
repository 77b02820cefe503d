// The fleet at a time of the past: its workers as cells, what differs from now, and how a time line is walked and played.
import { toneOf, type Cell } from '../ui/cells'

export interface FleetNode { incarnation: string; name: string; version?: string; state: string; cordoned?: boolean; started_at?: string; keyframe_at?: string; mailbox?: number }
export interface FleetPool {
  incarnation: string; node: string; name: string; runtime?: string
  slots: string; grades: string; cordons?: string; generations: number[]
  broken?: boolean; cordoned?: boolean; mode?: string; epoch?: number; bound?: number; mailbox?: number
}
export interface Fleet { at?: string; nodes: FleetNode[]; pools: FleetPool[]; partial?: boolean; notes?: string[]; unreached?: { node: string; why?: string }[] }

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

/** Where a time line stands after a second of play; undefined: it has come to its end. */
export function played(at: number, speed: number, to: number): number | undefined {
  const next = at + speed * 1000
  return next < to ? next : undefined
}

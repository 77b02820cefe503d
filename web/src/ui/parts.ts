// The parts of a timeline that was longer than one answer. Pure.
import type { Attempt, ChainLink, Gap, Interval, LateWrite, LeftOut, Run, State, Timeline, Wait } from '../api/types'

/** One timeline made of several answers. */
export interface Joined extends Timeline {
  whole: Interval
  /** The times of it that no answer has, oldest first. */
  missing: Interval[]
  /** The numbers of its chain that no answer has: n of them, from a number on. */
  unlinked: { from: number; n: number }[]
  /** What else was left out, of the time that is loaded. */
  lost: LeftOut[]
}

/** How many parts a page holds, beside the newest. */
export const partsMax = 20

/** A time in microseconds, as the store counts. */
export function micros(at: string): number {
  const fraction = /\.(\d+)/.exec(at)?.[1] ?? ''
  return Math.floor(Date.parse(at) / 1000) * 1_000_000 + Number(fraction.slice(0, 6).padEnd(6, '0'))
}

/** The kinds of what is left out that stand for a time: another part has them. */
const timed = ['events', 'conditions', 'session', 'node', 'servers', 'gaps']

interface Range { from: string; to: string }

/** What of a range lies outside of others. */
function outside(range: Range, others: readonly Range[]): Range[] {
  let left = [range]
  for (const o of others) {
    left = left.flatMap((r) => {
      const [a, b, c, d] = [micros(r.from), micros(r.to), micros(o.from), micros(o.to)]
      if (d <= a || c >= b) return [r]
      return [...(a < c ? [{ from: r.from, to: o.from }] : []), ...(d < b ? [{ from: o.to, to: r.to }] : [])]
    })
  }
  return left
}

/** The intervals of a list, cut to ranges. */
const within = <T extends Interval>(list: readonly T[], ranges: readonly Range[]): T[] => ranges.flatMap((r) => list.flatMap((i) => {
  const from = micros(i.from) < micros(r.from) ? r.from : i.from
  const to = micros(i.to) > micros(r.to) ? r.to : i.to
  return micros(from) < micros(to) ? [{ ...i, from, to }] : []
}))

const inside = (at: string, ranges: readonly Range[]) => ranges.some((r) => micros(at) >= micros(r.from) && micros(at) <= micros(r.to))

/** Puts together what one part cuts off and the next one goes on with. */
function glue<T extends Interval>(list: readonly T[], same: (a: T, b: T) => boolean): T[] {
  const out: T[] = []
  for (const item of [...list].sort((a, b) => micros(a.from) - micros(b.from))) {
    const at = out.findLastIndex((o) => o.to === item.from && same(o, item))
    if (at >= 0) out[at] = { ...out[at]!, to: item.to }
    else out.push(item)
  }
  return out
}

/** The first of those with the same key, in the order of the keys' values. */
function first<T>(list: readonly T[], key: (item: T) => string | number, order: (a: T, b: T) => number): T[] {
  const seen = new Map<string | number, T>()
  for (const item of list) if (!seen.has(key(item))) seen.set(key(item), item)
  return [...seen.values()].sort(order)
}

function states(all: readonly { t: Timeline; ranges: readonly Range[] }[], of: (t: Timeline) => readonly State[]): State[] {
  const spans: (State & Interval)[] = [], points: State[] = []
  const known = new Set<string>()
  for (const { t, ranges } of all) {
    // What the answers before do not know at all, such as a further worker, counts also where their time is.
    const rangesOf = (s: State) => (known.has(s.of) ? ranges : [t.window])
    for (const s of of(t)) {
      if (s.to !== undefined) spans.push(...within([{ ...s, to: s.to }], rangesOf(s)))
      else if (inside(s.from, rangesOf(s))) points.push(s)
    }
    for (const s of of(t)) known.add(s.of)
  }
  return [
    ...glue(spans, (a, b) => a.of === b.of && a.what === b.what && a.generation === b.generation && a.epoch === b.epoch && a.reason === b.reason && a.by === b.by),
    ...first(points, (s) => `${s.from} ${s.of} ${s.what} ${s.by}`, () => 0),
  ].sort((a, b) => micros(a.from) - micros(b.from))
}

/**
 * Joins the newest answer with those about other parts. Where two have the same time, the one that comes first counts: it is the freshest.
 * Links are further ones of the chain.
 */
export function join(answers: readonly Timeline[], links: readonly ChainLink[] = []): Joined {
  const newest = answers[0]!
  const whole = newest.whole ?? newest.window
  const covered: Range[] = []
  const all = answers.map((t) => {
    const ranges = outside(t.window, covered)
    covered.push(...ranges)
    return { t, ranges }
  })
  const chain = first([...answers.flatMap((t) => t.chain), ...links], (l) => l.id, (a, b) => a.n - b.n)
  return {
    ...newest, whole, chain,
    wait: glue<Wait>(all.flatMap(({ t, ranges }) => within(t.wait, ranges)), (a, b) => a.cause === b.cause && a.source === b.source && a.link === b.link && a.evidence === b.evidence),
    attempts: first<Attempt>(answers.flatMap((t) => t.attempts), (a) => a.attempt, (a, b) => a.attempt - b.attempt),
    late_writes: first<LateWrite>(answers.flatMap((t) => t.late_writes ?? []), (l) => `${l.at} ${l.attempt}`, (a, b) => micros(a.at) - micros(b.at)),
    run: first<Run>(answers.flatMap((t) => t.run), (r) => `${r.attempt} ${r.from}`, (a, b) => micros(a.from) - micros(b.from)),
    worker: states(all, (t) => t.worker), node: states(all, (t) => t.node), session: states(all, (t) => t.session), servers: states(all, (t) => t.servers),
    gaps: glue<Gap>(all.flatMap(({ t, ranges }) => within(t.gaps, ranges)), (a, b) => a.why === b.why),
    missing: glue<Interval>(outside(whole, covered), () => true),
    unlinked: unlinked(chain, newest.retries),
    lost: first((newest.left_out ?? []).filter((l) => !(timed.includes(l.what) && l.next) && l.what !== 'retries'), (l) => `${l.what} ${l.of}`, () => 0),
  }
}

/** The numbers that a chain lacks. */
function unlinked(chain: readonly ChainLink[], retries: Timeline['retries']): { from: number; n: number }[] {
  const out: { from: number; n: number }[] = []
  let next = (retries?.deleted ?? 0) + 1
  for (const n of [...chain.map((l) => l.n), (retries?.n ?? 0) + 1]) {
    if (n > next) out.push({ from: next, n: n - next })
    next = Math.max(next, n + 1)
  }
  return out
}

const words: Record<string, string> = {
  events: 'events', conditions: 'conditions of its pool', session: 'bindings of its session', node: 'events of nodes', servers: 'events of servers',
  gaps: 'gaps of the journal', before: 'executions of its session before it', workers: 'workers that it was placed on', transitions: 'changes of',
}

/** What is left out, in words. */
export const said = (l: LeftOut): string =>
  `${l.n ? `${l.at_least ? 'at least ' : ''}${l.n.toLocaleString('en')}` : 'some'} ${words[l.what] ?? l.what}${l.of ? ` ${l.of}` : ''}`

/** What the answers say that a time has which is not loaded. */
export const contents = (answers: readonly Timeline[], missing: Interval): string => {
  const left = answers.flatMap((t) => t.left_out ?? []).filter((l) => timed.includes(l.what) && l.from && l.to && outside({ from: l.from, to: l.to }, [missing]).every((r) => r.from !== l.from || r.to !== l.to))
  return [...new Set(left.map(said))].join(', ')
}

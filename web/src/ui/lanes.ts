// Where the parts of an execution's timeline are drawn. Pure: the answer of /timeline in, places out.
import type { Interval, LateWrite, State, Timeline, WorkerRun } from '../api/types'
import { to as path } from '../state/route'
import { duration } from '../state/time'
import { axis, type Piece, type Stretch } from './axis'

export interface Item {
  x: number
  w: number // 0: a point
  text: string
  brief?: string // where the text has no room
  detail: string
  tone: string
  href?: string
  open?: boolean // it goes on
}
export interface Lane { name: string; items: Item[] }
export interface Tick { x: number; text: string }
export interface Fold { x: number; w: number; text: string }
export interface Drawing { lanes: Lane[]; ticks: Tick[]; folds: Fold[]; from: number; to: number; width: number; pieces: Piece[] }

/** Something that the code said during a run. */
export interface Said { at: number; kind: string; fraction?: number }

/** What is drawn: a timeline, the times of it that are not loaded, what the code said, and what else its workers ran. */
export type Drawn = Timeline & { missing?: Interval[]; output?: readonly Said[]; outputCut?: boolean; neighbours?: readonly WorkerRun[] }

// In these waits nothing happens but time.
const idle = ['not_due', 'backed_off']

const time = (text: string) => Date.parse(text)

/**
 * Draws a timeline, or a part of it. All of it has long idle stretches folded, and short ones as wide as can be read. A part has one scale, and
 * its ticks are times of the day, which clock writes.
 */
export function draw(t: Drawn, now: number, width: number, part?: { from: number; to: number }, clock?: (at: number, fine: boolean) => string): Drawing {
  const whole = t.whole ?? t.window
  const begin = time(whole.from)
  const from = part?.from ?? begin
  const to = Math.max(part?.to ?? time(whole.to), from + 1)
  const pieces = part ? [{ a: from, b: to, x: 0, w: width, folded: false }] : axis(stretches(t, from, to), width)
  const at = (when: number) => place(pieces, Math.min(Math.max(when, from), to), width)
  const known = time(whole.to) // up to then the answer knows what goes on
  const span = (a: string, b: string | undefined): { x: number; w: number; open: boolean } => {
    const x = at(time(a))
    return { x, w: Math.max(at(b ? time(b) : known) - x, 0), open: !b }
  }
  const seen = (a: string, b?: string) => time(a) <= to && (!b || time(b) >= from)
  const lanes: Lane[] = [
    { name: 'wait', items: t.wait.filter((w) => seen(w.from, w.to)).map((w) => ({
      ...span(w.from, w.to), open: false, text: w.cause, tone: w.cause === 'unknown' ? 'unknown' : 'wait',
      detail: `${w.cause} for ${duration(time(w.to) - time(w.from))}: ${w.evidence}`, href: w.link && `executions/${w.link}` })) },
    { name: 'placed', items: [...t.attempts.filter((a) => (a.scheduled_at ?? a.started_at) && seen((a.scheduled_at ?? a.started_at)!, a.ended_at)).map((a) => ({
      ...span((a.scheduled_at ?? a.started_at)!, a.ended_at), text: `a${a.attempt} ${a.worker ?? ''}`, tone: toneOf(a.ended ?? ''),
      href: workerPage(a.worker),
      detail: `attempt ${a.attempt} on ${a.worker ?? 'no worker'}${a.generation ? `, generation ${a.generation}` : ''}${a.ended ? `: ${a.ended}` : ''}${a.reason ? ` (${a.reason})` : ''}` })),
    ...(t.late_writes ?? []).filter((l) => seen(l.at, l.at)).map((l) => ({ x: at(time(l.at)), w: 0, text: '', tone: 'warn', detail: lateWords(l) }))] },
    { name: 'run', items: t.run.filter((r) => seen(r.from, r.to)).map((r) => ({
      ...span(r.from, r.to), open: !r.outcome, text: r.outcome ?? 'running', tone: r.outcome ? toneOf(r.outcome) : 'run',
      detail: `run of attempt ${r.attempt}, ${duration(time(r.to) - time(r.from))}: ${r.outcome ?? 'running'}${r.code ? ` (${r.code})` : ''}` })) },
    { name: 'output', items: written((t.output ?? []).filter((o) => o.at >= from && o.at <= to), at) },
  ]
  for (const [name, states] of [['worker', t.worker], ['node', t.node], ['session', t.session], ['servers', t.servers]] as const) {
    // Several nodes may have seen a server away at once.
    const key = (s: State) => (name === 'servers' ? `${s.of} ${s.by ?? ''}` : s.of)
    for (const of of new Set(states.map(key))) {
      lanes.push({ name, items: states.filter((s) => key(s) === of && seen(s.from, s.to ?? s.from)).map((s, i) => ({
        ...(s.to ? span(s.from, s.to) : { x: at(time(s.from)), w: 0, open: false }),
        ...(i === 0 && name !== 'session' ? { text: `${s.of}${generationOf(s)} ${s.what}${name === 'servers' && s.by ? `, seen by ${s.by}` : ''}`, brief: s.what } : { text: `${epochOf(s)}${s.what}`, brief: s.what }),
        tone: stateTone(s.what), href: pageOf(name, s, t),
        detail: `${s.of}${generationOf(s)}: ${epochOf(s)}${s.what}${s.reason ? ` (${s.reason})` : ''}${s.by ? `, seen by ${s.by}` : ''}` })) })
    }
  }
  lanes.push({ name: 'beside', items: (t.neighbours ?? []).filter((n) => seen(n.started_at, n.finished_at)).map((n) => ({
    ...span(n.started_at, n.finished_at), text: n.action_ref, tone: 'faint', href: path('executions', n.execution),
    detail: `its worker ran ${n.action_ref} for ${duration((n.finished_at ? time(n.finished_at) : now) - time(n.started_at))}: ${n.status}${n.code ? ` (${n.code})` : ''}` })) })
  lanes.push({ name: 'gaps', items: t.gaps.filter((g) => seen(g.from, g.to)).map((g) => ({ ...span(g.from, g.to), open: false, text: 'unknown', tone: 'unknown', detail: g.why })) })
  lanes.push({ name: 'not loaded', items: (t.missing ?? []).filter((m) => seen(m.from, m.to)).map((m) => ({
    ...span(m.from, m.to), open: false, text: 'not loaded', tone: 'unknown', detail: `${duration(time(m.to) - time(m.from))} that are not loaded` })) })
  return {
    lanes: lanes.filter((l) => l.items.length > 0).map((l) => ({ ...l, items: thin(l.items) })), from, to, width, pieces,
    ticks: part ? clockTicks(from, to, width, clock) : ticks(pieces, begin),
    folds: pieces.filter((p) => p.folded).map((p) => ({ x: p.x, w: p.w, text: duration(p.b - p.a) })),
  }
}

/** A rejected write, in words. */
export const lateWords = (l: LateWrite) => `late ${l.reason || 'write'} of attempt ${l.attempt}, rejected`
export const generationOf = (s: Pick<State, 'generation'>) => (s.generation ? ` g${s.generation}` : '')
export const epochOf = (s: Pick<State, 'epoch'>) => (s.epoch ? `epoch ${s.epoch}, ` : '')

// Parts narrower than this, one beside the other, are drawn as one.
const narrow = 3
const crowd = 4

/** Draws many narrow parts beside each other as one, which says how many they are. */
export function thin(items: readonly Item[]): Item[] {
  const out: Item[] = []
  let group: Item[] = []
  const flush = () => {
    const [first, last] = [group[0], group.at(-1)]
    if (!first || !last || group.length < crowd) out.push(...group)
    else out.push({
      x: first.x, w: Math.max(last.x + last.w - first.x, narrow), text: `${group.length}`, detail: `${group.length.toLocaleString('en')} short parts: zoom in to see each`,
      tone: group.some((i) => i.tone === 'bad') ? 'bad' : group.every((i) => i.tone === first.tone) ? first.tone : 'off',
    })
    group = []
  }
  for (const item of [...items].sort((a, b) => a.x - b.x)) {
    const last = group.at(-1)
    if (item.w >= narrow) {
      flush()
      out.push(item)
      continue
    }
    if (last && item.x - (last.x + last.w) >= narrow) flush()
    group.push(item)
  }
  flush()
  return out
}

// What was said is drawn in steps of this width.
const step = 6

/** What the code said, in words, with when it began and ended; undefined: nothing. */
export function writtenWords(said: readonly Said[]): { from: number; to: number; what: string; record: string } | undefined {
  const [first, last] = [said[0], said.at(-1)]
  if (!first || !last) return undefined
  const kinds = new Map<string, number>()
  for (const s of said) if (s.fraction === undefined) kinds.set(s.kind, (kinds.get(s.kind) ?? 0) + 1)
  const shares = said.flatMap((s) => (s.fraction === undefined ? [] : [Math.round(s.fraction * 100)]))
  const of = shares.length > 1 ? `progress ${shares[0]} to ${shares.at(-1)} %` : shares.length ? `progress ${shares[0]} %` : ''
  return { from: first.at, to: last.at, what: [...kinds].map(([kind, n]) => `${n.toLocaleString('en')}× ${kind}`).join(', ') || 'nothing but progress', record: of }
}

/** What the code said, counted by place. */
function written(said: readonly Said[], at: (when: number) => number): Item[] {
  const places = new Map<number, Said[]>()
  for (const s of said) {
    const x = Math.floor(at(s.at) / step) * step
    places.set(x, [...(places.get(x) ?? []), s])
  }
  return [...places].sort(([a], [b]) => a - b).map(([x, list]) => {
    const kinds = new Map<string, number>()
    for (const s of list) kinds.set(s.kind, (kinds.get(s.kind) ?? 0) + 1)
    const fraction = list.findLast((s) => s.fraction !== undefined)?.fraction
    return {
      x, w: 0, text: '', tone: kinds.has('stderr') ? 'warn' : 'off',
      detail: `said here: ${[...kinds].map(([kind, n]) => `${n.toLocaleString('en')}× ${kind}`).join(', ')}${fraction === undefined ? '' : `, ${Math.round(fraction * 100)} %`}`,
    }
  })
}

/** The moment at a place of a drawing. */
export function timeAt(d: Drawing, x: number): number {
  for (const p of d.pieces) if (x <= p.x + p.w && p.w > 0) return p.a + (Math.max(x - p.x, 0) / p.w) * (p.b - p.a)
  return d.to
}

/** The place of a moment in a drawing; undefined: it is not in it. */
export const xAt = (d: Drawing, when: number): number | undefined => (when < d.from || when > d.to ? undefined : place(d.pieces, when, d.width))

const workerPage = (id: string | undefined) => (id ? path('workers', ...id.split('/')) : undefined)

/** The page of what a state is of. */
export function pageOf(lane: 'worker' | 'node' | 'session' | 'servers', s: Pick<State, 'of'>, t: Pick<Timeline, 'attempts'>): string | undefined {
  const cut = s.of.indexOf('/')
  switch (lane) {
    case 'worker': return workerPage(s.of)
    case 'session': return cut > 0 ? path('sessions', s.of.slice(0, cut), s.of.slice(cut + 1)) : undefined
    case 'node': {
      const at = t.attempts.find((a) => a.incarnation && (a.incarnation === s.of || a.worker?.startsWith(`${s.of}/`)))
      return at?.incarnation && path('nodes', at.incarnation)
    }
  }
  return undefined
}

const manyMarks = 400

/** The stretches between the moments at which something of the execution begins or ends, in order. */
function stretches(t: Timeline, from: number, to: number): Stretch[] {
  const own = [...t.wait, ...t.run].flatMap((p) => [time(p.from), time(p.to)])
  for (const a of t.attempts) for (const at of [a.scheduled_at, a.started_at, a.ended_at]) if (at) own.push(time(at))
  if (own.length > manyMarks) return [{ a: from, b: to, idle: false }] // too many to widen each
  const marks = [...new Set([from, to, ...own.filter((m) => m > from && m < to)])].sort((a, b) => a - b)
  const rests = t.wait.filter((w) => idle.includes(w.cause))
  return marks.slice(1).map((b, i) => ({ a: marks[i]!, b, idle: rests.some((w) => time(w.from) <= marks[i]! && time(w.to) >= b) }))
}

function place(pieces: Piece[], when: number, width: number): number {
  for (const p of pieces) if (when <= p.b) return p.x + ((when - p.a) / (p.b - p.a)) * p.w
  return width
}

const steps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 3e4, 6e4, 12e4, 3e5, 6e5, 18e5, 36e5, 72e5, 144e5, 432e5, 864e5]
const tickWidth = 90

/** Marks at times of the day. */
function clockTicks(from: number, to: number, width: number, clock: ((at: number, fine: boolean) => string) | undefined): Tick[] {
  const wanted = ((to - from) / width) * tickWidth
  const step = steps.find((s) => s >= wanted) ?? steps.at(-1)!
  const found: Tick[] = []
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
    found.push({ x: ((at - from) / (to - from)) * width, text: clock ? clock(at, step < 1000) : `+${duration(at - from)}` })
  }
  return found
}

/** How far a mark is from the beginning, with as many digits as tell it from the next one. */
export function offset(at: number, step: number): string {
  if (step >= 1000 || at < 1000) return duration(at)
  const whole = Math.floor(at / 60_000), rest = ((at - whole * 60_000) / 1000).toFixed(step >= 100 ? 1 : step >= 10 ? 2 : 3)
  return whole ? `${whole} min ${rest} s` : `${rest} s`
}

/** Marks along the parts that are not folded, counted from the beginning. */
function ticks(pieces: Piece[], from: number): Tick[] {
  const found: Tick[] = []
  for (const p of pieces) {
    if (p.folded || p.w < tickWidth) continue
    const wanted = ((p.b - p.a) / p.w) * tickWidth
    const step = steps.find((s) => s >= wanted) ?? steps.at(-1)!
    for (let at = Math.ceil((p.a - from) / step) * step; from + at <= p.b; at += step) {
      const x = p.x + ((from + at - p.a) / (p.b - p.a)) * p.w
      if (x - (found.at(-1)?.x ?? -tickWidth) < tickWidth / 2) continue // parts with other scales meet here
      found.push({ x, text: at === 0 ? '0' : `+${offset(at, step)}` })
    }
  }
  return found
}

function toneOf(outcome: string): string {
  switch (outcome) {
    case 'completed': return 'good'
    case 'failed': case 'timed_out': case 'abandoned': case 'lost': case 'rescued': return 'bad'
    case 'cancelled': return 'off'
    case 'taken_back': return 'warn'
  }
  return 'run'
}

function stateTone(what: string): string {
  const word = what.split(' ')[0]!
  if (['ready', 'bound', 'up', 'joined', 'alive', 'ok', 'restored', 'back'].includes(word)) return 'good'
  if (word === 'busy') return 'run'
  if (['degraded', 'draining', 'late', 'silent', 'starting', 'initializing', 'blocked'].includes(word)) return 'warn'
  if (['dead', 'lost', 'fenced', 'down', 'away', 'terminating', 'terminated', 'broken', 'crashed'].includes(word)) return 'bad'
  return 'off'
}

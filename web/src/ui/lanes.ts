// Where the parts of an execution's timeline are drawn. Pure: the answer of /timeline in, places out.
import type { Timeline } from '../api/types'
import { duration } from '../state/time'

export interface Item {
  x: number
  w: number // 0: a point
  text: string
  detail: string
  tone: string
  href?: string
  open?: boolean // it goes on
}
export interface Lane { name: string; items: Item[] }
export interface Tick { x: number; text: string }
export interface Fold { x: number; w: number; text: string }
export interface Drawing { lanes: Lane[]; ticks: Tick[]; folds: Fold[]; from: number; to: number; width: number }

/** A part of the axis: time from a to b is drawn from x to x + w. */
interface Piece { a: number; b: number; x: number; w: number; folded: boolean }

// A stretch in which nothing happens is folded if it takes more than this part of the whole.
const foldAbove = 0.6
const foldedWidth = 0.2

const time = (text: string) => Date.parse(text)

export function draw(t: Timeline, now: number, width: number): Drawing {
  const from = time(t.window.from)
  const to = Math.max(time(t.window.to), from + 1)
  const pieces = axis(from, to, moments(t, from, to), width)
  const at = (when: number) => place(pieces, Math.min(Math.max(when, from), to), width)
  const span = (a: string, b: string | undefined): { x: number; w: number; open: boolean } => {
    const x = at(time(a))
    return { x, w: Math.max(at(b ? time(b) : Math.min(now, to)) - x, 0), open: !b }
  }
  const lanes: Lane[] = [
    { name: 'wait', items: t.wait.map((w) => ({
      ...span(w.from, w.to), open: false, text: w.cause, tone: w.cause === 'unknown' ? 'unknown' : 'wait',
      detail: `${w.cause} for ${duration(time(w.to) - time(w.from))}: ${w.evidence}`, href: w.link })) },
    { name: 'placed', items: t.attempts.filter((a) => a.scheduled_at ?? a.started_at).map((a) => ({
      ...span((a.scheduled_at ?? a.started_at)!, a.ended_at), text: `a${a.attempt} ${a.worker ?? ''}`, tone: toneOf(a.ended ?? ''),
      detail: `attempt ${a.attempt} on ${a.worker ?? 'no worker'}${a.ended ? `: ${a.ended}` : ''}${a.reason ? ` (${a.reason})` : ''}` })) },
    { name: 'run', items: t.run.map((r) => ({
      ...span(r.from, r.to), open: !r.outcome, text: r.outcome ?? 'running', tone: r.outcome ? toneOf(r.outcome) : 'run',
      detail: `run of attempt ${r.attempt}, ${duration(time(r.to) - time(r.from))}: ${r.outcome ?? 'running'}${r.code ? ` (${r.code})` : ''}` })) },
  ]
  for (const [name, states] of [['worker', t.worker], ['node', t.node], ['session', t.session], ['servers', t.servers]] as const) {
    lanes.push({ name, items: states.filter((s) => time(s.from) <= to).map((s) => ({
      ...(s.to ? span(s.from, s.to) : { x: at(time(s.from)), w: 0, open: false }),
      text: s.what, tone: stateTone(s.what),
      detail: `${s.of}: ${s.what}${s.reason ? ` (${s.reason})` : ''}${s.by ? `, seen by ${s.by}` : ''}` })) })
  }
  lanes.push({ name: 'gaps', items: t.gaps.map((g) => ({ ...span(g.from, g.to), open: false, text: 'unknown', tone: 'unknown', detail: g.why })) })
  return {
    lanes: lanes.filter((l) => l.items.length > 0), from, to, width, ticks: ticks(pieces, from),
    folds: pieces.filter((p) => p.folded).map((p) => ({ x: p.x, w: p.w, text: duration(p.b - p.a) })),
  }
}

/** Every time at which something begins or ends, in order. */
function moments(t: Timeline, from: number, to: number): number[] {
  const all = [from, to]
  for (const part of [t.wait, t.run, t.worker, t.node, t.session, t.servers, t.gaps]) {
    for (const p of part) all.push(time(p.from), p.to ? time(p.to) : NaN)
  }
  for (const a of t.attempts) for (const at of [a.scheduled_at, a.started_at, a.ended_at]) if (at) all.push(time(at))
  return [...new Set(all.filter((m) => m >= from && m <= to))].sort((a, b) => a - b)
}

function axis(from: number, to: number, marks: number[], width: number): Piece[] {
  let longest = 0
  for (let i = 1; i < marks.length; i++) if (marks[i]! - marks[i - 1]! > marks[longest + 1]! - marks[longest]!) longest = i - 1
  const a = marks[longest]!, b = marks[longest + 1]!
  if (marks.length < 4 || (b - a) / (to - from) <= foldAbove) return [{ a: from, b: to, x: 0, w: width, folded: false }]
  const rest = (to - from) - (b - a)
  const scale = (width * (1 - foldedWidth)) / rest
  const pieces = [
    { a: from, b: a, x: 0, w: (a - from) * scale, folded: false },
    { a, b, x: (a - from) * scale, w: width * foldedWidth, folded: true },
    { a: b, b: to, x: (a - from) * scale + width * foldedWidth, w: (to - b) * scale, folded: false },
  ]
  return pieces.filter((p) => p.b > p.a)
}

function place(pieces: Piece[], when: number, width: number): number {
  for (const p of pieces) if (when <= p.b) return p.x + ((when - p.a) / (p.b - p.a)) * p.w
  return width
}

const steps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 3e4, 6e4, 12e4, 3e5, 6e5, 18e5, 36e5, 72e5, 144e5, 432e5, 864e5]
const tickWidth = 90

/** Marks along the parts that are not folded, counted from the beginning. */
function ticks(pieces: Piece[], from: number): Tick[] {
  const found: Tick[] = []
  for (const p of pieces) {
    if (p.folded || p.w < tickWidth) continue
    const wanted = ((p.b - p.a) / p.w) * tickWidth
    const step = steps.find((s) => s >= wanted) ?? steps.at(-1)!
    for (let at = Math.ceil((p.a - from) / step) * step; from + at <= p.b; at += step) {
      found.push({ x: p.x + ((from + at - p.a) / (p.b - p.a)) * p.w, text: at === 0 ? '0' : `+${duration(at)}` })
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
  if (['ready', 'bound', 'up', 'joined', 'ok', 'restored', 'back'].includes(word)) return 'good'
  if (word === 'busy') return 'run'
  if (['degraded', 'draining', 'late', 'starting', 'initializing', 'blocked'].includes(word)) return 'warn'
  if (['dead', 'lost', 'fenced', 'down', 'away', 'terminating', 'terminated', 'broken', 'crashed'].includes(word)) return 'bad'
  return 'off'
}

// Where the parts of an execution's timeline are drawn. Pure: the answer of /timeline in, places out.
import type { State, Timeline } from '../api/types'
import { to as path } from '../state/route'
import { duration } from '../state/time'
import { axis, type Piece, type Stretch } from './axis'

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

// In these waits nothing happens but time.
const idle = ['not_due', 'backed_off']

const time = (text: string) => Date.parse(text)

export function draw(t: Timeline, now: number, width: number): Drawing {
  const from = time(t.window.from)
  const to = Math.max(time(t.window.to), from + 1)
  const pieces = axis(stretches(t, from, to), width)
  const at = (when: number) => place(pieces, Math.min(Math.max(when, from), to), width)
  const span = (a: string, b: string | undefined): { x: number; w: number; open: boolean } => {
    const x = at(time(a))
    return { x, w: Math.max(at(b ? time(b) : Math.min(now, to)) - x, 0), open: !b }
  }
  const lanes: Lane[] = [
    { name: 'wait', items: t.wait.map((w) => ({
      ...span(w.from, w.to), open: false, text: w.cause, tone: w.cause === 'unknown' ? 'unknown' : 'wait',
      detail: `${w.cause} for ${duration(time(w.to) - time(w.from))}: ${w.evidence}`, href: w.link && `executions/${w.link}` })) },
    { name: 'placed', items: t.attempts.filter((a) => a.scheduled_at ?? a.started_at).map((a) => ({
      ...span((a.scheduled_at ?? a.started_at)!, a.ended_at), text: `a${a.attempt} ${a.worker ?? ''}`, tone: toneOf(a.ended ?? ''),
      href: workerPage(a.worker),
      detail: `attempt ${a.attempt} on ${a.worker ?? 'no worker'}${a.generation ? `, generation ${a.generation}` : ''}${a.ended ? `: ${a.ended}` : ''}${a.reason ? ` (${a.reason})` : ''}` })) },
    { name: 'run', items: t.run.map((r) => ({
      ...span(r.from, r.to), open: !r.outcome, text: r.outcome ?? 'running', tone: r.outcome ? toneOf(r.outcome) : 'run',
      detail: `run of attempt ${r.attempt}, ${duration(time(r.to) - time(r.from))}: ${r.outcome ?? 'running'}${r.code ? ` (${r.code})` : ''}` })) },
  ]
  for (const [name, states] of [['worker', t.worker], ['node', t.node], ['session', t.session], ['servers', t.servers]] as const) {
    lanes.push({ name, items: states.filter((s) => time(s.from) <= to).map((s) => ({
      ...(s.to ? span(s.from, s.to) : { x: at(time(s.from)), w: 0, open: false }),
      text: s.what, tone: stateTone(s.what), href: pageOf(name, s, t),
      detail: `${s.of}: ${s.what}${s.reason ? ` (${s.reason})` : ''}${s.by ? `, seen by ${s.by}` : ''}` })) })
  }
  lanes.push({ name: 'gaps', items: t.gaps.map((g) => ({ ...span(g.from, g.to), open: false, text: 'unknown', tone: 'unknown', detail: g.why })) })
  return {
    lanes: lanes.filter((l) => l.items.length > 0), from, to, width, ticks: ticks(pieces, from),
    folds: pieces.filter((p) => p.folded).map((p) => ({ x: p.x, w: p.w, text: duration(p.b - p.a) })),
  }
}

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

/** The stretches between the moments at which something of the execution begins or ends, in order. */
function stretches(t: Timeline, from: number, to: number): Stretch[] {
  const own = [...t.wait, ...t.run].flatMap((p) => [time(p.from), time(p.to)])
  for (const a of t.attempts) for (const at of [a.scheduled_at, a.started_at, a.ended_at]) if (at) own.push(time(at))
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
      found.push({ x, text: at === 0 ? '0' : `+${duration(at)}` })
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

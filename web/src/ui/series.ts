// Counts over time as a chart draws them, and as a table says them.
import type { JournalEntry, Line, Series } from '../api/types'
import { pageOf } from '../pages/changes'
import { isMoment, stamp, type Span } from '../state/range'
import { withQuery } from '../state/route'
import { duration, fields, two } from '../state/time'

/** Of n and ms a point has all of its time, and of level what there was at its end. */
export type Unit = 'n' | 'ms' | 'level'

/** One line of a chart. Values are of the points; null: there is none. */
export interface Drawn { name: string; tone: string; dash: number[]; values: (number | null)[]; /** The list behind all of it. */ href: string }

export interface Chart {
  title: string
  unit: Unit
  /** The lines stand on each other, as bars. */
  stacked: boolean
  /** When each point begins, in milliseconds. */
  at: number[]
  step: number
  lines: Drawn[]
  /** The list behind a point of a line. */
  behind: (line: number, point: number) => string
}

/** What the counts are of: one of some pools, and one of some actions. */
export interface Scope { pool?: readonly string[]; action?: readonly string[] }

/** A query with what the counts are of. */
export function scoped(query: URLSearchParams, scope: Scope): URLSearchParams {
  for (const key of ['pool', 'action'] as const) for (const value of scope[key] ?? []) query.append(key, value)
  return query
}

const order = ['completed', 'cancelled', 'failed', 'timed_out', 'abandoned']
const tones: Record<string, string> = { completed: 'good', cancelled: 'off', failed: 'bad', timed_out: 'warn', abandoned: 'wait' }
const unsuccessful = ['failed', 'timed_out', 'abandoned']

function times(s: Series): { at: number[]; step: number } {
  const step = s.step_seconds * 1000, from = Date.parse(s.from)
  // Points that begin behind what is counted have no counts yet, and are no zeros.
  const points = Math.min(Math.max(0, ...s.series.map((l) => l.n.length)), Math.max(0, Math.ceil((Date.parse(s.until) - from) / step)))
  return { at: Array.from({ length: points }, (_, i) => from + i * step), step }
}

/** By which time a list has its executions: that of their request, or that of their end. */
type By = 'requested' | 'ended'

/** The list of a time, with what the counts are of. That of failures is by their ends in any case. */
export function listOf(scope: Scope, status: string | undefined, from: string, to: string | undefined, by: By = 'ended'): string {
  const query = new URLSearchParams(), failed = status !== undefined && unsuccessful.includes(status), prefix = by === 'ended' && !failed ? 'ended_' : ''
  if (status) query.set('status', status)
  scoped(query, scope)
  for (const [key, value] of [['from', from], ['to', to]] as const) if (value) query.set(prefix + key, value)
  return withQuery(failed ? 'errors' : 'executions', query)
}

interface Query { from: string; to?: string | undefined }

/** Lists by an end need a time, and have the one at which the counts begin in the place of an age. */
function lists(scope: Scope, q: Query, s: Series, at: number[], step: number) {
  const since = (status: string | undefined, by: By) => (by === 'requested' || (status && unsuccessful.includes(status)) || isMoment(q.from) ? q.from : s.from)
  return {
    whole: (status?: string, by: By = 'ended') => listOf(scope, status, since(status, by), q.to, by),
    point: (status: string | undefined, i: number, by: By = 'ended') => listOf(scope, status, stamp(at[i]!), stamp(at[i]! + step), by),
  }
}

/** The values of points of which nothing was noted are not known, and no zeros. */
function noted(s: Series, values: readonly number[]): (number | null)[] {
  const none = new Set(s.unknown)
  return values.map((v, i) => (none.has(i) ? null : v))
}

/** What ended, by outcome. */
export function outcomes(s: Series, scope: Scope, q: Query): Chart {
  const { at, step } = times(s), list = lists(scope, q, s, at, step)
  const lines = [...s.series].sort((a, b) => order.indexOf(a.key) - order.indexOf(b.key))
  return {
    title: 'Outcomes', unit: 'n', stacked: true, at, step,
    lines: lines.map((l) => ({ name: l.key, tone: tones[l.key] ?? 'off', dash: [], values: l.n.slice(0, at.length), href: list.whole(l.key) })),
    behind: (line, point) => list.point(lines[line]!.key, point),
  }
}

const sum = (series: readonly Line[], points: number): number[] => Array.from({ length: points }, (_, i) => series.reduce((n, l) => n + (l.n[i] ?? 0), 0))

/** What came in against what went out. */
export function flow(submitted: Series, ended: Series, scope: Scope, q: Query): Chart {
  const one = times(submitted), other = times(ended)
  const { at, step } = one.at.length >= other.at.length ? one : other
  const list = lists(scope, q, submitted, at, step)
  return {
    title: 'In and out', unit: 'n', stacked: false, at, step,
    lines: [
      { name: 'submitted', tone: 'wait', dash: [6, 3], values: sum(submitted.series, at.length), href: list.whole(undefined, 'requested') },
      { name: 'ended', tone: 'run', dash: [], values: sum(ended.series, at.length), href: list.whole() },
    ],
    behind: (line, point) => list.point(undefined, point, line === 0 ? 'requested' : 'ended'),
  }
}

/** How long something took: half of it at most p50, and so on. */
export function quantiles(title: string, s: Series, scope: Scope, q: Query): Chart {
  const { at, step } = times(s), list = lists(scope, q, s, at, step)
  const line = s.series[0]
  const values = (of: number[] | undefined) => at.map((_, i) => ((line?.n[i] ?? 0) > 0 ? of?.[i] ?? null : null))
  return {
    title, unit: 'ms', stacked: false, at, step,
    lines: ([['p50', 'good', [], line?.p50], ['p95', 'run', [6, 3], line?.p95], ['p99', 'bad', [2, 3], line?.p99]] as const)
      .map(([name, tone, dash, of]) => ({ name, tone, dash: [...dash], values: values(of), href: list.whole() })),
    behind: (_, point) => list.point(undefined, point),
  }
}

const versionTones = ['run', 'wait', 'warn', 'off']
const versionsMax = versionTones.length

/** How long runs of each version took, the most used ones. */
export function versions(s: Series, scope: Scope, q: Query): Chart {
  const { at, step } = times(s), list = lists(scope, q, s, at, step)
  return {
    title: 'Run p95 by version', unit: 'ms', stacked: false, at, step,
    lines: s.series.slice(0, versionsMax).map((l, i) => ({
      name: l.key.slice(l.key.lastIndexOf('@') + 1) || 'none', tone: versionTones[i]!, dash: i ? [2 + 2 * i, 3] : [], href: list.whole(),
      values: at.map((_, j) => ((l.n[j] ?? 0) > 0 ? l.p95?.[j] ?? null : null)),
    })),
    behind: (_, point) => list.point(undefined, point),
  }
}

const states: Record<string, string> = { busy: 'run', ready: 'good', degraded: 'warn', initializing: 'wait', terminating: 'off', terminated: 'bad' }

/** A pool's workers by state. */
export function workers(s: Series, pool: string): Chart {
  const { at, step } = times(s), href = withQuery('workers', new URLSearchParams({ pool })), names = Object.keys(states)
  const lines = [...s.series].sort((a, b) => names.indexOf(a.key) - names.indexOf(b.key))
  return {
    title: 'Workers', unit: 'level', stacked: true, at, step,
    lines: lines.map((l) => ({ name: l.key, tone: states[l.key] ?? 'off', dash: [], values: noted(s, l.n.slice(0, at.length)), href })),
    behind: () => href,
  }
}

/** What waits for a pool's workers. */
export function waiting(s: Series, pool: string): Chart {
  const { at, step } = times(s), href = listOf({ pool: [pool] }, 'requested,scheduled', '', undefined, 'requested')
  return {
    title: 'Waiting', unit: 'level', stacked: false, at, step,
    lines: [{ name: 'waiting', tone: 'wait', dash: [], values: noted(s, sum(s.series, at.length)), href }],
    behind: (_, point) => listOf({ pool: [pool] }, undefined, stamp(at[point]!), stamp(at[point]! + step), 'requested'),
  }
}

/** How wide bars are: their part of a point, and pixels at most. What there was holds on to the next point: room between these would say that it is not known. */
export const barsOf = (unit: Unit): [part: number, most: number] => (unit === 'level' ? [1, Infinity] : [0.85, 40])

/** Points without neighbours, which no line shows. */
export const alone = (values: readonly (number | null)[]): number[] =>
  values.flatMap((v, i) => (v !== null && (values[i - 1] ?? null) === null && (values[i + 1] ?? null) === null ? [i] : []))

/** Values that stand on those of the lines before. */
export function stacked(lines: readonly Drawn[]): number[][] {
  const base: number[] = []
  return lines.map((l) => l.values.map((v, i) => (base[i] = (base[i] ?? 0) + (v ?? 0))))
}

/** The parts of a range of which the counts are not known: before what is kept, behind what is counted, and what is yet to come. */
export function unknown(s: Series | undefined, span: Span, now: number): [from: number, to: number][] {
  if (!s) return []
  const parts: [number, number][] = []
  const kept = s.known_from ? Date.parse(s.known_from) : 0, until = Date.parse(s.until), end = Math.min(span.to, now)
  if (kept > span.from) parts.push([span.from, Math.min(kept, span.to)])
  const begins = Date.parse(s.from), step = s.step_seconds * 1000
  for (const i of s.unknown ?? []) {
    const from = Math.max(begins + i * step, kept, span.from), to = Math.min(begins + (i + 1) * step, until, end), last = parts.at(-1)
    if (from >= to) continue
    if (last && last[1] >= from) last[1] = to // one stretch
    else parts.push([from, to])
  }
  const counted = Math.max(until, span.from), future = Math.max(now, span.from)
  if (counted < end) parts.push([counted, end])
  if (!span.live && future < span.to) parts.push([future, span.to])
  return parts
}

/** Rows of the table: the points that have something, each with a cell for every line. */
export function rows(c: Chart): { at: number; cells: { text: string; href: string }[] }[] {
  return c.at.flatMap((at, i) => {
    const cells = c.lines.map((l, j) => ({ text: say(l.values[i] ?? null, c.unit), href: c.behind(j, i) }))
    return c.lines.some((l) => (l.values[i] ?? 0) > 0) ? [{ at, cells }] : []
  })
}

/** A value in words. Times come from histograms, so they are about so long. */
export function say(v: number | null, unit: Unit): string {
  if (v === null) return '–'
  return unit === 'ms' ? `≈ ${duration(v)}` : v.toLocaleString('en')
}

/** What all of a line comes to: a sum, or the largest. */
export function total(l: Drawn, unit: Unit): string {
  const known = l.values.filter((v) => v !== null)
  return unit === 'n' ? say(known.reduce((a, b) => a + b, 0), 'n') : known.length ? `up to ${say(Math.max(...known), unit)}` : '–'
}

/** A mark of an axis of values. */
export const level = (v: number, unit: Unit): string => (unit === 'ms' ? (v === 0 ? '0' : duration(v)) : v >= 10_000 ? `${Math.round(v / 1000)}k` : String(v))

/** A mark of an axis of times, which are so many milliseconds apart. */
export function tick(at: number, apart: number, utc: boolean): string {
  const [, m, d, h, min, s] = fields(new Date(at), utc)
  if (apart >= 86_400_000 || (h === 0 && min === 0 && s === 0)) return `${two(m!)}-${two(d!)}`
  return apart < 60_000 ? `${two(h!)}:${two(min!)}:${two(s!)}` : `${two(h!)}:${two(min!)}`
}

export interface Mark { at: number; text: string; tone: string; href: string }

const lostWords = ['dead', 'fenced']

/** Marks on the axis of times: what somebody marked, reloads of the configuration, and nodes that came, went and were lost. */
export function marksOf(entries: readonly JournalEntry[], names: ReadonlyMap<string, string>): Mark[] {
  const marks = entries.flatMap((e): Mark[] => {
    const href = pageOf(e)
    if (e.kind === 'mark') return [{ at: Date.parse(e.at), text: e.subject, tone: 'run', href }]
    if (e.kind === 'operator' && e.what === 'reload') return [{ at: Date.parse(e.at), text: `node ${e.subject} reloaded${e.caller ? ` by ${e.caller}` : ''}`, tone: 'wait', href }]
    if (e.kind !== 'node' || !['joined', 'draining', 'stopped', ...lostWords].includes(e.what)) return []
    return [{ at: Date.parse(e.at), text: `node ${names.get(e.subject) ?? e.subject.slice(-6)} ${e.what}`, tone: lostWords.includes(e.what) ? 'bad' : 'off', href }]
  })
  return marks.sort((a, b) => a.at - b.at)
}

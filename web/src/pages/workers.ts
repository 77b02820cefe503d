// A worker as a cell of a grid, and as a row of a list.
import type { GradeInput, Node, Session, Worker, WorkerDetail } from '../api/types'
import type { Column } from '../state/columns'
import type { Key } from '../state/filters'
import { timeKeys } from '../state/range'
import { duration } from '../state/time'
import { toneOf, type Cell } from '../ui/cells'

export const columns: readonly Column[] = [
  { name: 'id', label: 'Worker', fixed: true },
  { name: 'state', label: 'State' },
  { name: 'grade', label: 'Grade' },
  { name: 'execution', label: 'Runs' },
  { name: 'failure', label: 'Last failure', off: true },
  { name: 'runtime', label: 'Runtime', off: true },
  { name: 'pid', label: 'Process', off: true, n: true },
  { name: 'since', label: 'Since', n: true },
  { name: 'generation', label: 'Generation', n: true },
  { name: 'restarts', label: 'Restarts', n: true },
  { name: 'heartbeat', label: 'Heartbeat', n: true },
]

const states = ['initializing', 'ready', 'busy', 'degraded', 'terminating', 'terminated']

/** The filters of the list. */
export const keys: readonly Key[] = [
  { name: 'pool', each: true }, { name: 'node', each: true }, { name: 'state', each: true, values: states }, { name: 'order', values: ['troubled', 'id'] }, ...timeKeys,
  { name: 'not.pool', each: true }, { name: 'not.node', each: true }, { name: 'not.state', each: true, values: states },
]

const healthy = ['initializing', 'ready', 'busy']

export function cellOf(w: Worker): Cell {
  const state = w.stale ? 'stale' : w.grade === 'unhealthy' ? 'unhealthy' : w.grade === 'degraded' && w.state === 'ready' ? 'degraded' : w.state
  const why = [...(w.cordoned ? ['cordoned'] : []), ...(w.grade_causes ?? []), ...(healthy.includes(w.state) || !w.last_failure ? [] : [w.last_failure])].join(', ')
  return { id: w.id, state, why, trouble: !healthy.includes(state) || w.cordoned, execution: w.execution }
}

const inputs: Record<string, [name: string, unit: 's' | 'n' | '%']> = {
  heartbeat_stale: ['Age of its heartbeat', 's'], consecutive_failures: ['Faults and failed probes in a row', 'n'], queue_depth: ['Executions that wait on it', 'n'],
  failure_rate: ['Faults among its last executions', '%'], state_degraded: ['Its lifecycle is degraded', 'n'], reported: ['Its own node grades it so', 'n'],
}

/** One row of what grades a worker. */
export interface GradeRow { name: string; key: string; value: string; degraded: string; unhealthy: string; grade: string; bad: boolean }

/** What grades a worker beside its borders, in words. */
export function gradeRow(i: GradeInput): GradeRow {
  const [name, unit] = inputs[i.name] ?? [i.name, 'n']
  const figure = (v: number | undefined) => (v === undefined ? '' : unit === 's' ? duration(v * 1000).replaceAll(' ', '\u00a0') : unit === '%' ? `${Math.round(v * 100)}\u00a0%` : v.toLocaleString('en'))
  const from = (v: number | undefined) => (v === undefined ? '–' : `${i.name === 'heartbeat_stale' ? 'above' : 'from'} ${figure(v)}`)
  return {
    name, key: i.name, value: figure(i.value) || '–', degraded: from(i.degraded_from), unhealthy: from(i.unhealthy_from),
    grade: i.ignored ? `${i.grade}, does not count` : i.grade, bad: i.grade !== 'healthy' && !i.ignored,
  }
}

const known = ['status', 'last_check', 'consecutive_failures', 'queue_depth', 'failure_rate', 'total_executions', 'failed_executions', 'average_execution_time_ms']

/** What a worker's last report says beside what grades it: of its probes and its runs. A time stands as at. */
export function reportRows(report: Record<string, unknown> | undefined): { name: string; value: string; at?: string }[] {
  if (!report) return []
  const n = (key: string) => (typeof report[key] === 'number' ? report[key] : undefined)
  const checked = report.last_check
  const [total, failed, mean] = [n('total_executions'), n('failed_executions'), n('average_execution_time_ms')]
  return [
    { name: 'Last probe answered', value: 'none yet', ...(typeof checked === 'string' ? { at: checked } : {}) },
    ...(total === undefined ? [] : [{ name: 'Executions of this generation', value: `${total.toLocaleString('en')}${failed ? `, ${failed.toLocaleString('en')} not completed` : ''}` }]),
    ...(total && mean !== undefined ? [{ name: 'Mean time of a run', value: duration(mean) }] : []),
    ...Object.entries(report).filter(([key]) => !known.includes(key)).map(([key, value]) => ({ name: key, value: typeof value === 'string' ? value : JSON.stringify(value) })),
  ]
}

/** What of a session's state is stored, and what a loss of its worker would cost. */
export function snapshotOf(s: Pick<Session, 'epoch' | 'runs' | 'worker' | 'snapshot_epoch' | 'snapshot_runs'>): string {
  if (!s.snapshot_epoch) return !s.runs ? 'none' : s.worker ? 'none: its state is only on its worker' : 'none: it is bound to no worker, so what one had of its state is gone'
  const missing = s.runs - (s.snapshot_runs ?? 0)
  const of = `of epoch ${s.snapshot_epoch}${s.snapshot_epoch === s.epoch ? '' : `, before the present epoch ${s.epoch}`}`
  return missing > 0 ? `${of}, without the last ${missing.toLocaleString('en')} of ${s.runs.toLocaleString('en')} runs` : `${of}, with all of its runs`
}

export interface Strip { from: number; to: number; shapes: { tone: string; path: string }[]; states: { state: string; tone: string; share: number }[] }

/** Of a state at rest little is drawn, of work more, and of trouble all: it is seen without colours. */
const heights: Record<string, number> = { ready: 8, busy: 15 }
const high = 22

/** What a worker was over the time of its lifecycle's last changes, as shapes in a box of 1000 × 22: one for all times of a tone. Undefined: it has not changed yet. */
export function stripOf(history: WorkerDetail['history'], now: number): Strip | undefined {
  const first = history.at(-1)
  if (!first) return undefined
  const began = (i: number) => Date.parse(history[i]!.at)
  const from = began(history.length - 1) - first.lasted_ms, to = Math.max(now, began(0))
  if (to <= from) return undefined
  const times = [...history.map((h, i) => ({ state: h.to, from: began(i), to: i ? began(i - 1) : to })).reverse()]
  if (first.lasted_ms > 0) times.unshift({ state: first.from, from, to: began(history.length - 1) })
  const paths = new Map<string, string>(), spent = new Map<string, number>()
  for (const t of times) {
    const x = (at: number) => Math.round(((at - from) / (to - from)) * 10_000) / 10, h = heights[t.state] ?? high, tone = toneOf(t.state)
    // A short trouble stays to be seen.
    paths.set(tone, `${paths.get(tone) ?? ''}M${x(t.from)} ${high - h}H${Math.max(x(t.to), x(t.from) + (t.state in heights ? 0 : 2))}V${high}H${x(t.from)}z`)
    spent.set(t.state, (spent.get(t.state) ?? 0) + t.to - t.from)
  }
  return {
    from, to, shapes: [...paths].map(([tone, path]) => ({ tone, path })),
    states: [...spent].map(([state, ms]) => ({ state, tone: toneOf(state), share: ms / (to - from) })).sort((a, b) => b.share - a.share),
  }
}

/** The sessions that are bound to a worker. */
export function boundTo(id: string, sessions: readonly Session[], nodes: readonly Pick<Node, 'incarnation' | 'name' | 'state'>[]): Session[] {
  const parts = id.split('/'), slot = Number(parts[2])
  const of = new Set(nodes.filter((n) => n.name === parts[0] && n.state !== 'dead').map((n) => n.incarnation))
  return sessions.filter((s) => s.pool === parts[1] && s.worker?.slot === slot && of.has(s.worker.incarnation))
}

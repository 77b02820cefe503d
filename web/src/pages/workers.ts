// A worker as a cell of a grid, and as a row of a list.
import type { GradeInput, Session, Worker } from '../api/types'
import type { Column } from '../state/columns'
import type { Key } from '../state/filters'
import { timeKeys } from '../state/range'
import { duration } from '../state/time'
import type { Cell } from '../ui/cells'

export const columns: readonly Column[] = [
  { name: 'id', label: 'Worker', fixed: true },
  { name: 'state', label: 'State' },
  { name: 'grade', label: 'Grade' },
  { name: 'execution', label: 'Runs' },
  { name: 'failure', label: 'Last failure', off: true },
  { name: 'runtime', label: 'Runtime', off: true },
  { name: 'pid', label: 'Process', off: true, n: true },
  { name: 'since', label: 'Since', off: true, n: true },
  { name: 'generation', label: 'Generation', n: true },
  { name: 'restarts', label: 'Restarts', n: true },
  { name: 'heartbeat', label: 'Heartbeat', n: true },
]

const states = ['initializing', 'ready', 'busy', 'degraded', 'terminating']

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
  const figure = (v: number | undefined) => (v === undefined ? '' : unit === 's' ? duration(v * 1000) : unit === '%' ? `${Math.round(v * 100)} %` : v.toLocaleString('en'))
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

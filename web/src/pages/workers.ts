// A worker as a cell of a grid, and as a row of a list.
import type { Worker } from '../api/types'
import type { Column } from '../state/columns'
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

const healthy = ['initializing', 'ready', 'busy']

export function cellOf(w: Worker): Cell {
  const state = w.stale ? 'stale' : w.grade === 'unhealthy' ? 'unhealthy' : w.grade === 'degraded' && w.state === 'ready' ? 'degraded' : w.state
  const why = [...(w.cordoned ? ['cordoned'] : []), ...(w.grade_causes ?? []), ...(healthy.includes(w.state) || !w.last_failure ? [] : [w.last_failure])].join(', ')
  return { id: w.id, state, why, trouble: !healthy.includes(state) || w.cordoned, execution: w.execution }
}

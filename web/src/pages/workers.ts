// A worker as a cell of a grid.
import type { Worker } from '../api/types'
import type { Cell } from '../ui/cells'

const healthy = ['initializing', 'ready', 'busy']

export function cellOf(w: Worker): Cell {
  const state = w.stale ? 'stale' : w.grade === 'unhealthy' ? 'unhealthy' : w.grade === 'degraded' && w.state === 'ready' ? 'degraded' : w.state
  const why = [...(w.cordoned ? ['cordoned'] : []), ...(w.grade_causes ?? []), ...(healthy.includes(w.state) || !w.last_failure ? [] : [w.last_failure])].join(', ')
  return { id: w.id, state, why, trouble: !healthy.includes(state) || w.cordoned, execution: w.execution }
}

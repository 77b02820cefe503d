import { describe, expect, it } from 'vitest'
import type { Worker } from '../api/types'
import { cellOf } from './workers'

const worker = (more: Partial<Worker>): Worker => ({ id: 'a/go/0', pool: 'go', node: 'a', runtime: 'go', generation: 1, state: 'ready', health: 'healthy', grade: 'healthy', cordoned: false, restarts: 0, ...more })

describe('a worker as a cell', () => {
  for (const [name, more, state, trouble, why] of [
    ['rests', {}, 'ready', false, ''],
    ['works', { state: 'busy', execution: 'e' }, 'busy', false, ''],
    ['starts', { state: 'initializing', last_failure: 'it ended' }, 'initializing', false, ''],
    ['is not heard of', { stale: true }, 'stale', true, ''],
    ['is unhealthy', { grade: 'unhealthy', grade_causes: ['heartbeat_stale'] }, 'unhealthy', true, 'heartbeat_stale'],
    ['is degraded', { state: 'degraded', last_failure: 'no module' }, 'degraded', true, 'no module'],
    ['is cordoned', { cordoned: true }, 'ready', true, 'cordoned'],
  ] as const) {
    it(name, () => {
      const c = cellOf(worker(more as Partial<Worker>))
      expect([c.state, c.trouble, c.why]).toEqual([state, trouble, why])
    })
  }
})

import { describe, expect, it } from 'vitest'
import type { Worker } from '../api/types'
import { cellOf, gradeRow, reportRows, snapshotOf } from './workers'

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

describe('what grades a worker', () => {
  it('stands beside its borders', () => {
    expect(gradeRow({ name: 'failure_rate', value: 0.42, degraded_from: 0.3, unhealthy_from: 0.7, grade: 'degraded' })).toEqual(
      { name: 'Faults among its last executions', key: 'failure_rate', value: '42 %', degraded: 'from 30 %', unhealthy: 'from 70 %', grade: 'degraded', bad: true })
    expect(gradeRow({ name: 'heartbeat_stale', value: 4, unhealthy_from: 30, grade: 'healthy' })).toMatchObject({ value: '4.0 s', degraded: '–', unhealthy: 'above 30 s', bad: false })
    expect(gradeRow({ name: 'consecutive_failures', value: 0, degraded_from: 3, unhealthy_from: 10, grade: 'healthy' }).value).toBe('0')
    expect(gradeRow({ name: 'state_degraded', grade: 'degraded' })).toMatchObject({ value: '–', bad: true })
    expect(gradeRow({ name: 'queue_depth', value: 60, grade: 'degraded', ignored: true })).toMatchObject({ grade: 'degraded, does not count', bad: false })
    expect(gradeRow({ name: 'of_later', value: 1, grade: 'healthy' }).name).toBe('of_later')
  })
  it('is reported in rows', () => {
    expect(reportRows(undefined)).toEqual([])
    expect(reportRows({ status: 'healthy', last_check: '2026-01-01T00:00:00Z', consecutive_failures: 0, queue_depth: 0, failure_rate: 0, total_executions: 1200, failed_executions: 3, average_execution_time_ms: 840, gpu: { temperature: 61 } })).toEqual([
      { name: 'Last probe answered', value: 'none yet', at: '2026-01-01T00:00:00Z' }, { name: 'Executions of this generation', value: '1,200, 3 not completed' },
      { name: 'Mean time of a run', value: '840 ms' }, { name: 'gpu', value: '{"temperature":61}' }])
    expect(reportRows({ last_check: null, total_executions: 0, average_execution_time_ms: 0 }).map((r) => r.value)).toEqual(['none yet', '0'])
  })
})

describe('the snapshot of a session', () => {
  const s = { worker: { incarnation: 'i', pool: 'py', slot: 1 }, epoch: 4, runs: 15, snapshot_epoch: 4, snapshot_runs: 15 }
  for (const [name, more, want] of [
    ['is whole', {}, 'of epoch 4, with all of its runs'],
    ['is behind', { snapshot_runs: 12 }, 'of epoch 4, without the last 3 of 15 runs'],
    ['is of another epoch', { snapshot_epoch: 3, snapshot_runs: 12 }, 'of epoch 3, before the present epoch 4, without the last 3 of 15 runs'],
    ['is missing', { snapshot_epoch: undefined }, 'none: its state is only on its worker'],
    ['is missing, and so is the worker', { snapshot_epoch: undefined, worker: undefined }, 'none: it is bound to no worker, so what one had of its state is gone'],
    ['is not needed', { snapshot_epoch: undefined, runs: 0 }, 'none'],
  ] as const) it(name, () => expect(snapshotOf({ ...s, ...more })).toBe(want))
})

import { describe, expect, it } from 'vitest'
import type { Session, Worker } from '../api/types'
import { boundTo, cellOf, gradeRow, reportRows, snapshotOf, stripOf } from './workers'

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
      { name: 'Faults among its last executions', key: 'failure_rate', value: '42\u00a0%', degraded: 'from 30\u00a0%', unhealthy: 'from 70\u00a0%', grade: 'degraded', bad: true })
    expect(gradeRow({ name: 'heartbeat_stale', value: 4, unhealthy_from: 30, grade: 'healthy' })).toMatchObject({ value: '4.0\u00a0s', degraded: '–', unhealthy: 'above 30\u00a0s', bad: false })
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

describe('the states of a worker over time', () => {
  const start = Date.parse('2026-11-27T03:00:00Z')
  const change = (s: number, from: string, to: string, lasted: number) => ({ at: new Date(start + s * 1000).toISOString(), generation: 1, from, to, reason: 'r', lasted_ms: lasted * 1000 })
  it('begin before the first change that is known, and end now', () => {
    const strip = stripOf([change(90, 'busy', 'degraded', 10), change(80, 'ready', 'busy', 60), change(20, 'initializing', 'ready', 20)], start + 100_000)!
    expect([strip.from, strip.to]).toEqual([start, start + 100_000])
    expect(strip.states).toEqual([{ state: 'ready', tone: 'good', share: 0.6 }, { state: 'initializing', tone: 'off', share: 0.2 }, { state: 'busy', tone: 'run', share: 0.1 }, { state: 'degraded', tone: 'warn', share: 0.1 }])
    expect(strip.shapes.find((s) => s.tone === 'warn')!.path).toBe('M900 0H1000V22H900z')
    expect(strip.shapes.find((s) => s.tone === 'good')!.path).toBe('M200 14H800V22H200z')
  })
  it('show a trouble however short it was', () => {
    const strip = stripOf([change(50, 'degraded', 'ready', 0.001), change(49.999, 'ready', 'degraded', 50)], start + 100_000)!
    expect(strip.shapes.find((s) => s.tone === 'warn')!.path).toBe('M500 0H502V22H500z')
  })
  it('are none of one that has not changed', () => expect(stripOf([], start)).toBeUndefined())
})

it('knows the sessions that are bound to a worker', () => {
  const s = (session: string, incarnation: string, slot: number) => ({ pool: 'py', session, epoch: 1, runs: 1, worker: { incarnation, pool: 'py', slot } }) as Session
  const all = [s('u-1', 'i1', 0), s('u-2', 'i1', 1), s('u-3', 'i0', 0), { pool: 'py', session: 'u-4', epoch: 1, runs: 0 } as Session]
  expect(boundTo('a/py/0', all, [{ incarnation: 'i1', name: 'a', state: 'active' }, { incarnation: 'i0', name: 'a', state: 'dead' }]).map((x) => x.session)).toEqual(['u-1'])
})

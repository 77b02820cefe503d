import { describe, expect, it } from 'vitest'
import { changedVersion, errorsOf, retries, neighbours, remainsOf, fate, lossOf, natureOf, placeInLine } from './execution'

describe('retries', () => {
  for (const [count, most, idempotent, want] of [
    [0, 2, false, '0 of 2'],
    [2, 2, true, '2 of 2, idempotent'],
    [2, 0, false, '2, of which the node makes up to 0 by itself'],
  ] as const) {
    it(want, () => expect(retries({ retry_count: count, max_retries: most, idempotent })).toBe(want))
  }
})

describe('what is known of an error', () => {
  for (const [e, want] of [
    [{ code: 'worker_lost', class: 'worker_lost', failed_by: 'worker', exit: 'signal: SIGKILL' }, 'class worker_lost · caught by worker · signal: SIGKILL'], // whether a retry follows is said below it
    [{ code: 'x', class: 'exception', retriable: false }, 'class exception · its code says final'],
    [{ code: 'x', retriable: true }, 'its code says retriable'],
    [{ code: 'x' }, ''],
  ] as const) it(want || 'nothing', () => expect(natureOf(e)).toBe(want))
})

describe('errorsOf', () => {
  it('leads to the hour up to its end', () => expect(errorsOf({ action_ref: 'a.b', error: { code: 'boom' }, finished_at: '2026-11-26T10:00:00.500Z' }))
    .toBe('errors?action=a.b&error=boom&from=2026-11-26T09:00:00Z&to=2026-11-26T10:00:01Z'))
})

describe('changedVersion', () => {
  const chain = [{ version: '1.0' }, { version: '1.0' }, { version: '1.1' }, {}]
  it('says where it differs', () => expect(chain.map((_, i) => changedVersion(chain, i))).toEqual(['', '', '1.0 → 1.1', '1.1 → no version']))
})

it('finds other runs within a time', () => {
  const run = (execution: string, started_at: string, finished_at?: string) => ({ execution, action_ref: 'a', status: 'completed' as const, attempt: 1, started_at, finished_at })
  const runs = [run('own', '2026-01-01T00:00:05Z'), run('now', '2026-01-01T00:00:09Z'), run('before', '2026-01-01T00:00:00Z', '2026-01-01T00:00:01Z'), run('into', '2026-01-01T00:00:00Z', '2026-01-01T00:00:03Z'), run('after', '2026-01-01T00:00:11Z')]
  expect(neighbours({ runs }, 'own', { from: '2026-01-01T00:00:02Z', to: '2026-01-01T00:00:10Z' }).map((r) => r.execution)).toEqual(['into', 'now'])
})

describe('an execution that is not stored', () => {
  const none = { was_stored: false, deleted_by_retention: false, retention_seconds: 604_800, looked_at: ['journal'] }
  it('is read from the answer', () => {
    expect(remainsOf({ remains: none })).toEqual(none)
    for (const details of [undefined, null, 'remains', {}, { remains: null }, { remains: {} }]) expect(remainsOf(details)).toBeUndefined()
  })
  it('was deleted, or never was', () => {
    expect(fate({ ...none, was_stored: true, deleted_by_retention: true })).toBe('It was deleted by retention. This node keeps ended executions for 7 d.')
    expect(fate({ ...none, was_stored: true })).toBe('It was stored, and is no more. This node keeps ended executions for 7 d.')
    expect(fate(none)).toContain('Nothing of it is stored')
    expect(fate({ was_stored: false, deleted_by_retention: false })).toContain('deletes no ended executions')
  })
})

it('says its place in line', () => {
  expect(placeInLine({ ahead: 0, of: 'pool' })).toBe('It is the next one for the next free worker of its pool.')
  expect(placeInLine({ ahead: 1, of: 'session' })).toBe('1 is before it in its session.')
  expect(placeInLine({ ahead: 10_000, at_least: true, of: 'worker' })).toBe('At least 10,000 are before it for the worker of its session.')
  expect(placeInLine({ ahead: 0, at_least: true, of: 'pool' })).toBe('Others may be before it for the next free worker of its pool.')
})

describe('what is known of the state of its session', () => {
  for (const [name, e, want] of [
    ['not lost', { session_lost: false, status: 'completed' }, ''],
    ['it runs', { session_lost: true, status: 'running' }, ', away from its state'],
    ['it was told', { session_lost: true, status: 'completed' }, ', state lost'],
    ['its worker said so', { session_lost: true, status: 'failed', error: { code: 'c', message: 'm', failed_by: 'worker' } }, ', state lost'],
    ['its outcome could not be stored', { session_lost: true, status: 'failed', error: { code: 'c', message: 'm', failed_by: 'recorder' } }, ', state lost'],
    ['another ended it', { session_lost: true, status: 'timed_out', error: { code: 'c', message: 'm', failed_by: 'monitor' } }, ', away from its state; its worker did not say whether a snapshot was restored'],
  ] as const) it(name, () => expect(lossOf(e)).toBe(want))
})

import { describe, expect, it } from 'vitest'
import { backlogOf, failuresOf, laterOf, slotsOf, stateOf, waitingIn, workersIn } from './pools'

describe('how a pool is', () => {
  const pool = { broken: false, cordoned: false }
  for (const [p, word, text] of [
    [pool, 'ok', 'ok'], [{ ...pool, halted: 'broker_away' }, 'degraded', 'broker away'], [{ ...pool, cordoned: true, halted: 'broker_away' }, 'degraded', 'cordoned'],
    [{ ...pool, unattached: 2, ready: 0 }, 'degraded', 'unattached'], [{ ...pool, unattached: 1, ready: 1 }, 'ok', 'ok'],
    [{ ...pool, broken: true, cordoned: true }, 'broken', 'broken'],
  ] as const) it(text, () => expect(stateOf(p)).toEqual({ word, text }))
})

describe('what waits in a pool', () => {
  for (const [d, backlog, later] of [
    [{ waiting: 0, placed: 0 }, '0', ''],
    [{ waiting: 7, placed: 2 }, '9', ''],
    [{ waiting: 1500, not_due: 300, placed: 2 }, '1,202', '300 not due'],
    [{ waiting: 300, not_due: 300, placed: 0 }, '0', '300 not due'],
    [{ waiting: 100_005, not_due: 5, waiting_more: true, placed: 0 }, '100,000+', '5+ not due'],
    [{ waiting: 3, not_due: 5, placed: 1 }, '1', '5 not due'], // counted at two moments
  ] as const) it(`${backlog} and ${later || 'none later'}`, () => expect([backlogOf(d), laterOf(d)]).toEqual([backlog, later]))
})

describe('workersIn', () => {
  it('is the list of one state', () => expect(workersIn('acme.a', 'busy')).toBe('workers?pool=acme.a&state=busy'))
  it('has all states of those that start', () => expect(workersIn('go', 'starting')).toBe('workers?pool=go&state=initializing&state=terminated&state=terminating'))
})

describe('waitingIn', () => {
  for (const [cause, want] of [
    [undefined, 'executions?pool=go&status=requested,scheduled'],
    ['workers_busy', 'executions?pool=go&status=requested'],
    ['on_queue', 'executions?pool=go&status=scheduled'],
    ['backed_off', 'executions?pool=go&status=requested&was=taken_back'],
  ] as const) it(cause ?? 'a priority', () => expect(waitingIn('go', cause)).toBe(want))
})

it('says that workers of a broken pool fail to start', () => {
  const pool = { workers: 4, busy: 0, ready: 0, degraded: 0, starting: 4, cordoned: false }
  expect(slotsOf({ ...pool, broken: true }).parts).toEqual([['failing to start', 4, 'bad']])
  expect(slotsOf({ ...pool, broken: false }).parts).toEqual([['starting', 4, 'off']])
})

it('has workers with the same failure together', () => {
  const failed = (worker: string, error: string) => ({ worker, error, state: 'terminated', generation: 1, restarts: 2 })
  expect(failuresOf([failed('a/m/0', 'no file'), failed('a/m/1', 'no module'), failed('b/m/0', 'no file')]).map((f) => [f.error, ...f.workers.map((w) => w.worker)])).toEqual([['no file', 'a/m/0', 'b/m/0'], ['no module', 'a/m/1']])
})

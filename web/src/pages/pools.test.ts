import { describe, expect, it } from 'vitest'
import { backlogOf, laterOf } from './pools'

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

import { describe, expect, it } from 'vitest'
import { changedVersion, errorsOf, retries } from './execution'

describe('retries', () => {
  for (const [count, most, idempotent, want] of [
    [0, 2, false, '0 of 2'],
    [2, 2, true, '2 of 2, idempotent'],
    [2, 0, false, '2, of which the node makes up to 0 by itself'],
  ] as const) {
    it(want, () => expect(retries({ retry_count: count, max_retries: most, idempotent })).toBe(want))
  }
})

describe('errorsOf', () => {
  it('leads to the hour up to its end', () => expect(errorsOf({ action_ref: 'a.b', error: { code: 'boom' }, finished_at: '2026-11-26T10:00:00.500Z' }))
    .toBe('errors?action=a.b&error=boom&from=2026-11-26T09:00:00Z&to=2026-11-26T10:00:01Z'))
})

describe('changedVersion', () => {
  const chain = [{ version: '1.0' }, { version: '1.0' }, { version: '1.1' }, {}]
  it('says where it differs', () => expect(chain.map((_, i) => changedVersion(chain, i))).toEqual(['', '', '1.0 → 1.1', '1.1 → no version']))
})

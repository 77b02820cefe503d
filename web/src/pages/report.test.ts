import { expect, it } from 'vitest'
import type { Execution, Timeline } from '../api/types'
import { report } from './report'

const e: Execution = { id: 'x', action_ref: 'p.a', status: 'cancelled', attempt: 0, priority: 5, max_retries: 0, retry_count: 0, requested_at: '2026-01-01T00:00:00Z' }
const line: Timeline = {
  execution: 'x', status: 'cancelled', window: { from: '2026-01-01T00:01:00Z', to: '2026-01-01T00:02:00Z' }, attempts: [], run: [], chain: [], worker: [], node: [], session: [], servers: [], gaps: [],
  wait: [{ from: '2026-01-01T00:01:00Z', to: '2026-01-01T00:02:00Z', cause: 'workers_busy', evidence: 'a | b' }],
}

it('says what it does not have', () => {
  expect(report(e, undefined, line, undefined)).not.toContain('not in this report')
  const cut = report(e, undefined, { ...line, truncated: true, left_out: [{ what: 'events', n: 300, at_least: true }] }, undefined)
  expect(cut).toContain('| workers_busy | 1 min | a \\| b |\n\n- not in this report: at least 300 events\n')
})

it('counts the wait from when it was due', () => {
  const ran: Execution = { ...e, status: 'completed', started_at: '2026-01-01T00:00:05Z', worker: 'a/go/0' }
  expect(report(ran, undefined, undefined, undefined)).toContain('- waited 5.0 s, started 2026-01-01T00:00:05Z on a/go/0\n')
  expect(report({ ...ran, run_at: '2026-01-01T00:00:04Z' }, undefined, undefined, undefined)).toContain('- waited 1.0 s since it was due at 2026-01-01T00:00:04Z, started')
})

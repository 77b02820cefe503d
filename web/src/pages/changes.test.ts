import { describe, expect, it } from 'vitest'
import type { Ledger } from '../api/types'
import { ledgerOf, listOf, verdict } from './changes'

const ledger = (more: Partial<Ledger>): Ledger => ({
  from: '2030-01-31T08:00:00Z', to: '2030-01-31T08:10:00Z', accepted: 1203, retries: 0, ended: [{ status: 'completed', n: 1200 }], open: [{ status: 'running', n: 3 }],
  repeated: 0, taken_back: 0, state_lost: 0, counted: 1203, missing: 0, adds_up: true, ...more,
})

describe('changes', () => {
  it('have a ledger of five minutes before and behind', () => {
    expect(ledgerOf({ at: '2030-01-31T08:05:00.123Z', incarnation: '', number: 1, kind: 'mark', subject: '', what: '' })).toBe('changes?from=2030-01-31T08:00:00Z&to=2030-01-31T08:10:00Z')
  })
  it('lead to the executions behind a figure', () => expect(listOf(ledger({}), 'failed')).toBe('executions?status=failed&from=2030-01-31T08:00:00Z&to=2030-01-31T08:10:00Z'))
  it('say whether anything is missing', () => {
    expect(verdict(ledger({}))).toBe('It adds up: of 1,203 accepted, 1,200 have ended, 3 are open, and none is missing.')
    expect(verdict(ledger({ accepted: 0, ended: [], open: [] }))).toBe('It adds up: nothing was requested.')
    expect(verdict(ledger({ adds_up: false, missing: 2 }))).toBe('It does not add up: 2 executions that a node has stored are missing.')
  })
})

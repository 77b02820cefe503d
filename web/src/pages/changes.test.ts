import { describe, expect, it } from 'vitest'
import type { ErrorGroup, Ledger, Series } from '../api/types'
import { befell, minutes, broke, fine, listOf, pageOf, purged, sessionsOf, slower, times, verdict } from './changes'

const ledger = (more: Partial<Ledger>): Ledger => ({
  from: '2030-01-31T08:00:00Z', to: '2030-01-31T08:10:00Z', accepted: 1203, retries: 0, ended: [{ status: 'completed', n: 1200 }], open: [{ status: 'running', n: 3 }],
  purged: 0, repeated: 0, taken_back: 0, state_lost: 0, sessions_restored: { n: 0 }, sessions_lost: { n: 0 }, counted: 1203, missing: 0, adds_up: true, ...more,
})

describe('changes', () => {
  it('have a page', () => {
    expect(pageOf({ at: '2030-01-31T08:05:00.123Z', incarnation: '', number: 1, kind: 'mark', subject: '', what: '' })).toBe('changes/2030-01-31T08%3A05%3A00.123Z')
  })
  it('count no minute on both sides', () => {
    expect(minutes(Date.parse('2030-01-31T08:05:20Z')).map((t) => new Date(t).toISOString().slice(11, 16))).toEqual(['08:05', '08:06'])
    expect(minutes(Date.parse('2030-01-31T08:05:00Z')).map((t) => new Date(t).toISOString().slice(11, 16))).toEqual(['08:05', '08:05'])
  })
  it('lead to the executions behind a figure', () => expect(listOf(ledger({}), 'failed')).toBe('executions?status=failed&from=2030-01-31T08:00:00Z&to=2030-01-31T08:10:00Z'))
  it('lead to the executions that something befell', () => expect(befell(ledger({}), 'taken_back')).toBe('executions?was=taken_back&from=2030-01-31T08:00:00Z&to=2030-01-31T08:10:00Z'))
  it('say whether anything is missing', () => {
    expect(verdict(ledger({}))).toBe('It adds up: of 1,203 accepted, 1,200 have ended, 3 are open, and none is missing.')
    expect(verdict(ledger({ accepted: 0, ended: [], open: [] }))).toBe('It adds up: nothing was requested.')
    expect(verdict(ledger({ adds_up: false, missing: 2 }))).toBe('It does not add up: 2 executions that a node has stored are missing.')
    expect(verdict(ledger({ accepted: 4 }))).toContain('of 4 accepted, 1 has ended, 3 are open')
    expect(verdict(ledger({ adds_up: false, missing: 1 }))).toBe('It does not add up: 1 execution that a node has stored is missing.')
    expect(verdict(ledger({ adds_up: false, missing: 1, purged_from: '2030-01-31T08:05:00Z' }))).toContain('1 execution that a node has stored is missing, or was deleted by retention')
  })
  it('say what retention deleted, as far as it is known', () => {
    const gone = ledger({ accepted: 1603, purged: 400 })
    expect(verdict(gone)).toBe('It adds up: of 1,603 accepted, 1,600 have ended, of them 400 deleted by retention, 3 are open, and none is missing.')
    const before = { purged_from: '2030-01-31T08:05:00Z' }
    expect(verdict(ledger({ ...before, adds_up: false, missing: 2 }))).toContain('are missing, or were deleted by retention')
    expect([gone, ledger({}), ledger({ purged: 400, purging: 3 }), ledger({ purged: 400, ...before }), ledger(before)].map(purged)).toEqual(['400', '0', '≈ 400', '≥ 400', 'unknown'])
  })
  it('lead to the sessions that were restored', () => {
    expect([times({ n: 0 }), times({ n: 1200, at_least: true })]).toEqual(['0', '≥ 1,200'])
    expect(sessionsOf(ledger({}), 'restored')).toBe('history?kinds=session&what=restored&from=2030-01-31T08:00:00Z&to=2030-01-31T08:10:00Z')
    expect(sessionsOf(ledger({}))).not.toContain('what')
  })
  it('say what was not compared', () => {
    const rest = { from: '2030-01-31T08:10:00Z', to: '2030-01-31T09:00:00Z', submitted: 9, ended: [] }
    expect(verdict(ledger({ rest }))).toBe('It adds up as far as it was compared: of 1,203 accepted, 1,200 have ended, 3 are open, and none is missing.')
    expect(verdict(ledger({ rest, adds_up: false, missing: 2 }))).toContain('It does not add up: 2 ')
    const none = { rest, to: '2030-01-31T08:00:00Z', accepted: 0, ended: [], open: [] }
    expect(verdict(ledger(none))).toBe('Not compared: there is more than is counted at once.')
    expect([fine(ledger({})), fine(ledger({ rest })), fine(ledger({ adds_up: false })), fine(ledger(none))]).toEqual([true, true, false, undefined])
  })
  it('name what fails behind them and did not before', () => {
    const group = (message: string, n: number): ErrorGroup => ({ action_ref: 'a.b', code: 'bad', message, n, first: '', last: '', example: '', examples: [] })
    expect(broke([group('x', 4), group('z', 1)], [group('x', 9), group('y', 2)]).map((g) => [g.message, g.n, g.before])).toEqual([['y', 2, 0], ['x', 9, 4]])
  })
  it('name what became slower', () => {
    const series = (...lines: [string, number[]][]): Series => ({ from: '', step_seconds: 60, until: '', series: lines.map(([key, p95]) => ({ key, n: p95.map(() => 1), p95 })) })
    expect(slower(series(['a', [10, 20]], ['b', [5]]), series(['a', [20]], ['b', [50, 40]], ['c', [7]]))).toEqual([
      { action: 'b', before: 5, behind: 50 }, { action: 'a', before: 20, behind: 20 }, { action: 'c', before: 0, behind: 7 }])
  })
})

import { describe, expect, it } from 'vitest'
import type { JournalEntry, Series } from '../api/types'
import { alone, barsOf, flow, level, listOf, marksOf, outcomes, quantiles, rows, say, scoped, stacked, tick, total, unknown, versions, waiting, workers } from './series'

const from = '2030-01-31T08:00:00Z', at = Date.parse(from)
const series = (...lines: Series['series']): Series => ({ from, step_seconds: 60, until: '2030-01-31T08:02:30Z', series: lines })
const q = { from: '-1h' }

describe('charts', () => {
  const ended = series({ key: 'failed', n: [0, 2, 1] }, { key: 'completed', n: [5, 0, 7] })
  const c = outcomes(ended, { pool: ['go'] }, q)
  it('stack outcomes, the good ones below', () => {
    expect(c.lines.map((l) => [l.name, l.tone])).toEqual([['completed', 'good'], ['failed', 'bad']])
    expect(stacked(c.lines)).toEqual([[5, 0, 7], [5, 2, 8]])
    expect(c.at).toEqual([at, at + 60_000, at + 120_000])
  })
  it('lead to the lists behind them', () => {
    expect(c.lines[1]!.href).toBe('errors?status=failed&pool=go&from=-1h')
    expect(c.behind(1, 1)).toBe('errors?status=failed&pool=go&from=2030-01-31T08:01:00Z&to=2030-01-31T08:02:00Z')
    expect(c.behind(0, 0)).toBe('executions?status=completed&pool=go&ended_from=2030-01-31T08:00:00Z&ended_to=2030-01-31T08:01:00Z')
    expect(c.lines[0]!.href).toBe('executions?status=completed&pool=go&ended_from=2030-01-31T08:00:00Z') // a list by the end takes no age
    expect(outcomes(ended, {}, { from: '2030-01-31T07:30:00Z', to: from }).lines[0]!.href).toBe('executions?status=completed&ended_from=2030-01-31T07:30:00Z&ended_to=2030-01-31T08:00:00Z')
    expect(listOf({ action: ['a.b'] }, undefined, '-1h', undefined, 'requested')).toBe('executions?action=a.b&from=-1h')
    expect(quantiles('Run', series({ key: 'all', n: [1] }), {}, q).behind(0, 0)).toBe('executions?ended_from=2030-01-31T08:00:00Z&ended_to=2030-01-31T08:01:00Z')
    expect(listOf({ pool: ['go', 'py'], action: ['a.b', 'c'] }, 'failed', '-1h', undefined)).toBe('errors?status=failed&pool=go&pool=py&action=a.b&action=c&from=-1h')
  })
  it('are of some pools and actions', () => {
    expect(scoped(new URLSearchParams({ by: 'all' }), { pool: ['go', 'py'], action: ['a.b'] }).toString()).toBe('by=all&pool=go&pool=py&action=a.b')
    expect(scoped(new URLSearchParams(), {}).toString()).toBe('')
  })
  it('have tables without empty points', () => {
    expect(rows(outcomes(series({ key: 'completed', n: [0, 3, 0] }), {}, q)).map((r) => [r.at, r.cells.map((x) => x.text)])).toEqual([[at + 60_000, ['3']]])
  })
  it('set what came in against what went out', () => {
    const f = flow(series({ key: 'all', n: [1, 2, 3] }), ended, {}, q)
    expect(f.lines.map((l) => l.values)).toEqual([[1, 2, 3], [5, 2, 8]])
    expect(f.lines.map((l) => l.href)).toEqual(['executions?from=-1h', 'executions?ended_from=2030-01-31T08:00:00Z'])
    expect([f.behind(0, 0), f.behind(1, 0)]).toEqual(['executions?from=2030-01-31T08:00:00Z&to=2030-01-31T08:01:00Z', 'executions?ended_from=2030-01-31T08:00:00Z&ended_to=2030-01-31T08:01:00Z'])
    expect(flow(series(), ended, {}, q).lines[0]!.values).toEqual([0, 0, 0])
  })
  it('have no time where nothing ran', () => {
    const w = quantiles('Wait', series({ key: 'all', n: [1, 0], p50: [10, 0], p95: [20, 0], p99: [30, 0] }), {}, q)
    expect(w.lines.map((l) => l.values)).toEqual([[10, null], [20, null], [30, null]])
    expect(total(w.lines[1]!, 'ms')).toBe('up to ≈ 20 ms')
    expect(quantiles('Wait', series(), {}, q).at).toEqual([])
  })
  it('know no point behind what is counted', () => {
    expect(outcomes({ ...ended, until: '2030-01-31T08:01:00Z' }, {}, q).lines.map((l) => l.values)).toEqual([[5], [0]])
    expect(outcomes({ ...ended, until: from }, {}, q).at).toEqual([])
  })
  it('show points without neighbours', () => {
    expect(alone([1, null, 2, 3, null, 0])).toEqual([0, 5])
  })
  it('show what a pool had at the end of each point', () => {
    const w = workers(series({ key: 'ready', n: [4, 3] }, { key: 'odd', n: [0, 1] }, { key: 'busy', n: [0, 1] }), 'go')
    expect(w.lines.map((l) => [l.name, l.tone])).toEqual([['odd', 'off'], ['busy', 'run'], ['ready', 'good']])
    expect([total(w.lines[2]!, w.unit), w.behind(0, 0), level(12_000, w.unit)]).toEqual(['up to 4', 'workers?pool=go', '12k'])
    const q = waiting(series({ key: 'all', n: [0, 1200] }), 'go')
    expect([q.lines[0]!.values, total(q.lines[0]!, q.unit), q.lines[0]!.href]).toEqual([[0, 1200], 'up to 1,200', 'executions?status=requested,scheduled&pool=go'])
    expect(q.behind(0, 1)).toBe('executions?pool=go&from=2030-01-31T08:01:00Z&to=2030-01-31T08:02:00Z')
    expect(waiting(series(), 'go').lines[0]!.values).toEqual([])
    const young = waiting({ ...series({ key: 'all', n: [0, 3] }), unknown: [0] }, 'go')
    expect([young.lines[0]!.values, total(young.lines[0]!, young.unit)]).toEqual([[null, 3], 'up to 3'])
    expect(total(waiting({ ...series({ key: 'all', n: [0, 0] }), unknown: [0, 1] }, 'go').lines[0]!, 'level')).toBe('–')
    expect(workers({ ...series({ key: 'ready', n: [0, 4] }), unknown: [0] }, 'go').lines[0]!.values).toEqual([null, 4])
  })
  it('compare versions', () => {
    expect(versions(series({ key: 'a.b@1.2', n: [1], p95: [7] }, { key: 'a.b@', n: [0], p95: [0] }), {}, q).lines.map((l) => [l.name, l.values])).toEqual([['1.2', [7]], ['none', [null]]])
  })
  it('say what is not known', () => {
    const span = { from: at - 3_600_000, to: at + 300_000, live: true }
    expect(unknown(ended, span, at + 240_000)).toEqual([[at + 150_000, at + 240_000]])
    expect(unknown({ ...ended, known_from: '2030-01-31T07:30:00Z' }, span, at + 100_000)).toEqual([[at - 3_600_000, at - 1_800_000]])
    expect(unknown({ ...ended, until: from }, { from: at + 1, to: at + 2, live: false }, at + 9)).toEqual([[at + 1, at + 2]])
    expect(unknown(undefined, span, at)).toEqual([])
    const later = { from: at + 3_600_000, to: at + 7_200_000, live: false }
    expect(unknown({ ...ended, until: from }, later, at + 240_000)).toEqual([[at + 3_600_000, at + 7_200_000]])
    expect(unknown({ ...ended, until: '2030-01-31T08:01:00Z' }, { from: at, to: at + 300_000, live: false }, at + 60_000)).toEqual([[at + 60_000, at + 300_000]])
    const hour = { from: at, to: at + 300_000, live: false }
    expect(unknown({ ...ended, until: '2030-01-31T08:05:00Z', unknown: [0, 1, 3] }, hour, at + 300_000)).toEqual([[at, at + 120_000], [at + 180_000, at + 240_000]])
  })
  it('speak', () => {
    expect([say(1234, 'n'), say(null, 'ms'), say(1500, 'ms'), level(12_000, 'n'), level(5, 'n'), level(0, 'ms')]).toEqual(['1,234', '–', '≈ 1.5 s', '12k', '5', '0'])
    expect([tick(at, 60_000, true), tick(at, 1000, true), tick(at, 86_400_000, true), tick(Date.parse('2030-02-01T00:00:00Z'), 3_600_000, true)]).toEqual(['08:00', '08:00:00', '01-31', '02-01'])
  })
})

describe('marks', () => {
  const e = (kind: string, what: string, subject: string, n: number): JournalEntry => ({ at: new Date(at + n * 1000).toISOString(), incarnation: 'i', number: n, kind, subject, what })
  it('are those of people and of nodes that came and went', () => {
    const marks = marksOf([e('node', 'dead', 'inc-c', 3), e('mark', 'mark', 'deploy 1.4.2', 2), e('node', 'late', 'inc-c', 1), e('operator', 'reload', 'c', 4), e('operator', 'kill', 'c/go/1', 5), e('pool', 'condition', 'go', 0)], new Map([['inc-c', 'c']]))
    expect(marks.map((m) => [m.text, m.tone])).toEqual([['deploy 1.4.2', 'run'], ['node c dead', 'bad'], ['node c reloaded', 'wait']])
    expect(marks[0]!.href).toBe('changes/2030-01-31T08%3A00%3A02.000Z')
  })
})

it('has no room between bars of what holds on, which would say that it is not known', () => {
  expect(barsOf('level')).toEqual([1, Infinity])
  expect(barsOf('n')[0]).toBeLessThan(1)
})

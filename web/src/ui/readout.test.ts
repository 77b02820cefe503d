import { describe, expect, it } from 'vitest'
import type { Drawn } from './lanes'
import { beforeIt, busyOf, readout, waitsAt } from './readout'

const start = Date.parse('2026-11-25T17:00:00Z')
const at = (s: number) => new Date(start + s * 1000).toISOString()
const t: Drawn = {
  execution: 'x', status: 'failed', whole: { from: at(0), to: at(100) }, window: { from: at(20), to: at(100) }, chain: [], gaps: [],
  missing: [{ from: at(0), to: at(20) }],
  wait: [{ from: at(20), to: at(30), cause: 'workers_busy', source: 'journal', evidence: 'pool python: workers busy' }, { from: at(30), to: at(50), cause: 'unknown', evidence: 'not kept' }],
  attempts: [{ attempt: 2, worker: 'n/py/3', generation: 7, scheduled_at: at(50), started_at: at(60), ended_at: at(100), ended: 'failed' }],
  run: [{ from: at(60), to: at(100), attempt: 2, outcome: 'failed' }],
  worker: [{ from: at(50), to: at(100), of: 'n/py/3', what: 'degraded' }], node: [{ from: at(65), of: 'n', what: 'late' }],
  session: [{ from: at(20), to: at(100), of: 'py/u', what: 'bound to n/py/3' }], servers: [{ from: at(70), to: at(80), of: 'broker', what: 'away', by: 'n' }],
  output: [{ at: start + 62_000, kind: 'stderr' }, { at: start + 68_000, kind: 'progress', fraction: 0.48 }, { at: start + 90_000, kind: 'stderr' }],
}
const told = (s: number) => readout(t, start + s * 1000, start + 200_000)

describe('readout', () => {
  it('says what is not loaded', () => expect(told(5)).toEqual(['this time is not loaded']))
  it('says what it waited for', () => expect(told(24)).toEqual(['24 s after its request: workers busy (pool python: workers busy)', 'session bound to n/py/3']))
  it('does not guess', () => expect(told(40)[0]).toBe('40 s after its request (not kept)'))
  it('says how long it ran, how far it was, and what was around it', () => expect(told(72)).toEqual([
    'running 12 s, 48 %, 1 entry written', 'attempt 2 on n/py/3 g7', 'n/py/3 degraded', 'session bound to n/py/3', 'broker away, seen by n', 'node n: late 7.0 s before']))
  it('has the end with the run', () => expect(told(100)[0]).toBe('running 40 s, 48 %, 2 entries written'))
  it('names what its worker ran beside', () => expect(readout({ ...t, missing: [], neighbours: [
    { execution: 'y', action_ref: 'p.other', status: 'completed', attempt: 1, started_at: at(20), finished_at: at(28) }] }, start + 25_000, start + 200_000)).toContain('its worker ran p.other'))
  it('says that it runs while it does', () => expect(readout({ ...t, run: [{ from: at(60), to: at(100), attempt: 2 }], output: [] }, start + 100_000, start + 100_000)[0]).toBe('runs 40 s'))
})

describe('the place in line', () => {
  it.each<[number, boolean]>([[25, true], [45, true], [55, false], [70, false], [110, false]])('waits at %d: %s', (s, want) => expect(waitsAt(t, start + s * 1000)).toBe(want))
  it.each<[Parameters<typeof beforeIt>[0]['line'], string | undefined]>([
    [{ ahead: 3, of: 'pool' }, '3 were before it'],
    [{ ahead: 1, of: 'pool' }, '1 was before it'],
    [{ ahead: 1, of: 'session' }, '1 was before it in its session'],
    [{ ahead: 12_000, at_least: true, of: 'pool' }, 'at least 12,000 were before it'],
    [{ ahead: 0, of: 'pool' }, 'none was before it'],
    [{ ahead: 0, at_least: true, of: 'pool' }, 'others may have been before it'],
    [undefined, undefined],
  ])('%o', (line, want) => expect(beforeIt({ execution: 'x', at: at(0), ...(line ? { line } : {}) })).toBe(want))
})

describe('busyOf', () => {
  const part = (name: string, slots: string) => ({ incarnation: '', node: '', name, slots, grades: '', generations: [] })
  it.each<[string, string[], boolean, string | undefined]>([
    ['all are busy', ['bbb'], false, 'pool 3 of 3 busy'],
    ['on two nodes, and a slot without a worker', ['brb-', 'dbx'], false, 'pool 3 of 6 busy'],
    ['none is busy', ['rr'], false, 'pool 0 of 2 busy'],
    ['ready or busy', ['uur'], false, 'pool up to 2 of 3 busy'],
    ['some are busy for sure', ['buur'], false, 'pool 1 to 3 of 4 busy'],
    ['some are not known', ['br??'], true, 'pool 1 of 4 busy, 2 unknown, as far as was recorded'],
    ['none is known', ['??'], true, undefined],
    ['there is no such pool', [], false, undefined],
  ])('%s', (_, slots, partial, want) => expect(busyOf({ pools: [...slots.map((s) => part('py', s)), part('other', 'bbbb')], partial }, 'py')).toBe(want))
})

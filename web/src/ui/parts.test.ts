import { describe, expect, it } from 'vitest'
import type { Timeline } from '../api/types'
import { contents, join, micros, said } from './parts'

const at = (s: number) => `2026-11-25T17:00:${String(s).padStart(2, '0')}Z`
const part = (from: number, to: number, more: Partial<Timeline> = {}): Timeline => ({
  execution: 'x', status: 'requested', whole: { from: at(0), to: at(50) }, window: { from: at(from), to: at(to) }, wait: [], attempts: [], run: [], chain: [],
  worker: [], node: [], session: [], servers: [], gaps: [], ...more,
})
const wait = (from: number, to: number, cause: string) => ({ from: at(from), to: at(to), cause, source: 'journal', evidence: 'pool' })

describe('micros', () => {
  it('keeps what Date drops', () => {
    expect(micros('2026-11-25T17:00:00.123456Z') - micros('2026-11-25T17:00:00Z')).toBe(123_456)
    expect(micros('2026-11-25T17:00:00.5Z') - micros('2026-11-25T17:00:00Z')).toBe(500_000)
    expect(micros('1970-01-01T00:00:01.000001Z')).toBe(1_000_001)
  })
})

describe('join', () => {
  it('leaves one answer as it is', () => {
    const t = part(0, 50, { wait: [wait(0, 20, 'workers_busy')], chain: [{ id: 'x', n: 1, from: at(0), status: 'requested' }], retries: { n: 1 } })
    expect(join([t])).toEqual({ ...t, late_writes: [], missing: [], unlinked: [], lost: [] })
  })

  it('takes the window of an older release for the whole', () => {
    const old = part(0, 50)
    delete old.whole
    expect(join([old])).toMatchObject({ whole: old.window, missing: [] })
  })

  it('says what no answer has', () => {
    expect(join([part(30, 50)]).missing).toEqual([{ from: at(0), to: at(30) }])
    expect(join([part(30, 50), part(10, 20)]).missing).toEqual([{ from: at(0), to: at(10) }, { from: at(20), to: at(30) }])
  })

  it('puts cut intervals together again, and takes the fresher one where two overlap', () => {
    const joined = join([
      part(30, 50, { wait: [wait(30, 40, 'workers_busy'), wait(40, 50, 'not_due')], worker: [{ from: at(30), to: at(50), of: 'w', what: 'ready' }] }),
      part(10, 35, { wait: [wait(10, 20, 'pool_broken'), wait(20, 35, 'workers_busy')], worker: [{ from: at(10), to: at(35), of: 'w', what: 'ready' }] }),
    ])
    expect(joined.wait).toEqual([wait(10, 20, 'pool_broken'), wait(20, 40, 'workers_busy'), wait(40, 50, 'not_due')])
    expect(joined.worker).toEqual([{ from: at(10), to: at(50), of: 'w', what: 'ready' }])
    expect(joined.missing).toEqual([{ from: at(0), to: at(10) }])
  })

  it('has each placement, run and event once', () => {
    const attempt = { attempt: 1, worker: 'w', scheduled_at: at(25), ended_at: at(35) }
    const joined = join([
      part(30, 50, { attempts: [{ ...attempt, ended: 'taken_back' }, { attempt: 2 }], node: [{ from: at(30), of: 'n', what: 'late' }] }),
      part(0, 30, { attempts: [attempt], run: [{ from: at(5), to: at(9), attempt: 0 }], node: [{ from: at(30), of: 'n', what: 'late' }, { from: at(3), of: 'n', what: 'joined' }] }),
    ])
    expect(joined.attempts.map((a) => [a.attempt, a.ended])).toEqual([[1, 'taken_back'], [2, undefined]])
    expect(joined.run).toHaveLength(1)
    expect(joined.node.map((s) => s.what)).toEqual(['joined', 'late'])
  })

  it('counts what its chain lacks', () => {
    const link = (n: number) => ({ id: `e${n}`, n, from: at(n), status: 'failed' as const })
    const t = part(0, 50, { chain: [link(20), link(21)], retries: { n: 30, deleted: 2 } })
    expect(join([t]).unlinked).toEqual([{ from: 3, n: 17 }, { from: 22, n: 9 }])
    const more = join([t], [link(3), link(22), link(21)])
    expect(more.unlinked).toEqual([{ from: 4, n: 16 }, { from: 23, n: 8 }])
    expect(more.chain.map((l) => l.n)).toEqual([3, 20, 21, 22])
  })

  it('adds what a part knows of another worker', () => {
    const state = (of: string, from: number, to: number) => ({ from: at(from), to: at(to), of, what: 'ready' })
    const joined = join([part(0, 50, { worker: [state('w1', 0, 50)], left_out: [{ what: 'workers', n: 1, next: 'from' }] }), part(10, 20, { worker: [state('w1', 10, 20), state('w2', 10, 20)] })])
    expect(joined.worker).toEqual([state('w1', 0, 50), state('w2', 10, 20)])
    expect(joined.lost.map(said)).toEqual(['1 workers that it was placed on'])
  })

  it('says what nothing has', () => {
    const t = part(30, 50, { left_out: [{ what: 'events', n: 3, from: at(0), to: at(30), next: 'from' }, { what: 'transitions', of: 'n/p/1', at_least: true }] })
    expect(join([t]).lost.map(said)).toEqual(['some changes of n/p/1'])
    expect(contents([t], { from: at(0), to: at(30) })).toBe('3 events')
    expect(contents([t], { from: at(30), to: at(40) })).toBe('')
  })
})

it('says how much', () => {
  expect(said({ what: 'events', n: 3100, at_least: true })).toBe('at least 3,100 events')
  expect(said({ what: 'conditions' })).toBe('some conditions of its pool')
})

import { describe, expect, it } from 'vitest'
import type { Timeline } from '../api/types'
import { draw, offset, thin, timeAt, writtenWords, xAt } from './lanes'

const at = (s: number) => new Date(Date.parse('2026-11-25T17:00:00Z') + s * 1000).toISOString()
const empty: Timeline = {
  execution: 'x', status: 'completed', window: { from: at(0), to: at(100) }, wait: [], attempts: [], run: [], chain: [],
  worker: [], node: [], session: [], servers: [], gaps: [],
}

describe('draw', () => {
  it('has no lane without items', () => expect(draw(empty, 0, 1000).lanes).toEqual([]))

  it('places intervals by time', () => {
    const d = draw({ ...empty, wait: [{ from: at(0), to: at(25), cause: 'workers_busy', evidence: 'pool' }],
      run: [{ from: at(25), to: at(75), attempt: 1, outcome: 'failed', code: 'boom' }] }, 0, 1000)
    expect(d.lanes.map((l) => [l.name, ...l.items.map((i) => [i.x, i.w, i.tone])])).toEqual([
      ['wait', [0, 250, 'wait']], ['run', [250, 500, 'bad']]])
    expect(d.lanes[1]!.items[0]!.detail).toBe('run of attempt 1, 50 s: failed (boom)')
  })

  it('folds a long stretch in which nothing happens', () => {
    const d = draw({ ...empty, window: { from: at(0), to: at(10_010) },
      wait: [{ from: at(0), to: at(5), cause: 'being_placed', evidence: '' }, { from: at(5), to: at(10_005), cause: 'not_due', evidence: '' }],
      run: [{ from: at(10_005), to: at(10_010), attempt: 1, outcome: 'completed' }] }, 0, 1000)
    expect(d.folds).toEqual([{ x: 400, w: 200, text: '2 h 47 min' }])
    expect(d.lanes[1]!.items[0]).toMatchObject({ x: 600, w: 400 })
  })

  it('gives a short wait a width beside a long run, which is not folded', () => {
    const d = draw({ ...empty, wait: [{ from: at(0), to: at(0.01), cause: 'being_placed', evidence: '' }],
      run: [{ from: at(0.01), to: at(100), attempt: 1, outcome: 'completed' }] }, 0, 1000)
    expect(d.folds).toEqual([])
    expect(d.lanes.map((l) => l.items[0]!.w)).toEqual([100, 900])
  })

  it('keeps marks apart where parts with other scales meet', () => {
    const d = draw({ ...empty, window: { from: at(0), to: at(110) }, wait: [{ from: at(0), to: at(1), cause: 'being_placed', evidence: '' }, { from: at(1), to: at(10), cause: 'on_queue', evidence: '' }],
      run: [{ from: at(10), to: at(110), attempt: 1, outcome: 'completed' }] }, 0, 1000)
    expect(d.ticks.length).toBeGreaterThan(3)
    for (const [i, t] of d.ticks.entries()) expect(t.x - (d.ticks[i - 1]?.x ?? -90)).toBeGreaterThanOrEqual(45)
  })

  it('links what it draws', () => {
    const d = draw({ ...empty, wait: [{ from: at(0), to: at(20), cause: 'session_order', evidence: '', link: 'id' }],
      attempts: [{ attempt: 1, worker: 'n/py/3', incarnation: 'inc', scheduled_at: at(20) }], worker: [{ from: at(0), to: at(9), of: 'n/py/3', what: 'ready' }],
      node: [{ from: at(1), of: 'n', what: 'late' }, { from: at(1), of: 'other', what: 'late' }],
      session: [{ from: at(0), to: at(9), of: 'py/u/17', what: 'unbound' }], servers: [{ from: at(1), to: at(2), of: 'store', what: 'away' }] }, 0, 1000)
    expect(d.lanes.map((l) => l.items.map((i) => i.href))).toEqual([
      ['executions/id'], ['workers/n/py/3'], ['workers/n/py/3'], ['nodes/inc'], [undefined], ['sessions/py/u%2F17'], [undefined]])
  })

  it('has a lane for each worker and node, which says whose it is', () => {
    const d = draw({ ...empty, worker: [{ from: at(0), to: at(50), of: 'a/py/1', what: 'ready', generation: 7 }, { from: at(40), to: at(90), of: 'b/py/2', what: 'ready', generation: 1 }, { from: at(50), to: at(60), of: 'a/py/1', what: 'busy', generation: 7 }],
      session: [{ from: at(0), to: at(50), of: 'py/u', what: 'bound to a/py/1', epoch: 3 }] }, 0, 1000)
    expect(d.lanes.map((l) => [l.name, ...l.items.map((i) => i.text)])).toEqual([
      ['worker', 'a/py/1 g7 ready', 'busy'], ['worker', 'b/py/2 g1 ready'], ['session', 'epoch 3, bound to a/py/1']])
  })

  it('has a lane for each node that saw a server away', () => {
    const away = (by: string) => ({ from: at(10), to: at(50), of: 'store', what: 'away', by })
    expect(draw({ ...empty, servers: [away('a'), away('b')] }, 0, 1000).lanes.map((l) => l.items.map((i) => i.text))).toEqual([['store away, seen by a'], ['store away, seen by b']])
  })

  it('has what goes on reach as far as the answer', () => {
    const d = draw({ ...empty, attempts: [{ attempt: 1, worker: 'a/py/1', scheduled_at: at(50) }] }, Date.parse(at(99)), 1000)
    expect(d.lanes[0]!.items[0]).toMatchObject({ x: 500, w: 500, open: true })
  })

  it('marks a rejected write', () => {
    const d = draw({ ...empty, late_writes: [{ at: at(50), attempt: 1, reason: 'finish' }] }, 0, 1000)
    expect(d.lanes[0]).toMatchObject({ name: 'placed', items: [{ x: 500, w: 0, detail: 'late finish of attempt 1, rejected' }] })
  })

  it('sums up what was written', () => {
    expect(writtenWords([])).toBeUndefined()
    expect(writtenWords([{ at: 1, kind: 'progress', fraction: 0 }, { at: 2, kind: 'stderr' }, { at: 3, kind: 'stderr' }, { at: 4, kind: 'progress', fraction: 0.6 }]))
      .toEqual({ from: 1, to: 4, what: '2× stderr', record: 'progress 0 to 60 %' })
  })

  it('marks what was not recorded', () => {
    const d = draw({ ...empty, wait: [{ from: at(0), to: at(25), cause: 'unknown', evidence: '' }], gaps: [{ from: at(0), to: at(25), why: 'not kept' }] }, 0, 1000)
    expect(d.lanes.map((l) => l.items[0]!.tone)).toEqual(['unknown', 'unknown'])
  })

  it('draws an event without an end as a point', () => {
    const d = draw({ ...empty, node: [{ from: at(50), of: 'a', what: 'fenced' }] }, 0, 1000)
    expect(d.lanes[0]!.items[0]).toMatchObject({ x: 500, w: 0, tone: 'bad' })
  })

  it('never draws outside of its width', () => {
    const d = draw({ ...empty, worker: [{ from: at(-50), to: at(500), of: 'w', what: 'ready' }] }, 0, 1000)
    expect(d.lanes[0]!.items[0]).toMatchObject({ x: 0, w: 1000 })
  })

  it('marks time from the beginning', () => expect(draw({ ...empty, wait: [] }, 0, 500).ticks.map((t) => t.text)).toEqual(
    ['0', '+30 s', '+1 min', '+1 min 30 s']))
})

describe('a part', () => {
  const t: Timeline = { ...empty, wait: [{ from: at(0), to: at(50), cause: 'not_due', evidence: '' }], run: [{ from: at(50), to: at(100), attempt: 1, outcome: 'completed' }],
    node: [{ from: at(10), of: 'n', what: 'late' }, { from: at(45), of: 'n', what: 'late' }] }
  const part = { from: Date.parse(at(40)), to: Date.parse(at(60)) }
  it('has what reaches into it, on one scale', () => {
    const d = draw(t, 0, 1000, part)
    expect(d.folds).toEqual([])
    expect(d.lanes.map((l) => [l.name, ...l.items.map((i) => [i.x, i.w])])).toEqual([['wait', [0, 500]], ['run', [500, 500]], ['node', [250, 0]]])
  })
  it('has times of the day as marks', () => {
    const marks = draw(t, 0, 500, part, (ms, fine) => `${new Date(ms).toISOString().slice(11, 19)}${fine}`).ticks
    expect(marks[0]).toEqual({ x: 0, text: '17:00:40false' })
    expect(marks.length).toBeGreaterThan(3)
  })
  it('finds a moment by its place, and back', () => {
    const d = draw(t, 0, 1000, part)
    expect(timeAt(d, 250)).toBe(Date.parse(at(45)))
    expect(xAt(d, Date.parse(at(45)))).toBe(250)
    expect(xAt(d, Date.parse(at(30)))).toBeUndefined()
    const folded = draw({ ...t, wait: [{ from: at(0), to: at(90), cause: 'not_due', evidence: '' }], run: [{ from: at(90), to: at(100), attempt: 1 }] }, 0, 1000)
    expect(folded.folds).toHaveLength(1)
    for (const s of [5, 45, 95]) expect(timeAt(folded, xAt(folded, Date.parse(at(s)))!)).toBeCloseTo(Date.parse(at(s)), 0)
  })
})

describe('what else is drawn', () => {
  it('has what the code said by place, and other runs of its worker', () => {
    const d = draw({ ...empty, run: [{ from: at(0), to: at(100), attempt: 1 }],
      output: [{ at: Date.parse(at(10)), kind: 'stderr' }, { at: Date.parse(at(10.1)), kind: 'progress', fraction: 0.4 }, { at: Date.parse(at(60)), kind: 'stdout' }],
      neighbours: [{ execution: 'y', action_ref: 'p.a', status: 'completed', attempt: 1, started_at: at(-5), finished_at: at(2) }] }, 0, 1000)
    const [, output, beside] = d.lanes
    expect(output!.items.map((i) => [i.detail, i.tone])).toEqual([['said here: 1× stderr, 1× progress, 40 %', 'warn'], ['said here: 1× stdout', 'off']])
    expect([beside!.name, beside!.items[0]!.tone, beside!.items[0]!.href]).toEqual(['beside', 'faint', 'executions/y'])
  })
  it('has the times that are not loaded', () => expect(draw({ ...empty, missing: [{ from: at(0), to: at(50) }] }, 0, 1000).lanes.map((l) => l.name)).toEqual(['not loaded']))
  it('draws many narrow parts as one', () => {
    const items = Array.from({ length: 10 }, (_, i) => ({ x: i, w: 0.5, text: 't', detail: 'd', tone: i === 3 ? 'bad' : 'good' }))
    const wide = { x: 20, w: 50, text: 'w', detail: 'w', tone: 'run' }
    expect(thin([...items, wide])).toEqual([{ x: 0, w: 9.5, text: '10', detail: '10 short parts: zoom in to see each', tone: 'bad' }, wide])
    expect(thin(items.slice(0, 3))).toEqual(items.slice(0, 3))
  })
  it('does not widen each of a great many', () => {
    const wait = Array.from({ length: 2000 }, (_, i) => ({ from: at(i / 20), to: at((i + 1) / 20), cause: 'workers_busy', evidence: String(i) }))
    expect(draw({ ...empty, wait }, 0, 1000).lanes[0]!.items).toHaveLength(1)
  })
})

describe('marks that are close to each other, far from the beginning', () => {
  it.each<[number, number, string]>([[5, 5, '5.0 ms'], [840, 20, '840 ms'], [1805, 5, '1.805 s'], [1810, 10, '1.81 s'], [12_500, 500, '12.5 s'], [60_002, 2, '1 min 0.002 s'], [62_000, 1000, '1 min 2 s']])('at %d, %d apart', (at, step, want) => expect(offset(at, step)).toBe(want))
})

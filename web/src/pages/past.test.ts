import { describe, expect, it } from 'vitest'
import { cellsOf, differing, factsOf, fitting, notedAt, notedOf, partOf, played, playFrom, poolsOf, showAt, shownAt, stepped, ticksOf, ticksPath, troubledPool, workersOf, type FleetPool } from './past'

const pool = (more: Partial<FleetPool> = {}): FleetPool => ({ incarnation: 'i1', node: 'a', name: 'py', slots: 'rb-du?x', grades: 'hh-dh?u', generations: [1, 2, 0, 3, 4, 5, 6], ...more })

describe('the fleet of the past', () => {
  it('has a cell for each worker, and none where there was no worker', () => {
    const cells = cellsOf(pool({ cordons: '0100000' }))
    expect(cells.map((c) => `${c.id} ${c.state}${c.trouble ? '!' : ''}`)).toEqual(['a/py/0 ready', 'a/py/1 busy', 'a/py/3 degraded!', 'a/py/4 ready or busy', 'a/py/5 unknown', 'a/py/6 terminated!'])
    expect(cells[1]!.why).toBe('cordoned, generation 2')
    expect(cells[4]!.why).toBe('its grade is unknown, generation 5')
  })
  it('tells what differs from now, as far as it is known', () => {
    expect([...differing(pool(), pool())]).toEqual([])
    expect([...differing(pool(), pool({ slots: 'bb-rbrx' }))]).toEqual(['a/py/0', 'a/py/3'])
    expect([...differing(pool(), pool({ generations: [1, 9, 0, 3, 4, 9, 6] }))]).toEqual(['a/py/1'])
    expect([...differing(pool({ slots: 'x', generations: [3] }), pool({ slots: 'x', generations: [0] }))]).toEqual([])
    expect([...differing(pool({ slots: 'r', generations: [3] }), pool({ slots: 'x', generations: [0] }))]).toEqual(['a/py/0'])
    expect(differing(pool(), undefined).size).toBe(5)
  })
  it('finds the same part of a pool, also after its node started anew', () => {
    const [other, again] = [pool({ name: 'go' }), pool({ incarnation: 'i2' })]
    expect(partOf({ nodes: [], pools: [other, again] }, pool())).toBe(again)
    expect(partOf(undefined, pool())).toBeUndefined()
  })
  it('says what a pool was', () => {
    expect(factsOf(pool({ mode: 'leading', epoch: 3, bound: 1, broken: true, mailbox: 7 }))).toEqual(['broken', 'its router, term 3', '1 bound session', 'fullest mailbox 7'])
    expect([pool(), pool({ slots: 'rr', grades: 'hh' }), pool({ slots: 'r', grades: 'h', broken: true })].map(troubledPool)).toEqual([true, false, true])
  })
})

describe('lists of the past', () => {
  const fleet = { nodes: [], pools: [pool({ cordons: '0100000', runtime: 'python' }), pool({ incarnation: 'i2', node: 'b', slots: 'r', grades: 'h', generations: [0], mode: 'leading', epoch: 2, bound: 3 }), pool({ name: 'go', slots: 'u?', grades: '??', generations: [1, 0], mode: 'alone' })] }
  const workers = workersOf(fleet)
  const ids = (chips: string[]) => {
    const { rows, left } = fitting(workers, [{ key: 'order', value: 'id' }, ...chips.map((c) => ({ key: c.split(':')[0]!, value: c.split(':')[1]! }))])
    return `${rows.map((w) => w.id).join(' ')}${left ? ` and ${left}` : ''}`
  }
  it('have a row for each worker, and do not guess', () => {
    expect(workers.map((w) => `${w.id} ${w.state} ${w.grade} g${w.generation}${w.cordoned ? ' cordoned' : ''}`)).toEqual([
      'a/py/0 ready healthy g1', 'a/py/1 busy healthy g2 cordoned', 'a/py/3 degraded degraded g3', 'a/py/4 ready or busy healthy g4', 'a/py/5 undefined undefined g5', 'a/py/6 terminated unhealthy g6',
      'b/py/0 ready healthy gundefined', 'a/go/0 ready or busy undefined g1', 'a/go/1 undefined undefined gundefined'])
  })
  it.each<[string[], string]>([
    [['pool:go'], 'a/go/0 a/go/1'],
    [['not.pool:py'], 'a/go/0 a/go/1'],
    [['node:b'], 'b/py/0'],
    [['node:i2'], 'b/py/0'],
    [['not.node:a'], 'b/py/0'],
    [['state:busy'], 'a/py/1 a/py/4 a/go/0 and 2'],
    [['state:ready', 'node:a'], 'a/py/0 a/py/4 a/go/0 and 2'],
    [['not.state:ready', 'pool:py'], 'a/py/1 a/py/3 a/py/4 a/py/5 a/py/6'],
    [['not.state:ready', 'not.state:busy', 'pool:py'], 'a/py/3 a/py/5 a/py/6'],
  ])('have the filter %j', (chips, want) => expect(ids(chips)).toBe(want))
  it('have those in trouble first', () => expect(fitting(workers, []).rows.slice(0, 4).map((w) => w.id)).toEqual(['a/py/1', 'a/py/3', 'a/py/6', 'a/py/0']))
  it('have the pools on all nodes', () => {
    const [go, py] = poolsOf(fleet)
    expect(go).toMatchObject({ name: 'go', router: 'own', bound: 0, parts: [['ready or busy', 1, 'good'], ['unknown', 1, 'off']] })
    expect(py).toMatchObject({ name: 'py', runtime: 'python', router: 'b', bound: 3, broken: false })
    expect(py!.parts.map(([word, n]) => `${n} ${word}`).join(', ')).toBe('1 busy, 1 ready or busy, 2 ready, 1 degraded, 1 terminated, 1 unknown')
    expect(poolsOf({ nodes: [], pools: [pool()] })[0]).toMatchObject({ router: undefined, bound: undefined })
  })
})

describe('what nodes noted of pools', () => {
  const at = Date.parse('2026-03-01T03:12:30Z')
  const node = (incarnation: string, keyframe_at?: string) => ({ incarnation, name: incarnation, state: 'active', ...(keyframe_at ? { keyframe_at } : {}) })
  const fleet = {
    nodes: [node('i1', '2026-03-01T03:08:00Z'), node('i2', '2026-03-01T03:11:00Z'), node('i3', '2026-03-01T02:40:00Z')],
    pools: [pool(), pool({ incarnation: 'i2' }), pool({ incarnation: 'i2', name: 'go' }), pool({ incarnation: 'i3', name: 'shell' })],
  }
  const series = { from: '2026-03-01T03:05:00Z', until: '2026-03-01T03:12:30Z', step_seconds: 300, series: [{ key: 'py', n: [7, 31] }, { key: 'shell', n: [1, 1] }] }
  const of = (s: Parameters<typeof notedOf>[0]) => ['py', 'go', 'shell'].map(notedOf(s, fleet, at))
  it('is that of the last point, of the pools whose nodes all noted something', () => expect(of(series)).toEqual([31, 0, undefined]))
  it.each<[string, Parameters<typeof notedOf>[0]]>([
    ['no answer is there', undefined],
    ['nothing was noted for the last point', { ...series, unknown: [1] }],
    ['nothing is known', { ...series, until: series.from }],
  ])('is unknown where %s', (_, s) => expect(of(s)).toEqual([undefined, undefined, undefined]))
  it('is unknown of pools that are summed with others', () => expect(of({ ...series, series: [...series.series, { key: '(other)', n: [0, 9] }] })).toEqual([31, undefined, undefined]))
  it('has its times', () => {
    expect(notedAt(fleet, at)).toEqual(['2026-03-01T03:08:00Z', '2026-03-01T03:11:00Z'])
    expect(notedAt({ nodes: [node('i3', '2026-03-01T02:40:00Z'), node('i4')], pools: [] }, at)).toBeUndefined()
  })
})

describe('a time line', () => {
  it('has a tick for the events of one place', () => {
    const events = [{ at: 5000, text: 'b' }, { at: 0, text: 'a' }, { at: 5001, text: 'c' }, { at: 11_000, text: 'late' }]
    expect(ticksOf(events, 0, 10_000)).toEqual([{ at: 0, x: 0, text: 'a', n: 1 }, { at: 5000, x: 500, text: 'b', n: 2 }])
    expect(ticksOf(events, 10, 10)).toEqual([])
  })
  it('is walked by its events', () => {
    expect([stepped([1000, 5000, 5400], 5000, true), stepped([1000, 5000], 5000, false), stepped([1000], 1000, true)]).toEqual([undefined, 1000, undefined])
    expect(stepped([9000, 7000], 5000, true)).toBe(7000)
  })
  it('is played to its end', () => {
    expect([played(0, 60, 100_000), played(50_000, 60, 100_000)]).toEqual([60_000, undefined])
  })
  it('is played from where it stands, and from its beginning where that is its end', () => {
    const [live, fixed] = [true, false].map((live) => ({ from: 0, to: 100_000, live }))
    expect([playFrom(undefined, live!), playFrom(50_000, live!), playFrom(100_000, live!)]).toEqual([0, 50_000, 100_000])
    expect([playFrom(undefined, fixed!), playFrom(50_000, fixed!), playFrom(100_000, fixed!)]).toEqual([0, 50_000, 0])
  })
})

it('asks for the events of its range, without what is wrong', () => {
  const path = (text: string) => ticksPath(new URLSearchParams(text), '-1h')
  expect(path('')).toBe('api/v1/journal?from=-1h&limit=200')
  expect(path('from=-6h&at=2030-01-31T05:00:00Z')).toBe('api/v1/journal?from=-6h&limit=200')
  expect(path('from=-6h&to=2030-01-31T08:00:00Z')).toBe('api/v1/journal?from=2030-01-31T02:00:00Z&to=2030-01-31T08:00:00Z&limit=200')
  expect(path('from=yesterday&to=noon')).toBe('api/v1/journal?from=-1h&limit=200')
})

describe('the time that the tree shows', () => {
  const now = Date.parse('2030-01-31T08:00:00Z')
  const before = 'from=2030-01-31T05:00:00Z&to=2030-01-31T06:00:00Z', ahead = 'to=2030-01-31T09:00:00Z'
  it('is the address\'s own, or the end of a range that is past', () => {
    const shown = (text: string) => { const at = shownAt(new URLSearchParams(text), now); return at && new Date(at).toISOString().slice(11, 16) }
    expect(['', 'from=-1h', ahead, 'at=yesterday', before, `at=2030-01-31T05:30:00Z&${before}`, `at=yesterday&${before}`, 'at=2030-01-31T05:30:00Z'].map(shown))
      .toEqual([undefined, undefined, undefined, undefined, '06:00', '05:30', '06:00', '05:30'])
  })
  it('is changed in the address, without what is usual', () => {
    const changed = (text: string, at?: string) => {
      const query = new URLSearchParams(text)
      showAt(query, at === undefined ? undefined : Date.parse(at), now)
      return query.toString().replaceAll('%3A', ':')
    }
    expect(changed('from=-6h', '2030-01-31T05:30:00Z')).toBe('from=-6h&at=2030-01-31T05:30:00Z')
    expect(changed(before, '2030-01-31T05:30:00Z')).toBe(`${before}&at=2030-01-31T05:30:00Z`)
    expect(changed(`${before}&at=2030-01-31T05:30:00Z`, '2030-01-31T06:00:00Z')).toBe(before)
    expect(changed('from=-6h&at=2030-01-31T05:30:00Z')).toBe('from=-6h')
    expect(changed(`${ahead}&at=2030-01-31T05:30:00Z`)).toBe(ahead)
    expect(changed(`${before}&at=2030-01-31T05:30:00Z&actor=i`)).toBe('actor=i')
  })
})

import { describe, expect, it } from 'vitest'
import type { Node, Sights } from '../api/types'
import { linesOf, newsOf, staleOf } from './nodes'

const node = (more: Partial<Node>): Node => ({ incarnation: 'i', name: 'a', version: '1', state: 'active', cordoned: false, started_at: '', beat_at: '', reach: 'reached', ...more })

describe('what is known of a node', () => {
  for (const [name, more, want] of [
    ['answers', {}, undefined],
    ['is this one', { reach: 'self' }, undefined],
    ['has ended', { state: 'dead', reach: undefined }, 'it has ended'],
    ['is lost', { reach: 'lost', why: 'no answer for 9 s' }, 'no answer for 9 s'],
    ['is on the other side', { reach: 'partitioned' }, 'partitioned'],
    ['is late', { store_seen: false }, 'it does not renew its lease'],
  ] as const) it(name, () => expect(staleOf(node(more as Partial<Node>))).toBe(want))
})

describe('who reaches whom', () => {
  const sees = (node: string, others: Record<string, string>): Sights =>
    ({ node, incarnation: `i-${node}`, others: Object.entries(others).map(([name, reach]) => ({ node: name, incarnation: `i-${name}`, reach })) })
  const all = [sees('a', { b: 'reached', c: 'partitioned' }), sees('b', { a: 'reached', c: 'reached' }), sees('c', {})]
  const text = (of?: string) => linesOf(all, of).map((l) => `${l.from.node}${l.to.node} ${l.to.reach}`)
  it('has what is not reached first', () => expect(text()).toEqual(['ac partitioned', 'ab reached', 'ba reached', 'bc reached']))
  it('is of one node, at either end', () => expect(text('i-c')).toEqual(['ac partitioned', 'bc reached']))
  it('is empty for one node', () => expect(linesOf([sees('a', {})])).toEqual([]))
})

describe('the nodes of a first view', () => {
  const now = Date.parse('2030-01-31T12:00:00Z'), hour = { from: now - 3_600_000, to: now }
  for (const [name, more, span, want] of [
    ['one that lives', {}, hour, true],
    ['one that drains', { state: 'draining' }, hour, true],
    ['one that is late', { store_seen: false }, hour, true],
    ['one that is out of reach', { reach: 'lost' }, hour, true],
    ['one that was lost within the range', { state: 'dead', ended: 'lease', beat_at: '2030-01-31T11:10:00Z' }, hour, true],
    ['one of which is not known how it ended', { state: 'dead', beat_at: '2030-01-31T11:10:00Z' }, hour, true],
    ['not one that stopped in order', { state: 'dead', ended: 'stopped', beat_at: '2030-01-31T11:59:00Z' }, hour, false],
    ['not one that was lost before the range', { state: 'dead', ended: 'lease', beat_at: '2030-01-31T10:59:00Z' }, hour, false],
    ['one that was lost a short time ago, with a shorter range', { state: 'dead', ended: 'replaced', beat_at: '2030-01-31T11:50:00Z' }, { from: now - 60_000, to: now }, true],
    ['one that was lost a short time ago, with a range that is past', { state: 'dead', ended: 'replaced', beat_at: '2030-01-31T11:50:00Z' }, { from: now - 7_200_000, to: now - 3_600_000 }, true],
    ['not one that was lost behind the range', { state: 'dead', ended: 'lease', beat_at: '2030-01-31T11:30:00Z' }, { from: now - 7_200_000, to: now - 3_600_000 }, false],
  ] as const) it(`have ${name}`, () => {
    const all = [node(more as Partial<Node>)]
    expect(newsOf(all, span, now)).toEqual(want ? { shown: all, left: 0 } : { shown: [], left: 1 })
  })
})

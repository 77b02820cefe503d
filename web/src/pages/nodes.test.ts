import { describe, expect, it } from 'vitest'
import type { Node, Sights } from '../api/types'
import { linesOf, staleOf } from './nodes'

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

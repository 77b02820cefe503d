import { describe, expect, it } from 'vitest'
import type { Node } from '../api/types'
import { staleOf } from './nodes'

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

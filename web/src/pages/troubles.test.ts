import { describe, expect, it } from 'vitest'
import type { Node, Pool } from '../api/types'
import { troubles } from './troubles'

const pool = (more: Partial<Pool>): Pool => ({
  name: 'go', runtime: 'go', nodes: 1, workers: 2, ready: 2, busy: 0, degraded: 0, starting: 0, broken: false, cordoned: false,
  waiting: 0, placed: 0, running: 0, restarts: 0, routing: { mode: 'alone' }, ...more,
})
const node = (more: Partial<Node>): Node => ({
  incarnation: 'i', name: 'a', version: 'dev', state: 'active', cordoned: false, started_at: '', beat_at: '', ...more,
})
const texts = (pools: Pool[], nodes: Node[] = []) => troubles(pools, nodes, [], { ready: true }).map((t) => t.text)

describe('troubles', () => {
  for (const [name, pools, nodes, want] of [
    ['all is well', [pool({})], [node({})], []],
    ['broken', [pool({ broken: true, ready: 0, reason: 'exit 1' })], [], ['Pool go is broken']],
    ['nobody takes work', [pool({ ready: 0, degraded: 2 })], [], ['No worker of pool go takes work']],
    ['all are busy', [pool({ ready: 0, busy: 2 })], [], []],
    ['a pool without workers here', [pool({ workers: 0, ready: 0 })], [], []],
    ['stale', [pool({ stale: 1 })], [], ['1 worker of pool go without a fresh heartbeat']],
    ['cordoned', [pool({ cordoned: true })], [node({ cordoned: true })], ['Pool go is cordoned', 'Node a is cordoned']],
    ['no lease', [], [node({ store_seen: false })], ['Node a does not renew its lease']],
    ['dead nodes are history', [], [node({ state: 'dead', cordoned: true })], []],
  ] as const) {
    it(name, () => expect(texts([...pools], [...nodes])).toEqual(want))
  }
  it('says what this node waits for', () =>
    expect(troubles([], [], [], { ready: false, waits_for: ['the store'] })[0]!.why).toBe('it waits for the store'))
})

import { describe, expect, it } from 'vitest'
import type { Node, Overview, Pool } from '../api/types'
import { lost, shortOf, troubles, verdict } from './troubles'

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
    ['the broker is away', [pool({ halted: 'broker_away', reason: 'x' }), pool({ name: 'direct' })], [], ['Pool go']],
    ['no lease', [], [node({ store_seen: false })], ['Node a does not renew its lease']],
    ['dead nodes are history', [], [node({ state: 'dead', cordoned: true })], []],
  ] as const) {
    it(name, () => expect(texts([...pools], [...nodes])).toEqual(want))
  }
  it('says since when this node waits, and what to do', () =>
    expect(troubles([], [], [], { ready: false, waits_for: ['broker: x'], waits: [{ for: 'broker: x', since: 's', what_to_do: 'd' }] })).toEqual(
      [{ text: 'This node is not ready', why: 'it waits for broker: x', href: 'settings', since: 's', todo: 'd' }]))
  it('says once that a server is away', () =>
    expect(troubles([pool({ halted: 'broker_away', reason: 'x' })], [], [], { ready: false, waits: [{ for: 'broker: x' }] }).map((t) => t.text)).toEqual(['This node is not ready']))
  it('says that a pool is without its broker where this node waits for something else', () =>
    expect(troubles([pool({ halted: 'broker_away', reason: 'x' })], [], [], { ready: false, waits: [{ for: 'pool py is starting' }] }).map((t) => t.why)).toContain('x'))
  it('says what this node waits for', () =>
    expect(troubles([], [], [], { ready: false, waits: [{ for: 'the store' }] })[0]!.why).toBe('it waits for the store'))
})

describe('in short', () => {
  const said = (at: string) => `at ${at}`
  const found = { at: 'now', since: 'noon', findings: [], not_evaluated: [] }
  const part = { ...found, judged_in_part: ['dlq_rate', 'store_slow'] }
  const note = 'This node judges since at noon. 2 rules look further back'
  for (const [name, things, findings, want] of [
    ['nothing', 0, found, { text: 'Nothing is wrong', sure: true, note: '' }],
    ['nothing that this node has seen', 0, part, { text: 'Nothing is wrong since at noon', sure: false, note }],
    ['nothing is judged yet', 0, { findings: [], not_evaluated: [] }, { text: 'Not judged yet', sure: false, note: 'This node has not judged the rules of the alerts yet.' }],
    ['one, and perhaps more', 1, part, { text: '1 thing to look at', sure: false, note }],
  ] as const) {
    it(name, () => expect(shortOf(things, findings as never, said)).toEqual(want))
  }
})

describe('verdict', () => {
  const finding = { name: 'pool_broken', severity: 'critical', kind: 'pool', subject: 'go', since: 's', value: 1, message: 'Pool go: it fails', means: 'm', what_to_do: 'd', link: 'l' } as const
  const overview = (more: Partial<Overview>): Overview => ({
    at: '', readiness: { ready: true }, findings: { findings: [], not_evaluated: [] }, totals: { workers: 0, busy: 0, waiting: 0, placed: 0, running: 0 }, pools: [], nodes: [], ...more })
  it('has the reason of the pool, and does not say the same twice', () => {
    const v = verdict(overview({
      findings: { findings: [finding], not_evaluated: [] }, pools: [pool({ broken: true, ready: 0, reason: 'exit 1' }), pool({ name: 'shell', cordoned: true })],
      readiness: { ready: false, notes: ['pool go is broken: exit 1', 'something else'] },
    }))
    expect(v.found).toEqual([{ severity: 'critical', text: 'Pool go: it fails', why: 'exit 1', href: 'workers?pool=go', since: 's', means: 'm', todo: 'd', link: 'l' }])
    expect(v.also.map((t) => t.text + t.why)).toEqual(['Pool shell is cordonedit gets no new work', 'Notesomething else'])
  })
  for (const [name, kind, subject, href] of [
    ['store_away', 'node', 'a', 'nodes'], ['dlq_rate', 'cluster', undefined, 'dead-letters'], ['node_lost', 'cluster', undefined, 'history?kinds=node'],
    ['retry_rate', 'pool', 'go', 'errors?pool=go'], ['outbox_behind', 'cluster', undefined, 'history'],
  ] as const) {
    it(`${name} leads to ${href}`, () =>
      expect(verdict(overview({ findings: { findings: [{ ...finding, name, kind, ...(subject ? { subject } : {}) }], not_evaluated: [] } })).found[0]!.href).toBe(href))
  }
  it('says what was lost', () => {
    const counts = { from: '', to: '', rates: { submitted: 0, ended: 0, failed: 0, wait_p95_ms: 0, run_p95_ms: 0 }, range: { from: '', to: '', before: '' }, failures: [], slower: [],
      outcomes: { from: '', step_seconds: 60, until: '', series: [{ key: 'completed', n: [7] }, { key: 'abandoned', n: [1, 2] }, { key: 'failed', n: [0] }] } }
    expect(lost(counts)).toEqual([{ status: 'abandoned', n: 3 }])
    expect(lost(undefined)).toEqual([])
  })
})

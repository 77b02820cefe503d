import { describe, expect, it } from 'vitest'
import type { JournalEntry } from '../api/types'
import { ends, pageOf, subjectOf, text, whatCheck } from './journal'

const entry = (more: Partial<JournalEntry>): JournalEntry => ({ at: '', incarnation: 'i', number: 1, kind: 'pool', subject: 'go', what: 'condition', ...more })

describe('text', () => {
  for (const [e, want] of [
    [entry({ reason: 'ready' }), 'ready'],
    [entry({ reason: 'ready', detail: { shares: { workers_starting: 0.028, ready: 0.972 } } }), 'ready · ready 97 %, workers_starting 3 %'],
    [entry({ reason: 'workers_starting', detail: { shares: { workers_starting: 1 } } }), 'workers_starting'],
    [entry({ reason: 'ready', detail: { shares: { ready: 0.999, workers_starting: 0.001, workers_busy: 0.004 } } }), 'ready · ready >99 %, workers_busy <1 %, workers_starting <1 %'],
    [entry({ reason: 'ready', detail: { shares: { ready: 0.995, workers_busy: 0.005 } } }), 'ready · ready >99 %, workers_busy 1 %'],
    [entry({ kind: 'session', what: 'bound', detail: { epoch: 2, worker: 'a/go/0', slot: 0, lost: true } }), 'bound · epoch 2 · a/go/0 · away from its state'],
    [entry({ kind: 'session', what: 'unbound', reason: 'worker_gone', detail: { epoch: 1, slot: 0 } }), 'unbound: worker_gone · epoch 1'],
    [entry({ kind: 'router', what: 'taken', detail: { epoch: 3, node: 'c' } }), 'router taken · by node c · epoch 3'],
    [entry({ kind: 'node', what: 'joined', detail: { name: 'c', version: '1.4.2' } }), 'joined · version 1.4.2'],
    [entry({ kind: 'worker', what: 'start_failed', reason: 'error: no file', detail: { starts: 1 } }), 'start_failed: error: no file'],
    [entry({ kind: 'worker', what: 'start_failed', reason: 'error: no module', detail: { starts: 17 } }), 'start_failed: error: no module · ×17'],
    [entry({ kind: 'operator', what: 'cordon', caller: 'ana' }), 'cordon · by ana'],
    [entry({ kind: 'worker', what: 'degraded', reason: 'health_check_failed: health_check_timeout', detail: { from: 'ready', to: 'degraded' } }), 'degraded: health_check_failed: health_check_timeout'],
    [entry({ kind: 'node', what: 'dead', reason: 'lease', detail: { name: 'c' } }), 'dead: its lease ran out'],
    [entry({ kind: 'node', what: 'dead', reason: 'of a later release' }), 'dead: of a later release'],
    [entry({ kind: 'node', what: 'fenced', reason: 'lease lost' }), 'fenced: lease lost'],
  ] as const) {
    it(want, () => expect(text(e)).toBe(want))
  }
})

describe('what an entry is about', () => {
  for (const [e, want] of [
    [entry({ kind: 'node', subject: 'inc-a' }), 'nodes/inc-a'],
    [entry({ kind: 'pool', subject: 'my.pool' }), 'pools/my.pool'],
    [entry({ kind: 'router', subject: 'go' }), 'pools/go'],
    [entry({ kind: 'session', subject: 'go/u-1/x' }), 'sessions/go/u-1%2Fx'],
    [entry({ kind: 'operator', subject: 'a/go/3' }), 'workers/a/go/3'],
    [entry({ kind: 'worker', subject: 'a/go/3' }), 'workers/a/go/3'],
    [entry({ kind: 'mark', subject: 'deploy', at: '2030-01-31T08:05:00Z' }), 'changes/2030-01-31T08%3A05%3A00Z'],
    [entry({ kind: 'server', subject: 'store' }), undefined],
    [entry({ kind: 'operator', subject: 'packs' }), undefined],
    [entry({ kind: 'operator', subject: '01a21a9e-1c27-7375-9711-8a90fa6b4e71' }), 'executions/01a21a9e-1c27-7375-9711-8a90fa6b4e71'],
    [entry({ kind: 'operator', subject: 'operation 01a21a9e-1c27-7375-9711-8a90fa6b4e71' }), 'operations/01a21a9e-1c27-7375-9711-8a90fa6b4e71'],
  ] as const) {
    it(`${e.kind} ${e.subject}`, () => expect(pageOf(e)).toBe(want))
  }
})

it('takes words of what happened', () => {
  expect(whatCheck('bulk_retry')).toBeUndefined()
  expect(whatCheck('Dead!')).toBe('want a word of the journal, as dead or reload')
})

it('has a node by its name, where that is known', () => {
  const nodes = [{ incarnation: '01a21a9e-1c27-7375-9711-8a90fa6b4e71', name: 'c' }]
  expect(subjectOf({ kind: 'node', subject: nodes[0]!.incarnation }, nodes)).toBe('c')
  expect(subjectOf({ kind: 'node', subject: nodes[0]!.incarnation }, [])).toBe('01a21a9e…6b4e71')
  expect(subjectOf({ kind: 'pool', subject: 'c' }, nodes)).toBe('c')
  expect(subjectOf(entry({ kind: 'node', subject: nodes[0]!.incarnation, detail: { name: 'of the entry' } }), [])).toBe('of the entry')
})

const [fleet] = Object.values(import.meta.glob<string>('../../../store/fleet.go', { query: '?raw', import: 'default', eager: true }))
it('says of a node that ended what the list of nodes says', () => {
  const words = new Map([...fleet!.matchAll(/(\w+) +NodeEnd = "(\w+)"/g)].map((m) => [m[1], m[2]!]))
  const sentences = [...fleet!.matchAll(/case (End\w+):\n\t\treturn "(.+)"/g)].map((m) => [words.get(m[1]!), m[2]])
  expect(sentences).toHaveLength(4)
  expect(Object.fromEntries(sentences)).toEqual(ends)
})

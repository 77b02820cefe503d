import { describe, expect, it } from 'vitest'
import type { JournalEntry } from '../api/types'
import { text } from './journal'

const entry = (more: Partial<JournalEntry>): JournalEntry => ({ at: '', incarnation: 'i', number: 1, kind: 'pool', subject: 'go', what: 'condition', ...more })

describe('text', () => {
  for (const [e, want] of [
    [entry({ reason: 'ready' }), 'ready'],
    [entry({ reason: 'ready', detail: { shares: { workers_starting: 0.028, ready: 0.972 } } }), 'ready · ready 97 %, workers_starting 3 %'],
    [entry({ kind: 'session', what: 'bound', detail: { worker: 'a/go/0' } }), 'bound · a/go/0'],
    [entry({ kind: 'operator', what: 'cordon', caller: 'ana' }), 'cordon · by ana'],
    [entry({ kind: 'node', what: 'fenced', reason: 'lease lost' }), 'fenced: lease lost'],
  ] as const) {
    it(want, () => expect(text(e)).toBe(want))
  }
})

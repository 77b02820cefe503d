// What changed around a time, and the lists behind the figures of its ledger.
import type { JournalEntry, Ledger } from '../api/types'
import { stamp } from '../state/range'
import { withQuery } from '../state/route'

/** How long before and behind a change its ledger looks, in milliseconds. */
export const around = 5 * 60_000

/** The ledger of a change. */
export function ledgerOf(e: JournalEntry): string {
  const at = Date.parse(e.at)
  return withQuery('changes', new URLSearchParams({ from: stamp(at - around), to: stamp(at + around) }))
}

/** The list of the ledger's executions with a status. */
export function listOf(l: Ledger, status: string): string {
  return withQuery('executions', new URLSearchParams({ status, from: l.from, to: l.to }))
}

/** The verdict, in a sentence. */
export function verdict(l: Ledger): string {
  const open = l.open.reduce((sum, s) => sum + s.n, 0)
  if (!l.adds_up) return `It does not add up: ${l.missing.toLocaleString('en')} executions that a node has stored are missing.`
  if (l.accepted === 0) return 'It adds up: nothing was requested.'
  return `It adds up: of ${l.accepted.toLocaleString('en')} accepted, ${(l.accepted - open).toLocaleString('en')} have ended, ${open === 1 ? '1 is' : `${open.toLocaleString('en')} are`} open, and none is missing.`
}

// What changed around a time, and the lists behind the figures of its ledger.
import type { ErrorGroup, JournalEntry, Ledger, Series } from '../api/types'
import type { Column } from '../state/columns'
import { withQuery } from '../state/route'

export const columns: readonly Column[] = [
  { name: 'at', label: 'At', fixed: true },
  { name: 'kind', label: 'Kind' },
  { name: 'of', label: 'Of' },
  { name: 'what', label: 'What', fixed: true },
  { name: 'ledger', label: 'Ledger', fixed: true },
]

/** How long before and after a change its ledger looks, in milliseconds. */
export const around = 5 * 60_000

/** The minutes beside a change: where the one before it ends, and where the one after it begins. Counts are by minute, and that of the
 *  change itself is of both. */
export const minutes = (time: number): [end: number, start: number] => [Math.floor(time / 60_000) * 60_000, Math.ceil(time / 60_000) * 60_000]

/** The entries of the journal that are changes: marks, what became of nodes, and reloads of their configuration. */
export const changeQuery = { kinds: 'mark,node,operator', what: 'mark,reload,joined,draining,stopped,late,on_time,fenced,dead' } as const

/** The page of a change. */
export const pageOf = (e: JournalEntry): string => `changes/${encodeURIComponent(e.at)}`

/** The list of the ledger's executions with a status. */
export function listOf(l: Ledger, status: string): string {
  return withQuery('executions', new URLSearchParams({ status, from: l.from, to: l.to }))
}

/** The list of the ledger's executions that something befell. */
export function befell(l: Ledger, was: string): string {
  return withQuery('executions', new URLSearchParams({ was, from: l.from, to: l.to }))
}

/** How many were deleted by retention, with what limits the number. */
export function purged(l: Ledger): string {
  if (l.purged_from) return l.purged ? `≥ ${l.purged.toLocaleString('en')}` : 'unknown'
  return `${l.purging ? '≈ ' : ''}${l.purged.toLocaleString('en')}`
}

/** How often the state of a session was restored or lost, by the journal. */
export const times = (count: Ledger['sessions_lost']): string => `${count.at_least ? '≥ ' : ''}${count.n.toLocaleString('en')}`

/** What the journal has of sessions in the ledger's time. */
export function sessionsOf(l: Ledger, what?: string): string {
  return withQuery('history', new URLSearchParams({ kinds: 'session', ...(what && { what }), from: l.from, to: l.to }))
}

/** The verdict, in a sentence. */
export function verdict(l: Ledger): string {
  const open = l.open.reduce((sum, s) => sum + s.n, 0)
  const missing = l.missing === 1 ? '1 execution that a node has stored is missing' : `${l.missing.toLocaleString('en')} executions that a node has stored are missing`
  if (!l.adds_up && l.purged_from) return `It does not add up: ${missing}, or ${l.missing === 1 ? 'was' : 'were'} deleted by retention, of which not all is known.`
  if (!l.adds_up) return `It does not add up: ${missing}.`
  if (l.rest && l.from === l.to) return 'Not compared: there is more than is counted at once.'
  const part = l.rest ? ' as far as it was compared' : ''
  if (l.accepted === 0) return `It adds up${part}: nothing was requested.`
  return `It adds up${part}: of ${l.accepted.toLocaleString('en')} accepted, ${l.accepted - open === 1 ? '1 has' : `${(l.accepted - open).toLocaleString('en')} have`} ended${l.purged ? `, of them ${purged(l)} deleted by retention` : ''}, ${open === 1 ? '1 is' : `${open.toLocaleString('en')} are`} open, and none is missing.`
}

/** Whether what was compared adds up; undefined where nothing was. */
export const fine = (l: Ledger): boolean | undefined => (l.adds_up && l.rest && l.from === l.to ? undefined : l.adds_up)

export interface Broke { key: string; action: string; code: string; message: string; n: number; before: number }

const causeOf = (g: ErrorGroup) => [g.action_ref, g.code, g.type, g.message].join('\n')

/** What fails after a change, what did not fail before it first. */
export function broke(before: readonly ErrorGroup[], behind: readonly ErrorGroup[]): Broke[] {
  const known = new Map(before.map((g) => [causeOf(g), g.n]))
  return behind.map((g) => ({ key: causeOf(g), action: g.action_ref ?? '', code: g.code ?? '', message: g.message ?? g.example, n: g.n, before: known.get(causeOf(g)) ?? 0 }))
    .sort((a, b) => Number(a.before > 0) - Number(b.before > 0) || b.n - a.n)
}

export interface Slower { action: string; before: number; behind: number }

/** The longest p95 of each action's minutes before and after a change, what grew most first. */
export function slower(before: Series, behind: Series): Slower[] {
  const top = (s: Series) => new Map(s.series.map((l) => [l.key, Math.max(0, ...(l.p95 ?? []))]))
  const [a, b] = [top(before), top(behind)]
  const grown = (s: Slower) => (s.before > 0 ? s.behind / s.before : 0)
  return [...new Set([...a.keys(), ...b.keys()])].map((action) => ({ action, before: a.get(action) ?? 0, behind: b.get(action) ?? 0 }))
    .sort((x, y) => grown(y) - grown(x) || x.action.localeCompare(y.action))
}

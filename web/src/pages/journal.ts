// An entry of the journal in a few words, and what it is about.
import type { JournalEntry } from '../api/types'
import { to } from '../state/route'
import { short, visible } from '../ui/text'

/** The page of what an entry is about; undefined: it has none. */
export function pageOf(e: JournalEntry): string | undefined {
  const parts = e.subject.split('/')
  if (e.kind === 'node') return to('nodes', e.subject)
  if (e.kind === 'pool' || e.kind === 'router') return to('pools', e.subject)
  if (e.kind === 'session' && parts.length > 1) return to('sessions', parts[0]!, parts.slice(1).join('/'))
  if (e.kind === 'worker' && parts.length === 3) return to('workers', ...parts)
  if (e.kind === 'mark') return to('changes', e.at)
  if (e.kind === 'operator' && /^[^/]+\/[^/]+\/\d+$/.test(e.subject)) return to('workers', ...parts)
  return undefined
}

/** Why a word is none of what happened; undefined: it may be. */
export const whatCheck = (v: string): string | undefined => (/^[a-z_]{1,64}$/.test(v) ? undefined : 'want a word of the journal, as dead or reload')

export function text(e: JournalEntry): string {
  const parts = [e.what === 'condition' ? (e.reason ?? '') : `${e.what}${e.reason ? `: ${e.reason}` : ''}`]
  const shares = e.detail?.shares as Record<string, number> | undefined
  // All of it for the one reason says no more than the reason.
  if (shares && !(Object.keys(shares).length === 1 && e.reason && e.reason in shares)) parts.push(Object.entries(shares).sort((a, b) => b[1] - a[1]).map(([name, part]) => `${name} ${Math.round(part * 100)} %`).join(', '))
  if (typeof e.detail?.worker === 'string') parts.push(e.detail.worker)
  if (e.caller) parts.push(`by ${e.caller}`)
  return parts.filter(Boolean).join(' · ')
}

/** What an entry is of, in words: a node by its name, where that is known. */
export const subjectOf = (e: Pick<JournalEntry, 'kind' | 'subject'>, nodes: readonly { incarnation: string; name: string }[]): string =>
  e.kind === 'node' ? nodes.find((n) => n.incarnation === e.subject)?.name ?? short(e.subject) : visible(e.subject)

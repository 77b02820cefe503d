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
  if (e.kind === 'operator' && uuid.test(e.subject)) return to('executions', e.subject)
  if (e.kind === 'operator' && e.subject.startsWith('operation ')) return to('operations', e.subject.slice('operation '.length))
  return undefined
}

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

/** A share of a time. What is little is not said to be nothing, and nearly all not to be all. */
export const shareOf = (part: number): string => (part > 0 && part < 0.005 ? '<1 %' : part < 1 && part >= 0.995 ? '>99 %' : `${Math.round(part * 100)} %`)

/** Why a word is none of what happened; undefined: it may be. */
export const whatCheck = (v: string): string | undefined => (/^[a-z_]{1,64}$/.test(v) ? undefined : 'want a word of the journal, as dead or reload')

/** How a node ended, in the words that the list of nodes has. */
export const ends: Readonly<Record<string, string>> = {
  stopped: 'it stopped in order',
  lease: 'its lease ran out',
  refused: 'its process ended: the store had lost its connection, and its address for peers refused others',
  replaced: 'its process ended: the store had lost its connection, and a later node has its address for peers',
}

export function text(e: JournalEntry): string {
  const reason = e.kind === 'node' && e.what === 'dead' ? ends[e.reason ?? ''] ?? e.reason : e.reason
  const parts = [e.what === 'condition' ? (e.reason ?? '') : `${e.kind === 'router' ? 'router ' : ''}${e.what}${reason ? `: ${reason}` : ''}`]
  const detail = (name: string) => { const v = e.detail?.[name]; return typeof v === 'string' || typeof v === 'number' ? v : undefined }
  const shares = e.detail?.shares as Record<string, number> | undefined
  // All of it for the one reason says no more than the reason.
  if (shares && !(Object.keys(shares).length === 1 && e.reason && e.reason in shares)) parts.push(Object.entries(shares).sort((a, b) => b[1] - a[1]).map(([name, part]) => `${name} ${shareOf(part)}`).join(', '))
  if (e.kind === 'router' && detail('node')) parts.push(`by node ${detail('node')}`)
  if ((e.kind === 'router' || e.kind === 'session') && detail('epoch')) parts.push(`epoch ${detail('epoch')}`)
  if (detail('worker')) parts.push(`${detail('worker')}`)
  if (e.kind === 'session' && e.detail?.lost === true) parts.push('away from its state')
  if (e.kind === 'node' && detail('version')) parts.push(`version ${detail('version')}`)
  if (e.kind === 'worker' && Number(detail('starts')) > 1) parts.push(`×${detail('starts')}`)
  if (e.caller) parts.push(`by ${e.caller}`)
  return parts.filter(Boolean).join(' · ')
}

/** What an entry is of, in words: a node by its name, where the list of nodes or the entry itself has it. */
export function subjectOf(e: Pick<JournalEntry, 'kind' | 'subject' | 'detail'>, nodes: readonly { incarnation: string; name: string }[]): string {
  if (e.kind !== 'node') return visible(e.subject)
  const told = e.detail?.name
  return visible(nodes.find((n) => n.incarnation === e.subject)?.name ?? (typeof told === 'string' && told ? told : short(e.subject)))
}

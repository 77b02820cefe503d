// An entry of the journal in a few words.
import type { JournalEntry } from '../api/types'

export function text(e: JournalEntry): string {
  const parts = [e.what === 'condition' ? (e.reason ?? '') : `${e.what}${e.reason ? `: ${e.reason}` : ''}`]
  const shares = e.detail?.shares as Record<string, number> | undefined
  if (shares) parts.push(Object.entries(shares).sort((a, b) => b[1] - a[1]).map(([name, part]) => `${name} ${Math.round(part * 100)} %`).join(', '))
  if (typeof e.detail?.worker === 'string') parts.push(e.detail.worker)
  if (e.caller) parts.push(`by ${e.caller}`)
  return parts.filter(Boolean).join(' · ')
}

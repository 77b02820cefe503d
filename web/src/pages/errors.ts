// Groups of what failed: the filters, and where each leads.
import type { ErrorGroup, Share } from '../api/types'
import type { Chip, Key } from '../state/filters'
import { endKeys, isMoment } from '../state/range'
import { withQuery } from '../state/route'
import { keys as listed } from './executions'

export const ways = ['message', 'code', 'action', 'worker'] as const

const unsuccessful = ['failed', 'timed_out', 'abandoned']
/** What of a list's filters the page has otherwise, or not: its time is that of the ends. */
const left = ['order', 'status', 'not.status', ...endKeys.map((k) => k.name)]

export const keys: readonly Key[] = [
  { name: 'status', many: true, values: unsuccessful },
  ...listed.filter((k) => !left.includes(k.name)),
  { name: 'by', values: ways, quiet: true },
]

/** The list of a group's executions, with the filters that the page has. A time of the page is one of the ends; an age is left out, as the list goes on. */
export function listOf(g: ErrorGroup, chips: readonly Chip[]): string {
  const query = new URLSearchParams()
  for (const { key, value, wrong } of chips) {
    if (wrong || key === 'by') continue
    if (key !== 'from' && key !== 'to') query.append(key, value)
    else if (isMoment(value)) query.append(`ended_${key}`, value)
  }
  if (!query.has('status')) query.set('status', unsuccessful.join(','))
  for (const [key, value] of [['action', g.action_ref], ['error', g.code], ['worker', g.worker]] as const) if (value) query.set(key, value)
  return withQuery('executions', query)
}

/** The most frequent values, each with its count. */
export const shares = (list: readonly Share[] | undefined): string => (list ?? []).map((s) => `${s.value} ×${s.n.toLocaleString('en')}`).join(', ')

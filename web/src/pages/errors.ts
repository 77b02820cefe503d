// Groups of what failed: the filters, and where each leads.
import type { ErrorGroup, Share } from '../api/types'
import type { Chip, Key } from '../state/filters'
import { withQuery } from '../state/route'
import { keys as listed } from './executions'

export const ways = ['message', 'code', 'action', 'worker'] as const

const unsuccessful = ['failed', 'timed_out', 'abandoned']
const left = ['order', 'status', 'not.status']

export const keys: readonly Key[] = [
  { name: 'status', many: true, values: unsuccessful },
  ...listed.filter((k) => !left.includes(k.name)),
]

/** The list of a group's executions, with the filters that the page has. Its times are those of requests, so they are left out. */
export function listOf(g: ErrorGroup, chips: readonly Chip[]): string {
  const query = new URLSearchParams()
  for (const c of chips) if (!c.wrong && c.key !== 'from' && c.key !== 'to') query.append(c.key, c.value)
  if (!query.has('status')) query.set('status', unsuccessful.join(','))
  for (const [key, value] of [['action', g.action_ref], ['error', g.code], ['worker', g.worker]] as const) if (value) query.set(key, value)
  return withQuery('executions', query)
}

/** The most frequent values, each with its count. */
export const shares = (list: readonly Share[] | undefined): string => (list ?? []).map((s) => `${s.value} ×${s.n.toLocaleString('en')}`).join(', ')

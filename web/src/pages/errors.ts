// Groups of what failed: the filters, and where each leads.
import type { ErrorGroup, ErrorGroups, Share } from '../api/types'
import type { Chip, Key } from '../state/filters'
import { endKeys } from '../state/range'
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

/** The list of a group's executions, with the filters that the page has. The time of the answer is one of the ends. One that ended as it was asked has no end in the list, which goes on. */
export function listOf(g: ErrorGroup, chips: readonly Chip[], answer: Pick<ErrorGroups, 'from' | 'to'>): string {
  const query = new URLSearchParams()
  let fixed = false
  for (const { key, value, wrong } of chips) {
    if (wrong || key === 'by') continue
    if (key === 'to') fixed = true
    else if (key !== 'from') query.append(key, value)
  }
  query.set('ended_from', answer.from)
  if (fixed) query.set('ended_to', answer.to)
  if (!query.has('status')) query.set('status', unsuccessful.join(','))
  for (const [key, value] of [['action', g.action_ref], ['error', g.code], ['worker', g.worker]] as const) if (value) query.set(key, value)
  return withQuery('executions', query)
}

/** The most frequent values, each with its count. */
export const shares = (list: readonly Share[] | undefined): string => (list ?? []).map((s) => `${s.value} ×${s.n.toLocaleString('en')}`).join(', ')

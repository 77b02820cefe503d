// Counts beside the list of executions: what is asked for, what was counted, and the list that a value leads to.
import type { Facets } from '../api/types'
import { withQuery } from '../state/route'

const fields = ['status', 'action', 'pool', 'error', 'worker']
const limit = 8

/** What is asked for, for a list with these parameters. */
export function facetsOf(params: string): URLSearchParams {
  const query = new URLSearchParams(params)
  query.delete('order')
  query.set('fields', fields.join(','))
  query.set('limit', String(limit))
  return query
}

/** The same list with a value of a field alone. */
export function narrowed(params: string, field: string, value: string): string {
  const query = new URLSearchParams(params)
  query.set(field, value)
  query.set('panel', 'facets')
  return withQuery('executions', query)
}

/** What was counted, in words. */
export function said(f: Facets): string {
  const n = f.executions.toLocaleString('en')
  if (f.basis === 'minutes') return `≈ ${n} executions that ended in this time, as the nodes counted them by minute: what waits or runs is not among them`
  return f.exact ? `All ${n} executions of the list` : `The newest ${n} executions of the list, as far as was looked`
}

// Counts beside the list of executions: what is asked for, what was counted, and the list that a value leads to.
import type { Execution, Facets } from '../api/types'
import { withQuery } from '../state/route'

const fields = ['status', 'action', 'pool', 'error', 'worker']
const limit = 8
const labelsMax = 5

/** What is asked for, for a list with these parameters. */
export function facetsOf(params: string, labels: readonly string[] = []): URLSearchParams {
  const query = new URLSearchParams(params)
  query.delete('order')
  query.set('fields', [...fields, ...labels.slice(0, labelsMax).map((l) => `label.${l}`)].join(','))
  query.set('limit', String(limit))
  return query
}

/** The names of the labels that rows have, the most frequent first. */
export function labelsOf(rows: readonly Execution[]): string[] {
  const n = new Map<string, number>()
  for (const e of rows) for (const name of Object.keys(e.labels ?? {})) n.set(name, (n.get(name) ?? 0) + 1)
  return [...n].sort((a, b) => b[1] - a[1] || a[0].localeCompare(b[0])).map(([name]) => name).slice(0, labelsMax)
}

/** The same list with a value of a field alone. */
export function narrowed(params: string, field: string, value: string): string {
  const query = new URLSearchParams(params)
  const [, name] = /^label\.(.+)$/.exec(field) ?? []
  if (name) {
    const others = query.getAll('label').filter((l) => !l.startsWith(`${name}=`))
    query.delete('label')
    for (const l of [...others, `${name}=${value}`]) query.append('label', l)
  } else query.set(field, value)
  query.set('panel', 'facets')
  return withQuery('executions', query)
}

/** What was counted, in words. */
export function said(f: Facets, of = 'the list'): string {
  const n = f.executions.toLocaleString('en')
  if (f.basis === 'minutes') return `≈ ${n} executions that ended in this time, as the nodes counted them by minute: what waits or runs is not among them`
  return f.exact ? `All ${n} executions of ${of}` : `The newest ${n} executions of ${of}, as far as was looked`
}

/** The outcomes that are failures, as a filter has them. */
export const failures = 'failed,timed_out,abandoned'

/** How many have a value of a field; undefined: that is not known. A value that is not listed has none, where all were counted and listed. */
export function countOf(f: Facets | undefined, field: string, value: string): number | undefined {
  const found = f?.fields[field]?.find((v) => v.value === value)
  if (found) return found.n
  return f && !f.left?.[field] && (f.exact || f.basis === 'minutes') ? 0 : undefined
}

// Counts beside the list of executions: what is asked for, what was counted, and the list that a value leads to.
import type { Execution, Facets, Status } from '../api/types'
import { withQuery } from '../state/route'
import type { Scope } from '../ui/series'
import { ended } from '../ui/status'

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

/** The values of each field that has some, in the order in which fields are asked for. */
export function ordered(f: Facets): [field: string, values: Facets['fields'][string]][] {
  const placeOf = (field: string) => (fields.includes(field) ? fields.indexOf(field) : fields.length)
  return Object.entries(f.fields).filter(([, values]) => values.length > 0).sort(([a], [b]) => placeOf(a) - placeOf(b) || a.localeCompare(b))
}

/** The names of the labels that rows have, the most frequent first. */
export function labelsOf(rows: readonly Execution[]): string[] {
  const n = new Map<string, number>()
  for (const e of rows) for (const name of Object.keys(e.labels ?? {})) n.set(name, (n.get(name) ?? 0) + 1)
  return [...n].sort((a, b) => b[1] - a[1] || a[0].localeCompare(b[0])).map(([name]) => name).slice(0, labelsMax)
}

/** The same list with a value of a field alone, and with the panel that is open. */
export function narrowed(params: string, field: string, value: string, panel: string | null): string {
  const query = new URLSearchParams(params)
  const [, name] = /^label\.(.+)$/.exec(field) ?? []
  if (name) {
    const others = query.getAll('label').filter((l) => !l.startsWith(`${name}=`))
    query.delete('label')
    for (const l of [...others, `${name}=${value}`]) query.append('label', l)
  } else query.set(field, value)
  if (panel) query.set('panel', panel)
  return withQuery('executions', query)
}

/** What was counted, in words. */
export function said(f: Facets, of = 'the list'): string {
  const n = f.executions.toLocaleString('en'), one = f.executions === 1
  if (f.basis === 'minutes') return `≈ ${n} ${one ? 'execution' : 'executions'} that ended in this time, as the nodes counted them by minute: what waits or runs is not among them`
  if (f.exact && f.executions === 0) return `No execution of ${of}`
  if (f.exact) return one ? `The only execution of ${of}` : `All ${n} executions of ${of}`
  return `The newest ${one ? 'execution' : `${n} executions`} of ${of}, as far as was looked`
}

/** The outcomes that are failures, as a filter has them. */
export const failures = 'failed,timed_out,abandoned'

/** How many have a value of a field; undefined: that is not known. A value that is not listed has none, where all were counted and listed. */
export function countOf(f: Facets | undefined, field: string, value: string): number | undefined {
  const found = f?.fields[field]?.find((v) => v.value === value)
  if (found) return found.n
  return f && !f.left?.[field] && (f.exact || f.basis === 'minutes') ? 0 : undefined
}

/** What a chart of the list's outcomes is of: some pools, some actions, or all. Undefined: the list has other filters, or none that has ended. */
export function outcomesOf(params: string): { scope: Scope; among: string[] } | undefined {
  const query = new URLSearchParams(params)
  if ([...query.keys()].some((key) => !['status', 'pool', 'action', 'from', 'to', 'order', 'limit', 'cursor'].includes(key))) return undefined
  const asked = query.getAll('status').flatMap((v) => v.split(',')), among = asked.filter((v) => ended(v as Status))
  if (asked.length && !among.length) return undefined
  const [pool, action] = [query.getAll('pool'), query.getAll('action')]
  return { scope: { ...(pool.length ? { pool } : {}), ...(action.length ? { action } : {}) }, among }
}

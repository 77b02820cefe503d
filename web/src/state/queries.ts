// What the addresses of pages without a bar of filters have. Pages with one say there what is wrong.
import { chipsOf, type Chip, type Key } from './filters'
import { momentOr, timeKeys } from './range'
import type { Route } from './route'
import { readings } from './views'

const at: Key = { name: 'at', check: momentOr }
const actor: Key = { name: 'actor', check: (v) => (/^\S+ \S/.test(v) ? undefined : 'want the incarnation of a node and the id of an actor') }

const barred = ['executions', 'errors', 'workers', 'sessions', 'dead-letters', 'webhooks', 'history']

const keys: Record<string, readonly Key[]> = {
  overview: timeKeys, pools: timeKeys, pool: timeKeys, nodes: timeKeys, node: timeKeys, worker: timeKeys, session: timeKeys, actions: timeKeys, action: timeKeys, changes: timeKeys, operations: timeKeys,
  tree: [...timeKeys, at, actor],
  execution: [...['from', 'to', 'at'].map((name) => ({ name, check: momentOr })), { name: 'output', many: true, values: readings }, { name: 'find' }],
}

/** What of a page's address it does not have, with the reason. Keys of its own are those of a page that has no bar now, as a list of the past. */
export function wrongIn(route: Route, own?: readonly Key[]): Chip[] {
  if (!own && barred.includes(route.page)) return []
  return chipsOf(route.query, own ?? keys[route.page] ?? []).filter((c) => c.wrong !== undefined)
}

/** The same query without a chip. */
export function without(query: URLSearchParams, chip: Chip): URLSearchParams {
  const next = new URLSearchParams()
  for (const [name, value] of query) {
    if (name !== chip.key) next.append(name, value)
    else if (value !== chip.value) {
      const left = value.split(',').filter((v) => v && v !== chip.value).join(',')
      if (left) next.append(name, left)
    }
  }
  return next
}

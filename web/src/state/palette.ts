// Where a typed text leads: pages, pools and actions whose names have it, and ids.
import { keys } from '../pages/executions'
import { asked, chipOf, chipsOf } from './filters'
import { places } from './keys'
import { to, withQuery } from './route'

export interface Entry { text: string; kind: string; href: string }

const most = 12

export const pages: readonly Entry[] = Object.values(places).map(([href, name]) => ({ text: name, kind: 'page', href }))

export function entries(pools: readonly string[], actions: readonly string[], nodes: readonly { name: string; incarnation: string }[]): Entry[] {
  return [
    ...pages,
    ...pools.map((name) => ({ text: name, kind: 'pool', href: to('pools', name) })),
    ...actions.map((ref) => ({ text: ref, kind: 'action', href: to('actions', ref) })),
    ...nodes.map((n) => ({ text: n.name, kind: 'node', href: to('nodes', n.incarnation) })),
  ]
}

/** Whether the list of executions takes a filter. */
const isRight = (key: string, value: string): boolean => chipsOf(new URLSearchParams([[key, value]]), keys)[0]?.wrong === undefined

/** What an id can be the id of. */
function ofId(text: string): Entry[] {
  if (/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text)) {
    return [{ text, kind: 'execution', href: to('executions', text) }, { text, kind: 'node', href: to('nodes', text) }, { text, kind: 'operation', href: to('operations', text) }]
  }
  const [, node, pool, slot] = /^([^/\s]+)\/([^/\s]+)\/(\d+)$/.exec(text) ?? []
  if (node && pool && slot) return [{ text, kind: 'worker', href: to('workers', node, pool, slot) }]
  const found: Entry[] = []
  if (/^[0-9a-f][0-9a-f-]*$/i.test(text) && isRight('id_prefix', text)) found.push({ text: `ids that begin with ${text}`, kind: 'executions', href: withQuery('executions', new URLSearchParams({ id_prefix: text })) })
  const [, of, session] = /^([^/\s]+)\/(.+)$/.exec(text) ?? []
  if (of && session) found.push({ text, kind: 'session', href: to('sessions', of, session) })
  return found
}

/** The entries for a text: what begins with it first, then what has it, then what can be made of it. */
export function matches(text: string, all: readonly Entry[]): Entry[] {
  const wanted = text.trim()
  if (!wanted) return all.slice(0, most)
  const low = wanted.toLowerCase()
  const rank = (e: Entry) => {
    const at = e.text.toLowerCase().indexOf(low)
    return at === 0 ? 0 : at > 0 ? 1 : 2
  }
  const named = all.map((e, i) => ({ e, i, r: rank(e) })).filter(({ r }) => r < 2).sort((a, b) => a.r - b.r || a.i - b.i).map(({ e }) => e)
  const ids = ofId(wanted)
  return [...ids, ...named.slice(0, most - ids.length), ...made(wanted)]
}

/** The lists that a text can mean: that of a filter as people type it, or those of what may have any text. */
function made(text: string): Entry[] {
  const list = (what: string, page: string, key: string): Entry => ({ text: `${what} ${text}`, kind: page, href: withQuery(page, new URLSearchParams([[key, text]])) })
  const says = isRight('q', text) ? [list('errors that say', 'errors', 'q')] : []
  const labelled = /^[^=\s]+=./.test(text) ? [list('with the label', 'executions', 'label')] : []
  const chip = chipOf(text), query = chip && new URLSearchParams([[chip.key, chip.value]])
  if (query && asked(chipsOf(query, keys)).size) return [{ text: `with ${chip!.key}:${chip!.value}`, kind: 'executions', href: withQuery('executions', query) }, ...labelled, ...says]
  return [
    ...labelled,
    list('with the session', 'executions', 'session'),
    list('with the idempotency key', 'executions', 'key'),
    ...(/\s/.test(text) ? [] : [list('with the error', 'errors', 'error')]),
    ...says,
  ]
}

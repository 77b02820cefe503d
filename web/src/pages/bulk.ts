// What an operation on many executions or dead letters is asked for, and how it is told.
import type { BulkPreview, Operation } from '../api/types'
import type { Chip } from '../state/filters'
import { withQuery } from '../state/route'

export type Kind = Operation['kind']

export const verbs: Record<Kind, string> = { retry: 'Retry', cancel: 'Cancel', requeue: 'Requeue', discard: 'Discard' }

/** Whether it is about dead letters, and not about executions. */
export const ofLetters = (kind: Kind) => kind === 'requeue' || kind === 'discard'

/** What it is about, for so many. */
export const things = (kind: Kind, n: number) => `${ofLetters(kind) ? 'dead letter' : 'execution'}${n === 1 ? '' : 's'}`

/** What somebody is asked before it starts, or that there is nothing to do. */
export function question(kind: Kind, p: Pick<BulkPreview, 'count' | 'exact'>): string {
  if (p.count === 0) return `No ${things(kind, 1)} to ${verbs[kind].toLowerCase()}`
  return `${verbs[kind]} ${p.exact ? '' : 'at least '}${p.count.toLocaleString('en')} ${things(kind, p.count)}?`
}

/** What a preview is asked for: chosen rows, or a filter. */
export function wanted(kind: Kind, picked: readonly string[], filter: Record<string, string[]>): object {
  if (picked.length === 0) return { kind, filter }
  return ofLetters(kind) ? { kind, dead_letters: picked.map(Number) } : { kind, ids: picked }
}

/** How many may be named by their ids. */
export const idsMax = 1000
/** Above this count somebody types what is asked for. */
export const typedAbove = 100

/** The filter of the API: the chips that it takes. The order of a list is none. */
export function filterOf(chips: readonly Chip[]): Record<string, string[]> {
  const filter: Record<string, string[]> = {}
  for (const c of chips) if (!c.wrong && c.key !== 'order') (filter[c.key] ??= []).push(c.value)
  return filter
}

/** The filter as a person types it. */
export function written(filter: Record<string, string[]>): string {
  return Object.entries(filter).flatMap(([key, values]) => values.map((v) => `${key}=${v}`)).join(' ')
}

/** What somebody types before an operation starts, or nothing. */
export function typedFor(p: BulkPreview, filter: Record<string, string[]>): string | undefined {
  if (!p.exact) return written(filter)
  return p.count > typedAbove ? String(p.count) : undefined
}

/** The list of what an operation is about; nothing where it names ids. */
export function listOf(kind: Kind, filter: Record<string, string[]> | undefined): string | undefined {
  if (!filter) return undefined
  const query = new URLSearchParams()
  for (const [key, values] of Object.entries(filter)) {
    if (key === 'status' || key === 'not.status') query.set(key, values.join(','))
    else for (const v of values) query.append(key, v)
  }
  return withQuery(ofLetters(kind) ? 'dead-letters' : 'executions', query)
}

/** How much of an operation is behind it, from 0 to 1. */
export function share(o: Operation): number {
  if (o.state === 'done') return 1
  return o.count > 0 ? Math.min((o.done + o.failed) / o.count, 1) : 0
}

export const ended = (o: Operation) => o.state === 'done' || o.state === 'stopped' || o.state === 'failed'

const reasons: Record<string, string> = {
  not_ended: 'have not ended', completed: 'have a result', already_retried: 'have a retry already', ended: 'have ended',
  cancelling: 'are being cancelled', already_requeued: 'were requeued before', already_discarded: 'were discarded before',
  no_execution: 'name no execution', unknown: 'are not in the store',
}
const singular: Record<string, string> = { 'have ': 'has ', 'are ': 'is ', 'were ': 'was ', 'name ': 'names ' }

/** Why so many were left out. */
export function reason(why: string, n: number): string {
  const text = reasons[why] ?? why
  return n === 1 ? text.replace(/^(?:have|are|were|name) /, (many) => singular[many]!) : text
}

// What waits in a pool, or in all of them, as the pages say it, and what its workers do.
import type { Pool, PoolDetail } from '../api/types'
import { withQuery } from '../state/route'

interface Depths { waiting: number; not_due?: number; waiting_more?: boolean; placed: number }

/** How many executions wait that are due, with those on a worker's queue. */
export const backlogOf = (d: Depths): string => (Math.max(0, d.waiting - (d.not_due ?? 0)) + d.placed).toLocaleString('en') + (d.waiting_more ? '+' : '')

/** How many wait for their time; empty: none. */
export const laterOf = (d: Depths): string => (d.not_due ? `${d.not_due.toLocaleString('en')}${d.waiting_more ? '+' : ''} not due` : '')

/** The states of workers that a part of the bar counts. One that waits to be started again is starting. */
const statesOf: Record<string, readonly string[]> = { starting: ['initializing', 'terminated', 'terminating'], 'failing to start': ['initializing', 'terminated', 'terminating'] }

/** The list of a pool's workers in one part of the bar. */
export const workersIn = (pool: string, part: string): string =>
  withQuery('workers', new URLSearchParams([['pool', pool], ...(statesOf[part] ?? [part]).map((s): [string, string] => ['state', s])]))

/** The filters of executions that wait for a cause, as far as a list has one. */
const causes: Record<string, Record<string, string>> = {
  on_queue: { status: 'scheduled' }, being_placed: { status: 'requested,scheduled' }, taken_back: { status: 'requested,scheduled', was: 'taken_back' },
  backed_off: { status: 'requested', was: 'taken_back' }, running: { status: 'running' },
}

/** The list of a pool's executions that wait for a cause, or have a priority. There is no filter of either: it has all that wait so. */
export const waitingIn = (pool: string, cause?: string): string =>
  withQuery('executions', new URLSearchParams({ pool, ...((cause && causes[cause]) || { status: cause ? 'requested' : 'requested,scheduled' }) }))

/** What a bar of a pool's workers shows. */
export function slotsOf(p: Pick<Pool, 'busy' | 'ready' | 'degraded' | 'starting' | 'broken' | 'cordoned' | 'workers'>): { parts: [string, number, string][]; whole: number; note: string } {
  const parts: [string, number, string][] = [['busy', p.busy, 'run'], ['ready', p.ready, p.cordoned ? 'off' : 'good'], ['degraded', p.degraded, 'warn'], [p.broken ? 'failing to start' : 'starting', p.starting, p.broken ? 'bad' : 'off']]
  return { parts: parts.filter(([, n]) => n > 0), whole: p.workers, note: p.cordoned && p.ready + p.degraded > 0 ? ', but the pool is cordoned' : '' }
}

/** How a pool is, in a word, with its sign. */
export function stateOf(p: Pick<Pool, 'broken' | 'cordoned' | 'halted' | 'unattached'> & { ready?: number }): { word: string; text: string } {
  if (p.broken) return { word: 'broken', text: 'broken' }
  if (p.cordoned) return { word: 'degraded', text: 'cordoned' }
  if (p.halted) return { word: 'degraded', text: p.halted.replaceAll('_', ' ') }
  return p.unattached && !p.ready ? { word: 'degraded', text: 'unattached' } : { word: 'ok', text: 'ok' }
}

type Failure = NonNullable<PoolDetail['failures']>[number]

/** Why workers failed last: those that failed for the same reason together. */
export function failuresOf(list: readonly Failure[]): { error: string; workers: Failure[] }[] {
  const by = new Map<string, Failure[]>()
  for (const f of list) by.set(f.error, [...(by.get(f.error) ?? []), f])
  return [...by].map(([error, workers]) => ({ error, workers }))
}

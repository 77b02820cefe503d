// What waits in a pool, or in all of them, as the pages say it, and what its workers do.
import type { Pool } from '../api/types'

interface Depths { waiting: number; not_due?: number; waiting_more?: boolean; placed: number }

/** How many executions wait that are due, with those on a worker's queue. */
export const backlogOf = (d: Depths): string => (Math.max(0, d.waiting - (d.not_due ?? 0)) + d.placed).toLocaleString('en') + (d.waiting_more ? '+' : '')

/** How many wait for their time; empty: none. */
export const laterOf = (d: Depths): string => (d.not_due ? `${d.not_due.toLocaleString('en')}${d.waiting_more ? '+' : ''} not due` : '')

/** What a bar of a pool's workers shows. */
export function slotsOf(p: Pick<Pool, 'busy' | 'ready' | 'degraded' | 'starting' | 'cordoned' | 'workers'>): { parts: [string, number, string][]; whole: number; note: string } {
  const parts: [string, number, string][] = [['busy', p.busy, 'run'], ['ready', p.ready, p.cordoned ? 'off' : 'good'], ['degraded', p.degraded, 'warn'], ['starting', p.starting, 'off']]
  return { parts: parts.filter(([, n]) => n > 0), whole: p.workers, note: p.cordoned && p.ready + p.degraded > 0 ? ', but the pool is cordoned' : '' }
}

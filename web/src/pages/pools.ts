// What waits in a pool, or in all of them, as the pages say it.

interface Depths { waiting: number; not_due?: number; waiting_more?: boolean; placed: number }

/** How many executions wait that are due, with those on a worker's queue. */
export const backlogOf = (d: Depths): string => (Math.max(0, d.waiting - (d.not_due ?? 0)) + d.placed).toLocaleString('en') + (d.waiting_more ? '+' : '')

/** How many wait for their time; empty: none. */
export const laterOf = (d: Depths): string => (d.not_due ? `${d.not_due.toLocaleString('en')}${d.waiting_more ? '+' : ''} not due` : '')

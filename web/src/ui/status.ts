import type { Status } from '../api/types'

export const statuses = [
  'requested', 'scheduled', 'running', 'cancelling', 'completed', 'failed', 'timed_out', 'cancelled', 'abandoned',
] as const satisfies readonly Status[]

/** Statuses that are outcomes: they never change. */
export const ended = (status: Status): boolean => statuses.indexOf(status as never) >= 4

/** A status is never a colour alone: it has a word and a shape. Shapes are paths in a square of 16. */
export const shapes: Record<string, { tone: string; path: string; fill?: boolean }> = {
  requested: { tone: 'wait', path: 'M8 2.500a5.500 5.500 0 1 0 0 11a5.500 5.500 0 0 0 0-11z' },
  scheduled: { tone: 'wait', path: 'M8 2.500a5.500 5.500 0 1 0 0 11a5.500 5.500 0 0 0 0-11zM8 5v3.200l2.200 1.300' },
  running: { tone: 'run', path: 'M4.500 2.500l8.500 5.500l-8.500 5.500z', fill: true },
  cancelling: { tone: 'wait', path: 'M3 3h10v10h-10z' },
  completed: { tone: 'good', path: 'M2.500 8.500l3.800 3.800l7.200-8.300' },
  failed: { tone: 'bad', path: 'M3.500 3.500l9 9M12.500 3.500l-9 9' },
  timed_out: { tone: 'bad', path: 'M4 2.500h8M4 13.500h8M4.800 2.500c0 4 6.400 7 6.400 11M11.200 2.500c0 4-6.400 7-6.400 11' },
  cancelled: { tone: 'off', path: 'M8 2.500a5.500 5.500 0 1 0 0 11a5.500 5.500 0 0 0 0-11zM4.200 11.800l7.600-7.600' },
  abandoned: { tone: 'bad', path: 'M8 2l6 6l-6 6l-6-6zM8 5.500v3M8 10.500v0.200' },
  // States of workers, nodes and pools.
  ready: { tone: 'good', path: 'M8 3.500a4.500 4.500 0 1 0 0 9a4.500 4.500 0 0 0 0-9z', fill: true },
  active: { tone: 'good', path: 'M8 3.500a4.500 4.500 0 1 0 0 9a4.500 4.500 0 0 0 0-9z', fill: true },
  ok: { tone: 'good', path: 'M8 3.500a4.500 4.500 0 1 0 0 9a4.500 4.500 0 0 0 0-9z', fill: true },
  busy: { tone: 'run', path: 'M4.500 2.500l8.500 5.500l-8.500 5.500z', fill: true },
  broken: { tone: 'bad', path: 'M3.500 3.500l9 9M12.500 3.500l-9 9' },
  dead: { tone: 'off', path: 'M3.500 3.500l9 9M12.500 3.500l-9 9' },
  degraded: { tone: 'warn', path: 'M8 2.500l6 11h-12zM8 6.500v3M8 11.500v0.200' },
}

const other = { tone: 'off', path: 'M3 8h10' }

export const shapeOf = (word: string) => shapes[word] ?? other

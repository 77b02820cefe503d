// What is different in a range of time from the one before it, in words and figures.
import type { Difference } from '../api/types'
import { duration } from '../state/time'

/** A figure with its unit. */
export function figure(unit: Difference['unit'], value: number): string {
  switch (unit) {
    case 'share': return `${(100 * value).toLocaleString('en', { maximumFractionDigits: 1 })} %`
    case 'ms': return value ? `≈ ${duration(value)}` : '–'
    case 's': return duration(1000 * value)
    default: return value.toLocaleString('en')
  }
}

const troubles: readonly string[] = ['failed', 'failed_share', 'run_p95', 'wait_p95', 'troubled', 'late', 'fenced', 'dead', 'away', 'blocked', 'worker_gone', 'lost']

/** Whether it became worse: what is counted or measured is a trouble, and there is more of it. A condition of a pool is measured in seconds. */
export const worse = (d: Difference): boolean => d.value > d.before && (d.unit === 's' || troubles.includes(d.what))

/** Differences of the same thing have different names. */
export const keyOf = (d: Difference): string => [d.of, d.subject, d.code, d.what].join('\n')

// Bars of outcomes over time. What failed stands below, at least so high that it is seen.
import type { Series } from '../api/types'

const bad = ['failed', 'timed_out', 'abandoned']
const high = 20
const least = 1.5

export interface Bar { good: number; bad: number }

/** The heights of each point's bar, of 20 in all for the highest. */
export function bars(s: Series): Bar[] {
  const points = Math.max(0, ...s.series.map((l) => l.n.length))
  const sums = Array.from({ length: points }, (_, i) => {
    const failed = s.series.filter((l) => bad.includes(l.key)).reduce((sum, l) => sum + (l.n[i] ?? 0), 0)
    return { failed, all: s.series.reduce((sum, l) => sum + (l.n[i] ?? 0), 0) }
  })
  const top = Math.max(1, ...sums.map((p) => p.all))
  return sums.map((p) => {
    const height = p.failed === 0 ? 0 : Math.max(least, (p.failed / top) * high)
    return { bad: height, good: Math.min(((p.all - p.failed) / top) * high, high - height) }
  })
}

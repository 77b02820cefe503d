// Which rows of a long list are drawn: those on the screen and some around them, 60 at most.

export interface Shown { first: number; last: number; above: number; below: number }

export const most = 60

export function shown(count: number, rowHeight: number, top: number, height: number): Shown {
  const visible = Math.min(Math.ceil(height / rowHeight) + 1, most)
  const around = Math.floor((most - visible) / 2)
  const begin = Math.floor(Math.max(top, 0) / rowHeight)
  const first = Math.max(0, Math.min(begin, count - visible) - around)
  const last = Math.min(count, first + most)
  return { first, last, above: first * rowHeight, below: (count - last) * rowHeight }
}

/** The same for rows of different heights. Those that were never drawn have none yet, and count as the mean of the others, or as otherwise. */
export function shownOf(heights: readonly (number | undefined)[], otherwise: number, top: number, height: number): Shown {
  const known = heights.filter((h) => h !== undefined)
  const mean = known.length ? known.reduce((sum, h) => sum + h, 0) / known.length : otherwise
  const ends: number[] = [] // where each row ends
  for (const h of heights) ends.push((ends.at(-1) ?? 0) + (h ?? mean))
  const count = heights.length, all = ends.at(-1) ?? 0
  const rowAt = (place: number) => { const at = ends.findIndex((end) => end > place); return at < 0 ? count : at }
  const screen = Math.max(0, Math.min(top, all - height))
  const begin = rowAt(screen)
  const visible = Math.min(rowAt(screen + height) - begin + 1, most)
  const first = Math.max(0, Math.min(begin, count - visible) - Math.floor((most - visible) / 2))
  const last = Math.min(count, first + most)
  const start = (row: number) => ends[row - 1] ?? 0
  return { first, last, above: start(first), below: all - start(last) }
}

/** So many heights are kept: of rows that are held, and of some that were. */
export const heightsMax = 4000

/** The rows, each key once. */
export function once<T>(rows: readonly T[], keyOf: (row: T) => string | number): T[] {
  const seen = new Set<string | number>()
  return rows.filter((row) => { const key = keyOf(row); return !seen.has(key) && seen.add(key) })
}

// The rows of a list that is read in pages. The first page is read again and again, and the others when somebody wants them. New rows push
// old ones off the first page: these stay.

/** How many rows a list holds. */
export const rowsMax = 2000

/** One page, or several that follow each other from the first one. */
export interface Page<T> {
  rows: readonly T[]
  cursor: string | undefined // of the next page; undefined: there is none
}

export interface Held<T> extends Page<T> {
  deeper: boolean // pages behind the first one are held, or are being read
  full: boolean // rows were left out at the end, so that no more are read
}

export const none: Held<never> = { rows: [], cursor: undefined, deeper: false, full: false }

/**
 * How the first page is put in front of the rows that are held:
 * stays: the rows have a lasting order, so those behind the last known row of the page are still behind it;
 * moves: rows change their places, so those behind are right only where the page has not changed;
 * anew: all rows are to be read again.
 */
export type How = 'stays' | 'moves' | 'anew'

type KeyOf<T> = (row: T) => string | number

/** The rows after the first page was read again; undefined: the page after it is needed too, and both are to be given as one. */
export function renewed<T>(held: Held<T>, page: Page<T>, keyOf: KeyOf<T>, how: How): Held<T> | undefined {
  if (!held.deeper) return { ...none, ...page }
  const behind = page.cursor === undefined || page.rows.length >= rowsMax ? [] : behindOf(held, page, keyOf, how)
  if (!behind) return undefined
  if (behind.length === 0) return bounded({ ...page, deeper: true, full: false })
  return bounded({ ...held, rows: [...page.rows, ...behind] })
}

function behindOf<T>(held: Held<T>, page: Page<T>, keyOf: KeyOf<T>, how: How): readonly T[] | undefined {
  if (how === 'anew') return page.rows.length >= held.rows.length ? [] : undefined
  if (how === 'moves') {
    const same = page.rows.every((row, i) => i < held.rows.length && keyOf(row) === keyOf(held.rows[i]!))
    return same ? held.rows.slice(page.rows.length) : behindOf(held, page, keyOf, 'anew')
  }
  if (page.rows.length === 0) return held.rows // the search has not come to them
  const places = new Map(held.rows.map((row, i) => [keyOf(row), i]))
  const last = page.rows.findLastIndex((row) => places.has(keyOf(row)))
  if (last < 0) return held.rows.length ? undefined : []
  const there = new Set(page.rows.map(keyOf))
  return held.rows.slice(places.get(keyOf(page.rows[last]!))! + 1).filter((row) => !there.has(keyOf(row)))
}

/** The rows with the next page behind them. */
export function older<T>(held: Held<T>, page: Page<T>, keyOf: KeyOf<T>): Held<T> {
  const there = new Set(held.rows.map(keyOf))
  return bounded({ ...held, rows: [...held.rows, ...page.rows.filter((row) => !there.has(keyOf(row)))], cursor: page.cursor, deeper: true })
}

function bounded<T>(held: Held<T>): Held<T> {
  return { ...held, rows: held.rows.slice(0, rowsMax), full: held.full || held.rows.length >= rowsMax }
}

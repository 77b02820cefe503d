// The rows of a list that is read in pages. The first page is read again and again, and of the others what is on the screen. New rows push
// old ones off the first page: these stay.

/** How many rows a list shows. */
export const rowsMax = 2000

/** How many newer ones wait in front of these. */
export const waitsMax = 500

/** One page, or several that follow each other from the first one. */
export interface Page<T> {
  rows: readonly T[]
  cursor: string | undefined // of the next page; undefined: there is none
  searched?: string | undefined // when the last row was that it looked at, where it met the bound of a page
}

export interface Held<T> extends Page<T> {
  deeper: boolean // pages behind the first one are held, or are being read
  full: boolean // rows were left out at the end, so that no more are read, or the next one would be
}

export const none: Held<never> = { rows: [], cursor: undefined, searched: undefined, deeper: false, full: false }

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
  if (behind.length === 0) return { ...page, deeper: true, full: false }
  return { ...held, rows: [...page.rows, ...behind] }
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

/** The rows after a page was read again that begins behind one of them, at a place; undefined: it does not say what the list is now, and all is to be read again. */
export function refreshed<T>(held: Held<T>, begin: number, page: Page<T>, keyOf: KeyOf<T>, how: How): Held<T> | undefined {
  const [front, rest] = [held.rows.slice(0, begin), held.rows.slice(begin)]
  const before = new Set(front.map(keyOf))
  const rows = page.rows.filter((row) => !before.has(keyOf(row)))
  // Behind a row that is not known there may be more that are gone: the page after it says so.
  if (page.cursor === undefined && how === 'stays') return { ...held, rows: [...front, ...rows], cursor: undefined }
  const behind = behindOf({ ...held, rows: rest }, { ...page, rows }, keyOf, how === 'stays' ? how : 'moves')
  if (!behind || (how !== 'stays' && (behind.length !== rest.length - rows.length || (behind.length > 0 && page.cursor === undefined)))) return undefined
  return { ...held, rows: [...front, ...rows, ...behind], cursor: behind.length ? held.cursor : page.cursor }
}

/** How many rows in front of a list are newer than all that are shown, by their keys: these wait until somebody asks for them. None where nothing that was shown is left, as then the list begins anew. */
export function newerOf<T>(rows: readonly T[], shown: ReadonlySet<string | number>, keyOf: KeyOf<T>): number {
  return Math.max(0, rows.findIndex((row) => shown.has(keyOf(row))))
}

/** A place in a list: the cursor of a page, and the row that it begins behind; undefined: at the first. */
export interface Mark { cursor: string; after: string | number | undefined }

/** Where the page of a mark begins among the rows; -1: that is not known any more. */
export function beginOf<T>(rows: readonly T[], mark: Mark, keyOf: KeyOf<T>): number {
  if (mark.after === undefined) return 0
  const at = rows.findIndex((row) => keyOf(row) === mark.after)
  return at < 0 ? -1 : at + 1
}

/** The last of the marks that begin at a row or before it. */
export function markFor<T>(rows: readonly T[], marks: readonly Mark[], at: number, keyOf: KeyOf<T>): Mark | undefined {
  let [best, found] = [-1, undefined as Mark | undefined]
  for (const mark of marks) {
    const begin = beginOf(rows, mark, keyOf)
    if (begin > best && begin <= at) [best, found] = [begin, mark]
  }
  return found
}

/** The rows with the next page behind them. */
export function older<T>(held: Held<T>, page: Page<T>, keyOf: KeyOf<T>): Held<T> {
  const there = new Set(held.rows.map(keyOf))
  return { ...held, rows: [...held.rows, ...page.rows.filter((row) => !there.has(keyOf(row)))], cursor: page.cursor, searched: page.searched, deeper: true }
}

/** A list with what waits in front of it: so many of its rows, and more of them where some were left out. */
export interface Waiting<T> { held: Held<T>; waiting: number; more: boolean }

/** Bounds what waits and what is shown, each by itself, so that what waits pushes no row off the end. Of what waits the rows next to those that are shown stay. */
export function bounded<T>(held: Held<T>, waiting: number): Waiting<T> {
  const left = Math.max(0, waiting - waitsMax), rows = held.rows.slice(left)
  waiting -= left
  return { held: { ...held, rows: rows.slice(0, waiting + rowsMax), full: held.full || rows.length - waiting >= rowsMax }, waiting, more: left > 0 }
}

/** Whether rows that were read anew have come as far as those that are shown. */
export function reaches<T>(rows: readonly T[], shown: ReadonlySet<string | number>, keyOf: KeyOf<T>): boolean {
  const first = rows.findIndex((row) => shown.has(keyOf(row)))
  return shown.size === 0 || (first >= 0 && rows.length - first >= shown.size)
}

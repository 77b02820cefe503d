import { expect, test } from 'vitest'
import { beginOf, bounded, type Held, type How, markFor, newerOf, none, older, type Page, reaches, refreshed, renewed, rowsMax, waitsMax } from './held'

const keyOf = (row: string) => row[0]!
/** Rows are words; the first letter is the key. */
const page = (rows: string, cursor?: string): Page<string> => ({ rows: rows ? rows.split(' ') : [], cursor })
const held = (rows: string, cursor?: string): Held<string> => ({ ...none, ...page(rows, cursor), deeper: true })

test('the last page says how far it looked', () => {
  const short = (rows: string, searched?: string) => ({ ...page(rows, 'x'), searched })
  expect(renewed(none, short('c', '03:00'), keyOf, 'stays')?.searched).toBe('03:00')
  const more = older({ ...none, ...short('c', '03:00') }, short('b', '02:00'), keyOf)
  expect(more.searched).toBe('02:00')
  expect(renewed(more, short('d c', '03:10'), keyOf, 'stays')?.searched).toBe('02:00')
  expect(older(more, short('a'), keyOf).searched).toBeUndefined()
})

test.each<[string, Held<string>, Page<string>, How, string | undefined, string | undefined]>([
  ['one page is what is read', { ...none, ...page('c b', 'b') }, page('d c', 'c'), 'stays', 'd c', 'c'],
  ['the row that is pushed off stays in its place', held('d c b a', 'a'), page('e d', 'd'), 'stays', 'e d c b a', 'a'],
  ['a changed row is the new one', held('d c b a', 'a'), page('d2 c', 'c'), 'stays', 'd2 c b a', 'a'],
  ['a row that is gone goes', held('d c b a', 'a'), page('d b', 'b'), 'stays', 'd b a', 'a'],
  ['the first row goes', held('d c b a', 'a'), page('c b', 'b'), 'stays', 'c b a', 'a'],
  ['a new row comes between', held('d c b a', 'a'), page('d x', 'x'), 'stays', 'd x c b a', 'a'],
  ['the page has come to the end of what is held', held('d c b', 'b'), page('b a', 'a'), 'stays', 'b a', 'a'],
  ['the page is the whole list', held('d c b a', 'a'), page('d a'), 'stays', 'd a', undefined],
  ['more new rows than a page: more is read', held('d c b a', 'a'), page('h g', 'g'), 'stays', undefined, undefined],
  ['and with that they meet', held('d c b a', 'a'), page('h g f e d c', 'c'), 'stays', 'h g f e d c b a', 'a'],
  ['a page without a row yet', held('d c', 'c'), page('', 'x'), 'stays', 'd c', 'c'],
  ['the first rows that a search finds', held('', 'x'), page('d c', 'c'), 'stays', 'd c', 'c'],
  ['rows that may move have not', held('d c b a', 'a'), page('d2 c', 'c'), 'moves', 'd2 c b a', 'a'],
  ['a row has moved up: all is read again', held('d c b a', 'a'), page('b d', 'd'), 'moves', undefined, undefined],
  ['a row has moved down', held('d c b a', 'a'), page('d b', 'b'), 'moves', undefined, undefined],
  ['all that is held was read again', held('d c b a', 'a'), page('d b a c', 'c'), 'moves', 'd b a c', 'c'],
  ['anew: the first page is not enough', held('d c b a', 'a'), page('d c', 'c'), 'anew', undefined, undefined],
  ['anew: all pages', held('d c b a', 'a'), page('d c b2 a', 'a'), 'anew', 'd c b2 a', 'a'],
])('%s', (_, before, read, how, rows, cursor) => {
  const after = renewed(before, read, keyOf, how)
  expect(after?.rows.join(' ')).toBe(rows)
  expect(after?.cursor).toBe(cursor)
})

test.each<[string, Held<string>, number, Page<string>, How, string | undefined, string | undefined]>([
  ['a row is changed in its place', held('f e d c b a', 'a'), 2, page('d2 c', 'c'), 'stays', 'f e d2 c b a', 'a'],
  ['a row is gone, and the page has one of the next', held('f e d c b a', 'a'), 2, page('d b', 'b'), 'stays', 'f e d b a', 'a'],
  ['a row comes between', held('f e c b a', 'a'), 2, page('d c', 'c'), 'stays', 'f e d c b a', 'a'],
  ['a row that is not known: the next page says what is behind it', held('f e d c', 'c'), 2, page('d b', 'b'), 'stays', 'f e d b c', 'c'],
  ['it goes beyond what is held', held('f e d', 'd'), 2, page('d b', 'b'), 'stays', 'f e d b', 'b'],
  ['it is the last', held('f e d c', 'c'), 2, page('d'), 'stays', 'f e d', undefined],
  ['nothing is left behind it', held('f e d c', 'c'), 2, page(''), 'stays', 'f e', undefined],
  ['the search has not come to its rows', held('f e d c', 'c'), 2, page('', 'x'), 'stays', 'f e d c', 'c'],
  ['a row before it is not taken twice', held('f e d c', 'c'), 2, page('e d c', 'c'), 'stays', 'f e d c', 'c'],
  ['none of its rows is known', held('f e d c', 'c'), 2, page('b a', 'a'), 'stays', undefined, undefined],
  ['rows that may move have not', held('f e d c b a', 'a'), 2, page('d2 c', 'c'), 'moves', 'f e d2 c b a', 'a'],
  ['rows have moved', held('f e d c b a', 'a'), 2, page('d b', 'b'), 'moves', undefined, undefined],
  ['rows have moved, and it is the last', held('f e d c', 'c'), 2, page('d'), 'moves', undefined, undefined],
])('a page that is read again: %s', (_, before, begin, read, how, rows, cursor) => {
  const after = refreshed(before, begin, read, keyOf, how)
  expect(after?.rows.join(' ')).toBe(rows)
  expect(after?.cursor).toBe(cursor)
})

test('the page of a row is the last that begins before it', () => {
  const rows = ['f', 'e', 'd', 'c', 'b', 'a']
  const marks = [{ cursor: 'd', after: 'd' }, { cursor: 'f', after: 'f' }, { cursor: 'gone', after: 'x' }]
  expect(marks.map((m) => beginOf(rows, m, keyOf))).toEqual([3, 1, -1])
  expect([0, 1, 2, 3, 5].map((at) => markFor(rows, marks, at, keyOf)?.cursor)).toEqual([undefined, 'f', 'f', 'd', 'd'])
})

test.each<[string, string, string, number]>([
  ['nothing is shown yet', '', 'c b a', 0],
  ['nothing is new', 'c b a', 'c b a', 0],
  ['what is in front waits', 'c b a', 'e d c b a', 2],
  ['what comes between does not', 'c a', 'd c b a', 1],
  ['the first row that was shown is gone', 'c b a', 'e d b a', 2],
  ['nothing that was shown is left', 'c b', 'e d', 0],
  ['nothing is left', 'c b', '', 0],
])('of new rows: %s', (_, shown, rows, waiting) => expect(newerOf(page(rows).rows, new Set(page(shown).rows.map(keyOf)), keyOf)).toBe(waiting))

test('a page behind the last row adds those that are not there yet', () => {
  expect(older(held('d c', 'c'), page('c b a', 'a'), keyOf)).toEqual(held('d c b a', 'a'))
  expect(older(held('d c', 'c'), page(''), keyOf)).toEqual(held('d c'))
})

test('more rows than a list holds are left out at its end, and no more are read', () => {
  const many: Held<number> = { rows: Array.from({ length: rowsMax }, (_, i) => i), cursor: 'end', deeper: true, full: true }
  const after = bounded(renewed(many, { rows: [-1, 0], cursor: 'c' }, (n) => n, 'stays')!, 0).held
  expect([after.rows.length, after.rows[0], after.rows.at(-1), after.full]).toEqual([rowsMax, -1, rowsMax - 2, true])
  const fewer = bounded(renewed(after, { rows: [5, 6], cursor: 'c' }, (n) => n, 'stays')!, 0).held
  expect(fewer.full, 'what was left out is not read again').toBe(true)
})

test.each<[string, number, number, { first: number; rows: number; waiting: number; more: boolean; full: boolean }]>([
  ['none waits', 0, 100, { first: 0, rows: 100, waiting: 0, more: false, full: false }],
  ['some wait', 20, 100, { first: 0, rows: 120, waiting: 20, more: false, full: false }],
  ['as many as may wait', waitsMax, 100, { first: 0, rows: 100 + waitsMax, waiting: waitsMax, more: false, full: false }],
  ['more than may wait: the newest are left out', waitsMax + 70, 100, { first: 70, rows: 100 + waitsMax, waiting: waitsMax, more: true, full: false }],
  ['what waits pushes none off the end', waitsMax, rowsMax - 1, { first: 0, rows: rowsMax - 1 + waitsMax, waiting: waitsMax, more: false, full: false }],
  ['only what is shown makes it full', waitsMax + 70, rowsMax, { first: 70, rows: rowsMax + waitsMax, waiting: waitsMax, more: true, full: true }],
  ['what is shown is bounded too', 20, rowsMax + 5, { first: 0, rows: rowsMax + 20, waiting: 20, more: false, full: true }],
])('what a list holds where %s', (_, waiting, shown, want) => {
  const { held, ...rest } = bounded({ ...none, rows: Array.from({ length: waiting + shown }, (_, i) => i) }, waiting)
  expect({ first: held.rows[0], rows: held.rows.length, full: held.full, ...rest }).toEqual(want)
})

test.each<[string, string, string, boolean]>([
  ['nothing is shown yet', '', 'c b', true],
  ['all that is shown is there', 'c b', 'e d c b', true],
  ['newer rows are not enough', 'c b', 'e d', false],
  ['a part is not enough', 'c b a', 'e d c', false],
  ['rows that are gone have others behind them', 'c b', 'd c a', true],
  ['nothing is there', 'c b', '', false],
])('rows that were read anew where %s', (_, shown, rows, want) => expect(reaches(page(rows).rows, new Set(page(shown).rows.map(keyOf)), keyOf)).toBe(want))

/**
 * A list that changes while it is read, and a reader of it: rows neither vanish nor repeat. A test for each ten seeds: the limit on a
 * test's time is for one that hangs, and all of them as one came near it on a busy machine.
 */
test.each(Array.from({ length: 20 }, (_, i) => 10 * i + 1))('a list and its reader, ten seeds from %i', (first) => {
  for (let seed = first; seed < first + 10; seed++) {
    let state = seed
    const below = (n: number) => { state = (state * 48271) % 2147483647; return state % n }
    let list = Array.from({ length: 30 }, (_, i) => 30 - i), newest = 30
    const read = (cursor?: number): Page<number> => {
      const rest = list.filter((n) => cursor === undefined || n < cursor)
      return { rows: rest.slice(0, 5), cursor: rest.length > 5 ? `${rest[4]}` : undefined }
    }
    let h: Held<number> = renewed(none, read(), (n) => n, 'stays')!
    for (let step = 0; step < 30; step++) {
      for (let n = below(9); n > 0; n--) list = [++newest, ...list]
      if (h.cursor && below(2)) h = older({ ...h, deeper: true }, read(Number(h.cursor)), (n) => n)
      let whole = read(), next: Held<number> | undefined
      while (!(next = renewed(h, whole, (n) => n, 'stays'))) {
        const more = read(Number(whole.cursor))
        whole = { rows: [...whole.rows, ...more.rows], cursor: more.cursor }
      }
      h = next
      if (h.rows.length > 8) { // a row behind the first page goes, and its page is read again
        const begin = 5 + below(h.rows.length - 5), gone = h.rows[begin]!
        list = list.filter((n) => n !== gone)
        for (let at = begin; at < h.rows.length;) {
          const page = read(h.rows[at - 1])
          const next: Held<number> = refreshed(h, at, page, (n) => n, 'stays') ?? { ...h, rows: list.slice(0, h.rows.length) }
          h = next
          at = page.cursor ? h.rows.indexOf(Number(page.cursor)) + 1 : h.rows.length
          if (at === 0) break
        }
      }
      if (h.rows.join() !== list.slice(0, h.rows.length).join()) expect(h.rows, `seed ${seed}`).toEqual(list.slice(0, h.rows.length))
    }
  }
})

// What the list of executions holds. Rows never jump: what is newer waits until somebody asks for it.
import { stringify } from '../api/digits'
import type { Execution } from '../api/types'
import { ended, statuses } from '../ui/status'
import type { Column } from '../state/columns'
import type { Key } from '../state/filters'
import { type Mark, markFor } from '../state/held'
import { endKeys, timeKeys } from '../state/range'
import { duration, fields } from '../state/time'

const worker = (v: string) => (/^[^/]+\/[^/]+\/\d+$/.test(v) ? undefined : 'want node/pool/slot')
const label = (v: string) => (/^[^=]+=/.test(v) ? undefined : 'want name=value')
const text = (v: string) => (new TextEncoder().encode(v).length > 200 ? 'want at most 200 bytes' : undefined)
const idPrefix = (v: string) => (/^[0-9a-f]{4,32}$/i.test(v.replaceAll('-', '')) ? undefined : 'want 4 to 32 hexadecimal digits')
const fates = ['retry', 'interrupted', 'taken_back', 'state_lost'] as const

/** How many texts are searched for at once. */
const textsMax = 5

export const keys: readonly Key[] = [
  { name: 'status', many: true, values: statuses },
  { name: 'action', each: true },
  { name: 'pool', each: true },
  { name: 'session', each: true },
  { name: 'worker', each: true, check: worker },
  { name: 'label', each: true, check: label },
  { name: 'error', each: true },
  { name: 'q', each: true, most: textsMax, check: text },
  { name: 'key', each: true },
  { name: 'id_prefix', each: true, check: idPrefix },
  { name: 'was', many: true, values: fates },
  ...timeKeys,
  ...endKeys,
  { name: 'order', values: ['newest', 'oldest'] },
  { name: 'not.status', many: true, values: statuses },
  { name: 'not.action', each: true, empty: true },
  { name: 'not.pool', each: true, empty: true },
  { name: 'not.session', each: true, empty: true },
  { name: 'not.worker', each: true, empty: true, check: worker },
  { name: 'not.label', each: true, check: label },
  { name: 'not.error', each: true },
  { name: 'not.q', each: true, most: textsMax, check: text },
  { name: 'not.key', each: true, empty: true },
  { name: 'not.id_prefix', each: true, check: idPrefix },
  { name: 'not.was', many: true, values: fates },
]

export const columns: readonly Column[] = [
  { name: 'status', label: 'Status', fixed: true, width: 150 },
  { name: 'id', label: 'Execution', fixed: true, width: 140 },
  { name: 'action', label: 'Action' },
  { name: 'version', label: 'Version', off: true, width: 90 },
  { name: 'error', label: 'Error' },
  { name: 'worker', label: 'Worker', width: 152 },
  { name: 'session', label: 'Session', off: true },
  { name: 'labels', label: 'Labels', off: true },
  { name: 'by', label: 'Requested by', off: true },
  { name: 'priority', label: 'Priority', off: true, n: true, width: 84 },
  { name: 'attempt', label: 'Attempt', off: true, n: true, width: 84 },
  { name: 'retries', label: 'Retries', off: true, n: true, width: 84 },
  { name: 'wait', label: 'Wait', n: true, width: 112 },
  { name: 'run', label: 'Run', n: true, width: 112 },
  { name: 'at', label: 'Requested', n: true, width: 140 },
  { name: 'finished', label: 'Ended', off: true, n: true, width: 140 },
]

/** A column of times that has years, in pixels. */
const yearWidth = 172

export const yearOf = (at: string | number, utc: boolean): number => fields(new Date(at), utc)[0]!

/** Columns with the room for the times of rows, which are in the order of their requests: a time of another year has the year. */
export function sized(shown: readonly Column[], rows: readonly Pick<Execution, 'requested_at' | 'finished_at'>[], year: number, utc: boolean): Column[] {
  const ends = [rows[0], rows.at(-1)].flatMap((e) => (e ? [e] : []))
  const other = { at: ends.some((e) => yearOf(e.requested_at, utc) !== year), finished: ends.some((e) => e.finished_at && yearOf(e.finished_at, utc) !== year) }
  return shown.map((c) => ((c.name === 'at' || c.name === 'finished') && other[c.name] ? { ...c, width: yearWidth } : c))
}

/** How many pixels columns need: below that the list is scrolled to the side. */
export const leastOf = (shown: readonly Column[]): number => shown.reduce((sum, c) => sum + (c.width ?? 130), 0)

/** When one is due: at its request, or later, as a delayed retry is. A wait begins here, as in the counts of the node. */
export const dueOf = (e: Pick<Execution, 'requested_at' | 'run_at'>): string => (e.run_at && Date.parse(e.run_at) > Date.parse(e.requested_at) ? e.run_at : e.requested_at)

/** How long one has waited since it was due, or when it is due: in one unit, for a narrow column. */
export function waitOf(e: Pick<Execution, 'requested_at' | 'run_at' | 'started_at' | 'finished_at'>, now: number): string {
  const due = Date.parse(dueOf(e))
  const end = e.started_at ?? e.finished_at
  if (end) return duration(Math.max(0, Date.parse(end) - due))
  if (due <= now) return duration(now - due)
  const unit = [86_400_000, 3_600_000, 60_000].find((u) => due - now >= u) ?? 1000
  return `in ${duration(Math.max(1, Math.round((due - now) / unit)) * unit)}`
}

/** How long before ended_from the API looks at requests, where from says nothing else. */
const endedLife = 86_400_000

/** Since when requests were looked at, in a list of what ended from a time on; undefined: that is said by the range, or all were. */
export function lookedFrom(query: URLSearchParams): string | undefined {
  const ended = query.get('ended_from')
  return ended && !query.get('from') ? new Date(Date.parse(ended) - endedLife).toISOString() : undefined
}

/** How many rows a list holds. */
export const rowsMax = 2000

export interface Rows {
  shown: Execution[]
  newer: Execution[] // above the first shown row, newest first
  cursor: string | undefined // of the page after the last row
  full: boolean
  gap: boolean // there may be more between newer and shown than was read
}

export const none: Rows = { shown: [], newer: [], cursor: undefined, full: false, gap: false }

/** Takes the newest page: changes rows in place, and puts new ones aside. */
export function newest(rows: Rows, page: Execution[], cursor: string | undefined): Rows {
  if (rows.shown.length === 0) return { ...none, shown: page, cursor }
  const fresh = new Map(page.map((e) => [e.id, e]))
  const known = new Set(rows.shown.map((e) => e.id))
  const newer = page.filter((e) => !known.has(e.id) && after(e, rows.shown[0]!))
  return {
    ...rows,
    shown: rows.shown.map((e) => fresh.get(e.id) ?? e),
    newer,
    gap: newer.length === page.length && cursor !== undefined,
  }
}

/** How many rows are followed one by one. */
export const strayedMax = 200

/** Ids of the rows on the screen that go on and that the first page does not have: they are further below, or no longer what the filter wants. One that has ended changes no more. */
export function strayed(drawn: readonly Execution[], page: readonly Execution[]): string[] {
  const there = new Set(page.map((e) => e.id))
  return drawn.filter((e) => !ended(e.status) && !there.has(e.id)).slice(0, strayedMax).map((e) => e.id)
}

/** How many pages are read at once for rows on the screen, and how many executions one by one that none of these has. */
const pagesAtOnce = 3, singlesAtOnce = 20

type Marks = readonly Mark[]

/**
 * Reads anew executions that a list has, with the pages that they are of, by the last marks before them. One that no page has any more, as it no
 * longer fits the filters, is read by itself: of these the first ones, from a place on that is next the next time. Read gets more filters. The answer has the marks behind the pages.
 */
export async function reread(ids: readonly string[], shown: readonly Execution[], marks: Marks, from: number, read: (more: Record<string, string>, whole: boolean) => Promise<{ executions: Execution[]; next_cursor?: string }>): Promise<{ rows: Execution[]; marks: Marks; next: number }> {
  const rows: Execution[] = [], places = ids.map((id) => shown.findIndex((e) => e.id === id))
  const learnt: Mark[] = []
  let left = places.filter((place) => place >= 0)
  for (let n = 0; n < pagesAtOnce && left.length; n++) {
    const mark = markFor(shown, [...marks, ...learnt], left[0]!, idOf)
    if (!mark) break
    const page = await read({ cursor: mark.cursor }, true)
    rows.push(...page.executions)
    const last = page.executions.at(-1)
    if (!last || !page.next_cursor) break
    if (!shown.some((e) => e.id === last.id)) break // it is not known where the next page begins
    learnt.push({ cursor: page.next_cursor, after: last.id })
    const end = shown.findIndex((e) => e.id === last.id)
    left = left.filter((place) => place > end)
  }
  const there = new Set(rows.map(idOf))
  const missing = ids.filter((id) => !there.has(id))
  const begin = missing.length > singlesAtOnce ? from % missing.length : 0
  const singles = [...missing.slice(begin), ...missing.slice(0, begin)].slice(0, singlesAtOnce)
  for (const id of singles) rows.push(...(await read({ id_prefix: id, limit: '1' }, false)).executions)
  return { rows, marks: learnt, next: begin + singles.length }
}

const idOf = (e: Execution) => e.id

/** Marks with more of them, the newest of each place and not too many. */
export const marked = (marks: Marks, more: Marks): Marks => [...marks.filter((m) => more.every((x) => x.after !== m.after)), ...more].slice(-2 * Math.ceil(rowsMax / 100))

/** Whether a row of an execution has other values than the execution as it was. A row has less of it, and of its error only a part. */
export function differs(was: Execution, row: Execution): boolean {
  return Object.entries(row).some(([name, value]) => name !== 'error' && JSON.stringify(value) !== JSON.stringify(was[name as keyof Execution]))
}

/** Changes rows in place. */
export function renewed(rows: Rows, list: readonly Execution[]): Rows {
  const fresh = new Map(list.map((e) => [e.id, e]))
  return { ...rows, shown: rows.shown.map((e) => fresh.get(e.id) ?? e) }
}

/** Takes the first page of a list with the oldest first: what is new stands at its end. */
export function oldest(rows: Rows, page: Execution[], cursor: string | undefined): Rows {
  const fresh = new Map(page.map((e) => [e.id, e]))
  const kept = { ...rows, shown: rows.shown.map((e) => fresh.get(e.id) ?? e) }
  return older(kept, page, rows.shown.length > page.length ? rows.cursor : cursor)
}

// Ids are made by time; what is older than the first row was filtered out before, and has changed since.
const after = (a: Execution, b: Execution) => a.requested_at > b.requested_at || (a.requested_at === b.requested_at && a.id > b.id)

/** Shows what is newer. If more may have come than was read, the list begins anew. */
export function take(rows: Rows, cursor: string | undefined): Rows {
  if (rows.gap) return { ...none, shown: rows.newer, cursor }
  const shown = [...rows.newer, ...rows.shown]
  return { ...rows, shown: shown.slice(0, rowsMax), newer: [], full: rows.full || shown.length > rowsMax }
}

/** Adds an older page below. */
export function older(rows: Rows, page: Execution[], cursor: string | undefined): Rows {
  const known = new Set(rows.shown.map((e) => e.id))
  const shown = [...rows.shown, ...page.filter((e) => !known.has(e.id))]
  return { ...rows, shown: shown.slice(0, rowsMax), cursor, full: shown.length >= rowsMax }
}

/** Rows as lines of JSON or as CSV, for programs. */
export function exported(rows: readonly Execution[], as: 'ndjson' | 'csv'): string {
  if (as === 'ndjson') return rows.map((e) => stringify(e) + '\n').join('')
  const columns = ['id', 'status', 'action_ref', 'pool', 'worker', 'session', 'attempt', 'requested_at', 'started_at', 'finished_at', 'duration_ms'] as const
  // A text that a spreadsheet would take for a formula begins with an apostrophe.
  const cell = (value: unknown) => {
    const text = String(value ?? '').replace(/^[=+\-@\t]/, "'$&")
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
  }
  const lines = rows.map((e) => [...columns.map((c) => e[c]), e.error?.code].map(cell).join(','))
  return [[...columns, 'error'].join(','), ...lines].join('\r\n') + '\r\n'
}

// The time that a page shows. It stands in the query as from and to: times, or for "from" an age such as -6h, which is counted back from the end.
import { chipsOf, type Chip, type Key } from './filters'
import { fields, two, zone } from './time'

export interface Span {
  from: number
  to: number
  /** It ends now. */
  live: boolean
}

export const ages = [['-15min', '15 min'], ['-1h', '1 h'], ['-6h', '6 h'], ['-24h', '24 h'], ['-7d', '7 d'], ['-30d', '30 d']] as const

/** The longest range, in milliseconds. */
export const rangeMax = 92 * 86_400_000

const units: Record<string, number> = { s: 1000, min: 60_000, h: 3_600_000, d: 86_400_000 }
const moment = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/

/** The length of an age, in milliseconds; undefined: it is none. */
export function lengthOf(text: string): number | undefined {
  const [, n, unit] = /^-(\d{1,6})(s|min|h|d)$/.exec(text) ?? []
  const length = n && unit ? Number(n) * units[unit]! : 0
  return length > 0 && length <= rangeMax ? length : undefined
}

export const isMoment = (v: string) => moment.test(v) && !Number.isNaN(Date.parse(v))

/** Why a text is no time; undefined: it is one. */
export function momentOr(v: string): string | undefined {
  return isMoment(v) ? undefined : 'want a time, as 2030-01-31T08:00:00Z'
}

/** Why a text is neither a time nor an age; undefined: it is one of them. */
function fromOr(v: string): string | undefined {
  if (isMoment(v) || lengthOf(v)) return undefined
  if (/^-0*[1-9]\d*(s|min|h|d)$/.test(v)) return `want an age of at most ${rangeMax / units.d!} d, or a time, as 2030-01-31T08:00:00Z`
  return 'want a time, as 2030-01-31T08:00:00Z, or an age, as -6h'
}

/** The filters of a time. They are shown by the range, and as chips only where they are wrong. */
export const timeKeys: readonly Key[] = [
  { name: 'from', quiet: true, check: fromOr },
  { name: 'to', quiet: true, check: momentOr },
]

/** The filters of when something ended: times, which are shown as chips. What did not end from a time on ended before it. */
export const endKeys: readonly Key[] = [{ name: 'ended_from', turns: 'ended_to', check: momentOr }, { name: 'ended_to', turns: 'ended_from', check: momentOr }]

/** The filters of a list of what is now: its range says only when that is. */
export const timeless = (chips: readonly Chip[]): Chip[] => chips.filter((c) => c.wrong !== undefined || !timeKeys.some((k) => k.name === c.key))

/** A time for the API, with whole seconds. */
export const stamp = (ms: number): string => new Date(ms).toISOString().replace(/\.\d+Z$/, 'Z')

/** The range of a query; undefined: it has no beginning, of all times or of all before its end. What is wrong counts as left out. */
export function spanOf(query: URLSearchParams, now: number, otherwise?: string): Span | undefined {
  const [from, to] = [query.get('from') ?? '', query.get('to') ?? '']
  const end = isMoment(to) ? Date.parse(to) : now
  const live = !isMoment(to)
  if (isMoment(from)) return { from: Math.min(Date.parse(from), end), to: end, live }
  const length = lengthOf(from) ?? lengthOf(otherwise ?? '')
  if (length) return { from: end - length, to: end, live }
  return undefined
}

/** When the range of a query ends, if that is past. */
export function endOf(query: URLSearchParams, now: number): number | undefined {
  const to = query.get('to') ?? ''
  return isMoment(to) && Date.parse(to) < now ? Date.parse(to) : undefined
}

/** The range of a query alone, for a link that keeps it. */
export const rangeOf = (query: URLSearchParams): URLSearchParams => new URLSearchParams([...query].filter(([name]) => name === 'from' || name === 'to'))

/** The range that a query itself has, without what is wrong: nothing where it has none. */
export const rangeGiven = (query: URLSearchParams): [name: string, value: string][] => chipsOf(rangeOf(query), timeKeys).filter((c) => !c.wrong).map((c) => [c.key, c.value])

/** The range of a query as the API is asked for it: an age stays one as long as the range ends now. */
export function askedSpan(query: URLSearchParams, otherwise: string): { from: string; to?: string } {
  const from = query.get('from') ?? ''
  const { from: since, to: until, live } = spanOf(query, 0, otherwise)!
  if (!live) return { from: stamp(since), to: stamp(until) }
  return { from: isMoment(from) || lengthOf(from) ? from : otherwise }
}

/** The same query with times in the place of an age. */
export function timed(query: URLSearchParams, now: number): URLSearchParams {
  const next = new URLSearchParams(query)
  const length = lengthOf(query.get('from') ?? '')
  if (!length) return next
  const to = query.get('to') ?? ''
  next.set('from', stamp((isMoment(to) ? Date.parse(to) : now) - length))
  return next
}

/** A path of the API with times in the place of an age. */
export function timedPath(path: string, now: number): string {
  const mark = path.indexOf('?')
  if (mark < 0 || !/[?&]from=-/.test(path)) return path
  const query = timed(new URLSearchParams(path.slice(mark + 1)), now)
  return `${path.slice(0, mark)}?${query.toString().replaceAll('%3A', ':').replaceAll('%2C', ',').replaceAll('%2F', '/')}`
}

/** Filters with times in the place of an age. */
export function timedChips(chips: readonly Chip[], now: number): Chip[] {
  const query = timed(new URLSearchParams(chips.filter((c) => !c.wrong && (c.key === 'from' || c.key === 'to')).map((c) => [c.key, c.value])), now)
  return chips.map((c) => (c.wrong || c.key !== 'from' ? c : { ...c, value: query.get('from') ?? c.value }))
}

/** An address that shows the same to somebody else later: both ends of its range are times. One without a beginning stays without it, and one that has not begun as it is. */
export function lasting(href: string, now: number, otherwise?: string): string {
  const url = new URL(href)
  const span = spanOf(url.searchParams, now, otherwise)
  if (!span || span.from >= span.to) return href
  url.searchParams.set('from', stamp(span.from))
  url.searchParams.set('to', stamp(span.to))
  return url.href.replaceAll('%3A', ':').replaceAll('%2C', ',').replaceAll('%2F', '/')
}

/** What a range is called. */
export function nameOf(query: URLSearchParams, now: number, utc: boolean, otherwise?: string, none = 'All times'): string {
  const [from, to] = [query.get('from') ?? '', query.get('to') ?? '']
  const age = lengthOf(from) ? from : !from ? otherwise ?? '' : ''
  if (age && !to) return `Last ${ages.find(([a]) => a === age)?.[1] ?? age.slice(1)}`
  const span = spanOf(query, now, otherwise)
  if (!span) return isMoment(to) ? `${none === 'Now' ? 'At' : 'Until'} ${fieldOf(Date.parse(to), utc).replace('T', ' ')}` : none
  const [a, b] = [fieldOf(span.from, utc), fieldOf(span.to, utc)]
  return `${a.replace('T', ' ')} to ${span.live ? 'now' : a.slice(0, 10) === b.slice(0, 10) ? b.slice(11) : b.replace('T', ' ')}`
}

/** A time as a field for times has it, in the zone of the page. */
export function fieldOf(ms: number, utc: boolean): string {
  const [y, m, d, h, min, s] = fields(new Date(ms), utc)
  return `${String(y).padStart(4, '0')}-${two(m!)}-${two(d!)}T${two(h!)}:${two(min!)}:${two(s!)}`
}

/** Reads a field for times; undefined: it has none. */
export function fieldTime(text: string, utc: boolean): number | undefined {
  if (!/^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?$/.test(text)) return undefined
  const at = Date.parse(utc ? `${text}Z` : text)
  return Number.isNaN(at) ? undefined : at
}

/** The zone in which a page shows times. */
export const zoneOf = (ms: number, utc: boolean): string => (utc ? 'UTC' : `UTC${zone(new Date(ms))}`)

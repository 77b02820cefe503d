// Times and durations in words. Every function takes its "now".

/** A duration with two figures that matter: 840 ms, 1.2 s, 3 min 5 s, 2 d 4 h. */
export function duration(ms: number): string {
  if (!Number.isFinite(ms)) return '–'
  if (ms < 0) return `−${duration(-ms)}`
  if (ms < 1) return ms === 0 ? '0 s' : ms < 0.005 ? '< 0.01 ms' : `${ms.toFixed(2)} ms`
  if (ms < 999.5) return `${ms < 9.95 ? ms.toFixed(1) : Math.round(ms)} ms`
  if (ms < 59_950) return `${ms < 9_950 ? (ms / 1000).toFixed(1) : Math.round(ms / 1000)} s`
  const units: [string, number][] = [['d', 86_400_000], ['h', 3_600_000], ['min', 60_000], ['s', 1000]]
  const at = units.findIndex(([, size]) => Math.round(ms / 1000) * 1000 >= size)
  const [name, size] = units[at]!
  const small = units[at + 1]
  let whole = Math.floor(ms / size)
  if (!small) return `${whole} ${name}`
  let rest = Math.round((ms - whole * size) / small[1])
  if (rest * small[1] >= size) [whole, rest] = [whole + 1, 0]
  return rest ? `${whole} ${name} ${rest} ${small[0]}` : `${whole} ${name}`
}

export function ms(from: string | undefined, to: string | number | undefined): number {
  if (from === undefined || to === undefined) return NaN
  return (typeof to === 'number' ? to : Date.parse(to)) - Date.parse(from)
}

/** A time of an answer; undefined: there is none. Where a node has no time, it may write the year 1 for that. */
export const known = (at: string | undefined): string | undefined => (at && !/^0*1-01-01T00:00:00/.test(at) ? at : undefined)

/** How long ago a time was. */
export function age(at: string, now: number): string {
  const since = now - Date.parse(at)
  return since <= -1000 ? `in ${duration(-since)}` : since < 1000 ? 'now' : `${duration(since)} ago`
}

/** How old data is, in a word or two: what is asked for every few seconds is of now. */
export const oldOf = (ms: number): string => (ms < 5000 ? 'now' : `${duration(ms)} old`)

export const two = (n: number) => String(n).padStart(2, '0')

/** The time of day, with the date if that is another day than now's, or than that of the beginning beside which it stands as an end. */
export function clock(at: string, now: number, utc: boolean, from?: string): string {
  const [y, m, d, h, min, s] = fields(new Date(at), utc)
  const [ny, nm, nd] = fields(new Date(now), utc)
  const time = `${two(h!)}:${two(min!)}:${two(s!)}`
  const [by, bm, bd] = from ? fields(new Date(from), utc) : [y, m, d]
  if (y === ny && m === nm && d === nd && y === by && m === bm && d === bd) return time
  return `${y === ny ? '' : `${y}-`}${two(m!)}-${two(d!)} ${time}`
}

/** The whole time with its zone, for titles. */
export function whole(at: string, utc: boolean): string {
  const date = new Date(at)
  const [y, m, d, h, min, s] = fields(date, utc)
  const fraction = String(date.getUTCMilliseconds()).padStart(3, '0')
  return `${y}-${two(m!)}-${two(d!)} ${two(h!)}:${two(min!)}:${two(s!)}.${fraction} ${utc ? 'UTC' : zone(date)}`
}

/** The time of day, with milliseconds. */
export function moment(at: string, utc: boolean): string {
  const date = new Date(at)
  const [, , , h, min, s] = fields(date, utc)
  return `${two(h!)}:${two(min!)}:${two(s!)}.${String(date.getUTCMilliseconds()).padStart(3, '0')}`
}

export function fields(d: Date, utc: boolean): number[] {
  return utc
    ? [d.getUTCFullYear(), d.getUTCMonth() + 1, d.getUTCDate(), d.getUTCHours(), d.getUTCMinutes(), d.getUTCSeconds()]
    : [d.getFullYear(), d.getMonth() + 1, d.getDate(), d.getHours(), d.getMinutes(), d.getSeconds()]
}

export function zone(d: Date): string {
  const min = -d.getTimezoneOffset()
  return `${min < 0 ? '−' : '+'}${two(Math.floor(Math.abs(min) / 60))}:${two(Math.abs(min) % 60)}`
}

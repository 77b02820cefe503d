// How the console looks, for this browser. It is kept there; it is nothing secret.

export const themes = ['system', 'light', 'dark', 'contrast'] as const
export type Theme = (typeof themes)[number]

function kept(name: string, values: readonly string[]): string {
  try {
    const value = localStorage.getItem(`troupe.${name}`)
    if (value && values.includes(value)) return value
  } catch { /* storage may be closed to this page */ }
  return values[0]!
}

/** The longest text that is read from the storage. */
const keptMax = 500

function keptText(name: string): string {
  try {
    return (localStorage.getItem(`troupe.${name}`) ?? '').slice(0, keptMax)
  } catch {
    return ''
  }
}

function keep(name: string, value: string): void {
  try {
    if (value) localStorage.setItem(`troupe.${name}`, value)
    else localStorage.removeItem(`troupe.${name}`)
  } catch { /* then it lasts as long as the page */ }
}

let theme = $state(kept('theme', themes) as Theme)
let rows = $state(kept('rows', ['comfortable', 'compact']))
let keys = $state(kept('keys', ['on', 'off']))
let zone = $state(kept('zone', ['local', 'utc']))
let columns = $state.raw<Readonly<Record<string, string>>>({})

export const look = {
  get theme() { return theme },
  set theme(value) { theme = value; keep('theme', value); look.apply() },
  get rows() { return rows },
  set rows(value) { rows = value; keep('rows', value); look.apply() },
  get keys() { return keys === 'on' },
  set keys(value) { keys = value ? 'on' : 'off'; keep('keys', keys) },
  get utc() { return zone === 'utc' },
  set utc(value) { zone = value ? 'utc' : 'local'; keep('zone', zone) },
  /** How the columns of a list differ from what it shows without a choice. */
  columns(list: string): string { return columns[list] ?? keptText(`columns.${list}`) },
  setColumns(list: string, differ: string): void { columns = { ...columns, [list]: differ }; keep(`columns.${list}`, differ) },
  apply(): void {
    document.documentElement.dataset.theme = theme
    document.documentElement.dataset.rows = rows
  },
}

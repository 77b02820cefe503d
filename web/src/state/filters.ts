// The filters of a list, as chips. They stand in the query; a key or value that the API does not take becomes a chip that says so.
import { views } from './views'

export interface Key {
  name: string
  many?: boolean // values joined with commas, or-ed
  each?: boolean // may be repeated
  values?: readonly string[]
  check?: (value: string) => string | undefined
  empty?: boolean // takes an empty value, of what has none
  most?: number // how many values it takes; by default as many as the API takes of any
  quiet?: boolean // shown elsewhere on the page, and as a chip only where it is wrong
  names?: string // what completes it, where that are not the names of the key's own name
  turns?: string // the key that says the opposite, where that is not the one with not.
}

export interface Chip { key: string; value: string; wrong?: string }

/** So many values the API takes of one key. */
const valuesMax = 20

/** Whether it is what a page has open: no filter. */
const isView = (name: string, value: string): boolean => value.split(',').every((part) => views.some((v) => v.name === name && v.values.includes(part)))

/** Reads the chips of a query. */
export function chipsOf(query: URLSearchParams, keys: readonly Key[]): Chip[] {
  const chips: Chip[] = []
  const seen = new Map<string, Set<string>>()
  for (const [name, text] of query) {
    const view = views.find((v) => v.name === name)
    if (view) {
      if (!isView(name, text)) chips.push({ key: name, value: text, wrong: `want one of ${view.values.join(', ')}` })
      continue
    }
    const key = keys.find((k) => k.name === name)
    const values = key?.many ? text.split(',').filter(Boolean) : [text]
    for (const value of values.length ? values : ['']) {
      const chip: Chip = { key: name, value }
      const wrong = wrongOf(chip, key, seen)
      if (wrong) chip.wrong = wrong
      chips.push(chip)
    }
  }
  return chips
}

/** Seen has the values of each key that were taken before. */
function wrongOf(chip: Chip, key: Key | undefined, seen: Map<string, Set<string>>): string | undefined {
  if (!key) return 'there is no such filter here'
  if (key.values && !key.values.includes(chip.value)) return `want one of ${key.values.join(', ')}`
  const several = key.many || key.each, most = key.most ?? valuesMax
  const wrong = chip.value === '' && key.empty ? undefined : key.check?.(chip.value) ?? (chip.value === '' ? 'want a value' : undefined)
  if (several && wrong) return wrong // it is not sent, and takes no other one's place
  const before = seen.get(key.name) ?? new Set()
  if (!several && before.size) return `one ${key.name} at a time`
  if (before.size >= most && !before.has(chip.value)) return `at most ${most} of ${key.name} at a time`
  seen.set(key.name, before.add(chip.value))
  return wrong
}

/** The key that has what a chip's key leaves out; undefined: there is none, it has its one value, or there is nothing to turn. */
export function turnedOf(chip: Chip, chips: readonly Chip[], keys: readonly Key[]): string | undefined {
  const name = keys.find((k) => k.name === chip.key)?.turns ?? (chip.key.startsWith('not.') ? chip.key.slice(4) : `not.${chip.key}`)
  const key = keys.find((k) => k.name === name)
  if (!key || chip.value === '' || (!key.many && !key.each && chips.some((c) => c.key === name))) return undefined
  return name
}

/** Writes chips into a query, in their order, and keeps what is no filter. Values that are joined stand where the first of them does. */
export function withChips(query: URLSearchParams, chips: readonly Chip[], keys: readonly Key[]): URLSearchParams {
  const next = new URLSearchParams()
  for (const chip of chips) {
    const joined = keys.find((k) => k.name === chip.key)?.many ? (next.get(chip.key) ?? '').split(',').filter(Boolean) : undefined
    if (joined && !joined.includes(chip.value)) next.set(chip.key, [...joined, chip.value].filter(Boolean).join(','))
    else if (!joined && !next.getAll(chip.key).includes(chip.value)) next.append(chip.key, chip.value)
  }
  for (const { name } of views) {
    const value = query.get(name)
    if (value !== null && isView(name, value)) next.set(name, value)
  }
  return next
}

/** Reads "key:value" as people type it. */
export function chipOf(text: string): Chip | undefined {
  const [, key, value] = /^\s*([\w.]+)\s*[:=]\s*(\S.*?)\s*$/.exec(text) ?? []
  return key && value ? { key, value } : undefined
}

/** How an id begins, with its dashes or without: so many digits are hardly a text that is looked for. */
const idStart = /^[0-9a-f]{8}(?:[0-9a-f]{0,24}|(?:-[0-9a-f]{4}){0,2}-[0-9a-f]{0,4}|(?:-[0-9a-f]{4}){3}-[0-9a-f]{0,12})$/i

/** The chip that somebody has typed. Where a list can be searched for a text, what names none of its keys is that text, or the beginning of an id. A key alone is no chip yet. */
export function typedChip(text: string, keys: readonly Key[]): Chip | undefined {
  const chip = chipOf(text)
  if (!chip && keyIn(text, keys)) return undefined
  if (keys.some((k) => k.name === 'id_prefix') && idStart.test(text.trim())) return { key: 'id_prefix', value: text.trim() }
  const searched = keys.some((k) => k.name === 'q') && text.trim() !== ''
  return searched && !keys.some((k) => k.name === chip?.key) ? { key: 'q', value: text.trim() } : chip
}

/** Whether a chip is shown: what is shown elsewhere on the page is a chip only where it is wrong. */
export const isShown = (chip: Chip, keys: readonly Key[]): boolean => chip.wrong !== undefined || !keys.find((k) => k.name === chip.key)?.quiet

/** How many filters are set, in words. */
export function countOf(chips: readonly Chip[], keys: readonly Key[]): string {
  const shown = chips.filter((c) => isShown(c, keys))
  const wrong = shown.filter((c) => c.wrong !== undefined).length
  return `Filters: ${shown.length - wrong || 'none'} set${wrong ? `, ${wrong} wrong` : ''}`
}

/** What a list without rows says of its filters, and what to do; undefined: it has none. What is a thing of the list. */
export function emptyOf(what: string, chips: readonly Chip[]): string | undefined {
  const taken = chips.filter((c) => !c.wrong && c.key !== 'order' && c.key !== 'by')
  const timed = taken.some((c) => c.key === 'from' || c.key === 'to')
  if (taken.length === 0) return undefined
  if (taken.every((c) => c.key === 'from' || c.key === 'to')) return `No ${what} is of this time. Choose another one at the top.`
  return `No ${what} has all of these filters${timed ? ' in this time. Remove one, or choose another time' : '. Remove one'}.`
}

/** The parameters for the API: the chips that it takes, each value once. */
export function asked(chips: readonly Chip[]): URLSearchParams {
  const params = new URLSearchParams()
  for (const chip of chips) if (!chip.wrong && !params.getAll(chip.key).includes(chip.value)) params.append(chip.key, chip.value)
  return params
}

/** So many proposals are made at once. */
export const proposalsMax = 12

/** So much of a text without a key finds values. */
const foundFrom = 2

/** The names that complete a key: the same for what it has and for what it leaves out. */
export const namesOf = (key: Key): string => key.names ?? key.name.replace(/^not\./, '')

/** The key whose value is typed; undefined: none yet. */
export const keyIn = (text: string, keys: readonly Key[]): Key | undefined => {
  const [, name] = /^\s*([\w.]+):/.exec(text) ?? []
  return keys.find((k) => k.name === name)
}

/** What could complete a text: values of the key that it has, or else keys, and then values of any of them. */
export function completions(text: string, keys: readonly Key[], known: Record<string, readonly string[]> = {}): string[] {
  const values = (key: Key, typed: string) => matching(key.values ?? known[namesOf(key)] ?? [], typed).map((v) => `${key.name}:${v}`)
  const key = keyIn(text, keys)
  if (key) return values(key, text.slice(text.indexOf(':') + 1)).filter((v) => v !== text.trim()).slice(0, proposalsMax)
  const typed = text.trim()
  const named = keys.filter((k) => k.name.startsWith(typed.toLowerCase())).map((k) => `${k.name}:`)
  const found = typed.length < foundFrom ? [] : keys.filter((k) => !k.name.startsWith('not.')).flatMap((k) => values(k, typed))
  return [...named, ...found].slice(0, proposalsMax)
}

/** The values that have a text: what begins with it first. */
function matching(values: readonly string[], typed: string): string[] {
  const low = typed.trim().toLowerCase()
  const places = values.map((v) => v.toLowerCase().indexOf(low))
  return [...values.filter((_, i) => places[i] === 0), ...values.filter((_, i) => places[i]! > 0)].slice(0, proposalsMax)
}

// What a page shows, as a command for the command line.
import { quote } from '../api/client'
import type { Chip, Key } from './filters'
import { timedChips } from './range'

/** The flags of filters that are called otherwise than in an address. */
const flags: Record<string, string> = { from: 'since', to: 'until', ended_from: 'ended-since', ended_to: 'ended-until', id_prefix: 'id', q: 'text' }

/** What only some verbs have. */
export interface Verb {
  /** Flags of this verb alone. */
  flags?: Readonly<Record<string, string>>
  /** Filters that are flags without a value: the flag of each value, '' where it needs none. */
  switches?: Readonly<Record<string, Readonly<Record<string, string>>>>
}

/** The command that shows what filters leave. Values of one key that may be joined are joined, and an age becomes a time. */
export function commandOf(verb: string, chips: readonly Chip[], keys: readonly Key[], now: number, more: Verb = {}): string {
  const parts = [`troupe ${verb}`]
  const done = new Set<string>()
  for (const { key, value, wrong } of timedChips(chips, now)) {
    if (wrong || done.has(key)) continue
    const turned = more.switches?.[key]
    if (turned) {
      if (turned[value]) parts.push(`--${turned[value]}`)
      continue
    }
    const joined = keys.find((k) => k.name === key)?.many && !key.startsWith('not.')
    if (joined) done.add(key)
    const values = joined ? chips.filter((c) => c.key === key && !c.wrong).map((c) => c.value).join(',') : value
    const [, not = '', name = ''] = /^(not\.)?(.*)$/.exec(key)!
    parts.push(`--${more.flags?.[key] ?? (not ? 'not-' : '') + (flags[name] ?? name)} ${quote(values)}`)
  }
  return parts.join(' ')
}

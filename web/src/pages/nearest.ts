// The entries of the journal that stand nearest to a time. The journal is read from its newest entry back: what was before the time comes as it is wanted, and what was after it is searched in windows that grow.
import type { JournalEntry } from '../api/types'
import { around } from './changes'

/** How many entries are shown of each side, and how many an answer has at most. */
export const sideMax = 25, answerMax = 500

/** How long after the time the windows reach, in milliseconds. The last one is all that is looked at. */
export const windows: readonly number[] = [2_000, 15_000, 60_000, around]

/** Which window is asked for. Full is one that has more entries than an answer: no larger one is asked for again. */
export interface Search { window: number; full?: number }

/** The window to ask for after an answer; the same one: the answer serves. */
export function searched(s: Search, entries: number, more: boolean): Search {
  if (more && s.window > 0) return { window: s.window - 1, full: s.window }
  if (!more && entries < sideMax && s.window + 1 < (s.full ?? windows.length)) return { ...s, window: s.window + 1 }
  return s
}

interface Side { entries: readonly JournalEntry[]; more: boolean }

/** What is shown of both sides, newest first, and whether something of the whole time is, or may be, left out. */
export function nearest(before: Side, after: Side, s: Search): { shown: JournalEntry[]; left: boolean } {
  const whole = !before.more && before.entries.length <= sideMax && !after.more && after.entries.length <= sideMax && s.window === windows.length - 1
  return { shown: [...after.entries.slice(-sideMax), ...before.entries.slice(0, sideMax)], left: !whole }
}

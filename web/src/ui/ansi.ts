// The colours that programs write for terminals, as classes of the page: its own colours are readable in every theme.
import { parseAnsiSequences } from 'ansi-sequence-parser'
import { plain } from './text'

export interface Span { text: string; look: string }

type Token = ReturnType<typeof parseAnsiSequences>[number]

const colours: Record<string, string> = { black: 'ansi-dim', red: 'ansi-red', green: 'ansi-green', yellow: 'ansi-yellow', blue: 'ansi-blue', magenta: 'ansi-magenta', cyan: 'ansi-cyan', white: 'ansi-plain' }
const weights = ['bold', 'italic', 'underline', 'strikethrough'] as const
/** A line with more parts is shown without colours. */
const spansMax = 1000

// What sets a colour or a weight; plain removes all other escapes.
const looks = /\u001b\[[0-9;]*m/g

/** The parts of a line that look alike. Colours that have no name, and what hides or turns text, are left out. */
export function spans(line: string): Span[] {
  if (!line.includes('\u001b') || (line.match(looks)?.length ?? 0) > spansMax) return [{ text: plain(line), look: '' }]
  let from = 0, kept = ''
  for (const look of line.matchAll(looks)) {
    kept += plain(line.slice(from, look.index)) + look[0]
    from = look.index + look[0].length
  }
  kept += plain(line.slice(from))
  return parseAnsiSequences(kept).filter((t) => t.value).map((t) => ({ text: t.value, look: lookOf(t) }))
}

function lookOf(t: Token): string {
  const of: string[] = weights.filter((w) => t.decorations.has(w)).map((w) => `ansi-${w}`)
  if (t.foreground?.type === 'named') {
    const name = t.foreground.name.replace(/^bright(.)/, (_, c: string) => c.toLowerCase())
    of.push(t.foreground.name === 'brightBlack' ? 'ansi-dim' : colours[name]!)
  } else if (t.decorations.has('dim')) of.push('ansi-dim')
  return of.join(' ')
}

import { describe, expect, it } from 'vitest'
import { spans } from './ansi'

const esc = '\u001b'

describe('spans', () => {
  for (const [line, want] of [
    ['plain', [['plain', '']]],
    ['', [['', '']]],
    [`a ${esc}[31mred${esc}[0m b`, [['a ', ''], ['red', 'ansi-red'], [' b', '']]],
    [`${esc}[1;92mOK${esc}[22m ok`, [['OK', 'ansi-bold ansi-green'], [' ok', 'ansi-green']]],
    [`${esc}[90mdim${esc}[m`, [['dim', 'ansi-dim']]],
    [`${esc}[2mfaint`, [['faint', 'ansi-dim']]],
    // Colours without a name, and what hides text or turns it, change nothing.
    [`${esc}[38;5;196mtable${esc}[38;2;1;2;3mrgb${esc}[8mhidden${esc}[7mturned`, [['table', ''], ['rgb', ''], ['hidden', ''], ['turned', '']]],
    // Moves of the cursor and titles are removed, also within a colour.
    [`${esc}[2K${esc}]0;title\u0007a${esc}[33m${esc}[1Ab${esc}[K`, [['a', ''], ['b', 'ansi-yellow']]],
    [`${esc}[31`, [[`${esc}[31`, '']]],
    ['<b>', [['<b>', '']]],
  ] as [string, [string, string][]][]) {
    it(JSON.stringify(line), () => expect(spans(line).map((s) => [s.text, s.look])).toEqual(want))
  }
  it('is bounded', () => expect(spans(`${esc}[31mx${esc}[0m`.repeat(600))).toEqual([{ text: 'x'.repeat(600), look: '' }]))
})

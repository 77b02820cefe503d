import { expect, it } from 'vitest'
import { shiftOf } from './within'

it('moves a menu into the window', () => {
  for (const [left, right, width, want] of [
    [100, 290, 360, 0], [14, 346, 360, 0],
    [-88, 102, 360, 102], [-82, 108, 800, 96], [5, 195, 360, 9],
    [300, 490, 360, -144], // beyond the right edge
    [50, 550, 360, -36], [-10, 600, 360, 24], // too wide: from the left edge on
  ] as const) expect(shiftOf(left, right, width)).toBe(want)
})

import { describe, expect, it } from 'vitest'
import { axis, type Stretch } from './axis'

const hour = 3600e3
/** Stretches of these lengths, one behind the other; a negative one is idle. */
function of(...lengths: number[]): Stretch[] {
  let at = 0
  return lengths.map((n) => ({ a: at, b: (at += Math.abs(n)), idle: n < 0 }))
}
const widths = (s: Stretch[]) => axis(s, 1000).map((p) => [Math.round(p.w), p.folded ? 'folded' : ''].filter(Boolean).join(' '))

describe('axis', () => {
  for (const [what, stretches, want] of [
    ['one stretch', of(100), ['1000']],
    ['one scale for all that can be read', of(250, 500, 250), ['1000']],
    ['a short wait before a long run', of(10, 52_000), ['100', '900']],
    ['a long run is never folded', of(10, 3, 10 * hour), ['100', '100', '800']],
    ['a long wait before a short run', of(hour, 50), ['900', '100']],
    ['a long idle wait is folded', of(50, -hour, 50), ['400', '200 folded', '400']],
    ['a short idle wait is not', of(50, -100, 50), ['1000']],
    ['an idle wait alone is not', of(-hour), ['1000']],
    ['an idle wait with short stretches', of(1, -hour, 2000), ['80', '200 folded', '720']],
    ['many short ones take a half', of(...Array.from({ length: 20 }, () => 1), hour), [...Array.from({ length: 20 }, () => '24'), '524']],
  ] as const) {
    it(what, () => expect(widths([...stretches])).toEqual([...want]))
  }

  it('covers the width and the time without gaps', () => {
    let seed = 1
    const random = () => (seed = (seed * 48271) % 2147483647) / 2147483647
    for (let round = 0; round < 200; round++) {
      const stretches = of(...Array.from({ length: 1 + Math.floor(random() * 12) }, () => (1 + random() ** 6 * hour) * (random() < 0.2 ? -1 : 1)))
      const pieces = axis(stretches, 1000)
      const least = 1000 * 0.8 * Math.min(0.1, 0.5 / stretches.length) - 1e-6
      let x = 0, at = 0
      for (const p of pieces) {
        if (Math.abs(p.x - x) > 0.005 || p.a !== at || !(p.w >= least)) expect.fail(`round ${round}: at ${x}, ${at}, at least ${least} wide: ${JSON.stringify(p)}`)
        ;[x, at] = [p.x + p.w, p.b]
      }
      expect([x, at]).toEqual([expect.closeTo(1000), stretches.at(-1)!.b])
    }
  })
})

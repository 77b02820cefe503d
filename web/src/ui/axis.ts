// How wide each stretch of time is drawn. Pure.

/** A stretch between two moments at which something of the execution begins or ends. Idle: nothing of it happens but time. */
export interface Stretch { a: number; b: number; idle: boolean }

/** A part of the axis: time from a to b is drawn from x to x + w. */
export interface Piece { a: number; b: number; x: number; w: number; folded: boolean }

// An idle stretch is folded if it takes more than this part of the whole.
const foldAbove = 0.6
const foldedShare = 0.2
// A short stretch is drawn at least so wide, and all short ones together take up to half.
const leastShare = 0.1

/**
 * Places stretches, in order and without gaps between them, on a width. By default all have the same scale. A long idle one is folded, and
 * short ones are drawn wider, so that each keeps a share that can be read. Stretches with the same scale become one piece.
 */
export function axis(stretches: readonly Stretch[], width: number): Piece[] {
  const whole = stretches.reduce((sum, s) => sum + s.b - s.a, 0)
  const folded = stretches.map((s) => s.idle && stretches.length > 1 && (s.b - s.a) / whole > foldAbove)
  const open = stretches.filter((_, i) => !folded[i])
  const room = width * (folded.includes(true) ? 1 - foldedShare : 1)
  const least = room * Math.min(leastShare, 0.5 / open.length)
  // Those that would be drawn too short have the least width; the others share what is left by their length.
  let wide = open, left = room
  for (;;) {
    const length = wide.reduce((sum, s) => sum + s.b - s.a, 0)
    const short = wide.filter((s) => ((s.b - s.a) / length) * left < least)
    if (short.length === 0) break
    wide = wide.filter((s) => !short.includes(s))
    left -= least * short.length
  }
  const length = wide.reduce((sum, s) => sum + s.b - s.a, 0)
  const pieces: Piece[] = []
  let x = 0
  stretches.forEach((s, i) => {
    const linear = wide.includes(s)
    const w = folded[i] ? width * foldedShare : linear ? ((s.b - s.a) / length) * left : least
    const last = pieces.at(-1)
    if (last && linear && i > 0 && wide.includes(stretches[i - 1]!)) [last.b, last.w] = [s.b, last.w + w]
    else pieces.push({ a: s.a, b: s.b, x, w, folded: folded[i]! })
    x += w
  })
  return pieces
}

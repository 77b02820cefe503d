// Which rows of a long list are drawn: those on the screen and some around them, 60 at most.

export interface Shown { first: number; last: number; above: number; below: number }

const most = 60

export function shown(count: number, rowHeight: number, top: number, height: number): Shown {
  const visible = Math.min(Math.ceil(height / rowHeight) + 1, most)
  const around = Math.floor((most - visible) / 2)
  const begin = Math.floor(Math.max(top, 0) / rowHeight)
  const first = Math.max(0, Math.min(begin, count - visible) - around)
  const last = Math.min(count, first + most)
  return { first, last, above: first * rowHeight, below: (count - last) * rowHeight }
}

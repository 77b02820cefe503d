// Workers as a grid of cells: a thousand of them in a few shapes, those in trouble first in the list beside it.

export interface Cell { id: string; state: string; /** Why it is so, or what is wrong with it. */ why: string; trouble: boolean; execution?: string | undefined }

/** A pool with more workers is a grid. */
export const gridAbove = 64
export const size = 14
const gap = 2

const tones: Record<string, string> = {
  ready: 'good', busy: 'run', 'ready or busy': 'good', degraded: 'warn', initializing: 'off', starting: 'off', restarting: 'warn', terminating: 'warn', terminated: 'bad', crashed: 'bad', stale: 'off', unhealthy: 'bad',
}
export const toneOf = (state: string): string => tones[state] ?? 'off'

export const columns = (width: number): number => Math.max(1, Math.floor((width + gap) / (size + gap)))

/** Where a cell begins. */
export const placeOf = (i: number, across: number) => ({ x: (i % across) * (size + gap), y: Math.floor(i / across) * (size + gap) })

export interface Grid { columns: number; width: number; height: number; shapes: { tone: string; path: string }[] }

/** The shapes of a grid: one for all cells of a tone. A cell in trouble has a cut corner, so that it is seen without colours. */
export function grid(cells: readonly Cell[], width: number): Grid {
  const across = columns(width)
  const paths = new Map<string, string>()
  cells.forEach((c, i) => {
    const { x, y } = placeOf(i, across), tone = toneOf(c.state)
    const shape = c.trouble ? `M${x} ${y}h${size - 6}l6 6v${size - 6}h-${size}z` : `M${x} ${y}h${size}v${size}h-${size}z`
    paths.set(tone, (paths.get(tone) ?? '') + shape)
  })
  return { columns: across, width: Math.max(0, Math.min(across, cells.length) * (size + gap) - gap), height: Math.max(0, Math.ceil(cells.length / across) * (size + gap) - gap), shapes: [...paths].map(([tone, path]) => ({ tone, path })) }
}

/** The cell at a place of the grid. What is between cells belongs to the one before. */
export function cellAt(across: number, count: number, x: number, y: number): number | undefined {
  const column = Math.floor(x / (size + gap)), row = Math.floor(y / (size + gap))
  if (x < 0 || y < 0 || column >= across) return undefined
  const i = row * across + column
  return i < count ? i : undefined
}

/** The cell to which a key leads from another one; undefined: the key is for something else. Below the last row but one, a short row ends at its last cell. */
export function moved(key: string, at: number, across: number, count: number): number | undefined {
  if (count === 0) return undefined
  const last = count - 1, below = Math.floor(last / across) > Math.floor(at / across)
  switch (key) {
    case 'ArrowLeft': return Math.max(at - 1, 0)
    case 'ArrowRight': return Math.min(at + 1, last)
    case 'ArrowUp': return at < across ? at : at - across
    case 'ArrowDown': return below ? Math.min(at + across, last) : at
    case 'Home': return 0
    case 'End': return last
    default: return undefined
  }
}

/** What is said of a cell beside its name. */
export const saidOf = (c: Cell): string => c.state + (c.why && `, ${c.why}`)

/** What is listed beside a grid: those in trouble, then the busy ones. */
export function listed(cells: readonly Cell[], most: number): Cell[] {
  const rank = (c: Cell) => (c.trouble ? 0 : c.state === 'busy' ? 1 : 2)
  return cells.map((c, i) => ({ c, i })).filter(({ c }) => rank(c) < 2).sort((a, b) => rank(a.c) - rank(b.c) || a.i - b.i).slice(0, most).map(({ c }) => c)
}

/** How many are in each state, the most frequent first. */
export function counted(cells: readonly Cell[]): string {
  const n = new Map<string, number>()
  for (const c of cells) n.set(c.state, (n.get(c.state) ?? 0) + 1)
  return [...n].sort((a, b) => b[1] - a[1]).map(([state, count]) => `${count} ${state}`).join(', ')
}

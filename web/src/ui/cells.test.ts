import { describe, expect, it } from 'vitest'
import { cellAt, columns, counted, grid, listed, moved, saidOf, type Cell } from './cells'

const cell = (id: string, state: string, trouble = false): Cell => ({ id, state, why: '', trouble })

describe('a grid of workers', () => {
  const cells = [cell('a', 'ready'), cell('b', 'busy'), cell('c', 'degraded', true), cell('d', 'ready')]
  it('has one shape a tone', () => {
    const g = grid(cells, 30)
    expect([g.columns, g.width, g.height]).toEqual([2, 30, 30])
    expect(g.shapes.map((s) => s.tone)).toEqual(['good', 'run', 'warn'])
    expect(g.shapes[0]!.path).toBe('M0 0h14v14h-14zM16 16h14v14h-14z')
    expect(grid([], 30).height).toBe(0)
  })
  it('knows which cell is pointed at', () => {
    expect([[3, 3], [17, 3], [15, 3], [3, 17], [17, 40], [40, 3], [-1, 0]].map(([x, y]) => cellAt(2, 4, x!, y!))).toEqual([0, 1, 0, 2, undefined, undefined, undefined])
    expect(columns(5)).toBe(1)
  })
  it('is walked by keys', () => {
    // Eight cells in three columns: the last row has two.
    for (const [key, at, to] of [
      ['ArrowRight', 2, 3], ['ArrowRight', 7, 7], ['ArrowLeft', 3, 2], ['ArrowLeft', 0, 0],
      ['ArrowDown', 1, 4], ['ArrowDown', 5, 7], ['ArrowDown', 7, 7], ['ArrowUp', 7, 4], ['ArrowUp', 2, 2],
      ['Home', 5, 0], ['End', 0, 7], ['Enter', 3, undefined], ['j', 3, undefined],
    ] as const) expect([key, at, moved(key, at, 3, 8)]).toEqual([key, at, to])
    expect(moved('End', 0, 3, 0)).toBeUndefined()
    expect([saidOf(cells[0]!), saidOf({ ...cells[2]!, why: 'heartbeat_stale' })]).toEqual(['ready', 'degraded, heartbeat_stale'])
  })
  it('lists trouble first, and leaves out what rests', () => {
    expect(listed(cells, 9).map((c) => c.id)).toEqual(['c', 'b'])
    expect(listed(cells, 1).map((c) => c.id)).toEqual(['c'])
    expect(counted(cells)).toBe('2 ready, 1 busy, 1 degraded')
  })
})

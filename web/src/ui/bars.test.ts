import { expect, it } from 'vitest'
import { bars } from './bars'

const series = (lines: Record<string, number[]>) => ({ from: '', step_seconds: 60, until: '', series: Object.entries(lines).map(([key, n]) => ({ key, n })) })

it('draws what failed so that it is seen, however little it is', () => {
  expect(bars(series({ completed: [0, 1000, 0], failed: [0, 1, 500] }))).toEqual([
    { bad: 0, good: 0 }, { bad: 1.5, good: 18.5 }, { bad: expect.closeTo(9.99, 2), good: 0 }])
})
it('has no bars without counts', () => expect(bars(series({}))).toEqual([]))

import { expect, it } from 'vitest'
import { silence, spokenIn } from './slowly'

it('speaks the first text at once, and the next ones every five seconds', () => {
  expect(spokenIn(-Infinity, 0)).toBe(0)
  expect(spokenIn(1000, 1000)).toBe(silence)
  expect(spokenIn(1000, 4000)).toBe(2000)
  expect(spokenIn(1000, 9000)).toBe(0)
})

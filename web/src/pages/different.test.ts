import { expect, test } from 'vitest'
import type { Difference } from '../api/types'
import { figure, keyOf, worse } from './different'

const one: Difference = { of: 'error', subject: 'a.b', code: 'boom', what: 'failed', unit: 'n', value: 3, before: 0, weight: 90, text: 'a.b failed with boom', link: 'errors', link_before: 'errors' }

test('a figure has its unit', () => {
  expect(figure('n', 12_345)).toBe('12,345')
  expect(figure('share', 0.125)).toBe('12.5 %')
  expect(figure('ms', 1200)).toBe('≈ 1.2 s')
  expect(figure('ms', 0)).toBe('–')
  expect(figure('s', 90)).toBe('1 min 30 s')
  expect(figure('s', 0)).toBe('0 s')
})

test('more of a trouble is worse', () => {
  expect(worse(one)).toBe(true)
  expect(worse({ ...one, value: 0, before: 3 })).toBe(false)
  expect(worse({ ...one, what: 'ended' })).toBe(false)
  expect(worse({ ...one, of: 'pool', what: 'workers_busy', unit: 's' })).toBe(true)
})

test('each difference has a name of its own', () => {
  expect(keyOf(one)).not.toBe(keyOf({ ...one, code: 'bang' }))
})

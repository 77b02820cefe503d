import { expect, test } from 'vitest'
import { backOff } from './backoff'
import { streamOf, taken, topicOf } from './topics'

test.each([
  ['api/v1/overview', 'counters'],
  ['api/v1/overview?from=2030-01-31T08:00:00Z', undefined],
  ['api/v1/executions', 'list'],
  ['api/v1/executions?status=failed,timed_out&limit=8', 'list:status=failed%2Ctimed_out&limit=8'],
  ['api/v1/executions?label=a%3Db%2Cc', 'list:label=a%3Db%2Cc'],
  ['api/v1/journal?limit=12', 'journal:limit=12'],
  ['api/v1/workers?pool=go', 'workers:pool=go'],
  ['api/v1/fleet', 'fleet'],
  ['api/v1/fleet?at=2030-01-31T08:00:00Z', undefined],
  ['api/v1/executions?cursor=x', undefined],
  ['api/v1/executions?pool=a&cursor=x', undefined],
  ['api/v1/executions/01a1', undefined],
  ['rows?a+b', 'rows:a+b'],
  ['debug/actors?cluster=1&children=1000', 'tree'],
  ['debug/actors', undefined],
  ['debug/actors/troupe?node=i', undefined],
  ['api/v1/actions', undefined],
  ['toString', undefined],
])('%s', (path, want) => {
  expect(topicOf(path)).toBe(want)
})

test('a stream of topics', () => {
  expect(streamOf(['counters', 'list:status=a%2Cb'])).toBe('api/v1/stream?topics=counters%2Clist%3Astatus%3Da%252Cb')
})

test.each([[1, 0, 750], [1, 1, 1000], [2, 1, 2000], [5, 1, 16_000], [6, 1, 30_000], [99, 1, 30_000], [99, 0, 22_500]])('after %i failures', (failures, random, want) => {
  expect(backOff(failures, random)).toBe(want)
})

test('what an execution says goes on at its place', () => {
  const placeOf = (topic: string) => (topic === 'execution:a' ? 'i-1.12' : undefined)
  expect(streamOf(['execution:a', 'execution:b', 'nodes'], placeOf)).toBe('api/v1/stream?topics=execution%3Aa%40i-1.12%2Cexecution%3Ab%2Cnodes')
})

const named = (kind: string, n: number) => Array.from({ length: n }, (_, i) => `${kind}:${String(i).padStart(2, '0')}`)
test.each([
  ['few', named('rows', 3), named('rows', 3)],
  ['as many executions as a stream takes', named('execution', 17), named('execution', 16)],
  ['others beside them', [...named('rows', 40), ...named('execution', 20)], [...named('execution', 16), ...named('rows', 16)]],
])('taken: %s', (_, wanted, want) => {
  expect(taken(wanted)).toEqual(want)
})

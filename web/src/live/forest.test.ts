import { expect, test } from 'vitest'
import { Answer } from './answer'

const actor = (id: string, parent?: string, more: object = {}) => ({ id, kind: 'x', ...(parent ? { parent } : {}), ...more })
const node = (incarnation: string) => ({ node: 'a', incarnation, tree: { at: '2030-01-31T08:00:00Z', count: 3, roots: [] } })
const first: [string, unknown][] = [
  ['nodes/i/troupe/pools/go/0.1', actor('troupe/pools/go/0.1', 'troupe/pools/go')], ['nodes/i/troupe/pools/go', actor('troupe/pools/go', 'troupe')], ['nodes/i/troupe', actor('troupe')],
  ['nodes/i/stray', actor('stray', 'gone')], ['nodes/j/troupe', actor('troupe')],
  ['nodes/i', node('i')], ['nodes/j', node('j')], ['nodes/k', { node: 'c', incarnation: 'k', error: 'it has not answered yet' }], ['at', '2030-01-31T08:00:00Z'],
]

test('the trees of all nodes are put together of their actors', () => {
  const answer = new Answer()
  expect(answer.take({ topic: 'tree', n: 1, set: first })).toBe(true)
  const before = structuredClone(answer.document())
  expect(before).toEqual({
    at: '2030-01-31T08:00:00Z',
    nodes: [
      { ...node('i'), tree: { ...node('i').tree, roots: [
        { ...actor('troupe'), children: [{ ...actor('troupe/pools/go', 'troupe'), children: [actor('troupe/pools/go/0.1', 'troupe/pools/go')] }] }, actor('stray', 'gone')] } },
      { ...node('j'), tree: { ...node('j').tree, roots: [actor('troupe')] } },
      { node: 'c', incarnation: 'k', error: 'it has not answered yet' },
    ],
  })
  expect(answer.document()).toEqual(before) // nothing has grown twice
})

test('a difference changes one actor, and another takes the place of one', () => {
  const answer = new Answer()
  answer.take({ topic: 'tree:node=a', n: 1, set: first })
  expect(answer.take({ topic: 'tree:node=a', n: 2, after: 1,
    set: [['nodes/i/troupe/pools/go/0.2', actor('troupe/pools/go/0.2', 'troupe/pools/go')], ['nodes/i/troupe', actor('troupe', undefined, { state: 'up' })]], gone: ['nodes/i/troupe/pools/go/0.1'] })).toBe(true)
  const { nodes } = answer.document() as { nodes: { tree: { roots: unknown[] } }[] }
  expect(nodes[0]!.tree.roots[0]).toEqual({ ...actor('troupe', undefined, { state: 'up' }), children: [{ ...actor('troupe/pools/go', 'troupe'), children: [actor('troupe/pools/go/0.2', 'troupe/pools/go')] }] })
})

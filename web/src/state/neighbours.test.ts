import { describe, expect, it } from 'vitest'
import { neighbours } from './neighbours'

describe('neighbours', () => {
  it('are those of the list that was seen last', () => {
    neighbours.keep(['executions/1'])
    neighbours.keep(['workers/a/go/0', 'workers/a/go/1', 'workers/a/go/2'])
    expect(neighbours.of('workers/a/go/1', 1)).toBe('workers/a/go/2')
    expect(neighbours.of('workers/a/go/1', -1)).toBe('workers/a/go/0')
    expect(neighbours.of('workers/a/go/0', -1)).toBeUndefined()
    expect(neighbours.of('workers/a/go/2', 1)).toBeUndefined()
    expect(neighbours.of('executions/1', 1)).toBeUndefined()
  })
})

import { describe, expect, it } from 'vitest'
import { Lines } from './lines'

describe('Lines', () => {
  it('joins pieces and skips empty lines', () => {
    const lines = new Lines()
    expect(lines.take('{"a"')).toEqual([])
    expect(lines.take(':1}\n\n{"b":2}\n{')).toEqual(['{"a":1}', '{"b":2}'])
    expect(lines.take('}\n')).toEqual(['{}'])
  })
  it('refuses a line without end', () => {
    const lines = new Lines(10)
    expect(() => lines.take('x'.repeat(11))).toThrow('too long')
  })
})

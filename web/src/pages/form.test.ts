import { describe, expect, it } from 'vitest'
import { fieldsOf, parametersOf } from './form'

const fields = fieldsOf({
  required: ['name'],
  properties: {
    name: { type: 'string', maxLength: 5 }, count: { type: 'integer', default: 3, minimum: 1 }, dry: { type: 'boolean' },
    mode: { enum: ['a', 'b'] }, list: { type: 'array' }, key: { type: 'string' },
  },
}, ['key'])

describe('fieldsOf', () => {
  it('has a kind each', () => expect(fields.map((f) => f.kind)).toEqual(['text', 'number', 'boolean', 'choice', 'json', 'text']))
  it('says what the schema wants', () => expect(fields[0]).toMatchObject({ required: true, help: 'up to 5 characters' }))
  it('begins with the default', () => expect(fields[1]!.start).toBe('3'))
  it('knows secrets', () => expect(fields[5]!.secret).toBe(true))
  it('is empty without a schema', () => expect(fieldsOf(undefined)).toEqual([]))
})

describe('parametersOf', () => {
  for (const [name, typed, rest, want] of [
    ['values of their kinds', { name: 'x', count: '2', dry: 'true', mode: '"a"', list: '[1]' }, '', { value: { name: 'x', count: 2, dry: true, mode: 'a', list: [1] } }],
    ['what is required', {}, '', { wrong: 'name is required' }],
    ['no number', { name: 'x', count: 'two' }, '', { wrong: 'count must be a number' }],
    ['more than the schema names', { name: 'x' }, '{"other": 1}', { value: { other: 1, name: 'x' } }],
    ['no object', { name: 'x' }, '[1]', { wrong: 'The further parameters must be a JSON object' }],
    ['no JSON', { name: 'x' }, '{', { wrong: 'The further parameters are not JSON' }],
  ] as const) {
    it(name, () => expect(parametersOf(fields, typed, rest)).toEqual(want))
  }
})

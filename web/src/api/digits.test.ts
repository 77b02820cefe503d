import { describe, expect, it } from 'vitest'
import { parse, stringify } from './digits'

describe('digits', () => {
  for (const text of ['9007199254740993', '-9007199254740993', '1e400', '0.1000000000000000055511151231257827', '123456789012345678901234567890', '1e-400',
    '{"a":[9007199254740993,1,"9007199254740993","x\\"9007199254740993"],"b":1e400}']) {
    it(`keeps ${text}`, () => expect(stringify(parse(text))).toBe(text))
  }
  for (const [text, want] of [['1.0', 1], ['1e3', 1000], ['0.1', 0.1], ['-0.0', -0], ['1.50e2', 150], ['9007199254740992', 9007199254740992], ['12345678901234567e3', 12345678901234567e3],
    ['100000000000000000000', 1e20], ['5e-324', 5e-324], ['"1e400"', '1e400']] as const) {
    it(`reads ${text} as it is`, () => expect(parse(text)).toBe(want))
  }
  it('writes with an indent', () => expect(stringify(parse('{"n":9007199254740993}'), 2)).toBe('{\n  "n": 9007199254740993\n}'))
  it('refuses what is no JSON', () => expect(() => parse('{"n":9007199254740993')).toThrow())
})

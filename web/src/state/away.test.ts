import { expect, test } from 'vitest'
import { isAway } from './away'

test.each<[string, number, number[], number | undefined, boolean]>([
  ['all is well', 10, [], undefined, false],
  ['a question has no answer', 10, [12], undefined, true],
  ['one of two has none, and it is the newer one', 10, [8, 12], undefined, true],
  ['another was answered after it', 14, [8, 12], undefined, false],
  ['it was asked before another was answered, and took too long', 30, [12], undefined, false],
  ['it was asked when another was answered', 12, [12], undefined, false],
  ['the stream is lost', 10, [], 12, true],
  ['the stream is lost, and questions are answered', 14, [], 12, false],
  ['the stream is lost for long, and now a question has no answer', 1000, [1002], 12, true],
  ['the stream is lost after a question that had no answer, and others were answered between', 14, [12], 16, true],
  ['nothing was answered yet', 0, [], undefined, false],
])('%s', (_, answered, failed, lost, away) => expect(isAway({ answered, failed, lost })).toBe(away))

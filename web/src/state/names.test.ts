import { describe, expect, it } from 'vitest'
import { codesPath, keptFor, Names, namesMax, type Known } from './names'

function begin(answers: (readonly string[] | Error)[]) {
  const seen = { asked: 0, at: 0, all: {} as Known }
  const names = new Names({ pool: async () => {
    const answer = answers[seen.asked++]
    if (!answer || answer instanceof Error) throw answer ?? new Error('asked too often')
    return answer
  } }, () => seen.at, (all) => { seen.all = all })
  return { names, seen }
}

describe('Names', () => {
  it('are asked for once in a while, also by two at the same time', async () => {
    const { names, seen } = begin([['go'], ['go', 'python']])
    await Promise.all([names.want('pool'), names.want('pool')])
    seen.at = keptFor - 1
    await names.want('pool')
    expect(seen).toMatchObject({ asked: 1, all: { pool: ['go'] } })
    seen.at = keptFor
    await names.want('pool')
    expect(seen).toMatchObject({ asked: 2, all: { pool: ['go', 'python'] } })
  })
  it('stay where the node does not answer', async () => {
    const { names, seen } = begin([['go'], new Error('gone')])
    await names.want('pool')
    seen.at = keptFor
    await names.want('pool')
    expect(seen).toMatchObject({ asked: 2, all: { pool: ['go'] } })
  })
  it('have a bound, each once', async () => {
    const { names, seen } = begin([['a', 'a', ...Array.from({ length: 2 * namesMax }, (_, i) => `pool-${i}`)]])
    await names.want('pool')
    expect(seen.all.pool).toHaveLength(namesMax)
    expect(seen.all.pool!.slice(0, 2)).toEqual(['a', 'pool-0'])
  })
  it('of what has none are not asked for', async () => {
    const { names, seen } = begin([])
    await names.want('label')
    await names.want('constructor')
    expect(seen.asked).toBe(0)
  })
})

it('asks for the error codes of the range of the page, without what is wrong', () => {
  const all = 'api/v1/facets?fields=error&limit=50&status=failed,timed_out,abandoned'
  expect(codesPath(new URLSearchParams('from=-6h&pool=go'))).toBe(`${all}&from=-6h`)
  expect(codesPath(new URLSearchParams('from=yesterday&to=2030-01-31T08:00:00Z'))).toBe(`${all}&to=2030-01-31T08:00:00Z`)
})

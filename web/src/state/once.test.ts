import { expect, it } from 'vitest'
import { Once } from './once'

it('does the same once at a time, and what is other beside it', async () => {
  const once = new Once(), done: string[] = []
  let finish: Array<() => void> = []
  const work = (what: string) => () => new Promise<string>((resolve) => { finish.push(() => { done.push(what); resolve(what) }) })
  const first = once.run('workers/a/kill', work('a'))
  expect(await once.run('workers/a/kill', work('a again'))).toBeUndefined()
  const other = once.run('workers/b/kill', work('b'))
  for (const end of finish) end()
  expect([await first, await other, done]).toEqual(['a', 'b', ['a', 'b']])
  finish = []
  const next = once.run('workers/a/kill', work('a later'))
  for (const end of finish) end()
  expect(await next).toBe('a later')
})

it('does it again after it failed', async () => {
  const once = new Once()
  await expect(once.run('x', () => Promise.reject(new Error('no')))).rejects.toThrow('no')
  expect(await once.run('x', () => Promise.resolve(1))).toBe(1)
})

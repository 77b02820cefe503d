import { expect, it, vi } from 'vitest'

vi.mock('./live.svelte', () => ({ live: { renew: () => undefined } }))
vi.stubGlobal('fetch', () => Promise.resolve(Response.json({ name: 'ana', scopes: ['read'], via: 'cookie' })))
const { asked, consult, said } = await import('./session.svelte')

it('asks one question at a time, and says which was not asked', async () => {
  const kill = consult({ title: 'Kill a/go/0?', text: '', act: 'Kill it' })
  expect(await consult({ title: 'Kill a/go/1?', text: '', act: 'Kill it' })).toBeUndefined()
  expect(said.notices.map((n) => n.text)).toEqual(['Kill a/go/1? Another question was open, so this one was not asked: give the command again.'])
  asked.question!.answer(true, ' a reason ')
  expect(await kill).toEqual({ reason: 'a reason' })
  const next = consult({ title: 'Kill a/go/1?', text: '', act: 'Kill it' })
  asked.question!.answer(false)
  expect(await next).toBeUndefined()
})

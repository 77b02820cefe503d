import { beforeEach, expect, it, vi } from 'vitest'

vi.mock('./live.svelte', () => ({ live: { renew: () => undefined } }))
const me = () => Response.json({ name: 'ana', scopes: ['read'], via: 'cookie' })
let logout: () => Promise<Response> = () => Promise.resolve(new Response(null, { status: 204 }))
vi.stubGlobal('fetch', (url: URL) => (url.pathname.endsWith('/logout') ? logout() : Promise.resolve(me())))
const { asked, consult, said, session, unsay } = await import('./session.svelte')

const texts = () => said.notices.map((n) => n.text)
beforeEach(() => { for (const n of said.notices) unsay(n.id) })

it('is logged out only where the node has removed the cookie', async () => {
  await vi.waitFor(() => expect(session.me?.name).toBe('ana'))
  logout = () => Promise.reject(new TypeError('Failed to fetch'))
  await session.leave()
  logout = () => Promise.resolve(Response.json({ error: { code: 'store_unavailable', message: 'the store is away' } }, { status: 503 }))
  await session.leave()
  expect(texts()).toEqual(['You are still logged in: the node does not answer', 'You are still logged in: the store is away'])
  expect([session.denied, session.me?.name]).toEqual([false, 'ana'])
  logout = () => Promise.resolve(new Response(null, { status: 204 }))
  await session.leave()
  expect([session.denied, session.me, texts().length]).toEqual([true, undefined, 2])
})

it('asks one question at a time, and says which was not asked', async () => {
  const kill = consult({ title: 'Kill a/go/0?', text: '', act: 'Kill it' })
  expect(await consult({ title: 'Kill a/go/1?', text: '', act: 'Kill it' })).toBeUndefined()
  expect(texts()).toEqual(['Kill a/go/1? Another question was open, so this one was not asked: give the command again.'])
  asked.question!.answer(true, ' a reason ')
  expect(await kill).toEqual({ reason: 'a reason' })
  const next = consult({ title: 'Kill a/go/1?', text: '', act: 'Kill it' })
  asked.question!.answer(false)
  expect(await next).toBeUndefined()
})

import { afterEach, describe, expect, it, vi } from 'vitest'
import { answeredAt, asTroupe, command, get, heardAt, onAnswer } from './client'

const answer = (status: number) => async () => new Response('{}', { status, headers: { 'Content-Type': 'application/json' } })
const nothing = async () => { throw new TypeError('Failed to fetch') }

afterEach(() => { vi.unstubAllGlobals() })

describe('when the node answered', () => {
  for (const [what, fetch, ask, want] of [
    ['an answer', answer(200), () => get('api/v1/me'), 1],
    ['a refusal, too', answer(503), () => get('api/v1/me'), 1],
    ['no answer', nothing, () => get('api/v1/me'), 0],
    ['a command without an answer', nothing, () => command('api/v1/workers/a/go/0/kill'), 0],
    ['what somebody gave up', nothing, () => get('api/v1/me', { signal: AbortSignal.abort() }), 0],
    ['the stream', nothing, async () => heardAt(Date.now()), 1],
  ] as const) {
    it(what, async () => {
      vi.stubGlobal('fetch', fetch)
      const before = Date.now(), told: number[] = []
      const leave = onAnswer((at) => told.push(at))
      await ask().catch(() => undefined)
      leave()
      expect(told.filter((at) => at >= before && at === answeredAt())).toHaveLength(want)
      expect(told).toHaveLength(want)
    })
  }
})

describe('a copied command', () => {
  for (const [at, want] of [
    ['http://127.0.0.1:7070/', 'troupe nodes --server http://127.0.0.1:7070'], // the command line asks that one, unless TROUPE_SERVER names another
    ['http://127.0.0.1:7071/', 'troupe nodes --server http://127.0.0.1:7071'],
    ['http://127.0.0.1:7070/ops/troupe/', 'troupe nodes --server http://127.0.0.1:7070/ops/troupe'],
    ['https://ana:secret@node.example/?token=x#y', 'troupe nodes --server https://node.example'],
    ['http://[::1]:7070/', "troupe nodes --server 'http://[::1]:7070'"],
    ["http://node.example/a'b;$(c)/", "troupe nodes --server 'http://node.example/a'\\''b;$(c)'"],
  ] as const) it(at, () => expect(asTroupe('troupe nodes', new URL(at))).toBe(want))
  const parts = import.meta.glob<string>(['../pages/*.svelte', '../ui/*.svelte'], { query: '?raw', import: 'default', eager: true })
  it('names its node wherever one is copied', () => {
    const lines = Object.entries(parts).flatMap(([path, text]) => text.split('\n').filter((l) => /what: 'troupe command'|: [^']*`echo .*troupe submit|copy\(.*[Cc]ommand/.test(l)).map((l) => `${path}: ${l}`))
    expect(lines.length).toBeGreaterThan(5)
    const bare = lines.filter((l) => !l.includes('asTroupe(') && !/copy\((line|text|item)/.test(l))
    expect(bare).toEqual([])
    expect(parts['../ui/Empty.svelte']).toContain('asTroupe(command)')
  })
})

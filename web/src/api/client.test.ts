import { afterEach, describe, expect, it, vi } from 'vitest'
import { answeredAt, command, get, heardAt, onAnswer } from './client'

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

import { afterEach, describe, expect, it, vi } from 'vitest'
import { command, get, heardAt, onAnswer } from './client'

const answer = (status: number) => async () => new Response('{}', { status, headers: { 'Content-Type': 'application/json' } })
const nothing = async () => { throw new TypeError('Failed to fetch') }

afterEach(() => { vi.unstubAllGlobals() })

describe('whether the node answers', () => {
  for (const [what, fetch, ask, want] of [
    ['an answer', answer(200), () => get('api/v1/me'), [true]],
    ['a refusal, too', answer(503), () => get('api/v1/me'), [true]],
    ['no answer', nothing, () => get('api/v1/me'), [false]],
    ['a command without an answer', nothing, () => command('api/v1/workers/a/go/0/kill'), []],
    ['what somebody gave up', nothing, () => get('api/v1/me', { signal: AbortSignal.abort() }), []],
    ['the stream', nothing, async () => heardAt(Date.now()), [true]],
  ] as const) {
    it(what, async () => {
      vi.stubGlobal('fetch', fetch)
      const told: boolean[] = []
      const leave = onAnswer((answers) => told.push(answers))
      await ask().catch(() => undefined)
      leave()
      expect(told).toEqual(want)
    })
  }
})

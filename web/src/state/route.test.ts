import { describe, expect, it } from 'vitest'
import { match, proper, to, withQuery } from './route'

describe('match', () => {
  const query = new URLSearchParams('status=failed')
  for (const [path, page, args] of [
    ['', 'overview', {}],
    ['executions', 'executions', {}],
    ['executions/', 'executions', {}],
    ['executions/01a2', 'execution', { id: '01a2' }],
    ['workers/a/python/3', 'worker', { node: 'a', pool: 'python', slot: '3' }],
    ['actions/core.echo', 'action', { ref: 'core.echo' }],
    ['executions/a%2Fb', 'execution', { id: 'a/b' }],
    ['executions/%zz', 'execution', { id: '%zz' }],
    ['executions/a/b', 'missing', { path: 'executions/a/b' }],
    ['nothing', 'missing', { path: 'nothing' }],
  ] as const) {
    it(`${path || '/'} is ${page}`, () => expect(match(path, query)).toEqual({ page, args, query }))
  }
})

describe('proper', () => {
  for (const [path, want] of [['overview', './'], ['overview/', './'], ['', ''], ['executions', 'executions'], ['overview/x', 'overview/x']] as const)
    it(`${path || '/'} is at ${want || '/'}`, () => expect(proper(path)).toBe(want))
})

describe('to', () => {
  it('escapes each part', () => expect(to('sessions', 'go', 'a/b c')).toBe('sessions/go/a%2Fb%20c'))
  it('is the base without parts', () => expect(to()).toBe('./'))
})

describe('withQuery', () => {
  it('leaves out an empty query', () => expect(withQuery('executions', new URLSearchParams())).toBe('executions'))
  it('keeps what people read', () =>
    expect(withQuery('executions', new URLSearchParams({ worker: 'a/go/1', label: 'team=x' }))).toBe('executions?worker=a/go/1&label=team%3Dx'))
})

import { describe, expect, it } from 'vitest'
import { entries, matches, pages } from './palette'

const all = entries(['go', 'python'], ['core.echo', 'demo.go_on'], [{ name: 'a', incarnation: 'inc-a' }])
const hrefs = (text: string) => matches(text, all).map((e) => `${e.kind} ${e.href}`)
const id = '01a1fd4f-1ca9-7ccb-bbec-bd136abe9590'

describe('the palette', () => {
  it('shows the pages first', () => expect(matches('', all).slice(0, 3)).toEqual(pages.slice(0, 3)))
  it('finds names, those that begin so first', () => {
    expect(hrefs('go').slice(0, 2)).toEqual(['pool pools/go', 'action actions/demo.go_on'])
    expect(hrefs('ECHO')[0]).toBe('action actions/core.echo')
    expect(hrefs('dead let')[0]).toBe('page dead-letters')
  })
  it('takes ids', () => {
    expect(hrefs(id).slice(0, 2)).toEqual([`execution executions/${id}`, `node nodes/${id}`])
    expect(hrefs('01a1fd')[0]).toBe('executions executions?id_prefix=01a1fd')
    expect(hrefs('a/go/4')[0]).toBe('worker workers/a/go/4')
    expect(hrefs('go/u-1/x')[0]).toBe('session sessions/go/u-1%2Fx')
  })
  it('takes a label', () => {
    expect(hrefs('team=red')[0]).toBe('executions executions?label=team%3Dred')
    expect(hrefs('team=the red one')[0]).toBe('executions executions?label=team%3Dthe+red+one')
    for (const text of ['team=', '=red', 'the team=red']) expect(hrefs(text).some((h) => h.includes('label='))).toBe(false)
  })
  it('offers lists of what it does not know', () => {
    expect(hrefs('u-42')).toEqual(['executions executions?session=u-42', 'executions executions?key=u-42', 'errors errors?error=u-42', 'errors errors?q=u-42'])
    expect(hrefs('Connection refused')).toEqual(['executions executions?session=Connection+refused', 'executions executions?key=Connection+refused', 'errors errors?q=Connection+refused'])
    expect(hrefs('ECONN: refused').at(-1)).toBe('errors errors?q=ECONN:+refused')
    expect(hrefs('u 18/é')[0]).toBe('executions executions?session=u+18/%C3%A9')
  })
  it('takes a label that is called as a filter is', () => expect(hrefs('pool=eu').slice(0, 2)).toEqual(['executions executions?pool=eu', 'executions executions?label=pool%3Deu']))
  it('takes a filter as people type it', () => {
    expect(hrefs('status:failed,nope')[0]).toBe('executions executions?status=failed,nope') // whose list marks what is wrong
    expect(hrefs('status:failed')).toEqual(['executions executions?status=failed', 'errors errors?q=status:failed'])
    expect(hrefs('not.worker: a/go/1')[0]).toBe('executions executions?not.worker=a/go/1')
    expect(hrefs('status:nope')[0]).toBe('executions executions?session=status:nope')
  })
  it('counts the digits of an id', () => {
    for (const text of ['a-b-', 'abc-', `01a1fd4f${'0'.repeat(25)}`]) expect(hrefs(text).some((h) => h.includes('id_prefix'))).toBe(false)
    expect(hrefs('01a1-')[0]).toBe('executions executions?id_prefix=01a1-')
  })
})

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
    expect(hrefs('dead let')).toEqual(['page dead-letters'])
  })
  it('takes ids', () => {
    expect(hrefs(id).slice(0, 2)).toEqual([`execution executions/${id}`, `node nodes/${id}`])
    expect(hrefs('01a1fd')[0]).toBe('executions executions?id_prefix=01a1fd')
    expect(hrefs('a/go/4')[0]).toBe('worker workers/a/go/4')
    expect(hrefs('go/u-1/x')[0]).toBe('session sessions/go/u-1%2Fx')
  })
  it('takes a label', () => {
    expect(hrefs('team=red')[0]).toBe('executions executions?label=team%3Dred')
    expect(hrefs('team=the red one')).toEqual(['executions executions?label=team%3Dthe+red+one'])
    for (const text of ['team=', '=red', 'the team=red']) expect(hrefs(text).some((h) => h.includes('label='))).toBe(false)
  })
  it('offers lists of what it does not know', () => {
    expect(hrefs('u-42')).toEqual(['executions executions?session=u-42', 'executions executions?key=u-42', 'errors errors?error=u-42'])
  })
})

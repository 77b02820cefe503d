import { describe, expect, it } from 'vitest'
import type { Execution } from '../api/types'
import { chosen } from '../state/columns'
import { commandOf } from '../state/command'
import { chipsOf, completions, isShown, turnedOf } from '../state/filters'
import { filterOf } from './bulk'
import { columns, differs, exported, keys, leastOf, lookedFrom, newest, none, older, oldest, renewed, reread, rowsMax, sized, strayed, strayedMax, take, waitOf } from './executions'

const row = (n: number, more: Partial<Execution> = {}): Execution => ({
  id: `id-${String(n).padStart(5, '0')}`, action_ref: 'core.noop', status: 'requested', attempt: 1, priority: 5, max_retries: 0, retry_count: 0,
  requested_at: new Date(Date.parse('2026-11-25T17:00:00Z') + n * 1000).toISOString(), ...more,
})
const ids = (rows: Execution[]) => rows.map((e) => e.id)

describe('the filters of when executions ended', () => {
  it.each<[string, (string | undefined)[]]>([
    ['ended_from=2030-01-31T08:00:00Z&ended_to=2030-01-31T09:00:00%2B01:00', [undefined, undefined]],
    ['ended_from=-6h&ended_to=noon', ['want a time, as 2030-01-31T08:00:00Z', 'want a time, as 2030-01-31T08:00:00Z']],
    ['ended_to=2030-01-31T08:00:00Z&ended_to=2030-01-31T09:00:00Z', [undefined, 'one ended_to at a time']],
  ])('%s', (query, wrong) => {
    const chips = chipsOf(new URLSearchParams(query), keys)
    expect(chips.map((c) => c.wrong)).toEqual(wrong)
    expect(chips.every((c) => isShown(c, keys))).toBe(true)
  })
  it('say since when requests were looked at', () => expect(['ended_from=2030-01-31T09:00:00%2B01:00', 'ended_from=2030-01-31T08:00:00Z&from=-6h', 'ended_to=2030-01-31T08:00:00Z'].map((q) => lookedFrom(new URLSearchParams(q)))).toEqual(['2030-01-30T08:00:00.000Z', undefined, undefined]))
  it('complete what is typed', () => expect(completions('end', keys)).toEqual(['ended_from:', 'ended_to:']))
})

describe('the filters of executions', () => {
  const wrong = (query: string) => chipsOf(new URLSearchParams(query), keys).map((c) => c.wrong)
  it('may be empty as the API takes it', () => {
    const empty = keys.filter((k) => chipsOf(new URLSearchParams([[k.name, '']]), keys)[0]!.wrong === undefined).map((k) => k.name)
    expect(empty).toEqual(['not.action', 'not.pool', 'not.session', 'not.worker', 'not.key'])
  })
  it.each(['q', 'not.q'])('have five of %s', (key) => expect(wrong([1, 2, 3, 4, 5, 6].map((n) => `${key}=${n}`).join('&'))).toEqual([...Array(5).fill(undefined), `at most 5 of ${key} at a time`]))
  it('count the digits of an id', () => expect(['----', 'abc', 'a-b-c-d', '01a1fd4f-1ca9-7ccb-bbec-bd136abe9590', `${'0'.repeat(32)}0`].map((v) => wrong(`id_prefix=${v}`)[0] ?? '')).toEqual(['want 4 to 32 hexadecimal digits', 'want 4 to 32 hexadecimal digits', '', '', 'want 4 to 32 hexadecimal digits']))
  it.each(['action', 'pool', 'session', 'error', 'q', 'key'])('have alternatives of %s, with and without not.', (key) =>
    expect(wrong(`${key}=a&${key}=b&not.${key}=c&not.${key}=d`)).toEqual([undefined, undefined, undefined, undefined]))
  it('check each of several workers', () => expect(wrong('worker=n/go/1&worker=n/go&worker=n/go/2')).toEqual([undefined, 'want node/pool/slot', undefined]))
  it('check each beginning of an id', () => expect(wrong('id_prefix=01a2&id_prefix=x&not.id_prefix=01a3&not.id_prefix=y').map((w) => w !== undefined)).toEqual([false, true, false, true]))
  it('check what befell', () => expect(wrong('was=retry,odd&not.was=state_lost,odd').map((w) => w !== undefined)).toEqual([false, true, false, true]))
  it('bound each text', () => expect(wrong(`q=a&not.q=${'ü'.repeat(101)}`)).toEqual([undefined, 'want at most 200 bytes']))
  it('can be turned round, each', () => {
    for (const { name } of keys.filter((k) => k.name !== 'order' && !k.quiet)) {
      const turned = turnedOf({ key: name, value: 'v' }, [], keys)!
      expect(turned, name).toBeDefined()
      expect(turnedOf({ key: turned, value: 'v' }, [], keys)).toBe(name)
    }
  })
  it('are those of an operation', () => expect(filterOf(chipsOf(new URLSearchParams('pool=go&pool=python&status=failed,abandoned&order=oldest'), keys)))
    .toEqual({ pool: ['go', 'python'], status: ['failed', 'abandoned'] }))
  it('are those of a command', () => expect(commandOf('list', chipsOf(new URLSearchParams('pool=go&pool=python&error=boom&not.action=a.b'), keys), keys, 0))
    .toBe('troupe list --pool go --pool python --error boom --not-action a.b'))
})

describe('rows that the first page lacks', () => {
  const shown = [row(4, { status: 'running' }), row(3, { status: 'completed' }), row(2, { status: 'running' }), row(1)]
  it.each<[string, Execution[], string[]]>([
    ['all are there', shown, []],
    ['one runs further below, or does not fit any more', [shown[0]!, shown[3]!], ['id-00002']],
    ['one that has ended stays as it is', [shown[0]!, shown[2]!, shown[3]!], []],
    ['none is there', [], ['id-00004', 'id-00002', 'id-00001']],
  ])('%s', (_, page, want) => expect(strayed(shown, page)).toEqual(want))
  it('is bounded', () => expect(strayed(Array.from({ length: 500 }, (_, i) => row(i)), [])).toHaveLength(strayedMax))
  it('are changed in place', () => {
    const next = renewed({ ...none, shown }, [row(2, { status: 'failed' }), row(9)])
    expect(next.shown.map((e) => e.status)).toEqual(['running', 'completed', 'failed', 'requested'])
  })
})

describe('rows that are read anew without a stream', () => {
  const shown = Array.from({ length: 300 }, (_, i) => row(300 - i))
  const [first, second, third] = [{ cursor: 'a', after: shown[99]!.id }, { cursor: 'b', after: shown[199]!.id }, { cursor: 'c', after: 'gone' }]
  const pages: Record<string, [number, number, string?]> = { a: [100, 200, 'b'], b: [200, 300] }
  const run = async (ids: string[], marks: readonly { cursor: string; after: string }[], from = 0, fits = (e: Execution) => Boolean(e)) => {
    const asked: string[] = []
    const found = await reread(ids, shown, marks, from, async (more, whole) => {
      asked.push(whole ? more.cursor! : more.id_prefix!)
      if (!whole) return { executions: shown.filter((e) => e.id === more.id_prefix) }
      const [begin, end, next] = pages[more.cursor!]!
      return { executions: shown.slice(begin, end).filter(fits), ...(next ? { next_cursor: next } : {}) }
    })
    return { asked: asked.join(' '), rows: found.rows.length, next: found.next, marks: found.marks.map((m) => m.cursor).join('') }
  }
  it('are those of their page', async () => expect(await run([row(150).id], [first])).toEqual({ asked: 'a', rows: 100, next: 0, marks: 'b' }))
  it('are those of the page of the last mark before them', async () => expect(await run([row(50).id], [first, second, third])).toMatchObject({ asked: 'b', rows: 100 }))
  it('are those of two pages where the screen shows both', async () => expect(await run([row(120).id, row(90).id], [first, second])).toMatchObject({ asked: 'a b', rows: 200 }))
  it('are read by themselves where no page has them any more', async () =>
    expect(await run([row(120).id, row(119).id], [first], 0, (e) => e.id !== row(120).id)).toEqual({ asked: `a ${row(120).id}`, rows: 100, next: 1, marks: 'b' }))
  it('are read by themselves where it is not known where their page begins', async () => expect(await run([row(120).id], [third])).toMatchObject({ asked: row(120).id, rows: 1 }))
  it('are some at a time, and others the next time', async () => {
    const ids = shown.slice(0, 50).map((e) => e.id)
    const [one, two, last] = [await run(ids, []), await run(ids, [], 20), await run(ids, [], 40)]
    expect([one.rows, one.next, two.next]).toEqual([20, 20, 40])
    expect(two.asked.split(' ')).toEqual(ids.slice(20, 40))
    expect(last.asked.split(' ')).toEqual([...ids.slice(40), ...ids.slice(0, 10)])
  })
})

describe('newest', () => {
  const begun = newest(none, [row(2), row(1)], 'c')
  it('fills an empty list', () => expect(begun).toMatchObject({ cursor: 'c', newer: [], gap: false }))
  it('changes rows in place and puts new ones aside', () => {
    const next = newest(begun, [row(3), row(2, { status: 'completed' }), row(1)], 'c')
    expect(ids(next.shown)).toEqual(['id-00002', 'id-00001'])
    expect(next.shown[0]!.status).toBe('completed')
    expect(ids(next.newer)).toEqual(['id-00003'])
    expect(ids(take(next, 'c').shown)).toEqual(['id-00003', 'id-00002', 'id-00001'])
  })
  it('does not take an old row that matches only now for a newer one', () =>
    expect(newest(begun, [row(2), row(0), row(1)], 'c').newer).toEqual([]))
  it('begins anew where more came than a page has', () => {
    const next = newest(begun, [row(9), row(8)], 'd')
    expect(next.gap).toBe(true)
    const taken = take(next, 'd')
    expect(ids(taken.shown)).toEqual(['id-00009', 'id-00008'])
    expect(taken.cursor).toBe('d')
  })
})

describe('older', () => {
  it('adds below, each row once', () => expect(ids(older(newest(none, [row(3), row(2)], 'c'), [row(2), row(1)], undefined).shown)).toEqual(['id-00003', 'id-00002', 'id-00001']))
  it('has a bound', () => {
    const many = Array.from({ length: rowsMax + 5 }, (_, i) => row(rowsMax + 5 - i))
    const rows = older(newest(none, [row(9999)], 'c'), many, 'd')
    expect(rows.shown).toHaveLength(rowsMax)
    expect(rows.full).toBe(true)
  })
})

describe('oldest', () => {
  it('has what is new at its end', () => {
    const rows = oldest(oldest(none, [row(1), row(2)], undefined), [row(1, { status: 'completed' }), row(2), row(3)], undefined)
    expect(ids(rows.shown)).toEqual(['id-00001', 'id-00002', 'id-00003'])
    expect(rows.shown[0]!.status).toBe('completed')
    expect(rows.newer).toEqual([])
  })
})

describe('exported', () => {
  it('is one line an execution', () => expect(exported([row(1), row(2)], 'ndjson').trim().split('\n')).toHaveLength(2))
  it('quotes, and disarms formulas', () => {
    const text = exported([row(1, { session: 'a"b,c', action_ref: '=cmd()' })], 'csv')
    expect(text).toContain(`id-00001,requested,'=cmd(),,,"a""b,c",1,`)
  })
})

describe('a row that differs from an execution', () => {
  const was = row(1, { status: 'running', labels: { a: 'b' }, parameters: { x: 1 } })
  it.each<[string, Execution, boolean]>([
    ['it is the same, without parameters', row(1, { status: 'running', labels: { a: 'b' } }), false],
    ['another status', row(1, { status: 'completed', labels: { a: 'b' } }), true],
    ['another label', row(1, { status: 'running', labels: { a: 'c' } }), true],
    ['something new', row(1, { status: 'running', labels: { a: 'b' }, worker: 'n/go/0' }), true],
    ['less of its error', row(1, { status: 'running', labels: { a: 'b' }, error: { code: 'c' } as Execution['error'] }), false],
  ])('%s', (_, r, want) => expect(differs(was, r)).toBe(want))
})

describe('waitOf', () => {
  const at = (s: number) => new Date(Date.parse('2026-11-26T10:00:00Z') + s * 1000).toISOString()
  for (const [what, e, want] of [
    ['waits', { requested_at: at(0) }, '1 min 30 s'],
    ['waited', { requested_at: at(0), started_at: at(2) }, '2.0 s'],
    ['was due later', { requested_at: at(0), run_at: at(60), started_at: at(61) }, '1.0 s'],
    ['is due later', { requested_at: at(0), run_at: at(90 + 3545) }, 'in 59 min'],
    ['is due soon', { requested_at: at(0), run_at: at(90.2) }, 'in 1.0 s'],
    ['was cancelled before it was due', { requested_at: at(0), run_at: at(3600), finished_at: at(10) }, '0 s'],
  ] as const) {
    it(what, () => expect(waitOf(e, Date.parse(at(90)))).toBe(want))
  }
})

describe('the columns of the list', () => {
  it('fit a window of 1280 px without a choice', () => expect(leastOf(chosen(columns, ''))).toBeLessThan(1280 - 168 - 44))
  it('have room for the year of times that are of another one', () => {
    const row = (requested_at: string, finished_at?: string) => ({ requested_at, ...(finished_at && { finished_at }) })
    const widths = (...rows: ReturnType<typeof row>[]) => sized(columns, rows, 2030, true).filter((c) => c.name === 'at' || c.name === 'finished').map((c) => c.width)
    expect(widths()).toEqual([140, 140])
    expect(widths(row('2030-01-31T07:00:00Z'), row('2030-01-01T00:00:00Z', '2030-01-01T00:00:01Z'))).toEqual([140, 140])
    expect(widths(row('2030-01-31T07:00:00Z'), row('2029-12-31T23:59:59Z', '2030-01-01T00:00:01Z'))).toEqual([172, 140])
    expect(widths(row('2029-12-31T23:00:00Z', '2029-12-31T23:00:01Z'), row('2030-01-31T07:00:00Z'))).toEqual([172, 172])
  })
  it('need more room with others', () => expect(leastOf(chosen(columns, '+session,+priority')) - leastOf(chosen(columns, ''))).toBe(130 + 84))
  it('have names of their own', () => expect(new Set(columns.map((c) => c.name)).size).toBe(columns.length))
})

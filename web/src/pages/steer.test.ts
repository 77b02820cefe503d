import { describe, expect, it } from 'vitest'
import type { Worker } from '../api/types'
import { cancelQuestion, cordonQuestion, cordonSaid, discardQuestion, doneSaid, drainQuestion, drainSaid, killQuestion, lastOf, nothing, probeSaid, requeueQuestion, retryQuestion, runsOf, shutdownOf, submitQuestion } from './steer'

const worker = (id: string, more: Partial<Worker> = {}): Worker => {
  const [node, pool] = id.split('/') as [string, string]
  return { id, node, pool, runtime: 'go', generation: 1, state: 'ready', health: 'healthy', grade: 'healthy', cordoned: false, restarts: 0, ...more }
}
const id = '01a21b2b-db84-7d72-ac41-ea386c7c0f2a'
const open = [{ name: 'go', cordoned: false }, { name: 'py', cordoned: false }]
const up = (name: string, more: { cordoned?: boolean; state?: string } = {}) => ({ name, cordoned: false, state: 'active', ...more })

describe('the last that takes work', () => {
  for (const [name, workers, gone, pools, nodes, want] of [
    ['another worker of the pool takes work', [worker('a/go/0'), worker('a/go/1')], 'a/go/0', open, [up('a')], []],
    ['another node has one', [worker('a/go/0'), worker('b/go/0')], 'a/', open, [up('a'), up('b')], []],
    ['the only one', [worker('a/go/0')], 'a/go/0', open, [up('a')], ['go']],
    ['the only one is busy', [worker('a/go/0', { state: 'busy' })], 'a/go/0', open, [up('a')], ['go']],
    ['a degraded one is a last resort', [worker('a/go/0'), worker('a/go/1', { state: 'degraded' })], 'a/go/0', open, [up('a')], []],
    ['the others do not take work', [
      worker('a/go/0'), worker('a/go/1', { cordoned: true }), worker('a/go/2', { state: 'initializing' }), worker('a/go/3', { state: 'terminated' }), worker('a/go/4', { grade: 'unhealthy' }), worker('b/go/0', { stale: true }),
    ], 'a/go/0', open, [up('a'), up('b')], ['go']],
    ['the other node is cordoned', [worker('a/go/0'), worker('b/go/0')], 'a/', open, [up('a'), up('b', { cordoned: true })], ['go']],
    ['the other node drains', [worker('a/go/0'), worker('b/go/0')], 'a/', open, [up('a'), up('b', { state: 'draining' })], ['go']],
    ['an earlier boot of the other node was cordoned', [worker('a/go/0'), worker('b/go/0')], 'a/', open, [up('a'), up('b'), up('b', { cordoned: true, state: 'dead' })], []],
    ['a node with the last of one pool of two', [worker('a/go/0'), worker('a/py/0'), worker('b/go/0')], 'a/', open, [up('a'), up('b')], ['py']],
    ['a node with the last of two pools', [worker('a/py/0'), worker('a/go/0')], 'a/', open, [up('a')], ['go', 'py']],
    ['nobody took its work before', [worker('a/go/0', { cordoned: true })], 'a/go/0', open, [up('a')], []],
    ['its pool is cordoned already', [worker('a/go/0')], 'a/go/0', [{ name: 'go', cordoned: true }], [up('a')], []],
    ['no workers', [], 'a/go/0', open, [up('a')], []],
  ] as const) {
    it(name, () => expect(lastOf(workers, (w) => w.id === gone || (gone.endsWith('/') && w.id.startsWith(gone)), pools, nodes)).toEqual(want))
  }
})

describe('what is asked before a cordon', () => {
  const node = { kind: 'node', id: 'i', name: 'a' } as const
  it('is nothing where others take the work', () => expect(cordonQuestion(node, [])).toBeUndefined())
  it('names the pools', () => {
    expect(cordonQuestion(node, ['go'])!.text).toContain('It is the last that takes work of the pool go.')
    expect(cordonQuestion(node, ['go', 'py'])!.text).toContain('of the pools go and py.')
    expect(cordonQuestion(node, ['a', 'b', 'c', 'd', 'e', 'f', 'g'])!.text).toContain('of the pools a, b, c, d, e and 2 more.')
  })
  it('is asked of a whole pool, and where nothing is known', () => {
    expect(cordonQuestion({ kind: 'pool', id: 'go', name: 'go' }, ['go'])!.title).toBe('Cordon the pool go?')
    expect(cordonQuestion(node, undefined)!.text).toContain('could not be found out')
    expect(cordonQuestion(node, undefined)!.why).toBe(true)
  })
})

describe('what is asked before other commands', () => {
  it('wants the name of a node that is the last of a pool, or may be', () => {
    expect(drainQuestion('a', [])).toMatchObject({ text: 'It takes no new work, waits as long as its worker.shutdown_timeout allows for what runs, and ends. What runs longer is ended as abandoned. Others take the work of its pools.' })
    expect(drainQuestion('a', [], 30).text).toContain('waits up to 30 s for what runs, and ends. What runs longer is ended as abandoned.')
    expect(drainQuestion('a', [])).not.toHaveProperty('typed')
    expect(drainQuestion('a', ['go'])).toMatchObject({ typed: 'a', text: expect.stringContaining('the last that takes work of the pool go:') })
    expect(drainQuestion('a', undefined)).toMatchObject({ typed: 'a', text: expect.stringContaining('could not be found out') })
  })
  it('says how long a node that drains waits', () => {
    expect(drainSaid(0, 30)).toBe('Nothing runs on it any more.')
    expect(drainSaid(1, 30)).toBe('1 execution runs on it. It waits up to 30 s for it, and then ends: what runs longer is ended as abandoned.')
    expect(drainSaid(2, undefined)).toBe('2 executions run on it. It waits as long as its worker.shutdown_timeout allows for them, and then ends: what runs longer is ended as abandoned.')
    expect(doneSaid({ kind: 'node', name: 'i', done: 'drain' }, 'a')).toBe('Node a drains: it takes no new work, waits for what runs, and ends')
  })
  it('reads how long that is in the configuration', () => {
    const settings = (value: string) => ({ settings: [{ key: 'worker.count', value: '2', source: 'default' }, { key: 'worker.shutdown_timeout', value, source: 'default' }] })
    expect([settings('30'), settings('0.5'), settings('soon'), settings(''), { settings: [] }, undefined].map(shutdownOf)).toEqual([30, 0.5, undefined, undefined, undefined, undefined])
  })
  it('says what runs on a worker that is killed, and what becomes of it', () => {
    expect(killQuestion('a/go/0', nothing).text).toContain('It runs nothing now.')
    expect(killQuestion('a/go/0', undefined).text).toContain('It could not be found out whether it runs something. If it does, that is run again if')
    expect(killQuestion('a/go/0', { id, action_ref: 'p.a', idempotent: true }).text).toContain('It runs p.a, execution 01a21b2b…7c0f2a. That is idempotent, so it is run again')
    expect(killQuestion('a/go/0', { id, action_ref: 'p.a', idempotent: false }).text).toContain('not marked idempotent, so it ends abandoned')
    expect(killQuestion('a/go/0', { id }).text).toContain('execution 01a21b2b…7c0f2a. That is run again if')
  })
  it('takes what runs from what the node of the worker says now', () => {
    expect([{ execution: 'x' }, {}, { execution: '' }, { execution: 'x', stale: true }, { stale: true }].map(runsOf)).toEqual(['x', nothing, nothing, undefined, undefined])
  })
  it('asks before a cancel only of what runs, or may', () => {
    expect(cancelQuestion(id, { action_ref: 'p.a', status: 'running', worker: 'a/go/0' })!.text).toBe('p.a runs on a/go/0. Its code is asked to stop, and then made to. The outcome is kept.')
    expect(cancelQuestion(id, undefined)!.text).toBe('It could not be found out whether it runs. If it does, its code is asked to stop, and then made to. The outcome is kept.')
    for (const status of ['requested', 'scheduled', 'cancelling', 'completed'] as const) expect(cancelQuestion(id, { action_ref: 'p.a', status })).toBeUndefined()
  })
  it('asks before a retry only where that is not idempotent', () => {
    expect(retryQuestion({ id, action_ref: 'p.a', idempotent: true })).toBeUndefined()
    expect(retryQuestion({ id, action_ref: 'p.a' })!.text).toContain('p.a is not marked idempotent')
  })
  it('names the execution, also where nothing is known of it', () => {
    expect(cancelQuestion(id, undefined)!.title).toBe('Cancel execution 01a21b2b…7c0f2a?')
    expect(cancelQuestion(id, { action_ref: 'p.a', status: 'running', worker: 'a/go/0' })!.title).toBe('Cancel execution 01a21b2b…7c0f2a?')
    expect(retryQuestion({ id, action_ref: 'p.a' })!.title).toBe('Run execution 01a21b2b…7c0f2a again?')
  })
  it('asks before a requeue or a submission only where that is not idempotent, or not known', () => {
    const letter = { id: 7, action: 'p.a', execution: 'x' }
    expect(requeueQuestion(letter, { id: 'x', action_ref: 'p.a', idempotent: true })).toBeUndefined()
    expect(requeueQuestion(letter, { id: 'x', action_ref: 'p.a', idempotent: false })!.text).toContain('p.a is not marked idempotent')
    expect(requeueQuestion(letter, undefined)!.text).toContain('a second time')
    expect(submitQuestion({ ref: 'p.a', idempotent: true })).toBeUndefined()
    expect(submitQuestion({ ref: 'p.a', idempotent: false })!.title).toBe('Submit p.a?')
  })
})

describe('a question about a dead letter', () => {
  it('names it, and its action where that is known', () => {
    expect(requeueQuestion({ id: 7, action: 'p.a' }, undefined)!.title).toBe('Requeue dead letter 7 of p.a?')
    expect(discardQuestion({ id: 7, action: 'p.a' }).title).toBe('Discard dead letter 7 of p.a?')
    expect([{ id: 8 }, { id: 8, action: '' }].map((d) => discardQuestion(d).title)).toEqual(['Discard dead letter 8?', 'Discard dead letter 8?'])
  })
})

describe('what an answer says', () => {
  it('says what the node answered to a cordon', () => {
    const pool = { kind: 'pool', id: 'go', name: 'go' } as const
    expect([true, false].map((cordoned) => cordonSaid(pool, { kind: 'pool', name: 'go', cordoned }))).toEqual(['Pool go gets no new work', 'Pool go gets work again'])
  })
  it('says what a probe came to', () => {
    const health = { worker: 'a/py/0', state: 'ready', health: 'healthy', grade: 'healthy', last_failure: 'of long ago' }
    expect(probeSaid(health)).toEqual({ text: 'Worker a/py/0 is ready and healthy', bad: false })
    expect(probeSaid({ ...health, health: 'unhealthy', grade: 'unhealthy', grade_causes: ['probe'], last_failure: 'no answer' }))
      .toEqual({ text: 'Worker a/py/0 is ready and unhealthy, graded unhealthy (probe): no answer', bad: true })
  })
  it('says which order was taken', () => {
    expect(doneSaid({ kind: 'worker', name: 'a/go/0', done: 'kill' }, 'a/go/0')).toContain('another generation follows')
    expect(doneSaid({ kind: 'node', name: 'i', done: 'drain' }, 'a')).toContain('Node a drains')
    expect(doneSaid({ kind: 'node', name: 'i', done: 'nap' }, 'a')).toBe('node a: nap is accepted')
  })
})

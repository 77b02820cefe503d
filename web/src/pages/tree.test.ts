import { describe, expect, it } from 'vitest'
import { cellOf, facts, find, isOpen, nameOf, ofWorker, ordered, pathOf, poolOf, seenOf, summary, troubled, troubles, workerOf, type Branch, type Part } from './tree'

const b = (id: string, kind: string, more: Partial<Branch> = {}): Branch => ({ id, parent: id.includes('/') ? id.slice(0, id.lastIndexOf('/')) : '', kind, mailbox_depth: 0, restarts: 0, ...more })
const sick = b('troupe/pools/py/1.3', 'worker', { state: 'degraded', last_failure: 'no module', restarts: 2 })
const busy = b('troupe/pools/py/0.1', 'worker', { state: 'busy', health: 'healthy', grade: 'healthy', execution: 'e1' })
const pool = b('troupe/pools/py', 'pool', { children: [sick, busy] })
const pools = b('troupe/pools', 'supervisor', { children: [pool] })
const quiet = b('troupe/monitors', 'supervisor', { children: [b('troupe/monitors/claims', 'monitor', { state: 'idle' })] })
const root = b('troupe', 'supervisor', { children: [quiet, pools] })
const at = '2030-01-31T08:00:00Z'

describe('the tree', () => {
  it('knows trouble', () => {
    expect([sick, busy, { ...busy, stuck_since: at }, { ...busy, grade: 'unhealthy' }, pool].map(troubled)).toEqual([true, false, true, true, false])
    expect(troubles(root)).toBe(1)
    expect(troubles(b('p', 'pool', { hidden: { count: 9, states: { degraded: 3, ready: 6 } } }))).toBe(3)
  })
  it('opens where trouble is, unless somebody chose', () => {
    expect([root, quiet, pools, pool].map((x, depth) => isOpen(undefined, x, depth))).toEqual([true, false, true, true])
    expect(isOpen(false, pool, 2)).toBe(false)
    expect(isOpen(true, quiet, 1)).toBe(true)
  })
  it('says what stands in a line', () => {
    expect(facts({ ...sick, since: '2030-01-31T07:59:00Z', mailbox_depth: 4, health: 'unhealthy', grade: 'unhealthy', stuck_since: '2030-01-31T07:59:58Z' }, at))
      .toEqual(['unhealthy', 'mailbox 4', '2 restarts', 'stuck for 2.0 s', 'failed: no module', 'for 1 min'])
    expect(facts(busy, at)).toEqual([])
  })
  it('names actors, workers and pools', () => {
    expect([root, pool, sick].map(nameOf)).toEqual(['troupe', 'py', '1.3'])
    expect(ordered([b('p/10.1', 'worker'), b('p/9.1', 'worker')]).map((x) => x.id)).toEqual(['p/9.1', 'p/10.1'])
    expect([workerOf('a', sick), workerOf('a', pool), poolOf(pool), poolOf(sick)]).toEqual(['a/py/1', undefined, 'py', undefined])
    expect(pathOf('inc', 'troupe/pools/a b')).toBe('debug/actors/troupe/pools/a%20b?node=inc')
  })
  it('finds actors', () => {
    expect(find([root], sick.id)).toBe(sick)
    expect(find([root], 'troupe/pools/p')).toBeUndefined()
    expect(ofWorker([root], 'a/py/1')).toBe(sick)
    expect(ofWorker([root], 'a/py/7')).toBeUndefined()
  })
  it('makes cells of workers', () => {
    expect(cellOf('a', busy, new Set([cellOf('a', busy).id]))).toMatchObject({ trouble: true, why: 'cordoned' })
    expect([sick, busy].map((x) => cellOf('a', x))).toEqual([
      { id: 'a/py/1', state: 'degraded', why: 'no module', trouble: true, execution: undefined }, { id: 'a/py/0', state: 'busy', why: '', trouble: false, execution: 'e1' }])
  })
  it('says how old a node is', () => {
    const part = (more: Partial<Part>): Part => ({ node: 'b', incarnation: 'i', state: 'active', tree: { at, count: 5, roots: [root] }, ...more })
    expect([part({ own: true }), part({ age_ms: 200 }), part({ age_ms: 4000 }), part({ age_ms: 4000, error: 'it does not answer' })].map((p) => seenOf(p).look)).toEqual(['own', 'reached', 'late', 'lost'])
    expect(seenOf({ node: 'b', incarnation: 'i', state: 'active', error: 'no address' }).text).toBe('never seen: no address')
    expect(summary({ at, nodes: [part({ own: true }), part({ error: 'x', tree: undefined as never })] })).toBe('2 nodes, 5 actors, 1 in trouble, 1 not reached')
  })
})

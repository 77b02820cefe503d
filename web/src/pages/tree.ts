// The supervision trees of all nodes: what stands in a line, what is trouble, and what is open.
import { duration } from '../state/time'
import type { Cell } from '../ui/cells'

export interface Branch {
  id: string
  parent?: string
  kind: string
  state?: string
  since?: string
  why?: string
  health?: string
  grade?: string
  mailbox_depth: number
  restarts: number
  execution?: string
  stuck_since?: string
  last_failure?: string
  children?: Branch[]
  hidden?: { count: number; states?: Record<string, number> }
}
export interface Part {
  node: string
  incarnation: string
  state: string
  cordoned?: boolean
  address?: string
  own?: boolean
  seen_at?: string
  age_ms?: number
  error?: string
  tree?: { at: string; count: number; shown?: number; waits_for?: string[]; roots: Branch[] }
}
export interface Forest { at: string; nodes: Part[] }

/** An answer that is older is told, though nothing says why. */
export const lateMax = 3000

const bad = ['degraded', 'broken', 'fenced', 'outage', 'doubting']

/** Whether something is wrong with the actor itself. */
export const troubled = (b: Branch): boolean => Boolean(b.stuck_since) || b.health === 'unhealthy' || b.grade === 'unhealthy' || bad.includes(b.state ?? '')

/** How many actors are in trouble, from this one on. */
export function troubles(b: Branch): number {
  const hidden = Object.entries(b.hidden?.states ?? {}).reduce((n, [state, count]) => n + (bad.includes(state) ? count : 0), 0)
  return (troubled(b) ? 1 : 0) + hidden + (b.children ?? []).reduce((n, c) => n + troubles(c), 0)
}

/** Slot 9 before slot 10. */
const order = new Intl.Collator('en', { numeric: true }).compare
export const ordered = (list: readonly Branch[] | undefined): Branch[] => [...(list ?? [])].sort((a, b) => order(a.id, b.id))

export const nameOf = (b: Branch): string => (b.parent ? b.id.slice(b.parent.length + 1) : b.id)

/** The id of a worker, as pages have it: node/pool/slot. The actor's also has the generation. */
export function workerOf(node: string, b: Pick<Branch, 'id' | 'kind'>): string | undefined {
  const [, pool, slot] = b.kind === 'worker' ? /^troupe\/pools\/(.+)\/(\d+)\.\d+$/.exec(b.id) ?? [] : []
  return pool && slot ? `${node}/${pool}/${slot}` : undefined
}

export const poolOf = (b: Pick<Branch, 'id' | 'kind'>): string | undefined => (b.kind === 'pool' ? b.id.replace(/^troupe\/pools\//, '') : undefined)

/** What a line says behind the name and the state. At is when its node was asked, by that node's clock. */
export function facts(b: Branch, at: string): string[] {
  const since = (from: string) => duration(Math.max(0, Date.parse(at) - Date.parse(from)))
  return [
    ...[b.health, b.grade].filter((word, i, all) => word && word !== 'healthy' && all.indexOf(word) === i) as string[],
    ...(b.why ? [b.why] : []),
    ...(b.mailbox_depth > 0 ? [`mailbox ${b.mailbox_depth}`] : []),
    ...(b.restarts > 0 ? [`${b.restarts} ${b.restarts === 1 ? 'restart' : 'restarts'}`] : []),
    ...(b.stuck_since ? [`stuck for ${since(b.stuck_since)}`] : []),
    ...(b.last_failure ? [`failed: ${b.last_failure}`] : []),
    ...(b.since ? [`for ${since(b.since)}`] : []),
  ]
}

/** Whether a branch is open: as somebody chose, or else if there is trouble below it, or it stands high in the tree. */
export function isOpen(chosen: boolean | undefined, b: Branch, depth: number): boolean {
  return chosen ?? (depth === 0 || nameOf(b) === 'pools' || (b.children ?? []).some((c) => troubles(c) > 0))
}

/** A worker as a cell of its pool's grid. Shut has the ids of cordoned workers. */
export function cellOf(node: string, b: Branch, shut: ReadonlySet<string> = new Set()): Cell {
  const state = b.grade === 'unhealthy' || b.health === 'unhealthy' ? 'unhealthy' : b.state ?? 'starting'
  const id = workerOf(node, b) ?? b.id, cordoned = shut.has(id)
  return { id, state, why: [cordoned && 'cordoned', b.why, b.last_failure].filter(Boolean).join(', '), trouble: troubled(b) || cordoned, execution: b.execution }
}

/** How a node's part stands: own, reached, late, or lost. */
export function seenOf(p: Part): { look: 'own' | 'reached' | 'late' | 'lost'; text: string } {
  const old = p.tree ? (p.own ? 'this node' : `as of ${duration(p.age_ms ?? 0)} ago`) : 'never seen'
  if (p.own) return { look: 'own', text: old }
  if (p.error) return { look: 'lost', text: `${old}: ${p.error}` }
  return { look: (p.age_ms ?? 0) > lateMax ? 'late' : 'reached', text: old }
}

/** All in a sentence. */
export function summary(f: Forest): string {
  const actors = f.nodes.reduce((n, p) => n + (p.tree?.count ?? 0), 0), lost = f.nodes.filter((p) => p.error).length
  const trouble = f.nodes.reduce((n, p) => n + (p.tree?.roots ?? []).reduce((m, b) => m + troubles(b), 0), 0)
  return [`${f.nodes.length} ${f.nodes.length === 1 ? 'node' : 'nodes'}`, `${actors.toLocaleString('en')} actors`, trouble ? `${trouble} in trouble` : 'none in trouble', ...(lost ? [`${lost} not reached`] : [])].join(', ')
}

/** Finds an actor. */
export function find(list: readonly Branch[], id: string): Branch | undefined {
  for (const b of list) {
    if (b.id === id) return b
    const found = id.startsWith(`${b.id}/`) ? find(b.children ?? [], id) : undefined
    if (found) return found
  }
  return undefined
}

/** The actor of a worker's slot, whatever its generation. */
export function ofWorker(list: readonly Branch[], worker: string): Branch | undefined {
  const [, pool, slot] = worker.split('/')
  return list.flatMap((b) => find([b], `troupe/pools/${pool}`)?.children ?? []).find((c) => c.id.startsWith(`troupe/pools/${pool}/${slot}.`))
}

/** Where one actor is described. */
export const pathOf = (incarnation: string, id: string): string => `debug/actors/${id.split('/').map(encodeURIComponent).join('/')}?node=${encodeURIComponent(incarnation)}`

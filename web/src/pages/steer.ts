// Whether a cordon takes away the last that takes work, what is asked before a command, and what its answer says.
import type { CordonAnswer, DoneAnswer, Health, Worker } from '../api/types'
import type { Question, Told } from '../state/session.svelte'

export interface Thing {
  kind: 'node' | 'pool' | 'worker'
  /** As the API's address has it: an incarnation, a pool's name, node/pool/slot. */
  id: string
  name: string
}

/** So many workers are looked at. Of more it is not told whether one is the last. */
export const workersMax = 10_000

/** States in which a worker takes work: a degraded one as the last resort. */
const takes = ['ready', 'busy', 'degraded']

interface Closed { name: string; cordoned: boolean }

/** The pools that have workers that take work, all of which leave. A worker of a closed pool or node takes none. */
export function lastOf(workers: readonly Worker[], leaves: (w: Worker) => boolean, pools: readonly Closed[], nodes: readonly (Closed & { state: string })[]): string[] {
  const shutPools = new Set(pools.filter((p) => p.cordoned).map((p) => p.name))
  // Of boots that share a name the live ones count: a dead one has no workers.
  const shutNodes = new Set(nodes.filter((n) => n.state !== 'dead' && (n.cordoned || n.state === 'draining')).map((n) => n.name))
  const left = new Map<string, number>()
  for (const w of workers) {
    if (w.stale || w.cordoned || w.grade === 'unhealthy' || !takes.includes(w.state) || shutPools.has(w.pool) || shutNodes.has(w.node)) continue
    left.set(w.pool, (left.get(w.pool) ?? 0) + (leaves(w) ? 0 : 1))
  }
  return [...left].filter(([, n]) => n === 0).map(([pool]) => pool).sort()
}

const listed = (names: readonly string[]): string => (names.length < 2 ? names.join('') : `${names.slice(0, -1).join(', ')} and ${names.at(-1)}`)

/** What is asked before a cordon; undefined: nothing. Last are the pools of which nobody takes work behind it, undefined: that is not known. */
export function cordonQuestion(t: Thing, last: readonly string[] | undefined): Question | undefined {
  const ask = { title: `Cordon the ${t.kind} ${t.name}?`, act: 'Cordon it', danger: true, why: true }
  const until = 'New executions wait, or fail if their action says so, until it is uncordoned.'
  if (t.kind === 'pool') return { ...ask, text: `Its running work ends as always. ${until}` }
  if (!last) return { ...ask, text: `It could not be found out whether others take its work. If none does: ${until.charAt(0).toLowerCase()}${until.slice(1)}` }
  if (last.length === 0) return undefined
  const named = last.length > 5 ? `${last.slice(0, 5).join(', ')} and ${last.length - 5} more` : listed(last)
  return { ...ask, text: `It is the last that takes work of ${last.length === 1 ? 'the pool' : 'the pools'} ${named}. Running work ends as always. ${until}` }
}

export function killQuestion(worker: string, execution: string | undefined): Question {
  return { title: `Kill ${worker}?`, act: 'Kill it', danger: true, why: true,
    text: execution ? 'It runs an execution. That is run again if its action is idempotent, and else it ends abandoned.' : 'It runs nothing now. A new generation starts in its place.' }
}

/** What a cordon's answer says. */
export const cordonSaid = (t: Thing, a: CordonAnswer): string => `${t.kind.charAt(0).toUpperCase()}${t.kind.slice(1)} ${t.name} ${a.cordoned ? 'gets no new work' : 'gets work again'}`

/** What the answer to an order says, which the node has taken and not yet carried out. */
export function doneSaid(a: DoneAnswer, name: string): string {
  if (a.done === 'kill') return `Worker ${name} is ended; another generation follows`
  if (a.done === 'drain') return `Node ${name} drains: it finishes what runs, and ends`
  return `${a.kind} ${name}: ${a.done} is accepted`
}

/** What a probe came to. */
export function probeSaid(h: Health): Told {
  const ill = h.health !== 'healthy' || h.grade !== 'healthy'
  const grade = h.grade === 'healthy' ? '' : `, graded ${h.grade}${h.grade_causes?.length ? ` (${h.grade_causes.join(', ')})` : ''}`
  return { text: `Worker ${h.worker} is ${h.state} and ${h.health}${grade}${ill && h.last_failure ? `: ${h.last_failure}` : ''}`, bad: h.health === 'unhealthy' || h.grade === 'unhealthy' }
}

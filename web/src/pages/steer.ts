// Whether a cordon takes away the last that takes work, what is asked before a command, and what its answer says.
import type { Configuration, CordonAnswer, DeadLetter, DoneAnswer, Execution, Health, Worker } from '../api/types'
import type { Question, Told } from '../state/session.svelte'
import { duration } from '../state/time'
import { short } from '../ui/text'

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
  return { ...ask, text: `It is the last that takes work of ${poolsOf(last)}. Running work ends as always. ${until}` }
}

const poolsOf = (last: readonly string[]) => `${last.length === 1 ? 'the pool' : 'the pools'} ${last.length > 5 ? `${last.slice(0, 5).join(', ')} and ${last.length - 5} more` : listed(last)}`

/** How long a node that drains waits for what runs, in words. Seconds are its worker.shutdown_timeout; undefined: that is not known. */
export const waitsFor = (seconds: number | undefined): string => (seconds === undefined ? 'as long as its worker.shutdown_timeout allows' : `up to ${duration(seconds * 1000)}`)

/** What is said of the work of a node that drains. */
export function drainSaid(running: number, seconds: number | undefined): string {
  if (running === 0) return 'Nothing runs on it any more.'
  return `${running.toLocaleString('en')} ${running === 1 ? 'execution runs' : 'executions run'} on it. It waits ${waitsFor(seconds)} for ${running === 1 ? 'it' : 'them'}, and then ends: what runs longer is ended as abandoned.`
}

/** The worker.shutdown_timeout of a configuration, in seconds; undefined: it does not say. */
export function shutdownOf(c: Pick<Configuration, 'settings'> | undefined): number | undefined {
  const seconds = Number(c?.settings.find((s) => s.key === 'worker.shutdown_timeout')?.value || NaN)
  return Number.isFinite(seconds) ? seconds : undefined
}

/** What is asked before a drain. Seconds are the node's worker.shutdown_timeout, where that is known. Last are the pools of which nobody takes work behind it: then the node's name is typed. Undefined: that is not known. */
export function drainQuestion(name: string, last: readonly string[] | undefined, seconds?: number): Question {
  const ask = { title: `Drain the node ${name}?`, act: 'Drain it', danger: true, why: true }
  const text = `It takes no new work, waits ${waitsFor(seconds)} for what runs, and ends. What runs longer is ended as abandoned.`
  const until = 'new executions wait, or fail if their action says so, until another node serves them.'
  if (!last) return { ...ask, typed: name, text: `${text} It could not be found out whether others take its work. If none does, ${until}` }
  if (last.length === 0) return { ...ask, text: `${text} Others take the work of its pools.` }
  return { ...ask, typed: name, text: `${text} It is the last that takes work of ${poolsOf(last)}: ${until}` }
}

/** What runs on a worker: its execution as far as that could be read. */
export type Running = Pick<Execution, 'id'> & Partial<Pick<Execution, 'action_ref' | 'idempotent'>>

/** The id of what a worker runs, by what its node answers; nothing: it is free; undefined: that is not known, as the node was not reached. */
export const runsOf = (w: Pick<Worker, 'execution' | 'stale'>): string | undefined => (w.stale ? undefined : w.execution || nothing)
export const nothing = 'nothing'

/** What is asked before a kill: what runs there, and what becomes of it. Undefined: that is not known. */
export function killQuestion(worker: string, runs: Running | typeof nothing | undefined): Question {
  const ask = { title: `Kill ${worker}?`, act: 'Kill it', danger: true, why: true }
  if (!runs) return { ...ask, text: 'It could not be found out whether it runs something. If it does, that is run again if its action is idempotent, and else it ends abandoned. A new generation starts in its place.' }
  if (runs === nothing) return { ...ask, text: 'It runs nothing now. A new generation starts in its place.' }
  const fate = runs.idempotent === undefined ? 'That is run again if its action is idempotent, and else it ends abandoned.'
    : runs.idempotent ? 'That is idempotent, so it is run again, unless it has lost its worker too often.' : 'That is not marked idempotent, so it ends abandoned.'
  return { ...ask, text: `It runs ${runs.action_ref ? `${runs.action_ref}, ` : ''}execution ${short(runs.id)}. ${fate} A new generation starts in the worker's place.` }
}

/** A dead letter, as a question names it. */
export type Letter = Pick<DeadLetter, 'id' | 'action' | 'execution'>

const letterOf = (d: Letter): string => `dead letter ${d.id}${d.action ? ` of ${d.action}` : ''}`

/** What is asked before what an action does may be done a second time; undefined: nothing, as it may. */
export function requeueQuestion(d: Letter, of: Running | undefined): Question | undefined {
  if (of?.idempotent) return undefined
  return { title: `Requeue ${letterOf(d)}?`, act: 'Requeue it', why: true,
    text: `Its execution is submitted again. ${of?.action_ref ? `${of.action_ref} is not marked idempotent. ` : ''}A new execution of the same chain follows. What the first one did may be done a second time.` }
}

/** What is asked before a dead letter is discarded. */
export const discardQuestion = (d: Letter): Question => ({ title: `Discard ${letterOf(d)}?`, text: 'It is marked as handled. Its execution is not submitted again.', act: 'Discard it', danger: true, why: true })

/** What is asked before a cancel, by what the node answers now of the execution; undefined of it: that is not known. Undefined: nothing is asked, as it does not run. The id is in the title, as the page may have another execution by the time of the answer. */
export function cancelQuestion(id: string, e: Pick<Execution, 'action_ref' | 'status' | 'worker'> | undefined): Question | undefined {
  const ask = { title: `Cancel execution ${short(id)}?`, act: 'Cancel it', danger: true, why: true }
  const how = 'its code is asked to stop, and then made to. The outcome is kept.'
  if (!e) return { ...ask, text: `It could not be found out whether it runs. If it does, ${how}` }
  return e.status === 'running' ? { ...ask, text: `${e.action_ref} runs on ${e.worker}. I${how.slice(1)}` } : undefined
}

/** What is asked before one is run again by hand; undefined: nothing. */
export const retryQuestion = (e: Pick<Execution, 'id' | 'action_ref' | 'idempotent'>): Question | undefined => (e.idempotent ? undefined
  : { title: `Run execution ${short(e.id)} again?`, text: `${e.action_ref} is not marked idempotent: what it has done is done a second time, by a new execution.`, act: 'Run it again', why: true })

/** What is asked before a submission; undefined: nothing. */
export const submitQuestion = (action: { ref: string; idempotent: boolean }): Question | undefined => (action.idempotent ? undefined
  : { title: `Submit ${action.ref}?`, act: 'Submit it', text: 'It is not marked idempotent: once it runs, a cancel does not undo what it has done.' })

/** What a cordon's answer says. */
export const cordonSaid = (t: Thing, a: CordonAnswer): string => `${t.kind.charAt(0).toUpperCase()}${t.kind.slice(1)} ${t.name} ${a.cordoned ? 'gets no new work' : 'gets work again'}`

/** What the answer to an order says, which the node has taken and not yet carried out. */
export function doneSaid(a: DoneAnswer, name: string): string {
  if (a.done === 'kill') return `Worker ${name} is ended; another generation follows`
  if (a.done === 'drain') return `Node ${name} drains: it takes no new work, waits for what runs, and ends`
  return `${a.kind} ${name}: ${a.done} is accepted`
}

/** What a probe came to. */
export function probeSaid(h: Health): Told {
  const ill = h.health !== 'healthy' || h.grade !== 'healthy'
  const grade = h.grade === 'healthy' ? '' : `, graded ${h.grade}${h.grade_causes?.length ? ` (${h.grade_causes.join(', ')})` : ''}`
  return { text: `Worker ${h.worker} is ${h.state} and ${h.health}${grade}${ill && h.last_failure ? `: ${h.last_failure}` : ''}`, bad: h.health === 'unhealthy' || h.grade === 'unhealthy' }
}

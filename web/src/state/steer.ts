// Commands to nodes, pools, workers, executions and dead letters: the cordon with its opposite, the probe, the end of a worker, the drain, cancel and retry.
import { get } from '../api/client'
import type { Configuration, CordonAnswer, DoneAnswer, Execution, Health, Node, NodeList, PoolList, WorkerDetail, WorkerList } from '../api/types'
import { cancelQuestion, cordonQuestion, cordonSaid, discardQuestion, doneSaid, drainQuestion, killQuestion, lastOf, nothing, probeSaid, requeueQuestion, retryQuestion, runsOf, shutdownOf, workersMax, type Letter, type Running, type Thing } from '../pages/steer'
import { ended } from '../ui/status'
import { short } from '../ui/text'
import { act } from './act'
import { go } from './place.svelte'
import { to, withQuery } from './route'

const addressOf = (t: Thing): string => `api/v1/${t.kind}s/${t.id.split('/').map(encodeURIComponent).join('/')}`

const workersOf = (more: Record<string, string>) => get<WorkerList>(withQuery('api/v1/workers', new URLSearchParams({ ...more, limit: String(workersMax) })))

/** The pools of which nobody would take work any more, by what all nodes answer now; undefined: it cannot be told. */
async function lasts(t: Thing): Promise<string[] | undefined> {
  if (t.kind === 'pool') return [t.id]
  try {
    const [all, own, nodes, pools] = await Promise.all([
      workersOf(t.kind === 'worker' ? { pool: t.id.split('/').at(-2)! } : {}), t.kind === 'node' ? workersOf({ node: t.id }) : undefined,
      get<NodeList>('api/v1/nodes'), get<PoolList>('api/v1/pools'),
    ])
    if (all.next_cursor || own?.next_cursor) return undefined
    const leaving = new Set(own ? own.workers.map((w) => w.id) : [t.id])
    return lastOf(all.workers, (w) => leaving.has(w.id), pools.pools, nodes.nodes)
  } catch {
    return undefined
  }
}

/** Gives a thing no more work, or gives it work again. The notice of it offers the opposite. */
export async function cordon(t: Thing, on: boolean, after: () => void): Promise<void> {
  const said = (answer: CordonAnswer) => ({ text: cordonSaid(t, answer), step: { label: on ? 'Uncordon' : 'Cordon', run: () => void cordon(t, !on, after) } })
  if (await act(`${addressOf(t)}/${on ? 'cordon' : 'uncordon'}`, said, on ? async () => cordonQuestion(t, await lasts(t)) : undefined)) after()
}

export async function probe(worker: string, after: () => void): Promise<void> {
  if (await act(`${addressOf({ kind: 'worker', id: worker, name: worker })}/health`, (h: Health) => probeSaid(h))) after()
}

/** An execution as far as it can be read; undefined: none is named. */
async function running(id: string | undefined): Promise<Running | undefined> {
  return id ? get<Execution>(`api/v1/executions/${encodeURIComponent(id)}?without_payloads=1`)
    .then((e) => ({ id, action_ref: e.action_ref, idempotent: Boolean(e.idempotent) }), () => ({ id })) : undefined // what is false is left out of the answer
}

/** What runs on a worker by what its node says now: what a page shows may be of before, as while it is paused. */
async function runningOn(address: string): Promise<Running | typeof nothing | undefined> {
  const runs = await get<WorkerDetail>(address).then(runsOf, () => undefined)
  return runs === nothing ? nothing : running(runs)
}

export async function kill(worker: string, after: () => void): Promise<void> {
  const address = addressOf({ kind: 'worker', id: worker, name: worker })
  if (await act(`${address}/kill`, (a: DoneAnswer) => doneSaid(a, worker), async () => killQuestion(worker, await runningOn(address)))) after()
}

/** An execution is read before its cancel is asked about: it may have begun, or ended, since the page read it. */
export async function cancel(id: string, after: () => void): Promise<void> {
  const address = `api/v1/executions/${encodeURIComponent(id)}`
  const said = (e: Execution) => (ended(e.status) ? `It is ${e.status}` : `Cancel requested: it is ${e.status}`)
  await act(`${address}/cancel`, said, async () => cancelQuestion(id, await get<Execution>(`${address}?without_payloads=1`).catch(() => undefined)))
  after()
}

/** Runs an execution again by hand, and opens the new one. */
export async function retry(e: Execution, after: () => void): Promise<void> {
  const said = (answer: Execution) => {
    go(`executions/${answer.id}`)
    return `Submitted again as ${short(answer.id)}`
  }
  await act(`api/v1/executions/${encodeURIComponent(e.id)}/retry`, said, retryQuestion(e))
  after()
}

/** How long a node waits for what runs once it drains, in seconds; undefined: that is not known. A node says it only of itself. */
const patienceOf = async (node: Pick<Node, 'reach'>): Promise<number | undefined> =>
  (node.reach === 'self' ? shutdownOf(await get<Configuration>('api/v1/config').catch(() => undefined)) : undefined)

export async function drain(node: Pick<Node, 'incarnation' | 'name' | 'reach'>, after: () => void): Promise<void> {
  const thing: Thing = { kind: 'node', id: node.incarnation, name: node.name }
  const ask = async () => {
    const [last, seconds] = await Promise.all([lasts(thing), patienceOf(node)])
    return drainQuestion(node.name, last, seconds)
  }
  if (await act(`${addressOf(thing)}/drain`, (a: DoneAnswer) => doneSaid(a, node.name), ask)) after()
}

/** Requeues or discards a dead letter, and says what the requeue made. */
export async function settle(d: Letter, what: 'requeue' | 'discard', after: () => void): Promise<void> {
  const { id } = d
  const ask = what === 'discard' ? discardQuestion(d) : async () => requeueQuestion(d, await running(d.execution))
  const said = (a: { id?: string; status?: string; resolution?: string }) => (what === 'requeue'
    ? { text: `Dead letter ${id} is submitted again: it is ${a.status ?? 'accepted'}`, ...(a.id ? { href: to('executions', String(a.id)), label: 'Open it' } : {}) }
    : `Dead letter ${id} is ${a.resolution ?? 'discarded'}`)
  if (await act(`api/v1/dead-letters/${encodeURIComponent(id)}/${what}`, said, ask)) after()
}

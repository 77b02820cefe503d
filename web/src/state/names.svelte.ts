// The names that this browser tab knows.
import { get, now } from '../api/client'
import type { ActionList, Facets, NodeList, PoolList, WorkerList } from '../api/types'
import { codesPath, Names, namesMax, type Known } from './names'
import { place } from './place.svelte'
import { timedPath } from './range'

let all = $state.raw<Known>({})

/** The codes of what failed in the time that the page shows. */
async function codes(): Promise<string[]> {
  const { fields } = await get<Facets>(timedPath(codesPath(place.route.query), now()))
  return (fields.error ?? []).map((v) => v.value)
}

const asker = new Names({
  action: async () => (await get<ActionList>('api/v1/actions')).actions.map((a) => a.ref),
  pool: async () => (await get<PoolList>('api/v1/pools')).pools.map((p) => p.name),
  node: async () => (await get<NodeList>('api/v1/nodes')).nodes.filter((n) => n.state !== 'dead').map((n) => n.name),
  worker: async () => (await get<WorkerList>(`api/v1/workers?limit=${namesMax}`)).workers.map((w) => w.id),
  error: codes,
}, now, (names) => { all = names })

export const names = {
  get all(): Known { return all },
  want(kind: string): void { void asker.want(kind) },
}

// The verdict of the first page: what the node's own answers say is wrong. Nothing is guessed here, and nothing left out.
import type { Node, Pool, Readiness, Unreached } from '../api/types'

export interface Trouble { text: string; why: string; href: string }

export function troubles(pools: Pool[], nodes: Node[], unreached: Unreached[], ready: Readiness | undefined): Trouble[] {
  const found: Trouble[] = []
  for (const p of pools) {
    if (p.broken) found.push({ text: `Pool ${p.name} is broken`, why: p.reason ?? '', href: `workers?pool=${p.name}` })
    else if (p.workers > 0 && p.ready + p.busy + p.starting === 0) found.push({ text: `No worker of pool ${p.name} takes work`, why: p.reason ?? '', href: `workers?pool=${p.name}` })
    else if (p.reason) found.push({ text: `Pool ${p.name}`, why: p.reason, href: `workers?pool=${p.name}` })
    if (p.old_code) found.push({ text: `Pool ${p.name} runs the code from before a reload`, why: 'the new code did not start', href: `workers?pool=${p.name}` })
    if (p.stale) found.push({ text: `${p.stale} ${p.stale === 1 ? 'worker' : 'workers'} of pool ${p.name} without a fresh heartbeat`, why: '', href: `workers?pool=${p.name}` })
    if (p.cordoned) found.push({ text: `Pool ${p.name} is cordoned`, why: 'it gets no new work', href: 'pools' })
  }
  for (const n of nodes) {
    if (n.state === 'dead') continue
    if (n.state === 'draining') found.push({ text: `Node ${n.name} is draining`, why: '', href: 'nodes' })
    if (n.cordoned) found.push({ text: `Node ${n.name} is cordoned`, why: 'it gets no new work', href: 'nodes' })
    if (n.store_seen === false) found.push({ text: `Node ${n.name} does not renew its lease`, why: n.why ?? '', href: 'nodes' })
  }
  for (const u of unreached) found.push({ text: `Node ${u.node} does not answer`, why: u.why, href: 'nodes' })
  for (const w of ready?.waits_for ?? []) found.push({ text: 'This node is not ready', why: `it waits for ${w}`, href: 'settings' })
  for (const note of ready?.notes ?? []) found.push({ text: 'Note', why: note, href: 'settings' })
  return found
}

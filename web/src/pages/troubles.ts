// The verdict of the first page: the node's findings, and what else its answers say is wrong. Nothing is guessed here, and nothing left out.
import type { Counts, Finding, Findings, Node, Overview, Pool, Readiness, Unreached } from '../api/types'

export interface Trouble { text: string; why: string; href: string; since?: string | undefined; todo?: string | undefined }

/** A finding with why it is so, as far as the pool or the node says, and where to look. */
export interface Found extends Trouble { severity: 'critical' | 'warning'; since: string; means: string; todo: string; link: string }

// Findings that say what a trouble of the pool would say again.
const sayItsPool = ['pool_broken', 'no_active_workers']

export interface Verdict { found: Found[]; also: Trouble[] }

export function verdict(o: Overview): Verdict {
  const findings = o.findings.findings
  const told = new Set(findings.filter((f) => sayItsPool.includes(f.name)).map((f) => f.subject))
  return {
    found: findings.map((f) => ({ severity: f.severity, text: f.message, why: whyOf(f, o), href: hrefOf(f), since: f.since, means: f.means, todo: f.what_to_do, link: f.link })),
    also: troubles(o.pools, o.nodes, o.unreached ?? [], o.readiness, told),
  }
}

function whyOf(f: Finding, o: Overview): string {
  if (f.kind === 'pool') return o.pools.find((p) => p.name === f.subject)?.reason ?? ''
  if (f.kind === 'node') return o.nodes.find((n) => n.name === f.subject && n.state !== 'dead')?.why ?? ''
  return ''
}

/** The verdict in short, whether that is sure, and what keeps it from that. A node knows what is since it began to judge; said says a time. */
export function shortOf(things: number, f: Findings, said: (at: string) => string): { text: string; sure: boolean; note: string } {
  const since = f.judged_in_part && f.since ? ` since ${said(f.since)}` : ''
  const few = f.judged_in_part?.length ?? 0
  return {
    text: things ? `${things} ${things === 1 ? 'thing' : 'things'} to look at` : f.at ? `Nothing is wrong${since}` : 'Not judged yet', sure: !since && !!f.at,
    note: !f.at ? 'This node has not judged the rules of the alerts yet.' : since && `This node judges${since}. ${few === 1 ? 'One rule looks' : `${few} rules look`} further back`,
  }
}

const pages: Record<string, string> = { node_lost: 'history?kinds=node', dlq_buildup: 'dead-letters', dlq_rate: 'dead-letters' }

function hrefOf(f: Finding): string {
  if (f.kind === 'pool') return `${f.name.startsWith('retry') || f.name.startsWith('high') ? 'errors' : 'workers'}?pool=${encodeURIComponent(f.subject ?? '')}`
  return pages[f.name] ?? (f.kind === 'node' ? 'nodes' : 'history')
}

/** What is lost is what ended without its result: executions of the counts' range, by outcome. */
export function lost(counts: Counts | undefined): { status: string; n: number }[] {
  return (counts?.outcomes.series ?? []).filter((s) => ['abandoned', 'failed', 'timed_out'].includes(s.key))
    .map((s) => ({ status: s.key, n: s.n.reduce((sum, n) => sum + n, 0) })).filter((s) => s.n > 0)
}

/** Told are pools about which a finding says already that they do not work. Where a server is away, this node says so for its pools. */
export function troubles(pools: Pool[], nodes: Node[], unreached: Unreached[], ready: Readiness | undefined, told: ReadonlySet<string | undefined> = new Set()): Trouble[] {
  const found: Trouble[] = []
  for (const p of pools) {
    const href = `workers?pool=${p.name}`
    if (told.has(p.name)) { /* the finding has its reason */ }
    else if (p.broken) found.push({ text: `Pool ${p.name} is broken`, why: p.reason ?? '', href })
    else if (p.workers > 0 && p.ready + p.busy + p.starting === 0) found.push({ text: `No worker of pool ${p.name} takes work`, why: p.reason ?? '', href })
    else if (p.reason && !(p.halted && ready?.waits?.some((w) => w.for.startsWith(`${p.halted!.split('_')[0]}: `)))) found.push({ text: `Pool ${p.name}`, why: p.reason, href })
    if (p.old_code) found.push({ text: `Pool ${p.name} runs the code from before a reload`, why: 'the new code did not start', href })
    if (p.stale) found.push({ text: `${p.stale} ${p.stale === 1 ? 'worker' : 'workers'} of pool ${p.name} without a fresh heartbeat`, why: '', href })
    if (p.cordoned) found.push({ text: `Pool ${p.name} is cordoned`, why: 'it gets no new work', href: 'pools' })
  }
  for (const n of nodes) {
    if (n.state === 'dead') continue
    if (n.state === 'draining') found.push({ text: `Node ${n.name} is draining`, why: '', href: 'nodes' })
    if (n.cordoned) found.push({ text: `Node ${n.name} is cordoned`, why: 'it gets no new work', href: 'nodes' })
    if (n.store_seen === false) found.push({ text: `Node ${n.name} does not renew its lease`, why: n.why ?? '', href: 'nodes' })
  }
  for (const u of unreached) found.push({ text: `Node ${u.node} does not answer`, why: u.why, href: 'nodes' })
  for (const w of ready?.waits ?? []) found.push({ text: 'This node is not ready', why: `it waits for ${w.for}`, href: 'settings', since: w.since, todo: w.what_to_do })
  const repeated = pools.filter((p) => p.broken || told.has(p.name)).map((p) => `pool ${p.name} is broken: `)
  for (const note of ready?.notes ?? []) if (!repeated.some((r) => note.startsWith(r))) found.push({ text: 'Note', why: note, href: 'settings' })
  return found
}

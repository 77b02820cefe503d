// What the page of an execution says and where it leads.
import type { ChainLink, Execution, Explanation, Failure, Interval, Remains, WorkerRun, WorkerRuns } from '../api/types'
import { stamp } from '../state/range'
import { withQuery } from '../state/route'
import { duration } from '../state/time'
import { ended } from '../ui/status'
import { visible } from '../ui/text'

/** How often it was retried: a person may retry more often than the node does by itself. */
export const retries = (e: Pick<Execution, 'retry_count' | 'max_retries' | 'idempotent'>): string =>
  `${e.retry_count <= e.max_retries ? `${e.retry_count} of ${e.max_retries}` : `${e.retry_count}, of which the node makes up to ${e.max_retries} by itself`}${e.idempotent ? ', idempotent' : ''}`

/** What is known of its session's state, behind the session's name. Another than its worker, which ends a run, does not know whether a snapshot was restored. */
export function lossOf(e: Pick<Execution, 'session_lost' | 'status' | 'error'>): string {
  if (!e.session_lost) return ''
  if (!ended(e.status)) return ', away from its state'
  return !['', 'worker', 'recorder'].includes(e.error?.failed_by ?? '') ? ', away from its state; its worker did not say whether a snapshot was restored' : ', state lost'
}

/** What is known of an error beside its code and message. Whether a retry follows is said apart: of that the error has only what the action's code wishes, if it says so. */
export function natureOf(e: Failure): string {
  const wish = e.retriable === undefined ? '' : e.retriable ? 'its code says retriable' : 'its code says final'
  return [e.class && `class ${visible(e.class)}`, e.failed_by && `caught by ${visible(e.failed_by)}`, e.exit && visible(e.exit), wish].filter(Boolean).join(' · ')
}

/** The groups of errors that its own one is in, in the hour up to its end. */
export function errorsOf(e: Pick<Execution, 'action_ref' | 'error' | 'finished_at'>): string {
  const query = new URLSearchParams({ action: e.action_ref, error: e.error?.code ?? '' })
  if (e.finished_at) {
    const end = Date.parse(e.finished_at)
    query.set('from', stamp(end - 3_600_000))
    query.set('to', stamp(end + 1000))
  }
  return withQuery('errors', query)
}

/** The version of a link of a chain, where it is not that of the one before. */
export function changedVersion(chain: readonly Pick<ChainLink, 'version'>[], i: number): string {
  const [before, version] = [chain[i - 1]?.version, chain[i]?.version]
  return i > 0 && before !== version ? `${before || 'no version'} → ${version || 'no version'}` : ''
}

/** The runs of its worker, other than its own, that were within a time, oldest first. */
export const neighbours = (runs: Pick<WorkerRuns, 'runs'>, id: string, within: Interval): WorkerRun[] =>
  runs.runs.filter((r) => r.execution !== id && Date.parse(r.started_at) <= Date.parse(within.to) && (!r.finished_at || Date.parse(r.finished_at) >= Date.parse(within.from)))
    .sort((a, b) => Date.parse(a.started_at) - Date.parse(b.started_at))

/** What a node says of an execution that it does not have; undefined: it says nothing, as one of an older release. */
export function remainsOf(details: unknown): Remains | undefined {
  const found = typeof details === 'object' && details !== null && 'remains' in details ? details.remains : undefined
  return typeof found === 'object' && found !== null && 'was_stored' in found ? found as Remains : undefined
}

/** What became of an execution that is not stored. */
export function fate(r: Remains): string {
  const kept = r.retention_seconds ? `This node keeps ended executions for ${duration(r.retention_seconds * 1000)}.` : 'This node deletes no ended executions.'
  if (r.deleted_by_retention) return `It was deleted by retention. ${kept}`
  return r.was_stored ? `It was stored, and is no more. ${kept}` : `Nothing of it is stored: there is no such execution, or it was deleted and left no trace. ${kept}`
}

const lines: Record<string, string> = {
  pool: 'for the next free worker of its pool', worker: 'for the worker of its session', session: 'in its session', any_worker: 'for the first worker of its pool',
}

/** A place in line, in words. */
export const placeInLine = (l: NonNullable<Explanation['line']>): string =>
  l.ahead === 0 ? (l.at_least ? `Others may be before it ${lines[l.of] ?? l.of}.` : `It is the next one ${lines[l.of] ?? l.of}.`) : `${l.at_least ? 'At least ' : ''}${l.ahead.toLocaleString('en')} ${l.ahead === 1 ? 'is' : 'are'} before it ${lines[l.of] ?? l.of}.`

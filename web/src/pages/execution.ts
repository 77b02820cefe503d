// What the page of an execution says and where it leads.
import type { ChainLink, Execution } from '../api/types'
import { stamp } from '../state/range'
import { withQuery } from '../state/route'

/** How often it was retried: a person may retry more often than the node does by itself. */
export const retries = (e: Pick<Execution, 'retry_count' | 'max_retries' | 'idempotent'>): string =>
  `${e.retry_count <= e.max_retries ? `${e.retry_count} of ${e.max_retries}` : `${e.retry_count}, of which the node makes up to ${e.max_retries} by itself`}${e.idempotent ? ', idempotent' : ''}`

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

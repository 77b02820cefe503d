// What a banner says of a question that was not answered. Pure: the problem in, words out.

interface Problem { status: number; code: string; message: string }

/** The banner's title, and what it adds; adds is empty where the title says it all. */
export function troubleOf(p: Problem): { title: string; adds: string; code: string } {
  if (p.status === 0) return { title: 'The node does not answer', adds: '', code: '' }
  const told = (title: string) => ({ title, adds: p.message, code: p.code })
  if (p.status === 403) return told('Your token does not allow this')
  if (p.code === 'store_unavailable') return told('The store is away')
  if (p.code === 'node_older' || p.status === 501) return told('That node is too old for this')
  if (p.status >= 500 || p.status === 429) return told('The node cannot answer this now')
  return told('The node refused this')
}

/** Whether the same question may be answered when it is asked again: not where the node has no such thing, or does not take the question. */
export const again = (p: Pick<Problem, 'status'>): boolean => p.status !== 404 && p.status !== 400

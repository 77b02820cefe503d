// Which page an address means. The path names the thing, the query says how it is looked at.

export interface Route {
  page: string
  args: Record<string, string>
  query: URLSearchParams
}

interface Pattern { page: string; parts: string[] }

const patterns: Pattern[] = [
  ['overview', ''],
  ['executions', 'executions'],
  ['execution', 'executions/:id'],
  ['actions', 'actions'],
  ['action', 'actions/:ref'],
  ['pools', 'pools'],
  ['pool', 'pools/:name'],
  ['workers', 'workers'],
  ['worker', 'workers/:node/:pool/:slot'],
  ['nodes', 'nodes'],
  ['node', 'nodes/:id'],
  ['sessions', 'sessions'],
  ['session', 'sessions/:pool/:name'],
  ['dead-letters', 'dead-letters'],
  ['dead-letter', 'dead-letters/:id'],
  ['errors', 'errors'],
  ['webhooks', 'webhooks'],
  ['operations', 'operations'],
  ['operation', 'operations/:id'],
  ['history', 'history'],
  ['changes', 'changes'],
  ['change', 'changes/:at'],
  ['tree', 'tree'],
  ['settings', 'settings'],
].map(([page, path]) => ({ page: page!, parts: path!.split('/').filter(Boolean) }))

/** The place that a path stands for, where that is written another way: the overview is at the base. */
export const proper = (path: string): string => (/^overview\/*$/.test(path) ? './' : path)

/** Finds the page of a path below the console's own. An unknown one is the page "missing". */
export function match(path: string, query: URLSearchParams): Route {
  const parts = path.split('/').filter(Boolean).map(decode)
  for (const p of patterns) {
    const args = fits(p.parts, parts)
    if (args) return { page: p.page, args, query }
  }
  return { page: 'missing', args: { path }, query }
}

function fits(pattern: string[], parts: string[]): Record<string, string> | undefined {
  if (pattern.length !== parts.length) return undefined
  const args: Record<string, string> = {}
  for (const [i, want] of pattern.entries()) {
    if (want.startsWith(':')) args[want.slice(1)] = parts[i]!
    else if (want !== parts[i]) return undefined
  }
  return args
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

/** The address of a thing, relative to the console's base. */
export function to(...parts: string[]): string {
  return parts.length === 0 ? './' : parts.map(encodeURIComponent).join('/')
}

/** The address with a query; empty values are left out. */
export function withQuery(path: string, query: URLSearchParams): string {
  const text = query.toString().replaceAll('%3A', ':').replaceAll('%2C', ',').replaceAll('%2F', '/')
  return text ? `${path}?${text}` : path
}

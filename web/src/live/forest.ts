// Puts the topic tree together: its actors come one by one, and belong into the trees of their nodes.

interface Actor { id: string; parent?: string; children?: Actor[] }
interface Node { incarnation: string; tree?: { roots: Actor[] } }

export const isTree = (topic: string): boolean => topic === 'tree' || topic.startsWith('tree:')

/** The answer of /debug/actors?cluster=1. Values are left as they are: the next difference belongs to them. */
export function forestOf(entries: Iterable<readonly [string, unknown]>): Record<string, unknown> {
  const whole: Record<string, unknown> = {}, nodes: Node[] = []
  const actors = new Map<string, Map<string, Actor>>()
  for (const [key, value] of entries) {
    const [field = '', incarnation, ...id] = key.split('/')
    if (incarnation === undefined) whole[field] = value
    else if (id.length === 0) nodes.push(value as Node)
    else {
      const of = actors.get(incarnation) ?? new Map<string, Actor>()
      actors.set(incarnation, of.set(id.join('/'), { ...value as Actor }))
    }
  }
  whole.nodes = nodes.map((node) => (node.tree ? { ...node, tree: { ...node.tree, roots: grown(actors.get(node.incarnation) ?? new Map()) } } : node))
  return whole
}

/** The actors whose parents are not there, with all others below them. */
function grown(actors: ReadonlyMap<string, Actor>): Actor[] {
  const roots: Actor[] = []
  for (const actor of actors.values()) {
    const parent = actors.get(actor.parent ?? '')
    if (parent && parent !== actor) (parent.children ??= []).push(actor)
    else roots.push(actor)
  }
  return roots
}

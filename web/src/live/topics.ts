// Which questions to the API can be followed, and as which topic.

/** The question for the trees of all nodes. */
export const treePath = 'debug/actors?cluster=1&children=1000'

const names: Record<string, string | undefined> = {
  __proto__: null as never,
  'api/v1/overview': 'counters', 'api/v1/executions': 'list', 'api/v1/journal': 'journal',
  'api/v1/pools': 'pools', 'api/v1/nodes': 'nodes', 'api/v1/workers': 'workers',
  'api/v1/fleet': 'fleet',
  rows: 'rows', // no question of the API's: only a topic
}

/** The topic of a question; undefined: it is asked again and again instead. */
export function topicOf(path: string): string | undefined {
  if (path === treePath) return 'tree'
  const mark = path.indexOf('?')
  const name = names[mark < 0 ? path : path.slice(0, mark)]
  const query = mark < 0 ? '' : path.slice(mark + 1)
  if (!name || /(^|&)(cursor|at)=/.test(query) || name === 'counters' && query) return undefined // a page behind the first, the past, or a range
  return query ? `${name}:${query.replaceAll(',', '%2C')}` : name
}

/** How many topics one stream may have. */
export const topicsMax = 32

/** How many executions one stream may follow what they say of. */
export const flowsMax = 16

/** Whether a topic is what an execution says, which is not an answer that changes. */
export function isFlow(topic: string): boolean { return topic.startsWith('execution:') }

/** The path of a stream of topics. One that says something goes on at its place. */
export function streamOf(topics: readonly string[], placeOf: (topic: string) => string | undefined = () => undefined): string {
  const named = topics.map((topic) => { const place = placeOf(topic); return place ? `${topic}@${place}` : topic })
  return `api/v1/stream?topics=${encodeURIComponent(named.join(','))}`
}

/** As many of the topics as one stream takes. */
export function taken(topics: readonly string[]): string[] {
  let flows = 0
  return [...topics].sort().filter((topic) => !isFlow(topic) || ++flows <= flowsMax).slice(0, topicsMax)
}

import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { Follower, quietMax, silentMax, type Told } from './follower'

/** A node whose streams a test writes. */
class Node {
  asked: { topics: string; last: string; send: (text: string) => void; end: () => void; stopped: boolean }[] = []
  refuses: Response | 'unreachable' | undefined
  open = (path: string, last: string, stop: AbortSignal): Promise<Response> => {
    const asked = { topics: decodeURIComponent(path.split('=')[1]!), last, send: (_: string) => {}, end: () => {}, stopped: false }
    this.asked.push(asked)
    if (this.refuses === 'unreachable') return Promise.reject(new TypeError('no'))
    if (this.refuses) return Promise.resolve(this.refuses)
    const body = new ReadableStream<Uint8Array>({
      start: (c) => {
        asked.send = (text) => c.enqueue(new TextEncoder().encode(text))
        asked.end = () => c.close()
        stop.addEventListener('abort', () => { asked.stopped = true; try { c.error(new Error('stopped')) } catch { /* it has ended */ } })
      },
    })
    return Promise.resolve(new Response(body))
  }
  get now() { return this.asked.at(-1)! }
}

const hello = 'event: notice\ndata: {"node":"a","version":"1","build":"b1"}\n\n'
const event = (id: string, data: object) => `${id ? `id: ${id}\n` : ''}event: list\ndata: ${JSON.stringify({ at: '2030-01-31T08:00:00Z', ...data })}\n\n`
const docs = (page: ReturnType<typeof vi.fn>, topic: string) =>
  page.mock.calls.map(([told]) => told as Told).filter((t) => t.kind === 'topic').filter((t) => t.topic === topic && t.doc !== undefined).map((t) => t.doc)

let node: Node, follower: Follower
beforeEach(() => {
  vi.useFakeTimers()
  node = new Node()
  follower = new Follower({ open: node.open, now: Date.now, random: () => 1 })
})
afterEach(() => vi.useRealTimers())
const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms)

test('one stream for all pages, and none without one', async () => {
  const one = vi.fn(), two = vi.fn()
  follower.hear(one, { topics: ['list'] })
  follower.hear(two, { topics: ['list', 'counters'] })
  await pass(50)
  expect(node.asked.map((a) => a.topics)).toEqual(['counters,list'])
  node.now.send(hello + event('i.1', { topic: 'list', n: 1, set: [['more', 1]] }))
  await pass(0)
  expect(docs(one, 'list')).toEqual([{ more: 1 }])
  expect(docs(two, 'list')).toEqual([{ more: 1 }])
  expect(follower.standing.state).toBe('live')
  node.now.send(event('i.2', { topic: 'list', n: 2, after: 1, set: [['more', 2]] }))
  await pass(0)
  expect(docs(one, 'list').at(-1)).toEqual({ more: 2 })
  const three = vi.fn()
  follower.hear(three, { topics: ['list'] })
  expect(docs(three, 'list')).toEqual([{ more: 2 }]) // at once
  for (const page of [one, two, three]) follower.hear(page, { bye: true })
  await pass(50)
  expect(node.asked).toHaveLength(1)
  expect(node.now.stopped).toBe(true)
  expect(follower.standing.state).toBe('idle')
})

test('a lost stream goes on where it was, after longer and longer waits', async () => {
  const page = vi.fn()
  follower.hear(page, { topics: ['list'] })
  await pass(50)
  node.now.send(hello + event('i.1', { topic: 'list', n: 1, set: [['more', 1]] }))
  await pass(0)
  node.refuses = 'unreachable'
  node.now.end()
  await pass(0)
  expect(follower.standing).toMatchObject({ state: 'lost', since: Date.now(), again: Date.now() + 1000 })
  const since = follower.standing.since
  await pass(1000)
  expect(node.asked).toHaveLength(2)
  await pass(1999)
  expect(node.asked).toHaveLength(2)
  await pass(1)
  expect(node.asked).toHaveLength(3)
  expect(follower.standing.since).toBe(since)
  node.refuses = undefined
  await pass(4000)
  expect(node.now.last).toBe('i.1')
  node.now.send(hello + event('i.2', { topic: 'list', n: 2, after: 1, set: [['more', 2]] }))
  await pass(0)
  expect(follower.standing).toMatchObject({ state: 'live', since: 0 })
  expect(docs(page, 'list')).toEqual([{ more: 1 }, { more: 2 }])
})

test('other topics begin without what was', async () => {
  const page = vi.fn()
  follower.hear(page, { topics: ['list'] })
  await pass(50)
  node.now.send(hello + event('i.1', { topic: 'list', n: 1, set: [] }))
  await pass(0)
  follower.hear(page, { topics: ['list', 'nodes'] })
  await pass(50)
  expect(node.now).toMatchObject({ topics: 'list,nodes', last: '' })
  expect(node.asked[0]!.stopped).toBe(true)
  expect(follower.standing.state).toBe('live') // no banner meanwhile
})

test('a difference that does not follow has everything asked anew', async () => {
  follower.hear(vi.fn(), { topics: ['list'] })
  await pass(50)
  node.now.send(hello + event('i.5', { topic: 'list', n: 5, after: 4, set: [] }))
  await pass(1000)
  expect(node.asked).toHaveLength(2)
  expect(node.now.last).toBe('')
})

test('the end of the node says when to come back', async () => {
  follower.hear(vi.fn(), { topics: ['list'] })
  await pass(50)
  node.now.send(hello + event('i.1', { topic: 'list', n: 1, set: [] }) + 'id:\nevent: reset\nretry: 4000\ndata: {"why":"the node stops","retry_after_ms":4000}\n\n')
  node.now.end()
  await pass(3999)
  expect(node.asked).toHaveLength(1)
  await pass(1)
  expect(node.now.last).toBe('')
  expect(node.asked).toHaveLength(2)
})

test('a node that says nothing is lost', async () => {
  follower.hear(vi.fn(), { topics: ['list'] })
  await pass(50)
  node.now.send(hello)
  await pass(quietMax - 1)
  expect(follower.standing.state).toBe('live')
  await pass(1)
  expect(follower.standing.state).toBe('lost')
})

test.each<[number, string, Partial<Follower['standing']>]>([
  [401, '', { state: 'denied', refused: false }],
  [403, '', { state: 'denied', refused: true }],
  [404, '', { state: 'lost', refused: true }],
  [429, '7', { state: 'lost', refused: true }],
  [503, '', { state: 'lost', refused: false }],
])('an answer of %i', async (status, retryAfter, want) => {
  node.refuses = new Response('{"error":{"code":"c","message":"m"}}', { status, headers: retryAfter ? { 'Retry-After': retryAfter } : {} })
  const page = vi.fn()
  follower.hear(page, { topics: ['list'] })
  await pass(50)
  expect(follower.standing).toMatchObject({ ...want, message: 'm' })
  node.refuses = undefined
  if (status < 404) {
    await pass(60_000)
    expect(node.asked).toHaveLength(1)
    follower.hear(page, { topics: ['list'], retry: true }) // after a login
    await pass(50)
  } else {
    await pass(retryAfter ? 6900 : 1000)
    if (retryAfter) expect(node.asked).toHaveLength(1)
    await pass(100)
  }
  expect(node.asked).toHaveLength(2)
})

test('a topic that the node does not take is left out, and the others go on', async () => {
  node.refuses = new Response('{"error":{"code":"invalid_topic","message":"topic \\"list:x=1\\": no","details":{"topic":"list:x=1"}}}', { status: 422 })
  const page = vi.fn()
  follower.hear(page, { topics: ['list:x=1', 'nodes'] })
  await pass(40)
  node.refuses = undefined
  await pass(40)
  expect(page).toHaveBeenCalledWith(expect.objectContaining({ topic: 'list:x=1', wrong: expect.objectContaining({ status: 422 }) }))
  expect(node.now.topics).toBe('nodes')
})

test.each([['invalid_request', 422], ['too_many_requests', 429], ['store_unavailable', 503], ['toString', 503]])('a topic that cannot be read for %s', async (code, status) => {
  const page = vi.fn()
  follower.hear(page, { topics: ['tree'] })
  await pass(50)
  node.now.send(hello + event('', { topic: 'tree', problem: { code, message: 'no' } }))
  await pass(0)
  expect(page).toHaveBeenCalledWith(expect.objectContaining({ topic: 'tree', wrong: { status, code, message: 'no' } })) // from 400 to 499, the page asks instead
})

test('a problem of a topic is told, and a page that comes later hears of it', async () => {
  const page = vi.fn(), later = vi.fn()
  follower.hear(page, { topics: ['list'] })
  await pass(50)
  node.now.send(hello + event('', { topic: 'list', problem: { code: 'store_unavailable', message: 'away' } }))
  await pass(0)
  const wrong = expect.objectContaining({ wrong: { status: 503, code: 'store_unavailable', message: 'away' } })
  expect(page).toHaveBeenCalledWith(wrong)
  follower.hear(later, { topics: ['list'] })
  expect(later).toHaveBeenCalledWith(wrong)
})

test('a sign of life makes what has not changed current', async () => {
  const page = vi.fn()
  follower.hear(page, { topics: ['list'] })
  await pass(50)
  node.now.send(hello + event('i.1', { topic: 'list', n: 1, set: [] }) + 'event: alive\ndata: {"at":"2030-01-31T08:00:09Z","read":{"list":"2030-01-31T08:00:08Z"}}\n\n')
  await pass(0)
  expect(page).toHaveBeenLastCalledWith({ kind: 'topic', topic: 'list', at: Date.parse('2030-01-31T08:00:08Z') })
})

test('a page that is silent is gone', async () => {
  follower.hear(vi.fn(), { topics: ['list'] })
  await pass(50)
  vi.setSystemTime(Date.now() + silentMax + 1)
  follower.sweep()
  await pass(50)
  expect(node.now.stopped).toBe(true)
})

test('more topics than a stream may have are not followed', async () => {
  const page = vi.fn()
  follower.hear(page, { topics: Array.from({ length: 33 }, (_, i) => `list:pool=${String(i).padStart(2, '0')}`) })
  await pass(50)
  expect(node.now.topics.split(',')).toHaveLength(32)
  expect(page).toHaveBeenCalledWith(expect.objectContaining({ topic: 'list:pool=32', wrong: expect.objectContaining({ status: 429 }) }))
})

const say = (data: object) => `event: execution\ndata: ${JSON.stringify({ topic: 'execution:a', log: 'i-1', ...data })}\n\n`
const line = (message: string) => ({ kind: 'log', message })
const heard = (page: ReturnType<typeof vi.fn>) => page.mock.calls.map(([told]) => told as Told).filter((t) => t.kind === 'said').map((t) => t.heard)

test('what an execution says goes on where it was, also beside other topics', async () => {
  const page = vi.fn()
  follower.hear(page, { topics: ['execution:a'] })
  await pass(50)
  node.now.send(hello + say({ n: 2, said: [line('1'), line('2')] }) + say({ n: 5, after: 2, lost: 2, said: [line('5')] }))
  await pass(0)
  expect(heard(page)).toEqual([{ anew: true, lost: 0, said: [line('1'), line('2')] }, { anew: false, lost: 2, said: [line('5')] }])
  follower.hear(page, { topics: ['execution:a', 'nodes'] })
  await pass(50)
  expect(node.now.topics).toBe('execution:a@i-1.5,nodes')
  node.now.send(hello + say({ n: 6, after: 5, said: [line('6')] }))
  await pass(0)
  expect(heard(page).at(-1)).toEqual({ anew: false, lost: 0, said: [line('6')] })
  node.now.end()
  await pass(1000)
  expect(node.now.topics).toBe('execution:a@i-1.6,nodes')
})

test('a page that comes later has all of what an execution said', async () => {
  const one = vi.fn(), two = vi.fn()
  follower.hear(one, { topics: ['execution:a'] })
  await pass(50)
  node.now.send(hello + say({ n: 1, said: [line('1')] }))
  await pass(0)
  follower.hear(two, { topics: ['execution:a'] })
  await pass(50)
  expect(node.asked.map((a) => a.topics)).toEqual(['execution:a', 'execution:a'])
  expect(node.asked[0]!.stopped).toBe(true)
  node.now.send(hello + say({ n: 1, said: [line('1')] }))
  await pass(0)
  expect(heard(two)).toEqual([{ anew: true, lost: 0, said: [line('1')] }])
  expect(heard(one)).toHaveLength(2)
})

test('a page that leaves and comes back at once has all of what an execution said', async () => {
  const page = vi.fn()
  follower.hear(page, { topics: ['execution:a'] })
  await pass(50)
  node.now.send(hello + say({ n: 1, said: [line('1')] }))
  await pass(0)
  follower.hear(page, { topics: [] })
  follower.hear(page, { topics: ['execution:a'] })
  await pass(50)
  expect(node.asked.map((a) => a.topics)).toEqual(['execution:a', 'execution:a'])
})

test.each([
  ['that does not follow', say({ n: 9, after: 7, said: [] })],
  ['of another log', say({ log: 'i-2', n: 2, after: 1, said: [] })],
  ['after a reset', 'id:\nevent: reset\ndata: {"why":"slow","retry_after_ms":0}\n\n' + say({ n: 2, after: 1, said: [] })],
])('something said %s has all asked anew', async (_, wrong) => {
  follower.hear(vi.fn(), { topics: ['execution:a'] })
  await pass(50)
  node.now.send(hello + say({ n: 1, said: [line('1')] }) + wrong)
  await pass(1000)
  expect(node.asked.map((a) => a.topics)).toEqual(['execution:a', 'execution:a'])
})

test('an execution that cannot be followed is told of', async () => {
  const page = vi.fn()
  follower.hear(page, { topics: ['execution:a'] })
  await pass(50)
  node.now.send(hello + say({ n: 1, said: [line('1')] }) + say({ problem: { code: 'store_unavailable', message: 'away' } }))
  await pass(0)
  expect(page).toHaveBeenLastCalledWith(expect.objectContaining({ wrong: { status: 503, code: 'store_unavailable', message: 'away' } }))
  node.refuses = new Response('{"error":{"code":"invalid_topic","message":"no","details":{"topic":"execution:a@i-1.1"}}}', { status: 422 })
  node.now.end()
  await pass(1000)
  expect(page).toHaveBeenLastCalledWith(expect.objectContaining({ topic: 'execution:a', wrong: expect.objectContaining({ status: 422 }) }))
})

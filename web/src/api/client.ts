// Calls of the node's API. The page never holds a token: it trades it for a cookie that no script can read.
import { parse, stringify } from './digits'

export class Problem extends Error {
  constructor(readonly status: number, readonly code: string, message: string, readonly details?: unknown) {
    super(message)
  }
}

/** The code of the problem that nothing answers. */
export const unreachable = 'unreachable'

/** The address below which the node answers: the parent of the console's own. */
export const root = typeof document === 'undefined' ? new URL('http://node/') : new URL('..', document.baseURI)

/** How far the store's clock is ahead of this browser's, in milliseconds. */
let ahead = 0
/** When the node last answered this page, by this browser's clock. The page itself was its first answer. */
let answered = typeof performance === 'undefined' ? 0 : performance.timeOrigin
const denied = new Set<() => void>()

/** Calls tell whenever the node asks for a token. */
export function onDenied(tell: () => void): () => void {
  denied.add(tell)
  return () => denied.delete(tell)
}

/** Says that the node asks for a token. */
export function deny(): void { for (const tell of denied) tell() }

const answering = new Set<(at: number) => void>()

/** Tells whenever the node has answered something, and when it last did, by this browser's clock. */
export function onAnswer(tell: (at: number) => void): () => void {
  answering.add(tell)
  return () => answering.delete(tell)
}

function heard(at: number): void {
  answered = Math.max(answered, at)
  for (const tell of answering) tell(answered)
}

/** The store's time now, as this browser can tell it. */
export function now(): number { return Date.now() + ahead }

/** When the node last answered anything, by this browser's clock. */
export function answeredAt(): number { return answered }

/** Says that the node answered otherwise than by a call, at a time of the store's clock. */
export function heardAt(at: number): void { heard(Math.min(at - ahead, Date.now())) }

const patience = 20_000

export interface Ask { method?: string; body?: unknown; signal?: AbortSignal; accept?: string; unbounded?: boolean; quiet?: boolean }

/** Sends one request. Throws a Problem, also if nothing answers. */
export async function send(path: string, ask: Ask = {}): Promise<Response> {
  const headers: Record<string, string> = { Accept: ask.accept ?? 'application/json' }
  if (ask.body !== undefined) headers['Content-Type'] = 'application/json'
  const limits = [ask.signal, ask.unbounded ? undefined : AbortSignal.timeout(patience)].filter((s) => s !== undefined)
  let answer: Response
  try {
    answer = await fetch(new URL(path, root), {
      method: ask.method ?? 'GET', headers, credentials: 'same-origin', cache: 'no-store',
      body: ask.body === undefined ? undefined : stringify(ask.body), signal: AbortSignal.any(limits),
    })
  } catch (error) {
    if (ask.signal?.aborted) throw error
    throw new Problem(0, unreachable, 'the node does not answer')
  }
  readClock(answer.headers.get('Troupe-Time'))
  heard(Date.now())
  if (answer.ok) return answer
  const problem = await problemOf(answer)
  if (problem.status === 401 && !ask.quiet) deny()
  throw problem
}

/** Asks for JSON. */
export async function get<T>(path: string, ask: Ask = {}): Promise<T> {
  return parse<T>(await (await send(path, ask)).text())
}

export async function post<T>(path: string, body?: unknown): Promise<T> {
  return await get<T>(path, { method: 'POST', body: body ?? {} })
}

/** Trades a token for a cookie. */
export async function login(token: string): Promise<void> {
  await send('api/v1/login', { method: 'POST', body: { token: token.trim() }, quiet: true })
}

/** Sends a command. Most have no body. */
export async function command<T>(path: string, method = 'POST', body?: unknown): Promise<T> {
  return await get<T>(path, { method, body })
}

async function problemOf(answer: Response): Promise<Problem> {
  try {
    const { error } = await answer.json() as { error: { code: string; message: string; details?: unknown } }
    return new Problem(answer.status, error.code, error.message, error.details)
  } catch {
    return new Problem(answer.status, `http_${answer.status}`, `the node answers ${answer.status}`)
  }
}

function readClock(text: string | null): void {
  const at = text ? Date.parse(text) : NaN
  if (!Number.isNaN(at)) ahead = at - Date.now()
}

/** The command for curl that asks the same. */
export function asCurl(path: string, guarded: boolean, method = 'GET', body?: unknown): string {
  const parts = ['curl', '-s']
  if (method !== 'GET') parts.push('-X', method)
  if (guarded) parts.push('-H', '"Authorization: Bearer $TROUPE_TOKEN"')
  if (body !== undefined) parts.push('-H', quote('Content-Type: application/json'), '-d', quote(stringify(body)))
  parts.push(quote(new URL(path, root).href))
  return parts.join(' ')
}

/** A line that ends in a command of troupe, for the node of this page. It always names the node: TROUPE_SERVER of the reader's shell may name another one. */
export function asTroupe(line: string, at: Pick<URL, 'origin' | 'pathname'> = root): string {
  return `${line} --server ${quote(`${at.origin}${at.pathname}`.replace(/\/+$/, ''))}`
}

export function quote(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
}

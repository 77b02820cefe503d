// Who the page's user is to the node, and what the page says to him.
import { get, login, onDenied, Problem, send } from '../api/client'
import type { Me, Scope } from '../api/types'
import { backOff } from '../live/backoff'
import { live } from './live.svelte'

let denied = $state(false)
let entries = $state(0)
let me = $state.raw<Me | undefined>()
onDenied(() => { denied = true })

/** What pages show depends on the answer, so it is asked again until the node gives it or refuses it. */
async function ask(failures = 0): Promise<void> {
  try {
    me = await get<Me>('api/v1/me')
  } catch (error) {
    if (!(error instanceof Problem)) throw error
    if (error.status === 0 || error.status >= 500) setTimeout(() => { if (!me) void ask(failures + 1) }, backOff(failures + 1))
  }
}
void ask()

export const session = {
  get denied() { return denied },
  get me() { return me },
  /** Grows with each login: what was refused before is asked again. */
  get entries() { return entries },
  /** How payloads are shown: undefined until the node has said it. */
  get payloads() { return me?.payloads },
  /** Whether a command for this needs a token outside of the page. */
  get guarded() { return me !== undefined && me.via !== 'local' },
  async enter(token: string): Promise<void> {
    await login(token)
    denied = false
    entries++
    live.renew()
    await ask()
  },
  async leave(): Promise<void> {
    try {
      await send('api/v1/logout', { method: 'POST', quiet: true })
    } catch (error) {
      const { status, message } = error as Problem
      if (status !== 401) return say(`You are still logged in: ${message}`, { bad: true }) // the browser has its cookie
    }
    me = undefined
    denied = true
    live.renew()
  },
}

/** Why the user cannot do what needs a scope, or nothing. The node decides; this only saves him the way. */
export function lacks(scope: Scope): string | undefined {
  if (!me) return undefined
  if (me.mode === 'read_only' && scope !== 'read') return 'The console of this node is read-only (console.mode)'
  return me.scopes.includes(scope) ? undefined : `This needs the scope ${scope}; yours: ${me.scopes.join(', ') || 'none'}`
}

/** What can be done about a notice. */
export interface Step { label: string; run: () => void }
export interface Told { text: string; bad?: boolean; href?: string; label?: string; step?: Step }
export interface Notice extends Told { id: number; bad: boolean }
let notices = $state<Notice[]>([])
let last = 0
const noticesMax = 4
/** How long a notice stays, in milliseconds: longer where something can be done about it. */
const noticeTime = 8000, stepTime = 20_000

/** Says what happened. An error stays until it is closed. */
export function say(text: string, more: Omit<Told, 'text'> = {}): void {
  const notice: Notice = { ...more, id: ++last, text, bad: more.bad ?? false }
  notices = [...notices.slice(1 - noticesMax), notice]
  if (!notice.bad) setTimeout(() => unsay(notice.id), more.step ? stepTime : noticeTime)
}
export function unsay(id: number): void { notices = notices.filter((n) => n.id !== id) }
export const said = { get notices() { return notices } }

export interface Question { title: string; text: string; act: string; danger?: boolean; typed?: string; /** A reason for the journal can be given. */ why?: boolean }
let question = $state<Question & { answer: (yes: boolean, reason?: string) => void } | undefined>()
export const asked = { get question() { return question } }

/** Asks before something is done that cannot be taken back. */
export async function confirm(q: Question): Promise<boolean> { return (await consult(q)) !== undefined }

/** Asks, and takes a reason if somebody gives one. Undefined: it is not to be done. A question that comes while another one is open is not asked: it would stand under a finger that answers the first. */
export function consult(q: Question): Promise<{ reason: string } | undefined> {
  if (question) {
    say(`${q.title} Another question was open, so this one was not asked: give the command again.`, { bad: true })
    return Promise.resolve(undefined)
  }
  return new Promise((resolve) => {
    question = { ...q, answer: (yes, reason = '') => { question = undefined; resolve(yes ? { reason: reason.trim() } : undefined) } }
  })
}

// Who the page's user is to the node, and what the page says to him.
import { command, get, login, onDenied, Problem } from '../api/client'
import type { Me, Scope } from '../api/types'
import { live } from './live.svelte'

let denied = $state(false)
let entries = $state(0)
let me = $state.raw<Me | undefined>()
onDenied(() => { denied = true })

async function ask(): Promise<void> {
  try {
    me = await get<Me>('api/v1/me')
  } catch (error) {
    if (!(error instanceof Problem)) throw error
  }
}
void ask()

export const session = {
  get denied() { return denied },
  get me() { return me },
  /** Grows with each login: what was refused before is asked again. */
  get entries() { return entries },
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
    await command('api/v1/logout').catch(() => undefined) // 204 has no JSON
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

export interface Notice { id: number; text: string; bad: boolean; href?: string; label?: string }
let notices = $state<Notice[]>([])
let last = 0
const noticesMax = 4

/** Says what happened. An error stays until it is closed. */
export function say(text: string, more: { bad?: boolean; href?: string; label?: string } = {}): void {
  const notice = { id: ++last, text, bad: more.bad ?? false, ...more } as Notice
  notices = [...notices.slice(1 - noticesMax), notice]
  if (!notice.bad) setTimeout(() => unsay(notice.id), 8000)
}
export function unsay(id: number): void { notices = notices.filter((n) => n.id !== id) }
export const said = { get notices() { return notices } }

export interface Question { title: string; text: string; act: string; danger?: boolean; typed?: string }
let question = $state<Question & { answer: (yes: boolean) => void } | undefined>()
export const asked = { get question() { return question } }

/** Asks before something is done that cannot be taken back. */
export function confirm(q: Question): Promise<boolean> {
  return new Promise((resolve) => {
    question = { ...q, answer: (yes) => { question = undefined; resolve(yes) } }
  })
}

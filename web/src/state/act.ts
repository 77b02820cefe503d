// One command to the node: asked before where it cannot be taken back, sent once, and answered with what the node said.
import { command, type Problem } from '../api/client'
import { Once } from './once'
import { consult, say, type Question, type Told } from './session.svelte'

const once = new Once()

/** What follows from an answer, in words. */
export type Saying<A> = string | ((answer: A) => string | Told)

/** Sends a command, and says what came of it. Ask is what is asked before; where that must be found out first, a function. */
export async function act<A>(path: string, done: Saying<A>, ask?: Question | (() => Promise<Question | undefined>), method = 'POST'): Promise<boolean> {
  // A double click is one request. A command to another thing is another one.
  return await once.run(`${method} ${path}`, () => send(path, done, ask, method)) ?? false
}

async function send<A>(path: string, done: Saying<A>, ask: Question | (() => Promise<Question | undefined>) | undefined, method: string): Promise<boolean> {
  try {
    const question = typeof ask === 'function' ? await ask() : ask
    const answer = question ? await consult(question) : { reason: '' }
    if (!answer) return false
    const told = await command<A>(path, method, answer.reason ? { reason: answer.reason } : undefined)
    const words = typeof done === 'function' ? done(told) : done
    if (typeof words === 'string') say(words)
    else say(words.text, words)
    return true
  } catch (error) {
    say((error as Problem).message, { bad: true })
    return false
  }
}

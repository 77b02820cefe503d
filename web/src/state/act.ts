// One command to the node: asked before where it cannot be taken back, sent once, and answered with what the node said.
import { command, type Problem } from '../api/client'
import { confirm, say, type Question } from './session.svelte'

let busy = false

export async function act(path: string, done: string, ask?: Question, method = 'POST'): Promise<boolean> {
  if (busy) return false
  busy = true // a double click is one request
  try {
    if (ask && !(await confirm(ask))) return false
    await command(path, method)
    say(done)
    return true
  } catch (error) {
    say((error as Problem).message, { bad: true })
    return false
  } finally {
    busy = false
  }
}

// One execution as Markdown, to paste into an issue or a chat.
import type { Execution, Explanation, Timeline } from '../api/types'
import { duration, ms } from '../state/time'
import { said } from '../ui/parts'
import { visible } from '../ui/text'
import { dueOf } from './executions'

const outputMax = 4000

export function report(e: Execution, why: Explanation | undefined, line: Timeline | undefined, output: { stdout: string; stderr: string } | undefined): string {
  const out = [`## ${e.action_ref} ${e.version ?? ''}: ${e.status}`, '', `- id: \`${e.id}\``, `- requested: ${e.requested_at}${e.created_by ? ` by ${e.created_by}` : ''}`]
  if (e.started_at) out.push(`- waited ${duration(Math.max(0, ms(dueOf(e), e.started_at)))}${dueOf(e) === e.requested_at ? '' : ` since it was due at ${dueOf(e)}`}, started ${e.started_at}${e.worker ? ` on ${e.worker}` : ''}`)
  if (e.finished_at) out.push(`- ended ${e.finished_at}${e.duration_ms !== undefined ? ` after ${duration(e.duration_ms)}` : ''}`)
  if (why && !e.finished_at) out.push(`- now: ${visible(why.message)} (${why.reason})`)
  if (e.error) out.push(`- error: \`${visible(e.error.code)}\` ${visible(e.error.message ?? '')}`)
  if (why?.retry) out.push(`- retry: ${visible(why.retry.message)}`)
  if (line?.wait.length) {
    out.push('', '| waited for | how long | shown by |', '|---|---|---|')
    for (const w of line.wait) out.push(`| ${w.cause} | ${duration(ms(w.from, w.to))} | ${visible(w.evidence).replaceAll('|', '\\|')} |`)
  }
  if (line?.left_out?.length) out.push('', ...line.left_out.map((l) => `- not in this report: ${visible(said(l))}`))
  for (const [name, text] of [['stderr', output?.stderr], ['stdout', output?.stdout]] as const) {
    if (text) out.push('', `${name}:`, '', ...visible(text.slice(-outputMax)).trimEnd().split('\n').map((l) => `    ${l}`))
  }
  return out.join('\n') + '\n'
}

import { describe, expect, it } from 'vitest'
import { keys as executions } from '../pages/executions'
import { commandOf } from './command'
import { chipsOf } from './filters'
import { timeKeys } from './range'

const now = Date.parse('2030-01-31T08:00:00Z')
const of = (verb: string, query: string, keys = executions, more = {}) => commandOf(verb, chipsOf(new URLSearchParams(query), keys), keys, now, more)

describe('the command of a list', () => {
  for (const [name, have, want] of [
    ['all', of('list', ''), 'troupe list'],
    ['several statuses', of('list', 'status=failed,timed_out&pool=go'), 'troupe list --status failed,timed_out --pool go'],
    ['what is left out', of('list', 'not.action=a.b&not.action=c.d&not.status=failed,completed'), 'troupe list --not-action a.b --not-action c.d --not-status failed --not-status completed'],
    ['labels', of('list', 'label=team%3Da%20b&not.label=x%3Dy'), "troupe list --label 'team=a b' --not-label x=y"],
    ['an age', of('list', 'from=-1h&to=2030-01-31T07:30:00Z'), 'troupe list --since 2030-01-31T06:30:00Z --until 2030-01-31T07:30:00Z'],
    ['what ended', of('list', 'ended_from=2030-01-31T06:30:00Z&ended_to=2030-01-31T07:30:00Z'), 'troupe list --ended-since 2030-01-31T06:30:00Z --ended-until 2030-01-31T07:30:00Z'],
    ['ids and order', of('list', 'id_prefix=01a2&order=oldest', executions, { switches: { order: { oldest: 'oldest' } } }), 'troupe list --id 01a2 --oldest'],
    ['the order that it has anyhow', of('list', 'order=newest', executions, { switches: { order: { oldest: 'oldest' } } }), 'troupe list'],
    ['a filter that is wrong', of('list', 'colour=red&pool=go'), 'troupe list --pool go'],
    ['a text', of('list', 'q=connection%20refused'), "troupe list --text 'connection refused'"],
    ['texts, ids and fates that are left out', of('list', 'q=a&q=b&not.q=c%20d&not.id_prefix=01a2&not.key=k&was=retry&not.was=state_lost,interrupted'),
      "troupe list --text a --text b --not-text 'c d' --not-id 01a2 --not-key k --was retry --not-was state_lost --not-was interrupted"],
    ['kinds', of('history', 'kinds=node,pool', [{ name: 'kinds', many: true, values: ['node', 'pool'] }, ...timeKeys]), 'troupe history --kinds node,pool'],
    ['another name', of('sessions', 'q=u-4', [{ name: 'q' }], { flags: { q: 'name' } }), 'troupe sessions --name u-4'],
  ] as const) it(name, () => expect(have).toBe(want))
})

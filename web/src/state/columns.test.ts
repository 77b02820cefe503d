import { describe, expect, it } from 'vitest'
import { chosen, turned, type Column } from './columns'

const columns: Column[] = [
  { name: 'id', label: 'Execution', fixed: true }, { name: 'action', label: 'Action' }, { name: 'wait', label: 'Wait' }, { name: 'session', label: 'Session', off: true },
]
const names = (kept: string) => chosen(columns, kept).map((c) => c.name)

describe('the columns of a list', () => {
  for (const [kept, want] of [
    ['', ['id', 'action', 'wait']],
    ['-wait', ['id', 'action']],
    ['+session', ['id', 'action', 'wait', 'session']],
    ['+session,-action,-wait', ['id', 'session']],
    ['-id,-colour,wait,+action, ,,', ['id', 'action', 'wait']], // none of it is a difference
  ] as const) it(`${kept || 'nothing'} is kept`, () => expect(names(kept)).toEqual(want))

  for (const [kept, name, on, want] of [
    ['', 'wait', false, '-wait'],
    ['-wait', 'wait', true, ''],
    ['', 'wait', true, ''],
    ['-wait', 'session', true, '+session,-wait'],
    ['+session', 'session', false, ''],
    ['', 'id', false, ''],
    ['-colour', 'shade', true, ''],
  ] as const) it(`${kept || 'nothing'} and ${name} ${on ? 'on' : 'off'}`, () => expect(turned(columns, kept, name, on)).toBe(want))
})

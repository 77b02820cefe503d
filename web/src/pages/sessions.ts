// The filters of the list of sessions.
import type { Key } from '../state/filters'
import { timeKeys } from '../state/range'

export const keys: readonly Key[] = [
  { name: 'q', each: true }, { name: 'pool', each: true }, { name: 'bound', values: ['1'] },
  ...timeKeys, { name: 'not.q', each: true }, { name: 'not.pool', each: true }, { name: 'not.bound', values: ['1'] },
]

import { describe, expect, it } from 'vitest'
import { placesOf } from './room'

const titles = ['Outcomes', 'In and out', 'Wait']
const at = (...names: string[]) => placesOf(titles, names.map((title) => ({ title }))).map(({ title, chart }) => (chart ? title : `(${title})`))

describe('the places of charts', () => {
  for (const [come, want] of [
    [[], ['(Outcomes)', '(In and out)', '(Wait)']],
    [['Wait'], ['(Outcomes)', '(In and out)', 'Wait']], // what comes early does not stand first
    [['Wait', 'Outcomes'], ['Outcomes', '(In and out)', 'Wait']],
    [['Run by version', 'Outcomes', 'In and out', 'Wait'], ['Outcomes', 'In and out', 'Wait', 'Run by version']],
  ]) it(come!.join(', ') || 'none', () => expect(at(...come!)).toEqual(want))
})

// Each answer of the API has what the console reads of it. Nothing of this file is in the build: `npm run check` compares types.ts with
// docs/openapi.json by it, through schema.d.ts, which openapi-typescript makes.
import type { components } from './schema'
import type * as read from './types'

type Told = components['schemas']

/** What a type is where a text is any text, and where what the description leaves open may be anything. */
type Loose<T> = unknown extends T ? any
  : T extends string ? string
  : T extends readonly (infer V)[] ? Loose<V>[]
  : T extends object ? { [K in keyof T]: Loose<T[K]> }
  : T

type Answer<K extends keyof Told> = Loose<Told[K]>
/** True, or the names that the answer does not have. */
type Fits<Read, A extends Loose<Read>> = Exclude<keyof Read, keyof A> extends never ? true : Exclude<keyof Read, keyof A>
type Every<All extends readonly true[]> = All

export type Checked = Every<[
  Fits<read.Execution, Answer<'ExecutionView'>>,
  Fits<read.ExecutionList, Answer<'ExecutionList'>>,
  Fits<read.Facets, Answer<'Facets'>>,
  Fits<read.Explanation, Answer<'Explanation'>>,
  Fits<read.ExecutionEvent, Answer<'Event'>>,
  Fits<read.Timeline, Answer<'Timeline'>>,
  Fits<read.PastLine, Answer<'PastPlaceInLine'>>,
  Fits<read.Webhook, Answer<'WebhookView'>>,
  Fits<read.WebhookList, Answer<'WebhookList'>>,
  Fits<read.Me, Answer<'MeView'>>,
  Fits<read.PoolDetail, Answer<'PoolDetail'>>,
  Fits<read.PoolList, Answer<'PoolList'>>,
  Fits<read.WorkerDetail, Answer<'WorkerDetailView'>>,
  Fits<read.WorkerList, Answer<'WorkerList'>>,
  Fits<read.WorkerRuns, Answer<'WorkerRuns'>>,
  Fits<read.Health, Answer<'HealthView'>>,
  Fits<read.CordonAnswer, Answer<'CordonView'>>,
  Fits<read.DoneAnswer, Answer<'DoneView'>>,
  Fits<read.NodeList, Answer<'NodeList'>>,
  Fits<read.ReachList, Answer<'ReachList'>>,
  Fits<read.SessionList, Answer<'SessionList'>>,
  Fits<read.DeadLetterDetail, Answer<'DeadLetter'>>,
  Fits<read.DeadLetterList, Answer<'DeadLetterList'>>,
  Fits<read.Action, Answer<'ActionView'>>,
  Fits<read.ActionList, Answer<'ActionList'>>,
  Fits<read.JournalList, Answer<'JournalList'>>,
  Fits<read.Differences, Answer<'Differences'>>,
  Fits<read.Ledger, Answer<'Ledger'>>,
  Fits<read.Findings, Answer<'Findings'>>,
  Fits<read.Series, Answer<'Series'>>,
  Fits<read.Overview, Answer<'Overview'>>,
  Fits<read.ErrorGroups, Answer<'ErrorGroups'>>,
  Fits<read.Configuration, Answer<'ConfigView'>>,
  Fits<read.Readiness, Answer<'Readiness'>>,
  Fits<read.BulkPreview, Answer<'BulkPreviewView'>>,
  Fits<read.Operation, Answer<'OperationView'>>,
  Fits<read.OperationList, Answer<'OperationList'>>,
]>

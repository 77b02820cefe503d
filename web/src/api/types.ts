// The answers of the API as far as the console reads them. docs/api.md and /openapi.json say the rest.

export type Status =
  | 'requested' | 'scheduled' | 'running' | 'cancelling'
  | 'completed' | 'failed' | 'timed_out' | 'cancelled' | 'abandoned'

export interface Failure {
  code: string
  class?: string
  type?: string
  message?: string
  retriable?: boolean
  no_retry?: string
  details?: unknown
  failed_by?: string
  stderr?: string
  exit?: string
}

export interface Retry {
  as?: string
  at?: string
  reason?: string
  why_not?: string
  left?: number
  message: string
}

export interface Execution {
  id: string
  action_ref: string
  version?: string
  pool?: string
  status: Status
  attempt: number
  session?: string
  affinity?: string
  priority: number
  labels?: Record<string, string>
  created_by?: string
  trace?: string
  trace_id?: string
  idempotency_key?: string
  timeout_seconds?: number
  queue_deadline?: string
  idempotent?: boolean
  max_retries: number
  retry_count: number
  retry_reason?: string
  original_execution?: string
  retried_as?: string
  crash_count?: number
  take_backs?: number
  worker?: string
  generation?: number
  requested_at: string
  run_at?: string
  scheduled_at?: string
  claim_by?: string
  started_at?: string
  run_deadline?: string
  finished_at?: string
  duration_ms?: number
  session_epoch?: number
  session_lost?: boolean
  session_hit?: boolean
  parameters?: unknown
  result?: unknown
  error?: Failure
  retry?: Retry
  /** Lists omit it. */
  webhook?: Webhook
}

/** Who is told of an execution's outcome by HTTP, and how far that is. */
export interface Webhook {
  execution: string
  url: string
  on?: string[]
  secret?: string
  state: 'waiting' | 'due' | 'told' | 'given_up' | 'passed'
  tries: number
  since?: string
  next_at?: string
  code?: number
  error?: string
  ended_at?: string
}

export interface WebhookList { webhooks: Webhook[]; next_cursor?: string }

/** How far a list was looked at: up to the request of this time. */
export interface Searched { at?: string; seq: number; walked?: number }

export interface ExecutionList {
  executions: Execution[]
  next_cursor?: string
  searched_to?: Searched
  more?: 'found' | 'unsearched' | 'end'
}

export interface Facets {
  from?: string
  to?: string
  basis: 'list' | 'minutes'
  exact: boolean
  executions: number
  fields: Record<string, { value: string; n: number }[]>
  left?: Record<string, number>
  searched_to?: Searched
}

export interface Explanation {
  execution: string
  status?: Status
  reason: string
  message: string
  what_to_do?: string
  until?: string
  retry?: Retry
  line?: { ahead: number; at_least?: boolean; of: string }
}

export interface ExecutionEvent {
  at: string
  attempt: number
  kind: string
  from: Status
  to: Status
  reason?: string
  worker?: string
  by?: string
}

export interface Live {
  kind: 'status' | 'stdout' | 'stderr' | 'progress' | 'chunk' | 'log' | 'error' | 'notice'
  at: string
  status?: Status
  data?: string
  chunk?: unknown
  fraction?: number
  level?: string
  message?: string
}

export interface Interval { from: string; to: string }
export interface Wait extends Interval { cause: string; source?: string; evidence: string; link?: string }
export interface Attempt {
  attempt: number
  worker?: string
  incarnation?: string
  generation?: number
  scheduled_at?: string
  claim_by?: string
  started_at?: string
  ended_at?: string
  ended?: string
  reason?: string
  by?: string
}
export interface Run extends Interval { attempt: number; outcome?: string; code?: string }
export interface ChainLink {
  id: string
  n: number
  version?: string
  from: string
  to?: string
  status: Status
  reason?: string
  delay_ms?: number
}
export interface LateWrite { at: string; attempt: number; reason?: string }
export interface State { from: string; to?: string; of: string; what: string; generation?: number; epoch?: number; reason?: string; by?: string }
export interface Gap extends Interval { why: string }
/** Where an execution stood in line at a time of the past. */
export interface PastLine {
  execution: string
  at: string
  /** What it waited for; undefined: it did not wait. */
  cause?: string
  evidence?: string
  line?: { ahead: number; at_least?: boolean; of: string }
  /** What was requested before is not looked at. */
  since?: string
}
/** What a bound kept out of a timeline. Next is the query that has it. */
export interface LeftOut { what: string; n?: number; at_least?: boolean; from?: string; to?: string; of?: string; next?: string }
export interface Timeline {
  execution: string
  status: Status
  /** From the request to the end, or until now. A node of an older release does not say it. */
  whole?: Interval
  /** The part of it that the answer has whole. */
  window: Interval
  wait: Wait[]
  attempts: Attempt[]
  late_writes?: LateWrite[]
  run: Run[]
  chain: ChainLink[]
  worker: State[]
  node: State[]
  session: State[]
  servers: State[]
  gaps: Gap[]
  retries?: { n: number; at_least?: boolean; deleted?: number }
  truncated?: boolean
  left_out?: LeftOut[]
}
export interface EventList { events: ExecutionEvent[]; left?: number; more?: boolean }

/** What is still known of an execution that is not stored. */
export interface Remains {
  was_stored: boolean
  deleted_by_retention: boolean
  retention_seconds?: number
  journal?: JournalEntry[]
  journal_more?: boolean
  retries?: { id: string; n: number; action_ref: string; status: Status; requested_at: string }[]
  retries_n?: number
  run?: WorkerRun
  worker?: string
  dead_letters?: { id: number; at: string; reason: string; resolution: string; attempt?: number; action_ref?: string; worker?: string }[]
}

export type Scope = 'read' | 'submit' | 'operate' | 'admin'

export interface Me {
  name: string
  scopes: Scope[]
  via: 'token' | 'cookie' | 'certificate' | 'local'
  expires_at?: string
  mode: 'full' | 'read_only' | 'off'
  payloads: 'show' | 'click' | 'hide'
  version: string
  build: string
  node: string
  store: string
}

export interface Unreached { node: string; incarnation: string; beat_at?: string; why: string }

export interface Pool {
  name: string
  runtime: string
  nodes: number
  workers: number
  stale?: number
  ready: number
  /** Ready workers whose queue does not deliver; ready does not count them. */
  unattached?: number
  busy: number
  degraded: number
  starting: number
  broken: boolean
  old_code?: boolean
  cordoned: boolean
  /** Why no node places for it. */
  halted?: string
  waiting: number
  /** Of waiting: those whose time has not come. */
  not_due?: number
  waiting_more?: boolean
  oldest_waiting?: string
  placed: number
  running: number
  restarts: number
  reason?: string
  routing: { mode: string; router?: string; epoch?: number; why?: string }
  /** How executions go to its workers: direct, broker, or mixed where nodes differ. */
  dispatch?: string
}
export interface PoolQueue {
  node: string
  mode: string
  epoch?: number
  since?: string
  held: number
  counted: number
  by_priority: { priority: number; n: number }[]
  by_cause: { reason: string; message: string; what_to_do?: string; n: number }[]
}
export interface PoolDetail extends Pool {
  slots?: { state: string; n: number }[]
  failures?: { worker: string; state: string; generation: number; restarts: number; error: string }[]
  queues?: PoolQueue[]
  drain?: { waiting: number; in_per_second: number; out_per_second: number; from: string; to: string; seconds?: number }
  unreached?: Unreached[]
}
export interface PoolList { pools: Pool[]; unreached?: Unreached[] }

export interface Worker {
  id: string
  pool: string
  node: string
  runtime: string
  generation: number
  state: string
  health: string
  grade: string
  grade_causes?: string[]
  cordoned: boolean
  pid?: number
  since?: string
  execution?: string
  last_heartbeat?: string
  restarts: number
  last_failure?: string
  health_report?: Record<string, unknown>
  stale?: boolean
  seen_at?: string
}
export interface Health { worker: string; state: string; health: string; grade: string; grade_causes?: string[]; last_heartbeat?: string; last_failure?: string }
export interface CordonAnswer { kind: string; name: string; cordoned: boolean }
export interface DoneAnswer { kind: string; name: string; done: string }
export interface WorkerList { workers: Worker[]; next_cursor?: string; unreached?: Unreached[] }
export interface Transition { at: string; generation: number; from: string; to: string; reason: string; lasted_ms: number }
export interface WorkerRun {
  execution: string
  action_ref: string
  session?: string
  status: Status
  code?: string
  attempt: number
  started_at: string
  finished_at?: string
}
export interface WorkerRuns { worker: string; source: 'memory' | 'list'; runs: WorkerRun[]; unsearched?: boolean }
/** One thing that grades a worker, with the values from which it is degraded and unhealthy. */
export interface GradeInput { name: string; value?: number; degraded_from?: number; unhealthy_from?: number; grade: string; ignored?: boolean }
export interface WorkerDetail extends Worker { history: Transition[]; grade_inputs?: GradeInput[] }

export interface Node {
  incarnation: string
  name: string
  version: string
  state: 'active' | 'draining' | 'dead'
  cordoned: boolean
  started_at: string
  beat_at: string
  /** Missing where one node has the store for itself: nobody is held to a lease then. */
  lease_until?: string
  address?: string
  reach?: string
  why?: string
  store_seen?: boolean
  /** How a dead one ended, where that is known. */
  ended?: 'stopped' | 'lease' | 'refused' | 'replaced'
}
export interface NodeList { nodes: Node[] }
/** A node as another one sees it. */
export interface Sight { node: string; incarnation: string; reach: string; why?: string }
export interface Sights { node: string; incarnation: string; others: Sight[] }
export interface ReachList { nodes: Sights[]; unreached?: Unreached[] }

export interface Session {
  pool: string
  session: string
  epoch: number
  worker?: { incarnation: string; pool: string; slot: number }
  runs: number
  bound_at?: string
  touched_at?: string
  snapshot_epoch?: number
  snapshot_runs?: number
  worker_id?: string
  affinity?: string
  execution?: string
}
export interface SessionList { sessions: Session[]; next_cursor?: string }

export interface DeadLetter {
  id: number
  at: string
  execution?: string
  attempt?: number
  action?: string
  worker?: string
  queue?: string
  reason: string
  resolution: string
  /** The store does not have its execution. */
  execution_gone?: boolean
}
export interface DeadLetterDetail extends DeadLetter {
  means?: string
  what_to_do?: string
  died_at?: string
  headers?: unknown
  /** In base64. */
  body?: string
  body_size?: number
  body_cut?: boolean
  body_sha256?: string
}
export interface DeadLetterList { dead_letters: DeadLetter[]; next_cursor?: string; more?: 'found' | 'unsearched' | 'end'; searched_to?: { at: string; id: number; walked: number } }

export interface Action {
  ref: string
  pack: string
  version: string
  description?: string
  runtime: string
  pool: string
  entrypoint?: string
  command?: string[]
  timeout_seconds?: number
  max_retries: number
  idempotent: boolean
  affinity?: string
  on_no_worker: string
  parameters?: Schema
  secrets?: string[]
}
export interface ActionList { actions: Action[] }

/** The parts of JSON Schema from which a form is made. */
export interface Schema {
  type?: string | string[]
  description?: string
  properties?: Record<string, Schema>
  required?: string[]
  enum?: unknown[]
  default?: unknown
  minimum?: number
  maximum?: number
  maxLength?: number
  pattern?: string
}

export interface JournalEntry {
  at: string
  incarnation: string
  number: number
  kind: string
  subject: string
  what: string
  reason?: string
  caller?: string
  detail?: Record<string, unknown>
}
export interface JournalList { entries: JournalEntry[]; next_cursor?: string; more?: 'found' | 'unsearched' | 'end'; searched_to?: { at: string } }
/** How a page of a list ended, and how far it looked. A node of an older release does not say it of each list. */
export interface Paged { next_cursor?: string; more?: 'found' | 'unsearched' | 'end'; searched_to?: { at: string } }

/** One figure of one thing in a range and in the range before. */
export interface Difference {
  of: string
  subject: string
  code?: string
  what: string
  unit: 'n' | 'share' | 'ms' | 's'
  value: number
  before: number
  weight: number
  text: string
  link: string
  link_before: string
}
export interface Differences { from: string; to: string; before: string; until: string; differences: Difference[]; left?: number; notes?: string[] }

export interface StatusCount { status: Status; n: number }
export interface Ledger {
  from: string
  to: string
  until?: string
  accepted: number
  ended: StatusCount[]
  open: StatusCount[]
  purged: number
  purged_from?: string
  purging?: number
  retries: number
  repeated: number
  taken_back: number
  state_lost: number
  sessions_restored: { n: number; at_least?: boolean }
  sessions_lost: { n: number; at_least?: boolean }
  counted: number
  missing: number
  adds_up: boolean
  rest?: { from: string; to: string; submitted: number; ended: StatusCount[] }
  notes?: string[]
}

export interface Finding {
  name: string
  severity: 'critical' | 'warning'
  kind: 'cluster' | 'pool' | 'node'
  subject?: string
  since: string
  value: number
  message: string
  means: string
  what_to_do: string
  link: string
}
export interface Findings { at?: string; since?: string; judged_in_part?: string[]; findings: Finding[]; not_evaluated: string[]; unreached?: Unreached[] }

export interface Rates { submitted: number; ended: number; failed: number; wait_p95_ms: number; run_p95_ms: number }
export interface Line { key: string; n: number[]; p50?: number[]; p95?: number[]; p99?: number[] }
export interface Series { from: string; step_seconds: number; until: string; known_from?: string; unknown?: number[]; series: Line[] }
export interface Counts {
  from: string
  to: string
  rates: Rates
  range: { from: string; to: string; before: string }
  outcomes: Series
  failures: { action_ref: string; code: string; n: number; before: number; first: string; last: string }[]
  slower: { action_ref: string; n: number; p95_ms: number; before_ms: number }[]
  partial?: boolean
}
export interface PoolOverview extends Pool { rates?: Rates }
export interface Overview {
  at: string
  readiness: Readiness
  findings: Findings
  totals: { workers: number; busy: number; waiting: number; not_due?: number; waiting_more?: boolean; placed: number; running: number }
  pools: PoolOverview[]
  nodes: Node[]
  counts?: Counts
  unreached?: Unreached[]
  missing?: { part: string; why: string }[]
}

export interface Share { value: string; n: number }
export interface ErrorGroup {
  action_ref?: string
  code?: string
  type?: string
  message?: string
  worker?: string
  n: number
  first: string
  last: string
  example: string
  examples: string[]
  actions?: Share[]
  codes?: Share[]
  workers?: Share[]
}
export interface ErrorGroups {
  from: string
  to: string
  by: string
  executions: number
  groups: ErrorGroup[]
  left?: number
  more: 'end' | 'unsearched'
  searched_to?: Searched
  /** What failed before it is deleted. */
  kept_from?: string
}

export interface Configuration { node: string; settings: { key: string; value: string; source: string }[] }
export interface Readiness { ready: boolean; waits_for?: string[]; waits?: { for: string; since?: string; what_to_do?: string }[]; broken_pools?: string[]; draining?: boolean; notes?: string[] }

export interface Counted { value: string; n: number }
export interface BulkSkipped { why: string; n: number }

export interface BulkPreview {
  preview: string
  expires_at: string
  seq_max: number
  count: number
  matched: number
  exact: boolean
  by: { status: Counted[]; reason?: Counted[]; action: Counted[] }
  skipped: BulkSkipped[]
  examples: Execution[]
  dead_letters?: DeadLetter[]
}

export interface Operation {
  id: string
  kind: 'retry' | 'cancel' | 'requeue' | 'discard'
  filter?: Record<string, string[]>
  ids?: number
  seq_max: number
  count: number
  exact: boolean
  by: string
  reason?: string
  rate: number
  state: 'running' | 'stopping' | 'stopped' | 'done' | 'failed'
  problem?: string
  done: number
  skipped: number
  failed: number
  skips: BulkSkipped[]
  failures: { execution?: string; dead_letter?: number; error: string }[]
  started_at: string
  ended_at?: string
  incarnation?: string
}

export interface OperationList { operations: Operation[]; next_cursor?: string }

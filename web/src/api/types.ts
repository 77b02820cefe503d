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
  exit?: unknown
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
}

export interface ExecutionList {
  executions: Execution[]
  next_cursor?: string
}

export interface Explanation {
  execution: string
  status?: Status
  reason: string
  message: string
  until?: string
  retry?: Retry
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

export interface Output {
  execution: string
  stdout: string
  stderr: string
  stdout_truncated?: boolean
  stderr_truncated?: boolean
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
export interface State { from: string; to?: string; of: string; what: string; reason?: string; by?: string }
export interface Gap extends Interval { why: string }
export interface Timeline {
  execution: string
  status: Status
  window: Interval
  wait: Wait[]
  attempts: Attempt[]
  run: Run[]
  chain: ChainLink[]
  worker: State[]
  node: State[]
  session: State[]
  servers: State[]
  gaps: Gap[]
  truncated?: boolean
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

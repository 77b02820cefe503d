package postgres

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/troupe-run/troupe/store"
)

// Store is the Postgres adapter. Open makes it.
//
// It embeds its parts because store.Store asks for one value with a method for each query and change. Every method of
// the port belongs to one part. A part refers to another part only by a named field, so every call between parts shows
// where it goes.
type Store struct {
	*core
	*applier
	*submitter
	*retrier
	*dueRows
	*executionRows
	*nodeRows
	*workerRows
	*sessionRows
	*deadLetterRows
	*outbox
	*inbox
	*routerRows
	*journalRows
	*rollupRows
	*keyframeRows
	*webhookRows
	*operationRows
	*secretRows
	*retention
	*hints
}

// core is shared by all parts: the connections, the settings, running a statement or a transaction, and the end.
type core struct {
	cfg      Config
	pool     *pgxpool.Pool
	apart    *pgxpool.Pool  // for long answers to callers
	where    string         // the server and database, for errors
	quit     chan struct{}  // closed when Close begins
	ended    chan struct{}  // closed when the lanes have ended
	work     sync.WaitGroup // goroutines of the store
	closing  sync.Once
	beats    *beater
	notifier *notifier
	renewed  atomic.Int64 // when the pool's connections were last replaced, in Unix nanoseconds
}

// memory has the rows that the store remembers and need not read. Any of them may be forgotten.
type memory struct {
	known   *knownSessions
	waiting *remembered // waiting executions
	claimed *remembered // running executions
	blocked *blocked
	floors  *floors
}

// heldRows finds rows that other transactions have locked, and goes on without them.
type heldRows struct {
	*core
	*memory
}

// statements makes the statements of changes, and updates the memory with their results.
type statements struct {
	*core
	*memory
}

// applier makes changes of executions.
type applier struct {
	*core
	*memory
	held    *heldRows
	write   *statements
	applies *grouper[*applyCall]
}

// submitter stores new executions.
type submitter struct {
	*core
	*memory
	held    *heldRows
	submits *grouper[*submitCall]
}

// retrier stores requested retries.
type retrier struct {
	*core
	read *executionRows
}

// dueRows reads the executions that may be placed.
type dueRows struct {
	*core
	*memory
}

// executionRows reads executions and the rows that belong to them.
type executionRows struct{ *core }

// nodeRows has the nodes, their leases, and the cordons of nodes and pools.
type nodeRows struct{ *core }

// workerRows has the workers, and the actions that nodes serve.
type workerRows struct{ *core }

// sessionRows has the sessions, their bindings and snapshots.
type sessionRows struct{ *core }

// deadLetterRows has the dead letters.
type deadLetterRows struct{ *core }

// outbox has the notices that are not told yet.
type outbox struct {
	*core
	// outboxFill is the number of notices in the rows that were read last.
	outboxFill atomic.Int64
}

// inbox has the submissions inserted by SQL.
type inbox struct{ *core }

// routerRows has the router of each pool.
type routerRows struct{ *core }

// journalRows has what changed outside of executions.
type journalRows struct{ *core }

// rollupRows has what nodes counted by minute.
type rollupRows struct{ *core }

// keyframeRows has what nodes were at some moments, and the transitions of their workers by time.
type keyframeRows struct{ *core }

// operationRows has the operations on many executions.
type operationRows struct{ *core }

// secretRows has the secrets by which nodes recognize each other.
type secretRows struct{ *core }

// retention deletes old rows.
type retention struct {
	*core
	purges purger
}

// hints passes on the notifications of other programs and nodes.
type hints struct {
	*core
	deliver *hub
}

func newCore(cfg Config, pool *pgxpool.Pool, config *pgx.ConnConfig) *core {
	c := &core{cfg: cfg, pool: pool, where: describe(config), quit: make(chan struct{}), ended: make(chan struct{})}
	c.beats, c.notifier = newBeater(c, config), newNotifier(c)
	return c
}

func newStore(c *core, config *pgx.ConnConfig) *Store {
	m := &memory{known: newKnownSessions(), waiting: newRemembered(), claimed: newRemembered(), floors: newFloors(), blocked: newBlocked()}
	held, executions := &heldRows{c, m}, &executionRows{c}
	changes := &applier{core: c, memory: m, held: held, write: &statements{c, m}}
	changes.applies = newGrouper(c, 0, func(c *applyCall) int { return len(c.changes) }, callSize, changes.commitApplies)
	submissions := &submitter{core: c, memory: m, held: held}
	submissions.submits = newGrouper(c, 5*time.Millisecond, func(c *submitCall) int { return len(c.executions) },
		func(c *submitCall) int { return executionsSize(c.executions) }, submissions.commitSubmits)
	return &Store{
		core: c, applier: changes, submitter: submissions, retrier: &retrier{c, executions}, dueRows: &dueRows{c, m}, executionRows: executions,
		nodeRows: &nodeRows{c}, workerRows: &workerRows{c}, sessionRows: &sessionRows{c}, deadLetterRows: &deadLetterRows{c},
		outbox: &outbox{core: c}, inbox: &inbox{c}, routerRows: &routerRows{c}, journalRows: &journalRows{c}, rollupRows: &rollupRows{c}, keyframeRows: &keyframeRows{c}, webhookRows: &webhookRows{c},
		operationRows: &operationRows{c}, secretRows: &secretRows{c}, retention: &retention{core: c},
		hints: &hints{c, newHub(c, config)},
	}
}

var _ store.Store = (*Store)(nil)

// Close ends the store's work and its connections. Waiting calls end with store.ErrClosed. Calls in progress end with
// their result or, after the statement timeout, with store.ErrUnavailable. A second Close waits for the first.
func (s *Store) Close() error {
	s.closing.Do(func() {
		close(s.quit)
		s.work.Wait()
		close(s.ended)
		s.beats.close()
		s.pool.Close()
		s.apart.Close()
	})
	return nil
}

// closed reports whether Close has begun.
func (s *core) closed() bool {
	select {
	case <-s.quit:
		return true
	default:
		return false
	}
}

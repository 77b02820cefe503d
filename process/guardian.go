package process

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/troupe-run/troupe/messages"
)

const (
	// At most restartMax guardians are started in restartTime.
	restartMax  = 5
	restartTime = 10 * time.Second
	// closeTime is how long Close waits for a guardian to end its programs. The guardian takes wardenTime at most.
	closeTime = wardenTime + 2*time.Second
)

// ErrClosed is returned by Start once the Guardian has been closed.
var ErrClosed = errors.New("process guardian is closed")

// ErrGuardian is wrapped by errors whose cause is a guardian and not the program.
var ErrGuardian = errors.New("process guardian")

// Config configures a Guardian.
type Config struct {
	// Incarnation marks every program and every record in the ledger. Zero: a fresh one.
	Incarnation messages.Incarnation
	// Ledger is the path of the file of living processes, which survives a crash. The same path goes to EndSurvivors at
	// the next boot. Only one Guardian uses it at a time, and its folder exists. Empty: none.
	Ledger string
	// Lease is how long programs may run without a Renew. Zero: for ever, as on a node that uses its store alone.
	// Programs always end with the node's process.
	Lease time.Duration
	// Executable is the binary to run as guardian. Empty: this one.
	Executable string
	// WithoutGroups uses no cgroup v2, even where one is writable.
	WithoutGroups bool
	// Logger logs starts and deaths of guardians. Nil: none.
	Logger hclog.Logger
}

func (c Config) withDefaults() Config {
	if c.Incarnation.IsZero() {
		c.Incarnation = messages.NewIncarnation()
	}
	if c.Executable == "" {
		c.Executable = "/proc/self/exe"
	}
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	return c
}

// Guardian is a node's Launcher: the node's side of a guardian process. It starts the guardian process for the first
// program, and again after it died. It is safe for concurrent use.
type Guardian struct {
	cfg Config

	mu     sync.Mutex
	link   *link // to the living guardian; nil before the first start and after a death
	count  uint64
	starts []time.Time // of guardians, within restartTime
	until  uint64      // monotonic end of the lease in nanoseconds
	closed bool
	looked bool  // whether it has looked for a group
	group  group // of this incarnation; none before the first guardian, and where no cgroup v2 is writable
	means  means
	old    sync.WaitGroup // links that are being closed
}

// NewGuardian returns a Launcher that has started nothing yet.
func NewGuardian(cfg Config) (*Guardian, error) {
	cfg = cfg.withDefaults()
	if cfg.Lease < 0 {
		return nil, fmt.Errorf("process guardian: lease must not be negative, got %s", cfg.Lease)
	}
	if err := probeLedger(cfg.Ledger); err != nil {
		return nil, fmt.Errorf("process guardian: %w", err)
	}
	g := &Guardian{cfg: cfg}
	g.until = g.leaseEnd(time.Now())
	return g, nil
}

// leaseEnd returns the end of a lease that began at from, or 0 without a lease.
func (g *Guardian) leaseEnd(from time.Time) uint64 {
	if g.cfg.Lease == 0 {
		return 0
	}
	return uint64(max(1, monotonic()+g.cfg.Lease-time.Since(from))) //nolint:gosec // a clock that began at boot
}

// Start starts a program; see Launcher. sink may be called before Start returns. An error names the program and the
// cause. An error that wraps ErrShortage means that the node lacks a resource; the program has not begun. An error that
// wraps ErrGuardian is not the program's fault either, but the program may have begun, and ended with its guardian.
// Start it again only if its work may be repeated. One
// that wraps ErrUnstartable comes again with each such start.
func (g *Guardian) Start(ctx context.Context, spec Spec, sink func(Event)) (Process, error) {
	if len(spec.Argv) == 0 || spec.Argv[0] == "" {
		return nil, errors.New("start process: no command is given")
	}
	name := spec.Argv[0]
	path, err := lookPath(spec)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, short(final(err)))
	}
	p, err := g.startAt(ctx, spec, path, sink)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, short(err))
	}
	return p, nil
}

// startAt starts the program. It takes another guardian if the current one turns out to be dead before it got the
// request.
func (g *Guardian) startAt(ctx context.Context, spec Spec, path string, sink func(Event)) (Process, error) {
	for again := true; ; again = false {
		l, err := g.current()
		if err != nil {
			return nil, err
		}
		p, err := l.start(ctx, spec, path, sink)
		if err == nil {
			return p, nil
		}
		if !again || !errors.Is(err, errNotAsked) {
			return nil, err
		}
		select {
		case <-l.down:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// current returns the link to the living guardian and starts one if there is none.
func (g *Guardian) current() (*link, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, ErrClosed
	}
	if g.link != nil && !g.link.isDown() {
		return g.link, nil
	}
	now := time.Now()
	if err := g.admit(now); err != nil {
		return nil, err
	}
	g.openGroup()
	g.count++
	l, err := newLink(g, g.count)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrGuardian, err)
	}
	g.starts = append(g.starts, now)
	g.link = l
	return l, nil
}

// openGroup looks for a cgroup v2, once. The caller holds mu.
func (g *Guardian) openGroup() {
	if g.looked || g.cfg.WithoutGroups {
		return
	}
	g.looked = true
	var reason string
	g.group, g.means, reason = openGroup(g.cfg.Incarnation)
	c := g.means.describe()
	g.cfg.Logger.Info("worker processes are contained", "cgroup", g.group.path, "end", c.End, "memory", c.Memory,
		"processes", c.Processes, "reason", reason)
}

// admit limits the rate of guardian starts.
func (g *Guardian) admit(now time.Time) error {
	kept := g.starts[:0]
	for _, t := range g.starts {
		if now.Sub(t) < restartTime {
			kept = append(kept, t)
		}
	}
	g.starts = kept
	if len(kept) >= restartMax {
		wait := restartTime - now.Sub(kept[0])
		return fmt.Errorf("%w: died %d times in %s: the next one starts in %s", ErrGuardian, len(kept), restartTime, wait.Round(time.Millisecond))
	}
	return nil
}

// Renew extends the lease to its full length from the given moment. That is the moment at which the node asked the
// store to renew its lease, or now, where the node decided to go on without the store. It does nothing without a lease.
func (g *Guardian) Renew(from time.Time) {
	if g.cfg.Lease == 0 {
		return
	}
	g.mu.Lock()
	g.until = g.leaseEnd(from)
	l, until := g.link, g.until
	g.mu.Unlock()
	if l != nil {
		e := newPacket(packetRenew)
		e.number(until)
		l.sendPacket(e)
	}
}

// Pid is the guardian's process id; 0 while none runs.
func (g *Guardian) Pid() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.link == nil || g.link.isDown() {
		return 0
	}
	return g.link.pid()
}

// Close ends every program and the guardian, and returns when both are gone, within three seconds. Every program's sink
// gets an Exited event. Start fails afterwards.
func (g *Guardian) Close() error {
	g.mu.Lock()
	g.closed = true
	l := g.link
	g.mu.Unlock()
	if l != nil {
		l.close()
	}
	g.old.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.group.path != "" {
		g.group.remove()
	}
	return nil
}

package servers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Timeouts of a private server. They are long: other tests use the machine at the same time.
const (
	startWithin = 60 * time.Second
	stopWithin  = 30 * time.Second
)

// PostgresOptions are the options of a private Postgres. A zero field means its default.
type PostgresOptions struct {
	// Settings are settings of the server by name, beside and over its defaults.
	Settings map[string]string
	// Listen is a further IPv4 address that it listens on, whose whole /24 is trusted as loopback is.
	Listen string
	// Unsafe switches fsync off, for tests that kill nothing.
	Unsafe bool
	// Clock makes its clock one that SetClock sets.
	Clock bool
	// Stopped leaves it to the test to start it.
	Stopped bool
}

// PostgresServer is a private Postgres. Its methods must not be called at the same time.
type PostgresServer struct {
	// URL is of its database postgres, as a superuser without a password. It stays the same over a restart.
	URL  string
	Port int

	home     *home
	program  string
	settings map[string]string
	trusted  string   // address whose /24 is
	env      []string // beside this process's own
	process  *process // nil: it does not run
}

// PrivatePostgres starts a Postgres for this test, which ends with the test. Its log is shown if the test fails.
func PrivatePostgres(t testing.TB, o PostgresOptions) *PostgresServer {
	t.Helper()
	p, err := StartPostgres(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of the private Postgres:\n%s", p.Log())
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// StartPostgres starts a private Postgres for several tests. It ends with Close, or with this process.
func StartPostgres(o PostgresOptions) (*PostgresServer, error) {
	p, err := newPostgres(o)
	if err != nil {
		return nil, missing("a private Postgres", postgresEnv, postgresAddr, "postgresql", err)
	}
	if err := p.initialise(); err != nil {
		return nil, joinError(err, p.Close())
	}
	if o.Stopped {
		return p, nil
	}
	if err := p.Start(); err != nil {
		return nil, joinError(err, p.Close())
	}
	return p, nil
}

func newPostgres(o PostgresOptions) (*PostgresServer, error) {
	program, err := findProgram("postgres", "/usr/lib/postgresql/*/bin")
	if err != nil {
		return nil, err
	}
	ports, err := FreePorts(1)
	if err != nil {
		return nil, err
	}
	h, err := newHome("postgres", "postgres")
	if err != nil {
		return nil, err
	}
	settings := map[string]string{
		"listen_addresses": "127.0.0.1", "port": strconv.Itoa(ports[0]), "unix_socket_directories": "",
		"dynamic_shared_memory_type": "mmap", // nothing is left behind outside the folder when it is killed
		"max_connections":            "200",
	}
	if o.Listen != "" {
		settings["listen_addresses"] += "," + o.Listen
	}
	if o.Unsafe {
		settings["fsync"], settings["full_page_writes"] = "off", "off"
	}
	for name, value := range o.Settings {
		settings[name] = value
	}
	p := &PostgresServer{
		URL: "postgres://postgres@" + Loopback(ports[0]) + "/postgres?sslmode=disable", Port: ports[0],
		home: h, program: program, settings: settings, trusted: o.Listen,
	}
	if o.Clock {
		err = p.fakeClock()
	}
	return p, err
}

// initialise makes the server's files. They need not outlive a power failure.
func (p *PostgresServer) initialise() error {
	initdb, err := findProgram("initdb", "/usr/lib/postgresql/*/bin")
	if err != nil {
		return err
	}
	cmd := exec.Command(initdb, "-D", p.home.path("data"), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale",
		"--no-sync", "--no-instructions")
	cmd.Dir = p.home.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.home.account.credential()}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("make a private Postgres: %w\n%s", err, out)
	}
	return p.trust()
}

// trust lets in whoever comes from the trusted address's subnet.
func (p *PostgresServer) trust() error {
	if p.trusted == "" {
		return nil
	}
	file, err := os.OpenFile(p.home.path("data/pg_hba.conf"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = fmt.Fprintf(file, "host all all %s/24 trust\n", p.trusted)
	return err
}

// Start starts the server if it does not run, and returns when it accepts connections.
func (p *PostgresServer) Start() error {
	if p.process != nil {
		return fmt.Errorf("private Postgres on port %d runs already", p.Port)
	}
	args := []string{"-D", p.home.path("data")}
	for name, value := range p.settings {
		args = append(args, "-c", name+"="+value)
	}
	process, err := launch{
		program: p.program, args: args, env: p.env, dir: p.home.dir, log: p.home.path("log"), account: p.home.account, endBy: "QUIT",
	}.start(p.home.keeper)
	if err != nil {
		return err
	}
	p.process = process
	err = waitFor(startWithin, "a private Postgres", func() bool { return !process.alive() || ping(p.URL) == nil })
	if err == nil {
		err = ping(p.URL) // it may have ended
	}
	if err != nil {
		return fmt.Errorf("start private Postgres: %w\n%s", err, p.Log())
	}
	return nil
}

// ping connects once.
func ping(url string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	return c.Close(ctx)
}

// Stop ends the server in order, like an operator: clients are disconnected, and all data is written.
func (p *PostgresServer) Stop() error {
	return p.end(func(r *process) error { return r.stop(syscall.SIGINT, stopWithin) })
}

// Kill ends the postmaster and all its children with SIGKILL, like a crash of the machine.
func (p *PostgresServer) Kill() error { return p.end((*process).kill) }

func (p *PostgresServer) end(how func(*process) error) error {
	defer func() { p.process = nil }()
	return p.with(how)
}

// with does something to a server that runs.
func (p *PostgresServer) with(do func(*process) error) error {
	if p.process == nil {
		return fmt.Errorf("private Postgres on port %d does not run", p.Port)
	}
	return do(p.process)
}

// Freeze stops the postmaster and all its children: connections stay open, and no answers are sent.
func (p *PostgresServer) Freeze() error { return p.with((*process).freeze) }

// Thaw resumes a frozen server.
func (p *PostgresServer) Thaw() error { return p.with((*process).thaw) }

// Pids returns the server's processes, the postmaster first; none while it does not run.
func (p *PostgresServer) Pids() []int {
	if p.process == nil {
		return nil
	}
	return family(p.process.pid())
}

// Log returns the end of the server's log.
func (p *PostgresServer) Log() string { return p.home.tail("log") }

// Close ends the server and removes its files.
func (p *PostgresServer) Close() error {
	var err error
	if p.process != nil {
		// An immediate shutdown leaves no shared memory behind, which SIGKILL would.
		err = p.end(func(r *process) error {
			return joinError(r.thaw(), r.stop(syscall.SIGQUIT, stopWithin))
		})
	}
	return joinError(err, p.home.keeper.end())
}

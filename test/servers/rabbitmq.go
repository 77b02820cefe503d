package servers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"
)

// ctlWithin bounds one call of rabbitmqctl.
const ctlWithin = 60 * time.Second

// RabbitMQOptions are the options of a private RabbitMQ. A zero field means the server's default.
type RabbitMQOptions struct {
	// ConsumerTimeout is how long a delivery may stay unsettled. The server looks every Tick, by default 60 s.
	ConsumerTimeout time.Duration
	Tick            time.Duration
	// MemoryWatermark is the part of the machine's memory above which the memory alarm is raised. Ctl changes it later.
	MemoryWatermark float64
	// Listen is a further host:port that it listens on, where guest may come from anywhere.
	Listen string
	// TLS adds a listener with TLS; the server's TLSURL is set then.
	TLS *TLSFiles
	// Config are further lines of rabbitmq.conf.
	Config []string
	// Port is the one that it listens on if that is free.
	Port int
	// Stopped leaves it to the test to start it.
	Stopped bool
}

// TLSFiles are PEM files, which the server's account must be able to read.
type TLSFiles struct {
	CA, Cert, Key string
	// ClientCert demands a certificate of the client that CA has signed.
	ClientCert bool
}

// RabbitMQServer is a private RabbitMQ of one node, with an epmd of its own. Its methods must not be called at the same
// time.
type RabbitMQServer struct {
	// URL is of its default vhost, as guest. It stays the same over a restart.
	URL    string
	TLSURL string // amqps; empty without RabbitMQOptions.TLS
	Port   int

	home          *home
	program, ctl  string
	env           []string
	epmd, process *process // process is nil while the server does not run
}

// PrivateRabbitMQ starts a RabbitMQ for this test, which ends with the test. Its log is shown if the test fails.
func PrivateRabbitMQ(t testing.TB, o RabbitMQOptions) *RabbitMQServer {
	t.Helper()
	r, err := StartRabbitMQ(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of the private RabbitMQ:\n%s", r.Log())
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// StartRabbitMQ starts a private RabbitMQ for several tests. It ends with Close, or with this process.
func StartRabbitMQ(o RabbitMQOptions) (*RabbitMQServer, error) {
	r, err := newRabbitMQ(o)
	if err != nil {
		return nil, missing("a private RabbitMQ", RabbitEnv, rabbitAddr, "rabbitmq-server", err)
	}
	if err := r.startEpmd(); err != nil {
		return nil, joinError(err, r.Close())
	}
	if o.Stopped {
		return r, nil
	}
	if err := r.Start(); err != nil {
		return nil, joinError(err, r.Close())
	}
	return r, nil
}

func newRabbitMQ(o RabbitMQOptions) (*RabbitMQServer, error) {
	// What stands on the path may be Debian's wrapper, which changes the account and the folder.
	program, err := findProgram("rabbitmq-server", "/usr/lib/rabbitmq/bin")
	if err != nil {
		return nil, err
	}
	ctl, err := findProgram("rabbitmqctl", filepath.Dir(program))
	if err != nil {
		return nil, err
	}
	ports, err := FreePorts(4)
	if err != nil {
		return nil, err
	}
	if o.Port != 0 && takePort(o.Port) == nil {
		ports[0] = o.Port
	}
	h, err := newHome("rabbitmq", "rabbitmq")
	if err != nil {
		return nil, err
	}
	r := &RabbitMQServer{
		URL: "amqp://guest:guest@" + Loopback(ports[0]) + "/", Port: ports[0], home: h, program: program, ctl: ctl,
		env: rabbitEnvironment(h, ports),
	}
	if o.TLS != nil {
		r.TLSURL = "amqps://guest:guest@localhost:" + strconv.Itoa(ports[3]) + "/"
	}
	return r, errors.Join(
		h.write("rabbitmq.conf", o.config(h, ports), 0o644),
		h.write("advanced.config", o.advanced(), 0o644),
		h.write("plugins", "[].\n", 0o644),
		h.write("environment", "", 0o644),
		h.write(".erlang.cookie", rand.Text(), 0o400),
	)
}

// rabbitEnvironment keeps the node to its folder and its ports: those of AMQP, epmd and Erlang's distribution.
func rabbitEnvironment(h *home, ports []int) []string {
	return []string{
		"HOME=" + h.dir,
		"LANG=C.UTF-8",
		"ERL_EPMD_PORT=" + strconv.Itoa(ports[1]),
		"ERL_EPMD_ADDRESS=127.0.0.1",
		"ERL_FLAGS=-kernel inet_dist_use_interface {127,0,0,1}",
		"RUNNING_UNDER_SYSTEMD=1", // the script then becomes the server and does not stay as its parent
		"RABBITMQ_NODENAME=troupe" + strconv.Itoa(ports[0]) + "@localhost",
		"RABBITMQ_DIST_PORT=" + strconv.Itoa(ports[2]),
		"RABBITMQ_CONF_ENV_FILE=" + h.path("environment"),
		"RABBITMQ_CONFIG_FILE=" + h.path("rabbitmq.conf"),
		"RABBITMQ_ADVANCED_CONFIG_FILE=" + h.path("advanced.config"),
		"RABBITMQ_GENERATED_CONFIG_DIR=" + h.path("generated"),
		"RABBITMQ_SCHEMA_DIR=" + h.path("schema"),
		"RABBITMQ_ENABLED_PLUGINS_FILE=" + h.path("plugins"),
		"RABBITMQ_MNESIA_BASE=" + h.path("data"),
		"RABBITMQ_LOG_BASE=" + h.path("logs"),
		"RABBITMQ_PID_FILE=" + h.path("pid"),
	}
}

// config is the text of rabbitmq.conf.
func (o RabbitMQOptions) config(h *home, ports []int) string {
	lines := []string{
		"listeners.tcp.1 = " + Loopback(ports[0]),
		"log.console = false",
		"log.file = " + h.path("server.log"),
	}
	if o.ConsumerTimeout > 0 {
		lines = append(lines, fmt.Sprintf("consumer_timeout = %d", o.ConsumerTimeout.Milliseconds()))
	}
	if o.MemoryWatermark > 0 {
		lines = append(lines, fmt.Sprintf("vm_memory_high_watermark.relative = %g", o.MemoryWatermark))
	}
	if o.Listen != "" {
		lines = append(lines, "listeners.tcp.2 = "+o.Listen, "loopback_users = none")
	}
	if o.TLS != nil {
		lines = append(lines, o.TLS.config(ports[3])...)
	}
	return strings.Join(append(lines, o.Config...), "\n") + "\n"
}

// advanced is the text of advanced.config, for what rabbitmq.conf has no word for.
func (o RabbitMQOptions) advanced() string {
	if o.Tick == 0 {
		return "[].\n"
	}
	return fmt.Sprintf("[{rabbit, [{channel_tick_interval, %d}]}].\n", o.Tick.Milliseconds())
}

func (f *TLSFiles) config(port int) []string {
	verify := "verify_none"
	if f.ClientCert {
		verify = "verify_peer"
	}
	return []string{
		"listeners.ssl.1 = " + Loopback(port),
		"ssl_options.cacertfile = " + f.CA,
		"ssl_options.certfile = " + f.Cert,
		"ssl_options.keyfile = " + f.Key,
		"ssl_options.verify = " + verify,
		fmt.Sprintf("ssl_options.fail_if_no_peer_cert = %t", f.ClientCert),
	}
}

// startEpmd starts the name server of Erlang. The node would start one by itself, which would outlive it.
func (r *RabbitMQServer) startEpmd() error {
	program, err := exec.LookPath("epmd")
	if err != nil {
		return fmt.Errorf("start private RabbitMQ: %w", err)
	}
	r.epmd, err = r.launch(program)
	if err != nil {
		return err
	}
	addr := Loopback(r.epmdPort())
	return waitFor(startWithin, "epmd on "+addr, func() bool {
		c, err := net.Dial("tcp", addr)
		return err == nil && c.Close() == nil
	})
}

func (r *RabbitMQServer) epmdPort() int {
	for _, e := range r.env {
		if port, found := strings.CutPrefix(e, "ERL_EPMD_PORT="); found {
			n, _ := strconv.Atoi(port) // we wrote it
			return n
		}
	}
	return 0
}

// ample has a program begin with as many open files as this process may give it, up to what RabbitMQ's own packages give it.
const ample = `ulimit -n 65536 2>/dev/null || ulimit -n "$(ulimit -H -n)"; exec "$0"`

func (r *RabbitMQServer) launch(program string) (*process, error) {
	return launch{
		program: "/bin/sh", args: []string{"-c", ample, program}, env: r.env, dir: r.home.dir, log: r.home.path("output.log"), account: r.home.account, endBy: "KILL",
	}.start(r.home.keeper)
}

// Start starts the server if it does not run, and returns when it accepts connections.
func (r *RabbitMQServer) Start() error {
	if r.process != nil {
		return fmt.Errorf("private RabbitMQ on port %d runs already", r.Port)
	}
	process, err := r.launch(r.program)
	if err != nil {
		return err
	}
	r.process = process
	err = waitFor(startWithin, "a private RabbitMQ", func() bool { return !process.alive() || dial(r.URL) == nil })
	if err == nil {
		err = dial(r.URL) // it may have ended
	}
	if err != nil {
		return fmt.Errorf("start private RabbitMQ: %w\n%s", err, r.Log())
	}
	return nil
}

// dial connects once.
func dial(url string) error {
	c, err := amqp.DialConfig(url, amqp.Config{Dial: amqp.DefaultDial(2 * time.Second)})
	if err != nil {
		return err
	}
	return c.Close()
}

// declares tries a quorum queue, as nodes use them. A server of which many tests have made and deleted such queues may answer that it
// cannot any more (Exception 541) although it takes connections.
func declares(url string) error {
	c, err := amqp.DialConfig(url, amqp.Config{Dial: amqp.DefaultDial(2 * time.Second)})
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	channel, err := c.Channel()
	if err != nil {
		return err
	}
	q, err := channel.QueueDeclare("troupe-test-"+uuid.NewString(), true, false, false, false, amqp.Table{"x-queue-type": "quorum"})
	if err != nil {
		return err
	}
	_, err = channel.QueueDelete(q.Name, false, false, false)
	return err
}

// Stop ends the server in order, like an operator.
func (r *RabbitMQServer) Stop() error {
	return r.end(func(p *process) error { return p.stop(syscall.SIGTERM, stopWithin) })
}

// Kill ends the server and its helpers with SIGKILL, like a crash of the machine.
func (r *RabbitMQServer) Kill() error { return r.end((*process).kill) }

func (r *RabbitMQServer) end(how func(*process) error) error {
	defer func() { r.process = nil }()
	return r.with(how)
}

// with does something to a server that runs.
func (r *RabbitMQServer) with(do func(*process) error) error {
	if r.process == nil {
		return fmt.Errorf("private RabbitMQ on port %d does not run", r.Port)
	}
	return do(r.process)
}

// Freeze stops the server and its helpers: connections stay open, and no answers are sent.
func (r *RabbitMQServer) Freeze() error { return r.with((*process).freeze) }

// Thaw resumes a frozen server.
func (r *RabbitMQServer) Thaw() error { return r.with((*process).thaw) }

// Ctl runs rabbitmqctl on the server and returns its output.
func (r *RabbitMQServer) Ctl(args ...string) (string, error) {
	return runCtl(func(c *exec.Cmd) {
		c.Env, c.Dir = append(os.Environ(), r.env...), r.home.dir
		c.SysProcAttr = &syscall.SysProcAttr{Credential: r.home.account.credential()}
	}, r.ctl, args...)
}

// runCtl runs a rabbitmqctl.
func runCtl(prepare func(*exec.Cmd), program string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), ctlWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	prepare(cmd)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("rabbitmqctl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return string(out), nil
}

// Pids returns the server's processes, the node first; none while it does not run. The epmd is not included.
func (r *RabbitMQServer) Pids() []int {
	if r.process == nil {
		return nil
	}
	return family(r.process.pid())
}

// Log returns the end of the server's log.
func (r *RabbitMQServer) Log() string {
	return r.home.tail("output.log") + "\n" + r.home.tail("server.log")
}

// Close ends the server and removes its files.
func (r *RabbitMQServer) Close() error {
	var err error
	if r.process != nil {
		err = r.Kill()
	}
	if r.epmd != nil {
		err = joinError(err, r.epmd.kill())
	}
	return joinError(err, r.home.keeper.end())
}

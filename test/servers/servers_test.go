package servers

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// orphanEnv makes this binary start servers of its own, print their processes and wait to be killed.
const orphanEnv = "TROUPE_SERVERS_ORPHAN"

func TestMain(m *testing.M) {
	if os.Getenv(orphanEnv) != "" {
		os.Exit(beOrphaned())
	}
	goleak.VerifyTestMain(m)
}

// beOrphaned starts a server that is frozen, and a program with a child that only SIGKILL ends, and waits.
func beOrphaned() int {
	p, err := StartPostgres(PostgresOptions{})
	if err == nil {
		err = p.Freeze()
	}
	var stubborn *process
	if err == nil {
		stubborn, err = launch{
			program: "sh", args: []string{"-c", "trap '' TERM QUIT; sleep 1000 & wait"}, log: p.home.path("sh"), endBy: "KILL",
		}.start(p.home.keeper)
	}
	if err == nil {
		err = waitFor(gone, "a child", func() bool { return len(family(stubborn.pid())) == 2 })
	}
	if err != nil {
		os.Stdout.WriteString("error: " + err.Error() + "\n")
		return 1
	}
	line := p.home.dir
	for _, pid := range append(p.Pids(), family(stubborn.pid())...) {
		line += " " + strconv.Itoa(pid)
	}
	os.Stdout.WriteString(line + "\n")
	select {}
}

// A Prometheus answers queries of itself; one that cannot start says why.
func TestPrometheus(t *testing.T) {
	t.Parallel()
	ports, err := FreePorts(1)
	require.NoError(t, err)
	p := PrivatePrometheus(t, "nobody", "", Loopback(ports[0]))
	require.NoError(t, waitFor(startWithin, "a scrape", func() bool {
		series, err := p.Query(`up{job="nobody"} == 0`)
		require.NoError(t, err)
		return len(series) == 1 && series[0].Labels["instance"] == Loopback(ports[0])
	}))
	names, err := p.LabelValues("job", "up")
	require.NoError(t, err)
	require.Equal(t, []string{"nobody"}, names)
	_, err = p.Query("sum by (")
	require.ErrorContains(t, err, "parse error")

	rules := t.TempDir() + "/rules.yaml"
	require.NoError(t, os.WriteFile(rules, []byte("groups: [{name: g, rules: [{alert: a, expr: 'sum('}]}]"), 0o600))
	_, err = startPrometheus("nobody", rules, nil)
	require.ErrorContains(t, err, "unclosed left parenthesis")
}

// A server's clock can be set ahead and back while it runs, for connections that are open too.
func TestPostgresClock(t *testing.T) {
	t.Parallel()
	p := PrivatePostgres(t, PostgresOptions{Clock: true, Unsafe: true})
	c, err := pgx.Connect(t.Context(), p.URL)
	require.NoError(t, err)
	defer c.Close(context.Background())
	for _, ahead := range []time.Duration{0, 10 * time.Minute, -30 * time.Second, 0} {
		require.NoError(t, p.SetClock(ahead))
		var now time.Time
		require.NoError(t, c.QueryRow(t.Context(), "SELECT clock_timestamp()").Scan(&now))
		require.WithinDuration(t, time.Now().Add(ahead), now, 5*time.Second)
	}
	require.Error(t, (&PostgresServer{}).SetClock(0))
}

func TestPostgresKeepsDataOverKillAndStop(t *testing.T) {
	t.Parallel()
	p := PrivatePostgres(t, PostgresOptions{Settings: map[string]string{"work_mem": "5MB"}})
	require.Equal(t, "5MB", ask(t, p.URL, "SHOW work_mem"))
	require.Equal(t, "on", ask(t, p.URL, "SHOW fsync"))
	require.NoError(t, execute(p.URL, "CREATE TABLE kept AS SELECT 'still here' AS word"))

	pids := p.Pids()
	require.Greater(t, len(pids), 3, "the postmaster and its children")
	require.NoError(t, p.Kill())
	require.Empty(t, running(pids))
	require.Error(t, ping(p.URL))
	require.ErrorContains(t, p.Kill(), "does not run")

	require.NoError(t, p.Start())
	require.ErrorContains(t, p.Start(), "runs already")
	require.Equal(t, "still here", ask(t, p.URL, "SELECT word FROM kept"))
	require.NoError(t, p.Stop())
	require.Error(t, ping(p.URL))
	require.NoError(t, p.Start())
	require.Equal(t, "still here", ask(t, p.URL, "SELECT word FROM kept"))
}

func TestPostgresFreezes(t *testing.T) {
	t.Parallel()
	p := PrivatePostgres(t, PostgresOptions{Unsafe: true})
	c, err := pgx.Connect(t.Context(), p.URL)
	require.NoError(t, err)
	defer c.Close(context.Background())

	require.NoError(t, p.Freeze())
	for _, pid := range p.Pids() {
		letter, _ := stat(pid)
		require.Equal(t, "T", letter)
	}
	answer := make(chan error, 1)
	go func() {
		var one int
		answer <- c.QueryRow(t.Context(), "SELECT 1").Scan(&one)
	}()
	select {
	case err := <-answer:
		require.Fail(t, "a frozen server answered", "%v", err)
	case <-time.After(200 * time.Millisecond):
	}
	require.NoError(t, p.Thaw())
	require.NoError(t, <-answer, "the connection outlives it")
}

func TestCloseLeavesNothing(t *testing.T) {
	t.Parallel()
	p, err := StartPostgres(PostgresOptions{Unsafe: true})
	require.NoError(t, err)
	pids := p.Pids()
	require.NoError(t, p.Freeze(), "a frozen server ends too")
	require.NoError(t, p.Close())
	require.Empty(t, running(pids))
	require.NoDirExists(t, p.home.dir)
}

func TestRabbitMQKeepsMessagesOverKillAndStop(t *testing.T) {
	t.Parallel()
	r, err := StartRabbitMQ(RabbitMQOptions{ConsumerTimeout: 90 * time.Second, Tick: time.Second})
	require.NoError(t, err)
	timeout, err := r.Ctl("eval", "{application:get_env(rabbit, consumer_timeout), application:get_env(rabbit, channel_tick_interval)}.")
	require.NoError(t, err)
	require.Contains(t, timeout, "{{ok,90000},{ok,1000}}")

	c := channel(t, r.URL)
	_, err = c.QueueDeclare("kept", true, false, false, false, nil)
	require.NoError(t, err)
	require.NoError(t, c.Confirm(false))
	confirm, err := c.PublishWithDeferredConfirm("", "kept", true, false, amqp.Publishing{DeliveryMode: amqp.Persistent})
	require.NoError(t, err)
	require.True(t, confirm.Wait())

	// The server writes what it knows of queues late: one that was declared just before a kill may be gone.
	_, err = r.Ctl("eval", "mnesia:sync_log().")
	require.NoError(t, err)
	pids := r.Pids()
	require.NoError(t, r.Kill())
	require.Empty(t, running(pids))
	require.Error(t, dial(r.URL))
	require.NoError(t, r.Start())
	q, err := channel(t, r.URL).QueueDeclarePassive("kept", true, false, false, false, nil)
	require.NoError(t, err)
	require.Equal(t, 1, q.Messages)

	require.NoError(t, r.Freeze())
	require.ErrorContains(t, dial(r.URL), "timeout")
	require.NoError(t, r.Thaw())
	require.NoError(t, waitFor(startWithin, "a thawed server", func() bool { return dial(r.URL) == nil }))
	require.NoError(t, r.Stop())
	require.Error(t, dial(r.URL))

	pids = []int{r.epmd.pid()}
	require.NoError(t, r.Close())
	require.Empty(t, running(pids))
	require.NoDirExists(t, r.home.dir)
}

func TestServersEndWithAKilledTest(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), orphanEnv+"=1")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())

	words := strings.Fields(line)
	require.Greater(t, len(words), 6, line)
	pids := make([]int, len(words)-1)
	for i := range pids {
		pids[i], err = strconv.Atoi(words[i+1])
		require.NoError(t, err, line)
	}
	require.NoError(t, waitFor(30*time.Second, "the servers' end", func() bool { return len(running(pids)) == 0 }))
	require.NoError(t, waitFor(30*time.Second, words[0]+" to go", func() bool {
		_, err := os.Stat(words[0])
		return errors.Is(err, os.ErrNotExist)
	}))
}

func TestSharedServers(t *testing.T) {
	t.Parallel()
	var one string
	t.Run("databases", func(t *testing.T) {
		one = Postgres(t)
		two := Postgres(t)
		require.NotEqual(t, one, two)
		require.NoError(t, execute(one, "CREATE TABLE mine()"))
		require.Equal(t, "0", ask(t, two, "SELECT count(*)::text FROM pg_tables WHERE schemaname = 'public'"))
	})
	require.Error(t, ping(one), "it went with its test")

	url, prefix := RabbitMQ(t)
	again, other := RabbitMQ(t)
	require.Equal(t, url, again)
	require.NotEqual(t, prefix, other)
	c := channel(t, url)
	_, err := c.QueueDeclare(prefix+".queue", false, true, true, false, nil)
	require.NoError(t, err)
}

func TestWhereNothingCanBeHad(t *testing.T) {
	t.Parallel()
	err := missing("a Postgres", postgresEnv, postgresAddr, "postgresql", exec.ErrNotFound)
	for _, way := range []string{"set TROUPE_TEST_POSTGRES", "start one on 127.0.0.1:5432", "apt-get install postgresql"} {
		require.ErrorContains(t, err, way)
	}
	_, err = database("host=here user=me", "x")
	require.ErrorContains(t, err, "TROUPE_TEST_POSTGRES must be a URL")
	_, err = announce("Postgres", found{url: "x"}, exec.ErrNotFound, postgresEnv)
	require.ErrorContains(t, err, "TROUPE_TEST_POSTGRES names does not answer")
}

func ask(t *testing.T, url, question string) string {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer c.Close(context.Background())
	var answer string
	require.NoError(t, c.QueryRow(t.Context(), question).Scan(&answer))
	return answer
}

func channel(t *testing.T, url string) *amqp.Channel {
	t.Helper()
	connection, err := amqp.Dial(url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = connection.Close() }) // it may have lost its server
	c, err := connection.Channel()
	require.NoError(t, err)
	return c
}

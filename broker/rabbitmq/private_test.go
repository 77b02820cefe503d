package rabbitmq_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/broker/rabbitmq"
	"github.com/troupe-run/troupe/test/servers"
)

const (
	patience = 60 * time.Second
	tick     = 10 * time.Millisecond
	// soon bounds a call that must not wait for a server, on a busy machine.
	soon = 10 * time.Second
)

// TestPrivateServer runs the cases that kill, freeze or block a server, one after the other, on a private server.
func TestPrivateServer(t *testing.T) {
	t.Parallel()
	ca, stranger := servers.NewAuthority(t, "ca"), servers.NewAuthority(t, "stranger")
	files := &servers.TLSFiles{CA: ca.File, ClientCert: true}
	files.Cert, files.Key = ca.Issue("server", func(c *x509.Certificate) {
		c.DNSNames, c.ExtKeyUsage = []string{"localhost"}, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	})
	server := servers.PrivateRabbitMQ(t, servers.RabbitMQOptions{TLS: files, Tick: time.Second})
	for _, c := range []struct {
		name string
		run  func(*rig)
	}{
		{"tls", func(r *rig) { r.tls(ca, stranger) }},
		{"refused", (*rig).refused},
		{"permissions", (*rig).permissions},
		{"stale_ack", (*rig).staleAck},
		{"acknowledgement_timeout", (*rig).ackTimeout},
		{"silent_queue", (*rig).silentQueue},
		{"alarm", (*rig).alarm},
		{"frozen", (*rig).frozen},
		{"killed", (*rig).killed},
		{"broken", (*rig).broken},
		{"away_at_start", (*rig).awayAtStart},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(&rig{t, server}) })
	}
}

// rig is one test's view of the private server.
type rig struct {
	*testing.T
	server *servers.RabbitMQServer
}

func (r *rig) open(change ...func(*rabbitmq.Config)) *rabbitmq.Broker {
	c := rabbitmq.Config{URL: r.server.URL, WaitAtOpen: true, BackoffMax: 500 * time.Millisecond}
	for _, f := range change {
		f(&c)
	}
	b := open(r, c)
	r.Cleanup(func() { require.NoError(r, b.Close()) })
	return b
}

func (r *rig) queue(b *rabbitmq.Broker, quorum bool) string {
	name := "troupe.test." + uuid.NewString()
	require.NoError(r, b.Declare(r.Context(), broker.Topology{Queues: []broker.Queue{{Name: name, Quorum: quorum}}}))
	return name
}

func (r *rig) ctl(args ...string) {
	out, err := r.server.Ctl(args...)
	require.NoError(r, err, out)
}

func (r *rig) eventually(what string, condition func() bool) {
	r.Helper()
	require.Eventually(r, condition, patience, tick, what)
}

func (r *rig) up(b *rabbitmq.Broker) {
	r.Helper()
	r.eventually("the broker is up", func() bool { s := b.Status(); return s.Up && !s.Blocked })
}

func (r *rig) confirmed(b *rabbitmq.Broker, queue string, ids ...string) {
	r.Helper()
	messages := make([]broker.Message, len(ids))
	for i, id := range ids {
		messages[i] = broker.Message{RoutingKey: queue, ID: id}
	}
	confirms, err := b.Publish(r.Context(), messages)
	require.NoError(r, err)
	for _, c := range confirms {
		require.Equal(r, broker.Confirmed, c)
	}
}

func (r *rig) consume(b *rabbitmq.Broker, queue string, prefetch int) broker.Consumer {
	r.Helper()
	c, err := b.Consume(r.Context(), queue, prefetch)
	require.NoError(r, err)
	return c
}

func (r *rig) receive(c broker.Consumer) broker.Delivery {
	r.Helper()
	select {
	case d, open := <-c.Deliveries():
		require.True(r, open, "deliveries ended: %v", c.Err())
		return d
	case <-time.After(patience):
		require.FailNow(r, "no delivery came")
		return broker.Delivery{}
	}
}

// ended waits for the end of a consumer and returns why.
func (r *rig) ended(c broker.Consumer) error {
	r.Helper()
	limit := time.After(patience)
	for {
		select {
		case _, open := <-c.Deliveries():
			if !open {
				return c.Err()
			}
		case <-limit:
			require.FailNow(r, "the consumer did not end")
		}
	}
}

func (r *rig) tls(ca, stranger *servers.Authority) {
	client := func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }
	cert, key := ca.Issue("node", client)
	secure := func(files rabbitmq.TLS) rabbitmq.Config {
		return rabbitmq.Config{URL: r.server.TLSURL, TLS: files, WaitAtOpen: true}
	}
	b := r.open(func(c *rabbitmq.Config) { *c = secure(rabbitmq.TLS{CA: ca.File, Cert: cert, Key: key}) })
	queue := r.queue(b, true)
	r.confirmed(b, queue, "0")
	require.NoError(r, r.receive(r.consume(b, queue, 1)).Ack())

	strangeCert, strangeKey := stranger.Issue("node", client)
	for name, c := range map[string]struct {
		files rabbitmq.TLS
		want  string
	}{
		"without a certificate": {rabbitmq.TLS{CA: ca.File}, "name its certificate and key"},
		"of another authority":  {rabbitmq.TLS{CA: ca.File, Cert: strangeCert, Key: strangeKey}, "refused this client's certificate"},
		"untrusted server":      {rabbitmq.TLS{CA: stranger.File, Cert: cert, Key: key}, "name the CA that signed it"},
		"another name":          {rabbitmq.TLS{CA: ca.File, Cert: cert, Key: key, ServerName: "elsewhere"}, "elsewhere"},
	} {
		_, err := rabbitmq.Open(r.Context(), secure(c.files))
		require.ErrorIs(r, err, broker.ErrUnavailable, name)
		require.ErrorContains(r, err, c.want, name)
	}
	wrong := secure(rabbitmq.TLS{CA: ca.File})
	wrong.URL = strings.Replace(r.server.URL, "amqp://", "amqps://", 1)
	_, err := rabbitmq.Open(r.Context(), wrong)
	require.ErrorContains(r, err, "the port does not speak TLS")
}

func (r *rig) refused() {
	for url, want := range map[string]string{
		strings.Replace(r.server.URL, "guest:guest@", "guest:s3cret@", 1): `check user "guest" and its password in the URL`,
		r.server.URL + "nowhere": `check vhost "nowhere" in the URL; rabbitmqctl add_vhost makes it`,
	} {
		_, err := rabbitmq.Open(r.Context(), rabbitmq.Config{URL: url, WaitAtOpen: true})
		require.ErrorIs(r, err, broker.ErrUnavailable)
		require.ErrorContains(r, err, want)
		require.NotContains(r, err.Error(), "s3cret")
	}
	r.refusedLater()
}

// refusedLater: a broker that was connected goes on trying when the server refuses its user, and connects once the user may.
func (r *rig) refusedLater() {
	allow := func() {
		r.ctl("add_user", "later", "secret")
		r.ctl("set_permissions", "later", ".*", ".*", ".*")
	}
	allow()
	b := r.open(func(c *rabbitmq.Config) { c.URL = strings.Replace(r.server.URL, "guest:guest@", "later:secret@", 1) })
	r.up(b)
	r.ctl("delete_user", "later")
	r.ctl("close_all_connections", "its user is gone")
	r.eventually("it is refused", func() bool { return strings.Contains(b.Status().Reason, `check user "later"`) })
	require.False(r, b.Status().Refused)
	allow()
	r.up(b)
}

// permissions checks the permissions that the documentation recommends, and Probe's report where one is missing.
func (r *rig) permissions() {
	r.ctl("add_user", "troupe", "secret")
	url := strings.Replace(r.server.URL, "guest:guest@", "troupe:secret@", 1)
	for _, c := range []struct {
		permissions []string
		wants       []string
	}{
		{[]string{`^troupe\.`, `^(troupe\.|amq\.default$)`, `^troupe\.`}, nil},
		{[]string{`^other\.`, `.*`, `.*`}, []string{"first pattern"}},
		{[]string{`^troupe\.`, `^troupe\.`, `^troupe\.`}, []string{"second pattern"}},
		{[]string{`^troupe\.`, `.*`, `^$`}, []string{"third pattern"}},
	} {
		r.ctl(append([]string{"set_permissions", "troupe"}, c.permissions...)...)
		report, err := rabbitmq.Probe(r.Context(), rabbitmq.Config{URL: url}, "troupe")
		require.NoError(r, err)
		require.Equal(r, "RabbitMQ", report.Product)
		require.Regexp(r, `^\d+\.\d+\.\d+`, report.Version)
		problems := report.Problems()
		require.Len(r, problems, len(c.wants), "%v: %v", c.permissions, problems)
		for i, want := range c.wants {
			require.ErrorContains(r, problems[i], want)
			require.ErrorContains(r, problems[i], "ACCESS_REFUSED")
		}
	}
}

// staleAck: an ack of an old connection's delivery must not settle another connection's delivery, although both have
// the same number.
func (r *rig) staleAck() {
	b, other := r.open(), r.open()
	queue := r.queue(b, true)
	r.confirmed(b, queue, "0")
	old := r.consume(b, queue, 1)
	stale := r.receive(old)
	since := b.Status().Since
	r.ctl("close_all_connections", "on purpose")
	require.ErrorIs(r, r.ended(old), broker.ErrUnavailable)
	require.ErrorContains(r, old.Err(), "on purpose")
	r.eventually("connected again", func() bool { s := b.Status(); return s.Up && s.Since.After(since) })
	r.up(other)

	again := r.consume(b, queue, 1)
	next := r.receive(again)
	require.True(r, next.Redelivered)
	require.ErrorIs(r, stale.Ack(), broker.ErrClosed)
	require.ErrorIs(r, stale.Nack(false), broker.ErrClosed)
	require.NoError(r, b.Close())
	last := r.receive(r.consume(other, queue, 1)) // so the stale ack settled nothing
	require.Equal(r, "0", last.ID)
	require.NoError(r, last.Ack())
}

// ackTimeout: a delivery that is unsettled for too long ends only its consumer. The server's timeout is 30 minutes.
// Only this test's channels have a short one, because other tests have unsettled deliveries while slow programs run.
func (r *rig) ackTimeout() {
	r.ctl("eval", "application:set_env(rabbit, consumer_timeout, 3000).")
	defer r.ctl("eval", "application:set_env(rabbit, consumer_timeout, 1800000).")
	b := r.open()
	queue, quick := r.queue(b, false), r.queue(b, false)
	r.confirmed(b, queue, "0")
	slow, beside := r.consume(b, queue, 1), r.consume(b, quick, 1)
	held := r.receive(slow)
	require.ErrorIs(r, r.ended(slow), broker.ErrUnavailable)
	require.ErrorContains(r, slow.Err(), "timed out")
	require.ErrorIs(r, held.Ack(), broker.ErrClosed)
	again := r.receive(r.consume(b, queue, 1))
	require.Equal(r, "0", again.ID)
	require.NoError(r, again.Ack())
	r.confirmed(b, quick, "1")
	require.NoError(r, r.receive(beside).Ack())
	require.True(r, b.Status().Up)
}

// silentQueue: a queue that does not answer, like one without a leader, ends the consumer that subscribes again, with
// the reason. Other consumers on the connection go on. The next use tries the queue alone.
func (r *rig) silentQueue() {
	b := r.open()
	queue, quick := r.queue(b, false), r.queue(b, false)
	beside := r.consume(b, quick, 1)
	for id, size := range map[string]int{"0": 9 << 20, "1": 9 << 20} { // too large for two at a time
		confirms, err := b.Publish(r.Context(), []broker.Message{{RoutingKey: queue, ID: id, Body: make([]byte, size)}})
		require.NoError(r, err)
		require.Equal(r, []broker.Confirm{broker.Confirmed}, confirms)
	}
	consumer := r.consume(b, queue, 100)
	first := r.receive(consumer)
	r.eventually("the subscription ends until the first is settled", func() bool {
		list, err := r.server.Ctl("-q", "list_consumers", "queue_name")
		return err == nil && !strings.Contains(list, queue) && strings.Contains(list, quick)
	})
	process := fmt.Sprintf(`{ok, Q} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, <<"%s">>)), sys:%%s(amqqueue:get_pid(Q)).`, queue)
	r.ctl("eval", fmt.Sprintf(process, "suspend"))
	since := b.Status().Since
	require.NoError(r, first.Ack())
	require.ErrorIs(r, r.ended(consumer), broker.ErrUnavailable)
	require.ErrorContains(r, consumer.Err(), "did not answer in time")
	_, err := b.Consume(r.Context(), queue, 100)
	require.ErrorIs(r, err, broker.ErrBroken)
	require.ErrorContains(r, err, queue)
	r.confirmed(b, quick, "2")
	require.NoError(r, r.receive(beside).Ack())
	require.Equal(r, since, b.Status().Since, "the connection stays")
	r.ctl("eval", fmt.Sprintf(process, "resume"))
	require.NoError(r, b.Delete(r.Context(), queue))
}

// alarm: while the server lacks memory, the status is blocked, publishing returns at once, and consuming goes on.
func (r *rig) alarm() {
	b := r.open()
	queue := r.queue(b, true)
	r.confirmed(b, queue, "first")
	consumer := r.consume(b, queue, 1)
	defer r.ctl("set_vm_memory_high_watermark", "0.6")
	r.ctl("set_vm_memory_high_watermark", "0.0001")
	confirmed, took := r.publishUntilBlocked(b, queue)
	require.Less(r, took, soon)
	status := b.Status()
	require.True(r, status.Up)
	require.True(r, status.Blocked)
	require.Equal(r, "low on memory", status.Reason)
	require.WithinDuration(r, time.Now(), status.Since, patience)

	for range 20 {
		began := time.Now()
		_, err := b.Publish(r.Context(), []broker.Message{{RoutingKey: queue, ID: "never"}})
		require.ErrorIs(r, err, broker.ErrUnavailable)
		require.Less(r, time.Since(began), soon)
	}
	report, err := rabbitmq.Probe(r.Context(), rabbitmq.Config{URL: r.server.URL}, "troupe")
	require.NoError(r, err)
	require.Equal(r, "low on memory", report.Blocked)
	require.Empty(r, report.Problems(), "what was not tried is no problem")
	require.NoError(r, b.Declare(r.Context(), broker.Topology{Queues: []broker.Queue{{Name: queue, Quorum: true}}}))
	d := r.receive(consumer)
	require.Equal(r, "first", d.ID)
	require.NoError(r, d.Ack())
	require.True(r, b.Status().Blocked)

	r.ctl("set_vm_memory_high_watermark", "0.6")
	r.up(b)
	require.Empty(r, b.Status().Reason)
	r.confirmed(b, queue, "end")
	confirmed["end"] = true
	for len(confirmed) > 0 {
		d := r.receive(consumer) // also the message that was under way when the server blocked; it was Unknown
		require.NotEqual(r, "never", d.ID, "what was refused at once was never sent")
		delete(confirmed, d.ID)
		require.NoError(r, d.Ack())
	}
}

// publishUntilBlocked returns the confirmed messages before the alarm, and how long the call took that met the alarm.
func (r *rig) publishUntilBlocked(b *rabbitmq.Broker, queue string) (confirmed map[string]bool, took time.Duration) {
	confirmed = map[string]bool{}
	r.eventually("the alarm is met", func() bool {
		id := uuid.NewString()
		began := time.Now()
		confirms, err := b.Publish(r.Context(), []broker.Message{{RoutingKey: queue, ID: id}})
		took = time.Since(began)
		if err == nil {
			require.Equal(r, []broker.Confirm{broker.Confirmed}, confirms)
			confirmed[id] = true
			return false
		}
		require.ErrorIs(r, err, broker.ErrUnavailable)
		require.ErrorContains(r, err, "low on memory")
		require.Equal(r, []broker.Confirm{broker.Unknown}, confirms)
		return true
	})
	return confirmed, took
}

// frozen: the heartbeat ends the connection to a silent server, and callers wait no longer than their contexts.
func (r *rig) frozen() {
	b := r.open(func(c *rabbitmq.Config) { c.Heartbeat = 2 * time.Second })
	queue := r.queue(b, true)
	consumer := r.consume(b, queue, 1)
	leaving := r.open()
	cancelled := r.consume(leaving, queue, 1)
	require.NoError(r, r.server.Freeze())
	defer func() { require.NoError(r, r.server.Thaw()) }()
	ctx, cancel := context.WithTimeout(r.Context(), 200*time.Millisecond)
	defer cancel()
	began := time.Now()
	confirms, err := b.Publish(ctx, []broker.Message{{RoutingKey: queue, ID: "0"}})
	require.ErrorIs(r, err, context.DeadlineExceeded)
	require.Equal(r, []broker.Confirm{broker.Unknown}, confirms)
	_, err = b.Inspect(ctx, queue)
	require.ErrorIs(r, err, context.DeadlineExceeded)
	require.Less(r, time.Since(began), soon)
	r.closeWhileFrozen(leaving, cancelled)

	require.ErrorIs(r, r.ended(consumer), broker.ErrUnavailable)
	r.eventually("it is seen", func() bool { return !b.Status().Up })
	require.NotEmpty(r, b.Status().Reason)
	require.Less(r, b.Status().Since.Sub(began), 3*time.Second+soon, "1.5 times the heartbeat")
	publish := func(id string) error {
		limited, stop := context.WithTimeout(r.Context(), 200*time.Millisecond)
		defer stop()
		_, err := b.Publish(limited, []broker.Message{{RoutingKey: queue, ID: id}})
		return err
	}
	// The publishing connection may detect the silence somewhat later.
	r.eventually("publishing is refused", func() bool { return errors.Is(publish("0"), broker.ErrUnavailable) })
	require.ErrorIs(r, publish("1"), broker.ErrUnavailable)

	require.NoError(r, r.server.Thaw())
	r.up(b)
	r.confirmed(b, queue, "2")
	consumer = r.consume(b, queue, 1)
	for { // 0 may have arrived, 1 was never sent
		d := r.receive(consumer)
		require.NotEqual(r, "1", d.ID)
		require.NoError(r, d.Ack())
		if d.ID == "2" {
			return
		}
	}
}

// closeWhileFrozen: Close must not wait for a silent server, and it must end the calls that wait for it.
func (r *rig) closeWhileFrozen(b *rabbitmq.Broker, c broker.Consumer) {
	var cancelling sync.WaitGroup
	cancelling.Go(func() {
		if err := c.Cancel(); err != nil {
			r.Errorf("cancel: %v", err)
		}
	})
	began := time.Now()
	require.NoError(r, b.Close())
	cancelling.Wait()
	require.ErrorIs(r, r.ended(c), broker.ErrClosed)
	require.Less(r, time.Since(began), 5*time.Second)
}

// killed: after the server was killed and started again, confirmed messages are there, and the others were Unknown.
func (r *rig) killed() {
	b := r.open()
	queues := []string{r.queue(b, true), r.queue(b, false)}
	consumer := r.consume(b, r.queue(b, true), 1)
	var publishing sync.WaitGroup
	confirmed := make([]map[string]bool, len(queues))
	before := make(chan struct{}, len(queues))
	for i, queue := range queues {
		confirmed[i] = map[string]bool{}
		publishing.Go(func() { r.publishUntilFailure(b, queue, confirmed[i], before) })
	}
	for range queues {
		<-before
	}
	require.NoError(r, r.server.Kill())
	publishing.Wait()
	require.ErrorIs(r, r.ended(consumer), broker.ErrUnavailable)
	r.eventually("it is seen", func() bool { return !b.Status().Up })
	_, err := b.Inspect(r.Context(), queues[0])
	require.ErrorIs(r, err, broker.ErrUnavailable)
	require.NoError(r, r.server.Start())
	r.up(b)
	for i, queue := range queues {
		r.drain(b, queue, confirmed[i])
	}
}

// publishUntilFailure publishes windows and records the confirmed messages. It signals the first one.
func (r *rig) publishUntilFailure(b *rabbitmq.Broker, queue string, confirmed map[string]bool, begun chan<- struct{}) {
	for n := 0; ; n++ {
		messages := make([]broker.Message, 100)
		for i := range messages {
			messages[i] = broker.Message{RoutingKey: queue, ID: fmt.Sprint(n*len(messages) + i), Body: make([]byte, 300)}
		}
		confirms, err := b.Publish(r.Context(), messages)
		for i, c := range confirms {
			switch c {
			case broker.Confirmed:
				confirmed[messages[i].ID] = true
			case broker.Unknown:
				if !errors.Is(err, broker.ErrUnavailable) {
					r.Errorf("message %s is unknown, but the error is %v", messages[i].ID, err)
				}
			default:
				r.Errorf("message %s: confirm %d, error %v", messages[i].ID, c, err)
			}
		}
		if n == 0 {
			begun <- struct{}{}
		}
		if err != nil {
			return
		}
	}
}

// drain consumes messages until all confirmed ones have arrived.
func (r *rig) drain(b *rabbitmq.Broker, queue string, confirmed map[string]bool) {
	require.NotEmpty(r, confirmed)
	var consumer broker.Consumer
	r.eventually("the queue is there again", func() bool {
		var err error
		consumer, err = b.Consume(r.Context(), queue, 500)
		return err == nil
	})
	for len(confirmed) > 0 {
		d := r.receive(consumer)
		delete(confirmed, d.ID)
		require.NoError(r, d.Ack())
	}
	require.NoError(r, consumer.Cancel())
}

// awayAtStart: a broker that is opened before its server runs connects later by itself. Until then its status says why
// it waits.
func (r *rig) awayAtStart() {
	require.NoError(r, r.server.Kill())
	b := r.open(func(c *rabbitmq.Config) { c.WaitAtOpen = false })
	r.eventually("it says why", func() bool { return strings.Contains(b.Status().Reason, "connection refused") })
	require.False(r, b.Status().Up)
	require.ErrorIs(r, b.Declare(r.Context(), broker.Topology{Exchanges: []broker.Exchange{{Name: "e", Kind: broker.Topic}}}),
		broker.ErrUnavailable)
	_, err := b.Consume(r.Context(), "any", 1)
	require.ErrorIs(r, err, broker.ErrUnavailable)
	require.ErrorContains(r, err, "is the server running")
	_, err = rabbitmq.Open(r.Context(), rabbitmq.Config{URL: r.server.URL, WaitAtOpen: true})
	require.ErrorIs(r, err, broker.ErrUnavailable)

	require.NoError(r, r.server.Start())
	r.up(b)
	queue := r.queue(b, true)
	r.confirmed(b, queue, "0")
}

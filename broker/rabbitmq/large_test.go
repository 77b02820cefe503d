package rabbitmq_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/broker/rabbitmq"
	"github.com/troupe-run/troupe/test/servers"
)

// Large messages come as far as 16 MiB of them are in hand, whatever the prefetch; the others stay in the queue until those are
// settled, then come too, each once, and small ones behind them come at the full prefetch.
func TestLargeMessagesAreTakenByTheirBytes(t *testing.T) {
	t.Parallel()
	url, prefix := servers.RabbitMQ(t)
	b := open(t, rabbitmq.Config{URL: url, WaitAtOpen: true})
	queue := prefix + ".large"
	require.NoError(t, b.Declare(t.Context(), broker.Topology{Queues: []broker.Queue{{Name: queue, Expires: time.Minute}}}))
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	const large, small, size = 24, 60, 3 << 20
	publish := func(from, to, bytes int) {
		for i := from; i < to; i++ {
			confirms, err := b.Publish(t.Context(), []broker.Message{{RoutingKey: queue, ID: fmt.Sprint(i), Body: make([]byte, bytes)}})
			require.NoError(t, err)
			require.Equal(t, []broker.Confirm{broker.Confirmed}, confirms)
		}
	}
	publish(0, 10, 100) // so that the whole prefetch is asked for
	publish(10, 10+large, size)
	publish(10+large, 10+large+small, 100)
	c, err := b.Consume(t.Context(), queue, 100)
	require.NoError(t, err)

	got := map[string]bool{}
	var held []broker.Delivery
	take := func() bool {
		select {
		case d := <-c.Deliveries():
			require.False(t, got[d.ID], "message %s came twice", d.ID)
			held = append(held, d)
			bytes := 0
			for _, h := range held {
				bytes += len(h.Body)
			}
			require.LessOrEqual(t, bytes, 16<<20+10*100+small*100)
			return true
		case <-time.After(500 * time.Millisecond): // nothing more comes while all this is in hand
			return false
		}
	}
	for deadline := time.Now().Add(time.Minute); len(got) < 10+large+small; {
		require.True(t, time.Now().Before(deadline), "%d came", len(got))
		for take() {
		}
		for _, d := range held {
			got[d.ID] = true
			require.NoError(t, d.Ack())
		}
		held = nil
	}
	require.NoError(t, c.Cancel())
	require.NoError(t, b.Delete(t.Context(), queue))
}

// The variables that make this test's binary a program that takes large messages, in a process whose memory is its own.
const (
	takerURL   = "TROUPE_TEST_TAKER_URL"
	takerQueue = "TROUPE_TEST_TAKER_QUEUE"
)

// TestLargeMessagesFitInMemory leaves ten messages of 25 MB on a queue whose prefetch lets all of them come at once. Who takes them needs
// memory for the few that come before their size is known, and for the copies that a frame makes of a body: some 220 MB, and with all of
// them in hand more than 500.
func TestLargeMessagesFitInMemory(t *testing.T) {
	t.Parallel()
	url, prefix := servers.RabbitMQ(t)
	b := open(t, rabbitmq.Config{URL: url, WaitAtOpen: true})
	queue := prefix + ".huge"
	require.NoError(t, b.Declare(t.Context(), broker.Topology{Queues: []broker.Queue{{Name: queue, Expires: time.Minute}}}))
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	// Troupe publishes nothing so large; whoever else may publish to the queue can.
	foreign, err := amqp.Dial(url)
	require.NoError(t, err)
	defer foreign.Close()
	channel, err := foreign.Channel()
	require.NoError(t, err)
	require.NoError(t, channel.Confirm(false))
	for i := range 10 {
		confirm, err := channel.PublishWithDeferredConfirmWithContext(t.Context(), "", queue, true, false,
			amqp.Publishing{MessageId: fmt.Sprint(i), Body: make([]byte, 25_000_000)})
		require.NoError(t, err)
		require.True(t, confirm.Wait())
	}
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), takerURL+"="+url, takerQueue+"="+queue)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	var taken, kilobytes int
	_, err = fmt.Sscanf(string(out), "taken %d peak %d", &taken, &kilobytes)
	require.NoError(t, err, "%s", out)
	require.Equal(t, 10, taken)
	require.Greater(t, kilobytes, 25_000, "it was measured")
	require.Less(t, kilobytes, 400_000)
	require.NoError(t, b.Delete(t.Context(), queue))
}

// takeLarge takes what is on the queue, as much as comes at once, and prints how many messages that were and the peak of its memory in
// kilobytes.
func takeLarge(url, queue string) int {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	taken, err := takeAll(ctx, url, queue)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	_, peak, _ := strings.Cut(string(status), "VmHWM:")
	fmt.Println("taken", taken, "peak", strings.TrimSpace(peak))
	return 0
}

func takeAll(ctx context.Context, url, queue string) (taken int, err error) {
	b, err := rabbitmq.Open(ctx, rabbitmq.Config{URL: url, WaitAtOpen: true, Logger: hclog.NewNullLogger()})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	c, err := b.Consume(ctx, queue, 100)
	if err != nil {
		return 0, err
	}
	for taken < 10 {
		var held []broker.Delivery
		for more := true; more; {
			select {
			case d := <-c.Deliveries():
				held = append(held, d)
			case <-time.After(300 * time.Millisecond): // nothing more comes while all this is in hand
				more = false
			case <-ctx.Done():
				return taken, fmt.Errorf("%d came: %w", taken, ctx.Err())
			}
		}
		for _, d := range held {
			if err := d.Ack(); err != nil {
				return taken, err
			}
			taken++
		}
	}
	return taken, c.Cancel()
}

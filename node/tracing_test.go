package node_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/test/collector"
	"github.com/troupe-run/troupe/tracing"
)

// Submissions by the inbox and by the requests queue have their spans too. So has one that is refused by its key, and its execution
// stays what it was.
func TestEveryWayInHasASpan(t *testing.T) {
	t.Parallel()
	c, others := collector.Start(t), newShared()
	k := lab(t, func(cfg *node.Config) {
		handle(map[string]messages.Handler{"echo": echo})(cfg)
		cfg.WrapStore = others.wrap
		cfg.Tracing = tracing.Defaults()
		cfg.Tracing.Enabled, cfg.Tracing.Endpoint = true, c.URL()
	}, goPack(t, map[string]string{"echo": ""}))
	id := func(n string) string { return "0af7651916cd43dd8448eb211c80310" + n }
	parent := func(n string) string { return "00-" + id(n) + "-b7ad6b7169203331-01" }

	row := store.Submission{ID: messages.NewExecutionID(), Action: "t.echo", Trace: parent("1"), IdempotencyKey: "k"}
	again := store.Submission{ID: messages.NewExecutionID(), Action: "t.echo", Trace: parent("2"), IdempotencyKey: "k"}
	others.put(row)
	k.until("the first is settled", func() bool { _, done := others.outcome(row.ID); return done })
	k.await(row.ID)
	others.put(again)
	k.put(broker.Message{
		RoutingKey: (broker.Settings{}).RequestsQueue(), ID: "m", Headers: map[string]string{"traceparent": parent("3")}, Body: []byte(`{"action_ref":"t.echo"}`),
	})

	first := c.AwaitNames(t, id("1"), "submit t.echo", "place t.echo", "claim t.echo", "run t.echo", "finish t.echo")
	for _, s := range first {
		require.Equal(t, row.ID.String(), s.Attributes["messaging.message.id"])
	}
	by := func(n string) collector.Span { return c.AwaitNames(t, id(n), "submit t.echo")[0] }
	require.Equal(t, []string{"sql", ""}, []string{by("1").Attributes["troupe.submitted_by"], by("1").Attributes["troupe.existing"]})
	require.Equal(t, []string{"sql", "true"}, []string{by("2").Attributes["troupe.submitted_by"], by("2").Attributes["troupe.existing"]})
	require.Equal(t, row.ID.String(), by("2").Attributes["messaging.message.id"])
	c.AwaitNames(t, id("3"), "finish t.echo")
	require.Equal(t, "amqp", by("3").Attributes["troupe.submitted_by"])
	e, err := k.Store().Get(t.Context(), row.ID)
	require.NoError(t, err)
	require.Equal(t, id("1"), messages.TraceID(e.Trace), "the trace of the first submission")
}

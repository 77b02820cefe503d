package wire_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
	troupev1 "github.com/troupe-run/troupe/proto/troupe/v1"
)

func placement() messages.Placement {
	return messages.Placement{Execution: messages.NewExecutionID(), Attempt: 3}
}

func worker(slot messages.Slot) wire.Worker {
	return wire.Worker{Slot: slot, Generation: 2, State: "busy", Grade: "healthy", Placement: placement(), Queued: 1}
}

// bodies holds one of each kind, by kind.
func bodies() map[troupev1.Kind]wire.Body {
	slot := messages.Slot(4)
	return map[troupev1.Kind]wire.Body{
		troupev1.Kind_KIND_UNSUPPORTED:      wire.Unsupported{Kind: 99, Version: 7},
		troupev1.Kind_KIND_ACK:              wire.Ack{Refused: "no such worker", Code: "not_found"},
		troupev1.Kind_KIND_WORKER_SNAPSHOT:  wire.WorkerSnapshot{Pool: "python", Workers: []wire.Worker{worker(0), worker(2)}},
		troupev1.Kind_KIND_WORKER_CHANGE:    wire.WorkerChange{Pool: "python", Worker: worker(1), Reason: "checkout"},
		troupev1.Kind_KIND_SNAPSHOT_REQUEST: wire.SnapshotRequest{Pool: "python"},
		troupev1.Kind_KIND_CANCEL:           wire.Cancel{By: "ana", Pool: "shell", Slot: 2},
		troupev1.Kind_KIND_KILL:             wire.Kill{Pool: "shell", Slot: 1, Generation: 5, By: "ana"},
		troupev1.Kind_KIND_CORDON:           wire.Cordon{Pool: "shell", Slot: &slot, Cordoned: true, By: "ana"},
		troupev1.Kind_KIND_PROBE:            wire.Probe{},
		troupev1.Kind_KIND_PROBE_RESULT:     wire.ProbeResult{StoreSeen: true},
		troupev1.Kind_KIND_INSPECT:          wire.Inspect{Actor: "pools/shell", Depth: 2, After: "pools/shell/1"},
		troupev1.Kind_KIND_INSPECT_RESULT:   wire.InspectResult{View: []byte(`{"id":"pools"}`), Next: "pools/shell/9"},
		troupev1.Kind_KIND_DRAIN:            wire.Drain{By: "ana"},
		troupev1.Kind_KIND_PROBE_WORKER:     wire.ProbeWorker{Pool: "shell", Slot: 3, Probe: true, By: "ana", Runs: true},
		troupev1.Kind_KIND_WORKERS:          wire.Workers{Pool: "shell", After: "shell/7"},
		troupev1.Kind_KIND_POOLS:            wire.Pools{After: "go", Pool: "python"},
		troupev1.Kind_KIND_READINGS:         wire.Readings{After: "troupe_store_up"},
		troupev1.Kind_KIND_CELLS:            wire.Cells{After: "go"},
		troupev1.Kind_KIND_SIGHTS:           wire.Sights{After: "01a2"},
		troupev1.Kind_KIND_VIEWS:            wire.Views{View: []byte(`[{"id":"a/go/0"}]`), Next: "go/0"},
		troupev1.Kind_KIND_OUTPUT:           wire.Output{Feed: 3, From: 17},
		troupev1.Kind_KIND_OUTPUT_RESULT: wire.OutputResult{Feed: 3, Next: 19, More: true, Ended: true, Lost: 7, StdoutCut: true, StderrCut: true, Entries: []wire.RunEvent{
			{Kind: "stdout", At: time.Date(2026, 3, 4, 5, 6, 7, 8, time.UTC), Data: []byte("hi\n\xff")},
			{Kind: "progress", Fraction: 0.5, Message: "half"},
		}},

		troupev1.Kind_KIND_POOL_REPORT:        wire.PoolReport{Pool: "python", Epoch: 2, Number: 7, First: true, Last: true, Serves: "abc", Wake: true, Entries: entries()},
		troupev1.Kind_KIND_POOL_REPORT_RESULT: wire.PoolReportResult{Refused: "not the router", Again: true, Waiting: 3},
		troupev1.Kind_KIND_END_SESSION:        wire.EndSession{Pool: "python", Slot: 4, Session: "s", Epoch: 2},
		troupev1.Kind_KIND_DEAD_LETTERED:      wire.DeadLettered{Pool: "python", Slot: 4, Placement: placement()},
		troupev1.Kind_KIND_WHY_WAITING:        wire.WhyWaiting{Pool: "python", Execution: messages.NewExecutionID()},
		troupev1.Kind_KIND_WHY_WAITING_RESULT: wire.WhyWaitingResult{Reason: "ready", Message: "it is next"},
		troupev1.Kind_KIND_PUBLISH: wire.Publish{Messages: []wire.QueueMessage{
			{Queue: "troupe.worker.n/python/3", Body: []byte("{}"), Expiration: time.Minute}, {Queue: "q"},
		}},
		troupev1.Kind_KIND_PUBLISH_RESULT: wire.PublishResult{Confirms: []troupev1.PublishConfirm{
			troupev1.PublishConfirm_PUBLISH_CONFIRM_CONFIRMED, troupev1.PublishConfirm_PUBLISH_CONFIRM_UNKNOWN,
		}},
		troupev1.Kind_KIND_AWAIT:    wire.Await{Form: 1 << 63, Executions: []wire.Awaited{{ID: messages.NewExecutionID(), For: 90 * time.Second}}},
		troupev1.Kind_KIND_OUTCOMES: wire.Outcomes{Outcomes: []wire.Outcome{{Record: []byte(`{}`), Result: []byte("1"), Details: []byte("2")}}},
	}
}

// entries holds one of each kind of entry of a report.
func entries() []wire.PoolEntry {
	return []wire.PoolEntry{
		wire.PoolWorker{
			Slot: 3, ID: "n/python/3", Queue: "troupe.worker.n/python/3", Generation: 2, Accepts: true, Active: true,
			Grade: "healthy", BeatAge: 1500 * time.Millisecond, BeatEvery: 10 * time.Second, Direct: true,
		},
		wire.PoolWorker{Slot: 4, ID: "n/python/4", Queue: "q", Starting: true, Broken: true, Grade: "degraded", BeatAge: -time.Millisecond},
		wire.PoolWorkerGone{Slot: 3, Restarts: true},
		wire.PoolPlacement{Placement: placement(), Slot: 1, Running: true},
		wire.PoolRunEnded{Placement: placement(), Took: time.Second, Finished: true, Restored: true, Fault: true},
		wire.PoolRunEnded{Placement: placement(), Unseen: true, Session: "s"},
		wire.PoolReleased{Placement: placement()},
		wire.PoolReleased{Placement: placement(), Slot: new(messages.Slot)},
		wire.PoolWithdrawn{Execution: messages.NewExecutionID()},
		wire.PoolCandidate{
			Execution: messages.NewExecutionID(), Seq: 9, Attempt: 1, Action: "core.echo", Version: "1.0.0", Priority: 5,
			WaitForWorker: true, WorkerDeadline: time.Date(2026, 3, 4, 5, 6, 7, 8, time.UTC), Timeout: time.Minute, Idempotent: true,
		},
	}
}

func envelope(body wire.Body) wire.Envelope {
	return wire.Envelope{
		ID:        messages.NewExecutionID(),
		Seq:       1,
		Placement: placement(),
		SentAt:    time.Date(2026, 3, 4, 5, 6, 7, 8, time.UTC),
		From:      messages.NewIncarnation(),
		To:        messages.NewIncarnation(),
		Body:      body,
	}
}

func TestEveryKindOfTheContractTravels(t *testing.T) {
	t.Parallel()
	all := bodies()
	for number, name := range troupev1.Kind_name {
		if number == int32(troupev1.Kind_KIND_UNSPECIFIED) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Contains(t, all, troupev1.Kind(number), "this kind has no sample here, or no Go type")
			sent := envelope(all[troupev1.Kind(number)])
			encoded, err := wire.ToProto(sent)
			require.NoError(t, err)
			require.Equal(t, troupev1.Kind(number), encoded.GetKind())
			got, err := wire.FromProto(throughBytes(t, encoded))
			require.NoError(t, err)
			require.Equal(t, sent, got)
		})
	}
}

func throughBytes(t testing.TB, p *troupev1.Envelope) *troupev1.Envelope {
	t.Helper()
	b, err := proto.Marshal(p)
	require.NoError(t, err)
	got := &troupev1.Envelope{}
	require.NoError(t, proto.Unmarshal(b, got))
	return got
}

func TestUnknownKindOrVersionIsAnsweredNotDropped(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*troupev1.Envelope){
		"kind":        func(p *troupev1.Envelope) { p.Kind = 4711 },
		"unspecified": func(p *troupev1.Envelope) { p.Kind = troupev1.Kind_KIND_UNSPECIFIED },
		"newer":       func(p *troupev1.Envelope) { p.Version = wire.Version + 1 },
		"none":        func(p *troupev1.Envelope) { p.Version = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sent := envelope(wire.Probe{})
			p, err := wire.ToProto(sent)
			require.NoError(t, err)
			change(p)
			_, err = wire.FromProto(p)
			var unsupported *wire.UnsupportedError
			require.ErrorAs(t, err, &unsupported)
			require.Equal(t, sent.ID, unsupported.ID, "the reply must repeat the request's id")
			require.Equal(t, sent.From, unsupported.From)
			require.Equal(t, wire.Unsupported{Kind: p.GetKind(), Version: p.GetVersion()}, unsupported.Reply())
		})
	}
}

func TestBrokenEnvelopesAreRefusedByName(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*troupev1.Envelope)
		want   string
	}{
		"short id":           {func(p *troupev1.Envelope) { p.Id = p.Id[:15] }, "id has 15 bytes"},
		"zero id":            {func(p *troupev1.Envelope) { p.Id = make([]byte, 16) }, "no id"},
		"no sender":          {func(p *troupev1.Envelope) { p.From = nil }, "which incarnation"},
		"long sender":        {func(p *troupev1.Envelope) { p.From = make([]byte, 17) }, "from has 17 bytes"},
		"short receiver":     {func(p *troupev1.Envelope) { p.To = p.To[:1] }, "to has 1 bytes"},
		"no sequence":        {func(p *troupev1.Envelope) { p.Seq = 0 }, "sequence number"},
		"execution, no try":  {func(p *troupev1.Envelope) { p.Attempt = 0 }, "no placement"},
		"try, no execution":  {func(p *troupev1.Envelope) { p.Execution = nil }, "no placement"},
		"negative attempt":   {func(p *troupev1.Envelope) { p.Attempt = -1 }, "no placement"},
		"garbage":            {func(p *troupev1.Envelope) { p.Payload = []byte{0xff, 0xff, 0xff} }, "does not parse"},
		"cancel of nothing":  {func(p *troupev1.Envelope) { p.Execution, p.Attempt = nil, 0 }, "names no execution"},
		"payload over limit": {func(p *troupev1.Envelope) { p.Payload = make([]byte, wire.PayloadMax+1) }, "the limit is"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := wire.ToProto(envelope(wire.Cancel{By: "ana"}))
			require.NoError(t, err)
			c.change(p)
			_, err = wire.FromProto(p)
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestBodiesOutOfRangeAreRefusedAtTheSender(t *testing.T) {
	t.Parallel()
	slot := messages.Slot(1)
	long := strings.Repeat("x", 257)
	crowd := make([]wire.Worker, wire.WorkersMax+1)
	for i := range crowd {
		crowd[i] = worker(messages.Slot(i))
	}
	for name, c := range map[string]struct {
		body wire.Body
		want string
	}{
		"none":                  {nil, "no body"},
		"crowd":                 {wire.WorkerSnapshot{Pool: "p", Workers: crowd}, "1001 workers"},
		"slot twice":            {wire.WorkerSnapshot{Pool: "p", Workers: []wire.Worker{worker(1), worker(1)}}, "slot 1 after slot 1"},
		"no pool":               {wire.SnapshotRequest{}, "names no pool"},
		"no state":              {wire.WorkerChange{Pool: "p", Worker: wire.Worker{Generation: 1}}, "want a state"},
		"generation 0":          {wire.Kill{Pool: "p"}, "generation from 1"},
		"slot without pool":     {wire.Cordon{Slot: &slot}, "names no worker"},
		"deep":                  {wire.Inspect{Depth: wire.DepthMax + 1}, "17 levels"},
		"long":                  {wire.Cancel{By: long}, "257 bytes"},
		"long cursor":           {wire.Inspect{After: long}, "after has 257 bytes"},
		"long next":             {wire.InspectResult{Next: long}, "next has 257 bytes"},
		"not UTF-8":             {wire.Cancel{By: "\xff"}, "UTF-8"},
		"report of nothing":     {wire.PoolReport{Epoch: 1, Number: 1}, "names no pool"},
		"report, no term":       {wire.PoolReport{Pool: "p", Number: 1}, "term 0"},
		"report, no number":     {wire.PoolReport{Pool: "p", Epoch: 1}, "number 0"},
		"crowded report":        {wire.PoolReport{Pool: "p", Epoch: 1, Number: 1, Entries: make([]wire.PoolEntry, wire.EntriesMax+1)}, "401 entries"},
		"worker, no queue":      {reportOf(wire.PoolWorker{ID: "i", Grade: "healthy"}), "entry 0: worker in slot 0: want an id, a queue"},
		"slot below 0":          {reportOf(wire.PoolWorkerGone{Slot: -1}), "slot -1"},
		"nothing placed":        {reportOf(wire.PoolPlacement{}), "names no execution"},
		"no attempt":            {reportOf(wire.PoolReleased{Placement: messages.Placement{Execution: messages.NewExecutionID()}}), "no placement"},
		"run of a long session": {reportOf(wire.PoolRunEnded{Placement: placement(), Session: strings.Repeat("s", 257)}), "session has 257 bytes"},
		"run before it ran":     {reportOf(wire.PoolRunEnded{Placement: placement(), Took: -1}), "took -1ns"},
		"no candidate":          {reportOf(wire.PoolCandidate{}), "no candidate"},
		"priority":              {reportOf(wire.PoolCandidate{Execution: messages.NewExecutionID(), Seq: 1, Action: "a", Priority: 10}), "priority 10"},
		"withdrawn nothing":     {reportOf(wire.PoolWithdrawn{}), "names no execution"},
		"dead letter's slot":    {wire.DeadLettered{Pool: "p", Slot: -1, Placement: placement()}, "slot -1"},
		"publish of nothing":    {wire.Publish{}, "0 messages"},
		"publish of too many":   {wire.Publish{Messages: make([]wire.QueueMessage, wire.PublishMax+1)}, "257 messages"},
		"publish of much":       {wire.Publish{Messages: []wire.QueueMessage{{Queue: "q", Body: make([]byte, wire.PublishBytesMax+1)}}}, "196609 bytes"},
		"publish to no queue":   {wire.Publish{Messages: []wire.QueueMessage{{}}}, "name has 0 bytes"},
		"expired before":        {wire.Publish{Messages: []wire.QueueMessage{{Queue: "q", Expiration: -1}}}, "expiration -1ns"},
		"no confirm":            {wire.PublishResult{Confirms: []troupev1.PublishConfirm{0}}, "a confirm that is none"},
		"many confirms":         {wire.PublishResult{Confirms: make([]troupev1.PublishConfirm, wire.PublishMax+1)}, "257 confirms"},
		"await of nothing":      {wire.Await{}, "0 executions"},
		"await of too many":     {wire.Await{Executions: make([]wire.Awaited, wire.AwaitMax+1)}, "1001 executions"},
		"await without an id":   {wire.Await{Executions: []wire.Awaited{{For: time.Second}}}, "no id"},
		"await of no time":      {wire.Await{Executions: []wire.Awaited{{ID: messages.NewExecutionID()}}}, "awaited for 0s"},
		"await for too long":    {wire.Await{Executions: []wire.Awaited{{ID: messages.NewExecutionID(), For: 91 * time.Second}}}, "awaited for 1m31s"},
		"no outcomes":           {wire.Outcomes{}, "0 outcomes"},
		"many outcomes":         {wire.Outcomes{Outcomes: make([]wire.Outcome, wire.OutcomesMax+1)}, "257 outcomes"},
		"a long outcome":        {outcomesOf(1, wire.OutcomeBytesMax+1), "65537 bytes"},
		"long outcomes":         {outcomesOf(4, wire.OutcomeBytesMax), "262144 bytes"},
		"no session":            {wire.EndSession{Pool: "p", Epoch: 1}, "want a session"},
		"why nothing":           {wire.WhyWaiting{Pool: "p"}, "names no execution"},
		"large":                 {wire.InspectResult{View: make([]byte, wire.PayloadMax)}, "by reference"},
		"probed slot":           {wire.ProbeWorker{Pool: "p", Slot: -1}, "slot -1"},
		"cancelled slot":        {wire.Cancel{Pool: "p", Slot: -1}, "slot -1"},
		"far place":             {wire.Workers{After: long + long}, "a page begins"},
		"much output":           {outputOf(2, wire.OutputMax/2), "larger than"},
		"large entry":           {outputOf(1, wire.RunEventMax), "larger than"},
		"many entries":          {outputOf(2000, 0), "2000 entries"},
		"no progress":           {wire.OutputResult{Entries: []wire.RunEvent{{Kind: "progress", Fraction: math.NaN()}}}, "want a number"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := wire.ToProto(envelope(c.body))
			require.ErrorContains(t, err, c.want)
		})
	}
}

// outcomesOf are outcomes of equal length.
func outcomesOf(count, size int) (b wire.Outcomes) {
	for range count {
		b.Outcomes = append(b.Outcomes, wire.Outcome{Result: make([]byte, size)})
	}
	return b
}

// outputOf is output of equal entries.
func outputOf(count, size int) wire.OutputResult {
	b := wire.OutputResult{Entries: make([]wire.RunEvent, count)}
	for i := range b.Entries {
		b.Entries[i] = wire.RunEvent{Kind: "stdout", Data: make([]byte, size)}
	}
	return b
}

// What is as large as the bounds of output and views allow fits into a payload.
func TestTheLargestOutputAndViewFit(t *testing.T) {
	t.Parallel()
	base := wire.RunEvent{Kind: "stdout", At: time.Now(), Fraction: -1, Level: "warning", Message: strings.Repeat("m", 100)}
	for name, entries := range map[string][]wire.RunEvent{"one": {base}, "many": slices.Repeat([]wire.RunEvent{base}, 300)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limit := wire.OutputMax
			if len(entries) == 1 {
				limit = wire.RunEventMax
			}
			entries[0].Data = make([]byte, limit-len(entries)*base.Size())
			_, err := wire.ToProto(envelope(wire.OutputResult{Feed: 1 << 62, Next: 1 << 62, More: true, Entries: entries}))
			require.NoError(t, err)
		})
	}
	_, err := wire.ToProto(envelope(wire.Views{View: make([]byte, wire.ViewsMax), Next: strings.Repeat("n", 256)}))
	require.NoError(t, err)
}

// A snapshot as large as the bounds allow must fit into the payload's bound, or a pool could not be told at all.
func TestTheLargestSnapshotFits(t *testing.T) {
	t.Parallel()
	workers := make([]wire.Worker, wire.WorkersMax)
	for i := range workers {
		workers[i] = worker(messages.Slot(i))
		workers[i].State, workers[i].Grade = "initializing", "unhealthy"
	}
	_, err := wire.ToProto(envelope(wire.WorkerSnapshot{Pool: strings.Repeat("p", 256), Workers: workers}))
	require.NoError(t, err)
}

// So must a report of the longest texts.
func TestTheLargestReportFits(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 256)
	for _, entry := range []wire.PoolEntry{
		wire.PoolWorker{Slot: 1_000_000, ID: messages.WorkerID(long), Queue: long, Generation: 1 << 30, Grade: "unhealthy", BeatAge: time.Hour},
		wire.PoolCandidate{
			Execution: messages.NewExecutionID(), Seq: 1 << 62, Attempt: 1 << 30, Action: long, Version: long, Priority: 9,
			WorkerDeadline: time.Now(), Timeout: 1 << 62, Idempotent: true, WaitForWorker: true,
		},
	} {
		report := wire.PoolReport{Pool: long, Epoch: 1 << 62, Number: 1 << 62, Serves: long}
		for range wire.EntriesMax {
			report.Entries = append(report.Entries, entry)
		}
		_, err := wire.ToProto(envelope(report))
		require.NoError(t, err)
	}
}

// reportOf is a report of one entry.
func reportOf(e wire.PoolEntry) wire.PoolReport {
	return wire.PoolReport{Pool: "p", Epoch: 1, Number: 1, Entries: []wire.PoolEntry{e}}
}

func TestSnapshotsKeepEveryWorker(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		snapshot := wire.WorkerSnapshot{Pool: rapid.StringMatching(`[a-z.]{1,20}`).Draw(t, "pool")}
		for i := range rapid.IntRange(1, 20).Draw(t, "workers") {
			w := worker(messages.Slot(i))
			w.Generation = messages.Generation(rapid.Int32Range(1, 1<<30).Draw(t, "generation"))
			w.Queued = rapid.Int32Range(0, 20).Draw(t, "queued")
			w.Cordoned = rapid.Bool().Draw(t, "cordoned")
			snapshot.Workers = append(snapshot.Workers, w)
		}
		sent := envelope(snapshot)
		p, err := wire.ToProto(sent)
		require.NoError(t, err)
		got, err := wire.FromProto(p)
		require.NoError(t, err)
		require.Equal(t, sent, got)
	})
}

// FuzzFromProto holds that no bytes of a peer make the decoder panic, and that what it accepts says the same after
// another trip.
func FuzzFromProto(f *testing.F) {
	for _, body := range bodies() {
		p, err := wire.ToProto(envelope(body))
		require.NoError(f, err)
		b, err := proto.Marshal(p)
		require.NoError(f, err)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p := &troupev1.Envelope{}
		if proto.Unmarshal(b, p) != nil {
			return
		}
		first, err := wire.FromProto(p)
		if err != nil {
			return
		}
		again, err := wire.ToProto(first)
		require.NoError(t, err)
		second, err := wire.FromProto(again)
		require.NoError(t, err)
		require.Equal(t, first, second)
	})
}

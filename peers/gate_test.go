package peers

import (
	"crypto/rand"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/remote"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
	troupev1 "github.com/troupe-run/troupe/proto/troupe/v1"
)

func noise(t *testing.T, size int) []byte {
	t.Helper()
	b := make([]byte, size)
	_, err := rand.Read(b)
	require.NoError(t, err)
	return b
}

// Each thing that a peer may send wrongly is counted under its reason, and the stream goes on with what comes after it.
func TestWhatIsNotTakenEndsNothing(t *testing.T) {
	t.Parallel()
	from, gone := messages.NewIncarnation(), messages.NewIncarnation()
	probe := encode(t, from, wire.Probe{})
	for _, c := range []struct {
		name string
		kind string
		to   string
		data []byte
		why  Reason
	}{
		{"bytes that are no envelope", envelopeType, target, []byte{0xff, 0xff, 0xff}, Garbage},
		{"random bytes", envelopeType, target, noise(t, 1000), Garbage},
		{"an envelope without an id", envelopeType, target, encode(t, from, wire.Probe{}, func(e *troupev1.Envelope) { e.Id = nil }), Garbage},
		{"a payload that is none", envelopeType, target, encode(t, from, wire.Cordon{Pool: "p"}, func(e *troupev1.Envelope) { e.Payload = []byte{0xff} }), Garbage},
		{"an unknown kind", envelopeType, target, encode(t, from, wire.Probe{}, func(e *troupev1.Envelope) { e.Kind = 99 }), Unsupported},
		{"an unknown version", envelopeType, target, encode(t, from, wire.Probe{}, func(e *troupev1.Envelope) { e.Version = 2 }), Unsupported},
		{"an answer that nobody waits for", envelopeType, target, encode(t, from, wire.ProbeResult{StoreSeen: true}), Stale},
		{"a large envelope", envelopeType, target, noise(t, envelopeMax+1), TooLarge},
		{"an unknown type", "troupe.v9.Unheard", target, probe, Misdirected},
		{"a stop of an actor of the library", "actor.Stop", "EndpointSupervisor", nil, Misdirected},
		{"a poison pill", "actor.PoisonPill", "activator", nil, Misdirected},
		{"a request to start an actor", "remote.ActorPidRequest", "activator", nil, Misdirected},
		{"an envelope to another incarnation", envelopeType, target, encode(t, from, wire.Probe{}, func(e *troupev1.Envelope) { e.To = gone[:] }), Misdirected},
		{"an unknown kind to another incarnation", envelopeType, target, encode(t, from, wire.Probe{}, func(e *troupev1.Envelope) { e.To, e.Kind = gone[:], 99 }), Misdirected},
		{"half a receiver", envelopeType, target, encode(t, from, wire.Probe{}, func(e *troupev1.Envelope) { e.To = gone[:8] }), Garbage},
		{"an envelope to another actor", envelopeType, "troupe", probe, Misdirected},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a, b := open(t), open(t)
			introduce(a, b)
			r := dial(t, a, b.Address(), from)
			before := a.Counts()
			r.write(batchOf(c.kind, c.to, c.data, c.data))
			r.write(batchOf(envelopeType, target, probe))
			a.drops(c.why, 2)
			require.Eventually(t, func() bool { return a.Counts().Received == before.Received+1+boolTo(c.why == Stale)*2 }, patience, time.Millisecond)
			a.works(b)
			b.works(a)
		})
	}
}

func boolTo(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// Indexes that point nowhere would end the library's goroutine, and so the process.
func TestABatchThatPointsNowhere(t *testing.T) {
	t.Parallel()
	a, b := open(t), open(t)
	introduce(a, b)
	r := dial(t, a, b.Address(), b.own)
	for i, index := range []int32{-1, 1, 1 << 30} {
		batch := batchOf(envelopeType, target, encode(t, b.own, wire.Probe{}), encode(t, b.own, wire.Probe{}))
		batch.Envelopes[0].TypeId, batch.Envelopes[1].Target = index, index
		r.write(batch)
		a.drops(Garbage, int64(2*(i+1)))
	}
	a.works(b)
}

// A stream that does not begin with a greeting, greets twice, or for an address that is not the peer's own, is ended.
func TestGreetings(t *testing.T) {
	t.Parallel()
	a, b := open(t), open(t)
	introduce(a, b)
	silent := dial(t, a, "")
	silent.write(batchOf(envelopeType, target, encode(t, b.own, wire.Probe{})))
	require.Equal(t, codes.InvalidArgument, status.Code(silent.ended()))
	twice := dial(t, a, deaf(t))
	twice.greet(deaf(t))
	require.Equal(t, codes.InvalidArgument, status.Code(twice.ended()))
	for _, address := range []string{a.Address(), "", "nowhere", "0.0.0.0:1", "h:0", "h:99999", "h/x:1"} {
		r := dial(t, a, "")
		r.greet(address)
		require.Equal(t, codes.InvalidArgument, status.Code(r.ended()), address)
	}
	a.works(b)
}

// What gRPC can refuse by its length is never read.
func TestALargeWriteEndsItsStreamAlone(t *testing.T) {
	t.Parallel()
	a, b := open(t), open(t)
	introduce(a, b)
	b.works(a)
	r := dial(t, a, deaf(t))
	_ = r.Send(message(batchOf(envelopeType, target, make([]byte, 64<<20)))) // refused while it is sent
	require.Equal(t, codes.ResourceExhausted, status.Code(r.ended()))
	a.drops(TooLarge, 1)
	many := dial(t, a, deaf(t))
	many.write(batchOf(envelopeType, target, make([][]byte, batchMax+1)...))
	require.Equal(t, codes.InvalidArgument, status.Code(many.ended()))
	a.works(b)
	b.works(a)
}

// What is small on the wire and large in memory is counted before it is decoded.
func TestAWriteOfManyPartsIsNotDecoded(t *testing.T) {
	t.Parallel()
	a, b := open(t), open(t)
	introduce(a, b)
	headers := batchOf(envelopeType, target, nil)
	headers.Envelopes[0].MessageHeader = &remote.MessageHeader{HeaderData: map[string]string{}}
	for i := range partsMax {
		headers.Envelopes[0].MessageHeader.HeaderData[strconv.Itoa(i)] = ""
	}
	names := batchOf(envelopeType, target)
	names.TypeNames = make([]string, 1_000_000)
	for i, batch := range []*remote.MessageBatch{batchOf(envelopeType, target, make([][]byte, 1_000_000)...), headers, names} {
		raw, err := proto.Marshal(message(batch))
		require.NoError(t, err)
		require.Less(t, len(raw), receiveMax)
		require.ErrorIs(t, newSlim().Unmarshal(mem.BufferSlice{mem.SliceBuffer(raw)}, &remote.RemoteMessage{}), errParts)
		r := dial(t, a, b.Address())
		r.write(batch)
		require.Equal(t, codes.Internal, status.Code(r.ended()))
		a.drops(Garbage, int64(i+1))
	}
	full := batchOf(envelopeType, target)
	for range batchMax {
		full.Envelopes = append(full.Envelopes, &remote.MessageEnvelope{
			MessageData: encode(t, b.own, wire.Probe{}), Sender: 1, TargetRequestId: 1, SenderRequestId: 1,
		})
	}
	dial(t, a, b.Address(), b.own).write(full)
	require.Eventually(t, func() bool { return a.Counts().Received >= batchMax }, patience, time.Millisecond)
	a.works(b)
}

func FuzzParts(f *testing.F) {
	whole, err := proto.Marshal(message(batchOf(envelopeType, target, []byte("data"))))
	require.NoError(f, err)
	f.Add(whole)
	f.Add([]byte{0x0a, 0x02, 0x1a, 0x00})
	f.Fuzz(func(t *testing.T, raw []byte) {
		count, ok := parts(raw, 0)
		m := &remote.RemoteMessage{}
		if proto.Unmarshal(raw, m) != nil || !ok {
			return
		}
		b := m.GetMessageBatch()
		require.GreaterOrEqual(t, count, min(len(b.GetEnvelopes())+len(b.GetTypeNames())+len(b.GetTargets()), partsMax))
	})
}

// A peer that asks without end and takes no answer fills nothing: its answers are bounded, and other peers are served.
// It measures the heap, so it runs alone.
func TestAFloodIsBounded(t *testing.T) {
	a, b := open(t), open(t)
	introduce(a, b)
	a.works(b)
	const flood = 10_000
	address, from := deaf(t), messages.NewIncarnation()
	r := dial(t, a, address, from)
	var start, end runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&start)
	for range flood / batchMax {
		data := make([][]byte, batchMax)
		for i := range data {
			data[i] = encode(t, from, wire.Probe{})
		}
		r.write(batchOf(envelopeType, target, data...))
	}
	a.works(b)
	require.Eventually(t, func() bool { return a.Counts().Received >= flood }, patience, time.Millisecond)
	a.drops(Busy, 1)
	a.mu.Lock()
	if l := a.lanes[address]; l != nil {
		require.LessOrEqual(t, l.queued, queuedMax)
	}
	require.Empty(t, a.calls)
	a.mu.Unlock()
	runtime.GC()
	runtime.ReadMemStats(&end)
	grown := int64(end.HeapAlloc) - int64(start.HeapAlloc)
	t.Logf("the heap has grown by %d KiB", grown>>10)
	require.Less(t, grown, int64(8<<20))
}

// Two nodes that do not understand each other's complaint leave it at that.
func TestAComplaintIsNotAnswered(t *testing.T) {
	t.Parallel()
	a, b := open(t), open(t)
	introduce(a, b)
	b.works(a)
	sent := a.Counts().Sent
	r := dial(t, a, b.Address(), b.own)
	r.write(batchOf(envelopeType, target, encode(t, b.own, wire.Unsupported{Kind: 7, Version: 1}, func(e *troupev1.Envelope) { e.Version = 9 })))
	a.drops(Unsupported, 1)
	require.Equal(t, sent, a.Counts().Sent)
}

// The answer to an unknown kind reaches whoever asked.
func TestAnUnknownKindIsAnswered(t *testing.T) {
	t.Parallel()
	a, b := open(t), open(t)
	introduce(a, b)
	id := callID(messages.NewExecutionID())
	c, err := b.begin(id, a.own, a.Address())
	require.NoError(t, err)
	encoded, err := wire.ToProto(wire.Envelope{ID: id, Seq: 1, From: b.own, Body: wire.Probe{}})
	require.NoError(t, err)
	encoded.Kind, encoded.Version = 42, 3
	require.NoError(t, b.send(a.Address(), encoded))
	select {
	case got := <-c.answer:
		require.Equal(t, answer{body: wire.Unsupported{Kind: 42, Version: 3}}, got)
	case <-time.After(patience):
		require.FailNow(t, "no answer")
	}
}

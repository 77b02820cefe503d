package broker_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
)

const (
	bodyOne = `{"v":2,"incarnation":"0199a000-0000-7000-8000-000000000001","pool":"demo.models",` +
		`"work":[{"slot":3,"placements":[{"execution":"0199a000-0000-7000-8000-0000000000e1","attempt":2}]}]}`
	bodyOld = `{"v":1,"worker":{"incarnation":"0199a000-0000-7000-8000-000000000001","pool":"demo.models","slot":3},` +
		`"placements":[{"execution":"0199a000-0000-7000-8000-0000000000e1","attempt":2}]}`
	bodyTwo = `{"v":2,"incarnation":"0199a000-0000-7000-8000-000000000001","pool":"demo.models","work":[` +
		`{"slot":3,"placements":[{"execution":"0199a000-0000-7000-8000-0000000000e1","attempt":2}]},` +
		`{"slot":4,"ahead":true,"placements":[{"execution":"0199a000-0000-7000-8000-0000000000e2","attempt":1}]}]}`
)

func workOne() broker.Work {
	return broker.Work{
		Worker: messages.WorkerKey{
			Incarnation: messages.Incarnation(uuid.MustParse("0199a000-0000-7000-8000-000000000001")), Pool: "demo.models", Slot: 3,
		},
		Placements: []messages.Placement{{
			Execution: messages.ExecutionID(uuid.MustParse("0199a000-0000-7000-8000-0000000000e1")), Attempt: 2,
		}},
	}
}

func TestWorkIsOnTheWireAsDocumented(t *testing.T) {
	t.Parallel()
	body, err := workOne().Encode()
	require.NoError(t, err)
	require.Equal(t, bodyOne, string(body))
	all, err := broker.DecodeWork(body)
	require.NoError(t, err)
	require.Equal(t, []broker.Work{workOne()}, all)
}

func TestOneMessageCarriesTheWorkOfSeveralWorkers(t *testing.T) {
	t.Parallel()
	second := workOne()
	second.Worker.Slot, second.Ahead = 4, true
	second.Placements = []messages.Placement{{
		Execution: messages.ExecutionID(uuid.MustParse("0199a000-0000-7000-8000-0000000000e2")), Attempt: 1,
	}}
	body, err := broker.EncodeWork([]broker.Work{workOne(), second})
	require.NoError(t, err)
	require.Equal(t, bodyTwo, string(body))
	all, err := broker.DecodeWork(body)
	require.NoError(t, err)
	require.Equal(t, []broker.Work{workOne(), second}, all)
	second.Worker.Pool = "other"
	_, err = broker.EncodeWork([]broker.Work{workOne(), second})
	require.EqualError(t, err, "malformed message body: work for two pools or incarnations")
	_, err = broker.EncodeWork(nil)
	require.EqualError(t, err, "malformed message body: no work")
}

// A router that stores no placement names itself.
func TestWorkThatIsHandedOverNamesItsRouter(t *testing.T) {
	t.Parallel()
	work := workOne()
	work.By = work.Worker.Incarnation
	body, err := work.Encode()
	require.NoError(t, err)
	require.Equal(t, strings.Replace(bodyOne, `"slot":3,`, `"slot":3,"by":"0199a000-0000-7000-8000-000000000001",`, 1), string(body))
	all, err := broker.DecodeWork(body)
	require.NoError(t, err)
	require.Equal(t, []broker.Work{work}, all)
}

// A node of an older version may have left messages on its queues.
func TestWorkOfTheVersionBeforeIsRead(t *testing.T) {
	t.Parallel()
	all, err := broker.DecodeWork([]byte(bodyOld))
	require.NoError(t, err)
	require.Equal(t, []broker.Work{workOne()}, all)
	_, err = broker.DecodeWork([]byte(strings.Replace(bodyOld, `"slot":3`, `"slot":-1`, 1)))
	require.ErrorContains(t, err, "slot -1 is negative")
}

func TestLargestWorkFits(t *testing.T) {
	t.Parallel()
	w := workOne()
	w.Worker.Pool = strings.Repeat("p", 128)
	w.Worker.Slot = 1<<31 - 1
	for len(w.Placements) < broker.PlacementsMax {
		w.Placements = append(w.Placements, messages.Placement{Execution: messages.NewExecutionID(), Attempt: 1<<31 - 1})
	}
	body, err := w.Encode()
	require.NoError(t, err)
	require.LessOrEqual(t, len(body), broker.WorkMax)
	back, err := broker.DecodeWork(body)
	require.NoError(t, err)
	require.Equal(t, []broker.Work{w}, back)
	w.Placements = append(w.Placements, w.Placements[0])
	_, err = w.Encode()
	require.EqualError(t, err, "malformed message body: 101 placements, at most 100 are allowed")
}

func TestBadWorkIsNamed(t *testing.T) {
	t.Parallel()
	change := func(old, new string) string { return strings.Replace(bodyOne, old, new, 1) }
	for _, c := range []struct {
		body string
		is   error
		want string
	}{
		{"", broker.ErrMalformed, "unexpected end of JSON input"},
		{"[]", broker.ErrMalformed, "cannot unmarshal array"},
		{`"<script>"`, broker.ErrMalformed, "cannot unmarshal string"},
		{`{}`, broker.ErrMalformed, "no version: v is missing"},
		{`{"v":null}`, broker.ErrMalformed, "no version: v is missing"},
		{`{"v":3,"anything":[]}`, broker.ErrVersion, "version 3, this binary knows 2"},
		{`{"v":2,"anything":[]}`, broker.ErrMalformed, `unknown field "anything"`},
		{`{"v":0}`, broker.ErrVersion, "version 0"},
		{`{"v":1}`, broker.ErrMalformed, "no incarnation"},
		{`{"v":2}`, broker.ErrMalformed, "no work"},
		{`{"v":2,"work":[{}]}`, broker.ErrMalformed, "no incarnation"},
		{bodyOne + "{}", broker.ErrMalformed, "after top-level value"},
		{change(`"v":2`, `"v":2,"more":1`), broker.ErrMalformed, `unknown field "more"`},
		{change(`"pool":"demo.models"`, `"pool":""`), broker.ErrMalformed, "no pool"},
		{change(`demo.models`, `a/../b`), broker.ErrMalformed, `the pool's name "a/../b" holds '/'`},
		{change(`demo.models`, `a\u0000b`), broker.ErrMalformed, `holds '\x00'`},
		{change(`demo.models`, strings.Repeat("x", 129)), broker.ErrMalformed, "the pool's name has 129 bytes"},
		{change(`"slot":3`, `"slot":-1`), broker.ErrMalformed, "slot -1 is negative"},
		{change(`"slot":3`, `"slot":2147483648`), broker.ErrMalformed, "cannot unmarshal number"},
		{change(`"attempt":2`, `"attempt":0`), broker.ErrMalformed, "placement 0: attempt must be positive, got 0"},
		{change(`0199a000-0000-7000-8000-0000000000e1`, `../..`), broker.ErrMalformed, `execution id "../.." is not a UUID`},
		{change(`0199a000-0000-7000-8000-0000000000e1`, uuid.Nil.String()), broker.ErrMalformed, "placement 0: no execution"},
		{change(`[{"execution":"0199a000-0000-7000-8000-0000000000e1","attempt":2}]`, "[]"), broker.ErrMalformed, "no placements"},
		{strings.Repeat(" ", broker.WorkMax) + "1", broker.ErrMalformed, "32769 bytes, at most 32768 are allowed"},
		{strings.Repeat("[", 20_000), broker.ErrMalformed, "exceeded max depth"},
	} {
		_, err := broker.DecodeWork([]byte(c.body))
		require.ErrorIs(t, err, c.is, "%.60s", c.body)
		require.ErrorContains(t, err, c.want)
	}
}

func FuzzDecodeWork(f *testing.F) {
	f.Add([]byte(bodyOne))
	f.Add([]byte(bodyTwo))
	f.Add([]byte(bodyOld))
	f.Add([]byte(`{"v":3}`))
	f.Add([]byte(`{"v":1,"worker":{},"placements":[{}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		all, err := broker.DecodeWork(body)
		if err != nil {
			if !isKnown(err) {
				t.Fatalf("an error without a name: %v", err)
			}
			return
		}
		again, err := broker.EncodeWork(all)
		require.NoError(t, err)
		back, err := broker.DecodeWork(again)
		require.NoError(t, err)
		require.Equal(t, all, back)
	})
}

func BenchmarkWork(b *testing.B) {
	w := workOne()
	for len(w.Placements) < 20 {
		w.Placements = append(w.Placements, messages.Placement{Execution: messages.NewExecutionID(), Attempt: 1})
	}
	body, err := w.Encode()
	require.NoError(b, err)
	b.Run("encode/20", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := w.Encode(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decode/20", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := broker.DecodeWork(body); err != nil {
				b.Fatal(err)
			}
		}
	})
}

package wire_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
)

// ended is an execution in which no field is zero but those that an outcome does not have.
func ended() messages.Execution {
	var e messages.Execution
	fill(reflect.ValueOf(&e).Elem(), 1)
	e.Status = messages.Failed
	e.Parameters, e.Webhook = nil, nil
	return e
}

// fill sets every field of a value.
func fill(v reflect.Value, n int) {
	switch v.Type() {
	case reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Date(2026, 3, 4, 5, 6, 7, 123456000, time.UTC).Add(time.Duration(n) * time.Microsecond)))
		return
	case reflect.TypeFor[json.RawMessage]():
		v.Set(reflect.ValueOf(json.RawMessage(`{ "b" : 1.0,  "a" : "<é>" }`)))
		return
	case reflect.TypeFor[messages.Status]():
		v.Set(reflect.ValueOf(messages.Completed))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n+i)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(1), n)
	case reflect.Array:
		fill(v.Index(v.Len()-1), n)
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{"k": "<v> \u2028\x00 \ufffd"}))
	case reflect.String:
		v.SetString("text <" + string(rune('a'+n%26)) + "> é\x00\ufffd")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int8:
		v.SetInt(9)
	case reflect.Uint8:
		v.SetUint(uint64(n%255 + 1))
	default:
		v.SetInt(int64(n) << 20)
	}
}

func TestAnOutcomeTravelsWithEveryField(t *testing.T) {
	t.Parallel()
	sent := ended()
	sent.Error.Types = nil // the retry is decided before, and nothing keeps them
	for i := range reflect.TypeFor[messages.Execution]().NumField() {
		name := reflect.TypeFor[messages.Execution]().Field(i).Name
		require.Equal(t, name == "Parameters" || name == "Webhook", reflect.ValueOf(sent).Field(i).IsZero(), name)
	}
	o, err := wire.EncodeOutcome(&sent)
	require.NoError(t, err)
	got, err := o.Decode()
	require.NoError(t, err)
	require.Equal(t, sent, got)

	sent.Parameters = json.RawMessage(`{"long":true}`)
	o, err = wire.EncodeOutcome(&sent)
	require.NoError(t, err)
	got, err = o.Decode()
	require.NoError(t, err)
	require.Nil(t, got.Parameters)
	require.JSONEq(t, `{"long":true}`, string(sent.Parameters), "the sender's is not changed")
	require.NotNil(t, sent.Error.Details)
}

// Results are stored as their workers wrote them, and come as they are stored.
func TestAnOutcomesResultIsNotReformatted(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		sent := messages.Execution{ID: messages.NewExecutionID(), Status: messages.Completed}
		if raw := rapid.SliceOfN(rapid.Byte(), 0, 50).Draw(t, "result"); len(raw) > 0 {
			sent.Result = raw
		}
		if rapid.Bool().Draw(t, "labelled") {
			sent.Labels = map[string]string{}
		}
		sent.Action = rapid.String().Draw(t, "action")
		o, err := wire.EncodeOutcome(&sent)
		if strings.Contains(sent.Action, `\ufffd`) {
			return
		}
		require.NoError(t, err)
		got, err := o.Decode()
		require.NoError(t, err)
		require.Equal(t, sent, got)
	})
}

func TestWhatCannotBeSentWholeIsNotSent(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*messages.Execution){
		"a long result":        func(e *messages.Execution) { e.Result = make([]byte, wire.OutcomeBytesMax+1) },
		"a long error":         func(e *messages.Execution) { e.Error.Stderr = strings.Repeat("x", wire.OutcomeBytesMax) },
		"long details":         func(e *messages.Execution) { e.Error.Details = make([]byte, wire.OutcomeBytesMax) },
		"a label, not UTF-8":   func(e *messages.Execution) { e.Labels["k"] = "\xff" },
		"a message, not UTF-8": func(e *messages.Execution) { e.Error.Message = "a\xc3" },
		"a year without end":   func(e *messages.Execution) { e.FinishedAt = time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC) },
	} {
		e := ended()
		change(&e)
		_, err := wire.EncodeOutcome(&e)
		require.ErrorIs(t, err, wire.ErrNotCarried, name)
	}
}

func TestWhatIsNoOutcomeIsRefused(t *testing.T) {
	t.Parallel()
	id := messages.NewExecutionID().String()
	for record, want := range map[string]string{
		`{`: "decode an outcome", `{}`: "no id", `{"ID":"` + id + `","Status":"running"}`: "is running, which is none",
		`{"ID":"` + id + `","Status":"exploded"}`: "decode an outcome", `{"ID":"` + id + `"}`: "which is none",
		`{"ID":"` + id + `","Status":"completed"}`: "no error",
	} {
		o := wire.Outcome{Record: []byte(record), Details: []byte("1")}
		_, err := o.Decode()
		require.ErrorContains(t, err, want, record)
	}
}

// Nodes whose executions have other fields have another form.
func TestTheFormIsThatOfThisRelease(t *testing.T) {
	t.Parallel()
	require.NotZero(t, wire.OutcomeForm)
	require.Equal(t, wire.FormOf(reflect.TypeFor[messages.Execution]()), wire.OutcomeForm)
	type with[T any] struct {
		A *T             `json:"a"`
		B map[string][]T `json:"b"`
	}
	type named struct {
		A *int             `json:"c"`
		B map[string][]int `json:"b"`
	}
	require.NotEqual(t, wire.FormOf(reflect.TypeFor[with[int]]()), wire.FormOf(reflect.TypeFor[with[int8]]()))
	require.NotEqual(t, wire.FormOf(reflect.TypeFor[with[int]]()), wire.FormOf(reflect.TypeFor[named]()))
}

package form

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate/view"
)

// viewOf draws a view with any of its fields set. A field of a kind that it does not know fails the test, so that none is forgotten.
func viewOf(t *rapid.T) ExecutionView {
	var v ExecutionView
	for field, at := range reflect.ValueOf(&v).Elem().Fields() {
		if !rapid.Bool().Draw(t, field.Name+" is set") {
			continue
		}
		at.Set(reflect.ValueOf(drawn(t, field)).Convert(field.Type))
	}
	return v
}

func drawn(t *rapid.T, field reflect.StructField) any {
	switch reflect.New(field.Type).Elem().Interface().(type) {
	case messages.ExecutionID:
		return messages.NewExecutionID()
	case messages.Status:
		return rapid.SampledFrom(messages.Statuses()).Draw(t, field.Name)
	case time.Time:
		zone := rapid.SampledFrom([]*time.Location{time.UTC, time.FixedZone("", 3600), time.FixedZone("UTC", 0)}).Draw(t, "zone")
		return time.Unix(rapid.Int64Range(-62135596800, 253402300799).Draw(t, field.Name), rapid.Int64Range(0, 1e9-1).Draw(t, "ns")).In(zone)
	case json.RawMessage:
		return rapid.SampledFrom([]string{"{}", "null", ` { "a" : [ 1.0 , "<&>\u2028" ] } `, `"x"`, "12"}).Draw(t, field.Name)
	case map[string]string:
		return rapid.MapOf(rapid.String(), rapid.String()).Draw(t, field.Name)
	case *messages.Error:
		return &messages.Error{Code: "c", Message: rapid.String().Draw(t, field.Name), Details: json.RawMessage(`{"a": 1}`)}
	case *WebhookView:
		return &WebhookView{URL: "https://h/<x>", State: messages.WebhookDue, Error: rapid.String().Draw(t, field.Name)}
	case *view.Retry:
		return &view.Retry{WhyNot: "w", Left: 2, Message: "<none>"}
	}
	switch field.Type.Kind() {
	case reflect.String:
		return rapid.OneOf(rapid.String(), rapid.StringMatching(`[ -~]*`), rapid.SampledFrom([]string{"\xff", "\u2028", "a\x00", "<&>"})).Draw(t, field.Name)
	case reflect.Bool:
		return true
	case reflect.Float64:
		return rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{1e-6, 9e-7, 1e21, 9e20, -1.5, math.Inf(1), math.NaN()})).Draw(t, field.Name)
	case reflect.Int8:
		return rapid.Int8().Draw(t, field.Name)
	case reflect.Int32, reflect.Int:
		return rapid.Int32().Draw(t, field.Name)
	case reflect.Int64:
		return rapid.Int64().Draw(t, field.Name)
	}
	t.Fatalf("draw a value for the field %s, and write it in AppendJSON", field.Name)
	return nil
}

// A view is written as encoding/json writes it, to the byte, and fails where that fails.
func TestAViewIsWrittenAsByReflection(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := viewOf(t)
		want, wrong := json.Marshal(&v)
		got, err := v.AppendJSON([]byte("before"))
		require.Equal(t, wrong == nil, err == nil, "%v, %v", wrong, err)
		if err == nil {
			require.Equal(t, "before"+string(want), string(got))
		}
	})
	var bad ExecutionView
	bad.Result = json.RawMessage(`{`)
	_, err := bad.AppendJSON(nil)
	require.Error(t, err)
}

func BenchmarkView(b *testing.B) {
	at := time.Unix(1_700_000_000, 123456000).UTC()
	v := ExecutionView{ID: messages.NewExecutionID(), ActionRef: "core.noop", Version: "1.0.0", Pool: "go", Status: messages.Scheduled,
		Attempt: 1, Priority: 5, CreatedBy: "local", TimeoutSeconds: 300, Idempotent: true, Worker: "box/go/4", Generation: 1,
		RequestedAt: at, RunAt: at, ScheduledAt: at, ClaimBy: at}
	b.Run("reflection", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = json.Marshal(&v)
		}
	})
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		buf := make([]byte, 0, 1024)
		for b.Loop() {
			_, _ = v.AppendJSON(buf)
		}
	})
}

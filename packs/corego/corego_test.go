package corego

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEchoReturnsItsParameters(t *testing.T) {
	t.Parallel()
	got, err := Echo(t.Context(), json.RawMessage(`{"message":"hi"}`))
	require.NoError(t, err)
	require.Equal(t, json.RawMessage(`{"message":"hi"}`), got)

	got, err = Echo(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, json.RawMessage(`{}`), got)
}

func TestNoopReturnsNull(t *testing.T) {
	t.Parallel()
	got, err := Noop(t.Context(), json.RawMessage(`{"a":1}`))
	require.NoError(t, err)
	require.Nil(t, got)
}

func TestSleepTakesItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		got, err := Sleep(t.Context(), json.RawMessage(`{"seconds":1.5}`))
		require.NoError(t, err)
		require.Equal(t, map[string]float64{"slept": 1.5}, got)
		require.Equal(t, 1500*time.Millisecond, time.Since(began))
	})
}

func TestSleepEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		_, err := Sleep(ctx, json.RawMessage(`{"seconds":3600}`))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(began))
	})
}

func TestSleepRefusesBadSeconds(t *testing.T) {
	t.Parallel()
	for _, params := range []string{`{"seconds":-1}`, `{"seconds":3601}`, `{"seconds":"a"}`, `[]`} {
		_, err := Sleep(t.Context(), json.RawMessage(params))
		var failure *Failure
		require.ErrorAs(t, err, &failure, params)
		require.Equal(t, "invalid_parameters", failure.Code, params)
		require.False(t, *failure.Retriable, params)
	}
}

func TestFailFailsAsAsked(t *testing.T) {
	t.Parallel()
	_, err := Fail(t.Context(), json.RawMessage(`{"message":"no","code":"my_code","retriable":true}`))
	yes := true
	require.Equal(t, &Failure{Code: "my_code", Message: "no", Retriable: &yes}, err)

	_, err = Fail(t.Context(), nil)
	require.Equal(t, &Failure{Code: "action_error", Message: "failed as asked"}, err)
}

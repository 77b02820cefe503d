package messages_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/troupe-run/troupe/messages"
)

func TestAnErrorIsBounded(t *testing.T) {
	t.Parallel()
	short := &messages.Error{
		Code: messages.Code(strings.Repeat("c", messages.CodeMax)), Type: "T", Message: strings.Repeat("m", messages.ErrorMessageMax),
		Stderr: "s", Exit: "exit status 3", Details: json.RawMessage(`{"a":1}`),
	}
	require.Same(t, short, short.Bounded(), "one within the bounds is as it was")
	require.Nil(t, (*messages.Error)(nil).Bounded())

	long := &messages.Error{
		Code: messages.Code("x" + strings.Repeat("é", 100)), Type: "x" + strings.Repeat("é", 100), Message: "x" + strings.Repeat("é", messages.ErrorMessageMax),
		Stderr: strings.Repeat("é", 1<<20) + "x", Exit: strings.Repeat("e", 1<<20), Class: strings.Repeat("e", 1<<20),
		Details: json.RawMessage(`"` + strings.Repeat("d", messages.ErrorDetailsMax) + `"`),
	}
	got := long.Bounded()
	require.Equal(t, messages.Code("x"+strings.Repeat("é", 63)), got.Code)
	require.Equal(t, "x"+strings.Repeat("é", 63), got.Type)
	require.LessOrEqual(t, len(got.Message), messages.ErrorMessageMax)
	require.Greater(t, len(got.Message), messages.ErrorMessageMax-4)
	require.True(t, strings.HasSuffix(got.Message, "é…"))
	require.True(t, strings.HasSuffix(got.Stderr, "éx"), "what was written last")
	require.Less(t, len(got.Stderr)+len(got.Exit)+len(got.Class), 20<<10)
	require.JSONEq(t, `"left out: the details have 8388610 bytes, more than the 8388608 that can be stored"`, string(got.Details))
	require.Len(t, long.Details, messages.ErrorDetailsMax+2, "the error itself is not changed")
	raw, err := json.Marshal(got)
	require.NoError(t, err)
	require.NotContains(t, string(raw), "\uFFFD")

	many := make([]string, 100)
	for i := range many {
		many[i] = "T" + strings.Repeat("x", i%2*messages.TypeMax)
	}
	require.Equal(t, slices.Repeat([]string{"T"}, messages.TypesMax/2), (&messages.Error{Types: many}).Bounded().Types)

	broken := (&messages.Error{Code: "a\xffb", Message: "m\xff"}).Bounded()
	require.Equal(t, messages.Code("a\uFFFDb"), broken.Code)
	require.Equal(t, "m\uFFFD", broken.Message)
}

func TestWhatACodeMaySay(t *testing.T) {
	t.Parallel()
	long := messages.Code(strings.Repeat("c", messages.SaidMax))
	for said, want := range map[messages.Code]string{
		"": "action_error: m", "validation": "validation: m", "rate_limited": "rate_limited: m", "permission_denied": "permission_denied: m",
		"transient_error": "transient_error: m", "connection_refused": "connection_refused: m", "My.Own-code_1": "My.Own-code_1: m", long: string(long) + ": m",
		"cancelled": "action.cancelled: m", "poisoned": "action.poisoned: m", "timeout": "action.timeout: m", "queue_deadline": "action.queue_deadline: m",
		"action.timeout": "action.timeout: m", "disk full at 14:03:07": "action_error: disk full at 14:03:07: m", "a\nb": "action_error: a\nb: m",
		"größe": "action_error: größe: m", long + "c": "action_error: " + string(long) + "c: m", "[redacted]": "action_error: [redacted]: m",
	} {
		e := &messages.Error{Code: said, Message: "m", Class: "c", FailedBy: "f", NoRetry: "n", Exit: "x", Type: "T"}
		require.Equal(t, want, e.Said().Error(), "%q", said)
		require.Equal(t, messages.Error{Code: e.Said().Code, Message: e.Said().Message, Type: "T"}, *e.Said(), "the other fields are Troupe's")
		require.Equal(t, strings.HasPrefix(want, "action."), e.Said().Code.Borrowed())
	}
	for _, f := range messages.Failures() {
		said := (&messages.Error{Code: f.Code}).Said().Code
		require.Equal(t, f.Code.Reserved(), said.Borrowed())
		require.Equal(t, f.Code.Reserved(), said != f.Code)
	}
}

// The page of the protocol has the list of the codes that no worker can say.
func TestReservedCodesAreListed(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/protocol.md")
	require.NoError(t, err)
	_, row, _ := strings.Cut(string(page), "| one that only Troupe decides: ")
	row, _, _ = strings.Cut(row, " | ")
	var listed []messages.Code
	for _, name := range strings.Split(row, ", ") {
		listed = append(listed, messages.Code(strings.Trim(name, "`")))
	}
	require.ElementsMatch(t, messages.ReservedCodes(), listed)
}

func TestAListedErrorHasNoPayload(t *testing.T) {
	t.Parallel()
	again := true
	e := &messages.Error{
		Code: "c", Message: strings.Repeat("é", 3000), Class: "k", Type: "T", NoRetry: "n", Retriable: &again, FailedBy: "f", Exit: "x",
		Details: json.RawMessage(`{"result":"late"}`), Stderr: "secret",
	}
	got := e.Listed(messages.ListedMessageMax)
	require.Equal(t, &messages.Error{
		Code: "c", Message: strings.Repeat("é", 2046) + "…", Class: "k", Type: "T", NoRetry: "n", Retriable: &again, FailedBy: "f", Exit: "x",
	}, got)
	require.Equal(t, "secret", e.Stderr, "the error itself is not changed")
}

func TestACutTextIsValidAndBounded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := string(rapid.SliceOf(rapid.SampledFrom([]byte("aé€\U0001F600\xff\x00"))).Draw(t, "bytes"))
		if rapid.Bool().Draw(t, "valid") {
			text = rapid.String().Draw(t, "text")
		}
		limit := rapid.IntRange(3, 40).Draw(t, "limit")
		got := messages.ClipText(text, limit)
		require.True(t, utf8.ValidString(got))
		require.LessOrEqual(t, len(got), limit)
		if utf8.ValidString(text) && len(text) <= limit {
			require.Equal(t, text, got)
		}
	})
}

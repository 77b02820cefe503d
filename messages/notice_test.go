package messages_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// golden compares a wire form with its file. Programs elsewhere rely on every byte of it that means something.
func golden(t *testing.T, name string, raw []byte) {
	t.Helper()
	var pretty bytes.Buffer
	require.NoError(t, json.Indent(&pretty, raw, "", "  "))
	pretty.WriteByte('\n')
	path := filepath.Join("testdata", name)
	if *rewrite {
		require.NoError(t, os.WriteFile(path, pretty.Bytes(), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), pretty.String(), "run the test with -rewrite where the change is meant")
}

func executionID(last string) messages.ExecutionID {
	return messages.ExecutionID(uuid.MustParse("0199a000-0000-7000-8000-0000000000" + last))
}

func ended(status messages.Status) messages.Execution {
	at := time.Date(2026, 3, 4, 5, 6, 7, 123456000, time.UTC)
	return messages.Execution{
		ID: executionID("01"), Action: "core.echo", Version: "1.2.0", Status: status, Attempt: 2,
		Parameters: json.RawMessage(`{"api_key":"s3cret"}`), Session: "s", Labels: map[string]string{"team": "a"},
		Trace: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", IdempotencyKey: "order-7", CreatedBy: "me",
		RequestedAt: at, StartedAt: at.Add(time.Second), FinishedAt: at.Add(2 * time.Second),
	}
}

func TestNoticeWireForm(t *testing.T) {
	t.Parallel()
	completed := ended(messages.Completed)
	completed.Result = json.RawMessage(`{"message":"hi"}`)
	failed := ended(messages.Failed)
	failed.StartedAt = time.Time{}
	failed.RetryCount, failed.Original, failed.RetriedAs = 1, executionID("00"), executionID("02")
	failed.Error = &messages.Error{Code: messages.CodeQueueTimeout, Message: "expired", FailedBy: "dead_letter_handler"}
	large := ended(messages.Completed)
	large.Result = json.RawMessage(`"` + strings.Repeat("x", messages.NoticeResultMax) + `"`)
	for name, e := range map[string]messages.Execution{
		"notice_completed.json": completed, "notice_failed.json": failed, "notice_truncated.json": large,
	} {
		raw, err := messages.NoticeOf(&e).Encode()
		require.NoError(t, err)
		require.NotContains(t, string(raw), "s3cret")
		golden(t, name, raw)
		var back messages.ExecutionCompleted
		require.NoError(t, json.Unmarshal(raw, &back))
		require.Equal(t, messages.NoticeOf(&e), back)
	}
}

func TestNoticeCutsLongErrors(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", messages.NoticeDetailsMax+1)
	e := ended(messages.Failed)
	e.Error = &messages.Error{Code: "c", Message: long, Stderr: long, Details: json.RawMessage(`"` + long + `"`)}
	n := messages.NoticeOf(&e)
	require.True(t, n.Truncated)
	require.Empty(t, n.Error.Stderr)
	require.Empty(t, n.Error.Details)
	require.Len(t, n.Error.Message, messages.NoticeDetailsMax)
	require.Len(t, e.Error.Stderr, len(long), "the execution's own error stays whole")
	e.Error = &messages.Error{Code: "c", Details: json.RawMessage("no json")}
	_, err := messages.NoticeOf(&e).Encode()
	require.NoError(t, err, "what a program emitted never hinders a notice")
}

func TestReplyWireForm(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]messages.SubmitReply{
		"reply_accepted.json": {ID: executionID("01"), Status: messages.Requested},
		"reply_existing.json": {ID: executionID("01"), Status: messages.Completed, Existing: true},
		"reply_refused.json":  {Error: &messages.SubmitError{Code: "action_not_found", Message: `there is no action "x"`}},
	} {
		raw, err := r.Encode()
		require.NoError(t, err)
		golden(t, name, raw)
		var back messages.SubmitReply
		require.NoError(t, json.Unmarshal(raw, &back))
		require.Equal(t, r, back)
	}
}

package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/api/form"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/submit"
	"github.com/troupe-run/troupe/store"
)

const streamPath = executionsPath + "/stream"

// streamed sends a whole stream and returns its answers, without the last one.
func streamed(t testing.TB, h http.Handler, body string, headers ...string) ([]form.StreamAnswer, form.StreamAnswer) {
	t.Helper()
	w := ask(t, h, "POST", streamPath, body, append([]string{"Content-Type", typeLines}, headers...)...)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	require.Equal(t, typeLines, w.Header().Get("Content-Type"))
	require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
	require.NotEmpty(t, w.Header().Get(HeaderTime))
	answers := answersOf(t, w.Body)
	require.NotEmpty(t, answers)
	last := answers[len(answers)-1]
	require.NotNil(t, last.End)
	return answers[:len(answers)-1], last
}

func answersOf(t testing.TB, from io.Reader) (answers []form.StreamAnswer) {
	t.Helper()
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		dec := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		dec.DisallowUnknownFields()
		var a form.StreamAnswer
		require.NoError(t, dec.Decode(&a), lines.Text())
		answers = append(answers, a)
	}
	require.NoError(t, lines.Err())
	return answers
}

// Each line has its own answer, with its number and the error that it would have as a submission.
func TestAStreamAnswersEachLine(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	h := New(Config{Backend: b})
	lines := []struct {
		text string
		code messages.Code
		says string
	}{
		{`{"action_ref":"a","parameters":{"n":1},"labels":{"x":"y"},"idempotency_key":"k"}`, "", ""},
		{``, "-", ""},
		{" \t\r", "-", ""},
		{`{"action_ref":"a"`, messages.CodeInvalidJSON, "the line ends in the middle"},
		{`{"action_ref":"a","idempotency_key":"k"}`, messages.CodeKeyConflict, "was used with a different request"},
		{`{"action_ref":"a"} {"action_ref":"b"}`, messages.CodeInvalidJSON, "goes on after its JSON value"},
		{`{"action_ref":"a","wait_seconds":1}`, messages.CodeUnknownField, "wait_seconds"},
		{`{"action_ref":"a","action_ref":"b"}`, messages.CodeInvalidJSON, "twice"},
		{`{"action_ref":7}`, messages.CodeInvalidRequest, "want text, got number"},
		{`{}`, messages.CodeInvalidRequest, "action_ref is missing"},
		{`[]`, messages.CodeInvalidRequest, "want an object"},
		{"{\"action_ref\":\"\xff\"}", messages.CodeInvalidJSON, "not UTF-8"},
		{`{"action_ref":"a","parameters":` + nested(messages.JSONDepthMax+1) + `}`, messages.CodeInvalidJSON, "100 levels"},
		{sized(messages.ParametersMax + 1), messages.CodeTooLarge, "parameters are 1048577 bytes"},
		{sized(2 * BodyMax), messages.CodeTooLarge, "larger than 1.5 MiB"},
		{sized(messages.ParametersMax), "", ""},
		{`{"action_ref":"a","parameters":{"n":1},"labels":{"x":"y"},"idempotency_key":"k"}`, "", ""},
		{`{"action_ref":"the last line has no end"}`, "", ""},
	}
	var body []string
	for _, l := range lines {
		body = append(body, l.text)
	}
	answers, last := streamed(t, h, strings.Join(body, "\n"))
	stored, refused := 0, 0
	for i, l := range lines {
		if l.code == "-" {
			continue // nothing was said
		}
		a := answers[stored+refused]
		require.Equal(t, i+1, a.Line)
		if l.code == "" {
			stored++
			require.Nil(t, a.Error)
			e, err := b.Get(t.Context(), a.ID)
			require.NoError(t, err)
			require.Equal(t, messages.Requested, a.Status)
			require.Equal(t, localCaller, e.CreatedBy)
			require.Equal(t, i == 16, a.Existing)
			continue
		}
		refused++
		require.True(t, a.ID.IsZero())
		require.Equal(t, string(l.code), a.Error.Code, a.Error.Message)
		require.Contains(t, a.Error.Message, l.says)
	}
	require.Len(t, answers, stored+refused)
	require.Equal(t, form.StreamAnswer{End: &form.StreamEnd{Stored: stored, Refused: refused}}, last)
	require.Equal(t, answers[0].ID, answers[len(answers)-2].ID, "the same key and request is the same execution")
}

// A stream without lines is over at once.
func TestAnEmptyStream(t *testing.T) {
	t.Parallel()
	h := New(Config{Backend: newBackend(t)})
	for _, body := range []string{"", "\n", "\r\n\r\n"} {
		answers, last := streamed(t, h, body)
		require.Empty(t, answers)
		require.Equal(t, form.StreamAnswer{End: &form.StreamEnd{}}, last)
	}
}

// What is refused before the first line is an ordinary answer.
func TestStreamsThatAreRefused(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	const line = `{"action_ref":"a"}`
	h := New(Config{Backend: b, Access: withTokens(t, []Token{{Name: "r", Secret: readToken, Scopes: []Scope{ScopeRead}}})})
	refused(t, ask(t, h, "POST", streamPath, line, "Content-Type", typeLines), 401, messages.CodeUnauthorized, "token")
	refused(t, ask(t, h, "POST", streamPath, line, "Content-Type", typeLines, "Authorization", "Bearer "+readToken), 403, messages.CodeForbidden, "submit")
	h = New(Config{Backend: b})
	for _, kind := range []string{"", "application/json", "text/plain", typeLines + "; charset=latin1"} {
		refused(t, ask(t, h, "POST", streamPath, line, "Content-Type", kind), 415, messages.CodeMediaType, "send application/x-ndjson in UTF-8")
	}
	refused(t, ask(t, h, "POST", streamPath, line, "Content-Type", typeLines, "Content-Encoding", "gzip"), 415, messages.CodeMediaType, "gzip")
	refused(t, ask(t, h, "POST", streamPath+"?x=1", line, "Content-Type", typeLines), 400, messages.CodeInvalidRequest, "x")
	refused(t, ask(t, h, "GET", streamPath, ""), 405, messages.CodeMethodNotAllowed, streamPath)
	w := ask(t, New(Config{Backend: b, BodiesMax: 64 << 10}), "POST", streamPath, line, "Content-Type", typeLines)
	refused(t, w, 429, messages.CodeTooManyRequests, "limits.bodies")
	shut := func() *messages.Problem { return messages.Problemf(messages.CodeStoreUnavailable, "the store is away") }
	refused(t, ask(t, New(Config{Backend: b, Gate: shut}), "POST", streamPath, line, "Content-Type", typeLines), 503, messages.CodeStoreUnavailable, "away")
	require.Empty(t, b.requests)
}

// The answers come while the stream goes on. One line that comes alone is stored alone.
func TestAStreamIsAnsweredAsItComes(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(New(Config{Backend: newBackend(t)}))
	defer server.Close()
	body, lines := io.Pipe()
	defer lines.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+streamPath, body)
	require.NoError(t, err)
	r.Header.Set("Content-Type", typeLines)
	first := make(chan error, 1)
	go func() {
		_, err := io.WriteString(lines, `{"action_ref":"a"}`+"\n")
		first <- err
	}()
	response, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	require.NoError(t, <-first)
	defer response.Body.Close()
	answers := bufio.NewScanner(response.Body)
	for n := 1; n <= 3; n++ {
		require.True(t, answers.Scan())
		require.Contains(t, answers.Text(), fmt.Sprintf(`{"line":%d,"id":"`, n))
		if n < 3 {
			_, err := io.WriteString(lines, `{"action_ref":"a"}`+"\n")
			require.NoError(t, err)
		}
	}
	require.NoError(t, lines.Close())
	require.True(t, answers.Scan())
	require.Equal(t, `{"end":{"stored":3,"refused":0}}`, answers.Text())
	require.False(t, answers.Scan())
	require.NoError(t, answers.Err())
}

// collector answers each submission by what its action is called.
type collector struct {
	backend
	mu    sync.Mutex
	sizes []int
	held  chan struct{} // SubmitEach waits until it closes, where set
	came  chan struct{} // is told of every SubmitEach, where set
}

func (c *collector) SubmitEach(ctx context.Context, requests []submit.Request) []Submission {
	c.mu.Lock()
	c.sizes = append(c.sizes, len(requests))
	c.mu.Unlock()
	if c.came != nil {
		c.came <- struct{}{}
	}
	made := make([]Submission, len(requests))
	for i, r := range requests {
		switch made[i].Stored.Execution = (messages.Execution{ID: messages.NewExecutionID(), Status: messages.Requested}); r.ActionRef {
		case "away":
			made[i].Err = store.ErrUnavailable
		case "broken":
			made[i].Err = errors.New("secret/path")
		case "unknown":
			made[i].Err = messages.Problemf(messages.CodeActionNotFound, "there is no action")
		}
	}
	if c.held != nil {
		select {
		case <-c.held:
		case <-ctx.Done():
			for i := range made {
				made[i].Err = ctx.Err()
			}
		}
	}
	return made
}

// An error that is not about a line ends the stream: the lines behind it would have it too.
func TestAnErrorOfTheStoreEndsAStream(t *testing.T) {
	t.Parallel()
	good := `{"action_ref":"a"}` + "\n"
	for action, code := range map[string]messages.Code{"away": messages.CodeStoreUnavailable, "broken": messages.CodeInternal} {
		c := &collector{}
		h := New(Config{Backend: c})
		bad := `{"action_ref":"` + action + `"}` + "\n"
		answers, last := streamed(t, h, good+bad+`{"action_ref":"unknown"}`+"\n"+good+strings.Repeat(good, chunkMax))
		require.Len(t, answers, chunkMax, "one part was read")
		require.Nil(t, answers[0].Error)
		require.Equal(t, string(code), answers[1].Error.Code)
		require.NotContains(t, answers[1].Error.Message, "secret")
		require.Equal(t, "action_not_found", answers[2].Error.Code)
		require.Nil(t, answers[3].Error)
		require.Equal(t, string(code), last.Error.Code)
		require.Equal(t, form.StreamEnd{Stored: chunkMax - 2, Refused: 2}, *last.End)
	}
}

// filling is a flood of which each read is answered in full.
type filling struct{ flood }

func (f *filling) Read(p []byte) (int, error) { return io.ReadFull(&f.flood, p) }

// What is stored at once is bounded, and so is what a stream reads before that is stored.
func TestAStreamIsStoredInParts(t *testing.T) {
	t.Parallel()
	c := &collector{held: make(chan struct{}), came: make(chan struct{})}
	h := New(Config{Backend: c})
	f := &filling{flood{entry: `{"action_ref":"a"}` + "\n"}}
	ctx, cancel := context.WithCancel(t.Context())
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, streamPath, f)
	r.RemoteAddr, r.Host = "127.0.0.1:4711", "127.0.0.1:7070"
	r.Header.Set("Content-Type", typeLines)
	w := httptest.NewRecorder()
	over := make(chan struct{})
	go func() {
		h.ServeHTTP(w, r)
		close(over)
	}()
	<-c.came
	require.LessOrEqual(t, f.read.Load(), int64(lineBuffer))
	cancel()
	<-over
	require.Equal(t, []int{chunkMax}, c.sizes)
	answers := answersOf(t, w.Body)
	require.Equal(t, string(messages.CodeUnavailable), answers[len(answers)-1].Error.Code)
}

// A stream has so many lines and no more.
func TestAStreamOfTooManyLines(t *testing.T) {
	t.Parallel()
	h := New(Config{Backend: &collector{}})
	body := strings.Repeat("\n", StreamMax-1) + `{"action_ref":"a"}`
	answers, last := streamed(t, h, body)
	require.Len(t, answers, 1)
	require.Equal(t, StreamMax, answers[0].Line)
	require.Nil(t, last.Error)
	_, last = streamed(t, h, body+"\n{}\n")
	require.Equal(t, "invalid_request", last.Error.Code)
	require.Contains(t, last.Error.Message, "up to 1000000 lines")
}

// A long line that never ends holds no more memory than a submission, and its bytes are counted.
func TestALineThatNeverEnds(t *testing.T) {
	t.Parallel()
	b := &bodies{max: 64 << 20}
	hold := &holding{of: b}
	lines := newLineReader(io.LimitReader(&flood{entry: "x"}, 20<<20))
	_, err := lines.next(hold)
	require.ErrorIs(t, err, errLong)
	require.LessOrEqual(t, cap(lines.long), 2*BodyMax)
	require.LessOrEqual(t, b.now, int64(BodyMax+bodyStep))
	_, err = lines.next(hold)
	require.ErrorIs(t, err, io.EOF)
	crowded := &holding{of: &bodies{max: 256 << 10}}
	_, err = newLineReader(strings.NewReader(sized(300<<10) + "\n")).next(crowded)
	var p *messages.Problem
	require.ErrorAs(t, err, &p)
	require.Equal(t, messages.CodeTooManyRequests, p.Code)
}

// The number of parts that are stored at once is bounded. The others wait.
func TestPartsOfStreamsTakeTurns(t *testing.T) {
	t.Parallel()
	c := &collector{held: make(chan struct{}), came: make(chan struct{}, 8)}
	h := New(Config{Backend: c, BatchesMax: 2})
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			w := ask(t, h, "POST", streamPath, `{"action_ref":"a"}`, "Content-Type", typeLines)
			require.Contains(t, w.Body.String(), `"stored":1`)
		})
	}
	<-c.came
	<-c.came
	require.Empty(t, c.came)
	close(c.held)
	all.Wait()
	require.Len(t, c.sizes, 5)
}

// slowBody blocks until its reader's deadline, as a connection does.
type slowBody struct {
	first   io.Reader
	late    chan struct{}
	timeout error
}

func (s *slowBody) Read(p []byte) (int, error) {
	if n, err := s.first.Read(p); err == nil {
		return n, nil
	}
	<-s.late
	return 0, s.timeout
}

// deadlines is a writer whose read deadline ends the reads of a slowBody.
type deadlines struct {
	*httptest.ResponseRecorder
	body *slowBody
	mu   sync.Mutex
	at   *time.Timer
	once sync.Once
}

func (d *deadlines) SetReadDeadline(at time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.at != nil {
		d.at.Stop()
	}
	if !at.IsZero() {
		d.at = time.AfterFunc(time.Until(at), func() { d.once.Do(func() { close(d.body.late) }) })
	}
	return nil
}

func (d *deadlines) SetWriteDeadline(time.Time) error { return nil }

// A line that does not come in time ends the stream, and so does the end of the stream's own time or of the node.
func TestAStreamIsBoundedInTime(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		after time.Duration // when the node stops; 0: never
		took  time.Duration
		code  messages.Code
		says  string
	}{
		"no line comes":  {0, LineTime, messages.CodeInvalidRequest, "within 30s of the one before"},
		"the node stops": {time.Second, time.Second, messages.CodeUnavailable, "the node stops"},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.after > 0 {
				defer time.AfterFunc(c.after, cancel).Stop()
			}
			body := &slowBody{first: strings.NewReader(`{"action_ref":"a"}` + "\n" + `{"action_ref"`), late: make(chan struct{}), timeout: context.DeadlineExceeded}
			w := &deadlines{ResponseRecorder: httptest.NewRecorder(), body: body}
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, streamPath, body)
			r.RemoteAddr, r.Host = "127.0.0.1:4711", "127.0.0.1:7070"
			r.Header.Set("Content-Type", typeLines)
			began := time.Now()
			New(Config{Backend: &collector{}, Logger: hclog.NewNullLogger()}).ServeHTTP(w, r)
			require.Equal(t, c.took, time.Since(began), name)
			answers := answersOf(t, w.Body)
			require.Len(t, answers, 2, name)
			require.Nil(t, answers[0].Error)
			require.Equal(t, string(c.code), answers[1].Error.Code, name)
			require.Contains(t, answers[1].Error.Message, c.says)
			require.Equal(t, form.StreamEnd{Stored: 1}, *answers[1].End)
		})
	}
}

// A caller that may not read sees no execution of another one, whoever has its key.
func TestAStreamHidesForeignKeys(t *testing.T) {
	t.Parallel()
	c := &call{blind: true, caller: "ann"}
	other := &store.Submitted{Existing: true, Execution: messages.Execution{CreatedBy: "bob"}}
	require.ErrorContains(t, c.foreignKey(other, "k"), "another caller's")
	other.Execution.CreatedBy = "ann"
	require.NoError(t, c.foreignKey(other, "k"))
}

// A stream that ends before its body, of which about as much is left as the server reads by itself, leaves a connection that goes on
// or is closed: net/http must not read from it twice at once (golang/go#68560).
func TestAStreamThatEndsEarlyLeavesItsConnectionWhole(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	b.err = errors.New("disk I/O error")
	said := &lockedBuffer{}
	s := httptest.NewUnstartedServer(New(Config{Backend: b}))
	s.Config.ErrorLog = log.New(said, "", 0)
	s.Start()
	defer s.Close()
	line := `{"action_ref":"a","parameters":{"s":"` + strings.Repeat("x", 60<<10) + `"}}` + "\n"
	for more := 0; more <= 512<<10; more += 64 << 10 {
		body := strings.Repeat(line, 2) + strings.Repeat("\n", drainMax+more)
		response, err := s.Client().Post(s.URL+streamPath, typeLines, strings.NewReader(body)) //nolint:noctx // it is bounded by the server
		require.NoError(t, err)
		_, _ = io.Copy(io.Discard, response.Body)
		require.NoError(t, response.Body.Close())
		response, err = s.Client().Get(s.URL + "/healthz") //nolint:noctx // the same
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
	}
	require.Empty(t, said.String())
}

type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

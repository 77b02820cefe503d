package troupe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/api/form"
	"github.com/troupe-run/troupe/messages"
)

// Client submits executions to a node over its HTTP API. It is safe for concurrent use, and repeats nothing by itself.
type Client struct {
	base, token string
	http        *http.Client
}

// ClientConfig says where the node is.
type ClientConfig struct {
	Server string       // address of the node's API, such as "http://127.0.0.1:7070"; required
	Token  string       // empty: none
	HTTP   *http.Client // nil: http.DefaultClient. One of your own is for a certificate authority or a client's certificate.
}

const (
	waitMax   = 60 * time.Second // of one long poll, as the API bounds it
	lookMax   = 5 * time.Second  // for the look when the caller's time is over
	answerMax = 256 << 20        // bytes of an answer

	executionsPath = form.ExecutionsPath
)

// NewClient makes a client, and calls nobody yet.
func NewClient(cfg ClientConfig) (*Client, error) {
	u, err := url.Parse(cfg.Server)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("ClientConfig.Server must be an address such as http://127.0.0.1:7070")
	}
	c := &Client{base: strings.TrimSuffix(u.String(), "/"), token: cfg.Token, http: cfg.HTTP}
	if c.http == nil {
		c.http = http.DefaultClient
	}
	return c, nil
}

// Submit stores one execution. Once it returns without an error the execution will get an outcome. After an error
// that is no *Problem, repeat the call with the same idempotency key.
func (c *Client) Submit(ctx context.Context, s Submission) (Execution, error) {
	r, err := s.Request()
	if err != nil {
		return Execution{}, err
	}
	return c.execution(ctx, http.MethodPost, executionsPath, form.SubmitBody{Request: r})
}

// SubmitAll stores up to 10,000 executions, all or none, and returns them in order, with no more than their ids, statuses and
// actions.
func (c *Client) SubmitAll(ctx context.Context, list []Submission) ([]Execution, error) {
	var batch form.BatchRequest
	for i := range list {
		r, err := list[i].Request()
		if err != nil {
			return nil, err
		}
		batch.Executions = append(batch.Executions, r)
	}
	var stored form.BatchView
	if err := c.call(ctx, http.MethodPost, executionsPath+"/batch", batch, &stored); err != nil {
		return nil, err
	}
	if len(stored.Executions) != len(list) {
		return nil, fmt.Errorf("%d executions were submitted, and the node answered with %d", len(list), len(stored.Executions))
	}
	executions := make([]Execution, len(list))
	for i, item := range stored.Executions {
		executions[i] = Execution{ID: item.ID, Status: item.Status, Action: list[i].Action}
	}
	return executions, nil
}

// Get returns one execution.
func (c *Client) Get(ctx context.Context, id ExecutionID) (Execution, error) {
	return c.execution(ctx, http.MethodGet, pathOf(id, ""), nil)
}

// Wait returns the execution once it has its outcome, or as it stands when ctx ends.
func (c *Client) Wait(ctx context.Context, id ExecutionID) (Execution, error) {
	path := pathOf(id, fmt.Sprintf("/wait?timeout_seconds=%g", waitMax.Seconds()))
	for {
		e, err := c.execution(ctx, http.MethodGet, path, nil)
		if ctx.Err() != nil {
			return c.look(ctx, id)
		}
		if err != nil || e.Status.Terminal() {
			return e, err
		}
	}
}

// Call submits an execution and waits for its outcome, or until ctx ends, which is no error: then the execution is returned
// as it stands. One that is retried leads to the last of its chain. A call to a session has a deadline beside: see Await. It is one request where the outcome comes within a minute. After
// an error the execution that is returned has its ID, if the node has told that it is stored.
func (c *Client) Call(ctx context.Context, s Submission) (Execution, error) {
	r, err := s.Request()
	if err != nil {
		return Execution{}, err
	}
	began, seconds, stored := time.Now(), waitMax.Seconds(), &atomic.Pointer[ExecutionID]{}
	var v form.ExecutionView
	err = c.call(ctx, http.MethodPost, executionsPath, form.SubmitBody{Request: r, WaitSeconds: &seconds}, &v,
		func(id ExecutionID) { stored.Store(&id) })
	if e := v.Execution(); err == nil {
		if !e.Status.Terminal() {
			e, err = awaitMore(ctx, &e, time.Since(began), c.Wait)
		}
		return lastOf(ctx, e, err, c.Wait)
	}
	id := stored.Load()
	if id == nil {
		return Execution{}, err
	}
	var p *Problem
	late := errors.As(err, &p) && p.Code == messages.CodeTimeout
	if !late && ctx.Err() == nil {
		return Execution{ID: *id}, err
	}
	e, lost := c.look(ctx, *id)
	switch {
	case lost != nil:
		return Execution{ID: *id}, err
	case late:
		return e, err
	}
	return e, nil
}

// look reads an execution when the caller's time is over.
func (c *Client) look(ctx context.Context, id ExecutionID) (Execution, error) {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookMax)
	defer cancel()
	return c.Get(limited, id)
}

// Cancel asks an execution to stop and returns it as the wish left it: cancelled, cancelling, or ended before.
func (c *Client) Cancel(ctx context.Context, id ExecutionID) (Execution, error) {
	return c.execution(ctx, http.MethodPost, pathOf(id, "/cancel"), nil)
}

// Retry submits again what has ended without a result, as a new execution of its chain, and returns that. An execution has one
// retry: one that was retried before, by itself or by hand, gives the retry that it has.
func (c *Client) Retry(ctx context.Context, id ExecutionID) (Execution, error) {
	return c.execution(ctx, http.MethodPost, pathOf(id, "/retry"), nil)
}

// RetryAnswer says whether a retry follows the execution: as which, when and for what; or why none does.
func (c *Client) RetryAnswer(ctx context.Context, id ExecutionID) (RetryAnswer, error) {
	var v form.ExecutionView
	err := c.call(ctx, http.MethodGet, pathOf(id, ""), nil, &v)
	if err != nil || v.Retry == nil {
		return RetryAnswer{}, err
	}
	return *v.Retry, nil
}

// Session returns one session of a pool.
func (c *Client) Session(ctx context.Context, pool, name string) (s Session, err error) {
	err = c.call(ctx, http.MethodGet, sessionPath(pool, name), nil, &s)
	return s, err
}

// EndSession ends an idle session: its binding ends, and its worker drops its state. While something of the session is placed or
// runs, the error is a *Problem with the code session_busy.
func (c *Client) EndSession(ctx context.Context, pool, name string) (s Session, err error) {
	err = c.call(ctx, http.MethodDelete, sessionPath(pool, name), nil, &s)
	return s, err
}

func pathOf(id ExecutionID, verb string) string { return executionsPath + "/" + id.String() + verb }

func sessionPath(pool, name string) string {
	return "/api/v1/sessions/" + url.PathEscape(pool) + "/" + url.PathEscape(name)
}

// execution makes a call that is answered with an execution.
func (c *Client) execution(ctx context.Context, method, path string, body any) (Execution, error) {
	var v form.ExecutionView
	err := c.call(ctx, method, path, body, &v)
	return v.Execution(), err
}

// call sends body as JSON, or nothing where it is nil, and reads the answer into v. An answer that is an error is a *Problem. Early,
// where one is given, is told of a submission as soon as it is stored.
func (c *Client) call(ctx context.Context, method, path string, body, v any, early ...func(ExecutionID)) error {
	r, err := c.request(ctx, method, path, body)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	for _, told := range early {
		r = form.WithEarly(r, told)
	}
	response, err := c.http.Do(r)
	if err != nil {
		return err // it names the method and the address
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, answerMax))
	switch {
	case err != nil:
		return fmt.Errorf("%s %s: the answer broke off: %w", method, path, err)
	case response.StatusCode >= http.StatusBadRequest:
		return problemOf(response, answer)
	}
	if err := json.Unmarshal(answer, v); err != nil {
		return fmt.Errorf("%s %s: the answer is not what a node sends: %w", method, path, err)
	}
	return nil
}

func (c *Client) request(ctx context.Context, method, path string, body any) (*http.Request, error) {
	var data []byte
	if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	return r, nil
}

// problemOf is the problem that an answer tells.
func problemOf(response *http.Response, answer []byte) error {
	var body struct {
		Error struct {
			Code    messages.Code   `json:"code"`
			Message string          `json:"message"`
			Details json.RawMessage `json:"details"`
		} `json:"error"`
	}
	if json.Unmarshal(answer, &body) != nil || body.Error.Code == "" {
		return fmt.Errorf("%s %s: the answer is %s, and none of a node", response.Request.Method, response.Request.URL.Path, response.Status)
	}
	p := &Problem{Code: body.Error.Code, Message: body.Error.Message}
	if len(body.Error.Details) > 0 {
		p.Details = body.Error.Details
	}
	return p
}

package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/api/form"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/rules/submit"
)

const executions = "/api/v1/executions"

// Submit stores one execution, and where wait is above 0 waits so long for its end, api.WaitMax at most.
func (c *Client) Submit(ctx context.Context, r submit.Request, wait time.Duration) (v form.ExecutionView, err error) {
	body := form.SubmitBody{Request: r}
	if wait > 0 {
		seconds := min(wait, api.WaitMax).Seconds()
		body.WaitSeconds = &seconds
	}
	err = c.Post(ctx, executions, body, &v)
	return v, err
}

// SubmitAwaited stores one execution and waits so long for its end, api.WaitMax at most. Stored is told its id as soon as the node
// tells it, which an older node does at the end.
func (c *Client) SubmitAwaited(ctx context.Context, r submit.Request, wait time.Duration, stored func(messages.ExecutionID)) (v form.ExecutionView, err error) {
	seconds := min(wait, api.WaitMax).Seconds()
	err = c.Post(context.WithValue(ctx, storedKey{}, stored), executions, form.SubmitBody{Request: r, WaitSeconds: &seconds}, &v)
	return v, err
}

// storedKey is where the context of a submission has who is told that it is stored.
type storedKey struct{}

// SubmitBatch stores up to messages.BatchMax executions, all or none.
func (c *Client) SubmitBatch(ctx context.Context, requests []submit.Request) (v form.BatchView, err error) {
	err = c.Post(ctx, executions+"/batch", form.BatchRequest{Executions: requests}, &v)
	return v, err
}

// Streams reports whether the node takes streams of submissions. One of an older release does not.
func (c *Client) Streams(ctx context.Context) (bool, error) {
	response, err := c.send(ctx, http.MethodOptions, streamPath, nil, typeJSON)
	if err != nil {
		return false, err
	}
	defer response.Body.Close()
	return strings.Contains(response.Header.Get("Allow"), http.MethodPost), nil
}

const streamPath = executions + "/stream"

// answerLineMax bounds a line of an answer, in bytes.
const answerLineMax = 1 << 20

// SubmitStream submits each line of a body and calls each for every answer, in order, while the body is sent. It closes lines.
// An error of each ends the stream.
func (c *Client) SubmitStream(ctx context.Context, lines io.ReadCloser, each func(*form.StreamAnswer) error) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+streamPath, lines)
	if err != nil {
		return err
	}
	r.Header.Set("Accept", typeLines)
	r.Header.Set("Content-Type", typeLines)
	response, err := c.ask(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		data, _ := io.ReadAll(io.LimitReader(response.Body, answerLineMax))
		return errorOf(response.StatusCode, data)
	}
	answers := bufio.NewScanner(response.Body)
	answers.Buffer(make([]byte, 64<<10), answerLineMax)
	for answers.Scan() {
		var a form.StreamAnswer
		if err := json.Unmarshal(answers.Bytes(), &a); err != nil {
			return fmt.Errorf("an answer of the stream is not JSON: %w", err)
		}
		switch {
		case a.End == nil:
			err = each(&a)
		case a.Error != nil:
			return &Error{Status: http.StatusOK, Code: a.Error.Code, Message: a.Error.Message}
		default:
			return nil
		}
		if err != nil {
			return err
		}
	}
	return fmt.Errorf("the stream's answer broke off: %w", errors.Join(answers.Err(), ctx.Err(), io.ErrUnexpectedEOF))
}

// Execution returns one execution whole.
func (c *Client) Execution(ctx context.Context, id string) (v form.ExecutionView, err error) {
	err = c.Get(ctx, onePath(id, ""), &v)
	return v, err
}

func onePath(id, verb string) string { return executions + "/" + url.PathEscape(id) + verb }

// Executions returns one page. The query is that of the API.
func (c *Client) Executions(ctx context.Context, query url.Values) (v api.ExecutionList, err error) {
	err = c.Get(ctx, withQuery(executions, query), &v)
	return v, err
}

func withQuery(path string, query url.Values) string {
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}

// Wait returns the execution once it has ended, however many long polls that takes, or the end of ctx as an error.
func (c *Client) Wait(ctx context.Context, id string) (v form.ExecutionView, err error) {
	for {
		if err = c.Get(ctx, onePath(id, "/wait?timeout_seconds=60"), &v); err != nil || v.Status.Terminal() {
			return v, err
		}
	}
}

// WaitFor asks once and returns the execution as it stands after limit at the latest.
func (c *Client) WaitFor(ctx context.Context, id string, limit time.Duration) (v form.ExecutionView, err error) {
	seconds := strconv.FormatFloat(min(limit, api.WaitMax).Seconds(), 'f', -1, 64)
	err = c.Get(ctx, onePath(id, "/wait?timeout_seconds="+seconds), &v)
	return v, err
}

// Cancel asks for the execution's end and returns it as that left it. The reason is for the journal, and may be empty.
func (c *Client) Cancel(ctx context.Context, id, reason string) (v form.ExecutionView, err error) {
	var body any
	if reason != "" {
		body = api.ReasonBody{Reason: reason}
	}
	err = c.Post(ctx, onePath(id, "/cancel"), body, &v)
	return v, err
}

// Retry submits an ended execution again, as a new one of its chain. One that has a retry already is not submitted again: the
// answer is that retry, with Existing set. The key is the new execution's, the reason is for the journal, and both may be empty.
func (c *Client) Retry(ctx context.Context, id, key, reason string) (v form.ExecutionView, err error) {
	var body any
	if key != "" || reason != "" {
		body = form.RetryBody{IdempotencyKey: key, Reason: reason}
	}
	err = c.Post(ctx, onePath(id, "/retry"), body, &v)
	return v, err
}

// Output returns what the execution's process has written so far.
func (c *Client) Output(ctx context.Context, id string) (v api.OutputView, err error) {
	err = c.Get(ctx, onePath(id, "/output"), &v)
	return v, err
}

// Follow calls each for every live happening of the execution, until it has ended. A stream that breaks off is
// io.ErrUnexpectedEOF.
func (c *Client) Follow(ctx context.Context, id string, each func(view.Live) error) error {
	response, err := c.send(ctx, http.MethodGet, onePath(id, "/output?follow=1"), nil, typeLines)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		data, _ := io.ReadAll(io.LimitReader(response.Body, 1<<20))
		return errorOf(response.StatusCode, data)
	}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(make([]byte, 64<<10), 2*messages.FrameMax)
	for lines.Scan() {
		if len(lines.Bytes()) == 0 {
			continue
		}
		if err := happening(lines.Bytes(), each); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("follow execution %s: %w", id, errors.Join(err, ctx.Err()))
	}
	return nil
}

func happening(line []byte, each func(view.Live) error) error {
	var l struct {
		view.Live
		Error *form.ErrorView `json:"error"`
	}
	if err := json.Unmarshal(line, &l); err != nil {
		return fmt.Errorf("a live entry is not JSON: %w", err)
	}
	if l.Error != nil {
		return &Error{Status: http.StatusOK, Code: l.Error.Code, Message: l.Error.Message}
	}
	return each(l.Live)
}

// Package client speaks the HTTP API of a node from Go. It shares the view types of api, turns error
// answers into *Error, and says what to do when no node answers. It never prints and never retries: its callers, the
// verbs of cmd/troupe, decide about both.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/api/form"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/secret"
)

// answerMax bounds an answer, in bytes: a page of 1000 executions or a result of 8 MiB fit well.
const answerMax = 256 << 20

// Client calls one node.
type Client struct {
	base  string
	token string
	http  *http.Client
	ahead atomic.Int64 // nanoseconds that the node's time is ahead of this machine's
	told  atomic.Bool  // an answer has told the time
}

// Error is an answer that is an error, with the HTTP status it came with.
type Error struct {
	Status  int
	Code    string
	Message string
	Details json.RawMessage
}

func (e *Error) Error() string { return e.Message + " (" + e.Code + ")" }

// ErrUnreachable is the cause of every error that no node answered to.
var ErrUnreachable = errors.New("no node answers")

// New makes a client of the node at server: an http:// or https:// address, or host:port alone. token may be empty.
func New(server, token string) (*Client, error) {
	if !strings.Contains(server, "://") {
		server = "http://" + server
	}
	u, err := url.Parse(server)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, fmt.Errorf("server %s must be an address such as http://127.0.0.1:7070; set --server or TROUPE_SERVER", strconv.Quote(secret.Address(server)))
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = (&net.Dialer{Timeout: 5 * time.Second}).DialContext
	transport.MaxIdleConnsPerHost = 64
	transport.ResponseHeaderTimeout = api.WaitMax + 30*time.Second
	return &Client{base: strings.TrimSuffix(u.String(), "/"), token: token, http: &http.Client{Transport: transport}}, nil
}

// Server is the address of the node as people may see it, without a password.
func (c *Client) Server() string { return secret.Address(c.base) }

// Patient is the client for calls that take as long as they take: ctx alone bounds the wait for an answer.
func (c *Client) Patient() *Client {
	transport := c.http.Transport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout = 0
	transport.DisableKeepAlives = true // nothing is left to close
	return &Client{base: c.base, token: c.token, http: &http.Client{Transport: transport}}
}

// Close lets go of idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Get asks for path, which holds its query, and decodes the answer into v.
func (c *Client) Get(ctx context.Context, path string, v any) error {
	return c.do(ctx, http.MethodGet, path, nil, v)
}

// Post sends body as JSON, or nothing where it is nil, and decodes the answer into v.
func (c *Client) Post(ctx context.Context, path string, body, v any) error {
	return c.sendJSON(ctx, http.MethodPost, path, body, v)
}

// Delete asks for a thing's end, with body as Post has it, and decodes the answer into v.
func (c *Client) Delete(ctx context.Context, path string, body, v any) error {
	return c.sendJSON(ctx, http.MethodDelete, path, body, v)
}

func (c *Client) sendJSON(ctx context.Context, method, path string, body, v any) error {
	var data []byte
	if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return fmt.Errorf("encode the request: %w", err)
		}
	}
	return c.do(ctx, method, path, data, v)
}

func (c *Client) do(ctx context.Context, method, path string, body []byte, v any) error {
	response, err := c.send(ctx, method, path, body, typeJSON)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, answerMax))
	if err != nil {
		return fmt.Errorf("%s %s: the answer broke off: %w", method, path, err)
	}
	// /readyz says by its status what its body says too.
	if response.StatusCode >= http.StatusBadRequest && !(path == "/readyz" && response.StatusCode == http.StatusServiceUnavailable) {
		return errorOf(response.StatusCode, data)
	}
	if v == nil {
		return nil
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("%s %s: the answer is not what a Troupe node sends (%w); is %s one?", method, path, err, c.Server())
	}
	return nil
}

func (c *Client) send(ctx context.Context, method, path string, body []byte, accept string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	r.Header.Set("Accept", accept)
	if len(body) > 0 {
		r.Header.Set("Content-Type", typeJSON)
	}
	return c.ask(r)
}

// Media types of bodies.
const (
	typeJSON  = "application/json"
	typeLines = "application/x-ndjson"
)

// ask sends a request with the client's token.
func (c *Client) ask(r *http.Request) (*http.Response, error) {
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	if stored, ok := r.Context().Value(storedKey{}).(func(messages.ExecutionID)); ok {
		r = form.WithEarly(r, stored)
	}
	sent := time.Now()
	response, err := c.http.Do(r)
	if err != nil {
		return nil, c.unreachable(r.Context(), err)
	}
	c.hear(response.Header, sent, time.Now())
	return response, nil
}

// unreachable says what to do when no node answered. A caller who gave up is told of that instead.
func (c *Client) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var inner *url.Error
	if errors.As(err, &inner) {
		err = inner.Err
	}
	if told := distrusted(c.Server(), err); told != nil {
		return told
	}
	return fmt.Errorf("%w at %s: start one with `troupe node`, or set --server or TROUPE_SERVER (%w)", ErrUnreachable, c.Server(), err)
}

func errorOf(status int, data []byte) error {
	var body struct {
		Error struct {
			Code    string          `json:"code"`
			Message string          `json:"message"`
			Details json.RawMessage `json:"details"`
		} `json:"error"`
	}
	if status == http.StatusBadRequest && bytes.HasPrefix(data, []byte("Client sent an HTTP request to an HTTPS server")) {
		return &Error{Status: status, Code: "tls_wanted", Message: "the node is served over TLS: give its address as https://…"}
	}
	if json.Unmarshal(data, &body) != nil || body.Error.Code == "" {
		return &Error{Status: status, Code: "http_" + fmt.Sprint(status), Message: "the server answered " + http.StatusText(status) + "; is it a Troupe node?"}
	}
	e := &Error{Status: status, Code: body.Error.Code, Message: body.Error.Message, Details: body.Error.Details}
	if status == http.StatusUnauthorized {
		e.Message += "; set TROUPE_TOKEN"
	}
	return e
}

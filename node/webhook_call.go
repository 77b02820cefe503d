package node

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/webhook"
	"github.com/troupe-run/troupe/store"
)

// Bounds of one call.
const (
	webhookTime   = 10 * time.Second // the whole
	webhookDial   = 5 * time.Second  // a connection, and TLS on it
	webhookIdle   = 30 * time.Second // an unused connection is kept
	webhookBody   = 64 << 10         // bytes that are read of an answer's body, so that the connection can be used again
	webhookHeader = 64 << 10         // bytes of an answer's header
)

// webhookCaller makes the calls of webhooks. It follows no redirects and uses no proxy, and asks the policy at each connection.
type webhookCaller struct {
	policy     webhook.Policy
	key        func(name string) ([]byte, error)
	agent      string
	logger     hclog.Logger
	safe, open *http.Client // by https, by http
}

func newWebhookCaller(policy webhook.Policy, key func(string) ([]byte, error), version string, logger hclog.Logger) *webhookCaller {
	w := &webhookCaller{policy: policy, key: key, agent: "Troupe/" + version, logger: logger}
	w.safe, w.open = w.client(false), w.client(true)
	return w
}

func (w *webhookCaller) client(plain bool) *http.Client {
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				return w.dial(ctx, network, address, plain)
			},
			TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout: webhookDial, IdleConnTimeout: webhookIdle, MaxIdleConns: webhook.CallsMax,
			MaxIdleConnsPerHost: webhook.DestinationMax, MaxResponseHeaderBytes: webhookHeader, ForceAttemptHTTP2: true,
		},
	}
}

// forbidden is why a connection was not made.
type forbidden struct{ error }

// dial connects to a host, if the policy allows the address that the host's name leads to now.
func (w *webhookCaller) dial(ctx context.Context, network, address string, plain bool) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return nil, err
	}
	target := webhook.Target{Host: webhook.HostOf(host), Port: number, Plain: plain}
	dialer := net.Dialer{Timeout: webhookDial, ControlContext: func(_ context.Context, _, leads string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(leads)
		if err != nil {
			return forbidden{err}
		}
		if err := w.policy.Dial(target, at.Addr()); err != nil {
			return forbidden{err}
		}
		return nil
	}}
	return dialer.DialContext(ctx, network, address)
}

// call makes one try.
func (w *webhookCaller) call(ctx context.Context, c *store.WebhookCall) webhook.Answer {
	ctx, cancel := context.WithTimeout(ctx, webhookTime)
	defer cancel()
	request, err := w.request(ctx, c)
	if err != nil {
		return webhook.Answer{Failure: err.Error()}
	}
	client := w.safe
	if request.URL.Scheme == "http" {
		client = w.open
	}
	response, err := client.Do(request)
	if err != nil {
		w.logger.Debug("webhook got no answer", append(c.Of.LogFields(), "error", withoutURL(err))...)
		return webhook.Answer{Failure: webhook.NoAnswer + ": " + failureOf(err)}
	}
	defer response.Body.Close()                                            // its status is what counts
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, webhookBody)) // so that the connection can be used again
	return webhook.Answer{Code: response.StatusCode, RetryAfter: response.Header.Get("Retry-After")}
}

// request makes the call with its signature. What is sent is checked again: the settings may have changed since the submission.
func (w *webhookCaller) request(ctx context.Context, c *store.WebhookCall) (*http.Request, error) {
	target, err := webhook.Parse(c.URL)
	if err == nil {
		err = w.policy.Check(target)
	}
	if err != nil {
		return nil, err
	}
	notice := messages.NoticeOf(&c.Of)
	notice.Truncated = notice.Truncated || c.Truncated
	body, err := notice.Encode()
	if err != nil {
		return nil, fmt.Errorf("the outcome cannot be encoded: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL, bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("the address cannot be called")
	}
	now, id := time.Now(), c.Execution.String()
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", w.agent)
	r.Header.Set(webhook.HeaderID, id)
	r.Header.Set(webhook.HeaderTimestamp, webhook.Timestamp(now))
	if notice.Trace != "" {
		r.Header.Set("traceparent", notice.Trace)
	}
	if notice.State != "" {
		r.Header.Set("tracestate", notice.State)
	}
	if c.Secret != "" {
		key, err := w.key(c.Secret)
		if err != nil {
			return nil, fmt.Errorf("not signed, so not sent: %w", err)
		}
		r.Header.Set(webhook.HeaderSignature, webhook.Sign(key, id, now, body))
	}
	return r, nil
}

// withoutURL is an error of a client without the address, which may hold a token.
func withoutURL(err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}

// failureOf says why there was no answer, without addresses. Those who only submit are not shown it.
func failureOf(err error) string {
	var refused forbidden
	var name *net.DNSError
	var unknown x509.UnknownAuthorityError
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(err, &refused):
		return refused.Error()
	case errors.As(err, &name):
		return "the host's name cannot be looked up"
	case errors.As(err, &unknown):
		return "the certificate is of an authority that this node does not know"
	case errors.As(err, &certificate):
		return "the certificate is not valid for the host"
	case errors.Is(err, context.DeadlineExceeded):
		return "none came within " + webhookTime.String()
	case errors.Is(err, syscall.ECONNREFUSED):
		return "the connection was refused"
	case errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection broke off without an answer"
	}
	return "the connection failed"
}

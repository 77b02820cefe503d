package api

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/test/servers"
)

// secured is an API over TLS at a free port, with its files.
type secured struct {
	t       *testing.T
	ca      *servers.Authority
	files   TLSFiles
	certs   *Certificates
	access  *Access
	address string
	now     atomic.Int64 // of the watch, in Unix nanoseconds
	ahead   atomic.Int64 // of the guard's clock, in nanoseconds
	log     *guardedLog
}

func serveTLS(t *testing.T, clients *servers.Authority, tokens []Token) *secured {
	folder := t.TempDir()
	s := &secured{t: t, ca: servers.NewAuthority(t, "servers"), log: &guardedLog{}}
	s.files = TLSFiles{CertFile: filepath.Join(folder, "cert"), KeyFile: filepath.Join(folder, "key")}
	s.write(s.ca.Sign("node", nil))
	if clients != nil {
		s.files.ClientCAFile = filepath.Join(folder, "ca")
		require.NoError(t, os.WriteFile(s.files.ClientCAFile, clients.PEM(), 0o600))
	}
	s.access = withTokens(t, tokens)
	s.access.now = func() time.Time { return time.Now().Add(time.Duration(s.ahead.Load())) }
	logger := hclog.New(&hclog.LoggerOptions{Output: s.log})
	var err error
	s.certs, err = NewCertificates(s.files, logger)
	require.NoError(t, err)
	s.now.Store(time.Now().UnixNano())
	s.certs.now = func() time.Time { return time.Unix(0, s.now.Load()) }
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.address = listener.Addr().String()
	server := NewServer(context.Background(), New(Config{Backend: newBackend(t), Access: s.access}), logger)
	bound := tls.NewListener(Bound(server, listener, Connections{Max: 100, PeerMax: 50}, logger), s.certs.Config())
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(bound) }()
	t.Cleanup(func() { require.NoError(t, server.Close()); <-done })
	return s
}

func (s *secured) write(cert, key []byte) {
	require.NoError(s.t, os.WriteFile(s.files.CertFile, cert, 0o600))
	require.NoError(s.t, os.WriteFile(s.files.KeyFile, key, 0o600))
}

// client trusts the server's authority and shows a certificate, if it has one.
func (s *secured) client(cert *tls.Certificate) *http.Client {
	config := &tls.Config{RootCAs: s.ca.Roots()}
	if cert != nil {
		config.Certificates = []tls.Certificate{*cert}
	}
	transport := &http.Transport{TLSClientConfig: config}
	s.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 20 * time.Second}
}

// call returns the status, the answer, and the serial number of the server's certificate.
func (s *secured) call(c *http.Client, method, path string, headers ...string) (int, string, int64) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, "https://"+s.address+path, http.NoBody)
	require.NoError(s.t, err)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := c.Do(r)
	require.NoError(s.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(s.t, err)
	return response.StatusCode, string(text), response.TLS.PeerCertificates[0].SerialNumber.Int64()
}

// Files that have changed are served by the next handshake; open connections go on, and bad files change nothing.
func TestCertificatesAreReadAgain(t *testing.T) {
	t.Parallel()
	s := serveTLS(t, nil, []Token{{Name: "viewer", Secret: readToken, Scopes: []Scope{ScopeRead}}})
	old := s.client(nil)
	code, _, first := s.call(old, "GET", "/api/v1/pools", "Authorization", "Bearer "+readToken)
	require.Equal(t, http.StatusOK, code)
	cert, key := s.ca.Sign("node", nil)
	s.write(cert, []byte("no key"))
	s.now.Add(int64(2 * time.Second))
	_, _, serial := s.call(s.client(nil), "GET", "/healthz")
	require.Equal(t, first, serial, "bad files leave the certificate as it is")
	require.Contains(t, s.log.String(), "certificates not read again; those of before hold")
	require.ErrorContains(t, s.certs.Reload(), s.files.KeyFile)
	require.NotEmpty(t, s.certs.failed, "they are tried again though they do not change: what was wrong may be a mode")
	s.write(cert, key)
	s.now.Add(int64(2 * time.Second))
	_, _, serial = s.call(s.client(nil), "GET", "/healthz")
	require.NotEqual(t, first, serial)
	code, _, serial = s.call(old, "GET", "/api/v1/pools", "Authorization", "Bearer "+readToken)
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, first, serial, "the open connection goes on")
	for _, file := range []string{s.files.CertFile, s.files.KeyFile} {
		require.NoError(t, os.Remove(file))
	}
	_, err := NewCertificates(s.files, hclog.NewNullLogger())
	require.ErrorContains(t, err, s.files.CertFile)
}

// A client's certificate stands for the entry that names it, with its scopes and no others.
func TestClientCertificatesHaveScopes(t *testing.T) {
	t.Parallel()
	clients := servers.NewAuthority(t, "clients")
	s := serveTLS(t, clients, []Token{
		{Name: "viewer", Certificate: "cn:viewer", Scopes: []Scope{ScopeRead}},
		{Name: "sender", Certificate: "dns:ci.example", Scopes: []Scope{ScopeSubmit}},
		{Name: "boss", Certificate: "uri:spiffe://example/boss", Scopes: []Scope{ScopeAdmin}},
		{Name: "token", Secret: readToken, Scopes: []Scope{ScopeRead}},
	})
	named := func(name string) *tls.Certificate {
		return clients.Pair(name, nil)
	}
	boss := clients.Pair("", func(c *x509.Certificate) { c.URIs = []*url.URL{{Scheme: "spiffe", Host: "example", Path: "/boss"}} })
	sender := clients.Pair("", func(c *x509.Certificate) { c.DNSNames = []string{"ci.example"} })
	const kill = "/api/v1/workers/x/go/7/kill"
	for what, c := range map[string]struct {
		cert         *tls.Certificate
		method, path string
		headers      []string
		status       int
		says         string
	}{
		"reads":               {named("viewer"), "GET", "/api/v1/pools", nil, 200, ""},
		"may not kill":        {named("viewer"), "POST", kill, nil, 403, `token \"viewer\" lacks the scope \"admin\"`},
		"may not read":        {sender, "GET", "/api/v1/pools", nil, 403, `token \"sender\" lacks the scope \"read\"`},
		"kills":               {boss, "POST", kill, nil, 404, "worker"},
		"is not named":        {named("ci.example"), "GET", "/api/v1/pools", nil, 401, "no entry of tokens names it; it has cn:ci.example"},
		"shows nothing":       {nil, "GET", "/api/v1/pools", nil, 401, "wants a token"},
		"shows a token":       {nil, "GET", "/api/v1/pools", []string{"Authorization", "Bearer " + readToken}, 200, ""},
		"its token counts":    {boss, "POST", kill, []string{"Authorization", "Bearer " + readToken}, 403, `token \"token\"`},
		"its bad token too":   {boss, "GET", "/api/v1/pools", []string{"Authorization", "Bearer wrong"}, 401, "not known here"},
		"a page of elsewhere": {boss, "POST", kill, []string{"Origin", "https://evil.example"}, 403, "another origin"},
		"its read":            {boss, "GET", "/api/v1/workers", []string{"Origin", "https://evil.example"}, 403, "another origin"},
		"its image":           {boss, "GET", "/api/v1/workers", []string{"Sec-Fetch-Site", "same-site"}, 403, "another origin"},
	} {
		code, text, _ := s.call(s.client(c.cert), c.method, c.path, c.headers...)
		require.Equal(t, c.status, code, "%s: %s", what, text)
		require.Contains(t, text, c.says, what)
	}
	open := s.client(named("viewer"))
	code, _, _ := s.call(open, "GET", "/api/v1/pools")
	require.Equal(t, http.StatusOK, code)
	s.ahead.Store(int64(2 * servers.CertTime))
	code, text, _ := s.call(open, "GET", "/api/v1/pools")
	require.Equal(t, http.StatusUnauthorized, code, "a connection outlives no certificate")
	require.Contains(t, text, "certificate has ended")
}

// The attacks: a certificate whose time is over, one of another authority, one that is not for clients; old TLS, and none at all.
func TestBadHandshakesAreRefused(t *testing.T) {
	t.Parallel()
	clients := servers.NewAuthority(t, "clients")
	s := serveTLS(t, clients, []Token{{Name: "viewer", Certificate: "cn:viewer", Scopes: []Scope{ScopeRead}}})
	for what, cert := range map[string]*tls.Certificate{
		"expired": clients.Pair("viewer", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }),
		"unknown": servers.NewAuthority(t, "others").Pair("viewer", nil),
		"server":  clients.Pair("viewer", func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }),
	} {
		conn, err := tls.Dial("tcp", s.address, &tls.Config{InsecureSkipVerify: true, //nolint:gosec // the client's certificate is what is tried
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return cert, nil }})
		if err == nil { // with TLS 1.3 the refusal is read
			require.NoError(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
			_, err = conn.Read(make([]byte, 1))
			conn.Close()
		}
		require.ErrorContains(t, err, "remote error: tls: ", what)
	}
	_, err := tls.Dial("tcp", s.address, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}) //nolint:gosec // refused
	require.ErrorContains(t, err, "protocol version")
	plain := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 20 * time.Second}
	response, err := plain.Get("http://" + s.address + "/healthz")
	require.NoError(t, err)
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusBadRequest, response.StatusCode)
	require.Contains(t, string(text), "Client sent an HTTP request to an HTTPS server")
	require.Equal(t, 1, strings.Count(s.log.String(), "connection failed"), "strangers do not fill the log: %s", s.log.String())
}

// guardedLog is a log that several goroutines write.
type guardedLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *guardedLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *guardedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

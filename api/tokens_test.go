package api

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
)

func TestTokensAreChecked(t *testing.T) {
	t.Parallel()
	read := []Scope{ScopeRead}
	good := Token{Name: "a", Secret: readToken, Scopes: read}
	for want, tokens := range map[string][]Token{
		"":                             {good, {Name: "b", Secret: HashToken(NewToken()), Scopes: Scopes()}},
		"needs a name":                 {{Secret: readToken, Scopes: read}},
		"no colon":                     {{Name: "sql:a", Secret: readToken, Scopes: read}},
		"no control characters":        {{Name: "a\x1b[2J", Secret: readToken, Scopes: read}},
		"may have 128 bytes":           {{Name: strings.Repeat("n", 129), Secret: readToken, Scopes: read}},
		`"local" is kept for`:          {{Name: "local", Secret: readToken, Scopes: read}},
		`"sql" is kept for`:            {{Name: "sql", Secret: readToken, Scopes: read}},
		`"amqp" is kept for`:           {{Name: "amqp", Secret: readToken, Scopes: read}},
		"another has this one":         {good, {Name: "a", Secret: adminToken, Scopes: read}},
		"another entry's already":      {good, {Name: "b", Secret: HashToken(readToken), Scopes: read}},
		"has no scopes":                {{Name: "a", Secret: readToken}},
		`unknown scope "root"`:         {{Name: "a", Secret: readToken, Scopes: []Scope{"root"}}},
		"at least 16 characters":       {{Name: "a", Secret: "short", Scopes: read}},
		"64 hexadecimal digits":        {{Name: "a", Secret: "sha256:abc", Scopes: read}},
		"there may be 1000 tokens":     make([]Token, 1001),
		`entry 2 (b): unknown scope "`: {good, {Name: "b", Secret: adminToken, Scopes: []Scope{"x"}}},
	} {
		problems := strings.Join(CheckTokens(tokens), "\n")
		require.Contains(t, problems, want)
		require.Equal(t, want == "", problems == "", problems)
		require.NotContains(t, problems, readToken)
	}
	require.NotEqual(t, NewToken(), NewToken())
	require.Len(t, NewToken(), len("troupe_")+43)
}

// A token that is stored hashed opens the door; what is stored does not, and neither does one whose time is over.
func TestHashedTokensAndTheirEnd(t *testing.T) {
	t.Parallel()
	ends := time.Date(2030, 1, 31, 0, 0, 0, 0, time.UTC)
	secret := NewToken()
	access := withTokens(t, []Token{{Name: "ci", Secret: HashToken(secret), Scopes: []Scope{ScopeRead}, Expires: ends}})
	now := ends.Add(-time.Nanosecond)
	access.now = func() time.Time { return now }
	h := New(Config{Backend: newBackend(t), Access: access})
	call := func(token string) (int, string) {
		w := ask(t, h, "GET", "/api/v1/pools", "", "Authorization", "Bearer "+token)
		return w.Code, w.Body.String()
	}
	code, _ := call(secret)
	require.Equal(t, http.StatusOK, code)
	for _, stored := range []string{HashToken(secret), strings.TrimPrefix(HashToken(secret), hashPrefix)} {
		code, text := call(stored)
		require.Equal(t, http.StatusUnauthorized, code)
		require.Contains(t, text, "not known here")
	}
	now = ends
	code, text := call(secret)
	require.Equal(t, http.StatusUnauthorized, code)
	require.Contains(t, text, `token \"ci\" has ended at 2030-01-31T00:00:00Z`)
}

// A reload that failed is repeated, whether the file has changed since or not.
func TestATokensFileIsTriedAgainAfterAFailedReload(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(path, []byte("x"), 0o600))
	now, fails := time.Unix(1_900_000_000, 0), error(nil)
	secret := readToken
	file := TokensFile{Path: path, Read: func() ([]Token, error) {
		return []Token{{Name: "one", Secret: secret, Scopes: []Scope{ScopeRead}}}, fails
	}}
	a, err := NewAccess(nil, file, TLSFiles{}, nil)
	require.NoError(t, err)
	a.now = func() time.Time { return now }
	fails, secret = errors.New("every user may write to it"), submitToken
	require.ErrorIs(t, a.Reload(), fails)
	require.NotNil(t, a.find(readToken), "the tokens of before hold")
	fails = nil // as after a chmod, which changes neither the time nor the size
	now = now.Add(time.Hour)
	require.NotNil(t, a.find(submitToken))
	require.Nil(t, a.find(readToken))
}

// A token that was taken out does not pass while another caller reads the file; only where that takes for ever the tokens of before hold.
func TestNobodyPassesBesideWhoReadsTheTokens(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(path, []byte("x"), 0o600))
	secret, entered, release := submitToken, make(chan struct{}), make(chan struct{})
	file := TokensFile{Path: path, Read: func() ([]Token, error) {
		if secret == readToken {
			entered <- struct{}{}
			<-release
		}
		return []Token{{Name: "one", Secret: secret, Scopes: []Scope{ScopeRead}}}, nil
	}}
	a, err := NewAccess(nil, file, TLSFiles{}, nil)
	require.NoError(t, err)
	now := time.Now().Add(time.Hour)
	a.now, a.turns.wait = func() time.Time { return now }, time.Hour
	secret = readToken // submitToken is revoked
	require.NoError(t, os.WriteFile(path, []byte("xx"), 0o600))
	const callers = 8
	passed := make(chan bool, callers)
	call := func() { passed <- a.find(submitToken) != nil }
	go call()
	<-entered
	for range callers - 1 {
		go call()
	}
	select {
	case pass := <-passed:
		require.False(t, pass, "it was revoked an hour ago")
		passed <- pass
	case <-time.After(50 * time.Millisecond): // for an answer that comes too early
	}
	close(release)
	for range callers {
		require.False(t, <-passed)
	}

	// A file system that hangs: nobody waits for longer than a bound.
	hang := make(chan struct{})
	release = hang
	now, a.turns.wait = now.Add(time.Hour), time.Millisecond
	require.NoError(t, os.WriteFile(path, []byte("xxx"), 0o600))
	go call()
	<-entered
	require.NotNil(t, a.find(readToken))
	close(hang)
	require.False(t, <-passed)
}

// The file is read again when it has changed. One that cannot be taken leaves the tokens as they are, and never opens the node.
func TestTokensFileIsReadAgain(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tokens")
	write := func(text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o600)) }
	reads, now := 0, time.Unix(1_900_000_000, 0)
	file := TokensFile{Path: path, Read: func() ([]Token, error) {
		reads++
		raw, err := os.ReadFile(path)
		if err != nil || string(raw) == "bad" {
			return nil, errors.Join(errors.New("cannot be read"), err)
		}
		var tokens []Token
		for _, secret := range strings.Fields(string(raw)) {
			tokens = append(tokens, Token{Name: secret[:4], Secret: secret, Scopes: []Scope{ScopeRead}})
		}
		return tokens, nil
	}}
	write("bad")
	_, err := NewAccess(nil, file, TLSFiles{}, nil)
	require.ErrorContains(t, err, "cannot be read")
	write("")
	_, err = NewAccess(nil, file, TLSFiles{}, nil)
	require.ErrorContains(t, err, "holds no tokens")
	write(readToken)
	var log strings.Builder
	a, err := NewAccess([]Token{{Name: "boss", Secret: adminToken, Scopes: []Scope{ScopeAdmin}}}, file, TLSFiles{}, hclog.New(&hclog.LoggerOptions{Output: &log}))
	require.NoError(t, err)
	a.now = func() time.Time { return now }
	a.watch.next = now
	known := func(secret string, want bool) {
		t.Helper()
		require.Equal(t, want, a.find(secret) != nil, secret)
		require.True(t, a.find(adminToken) != nil && a.restricted())
	}
	known(readToken, true)
	write(submitToken + " " + stageToken)
	known(submitToken, false) // a second has not passed
	now = now.Add(watchEvery)
	known(submitToken, true)
	known(readToken, false)
	for _, bad := range []string{"bad", "", readToken + " short"} {
		write(bad)
		now = now.Add(watchEvery)
		known(submitToken, true)
		require.Error(t, a.Reload())
	}
	require.NoError(t, os.Remove(path))
	now = now.Add(watchEvery)
	known(submitToken, true)
	before := reads
	known(submitToken, true)
	require.Equal(t, before, reads, "within a second it is not read again")
	write(readToken)
	require.NoError(t, a.Reload())
	known(readToken, true)
	known(submitToken, false)
	require.Contains(t, log.String(), "those of before hold")
	require.NotContains(t, log.String(), readToken)
}

// Nobody could come by an entry with a certificate where no client is asked for one: it is refused, also when the file is read again.
func TestCertificatesNeedTheirAuthorities(t *testing.T) {
	t.Parallel()
	in := []Token{{Name: "ci", Certificate: "dns:ci.example", Scopes: []Scope{ScopeSubmit}}}
	out := []Token{{Name: "ops", Secret: adminToken, Scopes: []Scope{ScopeAdmin}}}
	served, asked := TLSFiles{CertFile: "c", KeyFile: "k"}, TLSFiles{CertFile: "c", KeyFile: "k", ClientCAFile: "a"}
	const why = "has certificate, and tls.client_ca_file is not set"
	for _, c := range []struct {
		fixed, file []Token
		tls         TLSFiles
		want        string
	}{
		{in, out, TLSFiles{}, "entry 1 (ci) of tokens " + why}, {in, out, served, "entry 1 (ci) of tokens " + why},
		{out, in, served, "entry 1 (ci) of the.file " + why}, {in, out, asked, ""}, {out, in, asked, ""},
		{out, []Token{{Name: "day", Secret: readToken, Scopes: []Scope{ScopeRead}}}, TLSFiles{}, ""},
	} {
		read := c.file
		a, err := NewAccess(c.fixed, TokensFile{Path: "the.file", Read: func() ([]Token, error) { return read, nil }}, c.tls, nil)
		if c.want != "" {
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, "set tls.client_ca_file, or give the entry a token instead")
			continue
		}
		require.NoError(t, err)
		if c.tls.ClientCAFile == "" {
			read = in
			require.ErrorContains(t, a.Reload(), why)
			require.NotNil(t, a.find(adminToken), "the tokens of before hold")
		}
	}
}

package main

import (
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/cmd/troupe/config"
)

// A call over TLS trusts who --ca-file names, and says what to do where that is missing.
func TestCallsOverTLS(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"pools":[]}`)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	folder := t.TempDir()
	ca, none := filepath.Join(folder, "ca"), filepath.Join(folder, "none")
	require.NoError(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	require.NoError(t, os.WriteFile(none, []byte("nothing"), 0o600))
	in := []string{"TROUPE_SERVER=" + server.URL}
	r := call(t, "", in, "pools", "--ca-file", ca, "-o", "json")
	require.Equal(t, 0, r.code, r.err)
	r = call(t, "", append(in, "TROUPE_CA_FILE="+ca), "pools", "-o", "json")
	require.Equal(t, 0, r.code, r.err)
	for want, args := range map[string][]string{
		"give the file of who signed it with --ca-file":  nil,
		"holds no PEM certificate":                       {"--ca-file", none},
		"certificate and its key must be given together": {"--cert-file", ca},
		"certificate " + ca + " with key " + none:        {"--cert-file", ca, "--key-file", none},
		"served over TLS: give its address as https://":  {"--server", strings.Replace(server.URL, "https", "http", 1)},
	} {
		r = call(t, "", in, append([]string{"pools"}, args...)...)
		require.NotEqual(t, 0, r.code, want)
		require.Contains(t, r.err, want)
	}
}

// Entries by certificate are tokens like others, and need who vouches for certificates.
func TestCertificatesInTheConfiguration(t *testing.T) {
	t.Parallel()
	const entry, files = "tokens: [{name: ci, scopes: [submit], certificate: \"dns:ci.example\"}]\n", "tls: {cert_file: c, key_file: k"
	list := filepath.Join(t.TempDir(), "tokens.yaml")
	require.NoError(t, os.WriteFile(list, []byte("- {name: day, scopes: [read], token: 0123456789abcdef}\n"+
		"- {name: night, scopes: [read], certificate: \"cn:night\"}\n"), 0o600))
	inFile := "tokens_file: " + list + "\n"
	for _, c := range []struct{ text, want string }{
		{entry + files + ", client_ca_file: a}\nlisten: 0.0.0.0:7070\n", ""}, {files + "}\n", ""},
		{entry, "tls.client_ca_file: entry 1 (ci) of tokens has certificate, and tls.client_ca_file is not set"},
		{entry + files + "}\n", "set tls.client_ca_file, or give the entry a token instead"},
		{inFile + files + "}\n", "tokens_file: entry 2 (night) of " + list + " has certificate, and tls.client_ca_file is not set"},
		{inFile + files + ", client_ca_file: a}\n", ""},
		{"tls: {cert_file: c}\n", "must be given together with tls.key_file"}, {"tls: {client_ca_file: a}\n", "needs tls.cert_file and tls.key_file"},
		{strings.Replace(entry, "dns:", "", 1) + files + ", client_ca_file: a}\n", "certificate must be cn:, dns:, email: or uri:"},
		{strings.Replace(entry, "scopes", "token: 0123456789abcdef, scopes", 1) + files + ", client_ca_file: a}\n", "has a token and a certificate"},
	} {
		path := filepath.Join(t.TempDir(), "troupe.yaml")
		require.NoError(t, os.WriteFile(path, []byte(c.text), 0o600))
		_, err := config.Load(config.Sources{File: path, Environ: []string{"HOME=/h"}})
		if c.want == "" {
			require.NoError(t, err, c.text)
			continue
		}
		require.ErrorContains(t, err, c.want)
		require.NotContains(t, err.Error(), "0123456789abcdef")
	}
}

package node_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/node"
)

// testPair writes the certificate and the key of the standard library's test server, for 127.0.0.1.
func testPair(t *testing.T) (files api.TLSFiles, pool *x509.CertPool) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.StartTLS()
	defer server.Close()
	pair := server.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	require.NoError(t, err)
	folder := t.TempDir()
	files = api.TLSFiles{CertFile: filepath.Join(folder, "cert"), KeyFile: filepath.Join(folder, "key")}
	pool = x509.NewCertPool()
	pool.AddCert(server.Certificate())
	require.NoError(t, os.WriteFile(files.CertFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}), 0o600))
	require.NoError(t, os.WriteFile(files.KeyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}), 0o600))
	return files, pool
}

// The API's port speaks TLS alone; the one for health is in clear. A reload says which file is bad.
func TestTheAPIOverTLS(t *testing.T) {
	t.Parallel()
	files, pool := testPair(t)
	k := lab(t, func(c *node.Config) { c.Listen, c.HealthListen, c.TLS = "127.0.0.1:0", "127.0.0.1:0", files })
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool}}}
	get := func(address string) (int, string) {
		response, err := client.Get(address)
		require.NoError(t, err)
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return response.StatusCode, string(text)
	}
	code, text := get("https://" + k.Addr() + "/api/v1/pools")
	require.Equal(t, http.StatusOK, code, text)
	code, text = get("http://" + k.Addr() + "/api/v1/pools")
	require.Equal(t, http.StatusBadRequest, code)
	require.Contains(t, text, "HTTP request to an HTTPS server")
	code, _ = get("http://" + k.HealthAddr() + "/healthz")
	require.Equal(t, http.StatusOK, code)
	require.NoError(t, os.WriteFile(files.CertFile, []byte("no certificate"), 0o600))
	_, err := k.Node.Reload(t.Context(), "ann")
	require.ErrorContains(t, err, files.CertFile)
	require.ErrorContains(t, err, "the certificates of before hold")
	code, _ = get("https://" + k.Addr() + "/api/v1/pools")
	require.Equal(t, http.StatusOK, code)
}

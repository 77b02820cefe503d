package e2e

import (
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/test/servers"
)

// TestTheAPIOverTLS serves the API over TLS. Callers use a token, and a program uses a certificate. The test replaces the node's
// certificate while the node runs.
func TestTheAPIOverTLS(t *testing.T) {
	t.Parallel()
	ours, clients := servers.NewAuthority(t, "ours"), servers.NewAuthority(t, "clients")
	folder := t.TempDir()
	cert, key := filepath.Join(folder, "node.pem"), filepath.Join(folder, "node.key")
	install := func(signer *servers.Authority) {
		c, k := signer.Sign("node", nil)
		require.NoError(t, os.WriteFile(cert, c, 0o600))
		require.NoError(t, os.WriteFile(key, k, 0o600))
	}
	install(ours)
	n := start(t, options{trust: ours, token: "boss-secret-123456", config: fmt.Sprintf(`
tls: {cert_file: %s, key_file: %s, client_ca_file: %s}
tokens:
  - {name: boss, scopes: [admin, submit], token: boss-secret-123456}
  - {name: ci, scopes: [submit], certificate: "dns:ci.example"}
`, cert, key, clients.File)})
	call := func(server string, env []string, args ...string) result {
		return execute(t, "", append([]string{"TROUPE_SERVER=" + server}, env...), args...)
	}
	person := []string{"TROUPE_TOKEN=" + n.token, "TROUPE_CA_FILE=" + ours.File}
	r := call(n.url, person, "submit", "core.shell_echo", "text=over TLS", "--wait")
	require.Equal(t, 0, r.code, r.err)
	require.Contains(t, r.out, "over TLS")

	ciCert, ciKey := clients.Issue("ci", func(c *x509.Certificate) { c.DNSNames = []string{"ci.example"} })
	program := []string{"TROUPE_CA_FILE=" + ours.File, "TROUPE_CERT_FILE=" + ciCert, "TROUPE_KEY_FILE=" + ciKey}
	r = call(n.url, program, "submit", "core.shell_echo", "text=signed", "--wait", "-o", "json")
	require.Equal(t, 0, r.code, r.err)
	require.Contains(t, r.out, `"signed`)
	r = call(n.url, program, "reload")
	require.NotEqual(t, 0, r.code)
	require.Contains(t, r.err, `token "ci" lacks the scope "operate"`)

	for says, c := range map[string]struct {
		server string
		env    []string
	}{
		"give the file of who signed it with --ca-file": {n.url, person[:1]},
		"served over TLS: give its address as https://": {strings.Replace(n.url, "https", "http", 1), person},
		"wants a token": {n.url, person[1:]},
		"certificate and its key must be given together": {n.url, program[:2]},
	} {
		r = call(c.server, c.env, "pools")
		require.NotEqual(t, 0, r.code, says)
		require.Contains(t, r.err, says)
	}
	strange, strangeKey := servers.NewAuthority(t, "theirs").Issue("ci", func(c *x509.Certificate) { c.DNSNames = []string{"ci.example"} })
	r = call(n.url, []string{program[0], "TROUPE_CERT_FILE=" + strange, "TROUPE_KEY_FILE=" + strangeKey}, "submit", "core.shell_echo")
	require.NotEqual(t, 0, r.code, "signed by nobody that the node knows")

	renewed := servers.NewAuthority(t, "renewed")
	install(renewed)
	person[1] = "TROUPE_CA_FILE=" + renewed.File
	await(t, "the new certificate is served", func() bool { return call(n.url, person, "pools").code == 0 })
	n.logged(t, "certificates read again")
	require.NoError(t, n.stop())
}

package servers

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Authority signs certificates for one test. Its files are in a folder that every account may read, because a private
// server may run under another account. They are removed at the end of the test.
type Authority struct {
	t      testing.TB
	folder string
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	// File holds its own certificate, in PEM.
	File string
}

// CertTime is how long certificates are valid, before and after now.
const CertTime = 24 * time.Hour

// NewAuthority makes an authority with the given common name.
func NewAuthority(t testing.TB, name string) *Authority {
	t.Helper()
	folder, err := os.MkdirTemp("", "troupe-certs-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(folder)) })
	require.NoError(t, os.Chmod(folder, 0o755))
	a := &Authority{t: t, folder: folder, File: filepath.Join(folder, "ca.pem")}
	a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	a.cert = a.template(name)
	a.cert.IsCA, a.cert.BasicConstraintsValid, a.cert.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, a.cert, a.cert, a.key.Public(), a.key)
	require.NoError(t, err)
	a.cert, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(a.File, a.PEM(), 0o644))
	return a
}

func (a *Authority) template(name string) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	require.NoError(a.t, err)
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-CertTime), NotAfter: time.Now().Add(CertTime),
	}
}

// PEM returns the authority's own certificate.
func (a *Authority) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// Sign returns a certificate with a common name and its key, in PEM. It is valid for both ends of a connection and for
// 127.0.0.1, unless change, which may be nil, sets otherwise.
func (a *Authority) Sign(name string, change func(*x509.Certificate)) (cert, key []byte) {
	a.t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a.t, err)
	c := a.template(name)
	c.IPAddresses, c.KeyUsage = []net.IP{net.IPv4(127, 0, 0, 1)}, x509.KeyUsageDigitalSignature
	c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	if change != nil {
		change(c)
	}
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, private.Public(), a.key)
	require.NoError(a.t, err)
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(a.t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
}

// Issue is Sign into files. Every account may read the key, which protects nothing.
func (a *Authority) Issue(name string, change func(*x509.Certificate)) (certFile, keyFile string) {
	a.t.Helper()
	cert, key := a.Sign(name, change)
	certFile, keyFile = filepath.Join(a.folder, name+".crt"), filepath.Join(a.folder, name+".key")
	require.NoError(a.t, os.WriteFile(certFile, cert, 0o644))
	require.NoError(a.t, os.WriteFile(keyFile, key, 0o644))
	return certFile, keyFile
}

// Pair is Sign for a client or a server in this process.
func (a *Authority) Pair(name string, change func(*x509.Certificate)) *tls.Certificate {
	a.t.Helper()
	pair, err := tls.X509KeyPair(a.Sign(name, change))
	require.NoError(a.t, err)
	return &pair
}

// Roots returns a pool with the authority's certificate.
func (a *Authority) Roots() *x509.CertPool {
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	return roots
}

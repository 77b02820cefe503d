package client

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
)

// TLS are the PEM files by which a client and its node know each other. All may be empty.
type TLS struct {
	CAFile            string // authorities of the node's certificate; empty: the system's
	CertFile, KeyFile string // the client's own certificate
}

// Secure reads the files and uses them from then on. It is called before the first call.
func (c *Client) Secure(files TLS) error {
	if files == (TLS{}) {
		return nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if files.CAFile != "" {
		raw, err := os.ReadFile(files.CAFile)
		if err != nil {
			return fmt.Errorf("authorities of the node's certificate: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(raw) {
			return fmt.Errorf("authorities of the node's certificate: %s holds no PEM certificate", files.CAFile)
		}
	}
	if (files.CertFile == "") != (files.KeyFile == "") {
		return errors.New("a certificate and its key must be given together: --cert-file and --key-file")
	}
	if files.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(files.CertFile, files.KeyFile)
		if err != nil {
			return fmt.Errorf("certificate %s with key %s: %w", files.CertFile, files.KeyFile, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	c.http.Transport.(*http.Transport).TLSClientConfig = config
	return nil
}

// distrusted says what to do where the node's certificate is not taken; nil: that is not what is wrong.
func distrusted(server string, err error) error {
	var bad *tls.CertificateVerificationError
	if !errors.As(err, &bad) {
		return nil
	}
	return fmt.Errorf("the certificate of %s is not taken; give the file of who signed it with --ca-file or TROUPE_CA_FILE (%w)", server, bad.Err)
}

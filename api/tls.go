package api

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/troupe-run/troupe/rules/throttle"
)

// TLSFiles are the PEM files for TLS. Without a certificate the API is served without TLS.
type TLSFiles struct {
	CertFile string `yaml:"cert_file" help:"PEM file of the HTTP API's certificate, for TLS 1.2 or newer, with its chain below it. Empty: plain HTTP. Read again within a second when it has changed."`
	KeyFile  string `yaml:"key_file" help:"PEM file of the key of cert_file."`
	// ClientCAFile has the authorities of clients' certificates; empty: no client certificates.
	ClientCAFile string `yaml:"client_ca_file" help:"PEM file of the authorities of clients' certificates. A client with a certificate needs no token if an entry of tokens names its certificate. Empty: clients are asked for none."`
}

// On reports whether the API is served over TLS.
func (f TLSFiles) On() bool { return f.CertFile != "" }

func (f TLSFiles) paths() []string {
	paths := []string{f.CertFile, f.KeyFile}
	if f.ClientCAFile != "" {
		paths = append(paths, f.ClientCAFile)
	}
	return paths
}

// load reads the files and returns a configuration for handshakes.
func (f TLSFiles) load() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(f.CertFile, f.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("certificate %s with key %s: %w", f.CertFile, f.KeyFile, err)
	}
	c := baseTLS()
	c.Certificates = []tls.Certificate{pair}
	if f.ClientCAFile == "" {
		return c, nil
	}
	raw, err := os.ReadFile(f.ClientCAFile)
	if err != nil {
		return nil, fmt.Errorf("authorities of clients: %w", err)
	}
	c.ClientCAs = x509.NewCertPool()
	if !c.ClientCAs.AppendCertsFromPEM(raw) {
		return nil, fmt.Errorf("authorities of clients: %s holds no PEM certificate", f.ClientCAFile)
	}
	// A given certificate must be valid. A client without one may still have a token.
	c.ClientAuth = tls.VerifyClientCertIfGiven
	return c, nil
}

// baseTLS returns the common configuration of handshakes. It allows only HTTP/1.1, because the bounds count
// connections, and there a connection has one request at a time. It has no session tickets, so that each connection is
// checked against the current authorities.
func baseTLS() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, SessionTicketsDisabled: true}
}

// Certificates holds the files' content. It reads the files again when they have changed.
type Certificates struct {
	files  TLSFiles
	logger hclog.Logger
	reread[tls.Config]
}

// NewCertificates reads the files. Invalid files are an error here; later they leave the certificates unchanged.
func NewCertificates(files TLSFiles, logger hclog.Logger) (*Certificates, error) {
	c := &Certificates{files: files, logger: logger}
	c.reread = newReread(files.paths(), c.load)
	return c, c.Reload()
}

func (c *Certificates) load() (*tls.Config, error) {
	made, err := c.files.load()
	if err != nil {
		return nil, fmt.Errorf("tls: %w", err)
	}
	return made, nil
}

// Config returns a server's configuration. Each handshake uses the files' content of at most a second ago.
func (c *Certificates) Config() *tls.Config {
	config := baseTLS()
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		switch taken, err := c.refresh(); {
		case err != nil:
			c.logger.Warn("certificates not read again; those of before hold", "error", err)
		case taken:
			c.logger.Info("certificates read again", "file", c.files.CertFile)
		}
		return c.current.Load(), nil
	}
	return config
}

// The kinds of names by which an entry identifies a client's certificate.
var certificateKinds = []string{"cn:", "dns:", "email:", "uri:"}

// checkCertificate returns why a text cannot name a client's certificate, or nil.
func checkCertificate(text string) error {
	for _, kind := range certificateKinds {
		if name, ok := strings.CutPrefix(text, kind); ok && name != "" {
			return nil
		}
	}
	return errors.New("certificate must be cn:, dns:, email: or uri: and the name that the certificate has, as in dns:ci.example")
}

// certificateNames returns the names of a certificate, in the form of entries.
func certificateNames(cert *x509.Certificate) []string {
	var names []string
	if cert.Subject.CommonName != "" {
		names = append(names, "cn:"+cert.Subject.CommonName)
	}
	for _, name := range cert.DNSNames {
		names = append(names, "dns:"+name)
	}
	for _, name := range cert.EmailAddresses {
		names = append(names, "email:"+name)
	}
	for _, uri := range cert.URIs {
		names = append(names, "uri:"+uri.String())
	}
	return names
}

// errorLog logs the HTTP server's own errors, such as failed handshakes, at a limited rate: any client can cause them.
type errorLog struct {
	logger hclog.Logger
	mu     sync.Mutex
	warns  throttle.Gate
}

func newErrorLog(logger hclog.Logger) *log.Logger { return log.New(&errorLog{logger: logger}, "", 0) }

// Write implements io.Writer.
func (l *errorLog) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if pass, withheld := l.warns.Pass(time.Now()); pass {
		l.logger.Warn("connection failed", append(throttle.LeftOut(withheld), "error", clip(strings.TrimSpace(string(text))))...)
	}
	return len(text), nil
}

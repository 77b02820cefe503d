package peers

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// Off in place of an address means that a node does not listen for peers.
const Off = "off"

// Settings say where a node listens for its peers, and which peers it accepts. Zero: it does not listen.
type Settings struct {
	// Listen is a host:port; port 0 means a free one. Empty, or Off: it does not listen.
	Listen string `yaml:"peers_listen" help:"Address at which the other nodes reach this one, as in 10.0.0.5:7071. Anything but a loopback address needs the three files below. Empty: with store.url a free port of 127.0.0.1, for the nodes of this machine. off: none. Without such an address a node cannot ask the others whether they have lost the store too."`
	// Advertise is the host:port that peers dial; empty: the address that it listens on.
	Advertise string `yaml:"peers_advertise" help:"host:port that the other nodes dial. Empty: node.peers_listen, which must then name one address."`
	// CAFile, CertFile and KeyFile secure it in both directions, PEM each. A peer without a certificate of the
	// authority is refused. The certificate must name the host that the node advertises.
	CAFile   string `yaml:"peers_ca_file" help:"PEM file of the certificate authority of all nodes. A peer without a certificate of it is refused."`
	CertFile string `yaml:"peers_cert_file" help:"PEM file of this node's certificate, for server and client use. It must name the advertised host."`
	KeyFile  string `yaml:"peers_key_file" help:"PEM file of the key of peers_cert_file."`
	// Insecure allows an address beyond loopback without TLS.
	Insecure bool `yaml:"peers_insecure" help:"Listen beyond loopback without the files. The traffic between nodes is then not encrypted."`
}

// On reports whether the node listens for peers.
func (s Settings) On() bool { return s.Listen != "" && s.Listen != Off }

// OrLoopback returns the settings of a node that shares its store. Without an address, it listens on a free port of the
// loopback address, for the nodes of its own machine.
func (s Settings) OrLoopback() Settings {
	if s == (Settings{Insecure: s.Insecure}) {
		s.Listen = "127.0.0.1:0"
	}
	return s
}

// tls reports whether connections use TLS.
func (s Settings) tls() bool { return s.CAFile != "" }

// Problem is a problem of one setting.
type Problem struct {
	Setting string // its key in the configuration, below node
	Text    string // what must hold
}

// Problems returns all problems of the settings.
func (s Settings) Problems() (found []Problem) {
	bad := func(setting, format string, args ...any) {
		found = append(found, Problem{setting, fmt.Sprintf(format, args...)})
	}
	for _, f := range []struct{ setting, value string }{
		{"peers_advertise", s.Advertise}, {"peers_ca_file", s.CAFile}, {"peers_cert_file", s.CertFile}, {"peers_key_file", s.KeyFile},
	} {
		if f.value != "" && !s.On() {
			bad(f.setting, "needs node.peers_listen, as in 10.0.0.5:7071")
		}
	}
	if (s.CAFile == "") != (s.CertFile == "") || (s.CertFile == "") != (s.KeyFile == "") {
		bad("peers_ca_file", "must be given together with node.peers_cert_file and node.peers_key_file")
	}
	if s.On() {
		s.addresses(bad)
	}
	return found
}

// addresses checks the addresses for listening and advertising.
func (s Settings) addresses(bad func(setting, format string, args ...any)) {
	host, ok := splitAddress(s.Listen)
	switch {
	case !ok:
		bad("peers_listen", "must be host:port, as in 10.0.0.5:7071, or off")
	case wildcard(host) && s.Advertise == "":
		bad("peers_advertise", "must be given: nobody can dial the wildcard address in node.peers_listen")
	}
	if ok && !loopback(host) && !s.tls() && !s.Insecure {
		bad("peers_listen", "other machines could speak for a node; give node.peers_ca_file, node.peers_cert_file and "+
			"node.peers_key_file, listen on 127.0.0.1, or set node.peers_insecure where the network itself keeps others out")
	}
	if s.Advertise != "" && !dialable(s.Advertise) {
		bad("peers_advertise", "must be a host:port that the other nodes can dial, as in 10.0.0.5:7071")
	}
}

// Check returns the problems as one error.
func (s Settings) Check() error {
	var errs []error
	for _, p := range s.Problems() {
		errs = append(errs, fmt.Errorf("%s: %s", p.Setting, p.Text))
	}
	return errors.Join(errs...)
}

// splitAddress reads a host:port. The host may be empty, and the port 0.
func splitAddress(address string) (host string, ok bool) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return host, err == nil
}

// dialable reports whether an address names one host and one port.
func dialable(address string) bool {
	host, ok := splitAddress(address)
	return ok && host != "" && !wildcard(host) && !strings.HasSuffix(address, ":0") && len(address) <= addressMax &&
		!strings.ContainsAny(address, "/ \t\n")
}

// addressMax bounds an address, in bytes: a host name has at most 253.
const addressMax = 300

func wildcard(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "" || err == nil && addr.Unmap().IsUnspecified()
}

func loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.Unmap().IsLoopback()
}

// credentials reads the files and returns the credentials for incoming and outgoing connections.
func (s Settings) credentials() (serving, dialing credentials.TransportCredentials, err error) {
	if !s.tls() {
		return insecure.NewCredentials(), insecure.NewCredentials(), nil
	}
	pair, err := tls.LoadX509KeyPair(s.CertFile, s.KeyFile)
	if err != nil {
		return nil, nil, fmt.Errorf("read the certificate for peers %s and its key %s: %w", s.CertFile, s.KeyFile, err)
	}
	pem, err := os.ReadFile(s.CAFile)
	if err != nil {
		return nil, nil, fmt.Errorf("read the authority of peers: %w", err)
	}
	authority := x509.NewCertPool()
	if !authority.AppendCertsFromPEM(pem) {
		return nil, nil, fmt.Errorf("read the authority of peers: %s holds no certificate in PEM", s.CAFile)
	}
	own := []tls.Certificate{pair}
	serving = credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: own, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: authority,
	})
	return serving, credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS13, Certificates: own, RootCAs: authority}), nil
}

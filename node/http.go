package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"

	"github.com/hashicorp/go-hclog"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/debug"
)

// httpPort is one address that the node answers HTTP on. Its zero value is none.
type httpPort struct {
	listener net.Listener
	secured  *tls.Config // nil: in clear
	server   *http.Server
	end      context.CancelFunc // of long polls and streams
}

// listen takes the address, unless it is empty. Setting is how people choose another one.
func (p *httpPort) listen(address, setting string) error {
	if address == "" {
		return nil
	}
	listener, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("listen on %s: %w; is another node running there? Choose another address with %s", address, err, setting)
	}
	if err != nil {
		return fmt.Errorf("listen on %s: %w; choose another address with %s", address, err, setting)
	}
	p.listener = listener
	return nil
}

// waits reports whether there is an address that is not served yet.
func (p *httpPort) waits() bool { return p.listener != nil && p.server == nil }

// serve answers with the handler. Failed is told where that ends by itself.
func (p *httpPort) serve(handler http.Handler, limits api.Connections, logger hclog.Logger, failed func(error)) {
	ctx, cancel := context.WithCancel(context.Background())
	p.end = cancel
	p.server = api.NewServer(ctx, handler, logger)
	server, listener := p.server, api.Bound(p.server, p.listener, limits, logger)
	if p.secured != nil {
		listener = tls.NewListener(listener, p.secured)
	}
	go func() {
		if err := server.Serve(listener); err != nil && !errors.Is(err, http.ErrServerClosed) {
			failed(fmt.Errorf("serve HTTP on %s: %w", listener.Addr(), err))
		}
	}()
}

func (p *httpPort) close() error {
	if p.listener == nil {
		return nil
	}
	if p.server == nil {
		return p.listener.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	p.end()
	return p.server.Shutdown(ctx)
}

// addr is the address that it listens on; empty without one.
func (p *httpPort) addr() string {
	if p.listener == nil {
		return ""
	}
	return p.listener.Addr().String()
}

// listen takes the ports first: one in use is the most common mistake, and nothing has been touched yet.
func (n *Node) listen(context.Context) (err error) {
	if n.access, err = api.NewAccess(n.cfg.Tokens, n.cfg.TokensFile, n.cfg.TLS, n.logger.Named("api")); err != nil {
		return err
	}
	if n.cfg.TLS.On() {
		if n.tls, err = api.NewCertificates(n.cfg.TLS, n.logger.Named("api")); err != nil {
			return err
		}
		n.http.secured = n.tls.Config()
	}
	if err := n.http.listen(n.cfg.Listen, "--listen"); err != nil {
		return err
	}
	return n.probes.listen(n.cfg.HealthListen, "health_listen")
}

// probeConnections bounds the connections of the health port: whoever asks there asks seldom.
var probeConnections = api.Connections{Max: 64, PeerMax: 32}

// serve opens the API, unless it is open.
func (n *Node) serve(context.Context) error {
	if !n.http.waits() && !n.probes.waits() {
		return nil
	}
	cfg := api.Config{
		Backend: n.Backend(), Gate: n.servers.gate, Access: n.access, Logger: n.logger, Metrics: n.metrics.handler(),
		Debug: debug.Actors(n.forest.shown), Version: n.cfg.Version, Now: n.clock.Now,
		RequestsMax: n.cfg.Requests, WaitsMax: n.cfg.Waits, BatchesMax: n.cfg.Batches, BodiesMax: n.cfg.Bodies,
	}
	if n.http.waits() {
		n.http.serve(api.New(cfg), n.cfg.Connections, n.logger, n.fatal)
	}
	if n.probes.waits() {
		cfg.OpenMetrics = n.cfg.HealthMetrics
		n.probes.serve(api.NewHealth(cfg), probeConnections, n.logger, n.fatal)
	}
	return nil
}

// Addr is the address that the API listens on; empty without one.
func (n *Node) Addr() string { return n.http.addr() }

// HealthAddr is the address that answers /healthz and /readyz alone; empty without one.
func (n *Node) HealthAddr() string { return n.probes.addr() }

package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime/debug"
	"syscall"

	"github.com/hashicorp/go-hclog"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/messages"
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

// httpServer serves the node's API, and, where one is asked for, a port for questions after its health alone.
type httpServer struct {
	*base
	logins *logins
	access *api.Access
	tls    *api.Certificates // nil: the API is served in clear
	main   httpPort
	probes httpPort
}

// listen takes the ports first: one in use is the most common mistake, and nothing has been touched yet.
func (h *httpServer) listen(context.Context) (err error) {
	if h.access, err = api.NewAccess(h.cfg.Tokens, h.cfg.TokensFile, h.cfg.TLS, h.logger.Named("api")); err != nil {
		return err
	}
	if h.cfg.TLS.On() {
		if h.tls, err = api.NewCertificates(h.cfg.TLS, h.logger.Named("api")); err != nil {
			return err
		}
		h.main.secured = h.tls.Config()
	}
	if err := h.main.listen(h.cfg.Listen, "--listen"); err != nil {
		return err
	}
	return h.probes.listen(h.cfg.HealthListen, "health_listen")
}

// waits reports whether a port that was taken is not served yet.
func (h *httpServer) waits() bool { return h.main.waits() || h.probes.waits() }

// probeConnections bounds the connections of the health port: whoever asks there asks seldom.
var probeConnections = api.Connections{Max: 64, PeerMax: 32}

// serve answers on the ports that wait. Of the configuration the node fills in what answers.
func (h *httpServer) serve(cfg api.Config) {
	cfg.Access, cfg.Logger, cfg.Version, cfg.Now = h.access, h.logger, h.cfg.Version, h.clock.Now
	cfg.Hub = h.hub
	cfg.Console, cfg.BasePath, cfg.LoginKeys, cfg.About = h.cfg.Console, h.cfg.BasePath, h.logins.current, h.about()
	cfg.RequestsMax, cfg.WaitsMax, cfg.BatchesMax, cfg.BodiesMax = h.cfg.Requests, h.cfg.Waits, h.cfg.Batches, h.cfg.Bodies
	if h.main.waits() {
		h.main.serve(api.New(cfg), h.cfg.Connections, h.logger, h.fatal)
	}
	if h.probes.waits() {
		cfg.OpenMetrics = h.cfg.HealthMetrics
		h.probes.serve(api.NewHealth(cfg), probeConnections, h.logger, h.fatal)
	}
}

// about is what the node says of itself.
func (h *httpServer) about() api.About {
	a := api.About{Node: h.cfg.Name, Store: "sqlite", Build: h.cfg.Version, Settings: h.cfg.Settings}
	if h.cfg.full() {
		a.Store = "postgres"
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" || s.Key == "vcs.time" {
				a.Build += " " + s.Value
			}
		}
	}
	return a
}

// reload reads the tokens and the certificates again. Its errors are *messages.Problem.
func (h *httpServer) reload() error {
	if err := h.access.Reload(); err != nil {
		return &messages.Problem{Code: messages.CodeInvalidTokens,
			Message: err.Error() + "; the tokens of before hold, and the packs were not read"}
	}
	if h.tls == nil {
		return nil
	}
	if err := h.tls.Reload(); err != nil {
		return &messages.Problem{Code: messages.CodeInvalidCertificates,
			Message: err.Error() + "; the certificates of before hold, and the packs were not read"}
	}
	return nil
}

func (h *httpServer) close() error { return errors.Join(h.main.close(), h.probes.close()) }

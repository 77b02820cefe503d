package api

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/rules/differences"
	"github.com/troupe-run/troupe/rules/keyframe"
)

// Timeouts of a connection. The time of a body is bounded where it is read. The time of an answer is bounded from the
// request's arrival, and again where it is written, so that long polls and streams do not count as slow readers or
// writers.
const (
	headerTime = 10 * time.Second
	idleTime   = 120 * time.Second
	writeTime  = 30 * time.Second
	unreadTime = 2 * time.Second // for a body that no handler reads
	headerMax  = 64 << 10        // bytes
)

// pagesMax is how many calls for pages without a token run at once. They have places of their own.
const pagesMax = 64

// Time limits of a call's work on the node, also if the store does not answer.
const (
	callTime = 5 * time.Second
	longTime = 30 * time.Second // batches, and calls that start or ask processes
)

// server holds what all routes share.
type server struct {
	Config
	guard    *guard
	logger   hclog.Logger
	document func() []byte // rendered when it is first asked for: it takes some 20 ms, and most nodes are never asked

	requests, waits, batches, pages, streams gauge
	chunks                                   chan struct{} // has one entry for each part of a stream that is being stored
	bodies                                   bodies
	answers                                  answers
	readiness                                readiness
	guesses                                  guesses
	walks                                    *walks[ErrorGroups]
	counted                                  *walks[Facets]
	past                                     *walks[*keyframe.Fleet]
	compared                                 *walks[*differences.Differences]
	workerTexts                              workerTexts
}

// New makes the handler of the whole API.
func New(cfg Config) http.Handler {
	cfg = cfg.withDefaults()
	s := &server{
		Config: cfg, guard: newGuard(&cfg), logger: cfg.Logger.Named("api"),
		requests: gauge{max: int64(cfg.RequestsMax)}, waits: gauge{max: int64(cfg.WaitsMax)},
		batches: gauge{max: int64(cfg.BatchesMax)}, bodies: bodies{max: cfg.BodiesMax}, answers: answers{max: cfg.AnswersMax},
		pages: gauge{max: pagesMax}, streams: gauge{max: StreamsMax}, chunks: make(chan struct{}, cfg.BatchesMax), walks: newWalks[ErrorGroups](), counted: newWalks[Facets](), past: newWalks[*keyframe.Fleet](), compared: newWalks[*differences.Differences](),
	}
	table := routes()
	s.document = sync.OnceValue(func() []byte { return document(table, cfg.Version, cfg.BasePath) })
	return below(cfg.BasePath, clean(s.mux(table)))
}

// NewHealth makes the handler of a port that answers only health checks, and with Config.OpenMetrics also /metrics.
// Load on the API's port does not affect it.
func NewHealth(cfg Config) http.Handler {
	cfg = cfg.withDefaults()
	cfg.Page, cfg.ConsolePage = nil, nil
	s := &server{Config: cfg, guard: newGuard(&cfg), logger: cfg.Logger.Named("api")}
	var table []*route
	for _, rt := range routes() {
		if cfg.OpenMetrics && rt.path == metricsPath {
			rt.probe, rt.scope = true, ""
		}
		if rt.probe {
			table = append(table, rt)
		}
	}
	return clean(s.mux(table))
}

// NewServer makes the HTTP server for a handler, with all bounds for connections of unknown callers. Bound bounds their
// number. The end of ctx ends long polls and streams, so that Shutdown need not wait for them.
func NewServer(ctx context.Context, handler http.Handler, logger hclog.Logger) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: headerTime,
		WriteTimeout:      writeTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    headerMax,
		BaseContext:       func(net.Listener) context.Context { return context.WithValue(ctx, lifeKey{}, ctx) },
		ErrorLog:          newErrorLog(logger.Named("http")),
	}
}

// methods that the mux knows. Others are refused before it.
var methods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions,
}

// mux registers every route. For every path it also registers the other methods, so that 404 and 405 answers are JSON
// too.
func (s *server) mux(table []*route) *http.ServeMux {
	mux := http.NewServeMux()
	paths := map[string][]string{}
	for _, rt := range table {
		mux.Handle(rt.method+" "+rt.path, s.serve(rt))
		paths[rt.path] = append(paths[rt.path], rt.method)
		if rt.method == http.MethodGet {
			paths[rt.path] = append(paths[rt.path], http.MethodHead)
		}
	}
	for p, has := range paths {
		allow := strings.Join(has, ", ")
		for _, m := range methods {
			if !slices.Contains(has, m) {
				mux.HandleFunc(m+" "+p, func(w http.ResponseWriter, r *http.Request) { notAllowed(w, r, allow) })
			}
		}
	}
	mux.HandleFunc("/", s.elsewhere)
	return mux
}

func notAllowed(w http.ResponseWriter, r *http.Request, allow string) {
	w.Header().Set("Allow", allow)
	writeProblem(w, messages.Problemf(messages.CodeMethodNotAllowed,
		"%s takes %s, not %s", clip(r.URL.Path), allow, clip(r.Method)))
}

func (s *server) elsewhere(w http.ResponseWriter, r *http.Request) {
	if s.Page != nil && !strings.HasPrefix(r.URL.Path, "/api/") {
		s.Page.ServeHTTP(w, r)
		return
	}
	browser := r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html")
	console := s.ConsolePage != nil && s.Console.Mode != ConsoleOff
	switch path := r.URL.Path; {
	case console && strings.HasPrefix(path, consolePath):
		s.ConsolePage.ServeHTTP(w, r)
		return
	case console && browser && (path == "/" || path+"/" == consolePath):
		http.Redirect(w, r, s.BasePath+consolePath, http.StatusFound)
		return
	case console && browser && path == "/debug/tree": // where the tree's page was
		http.Redirect(w, r, s.BasePath+consolePath+"tree", http.StatusFound)
		return
	}
	what := "/openapi.json lists every path"
	if s.document == nil {
		what = "this port has /healthz and /readyz alone"
	}
	writeProblem(w, messages.Problemf(messages.CodeNotFound, "there is no %s here; %s", clip(r.URL.Path), what))
}

// clean refuses requests that the mux would answer itself with HTML: paths that it would redirect, and unknown methods.
func clean(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Cross-Origin-Resource-Policy"] = []string{"same-origin"} // no other origin's page has it as an image or a script
		p := r.URL.EscapedPath()
		if p == "" || p[0] != '/' || ((strings.Contains(p, "//") || strings.Contains(p, "/.")) && path.Clean(p) != strings.TrimSuffix(p, "/")) {
			writeProblem(w, messages.Problemf(messages.CodeNotFound, "the path %q is not in its shortest form", clip(r.URL.Path)))
			return
		}
		if !slices.Contains(methods, r.Method) {
			notAllowed(w, r, "GET, POST")
			return
		}
		if r.ContentLength != 0 {
			// The server reads the rest of a body before it answers. A handler that reads the body sets its own
			// deadline.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(unreadTime))
		}
		mux.ServeHTTP(w, r)
	})
}

// HeaderTime is the header with the store's time of a request's arrival, in RFC 3339. Callers use it to compute ages
// and delays.
const HeaderTime = "Troupe-Time"

// serve handles every request in this order: caller, query, body, place, handler. It also answers every error.
func (s *server) serve(rt *route) http.Handler {
	place, limit := s.room(rt), rt.limit()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer s.recovered(w, r)
		w.Header()[HeaderTime] = []string{s.Now().UTC().Format(time.RFC3339Nano)}
		w = zipping(w, r)
		r, reads := s.reads(r)
		c := &call{answer: reads, w: w, r: r, max: rt.bodyMax, whole: r.Context(), place: place, limit: limit,
			open: rt.scope == ScopeOpen, hold: s.holding(rt.bodyMax > BodyMax || rt.stream, r.Context().Done())}
		defer c.end()
		if err := s.handle(rt, c); err != nil {
			c.end() // frees everything before it answers a slow caller
			c.drain()
			s.fail(w, r, err)
		}
	})
}

// room returns the gauge for a route's calls. Health checks need none: one does no work, and the other waits for an
// answer that all callers share. The bound on connections bounds their number.
func (s *server) room(rt *route) *gauge {
	switch {
	case rt.probe:
		return nil
	case rt.scope == ScopeOpen:
		return &s.pages
	case rt.follows:
		return &s.streams
	case rt.waits:
		return &s.waits
	case rt.bodyMax > BodyMax:
		return &s.batches
	}
	return &s.requests
}

// holding returns a request's part of the bodies. A batch, which may be large, leaves room for other requests.
func (s *server) holding(batch bool, left <-chan struct{}) holding {
	h := holding{of: &s.bodies, left: left}
	if batch {
		h.spare = s.bodies.max / 4
	}
	return h
}

func (s *server) handle(rt *route, c *call) error {
	who, refused := s.guard.admit(c.r, rt)
	c.known, c.who = who.name != "" && !c.open, who
	if refused != nil {
		if StatusOf(refused) == http.StatusUnauthorized {
			c.w.Header().Set("WWW-Authenticate", `Bearer realm="troupe"`)
		}
		return refused
	}
	q, err := queryOf(c.r)
	if err != nil {
		return err
	}
	if err := q.check(rt); err != nil {
		return err
	}
	if s.Gate != nil && !rt.storeless {
		if shut := s.Gate(); shut != nil {
			return shut
		}
	}
	c.query, c.caller, c.blind, c.answer.caller = q, who.name, who.blind, who.name
	if who.name != localCaller {
		c.hold.caller = who.name
	}
	switch { // with a body, it enters once the body is read
	case rt.reason:
		reason, err := c.readReason()
		if err != nil {
			return err
		}
		c.r = c.r.WithContext(view.WithReason(c.r.Context(), reason))
	case rt.body == nil:
		if err := c.enter(); err != nil {
			return err
		}
	}
	if who.own {
		if err := s.ownOnly(c); err != nil {
			return err
		}
	}
	return rt.handle(s, c)
}

// fail answers with an error.
func (s *server) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil && errors.Is(err, context.Canceled) {
		// Either the caller has left and does not read, or the node stops and the caller should retry.
		w.Header().Set("Retry-After", "1")
		writeProblem(w, stops())
		return
	}
	p := s.note(r, err)
	if status := StatusOf(p); status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests || p.Code == messages.CodeStorageFull {
		if w.Header().Get("Retry-After") == "" {
			w.Header().Set("Retry-After", "1")
		}
	}
	writeProblem(w, p)
}

// note returns the problem of an error, and logs it if it is the node's own fault.
func (s *server) note(r *http.Request, err error) *messages.Problem {
	p := toProblem(err)
	status := StatusOf(p)
	if status == http.StatusServiceUnavailable || p.Code == messages.CodeStorageFull { // the node has logged the reason once
		s.logger.Debug("request not served for now", "method", r.Method, "path", clip(r.URL.Path), "error", err)
	} else if status >= http.StatusInternalServerError {
		s.logger.Error("request failed", "method", r.Method, "path", clip(r.URL.Path), "status", status, "error", err)
	}
	return p
}

func stops() *messages.Problem {
	return messages.Problemf(messages.CodeUnavailable, "the node stops; ask again when it is back")
}

// recovered answers a handler's panic with a 500. One bad request must not end the node.
func (s *server) recovered(w http.ResponseWriter, r *http.Request) {
	cause := recover()
	if cause == nil {
		return
	}
	if err, ok := cause.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(cause)
	}
	s.logger.Error("request panicked", "method", r.Method, "path", clip(r.URL.Path), "panic", cause, "stack", string(debug.Stack()))
	writeProblem(w, messages.Problemf(messages.CodeInternal, "the node could not do this; its log says why"))
}

func parseQuery(raw string) (url.Values, error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, invalid("the query is malformed: %s", clip(err.Error()))
	}
	return values, nil
}

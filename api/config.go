package api

import (
	"context"
	"net/http"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/troupe-run/troupe/api/hub"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/live"
)

// Config configures the API. Zero means default.
type Config struct {
	Backend Backend // required
	// Gate, where set, returns why calls that need the store cannot be served now, or nil.
	Gate func() *messages.Problem
	// Access says who may call. Nil: only this machine, with every scope.
	Access *Access
	Logger hclog.Logger // nil: silent
	// Metrics answers /metrics and Debug /debug/actors, both behind the read scope. Nil: 404.
	Metrics http.Handler
	Debug   http.Handler
	// Tree returns what reads the entries of the topic tree: of all nodes, or of one by its name or incarnation. It is read by who may ask
	// Debug. Nil: the topic is refused.
	Tree func(node string) func(context.Context) ([]live.Entry, error)
	// Page answers every path that the API does not have. Nil: 404.
	Page http.Handler
	// ConsolePage answers every path below /console/, where browsers that ask for / or /debug/tree are sent. Nil: 404.
	ConsolePage http.Handler
	// Console says what browsers may do with that page; zero fields: DefaultConsole.
	Console Console
	// BasePath is the path below which callers see the node, as CheckBasePath takes it; empty: none. It answers without it too.
	BasePath string
	// LoginKeys are the keys of logins to the console. Nil: one that ends with the process.
	LoginKeys LoginKeys
	// About is what the node says of itself in /api/v1/me.
	About About
	// OpenMetrics makes the health port answer /metrics too, without a token.
	OpenMetrics bool
	// Hub is what GET /api/v1/stream follows. Nil: one that hears of no change.
	Hub *hub.Hub
	// Now returns the store's time, which every answer has in HeaderTime. Nil: the machine's.
	Now func() time.Time
	// Version is the version in the OpenAPI document; empty: "dev".
	Version string
	// RequestsMax bounds the requests in flight, without waits and streams; 0: 1024. Beyond it: 429.
	RequestsMax int
	// WaitsMax bounds the long polls and streams in flight; 0: 4096. Beyond it: 429.
	WaitsMax int
	// BatchesMax bounds the batches in flight, each of which may hold 32 MiB; 0: 4. Beyond it: 429.
	BatchesMax int
	// BodiesMax bounds the request bodies in memory, in bytes; 0: 128 MiB. A batch leaves a quarter of it to other
	// requests. The batches of one token get half of the rest, or one largest batch. Beyond it: 429.
	BodiesMax int64
	// AnswersMax bounds the stored payloads that are in memory for answers, in bytes; 0: 64 MiB, or less where GOMEMLIMIT is below 1 GiB.
	AnswersMax int64
}

// Defaults returns the default bounds.
func Defaults() Config { return Config{}.withDefaults() }

func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	if c.Access == nil {
		c.Access = &Access{reread: reread[[]hashedToken]{now: time.Now}}
	}
	if c.Version == "" {
		c.Version = "dev"
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Hub == nil {
		c.Hub = hub.New(hub.Config{ID: messages.NewIncarnation().String(), Now: c.Now})
	}
	c.Console = c.Console.withDefaults()
	if c.LoginKeys == nil {
		c.LoginKeys = ownKeys()
	}
	for _, f := range []struct {
		value     *int
		otherwise int
	}{{&c.RequestsMax, 1024}, {&c.WaitsMax, 4096}, {&c.BatchesMax, 4}} {
		if *f.value <= 0 {
			*f.value = f.otherwise
		}
	}
	if c.AnswersMax <= 0 {
		c.AnswersMax = answersMax()
	}
	if c.BodiesMax <= 0 {
		c.BodiesMax = 128 << 20
	}
	return c
}

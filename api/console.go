package api

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// Console says what browsers may do with the node's page.
type Console struct {
	Mode     string `yaml:"mode" help:"full, read_only or off: whether the console may change anything, and whether it is served. The node enforces it for every call by a login of the console, or by a browser without a token."`
	Payloads string `yaml:"payloads" help:"show, click or hide: whether the pages of executions and dead letters show parameters, results, output and bodies at once, by a click, or not at all. The API still answers who may read. With show, q of a list of executions searches parameters, too."`
}

// Words of Console.
const (
	ConsoleFull     = "full"
	ConsoleReadOnly = "read_only"
	ConsoleOff      = "off"

	PayloadsShow  = "show"
	PayloadsClick = "click"
	PayloadsHide  = "hide"
)

// ConsoleModes lists the words that Console.Mode takes.
func ConsoleModes() []string { return []string{ConsoleFull, ConsoleReadOnly, ConsoleOff} }

// ConsolePayloads lists the words that Console.Payloads takes.
func ConsolePayloads() []string { return []string{PayloadsShow, PayloadsClick, PayloadsHide} }

// DefaultConsole is the console where nothing is set.
func DefaultConsole() Console { return Console{Mode: ConsoleFull, Payloads: PayloadsClick} }

func (c Console) withDefaults() Console {
	otherwise := DefaultConsole()
	if c.Mode == "" {
		c.Mode = otherwise.Mode
	}
	if c.Payloads == "" {
		c.Payloads = otherwise.Payloads
	}
	return c
}

// About is what a node says of itself to its callers.
type About struct {
	Node  string // its name
	Store string // sqlite or postgres
	Build string // of the program; another one may have another console
	// Settings are what the program that runs the node says it is configured with, without secrets; none: it says nothing.
	Settings []Setting
}

// Setting is one key of a node's configuration.
type Setting struct {
	Key    string `json:"key"`
	Value  string `json:"value" doc:"as troupe config prints it; secrets are left out"`
	Source string `json:"source" doc:"where the value comes from: default, a file, a variable or a flag"`
}

// ConfigView is the whole effective configuration of a node.
type ConfigView struct {
	Node     string    `json:"node"`
	Settings []Setting `json:"settings" doc:"every key; empty where a program of its own runs the node"`
}

// consolePath is where the console is.
const consolePath = "/console/"

// How a caller is known.
const (
	viaToken       = "token"
	viaCookie      = "cookie"
	viaCertificate = "certificate"
	viaLocal       = "local"
)

// MeView is the caller as the node knows it, and what a page needs to know of the node.
type MeView struct {
	Name      string    `json:"name" doc:"the token's name, or local"`
	Scopes    []Scope   `json:"scopes" doc:"all that it may use, also those that its scopes include"`
	Via       string    `json:"via" doc:"token, cookie, certificate or local"`
	ExpiresAt time.Time `json:"expires_at,omitzero" doc:"when the login or the token ends; missing: it does not"`
	Mode      string    `json:"mode" doc:"of the console: full, read_only or off"`
	Payloads  string    `json:"payloads" doc:"of the console: show, click or hide"`
	Version   string    `json:"version"`
	Build     string    `json:"build" doc:"of the program; it changes with every one"`
	Node      string    `json:"node"`
	Store     string    `json:"store" doc:"sqlite or postgres"`
}

// LoginBody is the body of a login.
type LoginBody struct {
	Token string `json:"token"`
}

func consoleRoutes() []*route {
	const bodyMax = 4 << 10
	return []*route{
		{method: "GET", path: "/api/v1/me", scope: ScopeAny, group: "node", storeless: true,
			summary: "Who the caller is to this node, and what it may do.", result: MeView{}, handle: (*server).me},
		{method: "GET", path: "/api/v1/config", scope: ScopeAdmin, group: "node", storeless: true,
			summary: "The whole effective configuration of the node, and where each value comes from.", result: ConfigView{}, handle: (*server).config},
		{method: "POST", path: "/api/v1/login", group: "node", storeless: true, bodyMax: bodyMax, status: http.StatusNoContent,
			summary: "Trade a token for a cookie of the console, which ends after 12 hours or with the token.", body: LoginBody{}, handle: (*server).login},
		{method: "POST", path: "/api/v1/logout", group: "node", storeless: true, bodyMax: bodyMax, status: http.StatusNoContent,
			summary: "Remove the cookie of the console.", handle: (*server).logout},
	}
}

func (s *server) me(c *call) error {
	me := s.caller(c)
	return writeJSON(c.w, http.StatusOK, &me)
}

func (s *server) config(c *call) error {
	return writeJSON(c.w, http.StatusOK, &ConfigView{Node: s.About.Node, Settings: orEmpty(s.About.Settings)})
}

// caller is who calls, as the node knows it.
func (s *server) caller(c *call) MeView {
	return MeView{
		Name: c.caller, Scopes: granted(c.who.scopes), Via: c.who.via, ExpiresAt: c.who.ends, Mode: s.Console.Mode, Payloads: s.Console.Payloads,
		Version: s.Version, Build: s.About.Build, Node: s.About.Node, Store: s.About.Store,
	}
}

// granted lists all scopes that some scopes include, from the least to the most powerful.
func granted(scopes []Scope) []Scope {
	all := []Scope{}
	for _, scope := range Scopes() {
		if accessOf(scopes, &route{scope: scope}) == accessAll {
			all = append(all, scope)
		}
	}
	return all
}

func (s *server) login(c *call) error {
	if err := s.mayLogIn(c); err != nil {
		return err
	}
	var body LoginBody
	if err := c.decode(false, &body); err != nil {
		return err
	}
	now, from := s.guard.access.now(), guesser(c.r.RemoteAddr)
	if wait := s.guesses.spend(from, now); wait > 0 {
		seconds := int(wait/time.Second) + 1
		c.w.Header().Set("Retry-After", strconv.Itoa(seconds))
		return messages.Problemf(messages.CodeTooManyRequests, "%d wrong tokens came from this address in a minute; try again in %d s", guessesMax, seconds)
	}
	t := s.guard.access.find(body.Token)
	if t == nil || t.ended(now) {
		s.logger.Warn("login to the console refused", "from", from.String(), "known", t != nil)
		return messages.Problemf(messages.CodeUnauthorized, "the token is not known here, or has ended")
	}
	s.guesses.refund(from)
	ends := now.Add(cookieTime)
	if !t.expires.IsZero() && t.expires.Before(ends) {
		ends = t.expires
	}
	keys := s.LoginKeys(c.r.Context())
	if len(keys) == 0 {
		return messages.Problemf(messages.CodeUnavailable, "the node has no key for logins yet; try again")
	}
	s.setCookie(c, cookieName(keys[0]), sealLogin(keys[0], t, ends), ends.Sub(now))
	s.logger.Info("login to the console", "name", t.name, "from", from.String())
	return done(c)
}

// mayLogIn returns why nobody may log in here, or nil.
func (s *server) mayLogIn(c *call) error {
	switch {
	case s.Console.Mode == ConsoleOff:
		return messages.Problemf(messages.CodeForbidden, "the console of this node is off (console.mode)")
	case !s.guard.access.restricted():
		return invalid("this node has no tokens, so that nobody logs in; it answers its own machine alone")
	}
	if p := ownPage(c.r); p != nil {
		return p
	}
	return nil
}

// done answers with nothing.
func done(c *call) error {
	head(c.w, headerJSON)
	c.w.Header().Del("Content-Type")
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// logout removes the cookies that this node accepts. Those of nodes of other stores on this host stay.
func (s *server) logout(c *call) error {
	if p := ownPage(c.r); p != nil {
		return p
	}
	keys := s.LoginKeys(c.r.Context())
	for _, cookie := range loginCookies(c.r) {
		if slices.ContainsFunc(keys, func(key []byte) bool { return cookieName(key) == cookie.Name }) {
			s.setCookie(c, cookie.Name, "", 0)
		}
	}
	return done(c)
}

package api

import (
	"net/http"
	"strings"
	"time"
)

// route is one method on one path, with its parameters, its answer and its scope.
type route struct {
	method, path string
	scope        Scope
	own          bool   // the scope submit may also use it, for its own executions
	group        string // its group in the OpenAPI document
	summary      string
	params       []param
	body         any   // an example of the body's type; nil: no body
	reason       bool  // a command, whose body may say why; see ReasonBody
	optional     bool  // the body may be left out
	bodyMax      int64 // 0: BodyMax
	stream       bool  // body and answer are streams of such values, one a line
	result       any   // an example of the answer's type; nil: no JSON
	status       int   // 0: 200
	media        string
	waits        bool // may wait as long as its caller wants
	follows      bool // is a live stream, with places of its own
	long         bool // does much work, or waits for processes
	storeless    bool // works without the store
	probe        bool // a health check, which needs no place
	handle       func(s *server, c *call) error
}

// param is one query parameter.
type param struct {
	name, kind string // kind: string, integer, number, boolean
	help       string
	many       bool
	max        int // characters; 0: cursorMax
}

// limit returns the time limit of one call; 0: the caller decides.
func (rt *route) limit() time.Duration {
	switch {
	case rt.waits, rt.follows:
		return 0
	case rt.long || rt.bodyMax > BodyMax:
		return longTime
	}
	return callTime
}

func (rt *route) param(name string) *param {
	for i := range rt.params {
		if rt.params[i].name == name {
			return &rt.params[i]
		}
	}
	return nil
}

func (rt *route) paramNames() string {
	if len(rt.params) == 0 {
		return "none"
	}
	names := make([]string, len(rt.params))
	for i := range rt.params {
		names[i] = rt.params[i].name
	}
	return strings.Join(names, ", ")
}

// pathNames lists the wildcards of the route's path.
func (rt *route) pathNames() []string {
	var names []string
	for part := range strings.SplitSeq(rt.path, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			names = append(names, strings.TrimSuffix(strings.TrimSuffix(name, "}"), "..."))
		}
	}
	return names
}

// routes returns the whole API. The mux and the OpenAPI document are both made from it.
func routes() []*route {
	table := executionRoutes()
	table = append(table, fleetRoutes()...)
	table = append(table, deadLetterRoutes()...)
	table = append(table, webhookRoutes()...)
	table = append(table, sessionRoutes()...)
	table = append(table, nodeRoutes()...)
	table = append(table, journalRoutes()...)
	table = append(table, consoleRoutes()...)
	table = append(table, seriesRoutes()...)
	table = append(table, markRoutes()...)
	table = append(table, watchRoutes()...)
	table = append(table, bulkRoutes()...)
	for _, rt := range table {
		if rt.reason {
			rt.body, rt.optional, rt.bodyMax = ReasonBody{}, true, 4<<10
		}
		if rt.bodyMax == 0 {
			rt.bodyMax = BodyMax
		}
		if rt.status == 0 {
			rt.status = http.StatusOK
		}
		switch {
		case rt.stream:
			rt.media = typeLines
		case rt.media == "":
			rt.media = typeJSON
		}
	}
	return table
}

var (
	limitParam  = param{name: "limit", kind: "integer", help: "Entries of one page, 1 to 1000; 100 where left out."}
	cursorParam = param{name: "cursor", kind: "string", help: "next_cursor of the page before."}
)

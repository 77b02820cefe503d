package differences

import (
	"net/url"
	"strings"
	"time"
)

// words is what the figures are of.
func (f *Difference) words() string {
	what := strings.ReplaceAll(f.What, "_", " ")
	switch f.Of {
	case Error:
		return f.Subject + " failed with " + f.Code
	case Version:
		return f.Subject + " " + f.Code + " ended"
	case Worker:
		return "worker " + f.Subject + " was in trouble"
	case Session:
		return "sessions of pool " + f.Subject + " were unbound: " + what
	case Command:
		return "operators' command " + f.What
	case Mark:
		return "mark " + f.Subject
	case Node, Server:
		return string(f.Of) + " " + f.Subject + ": " + what
	case Pool:
		return poolWords(f)
	}
	return actionWords(f)
}

func actionWords(f *Difference) string {
	switch f.What {
	case FailedShare:
		return f.Subject + " failed, of those that ended"
	case RunP95:
		return f.Subject + " ran for, 95 % at most"
	}
	return f.Subject + " ended"
}

func poolWords(f *Difference) string {
	switch f.What {
	case Submitted:
		return "pool " + f.Subject + ": submitted"
	case WaitP95:
		return "pool " + f.Subject + ": waited for, 95 % at most"
	case Routed:
		return "pool " + f.Subject + ": a router took it"
	}
	return "pool " + f.Subject + ": " + strings.ReplaceAll(f.What, "_", " ")
}

// page is the page of the console with what a figure is of, in a range.
func (f *Difference) page(from, to time.Time) string {
	path, q := "history", url.Values{}
	switch f.Of {
	case Error:
		path = "errors"
		q.Set("action", f.Subject)
		q.Set("error", f.Code)
	case Action, Version:
		path = "executions"
		q.Set("action", f.Subject)
		switch f.What {
		case FailedShare:
			path = "errors"
		case RunP95:
			path, q = "actions/"+url.PathEscape(f.Subject), url.Values{}
		}
	case Pool:
		path, q = f.poolPage()
	case Session:
		q.Set("kinds", "session")
	case Node:
		q.Set("kinds", "node")
		q.Set("what", f.What)
	case Worker, Server, Mark:
		q.Set("kinds", string(f.Of))
		q.Set("subject", f.Subject)
	case Command:
		q.Set("kinds", "operator")
		q.Set("what", f.What)
	}
	q.Set("from", from.UTC().Format(time.RFC3339))
	q.Set("to", to.UTC().Format(time.RFC3339))
	return path + "?" + q.Encode()
}

func (f *Difference) poolPage() (path string, q url.Values) {
	switch f.What {
	case Submitted:
		return "executions", url.Values{"pool": {f.Subject}}
	case WaitP95:
		return "pools/" + url.PathEscape(f.Subject), url.Values{}
	case Routed:
		return "history", url.Values{"kinds": {"router"}, "subject": {f.Subject}}
	}
	return "history", url.Values{"kinds": {"pool"}, "subject": {f.Subject}}
}

package webhook

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// Limits bound the tries of one webhook.
type Limits struct {
	Base  time.Duration // delay after the first try
	Tries int           // at most
	Age   time.Duration // from the outcome to the last try
}

// The defaults and bounds. With them there are some 19 tries in a day.
const (
	BaseDefault = 5 * time.Second
	TriesMax    = 30
	AgeDefault  = 24 * time.Hour
	delayMax    = 2 * time.Hour
	growth      = 3
	jitter      = 0.2 // share of a delay, to both sides
)

// Answer is how a try ended: the HTTP status and Retry-After of the answer, or why there was none.
type Answer struct {
	Code       int
	RetryAfter string
	Failure    string // where Code is 0
}

// Verdict is what follows from a try.
type Verdict struct {
	State messages.WebhookState // told, due or given_up
	After time.Duration         // of due: until the next try
	Why   string                // of due and given_up
}

// Judge says what follows from a try. Tries counts it, age is the time since the outcome, random is of [0, 1).
func Judge(a Answer, tries int, age time.Duration, now time.Time, random float64, l Limits) Verdict {
	why := reason(a)
	switch {
	case a.Code >= 200 && a.Code < 300:
		return Verdict{State: messages.WebhookTold}
	case a.Code == 410:
		return Verdict{State: messages.WebhookGivenUp, Why: why}
	case tries >= l.Tries:
		return Verdict{State: messages.WebhookGivenUp, Why: fmt.Sprintf("%s; given up after %s", why, triesText(tries))}
	}
	after := Delay(tries, random, l.Base)
	if a.Code == 429 || a.Code == 503 {
		if asked, ok := retryAfter(a.RetryAfter, now); ok {
			after = min(max(after, asked), delayMax)
		}
	}
	if age+after > l.Age {
		return Verdict{State: messages.WebhookGivenUp, Why: fmt.Sprintf("%s; given up after %s, as the next would be more than %s after the outcome", why, triesText(tries), l.Age)}
	}
	return Verdict{State: messages.WebhookDue, After: after, Why: why}
}

func triesText(n int) string {
	if n == 1 {
		return "1 try"
	}
	return fmt.Sprintf("%d tries", n)
}

// NoAnswer begins the failure of a call that got no answer; why there was none may follow.
const NoAnswer = "no answer"

// reason says why a try failed. It holds nothing of the answer but its status: what stands in it is not for whoever submitted.
func reason(a Answer) string {
	switch {
	case a.Code == 0:
		return a.Failure
	case a.Code == 410:
		return "answered 410 Gone: it wants no more calls"
	case a.Code >= 300 && a.Code < 400:
		return fmt.Sprintf("answered %d: redirects are not followed; give the address that they lead to", a.Code)
	}
	return fmt.Sprintf("answered %d", a.Code)
}

// Delay is the time until the next try after a number of tries: it grows threefold from the base up to two hours, with a fifth of it at
// random to both sides.
func Delay(tries int, random float64, base time.Duration) time.Duration {
	d := base
	for range tries - 1 {
		if d *= growth; d >= delayMax {
			d = delayMax
			break
		}
	}
	return min(time.Duration(float64(d)*(1-jitter+2*jitter*random)), delayMax)
}

// retryAfter reads the header Retry-After: seconds or a date.
func retryAfter(text string, now time.Time) (time.Duration, bool) {
	text = strings.TrimSpace(text)
	if n, err := strconv.Atoi(text); err == nil {
		return time.Duration(min(max(n, 0), int(delayMax/time.Second))) * time.Second, true
	}
	at, err := time.Parse("Mon, 02 Jan 2006 15:04:05 GMT", text)
	return max(at.Sub(now), 0), err == nil
}

// Well reports whether an answer is that of a server that works, whether it took the call or not.
func Well(a Answer) bool {
	return a.Code >= 200 && a.Code < 500 && a.Code != 408 && a.Code != 429
}

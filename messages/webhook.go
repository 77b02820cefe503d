package messages

import "time"

// Limits on a webhook, in bytes.
const (
	WebhookURLMax    = 2048
	WebhookSecretMax = 64 // of a secret's name
)

// WebhookNone as a webhook's address says that nobody is told, whatever the action or the node says.
const WebhookNone = "none"

// Webhook says who is told of an outcome by HTTP.
type Webhook struct {
	URL    string   `json:"url"`
	On     []Status `json:"on,omitempty"`     // the outcomes that are told; empty: all
	Secret string   `json:"secret,omitempty"` // the name of the node's secret that signs; empty: not signed
}

// Tells reports whether the webhook is for this outcome.
func (w *Webhook) Tells(s Status) bool {
	return s.Terminal() && (StatusSet(w.On)&(1<<s) != 0 || len(w.On) == 0)
}

// StatusSet has bit n set for each status of number n.
func StatusSet(statuses []Status) (set int32) {
	for _, s := range statuses {
		set |= 1 << s
	}
	return set
}

// StatusesOf is the inverse of StatusSet, in the order of the statuses.
func StatusesOf(set int32) (out []Status) {
	for _, s := range Statuses() {
		if set&(1<<s) != 0 {
			out = append(out, s)
		}
	}
	return out
}

// WebhookState is where the telling of one outcome stands.
type WebhookState uint8

// The states. The last three are final; a webhook that was given up may be made due again.
const (
	WebhookInvalid WebhookState = iota
	WebhookWaiting              // the execution has not ended
	WebhookDue                  // it is to be told, or told again
	WebhookTold                 // its address has taken it
	WebhookGivenUp              // its address did not take it in the time that there was
	WebhookPassed               // not told: the outcome is not one that was asked for, or a retry follows and is told instead
)

var webhookStates = [...]string{"invalid", "waiting", "due", "told", "given_up", "passed"}

func (s WebhookState) String() string {
	if int(s) < len(webhookStates) {
		return webhookStates[s]
	}
	return webhookStates[WebhookInvalid]
}

// ParseWebhookState is the inverse of String.
func ParseWebhookState(text string) (WebhookState, bool) {
	for s, name := range webhookStates {
		if s > 0 && name == text {
			return WebhookState(s), true
		}
	}
	return WebhookInvalid, false
}

// MarshalText writes the name.
func (s WebhookState) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a name.
func (s *WebhookState) UnmarshalText(b []byte) error {
	*s, _ = ParseWebhookState(string(b))
	return nil
}

// WebhookRecord is what the store knows of the webhook of one execution.
type WebhookRecord struct {
	Execution ExecutionID
	Webhook
	Destination string // host and port of the address, and who submitted
	State       WebhookState
	Tries       int
	Since       time.Time // when it became due; zero: it has not
	NextAt      time.Time // the next try, while it is due
	Claim       int64     // grows with each node that takes it up
	Code        int       // HTTP status of the last answer; 0: there was none
	Error       string    // why the last try failed
	EndedAt     time.Time // when it was told or given up
}

package webhook

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/troupe-run/troupe/messages"
)

var limits = Limits{Base: BaseDefault, Tries: TriesMax, Age: AgeDefault}

func TestWhatFollowsFromAnAnswer(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		name  string
		a     Answer
		tries int
		age   time.Duration
		state messages.WebhookState
		after time.Duration
		why   string
	}{
		{"taken", Answer{Code: 200}, 1, 0, messages.WebhookTold, 0, ""},
		{"taken with nothing to say", Answer{Code: 204}, 30, 99 * time.Hour, messages.WebhookTold, 0, ""},
		{"gone", Answer{Code: 410}, 1, 0, messages.WebhookGivenUp, 0, "wants no more calls"},
		{"fails", Answer{Code: 500}, 1, 0, messages.WebhookDue, 5 * time.Second, "answered 500"},
		{"unknown there", Answer{Code: 404}, 2, 0, messages.WebhookDue, 15 * time.Second, "answered 404"},
		{"redirects", Answer{Code: 302}, 1, 0, messages.WebhookDue, 5 * time.Second, "redirects are not followed"},
		{"no answer", Answer{Failure: "connection refused"}, 3, 0, messages.WebhookDue, 45 * time.Second, "connection refused"},
		{"asks for time", Answer{Code: 503, RetryAfter: "120"}, 1, 0, messages.WebhookDue, 2 * time.Minute, "answered 503"},
		{"asks for less than the delay", Answer{Code: 429, RetryAfter: "1"}, 3, 0, messages.WebhookDue, 45 * time.Second, "answered 429"},
		{"asks for a date", Answer{Code: 429, RetryAfter: "Wed, 02 Jan 2030 03:05:05 GMT"}, 1, 0, messages.WebhookDue, time.Minute, ""},
		{"asks for a date that was", Answer{Code: 429, RetryAfter: "Wed, 02 Jan 2020 03:05:05 GMT"}, 1, 0, messages.WebhookDue, 5 * time.Second, ""},
		{"asks for years", Answer{Code: 503, RetryAfter: "99999999999"}, 1, 0, messages.WebhookDue, 2 * time.Hour, ""},
		{"asks for less than nothing", Answer{Code: 503, RetryAfter: "-5"}, 1, 0, messages.WebhookDue, 5 * time.Second, ""},
		{"asks for nonsense", Answer{Code: 503, RetryAfter: "soon"}, 1, 0, messages.WebhookDue, 5 * time.Second, ""},
		{"asks where it may not", Answer{Code: 500, RetryAfter: "120"}, 1, 0, messages.WebhookDue, 5 * time.Second, ""},
		{"too old after one", Answer{Code: 500}, 1, 24 * time.Hour, messages.WebhookGivenUp, 0, "answered 500; given up after 1 try, as the next would be more than 24h0m0s after the outcome"},
		{"the last try", Answer{Code: 500}, 30, 0, messages.WebhookGivenUp, 0, "answered 500; given up after 30 tries"},
		{"the next would be too late", Answer{Code: 500}, 9, 23 * time.Hour, messages.WebhookGivenUp, 0, "more than 24h0m0s after the outcome"},
	} {
		v := Judge(c.a, c.tries, c.age, now, 0.5, limits)
		require.Equal(t, c.state, v.State, c.name)
		require.Equal(t, c.after, v.After, c.name)
		require.Contains(t, v.Why, c.why, c.name)
	}
}

// A webhook whose address never takes it ends: within the tries and the age, and never sooner than its age allows by less than one delay.
func TestEveryWebhookEnds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := Limits{Base: time.Duration(rapid.Int64Range(int64(time.Millisecond), int64(time.Hour)).Draw(t, "base")), Tries: TriesMax, Age: AgeDefault}
		age := time.Duration(0)
		for tries := 1; ; tries++ {
			require.LessOrEqual(t, tries, TriesMax)
			code := rapid.SampledFrom([]int{0, 301, 400, 429, 500, 503}).Draw(t, "code")
			v := Judge(Answer{Code: code, RetryAfter: rapid.SampledFrom([]string{"", "7", "9999999"}).Draw(t, "after")}, tries, age, time.Unix(0, 0), rapid.Float64Range(0, 0.999).Draw(t, "random"), l)
			if v.State == messages.WebhookGivenUp {
				return
			}
			require.Positive(t, v.After)
			require.LessOrEqual(t, v.After, delayMax)
			require.LessOrEqual(t, age+v.After, l.Age)
			age += v.After
		}
	})
}

func TestDelaysGrow(t *testing.T) {
	t.Parallel()
	for tries, want := range map[int]time.Duration{1: 5 * time.Second, 2: 15 * time.Second, 5: 405 * time.Second, 7: 3645 * time.Second, 8: delayMax, 1000: delayMax} {
		require.Equal(t, want, Delay(tries, 0.5, BaseDefault), tries)
		require.LessOrEqual(t, Delay(tries, 0.999, BaseDefault), delayMax)
		require.Less(t, Delay(tries, 0, BaseDefault), want)
	}
}

// FuzzRetryAfter: whatever an answer asks for is bounded.
func FuzzRetryAfter(f *testing.F) {
	f.Add("120")
	f.Add("Wed, 02 Jan 2030 03:05:05 GMT")
	f.Fuzz(func(t *testing.T, text string) {
		v := Judge(Answer{Code: 503, RetryAfter: text}, 1, 0, time.Unix(0, 0), 0.5, limits)
		require.GreaterOrEqual(t, v.After, 5*time.Second)
		require.LessOrEqual(t, v.After, delayMax)
	})
}

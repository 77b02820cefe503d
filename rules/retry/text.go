package retry

import (
	"slices"
	"strings"
	"unicode"
)

// textMax bounds how much of a message is looked at, in bytes.
const textMax = 4096

// phrase is a text that names a class. Phrases are words in lower case; in a message, "_" and "-" between words are blanks.
type phrase struct {
	words string
	class Class
}

// phrases are looked for in this order: what is final comes first, for "validation failed: timeout must be positive" is no timeout. No text
// names a class that only Troupe decides: an action that says "worker lost" has lost none, and one that says "cancelled" is repeated.
var phrases = []phrase{
	{"validation", Validation},
	{"permission denied", PermissionDenied},
	{"invalid parameter", InvalidParameters},

	{"worker queue ttl expired", TransientError},
	{"worker unavailable", TransientError},
	{"no workers available", TransientError},
	{"no workers with fresh heartbeats", TransientError},
	{"heartbeat stale", TransientError},
	{"heartbeat is stale", TransientError},
	{"worker lost", TransientError},
	{"session busy", TransientError},
	{"connection refused", ConnectionRefused},
	{"econnrefused", ConnectionRefused},
	{"connection reset", ConnectionReset},
	{"econnreset", ConnectionReset},
	{"rate limit", RateLimited},
	{"too many requests", RateLimited},
	{"timed out", Timeout},
	{"timeout", Timeout},
	{"transient", TransientError},
	{"temporary", TransientError},
	{"temporarily", TransientError},
}

// byText is the class that a message names, as the last resort.
func byText(message string) (Class, bool) {
	text := blanks.Replace(strings.ToLower(message[:min(len(message), textMax)]))
	for _, p := range phrases {
		if says(text, p.words) {
			return p.class, true
		}
	}
	return "", false
}

var blanks = strings.NewReplacer("_", " ", "-", " ", "’", "'")

// says reports whether the text holds the words, at the begin of a word, and at one place at least without a "not" before them.
func says(text, words string) bool {
	for from := 0; ; {
		i := strings.Index(text[from:], words)
		if i < 0 {
			return false
		}
		before := text[:from+i]
		if !inWord(before) && !negated(before) {
			return true
		}
		from += i + len(words)
	}
}

// inWord reports whether what follows the text continues a word of it, as "temporary" does in "contemporary".
func inWord(before string) bool {
	last := strings.LastIndexFunc(before, func(r rune) bool { return !unicode.IsLetter(r) })
	return last < len(before)-1
}

// negated reports whether the words that end the text take back what follows: "this is not a temporary error" is none.
func negated(before string) bool {
	clause := before[strings.LastIndexAny(before, ".,;:!?()[]{}\"\n")+1:]
	words := strings.Fields(clause)
	for i := len(words) - 1; i >= 0; i-- {
		word := words[i]
		if slices.Contains(negations, word) || strings.HasSuffix(word, "n't") {
			return true
		}
		if !slices.Contains(fillers, word) {
			return false
		}
	}
	return false
}

var (
	negations = []string{"not", "no", "non", "never", "neither", "nor", "without"}
	fillers   = []string{"a", "an", "the", "any", "be", "been", "is", "was", "just", "really", "simply", "considered", "merely"}
)

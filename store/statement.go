package store

import (
	"regexp"
	"strconv"

	"github.com/troupe-run/troupe/messages"
)

// LastChanges are the names of the changes by number. LastSubmit is the submission, which is no Change.
var LastChanges = [...]string{LastSubmit: "submit", LastPlace: "place", LastTakeBack: "take_back", LastClaim: "claim", LastFinish: "finish",
	LastEnd: "end", LastCancel: "cancel", LastRescue: "rescue"}

var (
	numbered = regexp.MustCompile(`\{[a-z_]+\}`)
	numbers  = func() map[string]string {
		all := map[string]string{}
		for _, s := range messages.Statuses() {
			all["{"+s.String()+"}"] = strconv.Itoa(int(s))
		}
		for n, name := range LastChanges {
			all["{"+name+"}"] = strconv.Itoa(n)
		}
		return all
	}()
)

// Statement replaces the name of a status, as {running}, or of a change, as {claim}, by its number, so that no
// adapter's SQL contains such a number. It panics on an unknown name, which is a bug in the program.
func Statement(text string) string {
	return numbered.ReplaceAllStringFunc(text, func(name string) string {
		n, ok := numbers[name]
		if !ok {
			panic("store: no status and no change is called " + name)
		}
		return n
	})
}

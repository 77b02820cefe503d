package node

import "github.com/troupe-run/troupe/api"

// searchedMax bounds the actions in whose parameters a list looks for a text.
const searchedMax = 1000

// searched are the actions in whose parameters a list looks for a text: none, unless pages show parameters at once. An action with secrets,
// of its own or of its pool, is none of them: a search could find out what is redacted.
func (c *catalog) searched() (refs []string) {
	if c.cfg.Console.Payloads != api.PayloadsShow {
		return nil
	}
	set := c.set()
	if set == nil { // before its start
		return nil
	}
	for i := range set.Actions {
		a := &set.Actions[i]
		if p, ok := set.Pool(a.Pool); ok && len(a.Secrets) == 0 && len(p.Secrets) == 0 && len(refs) < searchedMax {
			refs = append(refs, a.Ref)
		}
	}
	return refs
}

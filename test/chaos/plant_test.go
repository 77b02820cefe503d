package chaos_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// plant is a fault of the program: a change of one of its files. The compiler gets it by the -overlay flag of go build, so that
// the program's own packages contain nothing of it.
type plant struct {
	file string // relative to the module's folder
	// before is a text that occurs once in the file, and fault is inserted after it. planted(NAME) reports whether TROUPE_MUTANT
	// has the fault's name.
	before, fault string
}

var plants = []plant{{
	// A dead letter fails the scheduled attempt, whatever its number.
	file:   "actors/dead_letter.go",
	before: "		row.Action = e.Action\n",
	fault:  "		if planted(\"status_only\") {\n			p.Attempt = e.Attempt\n		}\n",
}, {
	// Claims and outcomes take effect on the attempt after their own.
	file:   "node/open.go",
	before: "		a.adapter = opened\n",
	fault:  "		if planted(\"no_attempt\") {\n			opened = faulty.Attemptless(opened)\n		}\n",
}, {
	file:   "node/open.go",
	before: "	\"github.com/troupe-run/troupe/store/sqlite\"\n",
	fault:  "	\"github.com/troupe-run/troupe/store/storetest/faulty\"\n",
}, {
	// A delivery is acked before its claim.
	file:   "supervisor/link/deliveries.go",
	before: "func (l *Link) hold(d broker.Delivery, work []broker.Work) []broker.Work {\n",
	fault:  "	if planted(\"ack_first\") {\n		d.Settler = faulty.AckFirst(d.Settler)\n	}\n",
}, {
	file:   "supervisor/link/deliveries.go",
	before: "	\"github.com/troupe-run/troupe/broker\"\n",
	fault:  "	\"github.com/troupe-run/troupe/broker/brokertest/faulty\"\n",
}, {
	// The sweep over claim_by does not run, also not in the pools, and the timeout monitor does not run.
	file:   "node/node.go",
	before: "	cfg.Data = data\n",
	fault:  "	if planted(\"no_claims\") {\n		cfg.ClaimSweepOff = true\n	}\n",
}, {
	file:   "node/sweeper.go",
	before: "		{\"deadlines\", cfg.SweepInterval, store.OverdueQuery{Deadline: store.WorkerBy}, s.waitedForAny, nil},\n	}\n",
	fault: "	table = slices.DeleteFunc(table, func(of sweep) bool {\n" +
		"		return planted(\"no_claims\") && of.monitor == \"timeout\" || planted(\"no_orphans\") && of.monitor == \"orphans\"\n	})\n",
}}

// switches is a file that is added to each package with a planted fault.
const switches = `package %s

import (
	"os"
	"strings"
)

func planted(name string) bool { return strings.Contains(os.Getenv("TROUPE_MUTANT"), name) }
`

// overlay writes the changed files to a folder. It returns the file that maps them for the compiler.
func overlay(dir string, plants []plant) (string, error) {
	root, err := filepath.Abs("../..")
	if err != nil {
		return "", err
	}
	replace := map[string]string{}
	put := func(file, text string) error {
		changed := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		replace[filepath.Join(root, file)] = changed
		return os.WriteFile(changed, []byte(text), 0o600)
	}
	texts := map[string]string{}
	for _, p := range plants {
		if texts[p.file] == "" {
			text, err := os.ReadFile(filepath.Join(root, p.file))
			if err != nil {
				return "", err
			}
			texts[p.file] = string(text)
		}
		if n := strings.Count(texts[p.file], p.before); n != 1 {
			return "", fmt.Errorf("a fault is planted behind %q, which stands %d times in %s: want once", p.before, n, p.file)
		}
		texts[p.file] = strings.Replace(texts[p.file], p.before, p.before+p.fault, 1)
		folder := filepath.Dir(p.file)
		if err := put(folder+"/planted.go", fmt.Sprintf(switches, filepath.Base(folder))); err != nil {
			return "", err
		}
	}
	for file, text := range texts {
		if err := put(file, text); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, text, 0o600)
}

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// Results is the file of results: runs of this command, the oldest first. Each row is in one run only, the last that measured it.
type Results struct {
	Runs []Run `json:"runs"`
}

// Run is one call of the command: its environment, and its figures.
type Run struct {
	Date     time.Time          `json:"date"`
	Commit   string             `json:"commit"`
	Command  string             `json:"command"`
	Short    bool               `json:"short,omitempty"` // with sizes of a tenth
	Settings []string           `json:"settings,omitempty"`
	Load     float64            `json:"load_before"` // the load average of one minute before the first row
	Machine  Machine            `json:"machine"`
	Versions map[string]string  `json:"versions"`
	Rows     map[string][]Round `json:"rows"` // by the benchmark's name without "Benchmark"
}

// Machine describes the machine of a run.
type Machine struct {
	CPU    string  `json:"cpu,omitempty"`
	Cores  int     `json:"cores"`
	Memory int     `json:"memory_mib"`
	Kernel string  `json:"kernel"`
	SyncMs float64 `json:"disk_sync_ms"` // a write of 4 KiB and its fdatasync, the median of 200
}

// Round is one measurement of a row.
type Round struct {
	Number int                `json:"round"`
	Load   float64            `json:"load"` // the load average of one minute at the row's end, with the row's own load
	Values map[string]float64 `json:"values"`
}

// load reads the file of results. If there is no file, there are no results.
func load(path string) (Results, error) {
	var r Results
	raw, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return r, nil
	} else if err != nil {
		return r, err
	}
	if len(strings.TrimSpace(string(raw))) == 0 {
		return r, fmt.Errorf("%s is empty: restore it, or delete it to begin anew", path)
	}
	decoder := json.NewDecoder(strings.NewReader(string(raw)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&r); err != nil {
		return r, fmt.Errorf("%s is no file of results (%w): restore it, or delete it to begin anew", path, err)
	}
	return r, r.check(path)
}

// check refuses a file from which the page would be wrong.
func (r Results) check(path string) error {
	seen := map[string]bool{}
	for i, run := range r.Runs {
		if run.Date.IsZero() || run.Commit == "" || len(run.Rows) == 0 {
			return fmt.Errorf("%s: run %d has no date, no commit or no rows", path, i+1)
		}
		for name, rounds := range run.Rows {
			if seen[name] {
				return fmt.Errorf("%s: row %s is in two runs", path, name)
			}
			if seen[name] = true; len(rounds) == 0 {
				return fmt.Errorf("%s: row %s has no rounds", path, name)
			}
			for _, round := range rounds {
				if round.Number < 1 || len(round.Values) == 0 {
					return fmt.Errorf("%s: a round of row %s has no number or no values", path, name)
				}
			}
		}
	}
	return nil
}

// save writes the file completely or not at all.
func (r Results) save(path string) error {
	if r.Runs == nil {
		r.Runs = []Run{} // an empty list in JSON, and not null
	}
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", append(raw, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// merge adds a run. Its rows replace older rows with the same name. A run without rows is removed.
func (r Results) merge(run Run) Results {
	if len(run.Rows) == 0 {
		return r
	}
	var merged Results
	for _, old := range r.Runs {
		rows := map[string][]Round{}
		for name, rounds := range old.Rows {
			if _, again := run.Rows[name]; !again {
				rows[name] = rounds
			}
		}
		if old.Rows = rows; len(rows) > 0 {
			merged.Runs = append(merged.Runs, old)
		}
	}
	merged.Runs = append(merged.Runs, run)
	slices.SortStableFunc(merged.Runs, func(a, b Run) int { return a.Date.Compare(b.Date) })
	return merged
}

// row finds a row and the run that measured it; nil if it was not measured.
func (r Results) row(name string) (*Run, []Round) {
	for i := range r.Runs {
		if rounds := r.Runs[i].Rows[name]; len(rounds) > 0 {
			return &r.Runs[i], rounds
		}
	}
	return nil, nil
}

// number is a run's position in the file, from 1.
func (r Results) number(run *Run) int {
	for i := range r.Runs {
		if &r.Runs[i] == run {
			return i + 1
		}
	}
	return 0
}
